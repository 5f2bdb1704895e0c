/* Passes in segments: layers between which the host has nothing to do are recorded once and then
 * launched as one, where the engine can.
 *
 * The host acts at data layers, where a loss's gradient is written, and where hooks have their
 * place. What it decides inside a segment - whether a gradient is added to, whether a parameter
 * changed since and must be laid out again - makes the segment's signature: a recording serves
 * passes of the same signature alone. The first pass of a signature runs as ever, since libraries
 * load and set up what they need on first use. */
#include "net/net_internal.h"

#include "util/error.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Recordings per segment that are kept, and that are made before the net gives up on it. */
enum { RECORDINGS = 2, MOST_RECORDINGS = 8 };

struct recording {
    bool seen; /* a pass of this signature ran */
    uint64_t signature;
    struct engine_graph *graph; /* owned */
};

/* Begins at layer `from` of one pass. */
struct segment {
    int to;   /* its last layer; below `from` in the backward pass */
    int made; /* recordings so far */
    int next; /* which one is replaced next */
    struct recording recording[RECORDINGS];
};

struct net_graphs {
    struct segment *segments[2]; /* per pass and layer; owned */
    uint64_t *versions[2];       /* of each layer's parameters when the pass last ran; owned */
    bool *written;               /* net_internals' as it was before a recording; owned */
    char obstacle[512];          /* why nothing is recorded any more; "" where it is */
};

enum { FORWARD, BACKWARD };

static void forget(struct net *net, struct recording *recording)
{
    if (recording->graph)
        net->engine->i->graph->destroy(net->engine->context, recording->graph);
    *recording = (struct recording){.seen = false};
}

int net_graphs_open(struct net *net)
{
    size_t n = (size_t)net->nlayers + 1;
    struct net_graphs *graphs;

    if (!net->engine->i->graph)
        return 0;
    graphs = net->internals->graphs = calloc(1, sizeof *graphs);
    if (!graphs)
        return error_memory(sizeof *graphs, "recorded passes");
    graphs->written = calloc((size_t)net->nparams + 1, sizeof(bool));
    if (!graphs->written)
        return error_memory((size_t)net->nparams * sizeof(bool), "recorded passes");
    for (int pass = 0; pass < 2; pass++) {
        graphs->segments[pass] = calloc(n, sizeof(struct segment));
        graphs->versions[pass] = calloc(n * LAYER_MAX_PARAMS, sizeof(uint64_t));
        if (!graphs->segments[pass] || !graphs->versions[pass])
            return error_memory(n * sizeof(struct segment), "recorded passes");
    }
    return 0;
}

void net_graphs_close(struct net *net)
{
    struct net_graphs *graphs = net->internals->graphs;

    for (int pass = 0; graphs && pass < 2; pass++) {
        for (int l = 0; graphs->segments[pass] && l < net->nlayers; l++)
            for (int r = 0; r < RECORDINGS; r++)
                forget(net, &graphs->segments[pass][l].recording[r]);
        free(graphs->segments[pass]);
        free(graphs->versions[pass]);
    }
    if (graphs)
        free(graphs->written);
    free(graphs);
    net->internals->graphs = NULL;
}

