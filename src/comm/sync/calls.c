/* Small collectives that the compute thread hands to the wire thread: sums of a few values,
 * questions to all ranks, and moving history and residuals to rank 0 and back. */
#include "sync/gradient.h"
#include "sync/sync_internal.h"
#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_HISTORY = 2 };

/* ---- sums ---- */

static void call_over(struct sync *sync, _Atomic int64_t *done)
{
    atomic_store_explicit(done, 1, memory_order_release);
    wire_wake(sync->wire);
}

/* Makes room for the values of a sum. */
static int open_sum(struct call_sum *sum, int count)
{
    sum->count = count;
    if (count <= sum->capacity)
        return 0;
    free(sum->values);
    sum->capacity = 0;
    if (ALLOC(sum->values, 2 * count, "a sum over the ranks"))
        return -1;
    sum->result = sum->values + count;
    sum->capacity = count;
    return 0;
}

static int sum_came(void *context, const struct wire_message *message)
{
    struct call_sum *sum = context;

    (void)message;
    call_over(sum->sync, &sum->done);
    return 0;
}

static int start_sum(void *context, int64_t argument)
{
    struct call_sum *sum = context;
    MPI_Request request;

    (void)argument;
    MPI_CHECK(MPI_Iallreduce(sum->values, sum->result, sum->count, MPI_DOUBLE, MPI_SUM, sum->comm,
                             &request));
    return wire_track(sum->sync->wire, request, (size_t)sum->count * sizeof(double), sum_came, sum);
}

static int begin_sum(struct sync *sync, struct call_sum *sum, MPI_Comm comm, const double *values,
                     int count)
{
    if (open_sum(sum, count))
        return -1;
    sum->sync = sync;
    sum->comm = comm;
    memcpy(sum->values, values, (size_t)count * sizeof *values);
    atomic_store(&sum->done, 0);
    wire_call(sync->wire, start_sum, sum, 0);
    return 0;
}

static int end_sum(struct sync *sync, struct call_sum *sum, double *values)
{
    if (compute_wait(sync, &sum->done, 1, -1))
        return -1;
    memcpy(values, sum->result, (size_t)sum->count * sizeof *values);
    return 0;
}

int sync_sum(struct sync *sync, double *values, int count)
{
    struct call_sum *sum = &sync->calls.sums;

    if (sync->plan->ncomputing == 1) /* a call would wait for the updates that are under way */
        return wire_failed(sync->wire);
    return error_status(begin_sum(sync, sum, sync->sums, values, count) ||
                        end_sum(sync, sum, values));
}

int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES])
{
    return begin_sum(sync, &sync->calls.asked, sync->all, values, SYNC_ASK_VALUES);
}

int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES])
{
    return end_sum(sync, &sync->calls.asked, values);
}

/* ---- history and residuals ---- */

static bool of_history(const struct sync *sync)
{
    return sync->calls.kept == KEPT_HISTORY;
}

static int count_blocks(const struct sync *sync)
{
    return of_history(sync) ? sync->update.nhistory : 1;
}

/* Returns the floats of each block kept of the chunk, the same on all ranks; 0: none. */
static size_t count_floats(struct sync *sync, int chunk, enum kept kept)
{
    const struct chunk *c = chunk_of(sync, chunk);
    const struct scheme_steps *steps = leading_steps(sync, c->bucket);

    if (kept == KEPT_HISTORY)
        return steps && steps->history ? c->elems : 0;
    return steps && steps->residual ? steps->residual(sync, chunk, kept, NULL) : 0;
}

static size_t count_kept(struct sync *sync, int chunk)
{
    return count_floats(sync, chunk, sync->calls.kept);
}

/* True if all leaders keep the same state of the chunk. */
static bool is_everywhere(const struct sync *sync, int chunk)
{
    return sync->calls.kept == KEPT_BASES ||
           (of_history(sync) && leading_steps(sync, chunk_of(sync, chunk)->bucket)->everywhere);
}

/* Returns the world rank that sends the state to rank 0: the residuals' leader, the chunk's home
 * (if it alone has the state), or a rank of rank 0's own node. */
static int holder_of(const struct sync *sync, int chunk)
{
    int leader = sync->calls.kept == KEPT_GRADIENTS ? sync->calls.leader
                 : is_everywhere(sync, chunk)       ? 0
                                                    : plan_home(sync->plan, chunk);

    return plan_rank(sync->plan, leader, chunk);
}

/* Sets *out to the state that this rank keeps of the chunk. */
static int find_kept(struct sync *sync, int chunk, struct history_view *out)
{
    const struct scheme_steps *steps = sync->buckets[chunk_of(sync, chunk)->bucket].steps;

    if (of_history(sync))
        return steps->history(sync, chunk, out);
    steps->residual(sync, chunk, sync->calls.kept, &out->blocks);
    return out->blocks ? 0 : -1;
}

