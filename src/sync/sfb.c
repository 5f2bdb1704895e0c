/* Sufficient factor broadcasting (Xie et al., "Lighter-Communication Distributed Machine Learning via
 * Sufficient Factor Broadcasting", UAI'16). The gradient of a fully connected layer is a sum of outer
 * products, one per sample: dW (m x n) = sum_k top_grad_k^T bottom_k. Each worker sends its k pairs to
 * all others instead of m*n numbers; every worker rebuilds the same sum by one GEMM and applies the
 * solver itself. The bias gradient is the column sum of the top gradients, so it travels along free.
 *
 * A row holds [bottom (n) | top gradient (m)], so the rows of all workers and micro-batches lie at one
 * stride and one GEMM covers them, in rank order: the same bits on every rank. */
#include "sync/sync_internal.h"

#include "util/agree.h"
#include "util/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct sfb {
    float *rows;    /* workers x rows x (n + m); this rank's part is sent in place */
    float *history; /* nhistory blocks of the group's elems; on the host, else: */
    int64_t rows_each; /* per worker: batch * iter_size */
    /* where the engine has memory of its own */
    float *remote_rows, *ones; /* the same rows; as many ones, which make the bias gradient a product */
    struct remote_history remote_history;
};

static int alloc_remote(struct sync *sync, size_t elems, const char *what, float **out)
{
    const struct engine *engine = sync->net->engine;
    void *memory = NULL;

    if (engine->i->alloc(engine->context, elems * sizeof **out, what, &memory))
        return -1;
    *out = memory;
    return 0;
}

/* The factors cross over once on their way out and all come back once; gradient, history and parameters
 * never leave the engine. */
static int open_remote(struct sync *sync, int group, struct sfb *sfb, size_t elems)
{
    const struct engine *engine = sync->net->engine;
    size_t rows = (size_t)sync->plan->nworkers * (size_t)sfb->rows_each;
    struct tensor ones = {.shape = {.naxes = 1, .dim = {(int64_t)rows}}, .bytes = rows * sizeof(float)};
    void *memory = NULL;
    float *host;
    int status;

    if (sync->remote->host_alloc(engine->context, elems * sizeof(float), "sufficient factors", &memory))
        return -1;
    sfb->rows = memory;
    if (alloc_remote(sync, elems, "sufficient factors", &sfb->remote_rows) ||
        alloc_remote(sync, rows, "sufficient factors", &sfb->ones) ||
        remote_history_open(sync, group, &sfb->remote_history))
        return -1;
    host = malloc(rows * sizeof *host);
    if (!host)
        return error_memory(rows * sizeof *host, "sufficient factors");
    for (size_t i = 0; i < rows; i++)
        host[i] = 1;
    ones.data = sfb->ones;
    status = engine->i->write(engine->context, &ones, host);
    free(host);
    return status;
}

static int sfb_open(struct sync *sync, int group)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct sfb *sfb = calloc(1, sizeof *sfb);
    size_t blocks = sync->update.nhistory > 0 ? (size_t)sync->update.nhistory : 1;

    sync->groups[group].own = sfb;
    if (!sfb)
        return error_memory(sizeof *sfb, "sufficient factors");
    sfb->rows_each = g->k * sync->plan->options.iter_size;
    if (sfb->rows_each * (g->m + g->n) > INT_MAX)
        return error_set("layer '%s': %lld rows of %lld factors exceed what one message can count; use "
                         "--comm=ps",
                         g->name, (long long)sfb->rows_each, (long long)(g->m + g->n));
    size_t elems = (size_t)sync->plan->nworkers * (size_t)(sfb->rows_each * (g->m + g->n));
    for (int p = 0; p < g->nparams; p++)
        sync->net->params[g->first + p].factored = true;
    if (sync->remote)
        return open_remote(sync, group, sfb, elems);
    sfb->rows = calloc(elems, sizeof(float));
    sfb->history = calloc(g->elems * blocks, sizeof(float));
    if (!sfb->rows || !sfb->history)
        return error_memory((elems + g->elems * blocks) * sizeof(float), "sufficient factors");
    return 0;
}

static void sfb_close(struct sync *sync, int group)
{
    struct sfb *sfb = sync->groups[group].own;

    if (!sfb)
        return;
    if (sync->remote) {
        const struct engine *engine = sync->net->engine;
        sync->remote->host_free(engine->context, sfb->rows);
        engine->i->free(engine->context, sfb->remote_rows);
        engine->i->free(engine->context, sfb->ones);
        remote_history_close(sync, &sfb->remote_history);
        sfb->rows = NULL;
    }
    free(sfb->rows);
    free(sfb->history);
    free(sfb);
    sync->groups[group].own = NULL;
}

static int stage_remote(struct sync *sync, int group, float *row, const float *bottom,
                        const float *top_grad)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct engine_rows rows = {.host = row, .host_stride = (size_t)(g->m + g->n), .width = (size_t)g->n,
                               .memory = (float *)(uintptr_t)bottom, .stride = (size_t)g->n,
                               .rows = (size_t)g->k};
    void *context = sync->net->engine->context;

    if (sync->remote->fetch(context, &rows, sync->groups[group].down))
        return -1;
    rows.host = row + g->n;
    rows.memory = (float *)(uintptr_t)top_grad;
    rows.width = rows.stride = (size_t)g->m;
    return sync->remote->fetch(context, &rows, sync->groups[group].down);
}

