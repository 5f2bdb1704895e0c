/* What the compute thread has the wire thread do once: sums of a few values, questions to all
 * ranks, and the history's way to rank 0 and back. */
#include "sync/sync_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_HISTORY = 2 };

/* ---- sums ---- */

static void call_over(struct sync *sync)
{
    atomic_store_explicit(&sync->calls.done, 1, memory_order_release);
    wire_wake(sync->wire);
}

static int sum_came(void *context, const struct wire_message *message)
{
    (void)message;
    call_over(context);
    return 0;
}

static int start_sum(void *context, int64_t argument)
{
    struct sync *sync = context;
    struct sync_calls *calls = &sync->calls;
    MPI_Request request;

    (void)argument;
    MPI_TRY(MPI_Iallreduce(calls->sum, calls->sum_result, calls->sum_count, MPI_DOUBLE, MPI_SUM,
                           sync->sums, &request));
    return wire_track(sync->wire, request, (size_t)calls->sum_count * sizeof(double), sum_came,
                      sync);
fail:
    return -1;
}

static int answer_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    (void)message;
    atomic_store_explicit(&sync->calls.answered, 1, memory_order_release);
    wire_wake(sync->wire);
    return 0;
}

static int start_asking(void *context, int64_t argument)
{
    struct sync *sync = context;
    MPI_Request request;

    (void)argument;
    MPI_TRY(MPI_Iallreduce(sync->calls.ask, sync->calls.ask_result, SYNC_ASK_VALUES, MPI_DOUBLE,
                           MPI_SUM, sync->asking, &request));
    return wire_track(sync->wire, request, sizeof sync->calls.ask, answer_came, sync);
fail:
    return -1;
}

/* Hands a call to the wire thread and sleeps until it is over. */
static int call_and_wait(struct sync *sync, wire_call_fn *call)
{
    atomic_store(&sync->calls.done, 0);
    wire_call(sync->wire, call, sync, 0);
    return compute_wait(sync, &sync->calls.done, 1, -1);
}

/* Both places of a sum hold `count` values. */
static int grow_sum(struct sync_calls *calls, int count)
{
    if (count <= calls->sum_capacity)
        return 0;
    free(calls->sum);
    free(calls->sum_result);
    calls->sum = malloc((size_t)count * sizeof *calls->sum);
    calls->sum_result = malloc((size_t)count * sizeof *calls->sum_result);
    calls->sum_capacity = calls->sum && calls->sum_result ? count : 0;
    return calls->sum_capacity
               ? 0
               : error_memory((size_t)count * sizeof(double), "a sum over the workers");
}

int sync_sum(struct sync *sync, double *values, int count)
{
    if (sync->plan->ncomputing == 1) /* a call would wait for the updates that are under way */
        return wire_failed(sync->wire);
    if (grow_sum(&sync->calls, count))
        return -1;
    memcpy(sync->calls.sum, values, (size_t)count * sizeof *values);
    sync->calls.sum_count = count;
    if (call_and_wait(sync, start_sum))
        return -1;
    memcpy(values, sync->calls.sum_result, (size_t)count * sizeof *values);
    return 0;
}

int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES])
{
    memcpy(sync->calls.ask, values, sizeof sync->calls.ask);
    atomic_store(&sync->calls.answered, 0);
    wire_call(sync->wire, start_asking, sync, 0);
    return 0;
}

int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES])
{
    if (compute_wait(sync, &sync->calls.answered, 1, -1))
        return -1;
    memcpy(values, sync->calls.ask_result, sizeof sync->calls.ask_result);
    return 0;
}

/* ---- history ---- */

/* How the chunk's history is kept; NULL: it has none. The same on all ranks. */
static const struct scheme_steps *keeping_steps(const struct sync *sync, int chunk)
{
    const struct scheme_steps *steps = leading_steps(sync, chunk_of(sync, chunk)->bucket);

    return steps && steps->history ? steps : NULL;
}

/* The world rank that rank 0 has the chunk's history from: its home, which alone has it, or one of
 * its own node that has all. */
static int keeper_of(const struct sync *sync, int chunk)
{
    bool everywhere = keeping_steps(sync, chunk)->everywhere;

    return plan_rank(sync->plan, everywhere ? 0 : plan_home(sync->plan, chunk), chunk);
}

/* This rank's history of the chunk; *view is that of the chunk before, of the same bucket, or
 * empty. The whole bucket's is asked for once: asking again would undo what was written there. */
static int find_history(struct sync *sync, int chunk, struct history_view *view)
{
    const struct chunk *c = chunk_of(sync, chunk);

    if (view->blocks && view->whole) {
        view->blocks += c->begin - chunk_of(sync, chunk - 1)->begin;
        return 0;
    }
    return sync->buckets[c->bucket].steps->history(sync, chunk, view);
}

static void begin_bucket(const struct sync *sync, int chunk, struct history_view *view)
{
    if (chunk == bucket_of(sync, chunk_of(sync, chunk)->bucket)->first_chunk)
        *view = (struct history_view){.blocks = NULL};
}

static int history_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    (void)message;
    if (--sync->calls.gathering == 0)
        call_over(sync);
    return 0;
}

