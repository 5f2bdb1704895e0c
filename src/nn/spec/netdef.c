/* Builds the net of one phase from a file's layers.
 *
 * Every write to a blob creates a new *version* of the blob, in-place layers included. A bottom
 * means the latest version before it. A version with two or more users gets a Split behind its
 * producer, with one top for each user. */
#include "spec/netdef.h"

#include "spec/names.h"
#include "util/suggest.h"
#include "spec/upgrade.h"
#include "util/alloc.h"
#include "util/file_kind.h"
#include "util/strbuf.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct version {
    const char *blob;
    int producer;                 /* index in builder.kept */
    int top;                      /* index among the producer's tops */
    int users;                    /* number of bottoms, plus one for an explicit loss weight */
    int next;                     /* user number of the next bottom to rename */
    float loss_weight;            /* explicit weight that moves to the Split; 0: none */
    Caffe__LayerParameter *split; /* borrowed from its layer_def; NULL: none yet */
};

struct builder {
    const struct text_doc *doc;
    const struct net_state *state;
    const Caffe__LayerParameter **kept; /* layers that the state includes */
    int nkept;
    struct version *versions;
    int nversions;
    int *first_source;   /* per kept layer: index of its first bottom in `sources` */
    int *sources;        /* per bottom of all kept layers: index of its version */
    int *first_version;  /* per kept layer: version of its first top; its other tops follow */
    struct names latest; /* blob name -> version */
    struct net_def *def;
};

static const char *text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

struct text_place layer_def_place(const struct layer_def *layer)
{
    return text_place_of(layer->file, layer->line, layer->name);
}

static bool is_loss(const char *type)
{
    size_t length = strlen(type);

    return length >= 4 && strcmp(type + length - 4, "Loss") == 0;
}

static int keep_layers(struct builder *b, const Caffe__NetParameter *net)
{
    size_t nbottoms = 0, ntops = 0;

    if (net->n_layer > INT_MAX / 2)
        return error_set("%s: more layers than can be counted", b->def->file);
    if (ALLOC(b->kept, net->n_layer, "the layers") ||
        ALLOC(b->first_source, net->n_layer, "the layers") ||
        ALLOC(b->first_version, net->n_layer, "the layers"))
        return -1;
    for (size_t i = 0; i < net->n_layer; i++) {
        bool in;

        if (net_state_admits(b->state, net->layer[i], &in))
            return error_context(
                "%s", text_place(b->doc, net->layer[i], text_or_empty(net->layer[i]->name)).text);
        if (!in)
            continue;
        b->kept[b->nkept++] = net->layer[i];
        nbottoms += net->layer[i]->n_bottom;
        ntops += net->layer[i]->n_top;
    }
    if (nbottoms > INT_MAX / 2 || ntops > INT_MAX / 2)
        return error_set("%s: more blobs than can be counted", b->def->file);
    return error_status(ALLOC(b->sources, nbottoms, "the blobs") ||
                        ALLOC(b->versions, ntops, "the blobs"));
}

/* Returns true if the layer makes a new blob of that name, rather than changing one in place. */
static bool makes(const Caffe__LayerParameter *layer, const char *blob)
{
    for (size_t i = 0; i < layer->n_bottom; i++)
        if (strcmp(layer->bottom[i], blob) == 0)
            return false;
    for (size_t t = 0; t < layer->n_top; t++)
        if (strcmp(layer->top[t], blob) == 0)
            return true;
    return false;
}

/* Names a layer that makes the blob but is left out in this state: the first one that another stage
 * or level would include, else the first. */
static void find_filtered(const struct builder *b, const char *blob, char *out, size_t bytes)
{
    const Caffe__NetParameter *net = b->def->param;
    char rules[256], where[32] = "";
    bool found = false, near = false;

    for (size_t i = 0; i < net->n_layer && !near; i++) {
        const Caffe__LayerParameter *layer = net->layer[i];
        bool in;

        if (!makes(layer, blob) || net_state_admits(b->state, layer, &in) || in)
            continue;
        near = net_state_explain(b->state, layer, rules, sizeof rules);
        if (found && !near)
            continue;
        found = true;
        if (text_line(b->doc, layer) > 0)
            snprintf(where, sizeof where, " (line %d)", text_line(b->doc, layer));
        snprintf(out, bytes, "; layer '%.64s'%s makes it, but %s", text_or_empty(layer->name),
                 where, rules);
    }
}

