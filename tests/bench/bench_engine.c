/* bench_engine [--threads=N] [--seconds=S] [NAME...]
 *
 * Every operator of the CPU engine at the sizes of well-known nets, forward and backward: GFLOP/s
 * and the share of what one large matrix product reaches here, or GB/s and the share of what
 * copying reaches, for operators bound by memory. Times are the fastest of several runs, processor
 * time with one thread: others may be at work on this machine. NAME: only lines that contain it.
 *
 * Convolutions that Winograd's algorithm takes are run by it and by oneDNN's direct one, in turns.
 *
 * `relaid` is the share of forward and backward spent on bringing weights into oneDNN's layout and
 * their gradients back: the price of parameters that are plain everywhere else. It is seen by
 * standing between the engine and oneDNN's execute call. */
#include "tests/engine/engine_rig.h"
#include "tests/bench/bench_clock.h"

#include "util/error.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds in reorders of tensors with that many elements; set for one measurement at a time. */
static struct {
    int threads;
    int64_t elems;
    double seconds;
} relay;

static int64_t reordered_elems(const_dnnl_primitive_t primitive)
{
    const_dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
    int64_t elems = 1;

    if (relay.elems == 0 || dnnl_primitive_get_primitive_desc(primitive, &desc) != dnnl_success ||
        dnnl_primitive_desc_query(desc, dnnl_query_primitive_kind, 0, &kind) != dnnl_success ||
        kind != dnnl_reorder)
        return 0;
#if DNNL_VERSION_MAJOR < 3
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(desc, dnnl_query_src_md, 0);
    for (int i = 0; i < md->ndims; i++)
        elems *= md->dims[i];
#else
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(desc, dnnl_query_src_md, 0);
    int ndims = 0;
    dnnl_dims_t *dims = NULL;
    dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &ndims);
    dnnl_memory_desc_query(md, dnnl_query_dims, &dims);
    for (int i = 0; i < ndims; i++)
        elems *= (*dims)[i];
#endif
    return elems;
}

dnnl_status_t DNNL_API dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                              dnnl_stream_t stream, int nargs,
                                              const dnnl_exec_arg_t *args)
{
    typedef dnnl_status_t (*execute_function)(const_dnnl_primitive_t, dnnl_stream_t, int,
                                              const dnnl_exec_arg_t *);
    static execute_function execute;

    if (!execute)
        *(void **)&execute = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
    int64_t elems = reordered_elems(primitive);
    double start = bench_seconds(relay.threads);
    dnnl_status_t status = execute(primitive, stream, nargs, args);
    if (elems > 0 && elems == relay.elems)
        relay.seconds += bench_seconds(relay.threads) - start;
    return status;
}

struct bench {
    struct engine engine;
    int threads;
    double seconds;        /* spent on each measurement */
    double peak_flops;     /* of a matrix product */
    double peak_bandwidth; /* bytes read and written per second by a copy */
    int nnames;
    char **names;
};

struct figures {
    double forward, backward, relaid; /* seconds, fastest run; relaid: share of both */
};

static int run_once(const struct bench *b, struct rig *rig, struct figures *f)
{
    double start = bench_seconds(b->threads), middle, end;

    relay.seconds = 0;
    for (int i = 0; i < rig->args.nparams; i++)
        rig->param[i].version++;
    if (rig_forward(rig))
        return -1;
    middle = bench_seconds(b->threads);
    if (rig->op->i->backward && rig_backward(rig))
        return -1;
    end = bench_seconds(b->threads);
    if (middle - start < f->forward)
        f->forward = middle - start;
    if (end - middle < f->backward) {
        f->backward = end - middle;
        f->relaid = relay.seconds / (end - start);
    }
    return 0;
}

static int fill(struct rig *rig, struct tensor *tensor, bool param, int i)
{
    size_t n = shape_elems(param ? &rig->param[i].shape : &tensor->shape);
    float *values = malloc(n * sizeof *values);
    int status = -1;

    if (!values)
        return error_memory(n * sizeof *values, "random values");
    for (size_t e = 0; e < n; e++)
        values[e] = (float)(int)(e * 2654435761u % 2001) * 1e-3f - 1;
    status = param ? rig_param_write(rig, i, values) : rig_write(rig, tensor, values);
    free(values);
    return status;
}

