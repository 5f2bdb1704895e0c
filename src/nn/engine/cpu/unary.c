/* Operators that are one function of each element. The exponential is our own, so that the compiler
 * can vectorise functions that use it; its error is about two units in the last place. */
#include "engine/cpu/element.h"

#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
/* lets the compiler use the sqrt instruction, and compute both sides of a choice */
#pragma GCC optimize("no-math-errno", "no-trapping-math")
#endif

/* Computes e^x = 2^n e^r, |r| <= ln 2 / 2; 2^n is two factors, as e^x may over- or underflow. */
INLINE float unary_exp(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float t, n, r, p, f1, f2;
    int32_t bits, i1, i2;

    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    t = x * 1.44269504f + magic;
    n = t - magic;
    r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    memcpy(&bits, &t, sizeof bits);
    bits -= 0x4b400000; /* n as an integer */
    i1 = bits >> 1;
    i2 = ((bits - i1) + 127) << 23;
    i1 = (i1 + 127) << 23;
    memcpy(&f1, &i1, sizeof f1);
    memcpy(&f2, &i2, sizeof f2);
    return p * f1 * f2;
}

/* Computes e^x - 1 without cancellation near 0. */
INLINE float unary_exp_minus_one(float x)
{
    float near = x * (1 + x * (0.5f + x * (1.f / 6 + x * (1.f / 24 + x * (1.f / 120 + x / 720)))));

    return fabsf(x) < 0.25f ? near : unary_exp(x) - 1;
}

INLINE float unary_sigmoid(float x)
{
    return 1 / (1 + unary_exp(-x));
}

INLINE float unary_tanh(float x)
{
    float q = x * x;
    float near = x * (1 + q * (-1.f / 3 + q * (2.f / 15 + q * (-17.f / 315 + q * (62.f / 2835)))));
    float far = 1 - 2 / (unary_exp(2 * x) + 1);

    return q < 0.0625f ? near : far;
}

INLINE float unary_sign(float x)
{
    return (float)((x > 0) - (x < 0));
}

INLINE float unary_bnll(float x)
{
    return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}

/* Constants of GELU's tanh form: sqrt(2 / pi) (x + 0.044715 x^3). */
#define GELU_SCALE 0.797884561f
#define GELU_CUBIC 0.044715f

INLINE float unary_normal(float x)
{
    return 0.5f * erfcf(-0.707106781f * x);
}

/* Returns t whose logistic function is near the normal distribution's value at x. */
INLINE float unary_normal_logit(float x)
{
    return 2 * GELU_SCALE * x * (1 + GELU_CUBIC * x * x);
}

INLINE float unary_power(float base, float power)
{
    return power == 1      ? base
           : power == 2    ? base * base
           : power == 0.5f ? sqrtf(base)
           : power == 0    ? 1
                           : powf(base, power);
}

#define MAP(expression)                                                                            \
    _Pragma("omp simd") for (size_t i = 0; i < n; i++)                                             \
    {                                                                                              \
        float v = x[i];                                                                            \
        y[i] = expression;                                                                         \
    }                                                                                              \
    break

CPU_KERNEL static void unary_forward_piece(const struct unary_args *args, const float *x, float *y,
                                           size_t n)
{
    float a = args->a, b = args->b, c = args->c;

    switch (args->function) {
    case UNARY_ABS:
        MAP(fabsf(v));
    case UNARY_BNLL:
        MAP(unary_bnll(v));
    case UNARY_CLIP:
        MAP(v < a ? a : v > b ? b : v);
    case UNARY_ELU:
        MAP(v > 0 ? v : a * unary_exp_minus_one(v));
    case UNARY_EXP:
        MAP(unary_exp(a * v + b));
    case UNARY_GELU:
        if (a == 0) {
            MAP(v * unary_normal(v));
        } else {
            MAP(v * unary_sigmoid(unary_normal_logit(v)));
        }
    case UNARY_LOG:
        MAP(c * logf(a * v + b));
    case UNARY_POWER:
        if (c == 1) {
            MAP(a * v + b);
        } else {
            MAP(unary_power(a * v + b, c));
        }
    case UNARY_RELU6:
        MAP(v < 0 ? 0 : v > 6 ? 6 : v);
    case UNARY_SIGMOID:
        MAP(unary_sigmoid(v));
    case UNARY_SWISH:
        MAP(v * unary_sigmoid(a * v));
    case UNARY_TANH:
        MAP(unary_tanh(v));
    case UNARY_THRESHOLD:
        MAP(v > a ? 1 : 0);
    }
}

/* Writes dx = dy times the expression. `v` is x or, in unary_backward_top_piece, y. */
#undef MAP
#define MAP(expression)                                                                            \
    _Pragma("omp simd") for (size_t i = 0; i < n; i++)                                             \
    {                                                                                              \
        float v = x[i];                                                                            \
        dx[i] = dy[i] * (expression);                                                              \
    }                                                                                              \
    break

