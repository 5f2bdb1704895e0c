/* --math=bf16 on the CPU: products have sums of floats. Their weights are rounded to bfloat16 only
 * where the processor multiplies bfloat16 (and not by Winograd's algorithm, nor for few rows).
 * Convolutions round their tops and the gradients of their bottoms. Shapes
 * of AlexNet, GoogLeNet, VGG and ResNet with few images, by the definition in double at places
 * drawn at random.
 */
#include "engine/cpu/cpu_internal.h"
#include "tests/engine/engine_rig.h"
#include "tests/engine/draw.h"
#include "tests/suite.h"
#include "util/error.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct shape_case {
    int64_t n, c, size, o;
    int window, stride, pad, group; /* window 0: an inner product of n x c and c x o */
    bool turned;                    /* a deconvolution */
};

static const struct shape_case shapes[] = {
    {2, 3, 59, 96, 11, 4, 0, 1, false},   {2, 96, 27, 64, 5, 1, 2, 2, false},
    {2, 3, 64, 64, 7, 2, 3, 1, false},    {2, 64, 28, 64, 3, 1, 1, 1, false},
    {2, 256, 14, 128, 1, 1, 0, 1, false}, {2, 128, 14, 64, 1, 2, 0, 1, false},
    {2, 64, 7, 96, 3, 1, 1, 1, false},    {2, 20, 13, 50, 5, 1, 0, 1, false},
    {2, 32, 9, 32, 3, 2, 1, 32, false},   {1, 6, 8, 5, 4, 2, 1, 1, true},
    {32, 512, 1, 100, 0, 1, 0, 1, false}, {3, 77, 1, 10, 0, 1, 0, 1, false},
    {8, 528, 1, 96, 0, 1, 0, 1, false},   {2, 24, 50, 40, 3, 1, 1, 1, false},
    {2, 80, 40, 48, 2, 1, 1, 2, false},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PLACES = 400 };

static double rounded(float x)
{
    uint32_t bits;
    float out;

    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&out, &bits, sizeof out);
    return (double)out;
}

struct values {
    const struct shape_case *s;
    int64_t size, k; /* of the top; of the window */
    size_t nx, nw, ny;
    float *x, *w, *dy, *y, *dx, *dw, *db; /* db: of a convolution's biases, which are 0 */
};

static void values_make(const struct shape_case *s, struct values *v)
{
    *v = (struct values){.s = s, .k = s->window ? s->window : 1};
    v->size = !s->window  ? 1
              : s->turned ? (s->size - 1) * s->stride - 2 * s->pad + s->window
                          : (s->size + 2 * s->pad - s->window) / s->stride + 1;
    v->nx = (size_t)(s->n * s->c * s->size * s->size);
    v->nw = (size_t)(s->c * s->o / s->group * v->k * v->k);
    v->ny = (size_t)(s->n * s->o * v->size * v->size);
    v->x = draw_values(v->nx, 21, 0), v->w = draw_values(v->nw, 21, 1);
    v->dy = draw_values(v->ny, 21, 2), v->y = draw_values(v->ny, 21, 3);
    v->dx = draw_values(v->nx, 21, 4), v->dw = draw_values(v->nw, 21, 5);
    v->db = draw_values((size_t)s->o, 21, 6);
    for (size_t i = 0; i < v->nx; i++)
        v->x[i] = (float)rounded(v->x[i]);
    for (size_t i = 0; i < v->ny; i++)
        v->dy[i] = (float)rounded(v->dy[i]);
}

static void values_free(struct values *v)
{
    free(v->x), free(v->w), free(v->dy), free(v->y), free(v->dx), free(v->dw), free(v->db);
}

static void run(struct values *v, bool floats)
{
    const struct engine_options options = {
        .threads = 2, .math = MATH_BF16, .float_products = floats};
    const struct shape_case *s = v->s;
    const bool biased = s->window && !s->turned;
    struct engine engine;
    struct rig rig;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, !s->window ? OP_INNER_PRODUCT : s->turned ? OP_DECONV : OP_CONV);
    if (s->window)
        rig.args.u.conv = (struct conv_args){.kernel = {s->window, s->window},
                                             .stride = {s->stride, s->stride},
                                             .pad = {s->pad, s->pad},
                                             .dilation = {1, 1},
                                             .group = s->group,
                                             .bias = biased};
    else
        rig.args.u.inner_product = (struct inner_product_args){.axis = 1};
    rig_bottom(&rig, s->window ? 4 : 2, (int64_t[]){s->n, s->c, s->size, s->size});
    rig_top(&rig, s->window ? 4 : 2, (int64_t[]){s->n, s->o, v->size, v->size});
    rig_param(
        &rig, s->window ? 4 : 2,
        (int64_t[]){s->turned ? s->c : s->o, (s->turned ? s->o : s->c) / s->group, v->k, v->k});
    if (biased)
        rig_param(&rig, 1, &s->o);
    rig.propagate[0] = true;
    ck_assert_msg(rig_create(&rig) == 0, "%s", error_text());
    ck_assert(rig_param_write(&rig, 0, v->w) == 0);
    for (int pass = 0; pass < 2; pass++)
        ck_assert(rig_write(&rig, &rig.bottom[0].value, v->x) == 0 && rig_forward(&rig) == 0 &&
                  rig_read(&rig, &rig.tops[0]->value, v->y) == 0 &&
                  rig_write(&rig, &rig.tops[0]->grad, v->dy) == 0 && rig_backward(&rig) == 0 &&
                  rig_read(&rig, &rig.bottom[0].grad, v->dx) == 0 &&
                  rig_param_read_grad(&rig, 0, v->dw) == 0 &&
                  (!biased || rig_param_read_grad(&rig, 1, v->db) == 0));
    rig_finish(&rig);
    engine_close(&engine);
}