/* Labels are zeros, as created. */
static int create(struct rig *rig)
{
    const bool labelled = rig->args.kind == OP_SOFTMAX_LOSS;

    if (rig_create(rig))
        return -1;
    for (int i = 0; i < (labelled ? 1 : rig->args.nbottoms); i++)
        if (fill(rig, &rig->bottom[i].value, false, 0))
            return -1;
    for (int i = 0; i < rig->args.nparams; i++)
        if (fill(rig, NULL, true, i))
            return -1;
    for (int i = 0; i < rig->args.ntops; i++)
        if (fill(rig, &rig->tops[i]->grad, false, 0))
            return -1;
    return 0;
}

static int measure(struct bench *b, struct rig *rig, struct figures *f)
{
    *f = (struct figures){.forward = 1e9, .backward = 1e9};
    if (create(rig))
        return -1;
    relay.elems = rig->args.kind == OP_CONV ? (int64_t)shape_elems(&rig->param[0].shape) : 0;
    double begin = bench_seconds(b->threads);
    for (int i = 0; i < 3 || bench_seconds(b->threads) - begin < b->seconds; i++)
        if (run_once(b, rig, f))
            return -1;
    return 0;
}

static bool wanted(const struct bench *b, const char *name)
{
    for (int i = 0; i < b->nnames; i++)
        if (strstr(name, b->names[i]))
            return true;
    return b->nnames == 0;
}

struct conv_case {
    const char *name;
    int n, c, size, o, kernel, stride, pad, group;
    bool first; /* reads data: plain, needs no gradient */
};

static const struct conv_case convs[] = {
    {"LeNet conv1", 64, 1, 28, 20, 5, 1, 0, 1, true},
    {"LeNet conv2", 64, 20, 12, 50, 5, 1, 0, 1, false},
    {"cifar10_quick conv1", 100, 3, 32, 32, 5, 1, 2, 1, true},
    {"cifar10_quick conv2", 100, 32, 16, 32, 5, 1, 2, 1, false},
    {"cifar10_quick conv3", 100, 32, 8, 64, 5, 1, 2, 1, false},
    {"AlexNet conv1", 16, 3, 227, 96, 11, 4, 0, 1, true},
    {"AlexNet conv2", 16, 96, 27, 256, 5, 1, 2, 2, false},
    {"AlexNet conv3", 16, 256, 13, 384, 3, 1, 1, 1, false},
    {"AlexNet conv4", 16, 384, 13, 384, 3, 1, 1, 2, false},
    {"AlexNet conv5", 16, 384, 13, 256, 3, 1, 1, 2, false},
    {"GoogLeNet conv1", 8, 3, 224, 64, 7, 2, 3, 1, true},
    {"GoogLeNet conv2 reduce", 8, 64, 56, 64, 1, 1, 0, 1, false},
    {"GoogLeNet conv2", 8, 64, 56, 192, 3, 1, 1, 1, false},
    {"GoogLeNet 3a 1x1", 8, 192, 28, 64, 1, 1, 0, 1, false},
    {"GoogLeNet 3a 3x3", 8, 96, 28, 128, 3, 1, 1, 1, false},
    {"GoogLeNet 3a 5x5", 8, 16, 28, 32, 5, 1, 2, 1, false},
    {"GoogLeNet 4e 3x3", 8, 160, 14, 320, 3, 1, 1, 1, false},
    {"GoogLeNet 5b 3x3", 8, 192, 7, 384, 3, 1, 1, 1, false},
    {"VGG-16 conv1_1", 4, 3, 224, 64, 3, 1, 1, 1, true},
    {"VGG-16 conv1_2", 2, 64, 224, 64, 3, 1, 1, 1, false},
    {"VGG-16 conv2_2", 4, 128, 112, 128, 3, 1, 1, 1, false},
    {"VGG-16 conv3_2", 4, 256, 56, 256, 3, 1, 1, 1, false},
    {"VGG-16 conv4_2", 4, 512, 28, 512, 3, 1, 1, 1, false},
    {"VGG-16 conv5_2", 4, 512, 14, 512, 3, 1, 1, 1, false},
    {"ResNet-50 conv1", 8, 3, 224, 64, 7, 2, 3, 1, true},
    {"ResNet-50 2a 1x1 64-256", 8, 64, 56, 256, 1, 1, 0, 1, false},
    {"ResNet-50 2b 3x3 64", 8, 64, 56, 64, 3, 1, 1, 1, false},
    {"ResNet-50 3a 1x1/2 256-512", 8, 256, 56, 512, 1, 2, 0, 1, false},
    {"ResNet-50 4b 1x1 1024-256", 8, 1024, 14, 256, 1, 1, 0, 1, false},
    {"ResNet-50 4b 3x3 256", 8, 256, 14, 256, 3, 1, 1, 1, false},
    {"ResNet-50 5b 1x1 512-2048", 8, 512, 7, 2048, 1, 1, 0, 1, false},
    {"MobileNet depthwise 3x3 256", 8, 256, 28, 256, 3, 1, 1, 256, false},
};

