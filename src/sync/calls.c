/* What the compute thread has the wire thread do once: sums of a few values, questions to all
 * ranks, and the history's way to rank 0 and back. */
#include "sync/sync_internal.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_HISTORY = 2 };

/* ---- sums ---- */

static void call_over(struct sync *sync, _Atomic int64_t *done)
{
    atomic_store_explicit(done, 1, memory_order_release);
    wire_wake(sync->wire);
}

/* As many places as a sum has values. */
static int open_sum(struct call_sum *sum, int count)
{
    sum->count = count;
    if (count <= sum->capacity)
        return 0;
    free(sum->values);
    free(sum->result);
    sum->values = malloc((size_t)count * sizeof *sum->values);
    sum->result = malloc((size_t)count * sizeof *sum->result);
    sum->capacity = sum->values && sum->result ? count : 0;
    return sum->capacity ? 0 : error_memory((size_t)count * sizeof(double), "a sum over the ranks");
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
    MPI_TRY(MPI_Iallreduce(sum->values, sum->result, sum->count, MPI_DOUBLE, MPI_SUM, sum->comm,
                           &request));
    return wire_track(sum->sync->wire, request, (size_t)sum->count * sizeof(double), sum_came, sum);
fail:
    return -1;
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
    return begin_sum(sync, sum, sync->sums, values, count) || end_sum(sync, sum, values) ? -1 : 0;
}

int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES])
{
    return begin_sum(sync, &sync->calls.asked, sync->all, values, SYNC_ASK_VALUES);
}

int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES])
{
    return end_sum(sync, &sync->calls.asked, values);
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
        call_over(sync, &sync->calls.gathered);
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
    atomic_store(&sync->calls.gathered, 0);
    wire_call(sync->wire, start_gather, sync, 0);
    if (compute_wait(sync, &sync->calls.gathered, 1, -1))
        return -1;
    *history = sync->calls.history;
    return 0;
}

/* Copies rank 0's history of the chunk to the place where this rank keeps it, if it does. A rank
 * that has no such place, for lack of memory, takes part all the same: others wait for it. */
static int load_chunk(struct sync *sync, int chunk, const float *history, float *piece,
                      struct history_view *view)
{
    const struct chunk *c = chunk_of(sync, chunk);
    const struct scheme_steps *steps = keeping_steps(sync, chunk);
    int status = 0;

    if (!steps)
        return 0;
    if (steps->everywhere ? leads_chunk(sync, chunk) : keeper_of(sync, chunk) == sync->world_rank)
        status = find_history(sync, chunk, view);
    else
        view->blocks = NULL;
    for (int b = 0; b < sync->update.nhistory; b++) {
        if (sync->world_rank == 0)
            memcpy(piece, history + (size_t)b * sync->model.elems + c->begin,
                   c->elems * sizeof *piece);
        MPI_TRY(MPI_Bcast(piece, (int)c->elems, MPI_FLOAT, 0,
                          sync_drops(sync) ? sync->all : sync->control)); /* then all lead */
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
    free(sync->calls.sums.values);
    free(sync->calls.sums.result);
    free(sync->calls.asked.values);
    free(sync->calls.asked.result);
    free(sync->calls.history);
}