static int block_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    (void)message;
    if (--sync->calls.gathering == 0)
        call_over(sync, &sync->calls.gathered);
    return 0;
}

/* Moves one block of a chunk from its holder to rank 0. */
static int move_block(struct sync *sync, int chunk, float *block)
{
    struct wire_message message = {.buffer = block,
                                   .bytes = count_kept(sync, chunk) * sizeof(float),
                                   .tag = TAG_HISTORY,
                                   .comm = sync->all,
                                   .done = block_came,
                                   .context = sync};

    sync->calls.gathering++;
    if (sync->world_rank != 0)
        return wire_send(sync->wire, &message);
    message.peer = holder_of(sync, chunk);
    return wire_receive(sync->wire, &message);
}

/* Moves a chunk to rank 0. Messages between two ranks on one tag never overtake, so the fixed order
 * of chunks and blocks identifies each message. */
static int gather_chunk(struct sync *sync, int chunk)
{
    size_t begin = chunk_of(sync, chunk)->begin, count = count_kept(sync, chunk);
    bool keeps = holder_of(sync, chunk) == sync->world_rank, collects = sync->world_rank == 0;
    struct history_view view = {.blocks = NULL};

    if (!keeps && !collects)
        return 0;
    if (keeps && find_kept(sync, chunk, &view))
        return -1;
    for (int b = 0; b < count_blocks(sync); b++) {
        float *to = collects ? sync->calls.arenas + (size_t)b * sync->model.elems + begin : NULL;
        float *from = keeps ? view.blocks + (size_t)b * view.stride : NULL;
        if (collects && keeps)
            memcpy(to, from, count * sizeof *to);
        else if (move_block(sync, chunk, collects ? to : from))
            return -1;
    }
    return 0;
}

static int start_gather(void *context, int64_t argument)
{
    struct sync *sync = context;

    (void)argument;
    sync->calls.gathering = 1;
    for (int c = 0; c < sync->plan->nchunks; c++)
        if (count_kept(sync, c) > 0 && gather_chunk(sync, c))
            return -1;
    return block_came(sync, NULL);
}

static int gather(struct sync *sync, float **arenas)
{
    size_t elems = sync->model.elems;
    size_t all = elems * (size_t)(sync->update.nhistory > 0 ? sync->update.nhistory : 1);

    *arenas = NULL;
    if (sync->world_rank == 0 && !sync->calls.arenas &&
        OWN(&sync->owner, sync->calls.arenas, all, "history and residuals"))
        return -1;
    /* schemes with residuals have history, too, but not the reverse */
    if (sync->world_rank == 0 && !of_history(sync))
        memset(sync->calls.arenas, 0, elems * sizeof(float));
    atomic_store(&sync->calls.gathered, 0);
    wire_call(sync->wire, start_gather, sync, 0);
    if (compute_wait(sync, &sync->calls.gathered, 1, -1))
        return -1;
    *arenas = sync->calls.arenas;
    return 0;
}

int sync_gather_history(struct sync *sync, const float **history)
{
    float *arenas;
    int status;

    sync->calls.kept = KEPT_HISTORY;
    status = gather(sync, &arenas);
    *history = arenas;
    return status;
}

/* True if this rank is to keep the chunk's state, or a part of it. */
static bool takes_chunk(const struct sync *sync, int chunk)
{
    if (sync->calls.kept == KEPT_GRADIENTS && !sync->calls.divides &&
        sync->calls.leader != sync->rank)
        return false;
    if (sync->calls.kept == KEPT_GRADIENTS || sync->calls.kept == KEPT_BASES)
        return sync->worker && leads_chunk(sync, chunk);
    return is_everywhere(sync, chunk) ? leads_chunk(sync, chunk)
                                      : holder_of(sync, chunk) == sync->world_rank;
}

static void take_block(const struct sync *sync, const float *block, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = sync->calls.divides ? to[i] + (float)(block[i] * sync->calls.part) : block[i];
}

/* Moves rank 0's state of the chunk to its holder, or to all leaders, and puts it in place there. A
 * rank that lacks memory for its part still joins, since other ranks wait for it. */
