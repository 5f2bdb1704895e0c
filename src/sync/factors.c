/* Rows of factors, and the gradient out of them. */
#include "sync/factors.h"

#include "util/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The factors cross over once on their way out and all come back once; gradient, history and
 * parameters never leave the engine. elems: of all slots. */
static int open_remote(struct sync *sync, size_t elems, struct factors *out)
{
    const struct engine *engine = sync->net->engine;
    size_t rows = (size_t)out->workers * (size_t)out->rows_each;
    struct tensor ones = {.shape = {.naxes = 1, .dim = {(int64_t)rows}},
                          .bytes = rows * sizeof(float)};
    void *host = NULL, *memory = NULL, *column = NULL;
    float *values;
    int status;

    if (out->direct
            ? engine->i->alloc(engine->context, elems * sizeof(float), "sufficient factors", &host)
            : sync->remote->host_alloc(engine->context, elems * sizeof(float), "sufficient factors",
                                       &host))
        return -1;
    out->rows = host;
    if (out->on_host)
        return 0;
    if (!out->direct &&
        engine->i->alloc(engine->context, out->each * (size_t)out->workers * sizeof(float),
                         "sufficient factors", &memory))
        return -1;
    out->remote_rows = memory;
    if (engine->i->alloc(engine->context, rows * sizeof(float), "sufficient factors", &column))
        return -1;
    out->ones = ones.data = column;
    values = malloc(rows * sizeof *values);
    if (!values)
        return error_memory(rows * sizeof *values, "sufficient factors");
    for (size_t i = 0; i < rows; i++)
        values[i] = 1;
    status = engine->i->write(engine->context, &ones, values);
    free(values);
    return status;
}

static void lay_out(const struct sync *sync, int group, struct factors *out)
{
    const struct plan *plan = sync->plan;
    const struct bucket *g = &plan->buckets[group];
    bool sfb = plan->buckets[group].scheme->home == HOME_NOBODY;
    bool all = sfb || plan_home(plan, plan->buckets[group].first_chunk) == sync->speaker;

    *out = (struct factors){.slots = sfb ? 2 : 1,
                            .workers = all ? plan->nworkers : 1,
                            .mine = all ? sync->speaker : 0,
                            .rows_each = g->k * plan->options.iter_size * plan->most_locals};
    out->each = (size_t)(out->rows_each * (g->m + g->n));
}

size_t factors_elems(const struct sync *sync, int group)
{
    struct factors factors;

    lay_out(sync, group, &factors);
    return factors.each * (size_t)factors.workers * (size_t)factors.slots;
}

float *factors_own(const struct sync *sync, const struct factors *factors, int slot)
{
    size_t before = sync->node ? (size_t)sync->options.node->rank : 0;

    return factors_rows(factors, factors->mine, slot) +
           before * (factors->each / (size_t)sync->plan->most_locals);
}

int factors_open(struct sync *sync, int group, struct factors *out)
{
    const struct bucket *g = &sync->plan->buckets[group];
    int64_t width = g->m + g->n;

    lay_out(sync, group, out);
    if (sync->plan->buckets[group].scheme->home == HOME_OWNER &&
        !(out->on_host = remote_host_engine(sync)))
        return -1;
    out->direct = sync->direct && !out->on_host;
    if (out->rows_each > INT_MAX / width)
        return error_set(
            "layer '%s': %lld rows of %lld factors exceed what one message can count; use "
            "--comm=ps",
            g->name, (long long)out->rows_each, (long long)width);
    size_t elems = factors_elems(sync, group);
    const struct param_group *own = &sync->net->groups[g->first_group];
    for (int p = 0; sync->worker && p < own->nparams; p++)
        sync->net->params[own->first + p].factored = true;
    if (sync->remote)
        return open_remote(sync, elems, out);
    if (sync->node) {
        out->rows = node_rows(sync, group);
        return 0;
    }
    out->rows = calloc(elems, sizeof *out->rows);
    if (!out->rows)
        return error_memory(elems * sizeof *out->rows, "sufficient factors");
    return 0;
}

void factors_close(struct sync *sync, struct factors *factors)
{
    const struct engine *engine = sync->net->engine;

    if (!sync->remote) {
        if (!sync->node)
            free(factors->rows);
        return;
    }
    if (factors->direct)
        engine->i->free(engine->context, factors->rows);
    else
        sync->remote->host_free(engine->context, factors->rows);
    engine->i->free(engine->context, factors->remote_rows);
    engine->i->free(engine->context, factors->ones);
}

