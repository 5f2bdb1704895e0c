/* Memory, formats, and the reorders between formats.
 *
 * oneDNN zeroes the padding of a blocked tensor whenever a memory object gets a pointer. So each
 * memory object is created once, and gets a pointer only when the pointer changed. */
#include "engine/cpu/element.h"

#include "util/error.h"
#include "util/machine.h"
#include "util/units.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Formats of floats, then of bfloat16 in the same order; plain floats are NULL. */
enum { ORDERS = 5, PLAIN = 4 };
static const struct cpu_format formats[2 * ORDERS] = {
    {"nChw8c", dnnl_aBcd8b, dnnl_aBcde8b, 8, false},
    {"nChw16c", dnnl_aBcd16b, dnnl_aBcde16b, 16, false},
    {"nChw4c", dnnl_aBcd4b, dnnl_aBcde4b, 4, false},
    {"nhwc", dnnl_acdb, dnnl_acdeb, 0, false},
    {"nchw", dnnl_abcd, dnnl_abcde, 1, false},
    {"nChw8c bf16", dnnl_aBcd8b, dnnl_aBcde8b, 8, true},
    {"nChw16c bf16", dnnl_aBcd16b, dnnl_aBcde16b, 16, true},
    {"nChw4c bf16", dnnl_aBcd4b, dnnl_aBcde4b, 4, true},
    {"nhwc bf16", dnnl_acdb, dnnl_acdeb, 0, true},
    {"nchw bf16", dnnl_abcd, dnnl_abcde, 1, true},
};

/* Asks for large pages where memory spans whole ones. Loops over many rows or planes at once, as in
 * products and Winograd's points, touch more small pages than a processor's TLB holds. */
static void ask_for_large_pages(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t large = (uintptr_t)2 << 20, at = (uintptr_t)memory;
    uintptr_t from = (at + large - 1) / large * large, to = (at + bytes) / large * large;

    if (from < to)
        madvise((void *)from, to - from, MADV_HUGEPAGE); /* if this fails, small pages serve */
#else
    (void)memory, (void)bytes;
#endif
}

/* Refuses a large allocation beyond the memory limits: the kernel would kill the job. */
static int check_limits(size_t bytes, const char *what)
{
    const size_t large = (size_t)4 << 20;
    uint64_t left = bytes < large ? UINT64_MAX : machine_limited_memory("", 1);

    return bytes <= left ? 0
                         : error_set("out of memory: %zu bytes for %s, and the limits of this "
                                     "process and its job leave %s",
                                     bytes, what, units_bytes((double)left).text);
}

int cpu_alloc(size_t bytes, const char *what, void **out)
{
    const size_t align = 64;
    size_t padded = (bytes + align - 1) / align * align;

    *out = NULL;
    if (check_limits(bytes, what))
        return -1;
    *out = padded < bytes ? NULL : aligned_alloc(align, padded ? padded : align);
    if (!*out)
        return error_memory(bytes, what);
    ask_for_large_pages(*out, padded);
    memset(*out, 0, padded);
    return 0;
}

void cpu_free(void *context, void *memory)
{
    (void)context;
    free(memory);
}

void *cpu_op_alloc(struct cpu_op *op, size_t bytes, const char *what)
{
    void *memory;

    return cpu_alloc(bytes, what, &memory) || owner_take(&op->owner, cpu_free, NULL, memory)
               ? NULL
               : memory;
}

int cpu_work_reserve(struct cpu_engine *engine, enum cpu_work_slot slot, size_t bytes)
{
    static const char *const what[WORK_SLOTS] = {"oneDNN's scratchpad",
                                                 "a top gradient in another format",
                                                 "a bottom gradient in another format",
                                                 "a weight gradient in another layout",
                                                 "weights, or a gradient to add",
                                                 "rounded or padded bottoms",
                                                 "rounded gradients of tops",
                                                 "rounded weights"};
    struct cpu_work *work = &engine->work[slot];
    void *data;

    assert(slot < WORK_SLOTS);
    if (work->bytes >= bytes)
        return 0;
    if (cpu_alloc(bytes, what[slot], &data))
        return -1;
    cpu_free(NULL, work->data);
    work->data = data;
    work->bytes = bytes;
    return 0;
}

const struct cpu_format *cpu_tensor_format(const struct tensor *tensor)
{
    return tensor->layout;
}

int cpu_md_dims(const struct shape *shape, dnnl_dims_t dims)
{
    int naxes = 0;

    for (int i = 0; i < shape->naxes; i++) {
        if (shape->naxes == 3 && i == 2)
            dims[naxes++] = 1;
        dims[naxes++] = shape->dim[i];
    }
    if (naxes == 0)
        dims[naxes++] = 1;
    return naxes;
}

