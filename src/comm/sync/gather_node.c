/* Adds up within a node, in shared memory. A rank that posts a bucket counts itself in the bucket's
 * cell of the window. Once all ranks have posted, each rank's wire thread adds a slice into the
 * first rank's gradient, and the last slice lets the leader start the bucket's traffic. The new
 * parameters arrive in the array that all ranks train from; the leader counts them in the cell,
 * which ends the other ranks' waits. Slices are added along the fixed tree over the node's ranks,
 * so the sum has the same bits in any order of arrival.
 *
 * A node's ranks are dealt over its leaders, if it has several: each rank adds for its leader's
 * chunks, and no leader waits for another leader's sums. Parameters are in place when all leaders
 * have counted theirs.
 *
 * Sufficient factors are not added: every rank puts its rows where the leader sends them from, as
 * if they were further micro-batches of the leader. */
#include "sync/gather.h"

#include "device/tree_sum.h"
#include "sync/factors.h"
#include "sync/sync_internal.h"

#include <assert.h>
#include <string.h>

/* A bucket's counts since the start, shared by the node. No rank posts an iteration before the last
 * one is done, so counts of two iterations do not mix. */
struct cell {
    _Atomic int64_t arrived; /* gradients posted by all ranks */
    _Atomic int64_t done; /* sum over the leaders of iterations whose new parameters are in place */
    _Atomic int64_t added[]; /* slices added, per leader */
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters between processes must not need a lock");

/* State of a bucket, as this rank sees it. */
enum node_step {
    NODE_POSTED, /* some rank has not posted the bucket */
    NODE_ADDED,  /* this rank has added its slices */
    NODE_BROUGHT /* parameters of this rank's chunks, if any, are in place; of other leaders' chunks
                    not yet */
};

struct node_gather {
    char *cells; /* begin of the window: one cell per bucket */
    size_t cell_bytes;
    int nleaders; /* number of leaders, the node's first ranks */
    struct node_bucket {
        size_t rows;    /* begin of the bucket's factors in the window, in floats */
        int leaders;    /* number of leaders that have chunks of the bucket */
        int64_t posted; /* iterations that this rank has posted */
        enum node_step step;
    } * buckets;
    int *open; /* posted buckets that node_poll checks, except buckets whose sum this rank is
                  exchanging. Room for each twice: node_poll may add a bucket again */
    int nopen;
    const float **slices; /* scratch of add_slice: per rank of the node, its part of a sum */
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

/* Returns the number, within the node, of the leader that moves the chunk (plan_rank). */
static int leader_in_node(const struct sync *sync, int chunk)
{
    const struct node_gather *state = sync->gathering;

    return chunk_of(sync, chunk)->rail % state->nleaders;
}

/* Returns the leader (its number in the node) whose chunks this rank adds up; own_slice gives the
 * slice. */
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

/* Returns the number of ranks that add for the leader: one for a small gradient. */
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

/* Adds `elems` elements of the arenas, cut into `slices` slices of whole cache lines: this rank's
 * slice. */
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

/* Adds this rank's slice of every chunk of its leader, with neighbouring chunks as one range. */
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

/* Adds this rank's part if all ranks have posted the bucket. */
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

/* Finishes an open bucket. On a leader: when the sum is complete, which then travels. On other
 * ranks: when the parameters of all leaders are in place. */
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