static int unknown_bottom(const struct builder *b, int layer, size_t index)
{
    const Caffe__LayerParameter *param = b->kept[layer];
    struct suggest near = suggest_start(param->bottom[index]);
    char remark[512] = "", left_out[480] = "";

    for (int v = 0; v < b->nversions; v++)
        suggest_offer(&near, b->versions[v].blob);
    if (near.nearest != NULL)
        snprintf(remark, sizeof remark, "; did you mean '%s'?", near.nearest);
    upgrade_find_left_out(b->doc, param->bottom[index], left_out, sizeof left_out);
    if (left_out[0] != '\0')
        snprintf(remark, sizeof remark, "; %s", left_out);
    find_filtered(b, param->bottom[index], remark, sizeof remark);
    for (int later = layer; later < b->nkept; later++)
        if (makes(b->kept[later], param->bottom[index]))
            snprintf(remark, sizeof remark, "; layer '%s' produces it only afterwards",
                     text_or_empty(b->kept[later]->name));
    return error_set("%s: Unknown bottom blob '%s' (layer '%s', bottom index %zu)%s",
                     text_place(b->doc, param, text_or_empty(param->name)).text,
                     param->bottom[index], text_or_empty(param->name), index, remark);
}

/* Binds the bottoms of one layer to versions, and makes versions of its tops. */
static int bind_layer(struct builder *b, int layer, int *nsources)
{
    const Caffe__LayerParameter *param = b->kept[layer];

    b->first_source[layer] = *nsources;
    for (size_t i = 0; i < param->n_bottom; i++) {
        int v = names_get(&b->latest, param->bottom[i]);

        if (v < 0)
            return unknown_bottom(b, layer, i);
        b->versions[v].users++;
        b->sources[(*nsources)++] = v;
    }
    b->first_version[layer] = b->nversions;
    for (size_t i = 0; i < param->n_top; i++) {
        struct version *version = &b->versions[b->nversions];

        *version = (struct version){.blob = param->top[i], .producer = layer, .top = (int)i};
        if (i < param->n_loss_weight && param->loss_weight[i] != 0) {
            version->loss_weight = param->loss_weight[i];
            version->users = version->next = 1;
        }
        if (names_set(&b->latest, param->top[i], b->nversions++))
            return -1;
    }
    return 0;
}

/* Returns <blob>_<layer>_<top>_split, plus _<user> if user >= 0. The caller frees the name. */
static char *split_name(const struct builder *b, const struct version *version, int user)
{
    struct strbuf name = {0};

    strbuf_printf(&name, "%s_%s_%d_split", version->blob,
                  text_or_empty(b->kept[version->producer]->name), version->top);
    if (user >= 0)
        strbuf_printf(&name, "_%d", user);
    return strbuf_take(&name);
}

static int set_loss_weights(struct layer_def *layer, const struct version *versions)
{
    const Caffe__LayerParameter *param = layer->param;
    bool loss = is_loss(layer->type);
    size_t given = param->n_loss_weight, n = (size_t)layer->ntops;

    if (loss && n == 0)
        n = 1;
    if (given > 0 && given != n)
        return error_set("%s: expected loss_weight once per top (%zu) or not at all, found %zu",
                         layer_def_place(layer).text, n, given);
    layer->nweights = (int)n;
    if (ALLOC(layer->loss_weights, n, "loss weights"))
        return -1;
    for (size_t i = 0; i < given; i++)
        layer->loss_weights[i] = param->loss_weight[i];
    if (given == 0 && loss)
        layer->loss_weights[0] = 1;
    /* The explicit weight of a blob that other layers read, too, is the first user of its Split. */
    for (int i = 0; i < layer->ntops; i++)
        if (versions[i].loss_weight != 0 && versions[i].users > 1)
            layer->loss_weights[i] = 0;
    return 0;
}

