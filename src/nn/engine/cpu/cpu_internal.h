/* Declarations shared by the files of the CPU engine.
 *
 * Activations are in plain row-major memory or, with one to three spatial axes, in a format that
 * oneDNN's convolutions choose (struct cpu_format). In every format a tensor is planes of D x H x W
 * x block contiguous elements (struct cpu_planes), so that pooling, LRN and others need one loop
 * for all formats. Elements are floats or, with --math=bf16, bfloat16 (element.h). oneDNN sees one
 * spatial axis as an image of one row. oneDNN computes convolutions, reorders and matrix products;
 * operators bound by memory are our own code. */
#ifndef POSEIDON_ENGINE_CPU_CPU_INTERNAL_H
#define POSEIDON_ENGINE_CPU_CPU_INTERNAL_H

#include "engine/cpu/dnnl_compat.h"
#include "engine/engine.h"
#include "engine/op_check.h"
#include "engine/op_size.h"

#include "util/owner.h"

/* Compiles a function for several instruction sets, of which the loader chooses one. The function's
 * loops must carry `omp simd`; parallel regions belong into its callers, since their bodies are not
 * cloned. Sanitizers have no variants: they are not ready when the loader chooses. Variants have
 * level names: an `arch=` of one maker's processors is never chosen on another maker's. */
#if defined(CPU_KERNEL) /* a benchmark defines CPU_KERNEL to compile for one instruction set */
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if __GNUC__ >= 12
#define CPU_KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_KERNEL __attribute__((target_clones("avx2", "default")))
#endif
#else
#define CPU_KERNEL
#endif

#define INLINE static inline __attribute__((always_inline))

/* Returns 0, or -1 after recording the text of the oneDNN call that failed. */
#define cpu_check(call) cpu_status((call), #call)

/* Kinds of memory lent to an op while it runs. Ops run one after another and share this memory. */
enum cpu_work_slot {
    WORK_SCRATCHPAD,  /* oneDNN's temporary memory */
    WORK_TOP_GRAD,    /* top gradient, or bottom, in the format a primitive wants */
    WORK_BOTTOM_GRAD, /* bottom gradient, or top, in the format a primitive gives */
    WORK_WEIGHT_GRAD, /* weight gradient in the layout a primitive gives */
    WORK_PARAM,       /* plain gradient before it is added, or weights in a primitive's layout */
    WORK_ROUNDED_X,   /* a product's first operand, rounded, or a bottom with its padding */
    WORK_ROUNDED_DY,  /* a product's second operand, rounded */
    WORK_ROUNDED_W,   /* rounded weights (--math=bf16) */
    WORK_SLOTS,
    WORK_OWN = WORK_SLOTS /* memory of the op itself, kept from forward to backward */
};

struct cpu_work {
    float *data;
    size_t bytes;
};

struct cpu_engine {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* attribute: the engine, not oneDNN, provides scratchpads */
    int threads;
    struct engine_options options;    /* the caller's, with passes at least 1 */
    size_t kept;                      /* bytes of reordered weights that ops keep */
    struct cpu_work work[WORK_SLOTS]; /* memory by slot; grows only while ops are created */
};

/* Memory format of activations with spatial axes; NULL is plain floats. Formats are static
 * constants. */
struct cpu_format {
    const char *name;
    dnnl_format_tag_t tag, tag_volume; /* oneDNN's tags for two and for three spatial axes */
    int block;                         /* channels stored together; 0: all of a tensor's */
    bool half;                         /* elements are bfloat16; the tensor's data points at them */
};

/* A tensor as `planes` planes of depth x height x width x block contiguous elements. pixels is
 * depth x height x width, and groups is planes / N. */
struct cpu_planes {
    int64_t planes, groups, depth, height, width, pixels, block;
};

/* A oneDNN primitive with its memory objects; a scratchpad is argument 0. The owner given at
 * creation frees the contents through a pointer to this struct, so the struct must not move. */
#define CPU_ARGS 6
struct cpu_primitive {
    dnnl_primitive_t primitive;
    int nargs;
    dnnl_exec_arg_t arg[CPU_ARGS];
    void *at[CPU_ARGS]; /* data pointer that each memory object has now */
    /* A reorder that keeps the order has no primitive: elements for cpu_convert, to bfloat16 if
     * `half`. elems: else 0. */
    size_t elems;
    bool half;
    bool scratchpad;
    size_t place; /* offset of the primitive's temporary memory in the scratchpad, in floats */
};

/* A tensor that an op reads or writes in a format of the op's choice. */
struct cpu_view {
    struct tensor *tensor;
    struct cpu_primitive reorder; /* empty where the tensor has the chosen format */
    bool written;
    enum cpu_work_slot slot;
    float *memory; /* copy of slot WORK_OWN, owned by the op */
};

