/* The CPU engine's table, and the code that all operators share: checks, threads, lifetime.
 *
 * Every op enters through cpu_enter: OpenMP's number of threads belongs to the calling thread, and
 * oneDNN asks OpenMP. */
#include "engine/cpu/cpu_internal.h"

#include "engine/image_plane.h"
#include "engine/op_check.h"
#include "util/alloc.h"

#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cpu_kind *const kinds[] = {
#define OPERATOR_KIND(ENUM, name, words, args) &cpu_##name,
    OPERATORS(OPERATOR_KIND)
#undef OPERATOR_KIND
};

/* Makes the calling thread compute with the engine's number of threads. */
static void cpu_enter(const struct cpu_engine *engine)
{
    if (omp_get_max_threads() != engine->threads)
        omp_set_num_threads(engine->threads);
}

void cpu_threads(const struct cpu_engine *engine, bool single)
{
    omp_set_num_threads(single ? 1 : engine->threads);
}

static void cpu_close(void *context)
{
    struct cpu_engine *engine = context;

    if (!engine)
        return;
    for (int i = 0; i < WORK_SLOTS; i++)
        cpu_free(NULL, engine->work[i].data);
    if (engine->attr)
        dnnl_primitive_attr_destroy(engine->attr);
    if (engine->stream)
        dnnl_stream_destroy(engine->stream);
    if (engine->engine)
        dnnl_engine_destroy(engine->engine);
    free(engine);
}

static int cpu_open(const struct engine_options *options, void **context)
{
    struct cpu_engine *engine;
    int threads = options ? options->threads : 0;

    *context = NULL;
    if (threads < 0)
        return error_set("the number of compute threads must be at least 1, not %d", threads);
    if (options && options->math == MATH_TF32)
        return error_set("--math=tf32 is for GPUs; the CPU has fp32 and bf16");
    if (ALLOC(engine, 1, "the CPU engine"))
        return -1;
    engine->threads = threads ? threads : omp_get_max_threads();
    if (options)
        engine->options = *options;
    engine->options.float_products |= engine->options.steady || !cpu_has_bf16();
    if (engine->options.passes < 1)
        engine->options.passes = 1;
    if (cpu_check(compat_strict()) || cpu_check(dnnl_engine_create(&engine->engine, dnnl_cpu, 0)) ||
        cpu_check(dnnl_stream_create(&engine->stream, engine->engine, dnnl_stream_default_flags)) ||
        cpu_check(dnnl_primitive_attr_create(&engine->attr)) ||
        cpu_check(
            dnnl_primitive_attr_set_scratchpad_mode(engine->attr, dnnl_scratchpad_mode_user))) {
        cpu_close(engine);
        return -1;
    }
    *context = engine;
    return 0;
}

static int cpu_engine_alloc(void *context, size_t bytes, const char *what, void **out)
{
    (void)context;
    return cpu_alloc(bytes, what, out);
}

static int cpu_reformat(struct cpu_engine *engine, const struct shape *shape,
                        const struct cpu_format *from_format, const float *from,
                        const struct cpu_format *to_format, float *to)
{
    struct owner owner = {0};
    struct cpu_primitive reorder;
    int status = -1;

    assert(from && to);
    cpu_enter(engine);
    if (from_format == to_format) {
        cpu_copy(to, from, cpu_format_bytes(shape, from_format) / sizeof(float));
        return 0;
    }
    if (cpu_format_reorder_create(engine, &owner, shape, from_format, to_format, &reorder) == 0)
        status = cpu_reorder_run(engine, &reorder, from, to);
    owner_free(&owner);
    return status;
}

static int cpu_write(void *context, struct tensor *to, const float *from)
{
    return cpu_reformat(context, &to->shape, NULL, from, cpu_tensor_format(to), to->data);
}

static int cpu_read(void *context, const struct tensor *from, float *to)
{
    return cpu_reformat(context, &from->shape, cpu_tensor_format(from), from->data, NULL, to);
}

static void cpu_release(void *context, struct tensor *tensor)
{
    (void)context;
    tensor->layout = NULL; /* formats are constants */
}

/* Size of the blocks of the result into which a matrix product is cut. */
struct blocks {
    int64_t rows, columns;
};