static int md_create(const struct shape *shape, const struct cpu_format *format, md_t *out)
{
    const dnnl_data_type_t type = cpu_format_half(format) ? dnnl_bf16 : dnnl_f32;
    dnnl_dims_t dims = {0}, strides;
    int naxes = cpu_md_dims(shape, dims);

    if (format)
        return cpu_check(
            md_create_tag(out, naxes, dims, type, naxes == 5 ? format->tag_volume : format->tag));
    strides[naxes - 1] = 1;
    for (int i = naxes - 1; i > 0; i--)
        strides[i - 1] = strides[i] * dims[i];
    return cpu_check(md_create_strides(out, naxes, dims, type, strides));
}

const struct cpu_format *cpu_format_blocked(int block, bool half)
{
    int i = 0;

    while (formats[i].block != block)
        i++;
    return &formats[i + (half ? ORDERS : 0)];
}

const struct cpu_format *cpu_format_of_bottoms(const struct cpu_op *op)
{
    const struct cpu_format *format = NULL;

    for (int i = 0; i < op->args.nbottoms && !cpu_format_half(format); i++) {
        const struct cpu_format *bottom = cpu_tensor_format(&op->args.bottoms[i]->value);
        format = !format || cpu_format_half(bottom) ? bottom : format;
    }
    return format;
}

const struct cpu_format *cpu_format_floats(const struct cpu_format *format)
{
    const struct cpu_format *floats = cpu_format_half(format) ? format - ORDERS : format;

    return floats == &formats[PLAIN] ? NULL : floats;
}

const struct cpu_format *cpu_format_halves(const struct cpu_format *format)
{
    return format ? cpu_format_blocked(format->block, true) : &formats[ORDERS + PLAIN];
}

static bool md_has_format(const_md_t md, const struct shape *shape, const struct cpu_format *format)
{
    md_t candidate = NULL;
    bool equal;

    if (md_create(shape, format, &candidate))
        return false;
    equal = dnnl_memory_desc_equal(md, candidate);
    md_destroy(candidate);
    return equal;
}

bool cpu_format_find(const_md_t md, const struct shape *shape, const struct cpu_format **out)
{
    const int first = md_type(md) == dnnl_bf16 ? ORDERS : 0;
    const struct cpu_format *plain = first ? &formats[first + PLAIN] : NULL;

    *out = plain;
    if (md_has_format(md, shape, plain))
        return true;
    if (shape->naxes < 3 || shape->naxes > 2 + OP_SPATIAL)
        return false;
    for (int i = first; i < first + PLAIN; i++) {
        if (!md_has_format(md, shape, &formats[i]))
            continue;
        /* with one pixel or one channel the order of axes means nothing */
        if (formats[i].block || (shape->dim[1] > 1 && shape_count(shape, 2, shape->naxes) > 1))
            *out = &formats[i];
        return true;
    }
    return false;
}

size_t cpu_format_elems(const struct shape *shape, const struct cpu_format *format)
{
    size_t count = shape_elems(shape);

    if (format && format->block) {
        size_t channels = (size_t)shape->dim[1], block = (size_t)format->block;
        count = count / channels * ((channels + block - 1) / block * block);
    }
    return count;
}

size_t cpu_format_bytes(const struct shape *shape, const struct cpu_format *format)
{
    return cpu_format_elems(shape, format) * cpu_format_width(format);
}

struct cpu_planes cpu_planes_of(const struct shape *shape, const struct cpu_format *format)
{
    int64_t channels = shape_dim(shape, 1);
    int64_t block = !format ? 1 : format->block ? format->block : channels;
    int64_t groups = (channels + block - 1) / block;
    int last = shape->naxes - 1;

    return (struct cpu_planes){.planes = shape_dim(shape, 0) * groups,
                               .groups = groups,
                               .depth = (int64_t)shape_count(shape, 2, last - 1),
                               .height = last > 2 ? shape->dim[last - 1] : 1,
                               .width = last > 1 ? shape->dim[last] : 1,
                               .pixels = (int64_t)shape_count(shape, 2, shape->naxes),
                               .block = block};
}

static void tensor_set(struct tensor *tensor, const struct cpu_format *format)
{
    tensor->layout = (void *)(uintptr_t)format; /* a constant, in a field that serves all engines */
    tensor->bytes = cpu_format_bytes(&tensor->shape, format);
    tensor->padded = cpu_format_elems(&tensor->shape, format) > shape_elems(&tensor->shape);
    tensor->base = NULL;
}

