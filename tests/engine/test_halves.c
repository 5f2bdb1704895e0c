/* bfloat16 between the CPU's operators: every operator that is no product gives, of values that
 * bfloat16 holds, what it gives in floats, rounded once. NaN, infinities, the greatest number and
 * the least normal one are among the values. What is below that one may become 0, as processors
 * convert it. */
#include "tests/engine/engine_cases.h"
#include "tests/suite.h"

#include "device/codec.h"
#include "util/error.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const enum op_kind kinds[] = {OP_POOL,    OP_RELU,  OP_LRN,     OP_DROPOUT, OP_CONCAT,
                                     OP_SPLIT,   OP_SLICE, OP_FLATTEN, OP_ELTWISE, OP_PRELU,
                                     OP_SHUFFLE, OP_CROP,  OP_TILE,    OP_INTERP,  OP_SILENCE};
enum { KINDS = sizeof kinds / sizeof *kinds, SEEDS = 40, TENSORS = 2 * RIG_BLOBS };

/* What an operator gave: tops, then gradients of bottoms. */
struct given {
    float *values[TENSORS];
    size_t n[TENSORS];
};

static void given_free(struct given *g)
{
    for (int i = 0; i < TENSORS; i++)
        free(g->values[i]);
}

static void take(struct rig *rig, const struct tensor *tensor, struct given *g, int i)
{
    g->n[i] = shape_elems(&tensor->shape);
    g->values[i] = malloc(g->n[i] * sizeof(float));
    ck_assert(g->values[i] && rig_read(rig, tensor, g->values[i]) == 0);
}

static void take_all(struct rig *rig, bool back, struct given *g)
{
    for (int i = 0; i < rig->args.ntops && !back; i++)
        take(rig, &rig->tops[i]->value, g, i);
    for (int i = 0; i < rig->args.nbottoms && back; i++)
        if (rig->propagate[i])
            take(rig, &rig->bottom[i].grad, g, RIG_BLOBS + i);
}

/* Replaces some of the numbers by those at the ends of what bfloat16 holds. */
static void add_ends(double *values, size_t n, uint64_t seed)
{
    const double ends[] = {NAN,         INFINITY, -INFINITY, 0x1.fep127,
                           -0x1.fep127, -0.0,     0x1p-126,  -0x1p-126};

    for (size_t i = seed % 5; i < n; i += 1 + n / 12)
        values[i] = ends[(i + seed) % (sizeof ends / sizeof *ends)];
}

/* Runs a case both ways. */
static void run(enum op_kind kind, uint64_t seed, enum engine_math math, struct given *g)
{
    static struct engine_case c; /* large, and must not move */
    const struct engine_options options = {.threads = 2, .math = math};
    struct engine engine;

    *g = (struct given){.n = {0}};
    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    ck_assert_msg(case_choose(&c, &engine, kind, seed, true) == 0, "%s", error_text());
    if (seed % 2 && c.integers[0] == 0)
        add_ends(c.reference.bottom[0], shape_elems(&c.rig.bottom[0].value.shape), seed);
    ck_assert_msg(case_create(&c) == 0 && case_write(&c) == 0 && rig_forward(&c.rig) == 0, "%s",
                  error_text());
    take_all(&c.rig, false, g);
    if (c.rig.args.train && c.rig.op->i->backward) {
        if (seed % 4 == 3 && c.rig.args.ntops > 0)
            add_ends(c.reference.top_grad[0], shape_elems(&c.rig.tops[0]->value.shape), seed / 2);
        ck_assert(case_write_top_grads(&c) == 0 && rig_backward(&c.rig) == 0);
        take_all(&c.rig, true, g);
    }
    case_finish(&c);
    engine_close(&engine);
}

static bool same(float found, float expected)
{
    return found == expected || (isnan(found) && isnan(expected)) ||
           (found == 0 && fabsf(expected) < FLT_MIN);
}

static void compare(const struct given *floats, const struct given *halves, const char *name,
                    uint64_t seed)
{
    for (int t = 0; t < TENSORS; t++) {
        ck_assert_uint_eq(floats->n[t], halves->n[t]);
        for (size_t i = 0; i < floats->n[t]; i++) {
            float expected = floats->values[t][i], found = halves->values[t][i];
            float rounded = bf16_value(bf16_of(expected));
            if (expected == -FLT_MAX) /* an empty window's maximum */
                rounded = -0x1.fep127f;
            ck_assert_msg(same(found, expected) || same(found, rounded),
                          "%s, seed %d, tensor %d, element %zu: %.9g, expected %.9g or %.9g", name,
                          (int)seed, t, i, (double)found, (double)expected, (double)rounded);
        }
    }
}

