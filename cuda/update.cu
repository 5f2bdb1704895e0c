/* The solver's rules, one pass over value, gradient and history; and sums of squares for clipping.
 *
 * The formulas and their order are those of device/rule.c, with multiply and add kept apart: the
 * device's parameters equal the host's to the last bit, or nearly so. */
#include "kernel.cuh"

#include "engine/engine.h"

#ifdef __CUDACC__
#define MUL(a, b) __fmul_rn((a), (b))
#define ADD(a, b) __fadd_rn((a), (b))
#else
#define MUL(a, b) ((a) * (b))
#define ADD(a, b) ((a) + (b))
#endif

static DEVICE float effective(const struct device_update *u, float grad, float value)
{
    float g = MUL(grad, u->scale);

    if (u->decay == 0 || u->rule == RULE_ADAMW)
        return g;
    return ADD(g, MUL(u->decay, u->l1 ? (float)((value > 0) - (value < 0)) : value));
}

static DEVICE float average(float momentum, float old, float value)
{
    return ADD(MUL(momentum, old), MUL(1 - momentum, value));
}

/* Updates one parameter, and its one or two histories. */
static DEVICE void update_one(const struct device_update &u, float grad, float *value,
                              float *history, float *second)
{
    float w = *value, g = effective(&u, grad, w), old = *history, h = old, d;

    switch (u.rule) {
    case RULE_SGD:
        h = ADD(MUL(u.momentum, h), MUL(u.rate, g));
        w = ADD(w, -h);
        break;
    case RULE_NESTEROV:
        h = ADD(MUL(u.momentum, old), MUL(u.rate, g));
        w = ADD(w, -ADD(MUL(1 + u.momentum, h), -MUL(u.momentum, old)));
        break;
    case RULE_ADAGRAD:
        h = ADD(h, MUL(g, g));
        w = ADD(w, -MUL(u.rate, g / ADD(sqrtf(h), u.delta)));
        break;
    case RULE_RMSPROP:
        h = average(u.rms_decay, h, MUL(g, g));
        w = ADD(w, -MUL(u.rate, g / ADD(sqrtf(h), u.delta)));
        break;
    case RULE_ADADELTA:
        h = average(u.momentum, h, MUL(g, g));
        d = MUL(g, sqrtf(ADD(*second, u.delta) / ADD(h, u.delta)));
        *second = average(u.momentum, *second, MUL(d, d));
        w = ADD(w, -MUL(u.rate, d));
        break;
    case RULE_ADAMW:
        w = ADD(w, -MUL(u.decay, w));
        [[fallthrough]];
    case RULE_ADAM:
        h = average(u.momentum, h, g);
        *second = average(u.momentum2, *second, MUL(g, g));
        w = ADD(w, -MUL(u.rate, h / ADD(sqrtf(*second), u.delta)));
        break;
    case RULE_MEAN:
        w = g;
        break;
    }
    *history = h;
    *value = w;
}

template <int V>
KERNEL void update(struct device_update u, float *value, const float *grad, float *history,
                   float *second, size_t n)
{
    FOR_EACH(i, n)
    {
        float w[V], g[V], h[V], s[V] = {0};
        lanes_get<V>(value + i * V, w);
        lanes_get<V>(grad + i * V, g);
        lanes_get<V>(history + i * V, h);
        if (second)
            lanes_get<V>(second + i * V, s);
        UNROLL
        for (int k = 0; k < V; k++)
            update_one(u, g[k], &w[k], &h[k], &s[k]);
        lanes_set<V>(history + i * V, h);
        lanes_set<V>(value + i * V, w);
        if (second)
            lanes_set<V>(second + i * V, s);
    }
}

cudaError_t kernel_update(cudaStream_t stream, const struct device_update *u, float *value,
                          const float *grad, float *history, float *second, size_t n)
{
    WITH_LANES(lanes_fit((int)n, value, grad, history, second),
               LAUNCH(update<V>, grid_for(n / V), THREADS, stream, *u, value, grad, history, second,
                      n / V));
    return cudaGetLastError();
}

KERNEL void sumsq_part(const float *x, float scale, size_t n, double *partial)
{
    double sum = 0;

    FOR_EACH(i, n)
    {
        double v = (double)x[i] * (double)scale;
        sum += v * v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

KERNEL void sumsq_finish(const double *partial, int parts, double *out)
{
    double sum = 0;

    for (int i = (int)threadIdx.x; i < parts; i += (int)blockDim.x)
        sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *out = sum;
}

cudaError_t kernel_sumsq(cudaStream_t stream, const float *x, float scale, size_t n,
                         double *partial, double *out)
{
    LAUNCH(sumsq_part, KERNEL_SUM_BLOCKS, THREADS, stream, x, scale, n, partial);
    LAUNCH(sumsq_finish, 1, THREADS, stream, (const double *)partial, (int)KERNEL_SUM_BLOCKS, out);
    return cudaGetLastError();
}