/* Returns the size of blocks. Blocks are nearly square, because a block reads the factors of all
 * its rows and columns, and have at least a million products and 32 rows or columns. The shape
 * alone decides: a block's size sets the order in which oneDNN adds. */
static struct blocks blocks_of(int64_t m, int64_t n, int64_t k)
{
    const int64_t most = 64, least = 32;
    double millions = (double)m * (double)n * (double)k * 0x1p-20;
    int64_t wanted = millions < (double)most ? (int64_t)millions : most, down = 1;

    while (down * down * n < wanted * m && down * least < m)
        down++;
    int64_t rows = (m + down - 1) / down, across = cpu_greatest(wanted / down, 1);
    int64_t columns = cpu_greatest((n + across - 1) / across, least);
    return (struct blocks){rows, (columns + 15) / 16 * 16};
}

/* Multiplies. With options.steady one thread computes each block of the result, because oneDNN uses
 * the calling thread alone within a parallel region. */
int cpu_gemm(const struct cpu_engine *engine, bool trans_a, bool trans_b, int64_t m, int64_t n,
             int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
             float beta, float *c, int64_t ldc)
{
    const char ta = trans_a ? 'T' : 'N', tb = trans_b ? 'T' : 'N';
    struct blocks of = blocks_of(m, n, k);
    int failed = 0;

    if (!engine->options.steady)
        return cpu_check(dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
#pragma omp parallel for collapse(2) reduction(| : failed)
    for (int64_t i = 0; i < m; i += of.rows)
        for (int64_t j = 0; j < n; j += of.columns)
            failed |=
                dnnl_sgemm(ta, tb, cpu_least(of.rows, m - i), cpu_least(of.columns, n - j), k,
                           alpha, a + i * (trans_a ? 1 : lda), lda, b + j * (trans_b ? ldb : 1),
                           ldb, beta, c + i * ldc + j, ldc) != dnnl_success;
    return failed ? error_set("oneDNN: a block of a matrix product failed") : 0;
}

static int cpu_engine_gemm(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n,
                           int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                           int64_t ldb, float beta, float *c, int64_t ldc)
{
    cpu_enter(context);
    return cpu_gemm(context, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static int cpu_multiply(void *context, int size, const float *a, const float *b, float *c)
{
    cpu_enter(context);
    return cpu_rounds(context)
               ? cpu_multiply_bf16(context, size, a, b, c)
               : cpu_gemm(context, true, false, size, size, size, 1, a, size, b, size, 0, c, size);
}

/* Puts "layer 'NAME': " in front of the message. */
static int cpu_op_error(const struct cpu_op *op)
{
    return error_context("layer '%s'", op->args.layer ? op->args.layer : "?");
}

static struct cpu_op *cpu_op_of(struct op *op)
{
    return (struct cpu_op *)op;
}

static int kind_forward(struct cpu_op *op)
{
    const struct cpu_kind *kind = op->kind;

    for (int i = 0; !kind->loads && i < op->args.nbottoms; i++)
        if (cpu_view_move(op->engine, &op->in[i]))
            return -1;
    if (kind->run)
        return kind->run(op, false, cpu_op_x(op, 0), cpu_op_y(op));
    return kind->forward ? kind->forward(op) : 0;
}

static int kind_gradient(struct cpu_op *op, int bottom)
{
    float *dx = cpu_op_dx(op, bottom);

    if (op->kind->run ? op->kind->run(op, true, cpu_op_dy(op), dx)
                      : op->kind->gradient(op, bottom, dx))
        return -1;
    return cpu_view_move(op->engine, &op->out[bottom]);
}

static int kind_backward(struct cpu_op *op)
{
    const struct cpu_kind *kind = op->kind;

    if (kind->backward && kind->backward(op))
        return -1;
    for (int i = 0; (kind->run || kind->gradient) && i < op->args.nbottoms; i++)
        if (cpu_op_propagates(op, i) && kind_gradient(op, i))
            return -1;
    return 0;
}

static int cpu_op_forward(struct op *base, const struct pass *pass)
{
    struct cpu_op *op = cpu_op_of(base);

    cpu_enter(op->engine);
    op->pass = pass;
    return kind_forward(op) ? cpu_op_error(op) : 0;
}

static int cpu_op_backward(struct op *base, const struct pass *pass)
{
    struct cpu_op *op = cpu_op_of(base);

    cpu_enter(op->engine);
    op->pass = pass;
    return kind_backward(op) ? cpu_op_error(op) : 0;
}

static void cpu_op_destroy(struct op *base)
{
    struct cpu_op *op = cpu_op_of(base);

    if (op->kind->destroy)
        op->kind->destroy(op);
    owner_free(&op->owner);
    free(op);
}

static const struct op_i train_table = {cpu_op_forward, cpu_op_backward, cpu_op_destroy};
static const struct op_i test_table = {cpu_op_forward, NULL, cpu_op_destroy};

/* Sets the formats that CPU_AS_BOTTOM and CPU_OVER_GRADIENT ask for. */
static int op_follow_bottom(struct cpu_op *op)
{
    const struct cpu_kind *kind = op->kind;
    const struct cpu_format *bottom = cpu_tensor_format(&op->args.bottoms[0]->value),
                            *format = kind->halves ? bottom : cpu_format_floats(bottom);

    assert(kind->halves || !cpu_op_in_place(op));
    if (cpu_op_in_place(op))
        return 0;
    for (int i = 0; i < op->args.ntops; i++)
        cpu_top_set(op->args.tops[i], format);
    if (format != bottom)
        return cpu_op_take(op, 0, format, WORK_OWN);
    if (kind->blobs == CPU_OVER_GRADIENT && cpu_op_propagates(op, 0))
        op->args.tops[0]->grad.base = &op->args.bottoms[0]->grad;
    return 0;
}

/* Sets the formats of bottoms and tops that kind->blobs asks for. */
static int op_arrange_blobs(struct cpu_op *op)
{
    const struct cpu_kind *kind = op->kind;
    const bool again = kind->blobs == CPU_PLAIN_AGAIN;

    if (kind->blobs == CPU_OWN)
        return 0;
    if (kind->blobs == CPU_AS_BOTTOM || kind->blobs == CPU_OVER_GRADIENT)
        return op_follow_bottom(op);
    for (int i = 0; i < op->args.ntops; i++)
        cpu_top_set(op->args.tops[i], NULL);
    for (int i = 0; i < op->args.nbottoms && i < (kind->plain ? kind->plain : 1); i++)
        if (cpu_op_take(op, i, NULL, i > 0 || again ? WORK_OWN : WORK_TOP_GRAD))
            return -1;
    return 0;
}

static int op_make(struct cpu_op *op)
{
    size_t n = (size_t)op->args.nbottoms + 1;

    if (OWN(&op->owner, op->in, n, "an operator") || OWN(&op->owner, op->out, n, "an operator") ||
        op_arrange_blobs(op))
        return -1;
    return op->kind->create ? op->kind->create(op) : 0;
}

static int cpu_op_create(void *context, const struct op_args *args, struct op **out)
{
    const struct cpu_kind *kind = kinds[args->kind];
    const size_t size = kind->size ? kind->size : sizeof(struct cpu_op);
    struct cpu_op *op;
    bool trains = args->train && (kind->run || kind->backward || kind->gradient);

    *out = NULL;
    assert(size >= sizeof *op && !(kind->run && (kind->forward || kind->gradient)));
    op = calloc(1, size);
    if (!op)
        return error_memory(size, "an operator");
    *op = (struct cpu_op){.op = {trains ? &train_table : &test_table},
                          .kind = kind,
                          .engine = context,
                          .args = *args};
    cpu_enter(op->engine);
    if (op_make(op)) {
        cpu_op_error(op);
        cpu_op_destroy(&op->op);
        return -1;
    }
    *out = &op->op;
    return 0;
}

static bool cpu_fuses(void *context, enum op_kind kind, enum op_kind next)
{
    const struct cpu_engine *engine = context;

    return !engine->options.no_fusion && next == OP_RELU &&
           (kind == OP_CONV || kind == OP_BATCH_NORM || kind == OP_ELTWISE || kind == OP_CONCAT);
}

/* Returns true if the op takes a bfloat16 bottom as floats, and makes floats. */
static bool op_expands(const struct cpu_op *op)
{
    if (op->args.ntops > 0 && cpu_tensor_half(&op->args.tops[0]->value))
        return false;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (cpu_view_differs(&op->in[i]) && cpu_tensor_half(op->in[i].tensor))
            return true;
    return false;
}

static void cpu_op_describe(const struct op *op, char words[ENGINE_OP_WORDS])
{
    const struct cpu_op *cpu_op = (const struct cpu_op *)op;

    words[0] = '\0';
    if (cpu_op->kind->describe)
        cpu_op->kind->describe(cpu_op, words);
    if (op_expands(cpu_op))
        snprintf(words + strlen(words), ENGINE_OP_WORDS - strlen(words), "%sfloats from bf16",
                 words[0] ? ", " : "");
}

/* Returns the bytes that slots hold and that ops keep. */
static size_t cpu_held(void *context)
{
    const struct cpu_engine *engine = context;
    size_t bytes = engine->kept;

    for (int i = 0; i < WORK_SLOTS; i++)
        bytes += engine->work[i].bytes;
    return bytes;
}

/* Updates parameters. With DEVICE_IN_TURN all compute threads share the update, which is
 * elementwise: the number of threads does not change bits. Otherwise the calling thread works
 * alone, because the compute threads are busy. */
static int cpu_update(void *context, const struct device_update *update, float *value,
                      const float *grad, float *history, size_t stride, size_t n,
                      enum device_turn turn)
{
    const size_t piece = 32768;

    if (turn != DEVICE_IN_TURN || n <= piece) {
        rule_update(update, value, grad, history, stride, n);
        return 0;
    }
    cpu_enter(context);
#pragma omp parallel for
    for (size_t i = 0; i < n; i += piece)
        rule_update(update, value + i, grad + i, history + i, stride,
                    n - i < piece ? n - i : piece);
    return 0;
}

struct engine_images {
    struct engine_images_args args;
};

static void cpu_images_destroy(void *context, struct engine_images *images)
{
    (void)context;
    free(images);
}

static int cpu_images_create(void *context, const struct engine_images_args *args, struct blob *top,
                             struct engine_images **out)
{
    (void)context;
    if (ALLOC(*out, 1, "batches of images"))
        return -1;
    (*out)->args = *args;
    cpu_top_set(top, NULL);
    return 0;
}

static int cpu_images_write(void *context, struct engine_images *images, struct tensor *top,
                            const uint8_t *pixels, const struct engine_window *windows)
{
    const struct engine_images_args *args = &images->args;
    const int64_t channels = args->channels, plane = args->height * args->width;
    const int64_t planes = (int64_t)shape_elems(&top->shape) / plane;

    cpu_enter(context);
#pragma omp parallel for if (planes * plane > CPU_PIECE)
    for (int64_t p = 0; p < planes; p++) {
        const struct engine_window *window = &windows[p / channels];
        float *y = top->data + p * plane;

        if (window->values)
            memcpy(y, window->values + p % channels * plane, (size_t)plane * sizeof *y);
        else
            engine_image_plane(args, window, p % channels, pixels + p * plane, false, args->width,
                               y);
    }
    return 0;
}

static const struct engine_images_i cpu_images = {
    .create = cpu_images_create, .destroy = cpu_images_destroy, .write = cpu_images_write};

static const struct device_services_i cpu_services = {
    .update = cpu_update, .sumsq = device_host_sumsq, .encode = device_host_encode};

static const struct device_i cpu_device = {
    .alloc = cpu_engine_alloc,
    .free = cpu_free,
    .write = device_host_write,
    .read = device_host_read,
    .gemm = cpu_engine_gemm,
    .copies = &device_host_copies,
    .services = &cpu_services,
};

const struct engine_i engine_cpu = {
    .name = "cpu",
    .device = &cpu_device,
    .open = cpu_open,
    .close = cpu_close,
    .write = cpu_write,
    .read = cpu_read,
    .release = cpu_release,
    .fuses = cpu_fuses,
    .op_create = cpu_op_create,
    .multiply = cpu_multiply,
    .factors = cpu_inner_product_factors,
    .sum_products = cpu_sum_products,
    .describe = cpu_op_describe,
    .processor = cpu_processor,
    .held = cpu_held,
    .images = &cpu_images,
};
