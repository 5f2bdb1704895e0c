/* engine_options.steady: the same bits of forward and of all gradients at 1, 2, 3, 4 and 7 threads.
 * Layers that once differed, at 16 and 28 as well, random ones of every kind that sums, and random
 * cases of all operators; POSEIDON_SEED draws others, POSEIDON_DRAWS more of them. What comes out
 * at one thread is held against the engine without the option, which other tests hold against the
 * definition. */
#include "tests/engine/draw.h"
#include "tests/engine/engine_cases.h"
#include "tests/suite.h"

#include "util/error.h"
#include "util/strbuf.h"

#include <math.h>
#include <string.h>

/* Images of n x c x h x w, or n rows of c inputs; o outputs. */
struct layer {
    enum op_kind kind;
    int64_t n, c, o, h, w;
    int kernel[2], stride, pad, dilation, group;
    bool bias, transpose, blocked; /* blocked: the bottom has the layout of convolutions */
};

enum { TENSORS = 2 + RIG_PARAMS, THREADS = 5, FIXED_THREADS = 7 };
static const int threads_of[FIXED_THREADS] = {1, 2, 3, 4, 7, 16, 28};
static const char *const tensors[TENSORS] = {"top", "bottom's gradient", "parameter 0's gradient",
                                             "parameter 1's gradient"};

/* What comes out, tensor by tensor, as bytes. */
struct result {
    struct strbuf tensor[TENSORS];
};

static void result_free(struct result *r)
{
    for (int i = 0; i < TENSORS; i++)
        strbuf_free(&r->tensor[i]);
}

static const float *floats_of(const struct result *r, int i, size_t *n)
{
    *n = r->tensor[i].length / sizeof(float);
    return (const float *)(const void *)r->tensor[i].data;
}

static void open_engine(struct engine *engine, int threads, bool steady)
{
    const struct engine_options options = {.threads = threads, .steady = steady};

    ck_assert_msg(engine_open("cpu", &options, engine) == 0, "%s", error_text());
}

static void append(struct strbuf *out, struct rig *rig, const struct tensor *tensor, int param)
{
    size_t n = tensor ? shape_elems(&tensor->shape) : shape_elems(&rig->param[param].shape);
    float *values = malloc(n * sizeof *values);

    ck_assert_ptr_nonnull(values);
    ck_assert_msg(
        (tensor ? rig_read(rig, tensor, values) : rig_param_read_grad(rig, param, values)) == 0,
        "%s", error_text());
    strbuf_append(out, (const char *)values, n * sizeof *values);
    ck_assert_int_eq(strbuf_status(out), 0);
    free(values);
}

static void collect(struct rig *rig, struct result *out)
{
    *out = (struct result){0};
    for (int i = 0; i < rig->args.ntops; i++)
        append(&out->tensor[0], rig, &rig->tops[i]->value, 0);
    for (int i = 0; i < rig->args.nbottoms; i++)
        if (rig->propagate[i])
            append(&out->tensor[1], rig, &rig->bottoms[i]->grad, 0);
    for (int i = 0; i < rig->args.nparams; i++)
        if (rig->param[i].wants_grad)
            append(&out->tensor[2 + i], rig, NULL, i);
}

/* `what`: of the layer, for the message. */
static void check_same(const char *what, unsigned long long seed, int threads,
                       const struct result *one, const struct result *other)
{
    for (int i = 0; i < TENSORS; i++) {
        const struct strbuf *a = &one->tensor[i], *b = &other->tensor[i];

        ck_assert_msg(
            a->length == b->length && (a->length == 0 || !memcmp(a->data, b->data, a->length)),
            "%s: other bits of the %s at %d threads (seed %llu)", what, tensors[i], threads, seed);
    }
}

/* ---- layers ---- */

static const char *layer_text(const struct layer *l)
{
    static char text[256];
    bool window = l->kind == OP_CONV || l->kind == OP_DECONV, rows = l->kind == OP_INNER_PRODUCT;

    snprintf(text, sizeof text, rows ? "%s, %lld x %lld" : "%s, %lld x %lld x %lld x %lld",
             op_kind_name(l->kind), (long long)l->n, (long long)l->c, (long long)l->h,
             (long long)l->w);
    if (window || rows)
        buffer_printf(text, sizeof text, " to %lld%s%s", (long long)l->o, l->bias ? ", bias" : "",
                      l->transpose ? ", transposed" : "");
    if (window)
        buffer_printf(text, sizeof text, ", kernel %dx%d, stride %d, pad %d, dilation %d, group %d",
                      l->kernel[0], l->kernel[1], l->stride, l->pad, l->dilation, l->group);
    buffer_printf(text, sizeof text, "%s", l->blocked ? ", laid out" : "");
    return text;
}