/* Fills in the next free layer of the net from its message. */
static struct layer_def *add_layer(struct builder *b, const Caffe__LayerParameter *param, int line)
{
    struct layer_def *layer = &b->def->layers[b->def->nlayers++];

    *layer = (struct layer_def){.file = b->def->file,
                                .line = line,
                                .param = param,
                                .name = text_or_empty(param->name),
                                .type = text_or_empty(param->type),
                                .nbottoms = (int)param->n_bottom,
                                .ntops = (int)param->n_top,
                                .bottoms = param->bottom,
                                .tops = param->top};
    return layer;
}

/* Adds a layer of the file. A bottom that several layers read becomes a top of its Split. */
static int emit_layer(struct builder *b, int index)
{
    const Caffe__LayerParameter *param = b->kept[index];
    struct layer_def *layer = add_layer(b, param, text_line(b->doc, param));

    layer->bottoms = layer->renamed =
        alloc_array(param->n_bottom, sizeof *layer->renamed, "a layer");
    if (layer->renamed == NULL)
        return -1;
    for (size_t i = 0; i < param->n_bottom; i++) {
        struct version *version = &b->versions[b->sources[b->first_source[index] + (int)i]];

        layer->renamed[i] =
            version->users > 1 ? version->split->top[version->next++] : param->bottom[i];
    }
    if (param->n_propagate_down > 0 && param->n_propagate_down != param->n_bottom)
        return error_set(
            "%s: expected propagate_down once per bottom (%d) or not at all, found %zu",
            layer_def_place(layer).text, layer->nbottoms, param->n_propagate_down);
    return set_loss_weights(layer, &b->versions[b->first_version[index]]);
}

/* Makes the message of a Split, as saved models have it. */
static int make_split(const struct builder *b, struct version *version)
{
    Caffe__LayerParameter *param;
    size_t ntops = (size_t)version->users;

    if (ALLOC(param, 1, "a Split"))
        return -1;
    caffe__layer_parameter__init(param);
    version->split = param;
    if (ALLOC(param->bottom, 1, "a Split") || ALLOC(param->top, ntops, "a Split") ||
        (version->loss_weight != 0 && ALLOC(param->loss_weight, ntops, "a Split")))
        return -1;
    param->n_bottom = 1;
    if (version->loss_weight != 0) {
        param->loss_weight[0] = version->loss_weight;
        param->n_loss_weight = ntops;
    }
    if (alloc_text(&param->type, "Split", "a Split") ||
        alloc_text(&param->bottom[0], version->blob, "a Split"))
        return -1;
    param->name = split_name(b, version, -1);
    while (param->n_top < ntops &&
           (param->top[param->n_top] = split_name(b, version, (int)param->n_top)) != NULL)
        param->n_top++;
    return param->name != NULL && param->n_top == ntops ? 0 : -1;
}

static int emit_split(struct builder *b, struct version *version)
{
    size_t users = (size_t)version->users;
    int status = make_split(b, version);
    struct layer_def *layer;

    if (version->split == NULL)
        return status;
    layer = add_layer(b, version->split, text_line(b->doc, b->kept[version->producer]));
    layer->split = version->split;
    layer->inserted = true;
    layer->nweights = version->users;
    if (ALLOC(layer->loss_weights, users, "loss weights"))
        return -1;
    layer->loss_weights[0] = version->loss_weight;
    return status;
}

static int emit_all(struct builder *b)
{
    size_t nlayers = (size_t)b->nkept;

    for (int v = 0; v < b->nversions; v++)
        nlayers += b->versions[v].users > 1;
    if (ALLOC(b->def->layers, nlayers, "the layers"))
        return -1;
    for (int i = 0; i < b->nkept; i++) {
        if (emit_layer(b, i))
            return -1;
        for (size_t t = 0; t < b->kept[i]->n_top; t++) {
            struct version *version = &b->versions[b->first_version[i] + (int)t];

            if (version->users > 1 && emit_split(b, version))
                return -1;
        }
    }
    return 0;
}

