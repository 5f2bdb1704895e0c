/* Memory, formats, and the way of whole tensors to and from the host.
 *
 * Small writes (loss weights, parameters' odd ends) go through page-locked slots and cost the host
 * a copy. Large ones (a batch of images) go through one of two buffers on the device: while the GPU
 * still works on the last batch, the next is already on its way, and only then turned into the
 * blob's format. */
#include "cuda_internal.h"

#include "util/error.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct cuda_format cuda_plain_bf16 = {"plain bfloat16", CUDA_BF16, false};
const struct cuda_format cuda_nhwc_f32 = {"NHWC float", CUDA_F32, true};
static const struct cuda_format cuda_nhwc_bf16 = {"NHWC bfloat16", CUDA_BF16, true};

enum { SLOTS = 16, SLOT_BYTES = 16384, BUFFERS = 2 };

struct slot {
    void *host;
    cudaEvent_t used; /* the copy out of it */
};

struct buffer {
    void *device;
    size_t bytes;
    cudaEvent_t filled, used;
};

struct cuda_staging {
    struct slot slot[SLOTS];
    struct buffer buffer[BUFFERS];
    unsigned next_slot, next_buffer;
};

int cuda_alloc(size_t bytes, const char *what, void **out)
{
    size_t free_bytes = 0, total = 0;
    cudaError_t status;

    *out = NULL;
    status = cudaMalloc(out, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&free_bytes, &total);
        return error_set(
            "the GPU's memory is full: %s needs %.1f MiB, and %.1f of %.0f MiB are free", what,
            (double)bytes / 1048576, (double)free_bytes / 1048576, (double)total / 1048576);
    }
    if (status != cudaSuccess)
        return cuda_status(status, "cudaMalloc");
    /* on the default stream, which waits for no other: wait here once */
    if (cuda_check(cudaMemset(*out, 0, bytes ? bytes : 1)) ||
        cuda_check(cudaStreamSynchronize(NULL))) {
        cudaFree(*out);
        *out = NULL;
        return -1;
    }
    return 0;
}

void cuda_free(void *context, void *memory)
{
    (void)context;
    if (memory)
        cudaFree(memory);
}

int cuda_work_reserve(struct cuda_engine *engine, enum cuda_work_slot slot, size_t bytes)
{
    static const char *const names[WORK_SLOTS] = {
        "the libraries' workspace", "a top gradient's copy", "a bottom gradient's copy",
        "a weight gradient's copy", "partial sums"};
    struct cuda_work *work = &engine->work[slot];

    if (work->bytes >= bytes)
        return 0;
    assert(!engine->recording); /* a captured stream allocates nothing */
    cudaStreamSynchronize(engine->stream);
    cuda_free(NULL, work->data);
    *work = (struct cuda_work){0};
    engine->generation++;
    if (cuda_alloc(bytes, names[slot], &work->data))
        return -1;
    work->bytes = bytes;
    return 0;
}

int cuda_staging_open(struct cuda_engine *engine)
{
    struct cuda_staging *staging = calloc(1, sizeof *staging);

    engine->staging = staging;
    if (!staging)
        return error_memory(sizeof *staging, "staging");
    for (int i = 0; i < SLOTS; i++)
        if (cuda_check(cudaMallocHost(&staging->slot[i].host, SLOT_BYTES)) ||
            cuda_check(cudaEventCreateWithFlags(&staging->slot[i].used, cudaEventDisableTiming)))
            return -1;
    for (int i = 0; i < BUFFERS; i++)
        if (cuda_check(
                cudaEventCreateWithFlags(&staging->buffer[i].filled, cudaEventDisableTiming)) ||
            cuda_check(cudaEventCreateWithFlags(&staging->buffer[i].used, cudaEventDisableTiming)))
            return -1;
    return 0;
}

void cuda_staging_close(struct cuda_engine *engine)
{
    struct cuda_staging *staging = engine->staging;

    if (!staging)
        return;
    for (int i = 0; i < SLOTS; i++) {
        if (staging->slot[i].host)
            cudaFreeHost(staging->slot[i].host);
        if (staging->slot[i].used)
            cudaEventDestroy(staging->slot[i].used);
    }
    for (int i = 0; i < BUFFERS; i++) {
        cuda_free(NULL, staging->buffer[i].device);
        if (staging->buffer[i].filled)
            cudaEventDestroy(staging->buffer[i].filled);
        if (staging->buffer[i].used)
            cudaEventDestroy(staging->buffer[i].used);
    }
    free(staging);
    engine->staging = NULL;
}

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