CPU_KERNEL static void unary_backward_top_piece(const struct unary_args *args, const float *x,
                                                const float *dy, float *dx, size_t n)
{
    float a = args->a;

    switch (args->function) {
    case UNARY_ELU:
        MAP(v > 0 ? 1 : v + a);
    case UNARY_EXP:
        MAP(a * v);
    case UNARY_POWER:
        MAP(((void)v, a));
    case UNARY_RELU6:
        MAP((v > 0 ? 1.f : 0.f) * (v < 6 ? 1.f : 0.f));
    case UNARY_SIGMOID:
        MAP(v * (1 - v));
    case UNARY_TANH:
        MAP(1 - v * v);
    case UNARY_ABS: /* op_check refuses these in place */
    case UNARY_BNLL:
    case UNARY_CLIP:
    case UNARY_GELU:
    case UNARY_LOG:
    case UNARY_SWISH:
    case UNARY_THRESHOLD:
        break;
    }
}

INLINE float unary_sigmoid_slope(float s)
{
    return s * (1 - s);
}

INLINE float unary_tanh_slope(float t)
{
    return 1 - t * t;
}

INLINE float unary_swish_slope(float x, float beta)
{
    float s = unary_sigmoid(beta * x);

    return beta * x * s + s * (1 - beta * x * s);
}

INLINE float unary_gelu_slope(float x)
{
    return unary_normal(x) + 0.398942280f * x * unary_exp(-0.5f * x * x);
}

INLINE float unary_near_gelu_slope(float x)
{
    float t = unary_normal_logit(x), s = unary_sigmoid(t);

    /* 1 - s would lose its digits where s is near 1 */
    return s + s * unary_sigmoid(-t) * 2 * GELU_SCALE * x * (1 + 3 * GELU_CUBIC * x * x);
}

CPU_KERNEL static void unary_backward_piece(const struct unary_args *args, const float *x,
                                            const float *dy, float *dx, size_t n)
{
    float a = args->a, b = args->b, c = args->c;

    switch (args->function) {
    case UNARY_ABS:
        MAP(unary_sign(v));
    case UNARY_BNLL:
        MAP(unary_sigmoid(v > 50 ? 50 : v));
    case UNARY_CLIP:
        MAP((v >= a ? 1.f : 0.f) * (v <= b ? 1.f : 0.f));
    case UNARY_ELU:
        MAP(v > 0 ? 1 : a * unary_exp(v));
    case UNARY_EXP:
        MAP(a * unary_exp(a * v + b));
    case UNARY_GELU:
        if (a == 0) {
            MAP(unary_gelu_slope(v));
        } else {
            MAP(unary_near_gelu_slope(v));
        }
    case UNARY_LOG:
        MAP(c * a / (a * v + b));
    case UNARY_POWER:
        if (c == 0 || a == 0) {
            MAP(((void)v, 0));
        } else if (c == 1) {
            MAP(((void)v, a));
        } else {
            MAP(c * a * unary_power(a * v + b, c - 1));
        }
    case UNARY_RELU6:
        MAP((v > 0 ? 1.f : 0.f) * (v < 6 ? 1.f : 0.f));
    case UNARY_SIGMOID:
        MAP(unary_sigmoid_slope(unary_sigmoid(v)));
    case UNARY_SWISH:
        MAP(unary_swish_slope(v, a));
    case UNARY_TANH:
        MAP(unary_tanh_slope(unary_tanh(v)));
    case UNARY_THRESHOLD:
        break;
    }
}

static int unary_run(struct cpu_op *op, bool back, const float *from, float *to)
{
    const struct unary_args *args = &op->args.u.unary;
    const struct tensor *value = &op->args.bottoms[0]->value;
    const bool half = cpu_tensor_half(value);
    size_t n = cpu_tensor_stored(value);

#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE) {
        float x_room[CPU_PIECE], from_room[CPU_PIECE], to_room[CPU_PIECE];
        const size_t some = cpu_piece(n, i);
        const float *piece = piece_load(from, i, some, half, from_room);
        float *y = piece_open(to, i, half, to_room);

        if (!back)
            unary_forward_piece(args, piece, y, some);
        else
            (cpu_op_in_place(op) ? unary_backward_top_piece : unary_backward_piece)(
                args, piece_load(value->data, i, some, half, x_room), piece, y, some);
        piece_store(to_room, to, i, some, half);
    }
    cpu_clear_padding(to, &value->shape, cpu_tensor_format(value));
    return 0;
}

const struct cpu_kind cpu_unary = {.blobs = CPU_OVER_GRADIENT, .halves = true, .run = unary_run};