static int two_sources(const struct builder *b, const struct layer_def *layer, int top,
                       int producer)
{
    const struct layer_def *first = &b->def->layers[producer];
    struct layer_def place = *layer;
    int line = text_line(b->doc, layer->param->top[top]); /* known for net-level inputs */
    const char *remark = "";

    if (line > 0)
        place.line = line;
    if (first == layer)
        remark = ", which names it twice";
    if ((size_t)top < layer->param->n_bottom &&
        strcmp(layer->param->bottom[top], layer->tops[top]) == 0)
        remark = "; it cannot work in place, because another layer reads the same version of its "
                 "bottom: give the top another name";
    return error_set(
        "%s: Top blob '%s' produced by multiple sources: expected one, found layer '%s' "
        "(line %d) before%s",
        layer_def_place(&place).text, layer->tops[top], first->name, first->line, remark);
}

/* Checks that each top is new, or in place: the bottom of the same index of its layer. */
static int check_tops(const struct builder *b)
{
    struct names producers = {0};
    int status = 0;

    for (int i = 0; i < b->def->nlayers && status == 0; i++) {
        const struct layer_def *layer = &b->def->layers[i];

        for (int t = 0; t < layer->ntops && status == 0; t++) {
            int producer = names_get(&producers, layer->tops[t]);
            bool in_place = t < layer->nbottoms && strcmp(layer->bottoms[t], layer->tops[t]) == 0;

            if (producer >= 0 && !in_place)
                status = two_sources(b, layer, t, producer);
            else if (producer < 0)
                status = names_set(&producers, layer->tops[t], i);
        }
    }
    names_free(&producers);
    return status;
}

static int refuse_no_layers(const struct builder *b, const Caffe__NetParameter *net)
{
    const char *kind = file_kind(b->def->file);

    if (net->n_layer == 0)
        return error_set("%s: expected a net, found %s", b->def->file, kind ? kind : "no layer");
    return error_set("%s: the net's include and exclude rules leave no layer in phase %s",
                     b->def->file,
                     b->state->phase ? "TEST" : "TRAIN; for phase TEST, use --phase=TEST");
}

static int build(struct builder *b, const Caffe__NetParameter *net)
{
    int nsources = 0;

    b->def->name = text_or_empty(net->name);
    b->def->file = b->doc != NULL ? text_name(b->doc) : "net";
    if (net->n_layers > 0 || net->n_input > 0)
        return error_set("%s: expected a net in today's form, found fields of an old one",
                         b->def->file);
    if (keep_layers(b, net))
        return -1;
    if (b->nkept == 0)
        return refuse_no_layers(b, net);
    for (int i = 0; i < b->nkept; i++)
        if (bind_layer(b, i, &nsources))
            return -1;
    return error_status(emit_all(b) || check_tops(b));
}

int net_def_create(const struct text_doc *doc, const Caffe__NetParameter *param, int phase,
                   const Caffe__NetState *added, struct net_def **out)
{
    struct net_state state = {.phase = phase};
    struct builder b = {.doc = doc, .state = &state};
    int status = error_status(net_state_merge(&state, param->state) ||
                              net_state_merge(&state, added) || ALLOC(b.def, 1, "a net"));

    state.phase = phase; /* files agree with `phase`; a stray phase must not change the net */
    if (!status) {
        b.def->param = param;
        status = build(&b, param);
    }
    free(b.kept);
    free(b.first_source);
    free(b.first_version);
    free(b.sources);
    free(b.versions);
    names_free(&b.latest);
    net_state_free(&state);
    if (status)
        net_def_destroy(b.def);
    else
        *out = b.def;
    return status;
}

void net_def_destroy(struct net_def *def)
{
    if (def == NULL)
        return;
    for (int i = 0; i < def->nlayers; i++) {
        struct layer_def *layer = &def->layers[i];

        if (layer->split != NULL)
            caffe__layer_parameter__free_unpacked(layer->split, NULL);
        free(layer->renamed);
        free(layer->loss_weights);
    }
    free(def->layers);
    free(def);
}