bool net_graphs_usable(const struct net *net)
{
    const struct net_graphs *graphs = net->internals->graphs;

    return graphs && !graphs->obstacle[0] && !net->trace &&
           net->engine->i->graph->available(net->engine->context);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

static int step_of(int from, int to)
{
    return to >= from ? 1 : -1;
}

/* What ops of the segment decide on the host; notes the versions for the next time. */
static uint64_t sign(struct net *net, int pass, int from, int to, bool first)
{
    uint64_t *versions = net->internals->graphs->versions[pass], hash = mix(0, first);
    int step = step_of(from, to);

    for (int l = from; l != to + step; l += step)
        for (int p = 0; p < net->layers[l].nparams; p++) {
            const struct param *param = net->layers[l].params[p];
            uint64_t *last = &versions[l * LAYER_MAX_PARAMS + p];
            hash = mix(hash, (uint64_t)(*last != param->version) << 1 | param->factored);
            *last = param->version;
        }
    return hash;
}

static int run_directly(struct net *net, int pass, int from, int to, const struct run *run,
                        bool first)
{
    int step = step_of(from, to);

    for (int l = from; l != to + step; l += step) {
        if (pass == BACKWARD && net->layers[l].needs_backward)
            net_set_accumulate(net, l, first);
        if (pass == FORWARD ? net_layer_forward(net, l, run) : net_run_backward(net, l, run))
            return -1;
    }
    return 0;
}

/* A launch does for the host what the ops would have done there. */
static void catch_up(struct net *net, int pass, int from, int to, bool first)
{
    int step = step_of(from, to);

    for (int l = from; l != to + step; l += step) {
        struct layer *layer = &net->layers[l];
        if (pass == BACKWARD && layer->needs_backward)
            net_set_accumulate(net, l, first);
        for (int p = 0; pass == FORWARD && layer->train && p < layer->nparams; p++)
            if (layer->params[p]->statistic)
                layer->params[p]->version++;
        for (int p = 0;
             pass == FORWARD && layer->train && layer->merged && p < layer->merged->nparams; p++)
            if (layer->merged->params[p]->statistic)
                layer->merged->params[p]->version++;
    }
}

/* Records the segment; where that fails, says why and sees to it that the ops do again what was
 * only recorded. */
static int record(struct net *net, int pass, int from, int to, const struct run *run, bool first,
                  struct engine_graph **out)
{
    const struct engine *engine = net->engine;
    struct net_graphs *graphs = net->internals->graphs;
    size_t written = (size_t)net->nparams * sizeof(bool);
    int status = engine->i->graph->begin(engine->context), step = step_of(from, to);

    *out = NULL;
    memcpy(graphs->written, net->internals->written, written);
    if (!status) {
        status = run_directly(net, pass, from, to, run, first);
        if (status)
            snprintf(graphs->obstacle, sizeof graphs->obstacle, "%s", error_text());
        if (engine->i->graph->end(engine->context, out))
            status = -1;
    }
    if (!status)
        return 0;
    if (!graphs->obstacle[0])
        snprintf(graphs->obstacle, sizeof graphs->obstacle, "%s", error_text());
    if (*out)
        engine->i->graph->destroy(engine->context, *out);
    *out = NULL;
    memcpy(net->internals->written, graphs->written, written);
    for (int l = from; l != to + step; l += step)
        for (int p = 0; p < net->layers[l].nparams; p++)
            net->layers[l].params[p]->version++;
    return -1;
}

/* The place of that signature, emptied for it if it is new. */
static struct recording *find_recording(struct net *net, struct segment *segment,
                                        uint64_t signature)
{
    struct recording *recording;

    for (int r = 0; r < RECORDINGS; r++)
        if (segment->recording[r].seen && segment->recording[r].signature == signature)
            return &segment->recording[r];
    recording = &segment->recording[segment->next++ % RECORDINGS];
    forget(net, recording);
    recording->signature = signature;
    return recording;
}

static int run_segment(struct net *net, int pass, int from, int to, const struct run *run,
                       bool first)
{
    const struct engine *engine = net->engine;
    const struct engine_graph_i *i = engine->i->graph;
    struct segment *segment = &net->internals->graphs->segments[pass][from];
    uint64_t signature = sign(net, pass, from, to, first);
    struct recording *recording;
    int status;

    assert(pass == FORWARD ? from <= to : to <= from);
    for (int r = 0; segment->to != to && r < RECORDINGS; r++)
        forget(net, &segment->recording[r]);
    segment->to = to;
    recording = find_recording(net, segment, signature);
    if (segment->made >= MOST_RECORDINGS || !recording->seen) {
        recording->seen = true;
        return run_directly(net, pass, from, to, run, first);
    }
    if (recording->graph) {
        net_note_position(net, 2 * (int64_t)from + (pass != FORWARD));
        status = i->launch(engine->context, recording->graph);
        if (status <= 0) {
            catch_up(net, pass, from, to, first);
            return status;
        }
        i->destroy(engine->context, recording->graph); /* memory has moved since */
        recording->graph = NULL;
    }
    segment->made++;
    if (record(net, pass, from, to, run, first, &recording->graph))
        return run_directly(net, pass, from, to, run, first);
    return i->launch(engine->context, recording->graph);
}

/* Whether the hooks of that group have their place between layers. */
static bool placed(const struct net_hooks *hooks, int group)
{
    return !hooks->placed || hooks->placed(hooks->context, group);
}

static bool waits_before(const struct net *net, int layer, const struct net_hooks *hooks)
{
    int groups[LAYER_MAX_PARAMS], count = net_groups_of(net, layer, groups);

    for (int i = 0; hooks && hooks->before_forward && i < count; i++)
        if (placed(hooks, groups[i]))
            return true;
    return false;
}

static bool tells_after(const struct net *net, int layer, const struct net_hooks *hooks)
{
    int groups[LAYER_MAX_PARAMS], count = net_groups_of(net, layer, groups);

    for (int i = 0; hooks && hooks->after_backward && i < count; i++)
        if (net->internals->last_contributor[groups[i]] == layer && placed(hooks, groups[i]))
            return true;
    return false;
}

static int call_before(const struct net *net, int layer, const struct net_hooks *hooks,
                       bool in_place)
{
    int groups[LAYER_MAX_PARAMS], count = net_groups_of(net, layer, groups);

    for (int i = 0; hooks && hooks->before_forward && i < count; i++)
        if (placed(hooks, groups[i]) == in_place &&
            hooks->before_forward(hooks->context, groups[i]))
            return -1;
    return 0;
}

static int call_after(const struct net *net, int layer, const struct net_hooks *hooks,
                      bool in_place)
{
    int groups[LAYER_MAX_PARAMS], count = net_groups_of(net, layer, groups);

    for (int i = 0; hooks && hooks->after_backward && i < count; i++)
        if (net->internals->last_contributor[groups[i]] == layer &&
            placed(hooks, groups[i]) == in_place &&
            hooks->after_backward(hooks->context, groups[i]))
            return -1;
    return 0;
}

/* Whether the host acts in the layer's own forward or backward. */
static bool acts(const struct layer *layer, bool own)
{
    return own && !layer->i->runs_ops;
}

int net_forward_recorded(struct net *net, const struct run *run, const struct net_hooks *hooks)
{
    if (net->engine->i->graph->prepare(net->engine->context, run))
        return -1;
    for (int l = 0; l < net->nlayers; l++)
        if (call_before(net, l, hooks, false))
            return -1;
    for (int from = 0, to; from < net->nlayers; from = to + 1) {
        to = from;
        if (call_before(net, from, hooks, true))
            return -1;
        if (acts(&net->layers[from], net->layers[from].i->forward != NULL)) {
            if (net_layer_forward(net, from, run))
                return -1;
            continue;
        }
        while (to + 1 < net->nlayers && !waits_before(net, to + 1, hooks) &&
               !acts(&net->layers[to + 1], net->layers[to + 1].i->forward != NULL))
            to++;
        if (run_segment(net, FORWARD, from, to, run, true))
            return -1;
    }
    return 0;
}

/* The last layer of the segment of backward that begins at `from`. */
static int backward_end(const struct net *net, int from, const struct net_hooks *hooks)
{
    int to = from;

    for (int l = from - 1; l >= 0 && !tells_after(net, to, hooks); l--) {
        if (!net->layers[l].needs_backward)
            continue;
        if (acts(&net->layers[l], net->layers[l].i->backward != NULL) || net_seeds_loss(net, l))
            break;
        to = l;
    }
    return to;
}

int net_backward_recorded(struct net *net, const struct run *run, bool first,
                          const struct net_hooks *hooks)
{
    if (net->engine->i->graph->prepare(net->engine->context, run))
        return -1;
    for (int from = net->nlayers - 1, to; from >= 0; from = to - 1) {
        const struct layer *layer = &net->layers[from];
        bool alone = acts(layer, layer->i->backward != NULL);
        to = from;
        if (!layer->needs_backward)
            continue;
        if (net_seed_losses(net, from))
            return net_layer_error(net, from);
        if (!alone)
            to = backward_end(net, from, hooks);
        if ((alone ? run_directly(net, BACKWARD, from, to, run, first)
                   : run_segment(net, BACKWARD, from, to, run, first)) ||
            call_after(net, to, hooks, true))
            return -1;
    }
    for (int l = net->nlayers - 1; l >= 0; l--)
        if (net->layers[l].needs_backward && call_after(net, l, hooks, false))
            return -1;
    return 0;
}

struct net_recorded net_recorded(const struct net *net)
{
    const struct net_graphs *graphs = net->internals->graphs;
    struct net_recorded out = {.possible = graphs != NULL,
                               .obstacle = graphs ? graphs->obstacle : ""};

    for (int pass = 0; graphs && pass < 2; pass++)
        for (int l = 0; l < net->nlayers; l++)
            for (int r = 0; r < RECORDINGS; r++)
                out.segments[pass] += graphs->segments[pass][l].recording[r].graph != NULL;
    return out;
}