static int conv_rig(struct engine *engine, const struct conv_case *c, struct rig *rig)
{
    int64_t out = (c->size + 2 * c->pad - c->kernel) / c->stride + 1;

    rig_start(rig, engine, OP_CONV);
    rig->args.u.conv = (struct conv_args){.kernel = {c->kernel, c->kernel},
                                          .stride = {c->stride, c->stride},
                                          .pad = {c->pad, c->pad},
                                          .dilation = {1, 1},
                                          .group = c->group,
                                          .bias = true};
    rig_bottom(rig, 4, (int64_t[]){c->n, c->c, c->size, c->size});
    rig_top(rig, 4, (int64_t[]){c->n, c->o, out, out});
    rig_param(rig, 4, (int64_t[]){c->o, c->c / c->group, c->kernel, c->kernel});
    rig_param(rig, 1, (int64_t[]){c->o});
    rig->propagate[0] = !c->first;
    return c->first ? 0 : rig_lay_out(rig, 0);
}

static double conv_flops(const struct conv_case *c)
{
    double out = (c->size + 2 * c->pad - c->kernel) / c->stride + 1;

    return 2.0 * c->n * c->o * out * out * (c->c / c->group) * (double)(c->kernel * c->kernel);
}

static int bench_conv(struct bench *b, const struct conv_case *c)
{
    struct rig rig;
    struct figures f;
    int status = conv_rig(&b->engine, c, &rig) || measure(b, &rig, &f);

    rig_finish(&rig);
    if (status)
        return -1;
    double flops = conv_flops(c), back = c->first ? flops : 2 * flops;
    printf("%-28s %9.2f %8.1f %5.0f%%  %9.2f %8.1f %5.0f%%   %5.2f%%\n", c->name, f.forward * 1e3,
           flops / f.forward * 1e-9, 100 * flops / f.forward / b->peak_flops, f.backward * 1e3,
           back / f.backward * 1e-9, 100 * back / f.backward / b->peak_flops, 100 * f.relaid);
    return 0;
}

/* ---- both ways of a convolution ---- */

static const enum engine_convolution ways[] = {CONVOLUTION_DIRECT, CONVOLUTION_WINOGRAD};
enum { WAYS = sizeof ways / sizeof *ways };

/* A convolution by one way, on an engine of its own. */
struct way {
    struct engine engine;
    struct rig rig;
    struct figures f;
    char words[ENGINE_OP_WORDS];
};

static int way_start(const struct bench *b, const struct conv_case *c, int i, struct way *w)
{
    const struct engine_options options = {.threads = b->threads, .convolution = ways[i]};

    w->f = (struct figures){.forward = 1e9, .backward = 1e9};
    if (engine_open("cpu", &options, &w->engine) || conv_rig(&w->engine, c, &w->rig) ||
        create(&w->rig))
        return -1;
    engine_describe(&w->engine, w->rig.op, w->words);
    return 0;
}

