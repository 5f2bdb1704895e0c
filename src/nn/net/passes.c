/* The forward and the backward pass, with hooks and recorded segments. */
#include "net/net_internal.h"

#include "trace/trace.h"
#include "util/error.h"
#include "util/finite.h"
#include "util/strbuf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A pass under way. */
struct walk {
    struct net *net;
    enum net_pass which;
    const struct pass *pass;
    bool first;
    const struct net_hooks *hooks; /* or NULL */
    bool recorded; /* consecutive layers between which the host does nothing run as one */
};

int net_add_loss(struct net *net, const struct net_loss *loss, double *sum)
{
    const float *values = net->internals->scratch;
    size_t elems = shape_elems(&loss->blob->value.shape);

    if (net_read_blob(net, loss->blob, net->internals->scratch))
        return -1;
    for (size_t e = 0; e < elems; e++)
        *sum += (double)loss->weight * loss->share * values[e];
    return 0;
}

int net_add_losses(struct net *net, double *sum)
{
    int status = 0;

    *sum = 0;
    for (int i = 0; i < net->internals->nlosses && !status; i++)
        status = net_add_loss(net, &net->internals->losses[i], sum);
    return status;
}

/* Only one thread calls this function, so no atomic read-modify-write is needed. */
void net_note_position(struct net *net, int64_t at)
{
    struct net_internals *internals = net->internals;
    int64_t ran = atomic_load_explicit(&internals->ran, memory_order_relaxed);

    atomic_store_explicit(&internals->ran, ran + 1, memory_order_relaxed);
    atomic_store_explicit(&internals->at, at, memory_order_relaxed);
}

struct net_position net_position(const struct net *net)
{
    int64_t at = atomic_load_explicit(&net->internals->at, memory_order_relaxed);
    uint64_t done = (uint64_t)atomic_load_explicit(&net->internals->ran, memory_order_relaxed);
    const char *path;

    for (int l = 0; l < net->nlayers; l++)
        done += layer_records(&net->layers[l], &path);
    return (struct net_position){
        .layer = at < 0 ? -1 : (int)(at / 2), .backward = at >= 0 && at % 2, .done = done};
}

/* Seeds the gradients of a loss layer's tops: loss weight times share. */
static int seed_losses(struct net *net, int layer)
{
    struct net_internals *internals = net->internals;

    for (int i = 0; i < internals->nlosses; i++) {
        const struct net_loss *loss = &internals->losses[i];
        if (loss->layer != layer)
            continue;
        struct blob *blob = loss->blob;
        size_t elems = shape_elems(&blob->value.shape);
        assert(blob->wants_grad && blob->grad.data);
        for (size_t e = 0; e < elems; e++)
            internals->scratch[e] = (float)(loss->weight * loss->share);
        if (net->engine->i->write(net->engine->context, &blob->grad, internals->scratch))
            return net_layer_error(net, layer);
    }
    return 0;
}

void net_set_accumulate(struct net *net, int index, bool first)
{
    struct layer *layer = &net->layers[index];

    for (int p = 0; p < layer->nparams; p++) {
        int param = net->internals->param_of_layer[index][p];
        assert(0 <= param && param < net->nparams);
        layer->params[p]->accumulate = !first || net->internals->written[param];
        net->internals->written[param] = true;
    }
}

/* Copies `factored`, set by the syncer, to views of the parameter. */
static void refresh_views(struct net *net)
{
    for (int v = 0; v < net->internals->nviews; v++) {
        struct param *view = &net->internals->views[v];
        view->factored = net->params[net->internals->view_of[v]].factored;
    }
}