static int stage_remote(struct sync *sync, int group, bool direct, float *row, const float *bottom,
                        const float *top_grad)
{
    int (*move)(void *context, const struct engine_rows *rows, struct engine_ticket *ticket) =
        direct ? sync->remote->copy : sync->remote->fetch;
    const struct bucket *g = &sync->plan->buckets[group];
    struct engine_rows rows = {.host = row,
                               .host_stride = (size_t)(g->m + g->n),
                               .width = (size_t)g->n,
                               .memory = (float *)(uintptr_t)bottom,
                               .stride = (size_t)g->n,
                               .rows = (size_t)g->k};
    void *context = sync->net->engine->context;

    if (move(context, &rows, sync->groups[group].down))
        return -1;
    rows.host = row + g->n;
    rows.memory = (float *)(uintptr_t)top_grad;
    rows.width = rows.stride = (size_t)g->m;
    return move(context, &rows, sync->groups[group].down);
}

int factors_stage(struct sync *sync, int group, const struct factors *factors, int slot, int micro)
{
    const struct bucket *g = &sync->plan->buckets[group];
    size_t m = (size_t)g->m, n = (size_t)g->n, width = m + n;
    float *row = factors_own(sync, factors, slot) + (size_t)(micro * g->k) * width;
    const float *bottom, *top_grad;

    net_factors(sync->net, sync->plan->buckets[group].first_group, &bottom, &top_grad);
    if (sync->remote)
        return stage_remote(sync, group, factors->direct, row, bottom, top_grad);
    for (int64_t i = 0; i < g->k; i++, row += width, bottom += n, top_grad += m) {
        memcpy(row, bottom, n * sizeof *row);
        memcpy(row + n, top_grad, m * sizeof *row);
    }
    return 0;
}

int factors_store(struct sync *sync, int group, const struct factors *factors, int slot)
{
    size_t elems = factors->each * (size_t)factors->workers;
    struct engine_rows rows = {.host = factors_rows(factors, 0, slot),
                               .host_stride = elems,
                               .memory = factors->remote_rows,
                               .stride = elems,
                               .width = elems,
                               .rows = 1};

    if (!sync->remote || factors->direct)
        return 0;
    return sync->remote->store(sync->net->engine->context, &rows, sync->groups[group].up);
}

/* Who rebuilds, and where the rows of the slot are for it. */
static const struct engine *rebuilder(struct sync *sync, const struct factors *factors, int slot,
                                      const float **rows)
{
    bool remote = sync->remote && !factors->on_host;

    *rows = remote && !factors->direct ? factors->remote_rows : factors_rows(factors, 0, slot);
    return factors->on_host ? factors->on_host : sync->options.engine;
}

int factors_product(struct sync *sync, int group, const struct factors *factors, int slot,
                    int first, int last, float *gradient)
{
    const struct bucket *g = &sync->plan->buckets[group];
    int64_t rows = (last - first) * factors->rows_each, width = g->m + g->n;
    const float *from;
    const struct engine *engine = rebuilder(sync, factors, slot, &from);

    from += (size_t)first * factors->each;
    if (engine->i->blank && first <= factors->mine && factors->mine < last)
        rows -= factors->rows_each; /* the time of the layer's backward has this rank's own in it */
    if (rows > 0 &&
        engine->i->gemm(engine->context, true, false, g->m, g->n, rows, 1.0f, from + g->n, width,
                        from, width, first > 0 ? 1.0f : 0.0f, gradient, g->n))
        return error_context("layer '%s': rebuilding the gradient from factors", g->name);
    return 0;
}

int factors_rebuild(struct sync *sync, int group, const struct factors *factors, int slot,
                    int first, float *gradient)
{
    const struct bucket *g = &sync->plan->buckets[group];
    int64_t rows = factors->workers * factors->rows_each, width = g->m + g->n;
    float *bias = gradient + g->m * g->n;
    const float *from;
    const struct engine *engine = rebuilder(sync, factors, slot, &from);
    bool remote = sync->remote && !factors->on_host;

    if ((remote && remote_order(sync, group)) ||
        factors_product(sync, group, factors, slot, first, factors->workers, gradient))
        return -1;
    if (g->elems == (size_t)(g->m * g->n) || engine->i->blank)
        return 0;
    if (remote)
        return engine->i->gemm(engine->context, true, false, g->m, 1, rows, 1.0f, from + g->n,
                               width, factors->ones, 1, 0.0f, bias, 1);
    memset(bias, 0, (size_t)g->m * sizeof *bias);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < g->m; j++)
            bias[j] += from[r * width + g->n + j];
    return 0;
}
