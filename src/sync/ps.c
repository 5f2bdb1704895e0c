/* Sharded parameter server. A worker sends its gradient of every chunk to the chunk's server and
 * receives the new parameters straight into its arena; a server adds gradients in rank order as they
 * come (so the sum has the same bits whatever the order of arrival), applies the solver once, and
 * sends the chunk back at once, not waiting for other chunks. A worker's own chunks never touch the
 * network: server and worker share the arena. Receives are posted one iteration ahead, so nothing
 * ever arrives unexpected. */
#include "sync/sync_internal.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

enum { WHAT_GRADIENT_OUT, WHAT_GRADIENT_IN, WHAT_PARAMETERS_OUT, WHAT_PARAMETERS_IN };

/* A chunk that this rank serves. */
struct served {
    int chunk;
    int64_t iteration;      /* being collected */
    int next;               /* next worker to be added */
    bool ready;             /* summed */
    bool cleared;           /* the clipping scale of this iteration is known; true without clipping */
    int sends;              /* parameters of the last iteration still being sent */
    unsigned char *arrived; /* per worker */
    float **from;           /* per worker: its gradient; NULL for this rank's own */
    float *sum;             /* NULL where there is one worker */
    float *history;         /* nhistory blocks of the chunk's elems */
};

struct ps {
    int nserved;
    struct served *served;
    int *index;             /* per chunk: in served, -1 */
    int64_t updates;        /* chunks updated and sent, over the whole run */
    int64_t first;          /* iteration of the start */
};

static void free_served(struct sync *sync, struct served *served)
{
    for (int w = 0; served->from && w < sync->plan->nworkers; w++)
        free(served->from[w]);
    free(served->from);
    free(served->arrived);
    free(served->sum);
    free(served->history);
}

static int open_served(struct sync *sync, struct served *served, int chunk)
{
    const struct plan *plan = sync->plan;
    size_t elems = plan->chunks[chunk].elems, bytes = elems * sizeof(float);
    size_t blocks = sync->update.nhistory > 0 ? (size_t)sync->update.nhistory : 1;

    served->chunk = chunk;
    served->iteration = sync->options.iteration;
    served->cleared = sync->options.clip <= 0;
    served->arrived = calloc((size_t)plan->nworkers, 1);
    served->from = calloc((size_t)plan->nworkers, sizeof *served->from);
    served->history = calloc(elems * blocks, sizeof(float));
    served->sum = plan->nworkers > 1 ? malloc(bytes) : NULL;
    if (!served->arrived || !served->from || !served->history || (plan->nworkers > 1 && !served->sum))
        return error_memory(bytes * (blocks + 1), "a parameter server's chunk");
    for (int w = 0; w < plan->nworkers; w++) {
        if (sync->worker && w == sync->rank)
            continue;
        served->from[w] = malloc(bytes);
        if (!served->from[w])
            return error_memory(bytes, "a parameter server's receive buffer");
    }
    return 0;
}

int ps_open(struct sync *sync)
{
    const struct plan *plan = sync->plan;
    struct ps *ps = calloc(1, sizeof *ps);

    sync->ps = ps;
    if (!ps)
        return error_memory(sizeof *ps, "the parameter server");
    ps->index = malloc(((size_t)plan->nchunks + 1) * sizeof *ps->index);
    ps->served = calloc((size_t)plan->nchunks + 1, sizeof *ps->served);
    ps->first = sync->options.iteration;
    if (!ps->index || !ps->served)
        return error_memory((size_t)plan->nchunks * sizeof *ps->served, "the parameter server");
    for (int c = 0; c < plan->nchunks; c++) {
        ps->index[c] = -1;
        if (sync->groups[plan->chunks[c].group].syncer != &syncer_ps || plan->chunks[c].server != sync->server)
            continue;
        ps->index[c] = ps->nserved++;
        if (open_served(sync, &ps->served[ps->index[c]], c))
            return -1;
    }
    return 0;
}

void ps_close(struct sync *sync)
{
    struct ps *ps = sync->ps;

    if (!ps)
        return;
    for (int i = 0; ps->served && i < ps->nserved; i++)
        free_served(sync, &ps->served[i]);
    free(ps->served);
    free(ps->index);
    free(ps);
    sync->ps = NULL;
}

float *ps_history(struct sync *sync, int chunk)
{
    struct ps *ps = sync->ps;

    return ps->index[chunk] < 0 ? NULL : ps->served[ps->index[chunk]].history;
}

static int expect_gradients(struct sync *sync, struct served *served)
{
    const struct chunk *chunk = &sync->plan->chunks[served->chunk];

    for (int w = 0; w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER, .group = chunk->group, .idle = true,
                                    .chunk = served->chunk, .peer = w, .what = WHAT_GRADIENT_IN};
        if (served->from[w] &&
            progress_receive(sync, sync->data, served->from[w], chunk->elems,
                             tag_of(sync, false, served->chunk, served->iteration), transfer))
            return -1;
    }
    return 0;
}

int ps_start(struct sync *sync)
{
    struct ps *ps = sync->ps;

    for (int i = 0; i < ps->nserved; i++)
        if (expect_gradients(sync, &ps->served[i]))
            return -1;
    return 0;
}

/* A dedicated server's compute thread waits for whole iterations. */
static void count_update(struct sync *sync)
{
    struct ps *ps = sync->ps;

    ps->updates++;
    atomic_store_explicit(&sync->served, ps->first + ps->updates / ps->nserved, memory_order_release);
    if (ps->updates % ps->nserved == 0)
        progress_wake(sync);
}

