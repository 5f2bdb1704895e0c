/* The CUDA engine's table, and the checks and the lifetime that all operators share.
 *
 * Opening says which is missing: the driver, the device, or a library. */
#include "cuda_internal.h"
#include "gpu.h"

#include "engine/engine_internal.h"
#include "engine/op_check.h"
#include "util/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Major compute capability of the first GPUs with bfloat16 and TF32 tensor cores. */
enum { AMPERE = 8 };

static const struct cuda_kind *const kinds[] = {
#define OPERATOR_KIND(ENUM, name, words, args) &cuda_##name,
    OPERATORS(OPERATOR_KIND)
#undef OPERATOR_KIND
};

static void cuda_close(void *context)
{
    struct cuda_engine *engine = context;

    if (!engine)
        return;
#ifdef HAVE_NCCL
    cuda_team_close(engine);
#endif
    if (engine->stream)
        cudaStreamSynchronize(engine->stream);
    cuda_plans_close(engine);
    if (engine->cudnn)
        engine->libs.cudnnDestroy_(engine->cudnn);
    cuda_base_close(engine);
    free(engine);
}

static int choose_math(struct cuda_engine *engine, enum engine_math math)
{
    static const char *const names[] = {[MATH_DEFAULT] = "default",
                                        [MATH_FP32] = "fp32",
                                        [MATH_TF32] = "tf32",
                                        [MATH_BF16] = "bf16"};

    if (math == MATH_DEFAULT)
        math = engine->major >= AMPERE ? MATH_TF32 : MATH_FP32;
    if (math != MATH_FP32 && engine->major < AMPERE)
        return error_set("%s has compute capability %d.%d; %s needs 8.0 or later: use fp32",
                         engine->words, engine->major, engine->minor, names[math]);
    engine->math = math;
    engine->type = math == MATH_BF16 ? CUDA_BF16 : CUDA_F32;
    return 0;
}

static int cuda_open(const struct engine_options *options, void **context)
{
    static const struct engine_options none = {0};
    struct cuda_engine *engine;

    *context = NULL;
    options = options ? options : &none;
    engine = calloc(1, sizeof *engine);
    if (!engine)
        return error_memory(sizeof *engine, "the CUDA engine");
    engine->deterministic = options->deterministic;
    engine->no_graphs = options->no_graphs;
    engine->no_fusion = options->no_fusion;
    if (cuda_base_open(engine, options->device, options->workspace, true) ||
        choose_math(engine, options->math) ||
        cudnn_check(engine, engine->libs.cudnnCreate_(&engine->cudnn)) ||
        cudnn_check(engine, engine->libs.cudnnSetStream_(engine->cudnn, engine->stream)) ||
        cuda_plans_open(engine)) {
        cuda_close(engine);
        return -1;
    }
    *context = engine;
    return 0;
}

static void cuda_release(void *context, struct tensor *tensor)
{
    (void)context;
    tensor->layout = NULL; /* formats are constants, never freed */
}

/* Puts "layer 'NAME': " in front of the message; returns -1. */
static int cuda_op_error(const struct cuda_op *op)
{
    return error_context("layer '%s'", op->args.layer ? op->args.layer : "?");
}

static struct cuda_op *cuda_op_of(struct op *op)
{
    return (struct cuda_op *)op;
}

static int kind_forward(struct cuda_op *op)
{
    const struct cuda_kind *kind = op->kind;

    for (int i = 0; !kind->loads && i < op->args.nbottoms; i++)
        if (cuda_view_move(op->engine, &op->in[i]))
            return -1;
    if (kind->run)
        return kind->run(op, false, cuda_op_x(op, 0), cuda_op_y(op));
    return kind->forward ? kind->forward(op) : 0;
}

static int kind_gradient(struct cuda_op *op, int bottom)
{
    void *dx = cuda_op_dx(op, bottom);

    if (op->kind->run ? op->kind->run(op, true, cuda_op_dy(op), dx)
                      : op->kind->gradient(op, bottom, dx))
        return -1;
    return cuda_view_move(op->engine, &op->out[bottom]);
}

static int kind_backward(struct cuda_op *op)
{
    const struct cuda_kind *kind = op->kind;

    if (kind->backward && kind->backward(op))
        return -1;
    for (int i = 0; (kind->run || kind->gradient) && i < op->args.nbottoms; i++)
        if (cuda_op_propagates(op, i) && kind_gradient(op, i))
            return -1;
    return 0;
}

