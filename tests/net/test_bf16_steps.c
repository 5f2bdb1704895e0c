/* Whole training steps with --math=bf16 on the CPU: a convolution, BatchNorm, Scale, a strided
 * convolution of one pixel and an inner product learn for some iterations as the definition in
 * double learns, in which what convolutions and normalisation make is rounded to bfloat16. Once by
 * convolutions of bfloat16, where the processor has them: then their operands are rounded, too.
 * Once by convolutions of floats. The inner product has few rows, and always takes floats. */
#include "engine/cpu/cpu_internal.h"
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

#include <math.h>
#include <stdint.h>

enum {
    N = 4,
    C = 3,
    SIZE = 8,
    WIDE = 16,
    HALF = SIZE / 2,
    CLASSES = 8,
    STEPS = 6,
    ROW = WIDE * HALF * HALF,
    VALUES = N * WIDE * SIZE * SIZE /* of the largest blob */
};
static const double rate = 0.05, eps = 1e-5;

static const char text[] =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } "
    "} }"
    "layer { name: 'label' type: 'Input' top: 'y' input_param { shape { dim: 4 } } }"
    "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 16"
    " kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }"
    "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'b' }"
    "layer { name: 's' type: 'Scale' bottom: 'b' top: 'b' scale_param { bias_term: true } }"
    "layer { name: 'r' type: 'ReLU' bottom: 'b' top: 'b' }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'b' top: 'c' convolution_param { num_output: 16"
    " kernel_size: 1 stride: 2 weight_filler { type: 'msra' } } }"
    "layer { name: 'f' type: 'InnerProduct' bottom: 'c' top: 'f' inner_product_param {"
    " num_output: 8 weight_filler { type: 'xavier' } } }"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'f' bottom: 'y' top: 'loss' }";

/* Those that learn, in the order of the net. */
enum { W1, B1, GAMMA, BETA, W2, B2, W3, B3, PARAMS };
static const size_t sizes[PARAMS] = {WIDE * C * 9, WIDE, WIDE,         WIDE,
                                     WIDE *WIDE,   WIDE, CLASSES *ROW, CLASSES};

static float input[N * C * SIZE * SIZE];
static const float labels[N] = {1, 6, 0, 3};

/* ---- the definition ---- */

struct reference {
    bool stores;     /* values between layers are bfloat16 */
    bool multiplies; /* operands of convolutions are */
    double *p[PARAMS], *g[PARAMS];
};

static double rounded(double x)
{
    float value = (float)x;
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&value, &bits, sizeof bits);
    return (double)value;
}

static double operand(const struct reference *r, double x)
{
    return r->multiplies ? rounded(x) : x;
}

static void store(const struct reference *r, double *x, size_t n)
{
    for (size_t i = 0; r->stores && i < n; i++)
        x[i] = rounded(x[i]);
}

struct window {
    int in, size, out, window, stride, pad;
};

/* y = w x + bias, or, where dy is given, the gradients of all three. */
static void convolve(const struct reference *r, const struct window *v, const double *x,
                     const double *w, const double *bias, double *y, const double *dy, double *dx,
                     double *dw, double *dbias)
{
    const int places = v->size / v->stride, taps = v->window * v->window;

    for (int i = 0; i < N * v->out * places * places; i++) {
        int column = i % places, row = i / places % places, o = i / places / places % v->out;
        const double *image = x + i / places / places / v->out * v->in * v->size * v->size;

        if (dy)
            dbias[o] += dy[i];
        else
            y[i] = bias[o];
        for (int t = 0; t < v->in * taps; t++) {
            int h = row * v->stride - v->pad + t % taps / v->window;
            int k = column * v->stride - v->pad + t % v->window;
            size_t at = (size_t)((t / taps * v->size + h) * v->size + k);
            if (h < 0 || k < 0 || h >= v->size || k >= v->size)
                continue;
            double weight = operand(r, w[o * v->in * taps + t]), value = operand(r, image[at]);
            if (!dy) {
                y[i] += weight * value;
                continue;
            }
            dw[o * v->in * taps + t] += operand(r, dy[i]) * value;
            if (dx)
                dx[(image - x) + (ptrdiff_t)at] += operand(r, dy[i]) * weight;
        }
    }
}