static void build_window(struct rig *rig, const struct layer *l)
{
    struct conv_args *a = &rig->args.u.conv;
    bool up = l->kind == OP_DECONV;
    int64_t side[2] = {l->h, l->w}, out[2];

    *a = (struct conv_args){.group = l->group, .bias = l->bias};
    for (int i = 0; i < 2; i++) {
        int64_t extent = (l->kernel[i] - 1) * l->dilation + 1;
        a->kernel[i] = l->kernel[i], a->stride[i] = l->stride, a->pad[i] = l->pad,
        a->dilation[i] = l->dilation;
        out[i] = up ? (side[i] - 1) * l->stride + extent - 2 * l->pad
                    : (side[i] + 2 * l->pad - extent) / l->stride + 1;
    }
    rig_bottom(rig, 4, (int64_t[]){l->n, l->c, l->h, l->w});
    rig_top(rig, 4, (int64_t[]){l->n, l->o, out[0], out[1]});
    rig_param(
        rig, 4,
        (int64_t[]){up ? l->c : l->o, (up ? l->o : l->c) / l->group, l->kernel[0], l->kernel[1]});
    if (l->bias)
        rig_param(rig, 1, &l->o);
}

static void build_inner_product(struct rig *rig, const struct layer *l)
{
    rig->args.u.inner_product =
        (struct inner_product_args){.axis = 1, .bias = l->bias, .transpose = l->transpose};
    rig_bottom(rig, 2, (int64_t[]){l->n, l->c});
    rig_top(rig, 2, (int64_t[]){l->n, l->o});
    rig_param(rig, 2, l->transpose ? (int64_t[]){l->c, l->o} : (int64_t[]){l->o, l->c});
    if (l->bias)
        rig_param(rig, 1, &l->o);
}

/* Layers with a parameter or two per channel. */
static void build_channels(struct rig *rig, const struct layer *l)
{
    static const int64_t one = 1;
    int learned = l->kind == OP_SCALE ? 2 : l->kind == OP_PRELU ? 1 : 0;

    rig_bottom(rig, 4, (int64_t[]){l->n, l->c, l->h, l->w});
    rig_top(rig, 4, (int64_t[]){l->n, l->c, l->h, l->w});
    if (l->kind == OP_SCALE)
        rig->args.u.scale = (struct scale_args){.axis = 1, .naxes = 1, .scale = true, .bias = true};
    if (l->kind == OP_BATCH_NORM)
        rig->args.u.batch_norm = (struct batch_norm_args){.fraction = 0.9f, .eps = 1e-5f};
    for (int i = 0; i < learned; i++)
        rig_param(rig, 1, &l->c);
    for (int i = 0; l->kind == OP_BATCH_NORM && i < 3; i++) {
        rig_param(rig, 1, i < 2 ? &l->c : &one);
        rig->param[i].wants_grad = false;
    }
}

static void build(struct rig *rig, const struct layer *l)
{
    switch (l->kind) {
    case OP_CONV:
    case OP_DECONV:
        build_window(rig, l);
        break;
    case OP_INNER_PRODUCT:
        build_inner_product(rig, l);
        break;
    default:
        build_channels(rig, l);
    }
}

static void write_drawn(struct rig *rig, struct tensor *tensor, int param, uint32_t which)
{
    size_t n = tensor ? shape_elems(&tensor->shape) : shape_elems(&rig->param[param].shape);
    float *values = draw_values(n, 41, which);

    ck_assert_int_eq(tensor ? rig_write(rig, tensor, values) : rig_param_write(rig, param, values),
                     0);
    free(values);
}

static void layer_run(const struct layer *l, int threads, bool steady, struct result *out)
{
    struct engine engine;
    struct rig rig;

    open_engine(&engine, threads, steady);
    rig_start(&rig, &engine, l->kind);
    build(&rig, l);
    ck_assert_msg((!l->blocked || rig_lay_out(&rig, 0) == 0) && rig_create(&rig) == 0, "%s: %s",
                  layer_text(l), error_text());
    write_drawn(&rig, &rig.bottom[0].value, 0, 0);
    for (int i = 0; i < rig.args.nparams; i++)
        write_drawn(&rig, NULL, i, 1 + (uint32_t)i);
    ck_assert_msg(rig_forward(&rig) == 0, "%s: %s", layer_text(l), error_text());
    write_drawn(&rig, &rig.tops[0]->grad, 0, 9);
    ck_assert_msg(rig_backward(&rig) == 0, "%s: %s", layer_text(l), error_text());
    collect(&rig, out);
    rig_finish(&rig);
    engine_close(&engine);
}