/* Returns true if the tensor has another format than the chosen one. */
static inline bool cpu_view_differs(const struct cpu_view *view)
{
    return view->reorder.primitive || view->reorder.elems > 0;
}

struct cpu_kind;

/* First member of every op of this engine. */
struct cpu_op {
    struct op op;
    const struct cpu_kind *kind;
    struct cpu_engine *engine;
    struct op_args args;
    const struct pass *pass; /* pass that is running */
    struct owner owner;      /* owner of the op's memory, views and primitives */
    /* Views of the bottoms' values; tensor NULL: not taken, the op reads the bottom itself. */
    struct cpu_view *in;
    struct cpu_view *out; /* views of the bottoms' gradients; tensor NULL: none */
};

/* Formats in which an operator takes its bottoms and makes its tops. With this choice most
 * operators need no create. */
enum cpu_blobs {
    CPU_OWN,           /* create chooses the formats */
    CPU_AS_BOTTOM,     /* tops take the first bottom's format; a top in place keeps its format */
    CPU_OVER_GRADIENT, /* CPU_AS_BOTTOM, with the top's gradient in the memory of the bottom's */
    CPU_PLAIN,         /* tops and the first `plain` bottoms are plain */
    CPU_PLAIN_AGAIN,   /* CPU_PLAIN, and backward reads the bottoms again */
};

/* Functions of one operator. float pointers to activations point at elements of the activations'
 * format. create gets a struct that is zero but for struct cpu_op; forward and
 * backward find op->pass set. destroy must cope with the remains of a failed create. */
struct cpu_kind {
    size_t size; /* bytes of the op's struct; 0: struct cpu_op */
    enum cpu_blobs blobs;
    int plain;   /* bottoms taken by CPU_PLAIN and CPU_PLAIN_AGAIN; 0: one */
    bool loads;  /* forward reorders its bottoms itself; else the engine does, before forward */
    bool halves; /* takes bfloat16 bottoms as they are; else blobs' formats are made of floats */
    int (*create)(struct cpu_op *op); /* NULL: nothing more to set up */
    /* Runs either pass of an operator that is one function: y of x or, where back, dx of dy.
     * forward and gradient are then NULL; there is one top, and only bottom 0 gets a gradient. */
    int (*run)(struct cpu_op *op, bool back, const float *from, float *to);
    int (*forward)(struct cpu_op *op); /* NULL: tops alias the bottom, or there are no tops */
    /* Computes the gradients of parameters, and of bottoms that `gradient` does not write. NULL:
     * none. */
    int (*backward)(struct cpu_op *op);
    /* Writes dx, the gradient of one bottom that propagates, in the format in which the bottom was
     * taken. Runs after backward. NULL: run or backward writes the gradients, or there are none. */
    int (*gradient)(struct cpu_op *op, int bottom, float *dx);
    void (*destroy)(struct cpu_op *op); /* NULL: nothing to free */
    /* Writes the text of engine_i.describe; NULL: no text. */
    void (*describe)(const struct cpu_op *op, char words[ENGINE_OP_WORDS]);
};

#define OPERATOR_KIND(ENUM, name, words, args) extern const struct cpu_kind cpu_##name;
OPERATORS(OPERATOR_KIND)
#undef OPERATOR_KIND

/* Returns true if backward writes the gradient of bottom i. */
static inline bool cpu_op_propagates(const struct cpu_op *op, int i)
{
    return op_args_propagates(&op->args, i);
}

static inline bool cpu_op_in_place(const struct cpu_op *op)
{
    return op_args_in_place(&op->args);
}

/* Returns true if oneDNN uses AVX-512 here: the processor has it and the environment allows it. */
static inline bool cpu_is_wide(void)
{
    const int wide = (int)dnnl_cpu_isa_avx512_core;

    return ((int)dnnl_get_effective_cpu_isa() & wide) == wide;
}

/* Returns 0, or -1 after recording the message of the failed call (cpu_error.c). */
int cpu_status(dnnl_status_t status, const char *call);

/* Implements engine_i.processor (processor.c). */
void cpu_processor(char words[ENGINE_PROCESSOR_WORDS]);

/* Makes oneDNN create primitives for one thread, or again for the engine's threads (cpu.c). */
void cpu_threads(const struct cpu_engine *engine, bool single);
/* Computes device_i.gemm within an op (cpu.c). */
int cpu_gemm(const struct cpu_engine *engine, bool trans_a, bool trans_b, int64_t m, int64_t n,
             int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
             float beta, float *c, int64_t ldc);
/* Computes engine_i.multiply with bfloat16 operands (product.c). */
int cpu_multiply_bf16(struct cpu_engine *engine, int size, const float *a, const float *b,
                      float *c);