static int load_chunk(struct sync *sync, int chunk, const float *arenas, float *piece)
{
    size_t begin = chunk_of(sync, chunk)->begin, count = count_kept(sync, chunk);
    struct history_view view = {.blocks = NULL};
    int holder, status = count > 0 && takes_chunk(sync, chunk) ? find_kept(sync, chunk, &view) : 0;

    if (count == 0)
        return 0;
    holder = sync->calls.kept == KEPT_GRADIENTS || is_everywhere(sync, chunk)
                 ? -1 /* all leaders */
                 : holder_of(sync, chunk);
    for (int b = 0; b < count_blocks(sync); b++) {
        if (sync->world_rank == 0)
            memcpy(piece, arenas + (size_t)b * sync->model.elems + begin, count * sizeof *piece);
        if (holder < 0)
            MPI_CHECK(
                MPI_Bcast(piece, (int)count, MPI_FLOAT, 0,
                          sync_drops(sync) ? sync->all : sync->control)); /* with drop all lead */
        else if (holder > 0 && sync->world_rank == 0)
            MPI_CHECK(MPI_Send(piece, (int)count, MPI_FLOAT, holder, TAG_HISTORY, sync->all));
        else if (holder > 0 && sync->world_rank == holder)
            MPI_CHECK(MPI_Recv(piece, (int)count, MPI_FLOAT, 0, TAG_HISTORY, sync->all,
                               MPI_STATUS_IGNORE));
        if (view.blocks)
            take_block(sync, piece, count, view.blocks + (size_t)b * view.stride);
    }
    return status;
}

static int restore_all(struct sync *sync)
{
    if (sync->calls.kept == KEPT_GRADIENTS)
        return gradient_restore_residual(sync);
    for (int b = 0; b < sync->plan->nbuckets && of_history(sync); b++) {
        const struct scheme_steps *steps = sync->buckets[b].steps;
        if (steps && steps->restore && steps->restore(sync, b))
            return -1;
    }
    return 0;
}

static int load(struct sync *sync, const float *arenas)
{
    size_t largest = 1;
    float *piece;
    int status = 0;

    for (int c = 0; c < sync->plan->nchunks; c++)
        largest = count_kept(sync, c) > largest ? count_kept(sync, c) : largest;
    if (error_agree(sync->all, ALLOC(piece, largest, "history"))) {
        free(piece);
        return -1;
    }
    for (int c = 0; c < sync->plan->nchunks && sync->leads; c++)
        if (load_chunk(sync, c, arenas, piece))
            status = -1;
    free(piece);
    return error_agree(sync->all, status || restore_all(sync) ? -1 : 0);
}

int sync_load_history(struct sync *sync, const float *history)
{
    sync->calls.kept = KEPT_HISTORY;
    sync->calls.divides = false;
    return load(sync, history);
}

/* ---- residuals ---- */

static void choose_arena(struct sync *sync, const struct sync_residuals *of, int number)
{
    sync->calls.leader = number;
    sync->calls.kept = number < of->leaders              ? KEPT_GRADIENTS
                       : number < of->leaders + of->sums ? KEPT_SUMS
                                                         : KEPT_BASES;
}

static int has_kept(struct sync *sync, enum kept kept)
{
    for (int c = 0; c < sync->plan->nchunks; c++)
        if (count_floats(sync, c, kept) > 0)
            return 1;
    return 0;
}

struct sync_residuals sync_residuals(struct sync *sync)
{
    const struct plan *plan = sync->plan;

    return (struct sync_residuals){.leaders = plan->nworkers * has_kept(sync, KEPT_GRADIENTS),
                                   .sums = has_kept(sync, KEPT_SUMS),
                                   .bases = has_kept(sync, KEPT_BASES),
                                   .gradients = (int64_t)(plan->ncomputing - plan->options.drop) *
                                                plan->options.iter_size};
}

int sync_gather_residuals(struct sync *sync, int number, float **arena)
{
    struct sync_residuals of = sync_residuals(sync);

    choose_arena(sync, &of, number);
    return gather(sync, arena);
}

/* Counts the arena's residuals that no scheme takes. A lost basis does not count. */
static size_t count_left(struct sync *sync, const float *arena)
{
    size_t left = 0;

    for (int c = 0; c < sync->plan->nchunks && sync->calls.kept != KEPT_BASES; c++) {
        const struct chunk *chunk = chunk_of(sync, c);
        size_t elems = count_kept(sync, c) > 0 ? 0 : chunk->elems;

        for (size_t i = 0; i < elems; i++)
            left += arena[chunk->begin + i] != 0;
    }
    return left;
}

int sync_load_residuals(struct sync *sync, const struct sync_residuals *of, int number,
                        const float *arena, size_t *left)
{
    struct sync_residuals own = sync_residuals(sync);
    double grown = (double)own.gradients / (double)of->gradients;

    choose_arena(sync, of, number);
    if (sync->world_rank == 0)
        *left += count_left(sync, arena);
    sync->calls.divides =
        sync->calls.kept != KEPT_BASES && (of->leaders != own.leaders || grown != 1);
    sync->calls.part = sync->calls.kept == KEPT_GRADIENTS ? grown / own.leaders : grown;
    return load(sync, arena);
}