int cuda_write_small(struct cuda_engine *engine, void *to, const void *from, size_t bytes)
{
    struct slot *slot = &engine->staging->slot[engine->staging->next_slot++ % SLOTS];

    if (cuda_check(cudaEventSynchronize(slot->used)))
        return -1;
    assert(bytes <= SLOT_BYTES);
    memcpy(slot->host, from, bytes);
    if (cuda_check(cudaMemcpyAsync(to, slot->host, bytes, cudaMemcpyHostToDevice, engine->stream)))
        return -1;
    return cuda_check(cudaEventRecord(slot->used, engine->stream));
}

static int buffer_reserve(struct buffer *buffer, size_t bytes)
{
    if (buffer->bytes >= bytes)
        return 0;
    cuda_free(NULL, buffer->device);
    buffer->bytes = 0;
    buffer->device = NULL;
    if (cuda_alloc(bytes, "a buffer for input", &buffer->device))
        return -1;
    buffer->bytes = bytes;
    return 0;
}

/* `from` may be reused when this returns: the host waits for the copy, which nothing else delays.
 */
static int write_large(struct cuda_engine *engine, struct tensor *to, const float *from,
                       size_t bytes)
{
    struct buffer *buffer = &engine->staging->buffer[engine->staging->next_buffer++ % BUFFERS];

    assert(!engine->recording);
    if (cuda_check(cudaEventSynchronize(buffer->used)) || buffer_reserve(buffer, bytes) ||
        cuda_check(
            cudaMemcpyAsync(buffer->device, from, bytes, cudaMemcpyHostToDevice, engine->feed)) ||
        cuda_check(cudaEventRecord(buffer->filled, engine->feed)) ||
        cuda_check(cudaStreamWaitEvent(engine->stream, buffer->filled, 0)) ||
        cuda_convert(engine, &to->shape, NULL, buffer->device, cuda_tensor_format(to), to->data) ||
        cuda_check(cudaEventRecord(buffer->used, engine->stream)))
        return -1;
    return cuda_check(cudaEventSynchronize(buffer->filled));
}

int cuda_write(void *context, struct tensor *to, const float *from)
{
    struct cuda_engine *engine = context;
    size_t bytes = shape_elems(&to->shape) * sizeof *from;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    if (bytes <= SLOT_BYTES && !formats_differ(&to->shape, NULL, cuda_tensor_format(to)))
        return cuda_write_small(engine, to->data, from, bytes);
    return write_large(engine, to, from, bytes);
}

/* A kernel cannot fail; it leaves a note, which is read wherever the host waits anyway. */
static int labels_check(struct cuda_engine *engine)
{
    struct kernel_bad bad = *(volatile struct kernel_bad *)engine->bad;
    const char *fault = bad.label == floorf(bad.label) ? "outside" : "no whole number of";

    if (!bad.position)
        return 0;
    engine->bad->position = 0;
    if (bad.rows)
        return error_set("layer '%s': index %g at place %d is %s 0..%d",
                         bad.layer ? bad.layer : "?", (double)bad.label, bad.position - 1, fault,
                         bad.classes - 1);
    return error_set("layer '%s': label %g of sample %d of the batch is %s 0..%d (the scores "
                     "have %d classes)",
                     bad.layer ? bad.layer : "?", (double)bad.label, (bad.position - 1) / bad.inner,
                     fault, bad.classes - 1, bad.classes);
}

int cuda_read(void *context, const struct tensor *from, float *to)
{
    struct cuda_engine *engine = context;
    size_t bytes = shape_elems(&from->shape) * sizeof *to;
    const void *plain = from->data;
    void *temporary = NULL;
    int status = -1;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    if (formats_differ(&from->shape, cuda_tensor_format(from), NULL)) {
        if (cuda_alloc(bytes, "a blob's plain copy", &temporary))
            return -1;
        if (cuda_convert(engine, &from->shape, cuda_tensor_format(from), from->data, NULL,
                         temporary))
            goto done;
        plain = temporary;
    }
    if (cuda_check(cudaMemcpyAsync(to, plain, bytes, cudaMemcpyDeviceToHost, engine->stream)) ||
        cuda_check(cudaStreamSynchronize(engine->stream)))
        goto done;
    status = labels_check(engine);
done:
    cuda_free(NULL, temporary);
    return status;
}