/* Whether that way is the one that it is named after. */
static bool way_is_there(const struct way *w, int i)
{
    static const char *const all[WAYS] = {"", "Winograd"};

    return strcmp(w->words, all[i]) == 0;
}

static void way_print(const struct way *w, const struct figures *direct)
{
    printf(" %8.2f %8.2f x%-5.2f", w->f.forward * 1e3, w->f.backward * 1e3,
           (direct->forward + direct->backward) / (w->f.forward + w->f.backward));
}

/* In turns, so that what else the machine does meets all. */
static int bench_ways(struct bench *b, const struct conv_case *c)
{
    struct way list[WAYS] = {{.words = ""}};
    int status = 0;

    for (int i = 0; i < WAYS && !status; i++)
        status = way_start(b, c, i, &list[i]);
    double begin = bench_seconds(b->threads);
    for (int r = 0; !status && (r < 3 || bench_seconds(b->threads) - begin < WAYS * b->seconds);
         r++)
        for (int i = 0; i < WAYS && !status; i++)
            if (way_is_there(&list[i], i))
                status = run_once(b, &list[i].rig, &list[i].f);
    if (!status) {
        printf("%-28s", c->name);
        for (int i = 0; i < WAYS; i++)
            if (way_is_there(&list[i], i))
                way_print(&list[i], &list[0].f);
            else
                printf(" %8s %8s %6s", "-", "-", "");
        printf("\n");
    }
    for (int i = 0; i < WAYS; i++) {
        rig_finish(&list[i].rig);
        engine_close(&list[i].engine);
    }
    return status;
}

static bool has_ways(const struct conv_case *c)
{
    return !c->first && c->stride == 1 && (c->kernel == 3 || c->kernel == 5) && c->group < c->c;
}

struct fc_case {
    const char *name;
    int rows, inputs, outputs;
};

static const struct fc_case fcs[] = {
    {"LeNet ip1", 64, 800, 500},
    {"cifar10_quick ip1", 100, 1024, 64},
    {"AlexNet fc6, batch 16", 16, 9216, 4096},
    {"AlexNet fc6, batch 64", 64, 9216, 4096},
    {"AlexNet fc7, batch 16", 16, 4096, 4096},
    {"GoogLeNet classifier", 32, 1024, 1000},
};

static int bench_fc(struct bench *b, const struct fc_case *c)
{
    struct rig rig;
    struct figures f;
    int status;

    rig_start(&rig, &b->engine, OP_INNER_PRODUCT);
    rig.args.u.inner_product = (struct inner_product_args){.axis = 1, .bias = true};
    rig_bottom(&rig, 2, (int64_t[]){c->rows, c->inputs});
    rig_top(&rig, 2, (int64_t[]){c->rows, c->outputs});
    rig_param(&rig, 2, (int64_t[]){c->outputs, c->inputs});
    rig_param(&rig, 1, (int64_t[]){c->outputs});
    status = measure(b, &rig, &f);
    rig_finish(&rig);
    if (status)
        return -1;
    double flops = 2.0 * c->rows * c->inputs * (double)c->outputs;
    printf("%-28s %9.2f %8.1f %5.0f%%  %9.2f %8.1f %5.0f%%\n", c->name, f.forward * 1e3,
           flops / f.forward * 1e-9, 100 * flops / f.forward / b->peak_flops, f.backward * 1e3,
           2 * flops / f.backward * 1e-9, 200 * flops / f.backward / b->peak_flops);
    return 0;
}

/* Operators bound by memory, on 16 x 96 x 54 x 54 floats in the engine's own layout. */
struct light_case {
    const char *name;
    enum op_kind kind;
    int nbottoms;
    bool plain;
    struct op_args args;      /* u only */
    double forward, backward; /* floats read and written, in tensors of the bottom's size */
};

