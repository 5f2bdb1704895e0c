/* Adding up within a node. A rank that has posted a group says so in the group's cell of the
 * window; once all have, the ranks' progress threads add a slice each into the leader's gradient,
 * and the last slice lets the leader start the group's traffic. What that brings lands in the
 * parameters that all train from; the leader says so in the cell, and the others' waits end. Slices
 * are added in the order of ranks, so the sum has the same bits whoever comes first.
 *
 * Of sufficient factors nothing is added: every rank puts its rows where the leader sends them
 * from, as if they were further micro-batches of the leader's. */
#include "sync/factors.h"

#include "util/agree.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is shared of a group; counts since the start. Nobody posts an iteration before the last one
 * is done, so that they cannot be mistaken. */
struct cell {
    _Alignas(64) _Atomic int64_t arrived; /* gradients posted, of all ranks */
    _Atomic int64_t added;                /* slices */
    _Atomic int64_t done;                 /* iterations whose new parameters are in place */
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters between processes must not need a lock");

struct node_state {
    struct node_window window;
    struct cell *cells; /* in the window, per group */
    size_t *rows;       /* per group: where its factors begin in the window, in floats */
    int64_t *posted;    /* per group: iterations, by this rank */
    bool *added;        /* per group: this rank's part is done */
    int *open;          /* groups posted, and (leader) not travelling or (others) not done */
    int nopen;
};

static size_t line_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* How many ranks add: a small gradient is not worth the way to the others. */
static int adders(const struct sync *sync, int group)
{
    enum { WORTH_SLICING = 16384 }; /* floats */

    if (sync->groups[group].syncer->factors)
        return 0;
    return sync->plan->buckets[group].elems < WORTH_SLICING ? 1 : sync->options.node->nranks;
}

/* ---- life ---- */

int node_open(struct sync *sync, MPI_Comm world)
{
    static const struct node alone = {.nranks = 1};
    const struct node *node = sync->options.node ? sync->options.node : &alone;
    size_t ngroups = (size_t)sync->plan->nbuckets, bytes = line_up(ngroups * sizeof(struct cell));
    struct node_state *state;
    int status = 0;

    if (sync->plan->most_locals == 1 || node->team)
        return 0;
    sync->node = state = calloc(1, sizeof *state);
    if (state)
        state->window.window = MPI_WIN_NULL;
    if (!state || !(state->rows = calloc(ngroups + 1, sizeof *state->rows)) ||
        !(state->posted = calloc(ngroups + 1, sizeof *state->posted)) ||
        !(state->added = calloc(ngroups + 1, sizeof *state->added)) ||
        !(state->open = calloc(ngroups + 1, sizeof *state->open)))
        status = error_memory(ngroups * sizeof *state->rows, "the node's groups");
    for (int g = 0; g < sync->plan->nbuckets && !status; g++) {
        state->rows[g] = bytes / sizeof(float);
        if (sync->plan->buckets[g].scheme && sync->plan->buckets[g].scheme->factors)
            bytes += line_up(factors_elems(sync, g) * sizeof(float));
    }
    if (error_agree(world, status) ||
        node_window_open(world, node, bytes, "counters and sufficient factors", &state->window))
        return -1;
    if (node->nranks == 1) {
        node_close(sync);
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

void node_close(struct sync *sync)
{
    struct node_state *state = sync->node;

    if (!state)
        return;
    node_window_close(&state->window);
    free(state->rows);
    free(state->posted);
    free(state->added);
    free(state->open);
    free(state);
    sync->node = NULL;
}

float *node_rows(const struct sync *sync, int group)
{
    return (float *)sync->node->window.memory + sync->node->rows[group];
}

/* ---- progress thread ---- */

void node_post(struct sync *sync, int group)
{
    struct node_state *state = sync->node;

    state->posted[group]++;
    state->added[group] = false;
    state->open[state->nopen++] = group;
    atomic_fetch_add_explicit(&state->cells[group].arrived, 1, memory_order_release);
}

static void add(float *restrict sum, const float *restrict gradient, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += gradient[i];
}

/* This rank's slice: whole cache lines, in pieces that stay in the cache while all ranks' are
 * added. */
static void add_slice(struct sync *sync, int group, int slices)
{
    enum { LINE = 16, PIECE = 4096 }; /* floats */
    const struct node *node = sync->options.node;
    const struct bucket *g = &sync->plan->buckets[group];
    size_t lines = (g->elems + LINE - 1) / LINE, rank = (size_t)node->rank, n = (size_t)slices;
    size_t from = lines * rank / n * LINE, to = lines * (rank + 1) / n * LINE;
    int64_t start = trace_begin(sync->options.trace);

    to = to < g->elems ? to : g->elems;
    for (size_t at = from; at < to; at += PIECE)
        for (int r = 1; r < node->nranks; r++)
            add(node_grads(node, 0) + g->begin + at, node_grads(node, r) + g->begin + at,
                to - at < PIECE ? to - at : PIECE);
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_SUM, g->layer, start);
}

/* All posted: adds what is this rank's to add. */
static bool try_add(struct sync *sync, int group)
{
    struct node_state *state = sync->node;
    struct cell *cell = &state->cells[group];
    int slices = adders(sync, group);

    if (atomic_load_explicit(&cell->arrived, memory_order_acquire) <
        state->posted[group] * sync->options.node->nranks)
        return false;
    if (sync->options.node->rank < slices) {
        add_slice(sync, group, slices);
        atomic_fetch_add_explicit(&cell->added, 1, memory_order_release);
    }
    state->added[group] = true;
    return true;
}

/* The leader: the sum is there, and travels. The others: its result is there. */
static int try_finish(struct sync *sync, int group, bool *finished)
{
    struct node_state *state = sync->node;
    struct cell *cell = &state->cells[group];
    struct group_state *own = &sync->groups[group];

    if (sync->speaks) {
        *finished = atomic_load_explicit(&cell->added, memory_order_acquire) >=
                    state->posted[group] * adders(sync, group);
        return *finished ? progress_post_group(sync, group) : 0;
    }
    *finished = atomic_load_explicit(&cell->done, memory_order_acquire) >= state->posted[group];
    if (!*finished)
        return 0;
    own->running++;
    atomic_store_explicit(&own->done, own->running, memory_order_release);
    progress_wake(sync);
    return 0;
}

int node_poll(struct sync *sync)
{
    struct node_state *state = sync->node;
    int worked = 0, kept = 0, status = 0;

    for (int i = 0; i < state->nopen; i++) {
        int group = state->open[i];
        bool finished = false;
        if (!state->added[group])
            worked += try_add(sync, group);
        if (state->added[group] && !status)
            status = try_finish(sync, group, &finished);
        worked += finished;
        if (!finished)
            state->open[kept++] = group;
    }
    state->nopen = kept;
    return status ? -1 : worked;
}

bool node_busy(const struct sync *sync)
{
    return sync->node && sync->node->nopen > 0;
}

void node_publish(struct sync *sync, int group)
{
    if (sync->node)
        atomic_fetch_add_explicit(&sync->node->cells[group].done, 1, memory_order_release);
}

int node_describe_wait(const struct sync *sync, char *text, size_t bytes)
{
    const struct node_state *state = sync->node;
    int told = 0;
    size_t used = 0;

    for (int i = 0; state && i < state->nopen && told < 3 && used < bytes; i++, told++)
        used += (size_t)snprintf(text + used, bytes - used, "%s %s layer '%s'", told ? ";" : " for",
                                 state->added[state->open[i]] && !sync->speaks
                                     ? "its node's first rank to bring"
                                     : "the other ranks of its node to reach",
                                 sync->plan->buckets[state->open[i]].name);
    return told;
}

/* ---- the syncers of ranks that do not speak: what they post, the leader brings back ---- */

static int member_open(struct sync *sync, int group)
{
    struct factors *factors = calloc(1, sizeof *factors);

    sync->groups[group].own = factors;
    return factors ? factors_open(sync, group, factors)
                   : error_memory(sizeof *factors, "sufficient factors");
}

static void member_close(struct sync *sync, int group)
{
    struct factors *factors = sync->groups[group].own;

    if (factors)
        factors_close(sync, factors);
    free(factors);
    sync->groups[group].own = NULL;
}

static int member_stage(struct sync *sync, int group, int micro)
{
    const struct factors *factors = sync->groups[group].own;

    return factors_stage(sync, group, factors, (int)(sync->groups[group].posted % factors->slots),
                         micro);
}

const struct syncer_i syncer_member = {.stays = true};
const struct syncer_i syncer_member_factors = {
    .open = member_open,
    .close = member_close,
    .stage = member_stage,
    .factors = true,
};
