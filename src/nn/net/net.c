/* The net as a whole: creation from the definition, look-ups, and destruction. */
#include "net/net_internal.h"

#include "util/strbuf.h"
#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Replaces names of Splits' tops in the error message by the blob's own name. */
static void name_copies(const struct net_def *def)
{
    for (int l = 0; l < def->nlayers; l++)
        for (int t = def->layers[l].inserted ? def->layers[l].ntops - 1 : -1; t >= 0; t--)
            for (const char *copy = def->layers[l].tops[t], *at;
                 (at = strstr(error_text(), copy)) != NULL;)
                error_set("%.*s%s%s", (int)(at - error_text()), error_text(),
                          def->layers[l].bottoms[0], at + strlen(copy));
}

int net_layer_error(const struct net *net, int layer)
{
    const struct layer_def *def = &net->def->layers[layer];
    char own[256];
    int length = snprintf(own, sizeof own, "layer '%s': ", def->name);

    name_copies(net->def);
    /* the engine's message begins with the layer's name, too */
    if (length < (int)sizeof own && strncmp(error_text(), own, (size_t)length) == 0)
        error_set("%s", error_text() + length);
    return error_context("%s (%s)", layer_def_place(def).text, def->type);
}

int net_create(const struct net_def *def, bool train, const struct layer_env *env,
               const struct net *share, struct net **out)
{
    struct net *net;

    *out = NULL;
    if (train && share)
        return error_set("a net of the TRAIN phase cannot use the parameters of another");
    if (ALLOC(net, 1, "a net"))
        return -1;
    net->def = def;
    net->train = train;
    net->owner_of_params = share;
    if (ALLOC(net->internals, 1, "a net"))
        goto fail;
    net_note_position(net, -1);
    if (net_wire_layers(net, env) || layer_align_data(net->layers, net->nlayers, env) ||
        net_make_params(net, env) || net_find_needs(net) || net_make_groups(net) ||
        net_check_classes(net, env))
        goto fail;
    *out = net;
    return 0;
fail:
    net_destroy(net);
    return -1;
}

struct layer *net_find_layer(const struct net *net, const char *name)
{
    for (int l = net->nlayers - 1; l >= 0; l--)
        if (strcmp(net->layers[l].def->name, name) == 0)
            return &net->layers[l];
    return NULL;
}

bool net_is_assumed(const struct net *net)
{
    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].assumed)
            return true;
    return false;
}

struct blob *net_find_blob(const struct net *net, const char *name)
{
    for (int i = net->nblobs - 1; i >= 0; i--)
        if (strcmp(net->blobs[i]->name, name) == 0)
            return net->blobs[i];
    return NULL;
}

int net_blob_number(const struct net *net, const struct blob *blob)
{
    int i = 0;

    while (net->blobs[i] != blob)
        i++;
    return i;
}

void net_factors(const struct net *net, int group, const float **bottom, const float **top_grad)
{
    net->engine->i->factors(net->layers[net->groups[group].layer].ops[0], bottom, top_grad);
}

void net_touch(struct net *net, int group)
{
    const struct group *g = &net->groups[group];
    struct net_internals *internals = net->internals;

    for (int i = g->first; i < g->first + g->nparams; i++)
        net->params[i].version++;
    for (int v = 0; v < internals->nviews; v++)
        internals->views[v].version = net->params[internals->view_of[v]].version;
}

/* True if the host has arenas of its own beside the engine's. */
static bool has_mirror(const struct net *net)
{
    return net->values != net->engine_values;
}

float *net_host_value(const struct net *net, const struct param *param)
{
    return has_mirror(net) ? net->values + (param->value - net->engine_values) : param->value;
}

int net_explain(const char *notices)
{
    struct strbuf text = {.data = NULL};
    size_t length;

    for (const char *line = notices; line && *line; line += length) {
        const char *at = strstr(line, "assuming ");
        length = strcspn(line, "\n");
        length += line[length] == '\n';
        if (at && at < line + length)
            strbuf_append(&text, line, length);
    }
    error_set("%.2000s%s", strbuf_text(&text), error_text());
    strbuf_free(&text);
    return -1;
}

int net_param_number(const struct net *net, int layer, int param)
{
    assert(0 <= param && param < net->layers[layer].nparams);
    return net->internals->param_of_layer[layer][param];
}

int net_push_values(struct net *net, int group)
{
    const struct device *device = &net->engine->device;
    const struct group *g = &net->groups[group];

    net_touch(net, group);
    if (!has_mirror(net))
        return 0;
    return device->i->write(device->context, net->engine_values + g->begin, net->values + g->begin,
                            g->elems);
}

int net_pull_values(struct net *net)
{
    const struct device *device = &net->engine->device;

    for (int i = 0; i < net->ngroups && has_mirror(net); i++) {
        const struct group *g = &net->groups[i];
        if (device->i->read(device->context, net->engine_values + g->begin, net->values + g->begin,
                            g->elems))
            return -1;
    }
    return 0;
}

int net_seek(struct net *net, uint64_t first_sample)
{
    uint64_t first = 0;

    for (int l = 0; l < net->nlayers; l++) {
        struct layer *layer = &net->layers[l];
        uint64_t own = (uint64_t)layer->own_batch, at = first_sample;

        first = first ? first : own;
        if (own !=
            first) /* converts from samples of the first data layer to samples of this layer */
            at = first_sample / first * own + first_sample % first * own / first;
        if (layer->i->seek && layer->i->seek(layer, at))
            return net_layer_error(net, l);
    }
    return 0;
}

void net_input_waits(const struct net *net, uint64_t *times, double *seconds)
{
    *times = 0;
    *seconds = 0;
    for (int l = 0; l < net->nlayers; l++) {
        uint64_t layer_times;
        double layer_seconds;
        layer_waits(&net->layers[l], &layer_times, &layer_seconds);
        *times += layer_times;
        *seconds += layer_seconds;
    }
}

size_t net_memory(const struct net *net)
{
    return net->internals->bytes;
}

int net_batch(const struct net *net)
{
    for (int i = 0; i < net->nlayers; i++)
        if (net->layers[i].i->is_data && net->layers[i].ntops > 0)
            return (int)shape_dim(&net->layers[i].tops[0]->value.shape, 0);
    return 0;
}

static void destroy_layers(struct net *net)
{
    for (int l = 0; l < net->nlayers; l++) {
        struct layer *layer = &net->layers[l];
        for (int i = 0; i < layer->nops; i++)
            op_destroy(layer->ops[i]);
        free(layer->ops);
        if (layer->i && layer->i->destroy)
            layer->i->destroy(layer);
        else
            free(layer->state);
    }
    for (int i = 0; i < net->nblobs && net->engine; i++) {
        net->engine->i->release(net->engine->context, &net->blobs[i]->value);
        net->engine->i->release(net->engine->context, &net->blobs[i]->grad);
    }
}

void net_destroy(struct net *net)
{
    if (!net)
        return;
    if (net->internals) {
        net_graphs_close(net);
        destroy_layers(net);
        owner_free(&net->internals->owner);
    }
    free(net->internals);
    free(net);
}