/* The net reuses its buffers in the next micro-batch, so the factors are copied out right away. */
static int sfb_stage(struct sync *sync, int group, int micro)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct sfb *sfb = sync->groups[group].own;
    size_t m = (size_t)g->m, n = (size_t)g->n, width = m + n;
    float *row = sfb->rows +
                 (size_t)(sync->rank * sfb->rows_each + micro * g->k) * width;
    const float *bottom, *top_grad;

    net_factors(sync->net, group, &bottom, &top_grad);
    if (sync->remote)
        return stage_remote(sync, group, row, bottom, top_grad);
    for (int64_t i = 0; i < g->k; i++, row += width, bottom += n, top_grad += m) {
        memcpy(row, bottom, n * sizeof *row);
        memcpy(row + n, top_grad, m * sizeof *row);
    }
    return 0;
}

static int sfb_post(struct sync *sync, int group, int64_t iteration)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct sfb *sfb = sync->groups[group].own;
    int each = (int)(sfb->rows_each * (g->m + g->n));
    uint64_t bytes = (uint64_t)(sync->plan->nworkers - 1) * (uint64_t)each * sizeof(float);
    struct transfer transfer = {.kind = TRANSFER_SYNCER, .group = group, .peer = -1, .chunk = -1};
    MPI_Request request;

    (void)iteration;
    transfer.event = progress_describe(sync, TRACE_EXCHANGE, &transfer, 0, bytes);
    sync->groups[group].pending = 1;
    MPI_TRY(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, sfb->rows, each, MPI_FLOAT,
                           sync->workers, &request));
    atomic_fetch_add(&sync->sent, bytes);
    atomic_fetch_add(&sync->received, bytes);
    return progress_track(sync, request, transfer);
fail:
    return -1;
}

static int sfb_complete(struct sync *sync, const struct transfer *transfer)
{
    const struct param_group *g = &sync->plan->groups[transfer->group];
    struct sfb *sfb = sync->groups[transfer->group].own;
    size_t elems = (size_t)(sync->plan->nworkers * sfb->rows_each * (g->m + g->n));
    struct engine_rows rows = {.host = sfb->rows, .host_stride = elems, .memory = sfb->remote_rows,
                               .stride = elems, .width = elems, .rows = 1};

    if (sync->remote && sync->remote->store(sync->net->engine->context, &rows,
                                            sync->groups[transfer->group].up))
        return -1;
    return progress_finish_one(sync, transfer->group);
}

static int rebuild_remote(struct sync *sync, int group)
{
    const struct param_group *g = &sync->plan->groups[group];
    const struct sfb *sfb = sync->groups[group].own;
    int64_t rows = sync->plan->nworkers * sfb->rows_each, width = g->m + g->n;
    float *weight = sync->net->remote_grads + g->begin, *bias = weight + g->m * g->n;
    const struct engine *engine = sync->net->engine;

    if (remote_order(sync, group) ||
        engine->i->gemm(engine->context, true, false, g->m, g->n, rows, 1.0f, sfb->remote_rows + g->n,
                        width, sfb->remote_rows, width, 0.0f, weight, g->n))
        return error_context("layer '%s': rebuilding the gradient from factors", g->name);
    if (g->elems == (size_t)(g->m * g->n))
        return 0;
    if (engine->i->gemm(engine->context, true, false, g->m, 1, rows, 1.0f, sfb->remote_rows + g->n, width,
                        sfb->ones, 1, 0.0f, bias, 1))
        return error_context("layer '%s': rebuilding the bias gradient from factors", g->name);
    return 0;
}

static int sfb_rebuild(struct sync *sync, int group, int64_t iteration)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct sfb *sfb = sync->groups[group].own;
    int64_t rows = sync->plan->nworkers * sfb->rows_each, width = g->m + g->n;
    float *weight = sync->net->grads + g->begin, *bias = weight + g->m * g->n;
    const struct engine *engine = sync->net->engine;

    (void)iteration;
    if (sync->remote)
        return rebuild_remote(sync, group);
    if (engine->i->gemm(engine->context, true, false, g->m, g->n, rows, 1.0f, sfb->rows + g->n, width,
                        sfb->rows, width, 0.0f, weight, g->n))
        return error_context("layer '%s': rebuilding the gradient from factors", g->name);
    if (g->elems == (size_t)(g->m * g->n))
        return 0;
    memset(bias, 0, (size_t)g->m * sizeof *bias);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < g->m; j++)
            bias[j] += sfb->rows[r * width + g->n + j];
    return 0;
}

static int sfb_settle(struct sync *sync, int group, int64_t iteration)
{
    const struct param_group *g = &sync->plan->groups[group];
    struct sfb *sfb = sync->groups[group].own;

    if (sync->remote)
        return remote_update(sync, group, iteration, sync->scale * sync->clip.scale,
                             sfb->remote_history.memory);
    update_range(sync, group, iteration, sync->scale * sync->clip.scale, g->begin, g->elems,
                 sync->net->grads + g->begin, sfb->history, g->elems);
    return 0;
}

static float *sfb_history(struct sync *sync, int group)
{
    struct sfb *sfb = sync->groups[group].own;

    return sync->remote ? remote_history_read(sync, &sfb->remote_history) : sfb->history;
}

static int sfb_restore(struct sync *sync, int group)
{
    struct sfb *sfb = sync->groups[group].own;

    return sync->remote ? remote_history_restore(sync, &sfb->remote_history) : 0;
}

const struct syncer_i syncer_sfb = {
    .scheme = SCHEME_SFB,
    .open = sfb_open,
    .close = sfb_close,
    .stage = sfb_stage,
    .post = sfb_post,
    .complete = sfb_complete,
    .rebuild = sfb_rebuild,
    .settle = sfb_settle,
    .history = sfb_history,
    .restore = sfb_restore,
};