#define POOL(how, k, s)                                                                            \
    {                                                                                              \
        .u.pool = {.method = how, .kernel = {k, k}, .stride = {s, s} }                             \
    }
static const struct light_case lights[] = {
    {"ReLU", OP_RELU, 1, false, {0}, 2, 3},
    {"MAX pooling 3x3/2", OP_POOL, 1, false, POOL(POOL_MAX, 3, 2), 1.5, 1.5},
    {"MAX pooling 3x3/2, plain", OP_POOL, 1, true, POOL(POOL_MAX, 3, 2), 1.5, 1.5},
    {"MAX pooling 2x2/2", OP_POOL, 1, false, POOL(POOL_MAX, 2, 2), 1.5, 1.5},
    {"AVE pooling 3x3/2", OP_POOL, 1, false, POOL(POOL_AVE, 3, 2), 1.25, 1.25},
    {"AVE pooling global", OP_POOL, 1, false, POOL(POOL_AVE, 54, 1), 1, 1},
    {"LRN across 5", OP_LRN, 1, false, {.u.lrn = {5, 1e-4f, 0.75f, 1, false}}, 2, 3},
    {"LRN across 5, plain", OP_LRN, 1, true, {.u.lrn = {5, 1e-4f, 0.75f, 1, false}}, 2, 3},
    {"LRN within 3x3", OP_LRN, 1, false, {.u.lrn = {3, 1e-4f, 0.75f, 1, true}}, 2, 3},
    {"Dropout", OP_DROPOUT, 1, false, {.u.dropout = {0.5f}}, 2, 2},
    {"Dropout, plain", OP_DROPOUT, 1, true, {.u.dropout = {0.5f}}, 2, 2},
    {"Eltwise SUM of two", OP_ELTWISE, 2, false, {.u.eltwise = {ELTWISE_SUM, NULL}}, 3, 3},
    {"Eltwise MAX of two", OP_ELTWISE, 2, false, {.u.eltwise = {ELTWISE_MAX, NULL}}, 4, 4},
    {"Concat of two", OP_CONCAT, 2, false, {.u.concat = {1}}, 4, 4},
    {"Split in two", OP_SPLIT, 1, false, {0}, 0, 3},
    {"Softmax, plain", OP_SOFTMAX, 1, true, {.u.softmax = {1}}, 2, 3},
};

static void light_tops(struct rig *rig, const struct light_case *c, const int64_t in[4])
{
    const struct pool_args *p = &c->args.u.pool;
    int64_t out[4] = {in[0], in[1], in[2], in[3]};

    for (int i = 0; c->kind == OP_POOL && i < 2; i++)
        out[2 + i] = (in[2 + i] - p->kernel[i] + p->stride[i] - 1) / p->stride[i] + 1;
    if (c->kind == OP_CONCAT)
        out[1] *= 2;
    rig_top(rig, 4, out);
    if (c->kind == OP_SPLIT)
        rig_top(rig, 4, out);
}

static int bench_light(struct bench *b, const struct light_case *c)
{
    const int64_t dims[4] = {16, 96, 54, 54};
    const double bytes = 16.0 * 96 * 54 * 54 * sizeof(float);
    struct rig rig;
    struct figures f;
    int status = 0;

    rig_start(&rig, &b->engine, c->kind);
    rig.args.u = c->args.u;
    for (int i = 0; i < c->nbottoms; i++) {
        rig_bottom(&rig, 4, dims);
        if (!c->plain && rig_lay_out(&rig, i))
            status = -1;
    }
    light_tops(&rig, c, dims);
    status = status || measure(b, &rig, &f);
    rig_finish(&rig);
    if (status)
        return -1;
    double forward = c->forward * bytes / f.forward, backward = c->backward * bytes / f.backward;
    printf("%-28s %9.2f %8.1f %5.0f%%  %9.2f %8.1f %5.0f%%\n", c->name, f.forward * 1e3,
           forward * 1e-9, 100 * forward / b->peak_bandwidth, f.backward * 1e3, backward * 1e-9,
           100 * backward / b->peak_bandwidth);
    return 0;
}

