/* Adding up within a node, in shared memory. A rank that has posted a bucket says so in the
 * bucket's cell of the window; once all have, the ranks' wire threads add a slice each into the
 * first rank's gradient, and the last slice lets the leader start the bucket's traffic. What that
 * brings lands in the parameters that all train from; the leader says so in the cell, and the
 * others' waits end. Slices are added along the fixed tree over the node's ranks, so the sum has
 * the same bits whoever comes first.
 *
 * Where the node has several leaders, its ranks are dealt over them to add up their chunks, each
 * leader among its own; a leader waits for nobody else's sums. Parameters are in place when all
 * leaders have said so.
 *
 * Of sufficient factors nothing is added: every rank puts its rows where the leader sends them
 * from, as if they were further micro-batches of the leader's. */
#include "sync/gather.h"

#include "device/tree_sum.h"
#include "sync/factors.h"
#include "sync/sync_internal.h"

#include <assert.h>
#include <string.h>

/* What is shared of a bucket; counts since the start. Nobody posts an iteration before the last one
 * is done, so that they cannot be mistaken. */
struct cell {
    _Atomic int64_t arrived; /* gradients posted, of all ranks */
    _Atomic int64_t done;    /* iterations of each leader whose new parameters are in place */
    _Atomic int64_t added[]; /* slices, per rank that leads */
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters between processes must not need a lock");

/* Where a bucket is, as this rank sees it. */
enum node_step {
    NODE_POSTED, /* not all have posted it */
    NODE_ADDED,  /* what this rank adds of it is added */
    NODE_BROUGHT /* what this rank leads of it is in place, or that is nothing; not so the rest */
};

struct node_gather {
    char *cells; /* where the window begins: one per bucket */
    size_t cell_bytes;
    int nleaders; /* of the node: its first ranks */
    struct node_bucket {
        size_t rows;    /* where its factors begin in the window, in floats */
        int leaders;    /* who have chunks of it */
        int64_t posted; /* iterations, by this rank */
        enum node_step step;
    } * buckets;
    int *open; /* buckets that this rank posted and looks after: none that it leads and that
                  travel. Room for each twice: what is over at once comes back while node_poll goes
                  through them */
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

static struct cell *cell_of(const struct node_gather *state, int bucket)
{
    return (struct cell *)(state->cells + (size_t)bucket * state->cell_bytes);
}

/* Which of the node's leaders moves the chunk: plan_rank, by its number in the node. */
static int leader_in_node(const struct sync *sync, int chunk)
{
    const struct node_gather *state = sync->gathering;

    return chunk_of(sync, chunk)->rail % state->nleaders;
}

/* For which leader this rank adds, and which slice. */
static int helped_leader(const struct sync *sync)
{
    const struct node_gather *state = sync->gathering;

    return sync->options.node->rank % state->nleaders;
}

static int own_slice(const struct sync *sync)
{
    const struct node_gather *state = sync->gathering;

    return sync->options.node->rank / state->nleaders;
}

/* How many ranks add for that leader: a small gradient is not worth the way to the others. */
static int adders(const struct sync *sync, int bucket, int leader)
{
    enum { WORTH_SLICING = 16384 }; /* floats */
    const struct node_gather *state = sync->gathering;
    int ranks = sync->options.node->nranks;

    if (moves_factors(sync, bucket) || !bucket_of(sync, bucket)->trains)
        return 0;
    return bucket_of(sync, bucket)->elems < WORTH_SLICING
               ? 1
               : (ranks - leader + state->nleaders - 1) / state->nleaders;
}

static int count_leaders(const struct sync *sync, int bucket)
{
    const struct node_gather *state = sync->gathering;
    const struct bucket *b = bucket_of(sync, bucket);
    int count = 0;

    for (int leader = 0; leader < state->nleaders; leader++) {
        int c = b->first_chunk, end = b->first_chunk + b->nchunks;
        while (c < end && leader_in_node(sync, c) != leader)
            c++;
        count += c < end;
    }
    return count;
}

/* ---- life ---- */

static int open_state(struct sync *sync, int nranks, size_t *bytes)
{
    size_t buckets = (size_t)sync->plan->nbuckets + 1;
    struct node_gather *state;

    if (OWN(&sync->owner, state, 1, "the node's buckets"))
        return -1;
    sync->gathering = state;
    if (OWN(&sync->owner, state->buckets, buckets, "the node's buckets") ||
        OWN(&sync->owner, state->open, 2 * buckets, "the node's buckets") ||
        OWN(&sync->owner, state->slices, nranks, "the node's buckets"))
        return -1;
    if (!sync->worker)
        return 0;
    state->nleaders = plan_leaders_of(sync->plan, sync->leader);
    state->cell_bytes =
        line_up(sizeof(struct cell) + (size_t)state->nleaders * sizeof(_Atomic int64_t));
    *bytes = buckets * state->cell_bytes;
    for (int b = 0; b < sync->plan->nbuckets; b++) {
        state->buckets[b].leaders = count_leaders(sync, b);
        state->buckets[b].rows = *bytes / sizeof(float);
        if (moves_factors(sync, b))
            *bytes += line_up(factors_elems(sync, b) * sizeof(float));
    }
    return 0;
}

int gather_open_window(struct sync *sync, MPI_Comm world, size_t bytes, const char *what)
{
    const struct node *node = sync->options.node;

    if (node_window_open(world, node, bytes, what, &sync->window))
        return -1;
    if (node->nranks == 1) {
        sync->gather = &gather_alone;
        return 0;
    }
    if (node->rank == 0)
        memset(sync->window.memory, 0, bytes);
    return MPI_STATUS(MPI_Barrier(node->comm));
}

static int node_open(struct sync *sync, MPI_Comm world)
{
    struct node_gather *state;
    size_t bytes = 0;

    if (error_agree(world, open_state(sync, sync->options.node->nranks, &bytes)) ||
        gather_open_window(sync, world, bytes, "counters and sufficient factors"))
        return -1;
    state = sync->gathering;
    state->cells = sync->window.memory;
    return 0;
}

static float *node_rows(const struct sync *sync, int bucket)
{
    const struct node_gather *state = sync->gathering;

    return (float *)sync->window.memory + state->buckets[bucket].rows;
}

/* ---- wire thread ---- */

static int node_post(struct sync *sync, int bucket)
{
    struct node_gather *state = sync->gathering;

    assert(state->nopen < 2 * (sync->plan->nbuckets + 1));
    state->buckets[bucket].posted++;
    state->buckets[bucket].step = NODE_POSTED;
    state->open[state->nopen++] = bucket;
    atomic_fetch_add_explicit(&cell_of(state, bucket)->arrived, 1, memory_order_release);
    return 0;
}

/* This rank's slice of so many of `elems` elements of the arenas: whole cache lines. */
static void add_slice(struct sync *sync, size_t begin, size_t elems, int slices)
{
    enum { LINE = 16 }; /* floats */
    struct node_gather *state = sync->gathering;
    const struct node *node = sync->options.node;
    size_t lines = (elems + LINE - 1) / LINE, slice = (size_t)own_slice(sync), n = (size_t)slices;
    size_t from = lines * slice / n * LINE, to = lines * (slice + 1) / n * LINE;

    to = to < elems ? to : elems;
    for (int r = 0; r < node->nranks; r++)
        state->slices[r] = node_grads(node, r) + begin + from;
    tree_sum_slices(state->slices, node->nranks, to - from, node_grads(node, 0) + begin + from);
}

/* Of every chunk of the leader for which this rank adds; neighbours together. */
static void add_slices(struct sync *sync, int bucket, int slices)
{
    const struct bucket *b = bucket_of(sync, bucket);
    int64_t start = trace_begin(sync->options.trace);

    for (int c = b->first_chunk, end = b->first_chunk + b->nchunks; c < end;) {
        size_t begin = chunk_of(sync, c)->begin, elems = 0;
        bool adds = leader_in_node(sync, c) == helped_leader(sync);
        for (; c < end && (leader_in_node(sync, c) == helped_leader(sync)) == adds; c++)
            elems += chunk_of(sync, c)->elems;
        if (adds)
            add_slice(sync, begin, elems, slices);
    }
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_SUM, b->layer, start);
}

/* All posted: adds what is this rank's to add. */
static bool try_add(struct sync *sync, int bucket)
{
    struct node_gather *state = sync->gathering;
    struct node_bucket *b = &state->buckets[bucket];
    struct cell *cell = cell_of(state, bucket);
    int slices = adders(sync, bucket, helped_leader(sync));

    if (atomic_load_explicit(&cell->arrived, memory_order_acquire) <
        b->posted * sync->options.node->nranks)
        return false;
    if (own_slice(sync) < slices) {
        add_slices(sync, bucket, slices);
        atomic_fetch_add_explicit(&cell->added[helped_leader(sync)], 1, memory_order_release);
    }
    b->step = sync->buckets[bucket].leads ? NODE_ADDED : NODE_BROUGHT;
    return true;
}

/* A leader: the sum is there, and travels. Everybody: the result of all leaders is there. */
static int try_finish(struct sync *sync, int bucket, bool *finished)
{
    struct node_gather *state = sync->gathering;
    struct node_bucket *b = &state->buckets[bucket];
    struct cell *cell = cell_of(state, bucket);
    int leader = helped_leader(sync);

    if (b->step == NODE_ADDED) {
        *finished = atomic_load_explicit(&cell->added[leader], memory_order_acquire) >=
                    b->posted * adders(sync, bucket, leader);
        return *finished ? bucket_await(sync, bucket) : 0;
    }
    *finished = atomic_load_explicit(&cell->done, memory_order_acquire) >= b->posted * b->leaders;
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
        if (state->buckets[bucket].step == NODE_POSTED)
            worked += try_add(sync, bucket);
        if (state->buckets[bucket].step != NODE_POSTED && !status)
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

static bool node_publish(struct sync *sync, int bucket)
{
    struct node_gather *state = sync->gathering;
    struct node_bucket *b = &state->buckets[bucket];
    int64_t done =
        atomic_fetch_add_explicit(&cell_of(state, bucket)->done, 1, memory_order_acq_rel) + 1;

    if (done >= b->posted * b->leaders)
        return true;
    b->step = NODE_BROUGHT;
    state->open[state->nopen++] = bucket;
    return false;
}

static float *node_sums(const struct sync *sync)
{
    const struct node *node = sync->options.node;

    return node_shares_memory(node) ? node->grads : sync->model.grads;
}

const struct gather_i gather_node = {
    .sums = node_sums,
    .open = node_open,
    .rows = node_rows,
    .post = node_post,
    .poll = node_poll,
    .pace = node_pace,
    .publish = node_publish,
};