/* Of which array an element is summed. */
enum sum { OF_X, OF_W, OF_Y };
struct total {
    double sum, size; /* of the terms; of their absolute values */
    double other;     /* of the terms with rounded weights */
};

/* The element at `at`. Over images, outputs and inputs of a group, pixels of the smaller blob and
 * taps: a deconvolution is a convolution with its bottom and top exchanged. */
static struct total define(const struct values *v, enum sum which, size_t at)
{
    const struct shape_case *s = v->s;
    int64_t in = (s->turned ? s->o : s->c) / s->group, out = (s->turned ? s->c : s->o) / s->group;
    int64_t large = s->turned ? v->size : s->size, small = s->turned ? s->size : v->size;
    const float *wide = s->turned ? v->dy : v->x, *narrow = s->turned ? v->x : v->dy;
    enum sum of_wide = s->turned ? OF_Y : OF_X, of_narrow = s->turned ? OF_X : OF_Y;
    struct total total = {0, 0, 0};
    int64_t rest = (int64_t)at, n0 = 0, n1 = s->n, o0 = 0, o1 = out * s->group, i0 = 0, i1 = in;
    int64_t p0 = 0, p1 = small * small, t0 = 0, t1 = v->k * v->k, pixel = -1, group = -1;

    if (which == OF_W) {
        t0 = rest % t1, rest /= t1, t1 = t0 + 1;
        i0 = rest % in, i1 = i0 + 1, o0 = rest / in, o1 = o0 + 1;
    } else if (which == of_narrow) {
        p0 = rest % p1, rest /= p1, p1 = p0 + 1;
        o0 = rest % o1, n0 = rest / o1, o1 = o0 + 1, n1 = n0 + 1;
    } else {
        pixel = rest % (large * large), rest /= large * large;
        int64_t last = pixel / large + s->pad, first = last - v->k + 1; /* rows of its windows */
        p0 = (first > 0 ? (first + s->stride - 1) / s->stride : 0) * small;
        p1 = (last / s->stride < small ? last / s->stride + 1 : small) * small;
        i0 = rest % (in * s->group) % in, group = rest % (in * s->group) / in, i1 = i0 + 1;
        n0 = rest / (in * s->group), n1 = n0 + 1, o0 = group * out, o1 = o0 + out;
    }
    for (int64_t n = n0; n < n1; n++)
        for (int64_t o = o0; o < o1; o++)
            for (int64_t i = i0; i < i1; i++)
                for (int64_t p = p0; p < p1; p++)
                    for (int64_t t = t0; t < t1; t++) {
                        int64_t row = p / small * s->stride - s->pad + t / v->k;
                        int64_t column = p % small * s->stride - s->pad + t % v->k;
                        int64_t c = o / out * in + i;
                        if (row < 0 || row >= large || column < 0 || column >= large ||
                            (pixel >= 0 && pixel != row * large + column))
                            continue;
                        float a = wide[((n * in * s->group + c) * large + row) * large + column];
                        float b = narrow[(n * out * s->group + o) * small * small + p];
                        float w = v->w[(o * in + i) * v->k * v->k + t];
                        double value = (double)(which == of_wide ? b : a);
                        double term = value * (double)(which == OF_W ? b : w);
                        total.other += which == OF_W ? term : value * rounded(w);
                        total.sum += term;
                        total.size += fabs(term);
                    }
    return total;
}

static void check(const struct values *v, const char *what, enum sum which, const float *found,
                  size_t n, bool stored, bool floats)
{
    for (int i = 0; i < PLACES; i++) {
        size_t at = (size_t)i * 7919 % n;
        struct total total = define(v, which, at);
        double off = fabs((double)found[at] - total.sum);
        if (!floats && cpu_has_bf16())
            off = fmin(off, fabs((double)found[at] - total.other));
        double allowed = 1e-6 * total.size + (stored ? 0x1p-8 * fabs(total.sum) : 0) + 1e-30;
        ck_assert_msg(off <= allowed, "%s %zu of case %d: %g, expected %g", what, at,
                      (int)(v->s - shapes), (double)found[at], total.sum);
    }
}

/* A bias's gradient is a sum, of what was rounded or not. */
static void check_biases(const struct values *v)
{
    const size_t pixels = (size_t)(v->size * v->size), outputs = (size_t)v->s->o;

    for (size_t o = 0; o < outputs; o++) {
        struct total total = {0, 0, 0};

        for (size_t i = 0; i < v->ny; i++)
            if (i / pixels % outputs == o)
                total.sum += (double)v->dy[i], total.size += fabs((double)v->dy[i]);
        ck_assert_msg(fabs((double)v->db[o] - total.sum) <= 0x1p-10 * total.size,
                      "bias %zu of case %d: %g, expected %g", o, (int)(v->s - shapes),
                      (double)v->db[o], total.sum);
    }
}

START_TEST(products_round_what_they_say)
{
    const bool floats = _i >= SHAPES;
    struct values v;

    values_make(&shapes[_i % SHAPES], &v);
    run(&v, floats);
    bool stored = v.s->window && !v.s->turned;
    check(&v, "weights' gradient", OF_W, v.dw, v.nw, false, floats);
    check(&v, "bottom's gradient", OF_X, v.dx, v.nx, stored, floats);
    check(&v, "top", OF_Y, v.y, v.ny, stored, floats);
    if (v.s->window && !v.s->turned)
        check_biases(&v);
    values_free(&v);
}
END_TEST

SUITE("bf16")
{
    TCase *tcase = suite_case(suite, "bf16");

    tcase_add_loop_test(tcase, products_round_what_they_say, 0, 2 * SHAPES);
}