START_TEST(operators_round_once)
{
    const enum op_kind kind = kinds[_i];

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct given floats, halves;
        run(kind, seed, MATH_FP32, &floats);
        run(kind, seed, MATH_BF16, &halves);
        compare(&floats, &halves, op_kind_name(kind), seed);
        given_free(&floats);
        given_free(&halves);
    }
}
END_TEST

/* ---- operators whose cases are elsewhere (layer_values): normalisation, Scale, functions ---- */

enum { CHANNELS = 32, PIXELS = 30, SAMPLES = 3, ELEMS = SAMPLES * CHANNELS * PIXELS };

static void make_param(struct rig *rig, int i, float first)
{
    float values[CHANNELS];

    for (int v = 0; v < CHANNELS; v++)
        values[v] = first + 0.0625f * (float)(v % 7);
    ck_assert(rig_param_write(rig, i, values) == 0);
}

static void set_args(struct rig *rig, enum op_kind kind, int which)
{
    const int64_t one = 1, channels = CHANNELS;

    if (kind == OP_UNARY) {
        rig->args.u.unary = (struct unary_args){(enum unary_function)which, 0.5f, 0.25f, 2};
        return;
    }
    if (kind == OP_BATCH_NORM) {
        rig->args.u.batch_norm =
            (struct batch_norm_args){.eps = 1e-3f, .fraction = 0.9f, .scale = true, .bias = true};
        rig_param(rig, 1, &channels);
        rig_param(rig, 1, &channels);
        rig_param(rig, 1, &one);
    } else {
        rig->args.u.scale = (struct scale_args){.axis = 1, .naxes = 1, .scale = true, .bias = true};
    }
    rig_param(rig, 1, &channels);
    rig_param(rig, 1, &channels);
}

static void run_channels(enum op_kind kind, int which, enum engine_math math, struct given *g)
{
    const struct engine_options options = {.threads = 2, .math = math};
    const int64_t shape[] = {SAMPLES, CHANNELS, 5, PIXELS / 5};
    float x[ELEMS], dy[ELEMS];
    struct engine engine;
    struct rig rig;

    *g = (struct given){.n = {0}};
    for (int i = 0; i < ELEMS; i++) {
        x[i] = (float)((i * 37) % 61 - 30 + (kind == OP_UNARY && which == UNARY_LOG ? 31 : 0)) / 32;
        dy[i] = (float)((i * 29) % 53 - 26) / 64;
    }
    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, kind);
    rig_bottom(&rig, 4, shape);
    ck_assert(rig_lay_out(&rig, 0) == 0);
    rig_top(&rig, 4, shape);
    set_args(&rig, kind, which);
    rig.args.train = !(kind == OP_UNARY && which == UNARY_THRESHOLD);
    ck_assert_msg(rig_create(&rig) == 0, "%s", error_text());
    for (int p = kind == OP_BATCH_NORM ? 3 : 0; p < rig.args.nparams; p++)
        make_param(&rig, p, 0.5f);
    ck_assert(rig_write(&rig, &rig.bottom[0].value, x) == 0 && rig_forward(&rig) == 0);
    take_all(&rig, false, g);
    if (rig.args.train) {
        ck_assert(rig_write(&rig, &rig.tops[0]->grad, dy) == 0 && rig_backward(&rig) == 0);
        take_all(&rig, true, g);
    }
    rig_finish(&rig);
    engine_close(&engine);
}

START_TEST(normalisation_and_functions_round_once)
{
    const enum op_kind kind = _i == 0 ? OP_BATCH_NORM : _i == 1 ? OP_SCALE : OP_UNARY;
    struct given floats, halves;

    run_channels(kind, _i - 2, MATH_FP32, &floats);
    run_channels(kind, _i - 2, MATH_BF16, &halves);
    compare(&floats, &halves, op_kind_name(kind), (uint64_t)_i);
    given_free(&floats);
    given_free(&halves);
}
END_TEST

SUITE("halves")
{
    TCase *tcase = suite_case(suite, "halves");

    tcase_add_loop_test(tcase, operators_round_once, 0, KINDS);
    tcase_add_loop_test(tcase, normalisation_and_functions_round_once, 0, 2 + UNARY_FUNCTIONS);
}