void cpu_top_set(struct blob *top, const struct cpu_format *format)
{
    top->grad.shape = top->value.shape;
    tensor_set(&top->value, format);
    tensor_set(&top->grad, format);
}

void cpu_top_alias(struct blob *top, struct blob *bottom, bool grad)
{
    assert(shape_elems(&top->value.shape) == shape_elems(&bottom->value.shape));
    cpu_top_set(top, cpu_tensor_format(&bottom->value));
    top->value.base = &bottom->value;
    if (grad)
        top->grad.base = &bottom->grad;
}

static void primitive_release(void *context, void *thing)
{
    struct cpu_primitive *primitive = thing;

    (void)context;
    for (int i = 0; i < primitive->nargs; i++)
        dnnl_memory_destroy(primitive->arg[i].memory);
    dnnl_primitive_destroy(primitive->primitive);
    *primitive = (struct cpu_primitive){0};
}

int cpu_primitive_create(struct cpu_engine *engine, struct owner *owner,
                         const_dnnl_primitive_desc_t desc, struct cpu_primitive *out)
{
    const_md_t scratchpad = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;

    *out = (struct cpu_primitive){0};
    if (cpu_check(dnnl_primitive_create(&out->primitive, desc)) ||
        owner_take(owner, primitive_release, NULL, out))
        return -1;
    if (bytes == 0)
        return 0;
    if (cpu_work_reserve(engine, WORK_SCRATCHPAD, bytes) ||
        cpu_primitive_arg(engine, out, DNNL_ARG_SCRATCHPAD, scratchpad))
        return -1;
    out->scratchpad = true;
    return 0;
}

int cpu_primitive_arg(struct cpu_engine *engine, struct cpu_primitive *primitive, int arg,
                      const_md_t md)
{
    dnnl_memory_t memory;

    if (primitive->nargs == CPU_ARGS)
        return error_set("a oneDNN primitive has more than %d arguments", CPU_ARGS);
    if (cpu_check(dnnl_memory_create(&memory, md, engine->engine, DNNL_MEMORY_NONE)))
        return -1;
    primitive->arg[primitive->nargs] = (dnnl_exec_arg_t){arg, memory};
    primitive->at[primitive->nargs] = NULL;
    primitive->nargs++;
    return 0;
}

int cpu_primitive_place(struct cpu_engine *engine, struct cpu_primitive *primitive, int which)
{
    const_md_t md = NULL;
    size_t floats;

    if (!primitive->scratchpad)
        return 0;
    if (cpu_check(dnnl_memory_get_memory_desc(primitive->arg[0].memory, &md)))
        return -1;
    floats = (dnnl_memory_desc_get_size(md) + 63) / 64 * 16;
    primitive->place = (size_t)which * floats;
    return cpu_work_reserve(engine, WORK_SCRATCHPAD, (size_t)(which + 1) * floats * sizeof(float));
}

int cpu_primitive_run(struct cpu_engine *engine, struct cpu_primitive *primitive,
                      const void *const data[])
{
    assert(primitive->primitive && primitive->nargs > 0);
    for (int i = 0; i < primitive->nargs; i++) {
        /* cpu_primitive_create adds the scratchpad as argument 0 */
        const void *at = !primitive->scratchpad ? data[i]
                         : i == 0 ? engine->work[WORK_SCRATCHPAD].data + primitive->place
                                  : data[i - 1];
        if (at == primitive->at[i])
            continue;
        void *handle = (void *)(uintptr_t)at;
        if (cpu_check(dnnl_memory_set_data_handle(primitive->arg[i].memory, handle)))
            return -1;
        primitive->at[i] = handle;
    }
    if (cpu_check(dnnl_primitive_execute(primitive->primitive, engine->stream, primitive->nargs,
                                         primitive->arg)))
        return -1;
    return cpu_check(dnnl_stream_wait(engine->stream));
}

int cpu_reorder_create(struct cpu_engine *engine, struct owner *owner, const_md_t from,
                       const_md_t to, struct cpu_primitive *out)
{
    dnnl_primitive_desc_t desc = NULL;
    int status = -1;

    if (cpu_check(dnnl_reorder_primitive_desc_create(&desc, from, engine->engine, to,
                                                     engine->engine, engine->attr)))
        goto done;
    if (cpu_primitive_create(engine, owner, desc, out) ||
        cpu_primitive_arg(engine, out, DNNL_ARG_FROM, from) ||
        cpu_primitive_arg(engine, out, DNNL_ARG_TO, to))
        goto done;
    status = 0;
done:
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    return status;
}

