/* One function of each element, and its derivative: the table of engine/ops.h. */
#include "kernel.cuh"

#include "engine/ops.h"

static DEVICE float unary_logistic(float x)
{
    return 1 / (1 + expf(-x));
}

/* Returns F of UNARY_GELU: exact where a is 0, else by tanh. */
static DEVICE float unary_normal(const struct kernel_unary *u, float x)
{
    return u->a == 0 ? 0.5f * erfcf(-0.707106781f * x)
                     : unary_logistic(1.595769122f * x * (1 + 0.044715f * x * x));
}

static DEVICE float unary_normal_slope(const struct kernel_unary *u, float x)
{
    return u->a == 0
               ? 0.398942280f * expf(-0.5f * x * x)
               : unary_normal(u, x) * unary_normal(u, -x) * 1.595769122f * (1 + 0.134145f * x * x);
}

/* Returns base^c; 1 where c is 0, for any base. */
static DEVICE float unary_power(float base, float c)
{
    if (c == 1)
        return base;
    if (c == 2)
        return base * base;
    return c == 0 ? 1 : powf(base, c);
}

static DEVICE float unary_value(const struct kernel_unary *u, float x)
{
    switch ((enum unary_function)u->function) {
    case UNARY_ABS:
        return fabsf(x);
    case UNARY_BNLL:
        return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
    case UNARY_CLIP:
        return x < u->a ? u->a : x > u->b ? u->b : x;
    case UNARY_ELU:
        return x > 0 ? x : u->a * expm1f(x);
    case UNARY_EXP:
        return expf(u->a * x + u->b);
    case UNARY_GELU:
        return x * unary_normal(u, x);
    case UNARY_LOG:
        return u->c * logf(u->a * x + u->b);
    case UNARY_POWER:
        return unary_power(u->a * x + u->b, u->c);
    case UNARY_RELU6:
        return x < 0 ? 0 : x > 6 ? 6 : x;
    case UNARY_SIGMOID:
        return unary_logistic(x);
    case UNARY_SWISH:
        return x * unary_logistic(u->a * x);
    case UNARY_TANH:
        return tanhf(x);
    case UNARY_THRESHOLD:
        return x > u->a ? 1 : x != x ? x : 0;
    }
    return x;
}

/* Returns the derivative. v: y for functions whose derivative follows from y, else x. */
static DEVICE float unary_slope(const struct kernel_unary *u, float v)
{
    float e, s;

    switch ((enum unary_function)u->function) {
    case UNARY_ABS:
        return (float)((v > 0) - (v < 0));
    case UNARY_BNLL:
        e = expf(v < 50 ? v : 50);
        return e / (1 + e);
    case UNARY_CLIP:
        return v >= u->a && v <= u->b ? 1 : 0;
    case UNARY_ELU:
        return v > 0 ? 1 : u->a >= 0 ? v + u->a : u->a * expf(v);
    case UNARY_EXP:
        return u->a * v;
    case UNARY_GELU:
        return unary_normal(u, v) + v * unary_normal_slope(u, v);
    case UNARY_LOG:
        return u->c * u->a / (u->a * v + u->b);
    case UNARY_POWER:
        if (u->c == 1 || u->c == 0 || u->a == 0)
            return u->c == 1 ? u->a : 0;
        return u->c * u->a * unary_power(u->a * v + u->b, u->c - 1);
    case UNARY_RELU6:
        return v > 0 && v < 6 ? 1 : 0;
    case UNARY_SIGMOID:
        return v * (1 - v);
    case UNARY_SWISH:
        s = unary_logistic(u->a * v);
        return u->a * v * s + s * (1 - u->a * v * s);
    case UNARY_TANH:
        return 1 - v * v;
    case UNARY_THRESHOLD:
        break;
    }
    return 0;
}

template <typename T> KERNEL void unary(struct kernel_unary u, const T *x, T *y, size_t n)
{
    FOR_EACH(i, n)
    element_set(&y[i], unary_value(&u, element(x[i])));
}

cudaError_t kernel_unary(cudaStream_t stream, enum cuda_type type, const struct kernel_unary *u,
                         const void *x, void *y, size_t n)
{
    WITH_TYPE(type, LAUNCH(unary<T>, grid_for(n), THREADS, stream, *u, (const T *)x, (T *)y, n));
    return cudaGetLastError();
}

/* again: computes y from `at` first, since the derivative needs y. */
template <typename T>
KERNEL void unary_back(struct kernel_unary u, bool again, const T *at, const T *dy, T *dx, size_t n)
{
    FOR_EACH(i, n)
    {
        float v = element(at[i]);
        element_set(&dx[i], element(dy[i]) * unary_slope(&u, again ? unary_value(&u, v) : v));
    }
}

cudaError_t kernel_unary_back(cudaStream_t stream, enum cuda_type type,
                              const struct kernel_unary *u, bool top, const void *at,
                              const void *dy, void *dx, size_t n)
{
    bool again = !top && u->from_top;

    WITH_TYPE(type, LAUNCH(unary_back<T>, grid_for(n), THREADS, stream, *u, again, (const T *)at,
                           (const T *)dy, (T *)dx, n));
    return cudaGetLastError();
}