/* y = max(0, gamma (x - mean) / deviation + beta), or, over dy, the gradients. */
static void normalise(struct reference *r, const double *x, double *y, double *dy)
{
    enum { PIXELS = SIZE * SIZE, COUNT = N * PIXELS };

    for (int c = 0; c < WIDE; c++) {
        double mean = 0, variance = 0, sum = 0, product = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < COUNT; i++) {
                double value = x[(i / PIXELS * WIDE + c) * PIXELS + i % PIXELS];
                *(pass ? &variance : &mean) +=
                    (pass ? (value - mean) * (value - mean) : value) / COUNT;
            }
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < COUNT; i++) {
                const int at = (i / PIXELS * WIDE + c) * PIXELS + i % PIXELS;
                double unit = (x[at] - mean) / sqrt(variance + eps);
                double out = r->p[GAMMA][c] * unit + r->p[BETA][c];
                if (!dy) {
                    y[at] = out > 0 ? out : 0;
                } else if (pass == 0) {
                    dy[at] = out > 0 ? dy[at] : 0;
                    sum += dy[at];
                    product += dy[at] * unit;
                } else {
                    dy[at] = r->p[GAMMA][c] / sqrt(variance + eps) *
                             (dy[at] - sum / COUNT - unit * product / COUNT);
                }
            }
        if (dy)
            r->g[BETA][c] = sum, r->g[GAMMA][c] = product;
    }
}

static double connect(struct reference *r, const double *x, double *dx)
{
    double loss = 0;

    for (int n = 0; n < N; n++) {
        double score[CLASSES], total = 0;
        for (int o = 0; o < CLASSES; o++) {
            score[o] = r->p[B3][o];
            for (int i = 0; i < ROW; i++)
                score[o] += r->p[W3][o * ROW + i] * x[n * ROW + i];
            total += exp(score[o]);
        }
        loss -= log(exp(score[(int)labels[n]]) / total) / N;
        for (int o = 0; o < CLASSES; o++) {
            double dy = (exp(score[o]) / total - (o == (int)labels[n])) / N;
            r->g[B3][o] += dy;
            for (int i = 0; i < ROW; i++) {
                r->g[W3][o * ROW + i] += dy * x[n * ROW + i];
                dx[n * ROW + i] += dy * r->p[W3][o * ROW + i];
            }
        }
    }
    return loss;
}

static double step(struct reference *r)
{
    static const struct window first = {C, SIZE, WIDE, 3, 1, 1},
                               second = {WIDE, SIZE, WIDE, 1, 2, 0};
    static double x[VALUES], a[VALUES], b[VALUES], c[VALUES], dc[VALUES], db[VALUES];
    double loss;

    for (int i = 0; i < N * C * SIZE * SIZE; i++)
        x[i] = (double)input[i];
    memset(dc, 0, sizeof dc);
    memset(db, 0, sizeof db);
    for (int p = 0; p < PARAMS; p++)
        memset(r->g[p], 0, sizes[p] * sizeof(double));
    convolve(r, &first, x, r->p[W1], r->p[B1], a, NULL, NULL, NULL, NULL);
    store(r, a, VALUES);
    normalise(r, a, b, NULL);
    store(r, b, VALUES);
    convolve(r, &second, b, r->p[W2], r->p[B2], c, NULL, NULL, NULL, NULL);
    store(r, c, N * ROW);
    loss = connect(r, c, dc);
    store(r, dc, N * ROW);
    convolve(r, &second, b, r->p[W2], NULL, NULL, dc, db, r->g[W2], r->g[B2]);
    store(r, db, VALUES);
    normalise(r, a, NULL, db);
    store(r, db, VALUES);
    convolve(r, &first, x, r->p[W1], NULL, NULL, db, NULL, r->g[W1], r->g[B1]);
    for (int p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < sizes[p]; i++)
            r->p[p][i] -= rate * r->g[p][i];
    return loss;
}