static int cuda_op_forward(struct op *base, const struct pass *pass)
{
    struct cuda_op *op = cuda_op_of(base);

    op->pass = pass;
    return kind_forward(op) ? cuda_op_error(op) : 0;
}

static int cuda_op_backward(struct op *base, const struct pass *pass)
{
    struct cuda_op *op = cuda_op_of(base);

    op->pass = pass;
    return kind_backward(op) ? cuda_op_error(op) : 0;
}

/* Waits for work that uses the operator's memory before freeing: cudaFree waits by itself, but
 * destroying events and plans does not. */
static void cuda_op_destroy(struct op *base)
{
    struct cuda_op *op = cuda_op_of(base);

    cudaStreamSynchronize(op->engine->stream);
    if (op->kind->destroy)
        op->kind->destroy(op);
    owner_free(&op->owner);
    free(op);
}

static const struct op_i train_table = {cuda_op_forward, cuda_op_backward, cuda_op_destroy};
static const struct op_i test_table = {cuda_op_forward, NULL, cuda_op_destroy};

static bool cuda_fuses(void *context, enum op_kind kind, enum op_kind next)
{
    const struct cuda_engine *engine = context;

    return !engine->no_fusion && next == OP_RELU &&
           (kind == OP_BATCH_NORM || kind == OP_ELTWISE || kind == OP_CONCAT || kind == OP_CONV);
}

/* Sets the formats of the operator's blobs by its kind's `blobs`. */
static int op_arrange_blobs(struct cuda_op *op)
{
    const struct cuda_kind *kind = op->kind;
    const bool as_bottom = kind->blobs == CUDA_AS_BOTTOM;
    const struct cuda_format *format = as_bottom ? cuda_tensor_format(&op->args.bottoms[0]->value)
                                       : kind->blobs == CUDA_PLAIN ? cuda_plain(op->engine)
                                       : kind->blobs == CUDA_NHWC  ? cuda_nhwc(op->engine)
                                                                   : NULL;

    if (kind->blobs == CUDA_OWN || (as_bottom && cuda_op_in_place(op)))
        return 0;
    for (int i = 0; i < op->args.ntops; i++)
        cuda_top_set(op->args.tops[i], format);
    for (int i = 0; !as_bottom && i < op->args.nbottoms && i < (kind->taken ? kind->taken : 1); i++)
        if (cuda_op_take(op, i, format, i > 0 || kind->again))
            return -1;
    return 0;
}

static int op_make(struct cuda_op *op)
{
    size_t n = (size_t)op->args.nbottoms + 1;

    if (OWN(&op->owner, op->in, n, "an operator") || OWN(&op->owner, op->out, n, "an operator") ||
        op_arrange_blobs(op))
        return -1;
    return op->kind->create ? op->kind->create(op) : 0;
}

static int cuda_op_create(void *context, const struct op_args *args, struct op **out)
{
    const struct cuda_kind *kind = kinds[args->kind];
    const size_t size = kind->size ? kind->size : sizeof(struct cuda_op);
    struct cuda_engine *engine = context;
    struct cuda_op *op;
    bool trains = args->train && (kind->run || kind->backward || kind->gradient);

    *out = NULL;
    assert(size >= sizeof *op && !(kind->run && (kind->forward || kind->gradient)));
    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    op = calloc(1, size);
    if (!op)
        return error_memory(size, "an operator");
    *op = (struct cuda_op){
        .op = {trains ? &train_table : &test_table}, .kind = kind, .engine = engine, .args = *args};
    if (op_make(op)) {
        cuda_op_error(op);
        cuda_op_destroy(&op->op);
        return -1;
    }
    *out = &op->op;
    return 0;
}

static const struct engine_images_i images = {
    .create = cuda_images_create, .destroy = cuda_images_destroy, .write = cuda_images_write};

const struct engine_i engine_cuda = {
    .name = "cuda",
    .device = &device_cuda,
    .open = cuda_open,
    .close = cuda_close,
    .write = cuda_write,
    .read = cuda_read,
    .release = cuda_release,
    .fuses = cuda_fuses,
    .op_create = cuda_op_create,
    .factors = cuda_inner_product_factors,
    .images = &images,
    .graph = &cuda_graph,
};

int cuda_device_nccl(char *text, size_t size)
{
    return device_cuda.team ? device_cuda.team->library(text, size)
                            : error_set("not part of this build (configure --with-nccl)");
}