/* To rounding, over the greatest element. */
static void check_close(const struct layer *l, const struct result *plain,
                        const struct result *steady)
{
    for (int i = 0; i < TENSORS; i++) {
        size_t n, m;
        const float *a = floats_of(plain, i, &n), *b = floats_of(steady, i, &m);
        double most = 1e-3, off = 0;

        ck_assert_uint_eq(n, m);
        for (size_t e = 0; e < n; e++) {
            most = fmax(most, fabs((double)a[e]));
            off = fmax(off, isfinite(b[e]) ? fabs((double)a[e] - (double)b[e]) : INFINITY);
        }
        ck_assert_msg(off <= 2e-5 * most, "%s: %s is %g off where values reach %g", layer_text(l),
                      tensors[i], off, most);
    }
}

static void layer_check(const struct layer *l, int threads, unsigned long long seed)
{
    struct result plain, one, other;

    layer_run(l, 1, false, &plain);
    layer_run(l, 1, true, &one);
    check_close(l, &plain, &one);
    for (int t = 1; t < threads; t++) {
        layer_run(l, threads_of[t], true, &other);
        check_same(layer_text(l), seed, threads_of[t], &one, &other);
        result_free(&other);
    }
    result_free(&plain);
    result_free(&one);
}

#define WINDOW .stride = 1, .dilation = 1, .group = 1

static const struct layer fixed[] = {
    {OP_INNER_PRODUCT, .n = 1, .c = 800, .o = 500, .bias = true},
    {OP_INNER_PRODUCT, .n = 2, .c = 1456, .o = 33, .bias = true},
    {OP_INNER_PRODUCT, .n = 4, .c = 1456, .o = 33},
    {OP_INNER_PRODUCT, .n = 4, .c = 33, .o = 10, .transpose = true},
    {OP_INNER_PRODUCT, .n = 9, .c = 4000, .o = 1, .bias = true},
    {OP_INNER_PRODUCT, .n = 3, .c = 7, .o = 3001, .transpose = true},
    {OP_INNER_PRODUCT, .n = 64, .c = 1600, .o = 190, .bias = true},
    {OP_CONV, 8, 3, 12, 13, 13, {7, 1}, .stride = 2, .pad = 1, .dilation = 1, .group = 3},
    {OP_CONV, 4, 32, 32, 9, 9, {3, 3}, .stride = 2, .pad = 1, .dilation = 1, .group = 8},
    {OP_CONV, 6, 10, 10, 1, 14, {1, 1}, WINDOW, .bias = true},
    {OP_CONV, 8, 256, 64, 14, 14, {1, 1}, WINDOW, .bias = true, .blocked = true},
    {OP_CONV, 1, 512, 96, 7, 7, {3, 3}, WINDOW, .pad = 1},
    {OP_CONV, 2, 512, 512, 7, 7, {1, 1}, WINDOW},
    {OP_CONV, 1, 640, 512, 14, 1, {1, 1}, WINDOW},
    {OP_CONV, 1, 160, 320, 8, 9, {1, 1}, WINDOW},
    {OP_DECONV, 2, 512, 2, 7, 7, {3, 3}, WINDOW, .pad = 1, .bias = true},
    {OP_DECONV, 2, 64, 96, 5, 6, {4, 4}, .stride = 2, .pad = 1, .dilation = 1, .group = 2},
};

enum { FIXED = sizeof fixed / sizeof *fixed };

/* From the second half of a loop on, as on a processor without more than AVX2, before the process's
 * first use of oneDNN. Returns the number within the half. */
static int set_processor(int i, int half)
{
    if (i >= half) {
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
        setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    }
    return i % half;
}

START_TEST(layers_that_differed_have_the_same_bits)
{
    layer_check(&fixed[set_processor(_i, FIXED)], FIXED_THREADS, 0);
}
END_TEST

/* ---- random ones ---- */

static unsigned long long from_environment(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static int random_layers(void)
{
    return (int)from_environment("POSEIDON_DRAWS", 40);
}

struct draws {
    struct rng rng;
    uint64_t n;
};

static int from_to(struct draws *d, int low, int high)
{
    return low + (int)rng_below(&d->rng, d->n++, (uint32_t)(high - low + 1));
}

static int some_channels(struct draws *d)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 10, 12, 16, 17, 24, 32, 64, 100};

    return sizes[from_to(d, 0, (int)(sizeof sizes / sizeof *sizes) - 1)];
}