/* One block of a chunk, from its keeper to rank 0. */
static int move_block(struct sync *sync, int chunk, float *block)
{
    struct wire_message message = {.buffer = block,
                                   .bytes = chunk_of(sync, chunk)->elems * sizeof(float),
                                   .tag = TAG_HISTORY,
                                   .comm = sync->all,
                                   .done = history_came,
                                   .context = sync};

    sync->calls.gathering++;
    if (sync->world_rank != 0)
        return wire_send(sync->wire, &message);
    message.peer = keeper_of(sync, chunk);
    return wire_receive(sync->wire, &message);
}

/* Messages between two ranks on one tag never overtake, so a fixed order of chunks and blocks is
 * all the addressing that is needed. */
static int gather_chunk(struct sync *sync, int chunk, struct history_view *view)
{
    const struct chunk *c = chunk_of(sync, chunk);
    bool keeps = keeper_of(sync, chunk) == sync->world_rank, collects = sync->world_rank == 0;

    if (!keeps)
        *view = (struct history_view){.blocks = NULL};
    else if (find_history(sync, chunk, view))
        return -1;
    for (int b = 0; b < sync->update.nhistory; b++) {
        float *to =
            collects ? sync->calls.history + (size_t)b * sync->model.elems + c->begin : NULL;
        float *from = keeps ? view->blocks + (size_t)b * view->stride : NULL;
        if (collects && keeps)
            memcpy(to, from, c->elems * sizeof *to);
        else if (move_block(sync, chunk, collects ? to : from))
            return -1;
    }
    return 0;
}

static int start_gather(void *context, int64_t argument)
{
    struct sync *sync = context;
    struct history_view view = {.blocks = NULL};

    (void)argument;
    sync->calls.gathering = 1;
    for (int c = 0; c < sync->plan->nchunks; c++) {
        begin_bucket(sync, c, &view);
        if (keeping_steps(sync, c) &&
            (sync->world_rank == 0 || keeper_of(sync, c) == sync->world_rank) &&
            gather_chunk(sync, c, &view))
            return -1;
    }
    return history_came(sync, NULL);
}

int sync_gather_history(struct sync *sync, const float **history)
{
    size_t elems = (size_t)sync->update.nhistory * sync->model.elems;

    *history = NULL;
    if (sync->world_rank == 0 && !sync->calls.history &&
        !(sync->calls.history = calloc(elems ? elems : 1, sizeof(float))))
        return error_memory(elems * sizeof(float), "the history of a snapshot");
    if (call_and_wait(sync, start_gather))
        return -1;
    *history = sync->calls.history;
    return 0;
}

/* Copies rank 0's history of the chunk to the place where this rank keeps it. A rank that has no
 * such place, for lack of memory, takes part all the same: others wait for its messages. */
static int load_chunk(struct sync *sync, int chunk, const float *history, float *piece,
                      struct history_view *view)
{
    const struct chunk *c = chunk_of(sync, chunk);
    const struct scheme_steps *steps = keeping_steps(sync, chunk);
    int keeper, status = 0;
    bool keeps;

    if (!steps)
        return 0;
    keeper = keeper_of(sync, chunk);
    keeps = steps->everywhere ? leads_chunk(sync, chunk) : keeper == sync->world_rank;
    if (!steps->everywhere && !keeps && sync->world_rank != 0)
        return 0;
    if (keeps)
        status = find_history(sync, chunk, view);
    if (!keeps || status)
        view->blocks = NULL;
    for (int b = 0; b < sync->update.nhistory; b++) {
        if (sync->world_rank == 0)
            memcpy(piece, history + (size_t)b * sync->model.elems + c->begin,
                   c->elems * sizeof *piece);
        if (steps->everywhere)
            MPI_TRY(MPI_Bcast(piece, (int)c->elems, MPI_FLOAT, 0, sync->control));
        else if (sync->world_rank == 0 && keeper != 0)
            MPI_TRY(MPI_Send(piece, (int)c->elems, MPI_FLOAT, keeper, TAG_HISTORY, sync->all));
        else if (sync->world_rank != 0)
            MPI_TRY(MPI_Recv(piece, (int)c->elems, MPI_FLOAT, 0, TAG_HISTORY, sync->all,
                             MPI_STATUS_IGNORE));
        if (view->blocks)
            memcpy(view->blocks + (size_t)b * view->stride, piece, c->elems * sizeof *piece);
    }
    return status;
fail:
    return -1;
}

static int restore_all(struct sync *sync)
{
    for (int b = 0; b < sync->plan->nbuckets; b++) {
        const struct scheme_steps *steps = sync->buckets[b].steps;
        if (steps && steps->restore && steps->restore(sync, b))
            return -1;
    }
    return 0;
}

int sync_load_history(struct sync *sync, const float *history)
{
    size_t largest = 1;
    struct history_view view = {.blocks = NULL};
    float *piece;
    int status = 0;

    for (int c = 0; c < sync->plan->nchunks; c++)
        largest = chunk_of(sync, c)->elems > largest ? chunk_of(sync, c)->elems : largest;
    piece = malloc(largest * sizeof *piece);
    if (error_agree(sync->all, piece ? 0 : error_memory(largest * sizeof *piece, "history"))) {
        free(piece);
        return -1;
    }
    for (int c = 0; c < sync->plan->nchunks && sync->leads; c++) {
        begin_bucket(sync, c, &view);
        if (load_chunk(sync, c, history, piece, &view))
            status = -1;
    }
    free(piece);
    return error_agree(sync->all, status || restore_all(sync) ? -1 : 0);
}

void calls_free(struct sync *sync)
{
    free(sync->calls.sum);
    free(sync->calls.sum_result);
    free(sync->calls.history);
}