/* Implement engine_i.sum_products, and return its bytes of scratchpad for all passes' rows. */
int cpu_sum_products(void *context, const struct engine_products *products);
size_t cpu_sum_products_bytes(const struct cpu_engine *engine, int64_t rows);
void cpu_inner_product_factors(struct op *op, const float **bottom, const float **top_grad);

/* rounded.c: operands of --math=bf16, each in its own slot. */
/* Returns true if oneDNN has products of bfloat16 here. */
bool cpu_has_bf16(void);
/* Returns true if AMX computes oneDNN's products of bfloat16. */
bool cpu_has_amx(void);
/* Returns true if products take bfloat16 operands. */
static inline bool cpu_rounds(const struct cpu_engine *engine)
{
    return engine->options.math == MATH_BF16 && !engine->options.float_products;
}
/* Reserves room for x, dy and w operands of bfloat16 in their slots. Set-up only. */
int cpu_round_reserve(struct cpu_engine *engine, size_t x, size_t dy, size_t w);
/* Converts n elements from floats to bfloat16 if `half`, else from bfloat16 to floats. */
void cpu_convert(const void *from, void *to, size_t n, bool half);
/* Returns n floats rounded to bfloat16, valid until the slot's next use. */
const void *cpu_round(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x, size_t n);

/* stream.c: products of at most CPU_STREAM_ROWS rows, as fast as memory delivers the weights
 * (outputs x inputs). */
enum { CPU_STREAM_ROWS = 16, CPU_STREAM_OUTPUTS = 8 };
/* Least rows for which streaming forward was measured to be faster: 13 to 16 rows cost the same. */
enum { CPU_STREAM_FORWARD_ROWS = 13 };
/* Returns true if stream.c can compute the product, on registers wide enough for a gain. */
bool cpu_stream_fits(const struct op_product *p);
/* Computes y = x w' + bias; bias may be NULL. */
void cpu_stream_forward(const struct op_product *p, const float *x, const float *w,
                        const float *bias, float *y);
/* Computes dx = dy w. */
void cpu_stream_data(const struct op_product *p, int threads, const float *dy, const float *w,
                     float *dx);

/* Computes a ReLU over n floats on the calling thread alone (neuron.c). x and y may be the same. */
void cpu_relu_piece(const float *x, float slope, float *y, size_t n);
/* Compute a ReLU or its gradient, n elements from number `at` of the arrays on, on the calling
 * thread alone. x of the gradient is the ReLU's input or, with slope >= 0, its output. All arrays
 * may be the same. */
void cpu_relu_span(bool half, const void *x, float slope, void *y, size_t at, size_t n);
void cpu_relu_back_span(bool half, const void *x, const void *dy, float slope, void *dx, size_t at,
                        size_t n);
/* Compute n elements on all threads. */
void cpu_relu_run(bool half, const void *x, float slope, void *y, size_t n);
void cpu_relu_back_run(bool half, const void *x, const void *dy, float slope, void *dx, size_t n);

/* Memory, formats and reorders (cpu_memory.c). */
int cpu_alloc(size_t bytes, const char *what, void **out); /* zeroed, 64-byte aligned */
void cpu_free(void *context, void *memory);                /* device_i.free; ignores context */
/* Allocates like cpu_alloc; the op frees the memory. Returns NULL after recording the message. */
void *cpu_op_alloc(struct cpu_op *op, size_t bytes, const char *what);
/* Grows a slot to at least that many bytes. Set-up only. */
int cpu_work_reserve(struct cpu_engine *engine, enum cpu_work_slot slot, size_t bytes);

const struct cpu_format *cpu_tensor_format(const struct tensor *tensor);
/* Returns the format of floats or, where half, of bfloat16 with blocks of 4, 8 or 16 channels. */
const struct cpu_format *cpu_format_blocked(int block, bool half);
/* Returns a format that the op's bottoms may share: the first one of bfloat16, else the first one
 * that is not plain, else plain. */
const struct cpu_format *cpu_format_of_bottoms(const struct cpu_op *op);
/* Return the format of floats, and of bfloat16, in the same order. */
const struct cpu_format *cpu_format_floats(const struct cpu_format *format);
const struct cpu_format *cpu_format_halves(const struct cpu_format *format);
static inline bool cpu_format_half(const struct cpu_format *format)
{
    return format && format->half;
}
/* Returns the bytes of an element. */
static inline size_t cpu_format_width(const struct cpu_format *format)
{
    return cpu_format_half(format) ? sizeof(uint16_t) : sizeof(float);
}
/* Finds the format that a memory descriptor describes; false if the engine has no such format. */
bool cpu_format_find(const_md_t md, const struct shape *shape, const struct cpu_format **out);
/* Writes the shape's sizes as oneDNN takes them: one spatial axis becomes the width of one row.
 * Returns the number of sizes. */