static void reference_make(struct reference *r, bool stores, bool multiplies,
                           struct param *const params[PARAMS])
{
    r->stores = stores;
    r->multiplies = multiplies;
    for (int p = 0; p < PARAMS; p++) {
        r->p[p] = calloc(sizes[p], sizeof(double));
        r->g[p] = calloc(sizes[p], sizeof(double));
        ck_assert(r->p[p] && r->g[p] && shape_elems(&params[p]->shape) == sizes[p]);
        for (size_t i = 0; i < sizes[p]; i++)
            r->p[p][i] = (double)params[p]->value[i];
    }
}

static void reference_free(struct reference *r)
{
    for (int p = 0; p < PARAMS; p++)
        free(r->p[p]), free(r->g[p]);
}

/* ---- the net ---- */

static void find_params(struct net *net, struct param *params[PARAMS])
{
    int n = 0;

    for (int l = 0; l < net->nlayers; l++)
        for (int i = 0; i < net->layers[l].nparams; i++)
            if (net->layers[l].params[i]->wants_grad) {
                ck_assert_int_lt(n, PARAMS);
                params[n++] = net->layers[l].params[i];
            }
    ck_assert_int_eq(n, PARAMS);
}

static void fill_input(struct net *net, const struct engine *engine)
{
    for (size_t i = 0; i < sizeof input / sizeof *input; i++)
        input[i] = (float)sin(0.7 * (double)i * (double)i);
    for (int l = 0; l < 2; l++)
        ck_assert(engine->i->write(engine->context, &net->layers[l].tops[0]->value,
                                   l ? labels : input) == 0);
}

static float net_step(struct net *net, const struct engine *engine, struct param *const *params)
{
    const struct pass pass = {.seed = 1};
    float loss;

    for (int g = 0; g < net->ngroups; g++)
        net_touch(net, g);
    ck_assert_msg(net_forward(net, &pass, NULL, NULL) == 0 &&
                      net_backward(net, &pass, true, NULL) == 0,
                  "%s", error_text());
    ck_assert(engine->i->read(engine->context, &net->layers[net->nlayers - 1].tops[0]->value,
                              &loss) == 0);
    for (int p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < sizes[p]; i++)
            params[p]->value[i] -= (float)rate * params[p]->grad[i];
    return loss;
}

/* How far the parameters are apart, beside their size. */
static double apart(const struct reference *r, struct param *const *params)
{
    double off = 0, size = 0;

    for (int p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < sizes[p]; i++) {
            off += pow((double)params[p]->value[i] - r->p[p][i], 2);
            size += pow(r->p[p][i], 2);
        }
    return sqrt(off / size);
}

static void check_steps(bool floats)
{
    const struct engine_options options = {
        .threads = 2, .math = MATH_BF16, .float_products = floats};
    struct engine engine;
    struct made made;
    struct reference near, exact;
    struct param *params[PARAMS];
    double loss = 0;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    ck_assert_msg(make_net(&made, text, true, NULL, NULL) == 0, "%s", error_text());
    ck_assert_msg(net_build(made.net, &engine, 7) == 0, "%s", error_text());
    find_params(made.net, params);
    fill_input(made.net, &engine);
    reference_make(&near, true, !floats && cpu_has_bf16(), params);
    reference_make(&exact, false, false, params);
    for (int i = 0; i < STEPS; i++) {
        float found = net_step(made.net, &engine, params);
        loss = step(&near);
        step(&exact);
        ck_assert_msg(fabs((double)found - loss) < 2e-4 * (1 + loss),
                      "step %d: loss %g, expected %g", i, (double)found, loss);
    }
    ck_assert_msg(loss < 1, "the net does not learn: %g", loss);
    printf("%s: %g from the rounded definition, %g from the exact one\n",
           floats ? "floats" : "bfloat16", apart(&near, params), apart(&exact, params));
    /* a value on the edge between two bfloat16 may fall to either side */
    ck_assert(apart(&near, params) < 0.3 * apart(&exact, params));
    reference_free(&near);
    reference_free(&exact);
    unmake_net(&made);
    engine_close(&engine);
}

START_TEST(steps_learn_as_the_rounded_definition)
{
    check_steps(_i == 1);
}
END_TEST

SUITE("bf16_steps")
{
    TCase *tcase = suite_case(suite, "bf16 steps");

    tcase_add_loop_test(tcase, steps_learn_as_the_rounded_definition, 0, 2);
}