int cpu_reorder_run(struct cpu_engine *engine, struct cpu_primitive *reorder, const float *from,
                    float *to)
{
    if (reorder->elems > 0) {
        cpu_convert(from, to, reorder->elems, reorder->half);
        return 0;
    }
    return cpu_primitive_run(engine, reorder, (const void *const[]){from, to});
}

int cpu_format_reorder_create(struct cpu_engine *engine, struct owner *owner,
                              const struct shape *shape, const struct cpu_format *from,
                              const struct cpu_format *to, struct cpu_primitive *out)
{
    md_t from_md = NULL, to_md = NULL;
    int status = -1;

    if (cpu_format_floats(from) == cpu_format_floats(to)) {
        *out = (struct cpu_primitive){.elems = cpu_format_elems(shape, from),
                                      .half = cpu_format_half(to)};
        return 0;
    }
    if (md_create(shape, from, &from_md) == 0 && md_create(shape, to, &to_md) == 0)
        status = cpu_reorder_create(engine, owner, from_md, to_md, out);
    md_destroy(from_md);
    md_destroy(to_md);
    return status;
}

int cpu_view_create(struct cpu_op *op, struct tensor *tensor, const struct cpu_format *format,
                    bool written, enum cpu_work_slot slot, struct cpu_view *out)
{
    const struct cpu_format *tensor_format = cpu_tensor_format(tensor);
    size_t bytes = cpu_format_bytes(&tensor->shape, format);

    *out = (struct cpu_view){.tensor = tensor, .written = written, .slot = slot};
    if (tensor_format == format)
        return 0;
    if (cpu_format_reorder_create(op->engine, &op->owner, &tensor->shape,
                                  written ? format : tensor_format,
                                  written ? tensor_format : format, &out->reorder))
        return -1;
    if (slot != WORK_OWN)
        return cpu_work_reserve(op->engine, slot, bytes);
    out->memory = cpu_op_alloc(op, bytes, "an input in another format");
    return out->memory ? 0 : -1;
}

float *cpu_view_data(const struct cpu_engine *engine, const struct cpu_view *view)
{
    if (!cpu_view_differs(view))
        return view->tensor->data;
    return view->slot == WORK_OWN ? view->memory : engine->work[view->slot].data;
}

int cpu_view_move(struct cpu_engine *engine, struct cpu_view *view)
{
    float *data;

    if (!cpu_view_differs(view))
        return 0;
    data = cpu_view_data(engine, view);
    return cpu_reorder_run(engine, &view->reorder, view->written ? data : view->tensor->data,
                           view->written ? view->tensor->data : data);
}

int cpu_op_take(struct cpu_op *op, int i, const struct cpu_format *format, enum cpu_work_slot slot)
{
    struct blob *bottom = op->args.bottoms[i];

    if (cpu_view_create(op, &bottom->value, format, false, slot, &op->in[i]))
        return -1;
    if (!cpu_op_propagates(op, i))
        return 0;
    return cpu_view_create(op, &bottom->grad, format, true, WORK_BOTTOM_GRAD, &op->out[i]);
}

void cpu_clear_padding(float *data, const struct shape *shape, const struct cpu_format *format)
{
    struct cpu_planes p;
    int64_t used;

    if (!format || !format->block || shape->dim[1] % format->block == 0)
        return;
    p = cpu_planes_of(shape, format);
    used = shape->dim[1] % format->block;
    for (int64_t plane = p.groups - 1; plane < p.planes; plane += p.groups)
        for (int64_t i = 0; i < p.pixels; i++)
            memset(element_room(data, (plane * p.pixels + i) * p.block + used, format->half), 0,
                   (size_t)(p.block - used) * cpu_format_width(format));
}

CPU_KERNEL void cpu_axpby_piece(float *restrict y, float a, const float *restrict x, float b,
                                size_t n)
{
    if (b == 0) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] = a * x[i];
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] = a * x[i] + b * y[i];
    }
}

void cpu_copy(float *y, const float *x, size_t n)
{
#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        memcpy(y + i, x + i, cpu_piece(n, i) * sizeof(float));
}

void cpu_zero(float *y, size_t n)
{
#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        memset(y + i, 0, cpu_piece(n, i) * sizeof(float));
}

void cpu_zero_tensor(const struct tensor *tensor, float *to)
{
    const size_t floats = tensor->bytes / sizeof(float), rest = tensor->bytes % sizeof(float);

    cpu_zero(to, floats);
    memset(to + floats, 0, rest);
}

void cpu_axpby(float *y, float a, const float *x, float b, size_t n)
{
#pragma omp parallel for if (n > CPU_PIECE)
    for (size_t i = 0; i < n; i += CPU_PIECE)
        cpu_axpby_piece(y + i, a, x + i, b, cpu_piece(n, i));
}
