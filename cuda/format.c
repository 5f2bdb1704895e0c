/* Formats of blobs in device memory: conversions between formats, and copies of whole tensors to
 * and from the host. */
#include "cuda_internal.h"

#include <assert.h>
#include <stdint.h>

const struct cuda_format cuda_plain_bf16 = {"plain bfloat16", CUDA_BF16, false};
const struct cuda_format cuda_nhwc_f32 = {"NHWC float", CUDA_F32, true};
static const struct cuda_format cuda_nhwc_bf16 = {"NHWC bfloat16", CUDA_BF16, true};

const struct cuda_format *cuda_tensor_format(const struct tensor *tensor)
{
    return tensor->layout;
}

enum cuda_type cuda_format_type(const struct cuda_format *format)
{
    return format ? format->type : CUDA_F32;
}

const struct cuda_format *cuda_plain(const struct cuda_engine *engine)
{
    return engine->type == CUDA_BF16 ? &cuda_plain_bf16 : NULL;
}

const struct cuda_format *cuda_nhwc(const struct cuda_engine *engine)
{
    return engine->type == CUDA_BF16 ? &cuda_nhwc_bf16 : &cuda_nhwc_f32;
}

size_t cuda_type_bytes(enum cuda_type type)
{
    return type == CUDA_BF16 ? 2 : 4;
}

static size_t cuda_format_bytes(const struct shape *shape, const struct cuda_format *format)
{
    return shape_elems(shape) * cuda_type_bytes(cuda_format_type(format));
}

static void tensor_set(struct tensor *tensor, const struct shape *shape,
                       const struct cuda_format *format)
{
    tensor->shape = *shape;
    tensor->layout = (void *)(uintptr_t)format;
    tensor->bytes = cuda_format_bytes(shape, format);
    tensor->base = NULL;
}

void cuda_top_set(struct blob *top, const struct cuda_format *format)
{
    tensor_set(&top->value, &top->value.shape, format);
    tensor_set(&top->grad, &top->value.shape, format);
}

static void tensor_alias(struct tensor *tensor, struct tensor *base)
{
    tensor->layout = base->layout;
    tensor->bytes = base->bytes;
    tensor->base = base;
}

void cuda_top_alias(struct blob *top, struct blob *bottom, bool grad)
{
    cuda_top_set(top, cuda_tensor_format(&bottom->value));
    tensor_alias(&top->value, &bottom->value);
    if (grad)
        tensor_alias(&top->grad, &bottom->grad);
}

/* ---- formats ---- */

static bool same_order(const struct shape *shape, const struct cuda_format *a,
                       const struct cuda_format *b)
{
    bool nhwc_a = a && a->nhwc, nhwc_b = b && b->nhwc;

    return nhwc_a == nhwc_b || shape->dim[1] == 1 || shape_count(shape, 2, shape->naxes) == 1;
}

int cuda_convert(struct cuda_engine *engine, const struct shape *shape,
                 const struct cuda_format *from_format, const void *from,
                 const struct cuda_format *to_format, void *to)
{
    int outer = 1, rows = 1, columns = (int)shape_elems(shape);

    if (!same_order(shape, from_format, to_format)) {
        int channels = (int)shape->dim[1], pixels = (int)shape_count(shape, 2, shape->naxes);
        outer = (int)shape->dim[0];
        rows = to_format && to_format->nhwc ? channels : pixels;
        columns = to_format && to_format->nhwc ? pixels : channels;
    }
    assert((size_t)outer * (size_t)rows * (size_t)columns == shape_elems(shape));
    return cuda_check(kernel_transpose(engine->stream, cuda_format_type(from_format), from,
                                       cuda_format_type(to_format), to, outer, rows, columns,
                                       false));
}

static bool formats_differ(const struct shape *shape, const struct cuda_format *a,
                           const struct cuda_format *b)
{
    return cuda_format_type(a) != cuda_format_type(b) || !same_order(shape, a, b);
}

void *cuda_op_alloc(struct cuda_op *op, size_t bytes, const char *what)
{
    void *memory;

    return cuda_alloc(bytes, what, &memory) || owner_take(&op->owner, cuda_free, NULL, memory)
               ? NULL
               : memory;
}

int cuda_view_create(struct cuda_op *op, struct tensor *tensor, const struct cuda_format *format,
                     bool written, enum cuda_work_slot slot, struct cuda_view *out)
{
    size_t bytes = cuda_format_bytes(&tensor->shape, format);

    *out = (struct cuda_view){.tensor = tensor, .format = format, .written = written, .slot = slot};
    out->converts = formats_differ(&tensor->shape, cuda_tensor_format(tensor), format);
    if (!out->converts)
        return 0;
    if (slot != WORK_OWN)
        return cuda_work_reserve(op->engine, slot, bytes);
    out->own = cuda_op_alloc(op, bytes, "a copy of a bottom in another format");
    return out->own ? 0 : -1;
}

void *cuda_view_data(const struct cuda_engine *engine, const struct cuda_view *view)
{
    if (!view->converts)
        return view->tensor->data;
    return view->slot == WORK_OWN ? view->own : engine->work[view->slot].data;
}

int cuda_view_move(struct cuda_engine *engine, const struct cuda_view *view)
{
    const struct cuda_format *own;
    void *data;

    if (!view->converts)
        return 0;
    own = cuda_tensor_format(view->tensor);
    data = cuda_view_data(engine, view);
    return view->written ? cuda_convert(engine, &view->tensor->shape, view->format, data, own,
                                        view->tensor->data)
                         : cuda_convert(engine, &view->tensor->shape, own, view->tensor->data,
                                        view->format, data);
}

int cuda_op_take(struct cuda_op *op, int i, const struct cuda_format *format, bool again)
{
    struct blob *bottom = op->args.bottoms[i];

    if (cuda_view_create(op, &bottom->value, format, false, again ? WORK_OWN : WORK_TOP_GRAD,
                         &op->in[i]))
        return -1;
    if (!cuda_op_propagates(op, i))
        return 0;
    return cuda_view_create(op, &bottom->grad, format, true, WORK_BOTTOM_GRAD, &op->out[i]);
}

/* ---- to and from the host ---- */

int cuda_write(void *context, struct tensor *to, const float *from)
{
    struct cuda_engine *engine = context;
    const struct cuda_format *format = cuda_tensor_format(to);
    size_t elems = shape_elems(&to->shape);
    struct cuda_staged staged;

    if (!formats_differ(&to->shape, NULL, format))
        return cuda_store(engine, to->data, from, elems);
    return cuda_check(cudaSetDevice(engine->device)) ||
                   cuda_stage(engine, from, elems * sizeof *from, &staged) ||
                   cuda_convert(engine, &to->shape, NULL, staged.data, format, to->data) ||
                   cuda_staged_done(engine, &staged)
               ? -1
               : 0;
}

int cuda_read(void *context, const struct tensor *from, float *to)
{
    struct cuda_engine *engine = context;
    const struct cuda_format *format = cuda_tensor_format(from);
    size_t elems = shape_elems(&from->shape);
    void *plain;
    int status;

    if (!formats_differ(&from->shape, format, NULL))
        return cuda_fetch(engine, from->data, to, elems);
    if (cuda_check(cudaSetDevice(engine->device)) ||
        cuda_alloc(elems * sizeof *to, "a blob's plain copy", &plain))
        return -1;
    status = cuda_convert(engine, &from->shape, format, from->data, NULL, plain) ||
                     cuda_fetch(engine, plain, to, elems)
                 ? -1
                 : 0;
    cuda_free(NULL, plain);
    return status;
}
