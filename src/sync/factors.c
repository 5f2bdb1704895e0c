/* Rows of factors, and the gradient out of them. */
#include "sync/factors.h"

#include "util/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int factors_open(struct sync *sync, int group, int workers, int slots, struct factors *out)
{
    const struct param_group *g = &sync->plan->groups[group];
    int64_t width = g->m + g->n;

    *out = (struct factors){.workers = workers, .rows_each = g->k * sync->plan->options.iter_size};
    if (out->rows_each > INT_MAX / width)
        return error_set("layer '%s': %lld rows of %lld factors exceed what one message can count; use "
                         "--comm=ps",
                         g->name, (long long)out->rows_each, (long long)width);
    out->each = (size_t)(out->rows_each * width);
    size_t elems = out->each * (size_t)workers * (size_t)slots;
    out->rows = calloc(elems, sizeof *out->rows);
    if (!out->rows)
        return error_memory(elems * sizeof *out->rows, "sufficient factors");
    for (int p = 0; sync->worker && p < g->nparams; p++)
        sync->net->params[g->first + p].factored = true;
    return 0;
}

void factors_close(struct factors *factors)
{
    free(factors->rows);
}

void factors_stage(struct sync *sync, int group, int micro, float *rows)
{
    const struct param_group *g = &sync->plan->groups[group];
    size_t m = (size_t)g->m, n = (size_t)g->n, width = m + n;
    float *row = rows + (size_t)(micro * g->k) * width;
    const float *bottom, *top_grad;

    net_factors(sync->net, group, &bottom, &top_grad);
    for (int64_t i = 0; i < g->k; i++, row += width, bottom += n, top_grad += m) {
        memcpy(row, bottom, n * sizeof *row);
        memcpy(row + n, top_grad, m * sizeof *row);
    }
}

int factors_rebuild(struct sync *sync, int group, const struct factors *factors, int slot,
                    float *gradient)
{
    const struct param_group *g = &sync->plan->groups[group];
    int64_t rows = factors->workers * factors->rows_each, width = g->m + g->n;
    const float *from = factors_rows(factors, 0, slot);
    float *bias = gradient + g->m * g->n;
    const struct engine *engine = sync->options.engine;

    if (engine->i->gemm(engine->context, true, false, g->m, g->n, rows, 1.0f, from + g->n, width, from,
                        width, 0.0f, gradient, g->n))
        return error_context("layer '%s': rebuilding the gradient from factors", g->name);
    if (g->elems == (size_t)(g->m * g->n))
        return 0;
    memset(bias, 0, (size_t)g->m * sizeof *bias);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < g->m; j++)
            bias[j] += from[r * width + g->n + j];
    return 0;
}