static const float *gradient_of(struct sync *sync, const struct served *served, int worker)
{
    return served->from[worker] ? served->from[worker]
                                : sync->net->grads + sync->plan->chunks[served->chunk].begin;
}

static const float *total_of(struct sync *sync, const struct served *served)
{
    return served->sum ? served->sum : gradient_of(sync, served, 0);
}

/* The sum is complete and may be applied: update, expect the next gradients, send the parameters. */
static int update_chunk(struct sync *sync, struct served *served)
{
    const struct chunk *chunk = &sync->plan->chunks[served->chunk];
    int64_t iteration = served->iteration, start = trace_begin(sync->options.trace);

    served->ready = false;
    served->cleared = sync->options.clip <= 0;
    update_range(sync, chunk->group, iteration, sync->scale * sync->clip.scale, chunk->begin,
                 chunk->elems, total_of(sync, served), served->history, chunk->elems);
    trace_span(sync->options.trace, TRACE_PROGRESS, TRACE_UPDATE, sync->plan->groups[chunk->group].layer,
               start);
    memset(served->arrived, 0, (size_t)sync->plan->nworkers);
    served->next = 0;
    served->iteration++;
    if (expect_gradients(sync, served))
        return -1;
    for (int w = 0; w < sync->plan->nworkers; w++) {
        struct transfer transfer = {.kind = TRANSFER_SYNCER, .group = chunk->group,
                                    .chunk = served->chunk, .peer = w, .what = WHAT_PARAMETERS_OUT};
        if (!served->from[w])
            continue;
        served->sends++;
        if (progress_send(sync, sync->data, sync->values + chunk->begin, chunk->elems,
                          tag_of(sync, true, served->chunk, iteration), transfer))
            return -1;
    }
    if (sync->worker && progress_finish_one(sync, chunk->group))
        return -1;
    if (served->sends == 0)
        count_update(sync);
    return 0;
}

/* Values may not change under a send that is not known to be over. */
static int try_update(struct sync *sync, struct served *served)
{
    return served->ready && served->cleared && served->sends == 0 ? update_chunk(sync, served) : 0;
}

static int chunk_summed(struct sync *sync, struct served *served)
{
    const struct chunk *chunk = &sync->plan->chunks[served->chunk];

    served->ready = true;
    if (sync->options.clip > 0)
        return clip_chunk_ready(sync, served->chunk,
                                clip_sumsq(total_of(sync, served), chunk->elems,
                                           1.0f / (float)sync->plan->nworkers));
    return try_update(sync, served);
}

int ps_update_all(struct sync *sync)
{
    struct ps *ps = sync->ps;

    for (int i = 0; i < ps->nserved; i++) {
        ps->served[i].cleared = true;
        if (try_update(sync, &ps->served[i]))
            return -1;
    }
    return 0;
}

static void add(float *restrict sum, const float *restrict gradient, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += gradient[i];
}

/* A worker's gradient is here: adds all that are next in rank order. */
static int arrive(struct sync *sync, struct served *served, int worker)
{
    const struct chunk *chunk = &sync->plan->chunks[served->chunk];

    served->arrived[worker] = 1;
    for (; served->next < sync->plan->nworkers && served->arrived[served->next]; served->next++) {
        const float *gradient = gradient_of(sync, served, served->next);
        if (!served->sum)
            continue;
        if (served->next == 0)
            memcpy(served->sum, gradient, chunk->elems * sizeof *gradient);
        else
            add(served->sum, gradient, chunk->elems);
    }
    return served->next == sync->plan->nworkers ? chunk_summed(sync, served) : 0;
}

static int ps_post(struct sync *sync, int group, int64_t iteration)
{
    const struct plan *plan = sync->plan;
    struct ps *ps = sync->ps;
    struct group_state *state = &sync->groups[group];

    state->pending = 0;
    for (int c = plan->first_chunk[group]; c < plan->first_chunk[group + 1]; c++)
        state->pending += ps->index[c] >= 0 ? 1 : 2;
    for (int c = plan->first_chunk[group]; c < plan->first_chunk[group + 1]; c++) {
        const struct chunk *chunk = &plan->chunks[c];
        struct transfer transfer = {.kind = TRANSFER_SYNCER, .group = group, .chunk = c,
                                    .peer = plan_server_rank(plan, chunk->server)};
        if (ps->index[c] >= 0) {
            if (arrive(sync, &ps->served[ps->index[c]], sync->rank))
                return -1;
            continue;
        }
        transfer.what = WHAT_PARAMETERS_IN;
        if (progress_receive(sync, sync->data, sync->values + chunk->begin, chunk->elems,
                             tag_of(sync, true, c, iteration), transfer))
            return -1;
        transfer.what = WHAT_GRADIENT_OUT;
        if (progress_send(sync, sync->data, sync->net->grads + chunk->begin, chunk->elems,
                          tag_of(sync, false, c, iteration), transfer))
            return -1;
    }
    return 0;
}

static int ps_complete(struct sync *sync, const struct transfer *transfer)
{
    struct ps *ps = sync->ps;
    struct served *served;

    atomic_fetch_add(&sync->received, transfer->bytes);
    switch (transfer->what) {
    case WHAT_GRADIENT_IN:
        return arrive(sync, &ps->served[ps->index[transfer->chunk]], transfer->peer);
    case WHAT_PARAMETERS_OUT:
        served = &ps->served[ps->index[transfer->chunk]];
        if (--served->sends > 0)
            return 0;
        count_update(sync);
        return try_update(sync, served);
    default:
        return progress_finish_one(sync, transfer->group);
    }
}

const struct syncer_i syncer_ps = {
    .scheme = SCHEME_PS,
    .post = ps_post,
    .complete = ps_complete,
};