/* The yardsticks: C = A B of 1152 x 1152, and a copy of 64 MB, both by all threads. */
static int find_peaks(struct bench *b)
{
    const int64_t n = 1152;
    const size_t bytes = (size_t)64 << 20;
    const struct engine_i *i = b->engine.i;
    struct tensor to = {.bytes = bytes};
    void *x = NULL, *y = NULL;
    double gemm = 1e9, copy = 1e9;
    int status = -1;

    if (shape_set(&to.shape, 1, (int64_t[]){(int64_t)(bytes / sizeof(float))}, "a copy") ||
        i->alloc(b->engine.context, bytes, "a matrix", &x) ||
        i->alloc(b->engine.context, bytes, "a matrix", &y))
        goto done;
    to.data = y;
    double begin = bench_seconds(b->threads);
    for (int r = 0; r < 5 || bench_seconds(b->threads) - begin < 4 * b->seconds; r++) {
        double start = bench_seconds(b->threads);
        if (i->gemm(b->engine.context, false, false, n, n, n, 1, x, n, (float *)x + n * n, n, 0, y,
                    n))
            goto done;
        double end = bench_seconds(b->threads);
        gemm = end - start < gemm ? end - start : gemm;
        if (i->write(b->engine.context, &to, x))
            goto done;
        start = bench_seconds(b->threads);
        copy = start - end < copy ? start - end : copy;
    }
    b->peak_flops = 2.0 * (double)n * (double)n * (double)n / gemm;
    b->peak_bandwidth = 2 * (double)bytes / copy;
    status = 0;
done:
    i->free(b->engine.context, x);
    i->free(b->engine.context, y);
    return status;
}

static int bench_all(struct bench *b)
{
    if (find_peaks(b))
        return -1;
    printf("oneDNN %d.%d.%d, %d thread(s); matrix product %.1f GFLOP/s, copy %.1f GB/s\n",
           DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH, b->threads,
           b->peak_flops * 1e-9, b->peak_bandwidth * 1e-9);
    printf("\n%-28s %9s %8s %6s  %9s %8s %6s   %6s\n", "convolution", "fwd ms", "GFLOP/s", "share",
           "bwd ms", "GFLOP/s", "share", "relaid");
    for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++)
        if (wanted(b, convs[i].name) && bench_conv(b, &convs[i]))
            return -1;
    printf("\n%-28s %24s %24s\n", "fwd ms, bwd ms, and x faster", "direct", "Winograd");
    for (size_t i = 0; i < sizeof convs / sizeof convs[0]; i++)
        if (has_ways(&convs[i]) && wanted(b, convs[i].name) && bench_ways(b, &convs[i]))
            return -1;
    printf("\n%-28s\n", "inner product");
    for (size_t i = 0; i < sizeof fcs / sizeof fcs[0]; i++)
        if (wanted(b, fcs[i].name) && bench_fc(b, &fcs[i]))
            return -1;
    printf("\n%-28s %9s %8s %6s  %9s %8s %6s\n", "16 x 96 x 54 x 54 floats", "fwd ms", "GB/s",
           "share", "bwd ms", "GB/s", "share");
    for (size_t i = 0; i < sizeof lights / sizeof lights[0]; i++)
        if (wanted(b, lights[i].name) && bench_light(b, &lights[i]))
            return -1;
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = 1, .seconds = 0.1, .names = argv + 1};
    int status;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--threads=", 10) == 0)
            b.threads = atoi(argv[i] + 10);
        else if (strncmp(argv[i], "--seconds=", 10) == 0)
            b.seconds = atof(argv[i] + 10);
        else
            b.names[b.nnames++] = argv[i];
    }
    struct engine_options options = {.threads = b.threads};
    relay.threads = b.threads;
    status = engine_open("cpu", &options, &b.engine) || bench_all(&b);
    if (status)
        fprintf(stderr, "bench_engine: %s\n", error_text());
    engine_close(&b.engine);
    return status ? 1 : 0;
}
