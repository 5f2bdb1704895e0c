/* Norms of parameters and their gradients, and the rates computed from them. */
#include "sync/lars.h"

#include "sync/gradient.h"
#include "sync/sync_internal.h"

#include <math.h>

/* Returns the state before a chunk's first piece, for piece_next. */
static struct piece before_chunk(const struct sync *sync, int chunk)
{
    const struct chunk *c = chunk_of(sync, chunk);

    return piece_before(c->bucket, c->begin, c->elems);
}

int lars_open(struct sync *sync)
{
    const struct plan *plan = sync->plan;
    struct lars *lars = &sync->lars;
    int params = 0;

    if (sync->options.lars <= 0)
        return 0;
    if (OWN(&sync->owner, lars->first, plan->nchunks + 1, "norms of parameters") ||
        OWN(&sync->owner, lars->param, plan->ngroups + 1, "norms of parameters"))
        return -1;
    for (int g = 0; g < plan->ngroups; g++) {
        lars->param[g] = params;
        params += plan->groups[g].nparams;
    }
    for (int c = 0; c < plan->nchunks; c++) {
        struct piece piece = before_chunk(sync, c);
        lars->first[c + 1] = lars->first[c];
        while (piece_next(sync, &piece))
            lars->first[c + 1]++;
    }
    return OWN(&sync->owner, lars->rates, params + 1, "local rates");
}

int lars_count(const struct sync *sync)
{
    return sync->lars.first ? 2 * sync->lars.first[sync->plan->nchunks] : 0;
}

int lars_note(struct sync *sync, int chunk, bool on_device, const float *gradient,
              const float *values, double *out)
{
    struct piece piece = before_chunk(sync, chunk);
    size_t begin = chunk_of(sync, chunk)->begin;

    if (!sync->lars.first)
        return 0;
    out += 2 * sync->lars.first[chunk];
    for (; piece_next(sync, &piece); out += 2)
        if (gradient_sumsq(sync, on_device, gradient + (piece.from - begin), piece.elems, 1, out) ||
            gradient_sumsq(sync, on_device, values + (piece.from - begin), piece.elems, 1, out + 1))
            return -1;
    return 0;
}

static float rate_of(const struct sync *sync, double gradient, double value)
{
    double g = sqrt(gradient) * (double)(sync->scale * sync->clip.scale), w = sqrt(value);

    if (!(g > 0 && w > 0))
        return 1;
    return (float)((double)sync->options.lars * w / (g + (double)sync->options.decay * w));
}

/* Relies on the order of pieces: a parameter's pieces are in successive chunks. */
void lars_settle(struct sync *sync, const double *sums)
{
    double gradient = 0, value = 0;

    for (int c = 0; sync->lars.first && c < sync->plan->nchunks; c++) {
        struct piece piece = before_chunk(sync, c);
        for (; piece_next(sync, &piece); sums += 2) {
            const struct group *group = &sync->plan->groups[piece.group];
            float *rate = &sync->lars.rates[sync->lars.param[piece.group] + piece.param];
            bool first = piece.from == piece.at;
            gradient = sums[0] + (first ? 0 : gradient);
            value = sums[1] + (first ? 0 : value);
            *rate = group->params[piece.param].lr_mult > 0 ? rate_of(sync, gradient, value) : 0;
        }
    }
}

float lars_rate(const struct sync *sync, int group, int param)
{
    return sync->lars.first ? sync->lars.rates[sync->lars.param[group] + param]
                            : sync->plan->groups[group].params[param].lr_mult;
}
