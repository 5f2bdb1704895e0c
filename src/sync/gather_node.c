/* Adding up within a node, in shared memory. A rank that has posted a bucket says so in the
 * bucket's cell of the window; once all have, the ranks' wire threads add a slice each into the
 * leader's gradient, and the last slice lets the leader start the bucket's traffic. What that
 * brings lands in the parameters that all train from; the leader says so in the cell, and the
 * others' waits end. Slices are added along the fixed tree over the node's ranks, so the sum has
 * the same bits whoever comes first.
 *
 * Of sufficient factors nothing is added: every rank puts its rows where the leader sends them
 * from, as if they were further micro-batches of the leader's. */
#include "sync/gather.h"

#include "engine/tree_sum.h"
#include "sync/factors.h"
#include "sync/sync_internal.h"

#include <stdlib.h>
#include <string.h>

/* What is shared of a bucket; counts since the start. Nobody posts an iteration before the last one
 * is done, so that they cannot be mistaken. */
struct cell {
    _Alignas(64) _Atomic int64_t arrived; /* gradients posted, of all ranks */
    _Atomic int64_t added;                /* slices */
    _Atomic int64_t done;                 /* iterations whose new parameters are in place */
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters between processes must not need a lock");

struct node_gather {
    struct node_window window;
    struct cell *cells; /* in the window, per bucket */
    size_t *rows;       /* per bucket: where its factors begin in the window, in floats */
    int64_t *posted;    /* per bucket: iterations, by this rank */
    bool *added;        /* per bucket: this rank's part is done */
    int *open;          /* buckets posted, and (leader) not travelling or (others) not done */
    int nopen;
    const float **slices; /* per rank of the node: room for where its part of a sum is */
};

static size_t line_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static bool moves_factors(const struct sync *sync, int bucket)
{
    const struct scheme *scheme = bucket_of(sync, bucket)->scheme;

    return scheme && scheme->factors;
}

/* How many ranks add: a small gradient is not worth the way to the others. */
static int adders(const struct sync *sync, int bucket)
{
    enum { WORTH_SLICING = 16384 }; /* floats */

    if (moves_factors(sync, bucket))
        return 0;
    return bucket_of(sync, bucket)->elems < WORTH_SLICING ? 1 : sync->options.node->nranks;
}

/* ---- life ---- */

static int open_state(struct sync *sync, int nranks, size_t *bytes)
{
    size_t buckets = (size_t)sync->plan->nbuckets + 1;
    struct node_gather *state = calloc(1, sizeof *state);

    sync->gathering = state;
    if (!state)
        return error_memory(sizeof *state, "the node's buckets");
    state->window.window = MPI_WIN_NULL;
    state->rows = calloc(buckets, sizeof *state->rows);
    state->posted = calloc(buckets, sizeof *state->posted);
    state->added = calloc(buckets, sizeof *state->added);
    state->open = calloc(buckets, sizeof *state->open);
    state->slices = calloc((size_t)nranks, sizeof *state->slices);
    if (!state->rows || !state->posted || !state->added || !state->open || !state->slices)
        return error_memory(buckets * sizeof *state->rows, "the node's buckets");
    *bytes = line_up(buckets * sizeof(struct cell));
    for (int b = 0; b < sync->plan->nbuckets; b++) {
        state->rows[b] = *bytes / sizeof(float);
        if (moves_factors(sync, b))
            *bytes += line_up(factors_elems(sync, b) * sizeof(float));
    }
    return 0;
}

static void node_close(struct sync *sync)
{
    struct node_gather *state = sync->gathering;

    if (!state)
        return;
    node_window_close(&state->window);
    free(state->rows);
    free(state->posted);
    free(state->added);
    free(state->open);
    free(state->slices);
    free(state);
    sync->gathering = NULL;
}

static int node_open(struct sync *sync, MPI_Comm world)
{
    const struct node *node = sync->options.node;
    struct node_gather *state;
    size_t bytes = 0;

    if (error_agree(world, open_state(sync, node->nranks, &bytes)))
        return -1;
    state = sync->gathering;
    if (node_window_open(world, node, bytes, "counters and sufficient factors", &state->window))
        return -1;
    if (node->nranks == 1) {
        node_close(sync);
        sync->gather = &gather_alone;
        return 0;
    }
    state->cells = state->window.memory;
    if (node->rank == 0)
        memset(state->window.memory, 0, bytes);
    MPI_TRY(MPI_Barrier(node->comm));
    return 0;
fail:
    return -1;
}

static float *node_rows(const struct sync *sync, int bucket)
{
    const struct node_gather *state = sync->gathering;

    return (float *)state->window.memory + state->rows[bucket];
}

/* Gradients lie in the window from the start: nobody copies them. */
static int node_mark(struct sync *sync, int bucket)
{
    (void)sync;
    (void)bucket;
    return 0;
}

/* ---- wire thread ---- */

static int node_post(struct sync *sync, int bucket)
{
    struct node_gather *state = sync->gathering;

    state->posted[bucket]++;
    state->added[bucket] = false;
    state->open[state->nopen++] = bucket;
    atomic_fetch_add_explicit(&state->cells[bucket].arrived, 1, memory_order_release);
    return 0;
}

/* This rank's slice: whole cache lines. */
static void add_slice(struct sync *sync, int bucket, int slices)
{
    enum { LINE = 16 }; /* floats */
    struct node_gather *state = sync->gathering;
    const struct node *node = sync->options.node;
    const struct bucket *b = bucket_of(sync, bucket);
    size_t lines = (b->elems + LINE - 1) / LINE, rank = (size_t)node->rank, n = (size_t)slices;
    size_t from = lines * rank / n * LINE, to = lines * (rank + 1) / n * LINE;
    int64_t start = trace_begin(sync->options.trace);

    to = to < b->elems ? to : b->elems;
    for (int r = 0; r < node->nranks; r++)
        state->slices[r] = node_grads(node, r) + b->begin + from;
    tree_sum_slices(state->slices, node->nranks, to - from, node_grads(node, 0) + b->begin + from);
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_SUM, b->layer, start);
}