int net_run_layers(struct net *net, enum net_pass direction, int from, int to,
                   const struct pass *pass, bool first)
{
    for (int l = from, step = to >= from ? 1 : -1; l != to + step; l += step) {
        struct layer *layer = &net->layers[l];
        int64_t start = trace_begin(net->trace);
        int status;

        if (direction == NET_BACKWARD && !layer->needs_backward)
            continue;
        if (direction == NET_BACKWARD)
            net_set_accumulate(net, l, first);
        net_note_position(net, 2 * (int64_t)l + (direction == NET_BACKWARD));
        status =
            direction == NET_FORWARD ? layer_forward(layer, pass) : layer_backward(layer, pass);
        if (status)
            return net_layer_error(net, l);
        trace_span(net->trace, TRACE_COMPUTE,
                   direction == NET_BACKWARD ? TRACE_BACKWARD
                   : layer->i->is_data       ? TRACE_INPUT
                                             : TRACE_FORWARD,
                   l, start);
    }
    return 0;
}

int net_layer_forward(struct net *net, int layer, const struct pass *pass)
{
    return net_run_layers(net, NET_FORWARD, layer, layer, pass, true);
}

int net_layer_backward(struct net *net, int layer, const struct pass *pass)
{
    memset(net->internals->written, 0, (size_t)net->nparams * sizeof(bool));
    if (net->layers[layer].needs_backward && seed_losses(net, layer))
        return -1;
    return net_run_layers(net, NET_BACKWARD, layer, layer, pass, true);
}

/* Finds the groups whose hooks are called before the layer in the forward pass, after it in the
 * backward pass. between: groups whose hooks must be called between layers; else the rest. */
static int hooked_groups(const struct walk *p, int layer, bool between, int groups[])
{
    const struct net_hooks *hooks = p->hooks;
    int all[LAYER_MAX_PARAMS], n = 0, count = net_groups_of(p->net, layer, all);

    if (!hooks || !(p->which == NET_FORWARD ? hooks->before_forward : hooks->after_backward))
        return 0;
    for (int i = 0; i < count; i++) {
        bool placed = !p->recorded || !hooks->placed || hooks->placed(hooks->context, all[i]);
        bool here = p->which == NET_FORWARD || p->net->internals->last_contributor[all[i]] == layer;
        if (here && placed == between)
            groups[n++] = all[i];
    }
    return n;
}

static int call_hooks(const struct walk *p, int layer, bool between)
{
    int groups[LAYER_MAX_PARAMS], count = hooked_groups(p, layer, between, groups);

    for (int i = 0; i < count; i++)
        if ((p->which == NET_FORWARD ? p->hooks->before_forward
                                     : p->hooks->after_backward)(p->hooks->context, groups[i]))
            return -1;
    return 0;
}

static bool is_hooked(const struct walk *p, int layer)
{
    int groups[LAYER_MAX_PARAMS];

    return hooked_groups(p, layer, true, groups) > 0;
}

/* True if the host acts during the layer's forward or backward. */
static bool acts(const struct walk *p, const struct layer *layer)
{
    return layer->joins || (p->which == NET_FORWARD ? layer->i->forward : layer->i->backward);
}

static int step_of(const struct walk *p)
{
    return p->which == NET_FORWARD ? 1 : -1;
}

/* Returns the last layer of the stretch from `from` in which the host does nothing. A stretch ends
 * at hooks, at layers in which the host acts, and at a loss's gradient. */
static int stretch_end(const struct walk *p, int from)
{
    const struct net *net = p->net;
    int to = from;

    for (int l = from + step_of(p); l >= 0 && l < net->nlayers; l += step_of(p)) {
        bool idle = p->which == NET_BACKWARD && !net->layers[l].needs_backward;
        if (is_hooked(p, p->which == NET_FORWARD || idle ? l : to))
            break;
        if (idle)
            continue;
        if (acts(p, &net->layers[l]) || (p->which == NET_BACKWARD && net_has_loss(net, l, -1)))
            break;
        to = l;
    }
    return to;
}

static int run_stretch(const struct walk *p, int from, int *to)
{
    struct net *net = p->net;

    if (p->which == NET_BACKWARD && seed_losses(net, from))
        return -1;
    if (!p->recorded || acts(p, &net->layers[from]))
        return net_run_layers(net, p->which, from, from, p->pass, p->first);
    *to = stretch_end(p, from);
    return net_graphs_run(net, p->which, from, *to, p->pass, p->first);
}