static void draw_window(struct draws *d, struct layer *l)
{
    int side[2];

    l->n = from_to(d, 1, 9);
    l->group = from_to(d, 0, 2) == 0 ? from_to(d, 2, 8) : 1;
    l->c = l->group * (l->group > 1 ? from_to(d, 1, 9) : some_channels(d));
    l->o = l->group * (l->group > 1 ? from_to(d, 1, 9) : some_channels(d));
    l->stride = from_to(d, 1, 3);
    l->pad = from_to(d, 0, 2);
    l->dilation = from_to(d, 0, 4) == 0 ? 2 : 1;
    for (int i = 0; i < 2; i++) {
        int extent, least;
        l->kernel[i] = from_to(d, 0, 9) == 0 ? 7 : from_to(d, 1, 5);
        extent = (l->kernel[i] - 1) * l->dilation + 1;
        /* a deconvolution's top must have a pixel */
        least = l->kind == OP_DECONV ? 1 + 2 * l->pad : extent - 2 * l->pad;
        side[i] = from_to(d, 0, 4) == 0 ? 1 : from_to(d, 2, 20);
        side[i] = side[i] < least ? least : side[i];
    }
    l->h = side[0], l->w = side[1];
    l->blocked = from_to(d, 0, 1);
}

static void layer_draw(struct layer *l, unsigned long long seed)
{
    static const enum op_kind kinds[] = {OP_CONV,   OP_CONV,       OP_CONV,  OP_CONV, OP_DECONV,
                                         OP_DECONV, OP_BATCH_NORM, OP_SCALE, OP_PRELU};
    struct draws d = {rng_make(seed, RNG_DUMMY, 77, 0), 0};
    int kind = from_to(&d, 0, 12);

    *l = (struct layer){.kind = kind < 9 ? kinds[kind] : OP_INNER_PRODUCT, .dilation = 1};
    l->bias = from_to(&d, 0, 1);
    if (l->kind == OP_INNER_PRODUCT) {
        l->n = from_to(&d, 0, 5) ? from_to(&d, 1, 9) : from_to(&d, 10, 70);
        l->c = from_to(&d, 0, 3) ? from_to(&d, 1, 2000) : 16 * from_to(&d, 1, 200);
        l->o = from_to(&d, 0, 3) ? from_to(&d, 1, 600) : 8 * from_to(&d, 1, 80);
        l->transpose = from_to(&d, 0, 2) == 0;
        return;
    }
    draw_window(&d, l);
}

START_TEST(random_layers_have_the_same_bits)
{
    unsigned long long seed = from_environment("POSEIDON_SEED", 1701);
    struct layer l;

    seed += (unsigned)set_processor(_i, random_layers());
    layer_draw(&l, seed);
    layer_check(&l, THREADS, seed);
}
END_TEST

/* ---- all operators ---- */

static void case_run(struct engine_case *c, enum op_kind kind, uint64_t seed, int threads,
                     struct result *out)
{
    struct engine engine;

    open_engine(&engine, threads, true);
    ck_assert_msg(case_choose(c, &engine, kind, seed, false) == 0 && case_create(c) == 0 &&
                      case_write(c) == 0 && rig_forward(&c->rig) == 0 &&
                      (!c->rig.op->i->backward ||
                       (case_write_top_grads(c) == 0 && rig_backward(&c->rig) == 0)),
                  "%s, seed %llu: %s", op_kind_name(kind), (unsigned long long)seed, error_text());
    collect(&c->rig, out);
    case_finish(c);
    engine_close(&engine);
}

START_TEST(all_operators_have_the_same_bits)
{
    static struct engine_case c; /* large, and must not move */
    const enum op_kind kind = (enum op_kind)set_processor(_i, OP_KINDS);
    uint64_t seed = from_environment("POSEIDON_SEED", 1701), cases = 4;
    struct result one, other;

    if (kind == OP_BATCH_NORM || kind == OP_SCALE || kind == OP_UNARY)
        return; /* layers above; elementwise */
    for (uint64_t end = seed + cases; seed < end; seed++) {
        case_run(&c, kind, seed, 1, &one);
        for (int t = 1; t < THREADS; t += 2) {
            case_run(&c, kind, seed, threads_of[t], &other);
            check_same(op_kind_name(kind), seed, threads_of[t], &one, &other);
            result_free(&other);
        }
        result_free(&one);
    }
}
END_TEST

SUITE("any threads")
{
    TCase *tcase = suite_case(suite, "any threads");

    tcase_add_loop_test(tcase, layers_that_differed_have_the_same_bits, 0, 2 * FIXED);
    tcase_add_loop_test(tcase, random_layers_have_the_same_bits, 0, 2 * random_layers());
    tcase_add_loop_test(tcase, all_operators_have_the_same_bits, 0, 2 * OP_KINDS);
}