/* All posted: adds what is this rank's to add. */
static bool try_add(struct sync *sync, int bucket)
{
    struct node_gather *state = sync->gathering;
    struct cell *cell = &state->cells[bucket];
    int slices = adders(sync, bucket);

    if (atomic_load_explicit(&cell->arrived, memory_order_acquire) <
        state->posted[bucket] * sync->options.node->nranks)
        return false;
    if (sync->options.node->rank < slices) {
        add_slice(sync, bucket, slices);
        atomic_fetch_add_explicit(&cell->added, 1, memory_order_release);
    }
    state->added[bucket] = true;
    return true;
}

/* The leader: the sum is there, and travels. The others: its result is there. */
static int try_finish(struct sync *sync, int bucket, bool *finished)
{
    struct node_gather *state = sync->gathering;
    struct cell *cell = &state->cells[bucket];

    if (sync->leads) {
        *finished = atomic_load_explicit(&cell->added, memory_order_acquire) >=
                    state->posted[bucket] * adders(sync, bucket);
        return *finished ? bucket_await(sync, bucket) : 0;
    }
    *finished = atomic_load_explicit(&cell->done, memory_order_acquire) >= state->posted[bucket];
    if (*finished)
        bucket_brought(sync, bucket);
    return 0;
}

static int node_poll(struct sync *sync)
{
    struct node_gather *state = sync->gathering;
    int worked = 0, kept = 0, status = 0;

    for (int i = 0; i < state->nopen; i++) {
        int bucket = state->open[i];
        bool finished = false;
        if (!state->added[bucket])
            worked += try_add(sync, bucket);
        if (state->added[bucket] && !status)
            status = try_finish(sync, bucket, &finished);
        worked += finished;
        if (!finished)
            state->open[kept++] = bucket;
    }
    state->nopen = kept;
    return status ? -1 : worked;
}

static enum wire_pace node_pace(const struct sync *sync)
{
    const struct node_gather *state = sync->gathering;

    return state->nopen > 0 ? WIRE_UNDER_WAY : WIRE_IDLE;
}

static void node_publish(struct sync *sync, int bucket)
{
    struct node_gather *state = sync->gathering;

    atomic_fetch_add_explicit(&state->cells[bucket].done, 1, memory_order_release);
}

static int node_describe_wait(const struct sync *sync, char *text, size_t bytes)
{
    const struct node_gather *state = sync->gathering;
    int named = 0;
    size_t used = 0;

    for (int i = 0; i < state->nopen && named < 3; i++)
        used += describe_one(sync, text + used, bytes - used, named++ == 0,
                             state->added[state->open[i]] && !sync->leads
                                 ? "its node's first rank to bring"
                                 : "the other ranks of its node to reach",
                             state->open[i], -1);
    return named;
}

const struct gather_i gather_node = {
    .name = "node",
    .open = node_open,
    .close = node_close,
    .rows = node_rows,
    .mark = node_mark,
    .post = node_post,
    .poll = node_poll,
    .pace = node_pace,
    .publish = node_publish,
    .describe_wait = node_describe_wait,
};