/* Calls hooks that need no place between layers: at the beginning or end of a recorded pass. */
static int call_other_hooks(const struct walk *p)
{
    for (int i = 0; p->recorded && i < p->net->nlayers; i++) {
        int l = p->which == NET_FORWARD ? i : p->net->nlayers - 1 - i;
        if (call_hooks(p, l, false))
            return -1;
    }
    return 0;
}

/* Runs a pass stretch by stretch; without recording, a stretch is one layer. */
static int run_pass(struct walk p)
{
    struct net *net = p.net;
    bool forward = p.which == NET_FORWARD;

    p.recorded = net_graphs_usable(net);
    if ((p.recorded && net_graphs_prepare(net, p.pass)) || (forward && call_other_hooks(&p)))
        return -1;
    for (int from = forward ? 0 : net->nlayers - 1, to; from >= 0 && from < net->nlayers;
         from = to + step_of(&p)) {
        bool idle = !forward && !net->layers[from].needs_backward;
        to = from;
        if ((forward && call_hooks(&p, from, true)) || (!idle && run_stretch(&p, from, &to)) ||
            (!forward && call_hooks(&p, to, true)))
            return -1;
    }
    if (!forward && call_other_hooks(&p))
        return -1;
    net_note_position(net, -1);
    return 0;
}

int net_forward(struct net *net, const struct pass *pass, const struct net_hooks *hooks,
                double *loss)
{
    if (run_pass((struct walk){
            .net = net, .which = NET_FORWARD, .pass = pass, .first = true, .hooks = hooks}))
        return -1;
    return loss ? net_add_losses(net, loss) : 0;
}

int net_backward(struct net *net, const struct pass *pass, bool first,
                 const struct net_hooks *hooks)
{
    if (!net->train)
        return error_set("a net of the TEST phase has no backward pass");
    memset(net->internals->written, 0, (size_t)net->nparams * sizeof(bool));
    refresh_views(net);
    return run_pass((struct walk){
        .net = net, .which = NET_BACKWARD, .pass = pass, .first = first, .hooks = hooks});
}

int net_read_blob(const struct net *net, const struct blob *blob, float *out)
{
    return net->engine->i->read(net->engine->context, &blob->value, out);
}

/* Describes in `out` the blob's first value that is not finite, made by `layer` (NULL: no name).
 * Returns the value's index; *count, the blob's size, if all values are finite. */
static size_t find_in_blob(const struct net *net, const struct blob *blob, const char *layer,
                           size_t *count, struct strbuf *out)
{
    float *values = malloc((*count = shape_elems(&blob->value.shape)) * sizeof *values + 1);
    bool read = values && net_read_blob(net, blob, values) == 0;
    size_t at = read ? finite_begin(values, *count) : *count;

    if (at < *count)
        strbuf_printf(out, "%s%s%sblob '%s': %g at %zu of %zu", layer ? "it arose in layer '" : "",
                      layer ? layer : "", layer ? "', " : "", blob->name, (double)values[at], at,
                      *count);
    free(values);
    return at;
}

const struct layer *net_find_nonfinite(struct net *net, const struct pass *pass, struct strbuf *out)
{
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];

        if (!layer->i->is_data && net_layer_forward(net, l, pass))
            return NULL;
        for (int t = 0; t < layer->ntops; t++) {
            size_t count, at = find_in_blob(net, layer->tops[t], layer->def->name, &count, out);

            if (at < count && layer->feeder) {
                strbuf_puts(out, ", in ");
                layer_tell(layer, at / (count / (size_t)layer->tops[t]->value.shape.dim[0]), out);
            }
            if (at < count)
                return layer;
        }
    }
    return NULL;
}

int net_check_blob(struct net *net, const struct blob *blob, const struct pass *pass)
{
    struct strbuf out = {.data = NULL};
    size_t count;
    int status = find_in_blob(net, blob, NULL, &count, &out) < count ? -1 : 0;

    if (status) {
        strbuf_puts(&out, "; ");
        net_find_nonfinite(net, pass, &out);
        error_set("%s", strbuf_text(&out));
    }
    strbuf_free(&out);
    return status;
}
