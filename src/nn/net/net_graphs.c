/* Segments of passes: consecutive layers between which the host does nothing are recorded once and
 * then launched as one, if the engine can. passes.c chooses the segments.
 *
 * Host decisions inside a segment (add to a gradient or overwrite it; repack a parameter that
 * changed) make up its signature; a recording serves only passes of the same signature. The first
 * pass of a signature runs unrecorded, as libraries load and set up on first use. */
#include "net/net_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Per segment: number of recordings kept; number made, after which recording ends. */
enum { RECORDINGS = 2, MOST_RECORDINGS = 8 };

struct recording {
    bool seen; /* a pass of this signature ran */
    uint64_t signature;
    struct engine_graph *graph; /* owned */
};

/* A segment of one pass. Its first layer is its index in net_graphs.segments. */
struct segment {
    int to;   /* last layer; less than the first layer's index in the backward pass */
    int made; /* recordings made so far */
    int next; /* recordings replaced so far: next % RECORDINGS is replaced next */
    struct recording recording[RECORDINGS];
};

struct net_graphs {
    struct segment *segments[2]; /* per pass, by first layer; owned */
    uint64_t
        *versions[2]; /* per pass, per layer: versions of its parameters at the last pass; owned */
    bool *written;    /* copy of net_internals.written before a recording; owned */
    char obstacle[512]; /* why recording was given up; "": recording goes on */
};

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
    if (OWN(&net->internals->owner, net->internals->graphs, 1, "recorded passes"))
        return -1;
    graphs = net->internals->graphs;
    if (OWN(&net->internals->owner, graphs->written, net->nparams + 1, "recorded passes"))
        return -1;
    for (int direction = 0; direction < 2; direction++) {
        if (OWN(&net->internals->owner, graphs->segments[direction], n, "recorded passes") ||
            OWN(&net->internals->owner, graphs->versions[direction], n * LAYER_MAX_PARAMS,
                "recorded passes"))
            return -1;
    }
    return 0;
}

void net_graphs_close(struct net *net)
{
    struct net_graphs *graphs = net->internals->graphs;

    for (int direction = 0; graphs && direction < 2; direction++)
        for (int l = 0; graphs->segments[direction] && l < net->nlayers; l++)
            for (int r = 0; r < RECORDINGS; r++)
                forget(net, &graphs->segments[direction][l].recording[r]);
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

/* Returns the signature of the segment, and notes parameter versions for the next call. */
static uint64_t sign(struct net *net, enum net_pass direction, int from, int to, bool first)
{
    uint64_t *versions = net->internals->graphs->versions[direction], hash = mix(0, first);
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

static void count_up_statistics(struct layer *layer)
{
    for (int p = 0; p < layer->nparams; p++)
        if (layer->params[p]->statistic)
            layer->params[p]->version++;
}

/* Makes the state changes on the host that a launch leaves out. */
static void catch_up(struct net *net, enum net_pass direction, int from, int to, bool first)
{
    int step = step_of(from, to);

    for (int l = from; l != to + step; l += step) {
        struct layer *layer = &net->layers[l];
        if (direction == NET_BACKWARD && layer->needs_backward)
            net_set_accumulate(net, l, first);
        if (direction == NET_FORWARD && layer->train) {
            count_up_statistics(layer);
            if (layer->merged)
                count_up_statistics(layer->merged);
        }
    }
}

/* Records the segment. On failure notes the obstacle and raises parameter versions, so that ops
 * repeat what was only recorded. */
static int record(struct net *net, enum net_pass direction, int from, int to,
                  const struct pass *pass, bool first, struct engine_graph **out)
{
    const struct engine *engine = net->engine;
    struct net_graphs *graphs = net->internals->graphs;
    size_t written = (size_t)net->nparams * sizeof(bool);
    int status = engine->i->graph->begin(engine->context), step = step_of(from, to);

    *out = NULL;
    memcpy(graphs->written, net->internals->written, written);
    if (!status) {
        status = net_run_layers(net, direction, from, to, pass, first);
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

/* Returns the recording of that signature, else an empty recording for the signature. */
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

int net_graphs_run(struct net *net, enum net_pass direction, int from, int to,
                   const struct pass *pass, bool first)
{
    const struct engine *engine = net->engine;
    const struct engine_graph_i *i = engine->i->graph;
    struct segment *segment = &net->internals->graphs->segments[direction][from];
    uint64_t signature = sign(net, direction, from, to, first);
    struct recording *recording;
    int status;

    assert(direction == NET_FORWARD ? from <= to : to <= from);
    for (int r = 0; segment->to != to && r < RECORDINGS; r++)
        forget(net, &segment->recording[r]);
    segment->to = to;
    recording = find_recording(net, segment, signature);
    if (segment->made >= MOST_RECORDINGS || !recording->seen) {
        recording->seen = true;
        return net_run_layers(net, direction, from, to, pass, first);
    }
    if (recording->graph) {
        net_note_position(net, 2 * (int64_t)from + (direction != NET_FORWARD));
        status = i->launch(engine->context, recording->graph);
        if (status <= 0) {
            catch_up(net, direction, from, to, first);
            return status;
        }
        i->destroy(engine->context, recording->graph); /* engine memory has moved */
        recording->graph = NULL;
    }
    segment->made++;
    if (record(net, direction, from, to, pass, first, &recording->graph))
        return net_run_layers(net, direction, from, to, pass, first);
    return i->launch(engine->context, recording->graph);
}

int net_graphs_prepare(struct net *net, const struct pass *pass)
{
    return net->engine->i->graph->prepare(net->engine->context, pass);
}

struct net_recorded net_recorded(const struct net *net)
{
    const struct net_graphs *graphs = net->internals->graphs;
    struct net_recorded out = {.possible = graphs != NULL,
                               .obstacle = graphs ? graphs->obstacle : ""};

    for (int direction = 0; graphs && direction < 2; direction++)
        for (int l = 0; l < net->nlayers; l++)
            for (int r = 0; r < RECORDINGS; r++)
                out.segments[direction] +=
                    graphs->segments[direction][l].recording[r].graph != NULL;
    return out;
}