int cpu_md_dims(const struct shape *shape, dnnl_dims_t dims);
/* Return the elements and the bytes of a shape in a format, padding included. */
size_t cpu_format_elems(const struct shape *shape, const struct cpu_format *format);
size_t cpu_format_bytes(const struct shape *shape, const struct cpu_format *format);
/* Returns a shape's planes. With over three spatial axes (plain), all but two count as depth. */
struct cpu_planes cpu_planes_of(const struct shape *shape, const struct cpu_format *format);

/* Sets a top's format; its value and gradient get memory of their own. */
void cpu_top_set(struct blob *top, const struct cpu_format *format);
/* Makes the top share its bottom's memory: the value always, the gradient if `grad`. */
void cpu_top_alias(struct blob *top, struct blob *bottom, bool grad);

int cpu_primitive_create(struct cpu_engine *engine, struct owner *owner,
                         const_dnnl_primitive_desc_t desc, struct cpu_primitive *out);
/* Adds an argument; cpu_primitive_run takes data pointers in the order of these calls. */
int cpu_primitive_arg(struct cpu_engine *engine, struct cpu_primitive *primitive, int arg,
                      const_md_t md);
/* Gives primitive number `which`, of several that run side by side, its own temporary memory. */
int cpu_primitive_place(struct cpu_engine *engine, struct cpu_primitive *primitive, int which);
int cpu_primitive_run(struct cpu_engine *engine, struct cpu_primitive *primitive,
                      const void *const data[]);
int cpu_reorder_create(struct cpu_engine *engine, struct owner *owner, const_md_t from,
                       const_md_t to, struct cpu_primitive *out);
int cpu_reorder_run(struct cpu_engine *engine, struct cpu_primitive *reorder, const float *from,
                    float *to);

/* Creates the reorder between two formats of one shape, for cpu_reorder_run. */
int cpu_format_reorder_create(struct cpu_engine *engine, struct owner *owner,
                              const struct shape *shape, const struct cpu_format *from,
                              const struct cpu_format *to, struct cpu_primitive *out);

int cpu_view_create(struct cpu_op *op, struct tensor *tensor, const struct cpu_format *format,
                    bool written, enum cpu_work_slot slot, struct cpu_view *out);
/* Returns the view's memory. cpu_view_move must run before the op reads this memory, and after the
 * op writes it. */
float *cpu_view_data(const struct cpu_engine *engine, const struct cpu_view *view);
int cpu_view_move(struct cpu_engine *engine, struct cpu_view *view);

/* Makes the op read bottom i, and write its gradient, in `format`. `slot` gets the reordered
 * bottom. Bottoms that share a slot must be reordered one by one, each right before the op reads
 * it. */
int cpu_op_take(struct cpu_op *op, int i, const struct cpu_format *format, enum cpu_work_slot slot);

/* Sets to 0 the channels that only fill up the last block. */
void cpu_clear_padding(float *data, const struct shape *shape, const struct cpu_format *format);
/* Compute y = x and y = a x + b y over n floats, in parallel. With b 0, y is not read. */
void cpu_copy(float *y, const float *x, size_t n);
void cpu_axpby(float *y, float a, const float *x, float b, size_t n);
/* Computes cpu_axpby on the calling thread alone, for one thread's piece. */
void cpu_axpby_piece(float *restrict y, float a, const float *restrict x, float b, size_t n);
void cpu_zero(float *y, size_t n);
/* Sets a tensor's memory, of which `to` is the begin, to 0. */
void cpu_zero_tensor(const struct tensor *tensor, float *to);

/* Return values and gradient of bottom i, in the format in which the op took it, and of top 0. */
static inline const float *cpu_op_x(const struct cpu_op *op, int i)
{
    return op->in[i].tensor ? cpu_view_data(op->engine, &op->in[i])
                            : op->args.bottoms[i]->value.data;
}

static inline float *cpu_op_dx(const struct cpu_op *op, int i)
{
    return op->out[i].tensor ? cpu_view_data(op->engine, &op->out[i])
                             : op->args.bottoms[i]->grad.data;
}

static inline float *cpu_op_y(const struct cpu_op *op)
{
    return op->args.tops[0]->value.data;
}

static inline const float *cpu_op_dy(const struct cpu_op *op)
{
    return op->args.tops[0]->grad.data;
}

static inline int64_t cpu_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t cpu_greatest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the length of the piece at `at`: loops over n floats go by pieces that stay in the
 * first-level cache. */
enum { CPU_PIECE = 2048 };
static inline size_t cpu_piece(size_t n, size_t at)
{
    return n - at < CPU_PIECE ? n - at : CPU_PIECE;
}

/* Returns the number of elements that a tensor holds, padding included. */
static inline size_t cpu_tensor_stored(const struct tensor *tensor)
{
    return tensor->bytes / cpu_format_width(tensor->layout);
}

static inline bool cpu_tensor_half(const struct tensor *tensor)
{
    return cpu_format_half(tensor->layout);
}

#endif
