/* What the files of the CPU engine share.
 *
 * Activations come in one of a few formats (struct cpu_format): plain row-major, or, with one to
 * three spatial axes, the ones that oneDNN's convolutions choose. All of the latter, and plain too,
 * are planes of D x H x W x block contiguous floats (struct cpu_planes), so that pooling, LRN, ...
 * need one loop for all. To oneDNN one spatial axis is an image of one row.
 * oneDNN itself does convolutions, reorders and matrix products; what is bound by memory is ours.
 */
#ifndef POSEIDON_ENGINE_CPU_CPU_INTERNAL_H
#define POSEIDON_ENGINE_CPU_CPU_INTERNAL_H

#include "engine/cpu/dnnl_compat.h"
#include "engine/engine.h"
#include "engine/op_check.h"
#include "engine/op_size.h"

#include "util/owner.h"

/* A function compiled for several instruction sets and chosen at load time. Its loops must carry
 * `omp simd`; parallel regions belong into its callers, since their bodies are not cloned.
 * Sanitizers are not ready yet when the choice is made. The sets are named by level: an `arch=` of
 * one maker's processors is never chosen on another's. */
#if defined(CPU_KERNEL) /* a benchmark compiles for one instruction set */
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

/* Records the text of a oneDNN call that failed; 0 or -1. */
#define cpu_check(call) cpu_status((call), #call)

/* Memory lent to one op while it runs, shared by all ops of the engine: they run one after another.
 */
enum cpu_work_slot {
    WORK_SCRATCHPAD,  /* oneDNN's temporary memory */
    WORK_TOP_GRAD,    /* top gradient in the format a primitive wants */
    WORK_BOTTOM_GRAD, /* bottom gradient in the format a primitive gives */
    WORK_WEIGHT_GRAD, /* weight gradient in the layout a primitive gives */
    WORK_PARAM, /* plain gradient on its way to being added; weights as a primitive wants them */
    WORK_ROUNDED_X,  /* with --math=bf16: bottoms, or a product's first operand */
    WORK_ROUNDED_DY, /* top gradients, or a product's second operand */
    WORK_ROUNDED_W,  /* weights, where they stay floats */
    WORK_SLOTS,
    WORK_OWN = WORK_SLOTS /* not shared: kept from forward to backward */
};

struct cpu_work {
    float *data;
    size_t bytes;
};

struct cpu_engine {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* scratchpad given by us */
    int threads;
    struct engine_options options;    /* as they were given */
    size_t kept;                      /* bytes of weights that ops keep in layouts of their own */
    struct cpu_work work[WORK_SLOTS]; /* grows while ops are created, fixed while they run */
};

/* A format of activations with spatial axes; plain is NULL. Static constants: nothing to free. */
struct cpu_format {
    const char *name;
    dnnl_format_tag_t tag, tag_volume; /* of two spatial axes; of three */
    int block;                         /* channels stored together; 0: all of them */
};

/* A tensor as `planes` times depth x height x width x block contiguous floats, `pixels` times
 * block; groups = planes / N. */
struct cpu_planes {
    int64_t planes, groups, depth, height, width, pixels, block;
};

/* A primitive with its memory objects; the scratchpad is the first argument. Freed by the owner
 * that its creation was given, and not moved before. */
#define CPU_ARGS 6
struct cpu_primitive {
    dnnl_primitive_t primitive;
    int nargs;
    dnnl_exec_arg_t arg[CPU_ARGS];
    void *at[CPU_ARGS]; /* the pointer a memory object has now */
    bool scratchpad;
    size_t place; /* of its temporary memory in the scratchpad, in floats */
};

/* A tensor that is read, or written, in another format than it may have. */
struct cpu_view {
    struct tensor *tensor;
    struct cpu_primitive reorder; /* empty where the formats agree */
    bool written;
    enum cpu_work_slot slot;
    float *own;   /* the op's */
    size_t elems; /* in that format, padding included */
};

struct cpu_kind;

/* First member of every op of this engine. */
struct cpu_op {
    struct op op;
    const struct cpu_kind *kind;
    struct cpu_engine *engine;
    struct op_args args;
    const struct pass *pass; /* the one under way */
    struct owner owner;      /* of all its memory, views and primitives */
    /* Per bottom that cpu_op_take was called for; the others are used as they are. */
    struct cpu_view *in;
    struct cpu_view *out; /* tensor NULL where it does not propagate */
};

/* Where an operator wants its bottoms, and what it makes of its tops; by this alone most of them
 * need no create. */
enum cpu_blobs {
    CPU_OWN,           /* create sees to that */
    CPU_AS_BOTTOM,     /* tops come in the first bottom's format, unless they are that bottom */
    CPU_OVER_GRADIENT, /* the same, and the top's gradient lies in the bottom's memory */
    CPU_PLAIN,         /* the first bottom, or more of them, are taken to plain memory, and tops */
    CPU_PLAIN_AGAIN,   /* the same, and backward reads the bottoms, too */
};

/* One operator. Each of its functions finds op->pass, and what was filled before; create a zeroed
 * struct otherwise. destroy must cope with what a failed create left. */
struct cpu_kind {
    size_t size; /* of the op's struct; 0: it is a struct cpu_op */
    enum cpu_blobs blobs;
    int plain;  /* with CPU_PLAIN and CPU_PLAIN_AGAIN: how many bottoms; 0: one */
    bool loads; /* forward loads the bottoms that were taken itself; else they are before it */
    int (*create)(struct cpu_op *op); /* NULL: nothing else is to be made */
    /* Both passes of an operator that is one function of what comes in, y of x, or, where back, dx
     * of dy; the next two are then NULL. One top, and bottom 0 alone propagates. */
    int (*run)(struct cpu_op *op, bool back, const float *from, float *to);
    int (*forward)(struct cpu_op *op); /* NULL: tops are the bottom, or there are none */
    /* Whatever is to be done behind this layer's tops: parameters' gradients, and those of bottoms
     * that `gradient` does not write. NULL: none. */
    int (*backward)(struct cpu_op *op);
    /* Then, of each bottom that propagates: writes its gradient, dx, in the format that it was
     * taken in. NULL: run or backward does, or there is none. */
    int (*gradient)(struct cpu_op *op, int bottom, float *dx);
    void (*destroy)(struct cpu_op *op); /* NULL: nothing to free */
    /* engine_i.describe; NULL: nothing to say */
    void (*describe)(const struct cpu_op *op, char words[ENGINE_OP_WORDS]);
};

#define OPERATOR_KIND(ENUM, name, words, args) extern const struct cpu_kind cpu_##name;
OPERATORS(OPERATOR_KIND)
#undef OPERATOR_KIND

/* Whether backward is to write the gradient of bottom i. */
static inline bool cpu_op_propagates(const struct cpu_op *op, int i)
{
    return op_args_propagates(&op->args, i);
}

static inline bool cpu_op_in_place(const struct cpu_op *op)
{
    return op_args_in_place(&op->args);
}

/* Whether oneDNN uses AVX-512 here, which the environment may forbid it. */
static inline bool cpu_is_wide(void)
{
    const int wide = (int)dnnl_cpu_isa_avx512_core;

    return ((int)dnnl_get_effective_cpu_isa() & wide) == wide;
}

/* cpu_error.c: 0, or -1 with a message of the call that failed. */
int cpu_status(dnnl_status_t status, const char *call);

/* processor.c: engine_i.processor */
void cpu_processor(char words[ENGINE_PROCESSOR_WORDS]);

/* cpu.c */
/* What oneDNN makes next is for one thread, or again for the engine's. */
void cpu_threads(const struct cpu_engine *engine, bool one);
/* engine_i.gemm for an op. */
int cpu_gemm(const struct cpu_engine *engine, bool trans_a, bool trans_b, int64_t m, int64_t n,
             int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
             float beta, float *c, int64_t ldc);
/* product.c: engine_i.multiply for bfloat16. */
int cpu_multiply_bf16(struct cpu_engine *engine, int size, const float *a, const float *b,
                      float *c);
/* product_sum.c: engine_i.sum_products; the scratchpad's bytes for `rows` rows of all passes. */
int cpu_sum_products(void *context, const struct engine_products *products);
size_t cpu_sum_products_bytes(const struct cpu_engine *engine, int64_t rows);
void cpu_inner_product_factors(struct op *op, const float **bottom, const float **top_grad);

/* rounded.c: operands of --math=bf16, each in a slot of its own. */
/* Whether oneDNN has products of bfloat16 here. */
bool cpu_has_bf16(void);
/* Whether they are AMX's. */
bool cpu_has_amx(void);
/* Whether products take bfloat16. */
static inline bool cpu_rounds(const struct cpu_engine *engine)
{
    return engine->options.math == MATH_BF16 && !engine->options.float_products;
}
/* Room for that number of operands in each slot, in bfloat16 where `halves`, else as floats;
 * nothing without --math=bf16. Set-up only. */
int cpu_round_reserve(struct cpu_engine *engine, bool halves, size_t x, size_t dy, size_t w);
/* n floats in bfloat16. Valid until the slot's next use. */
const void *cpu_round(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x, size_t n);
/* The same, as floats; x itself without --math=bf16. */
const float *cpu_round_floats(struct cpu_engine *engine, enum cpu_work_slot slot, const float *x,
                              size_t n);

/* stream.c: products of at most CPU_STREAM_ROWS rows, whose time is that of reading the weights,
 * outputs x inputs. */
enum { CPU_STREAM_ROWS = 16, CPU_STREAM_OUTPUTS = 8 };
/* The least rows of which forward was measured to pay: 13 to 16 rows are the same work. */
enum { CPU_STREAM_FORWARD_ROWS = 13 };
/* Whether it can, and this processor's registers are wide enough for it to pay. */
bool cpu_stream_fits(const struct op_product *p);
/* y = x w' + bias; bias may be NULL. rounds: w is rounded to bfloat16 first. */
void cpu_stream_forward(const struct op_product *p, const float *x, const float *w,
                        const float *bias, bool rounds, float *y);
/* dx = dy w */
void cpu_stream_data(const struct op_product *p, int threads, const float *dy, const float *w,
                     bool rounds, float *dx);

/* neuron.c: a ReLU and its gradient over n floats, by the calling thread alone. x of the second:
 * what went in or, with slope >= 0, what came out. The arrays of each may be the same. */
void cpu_relu_piece(const float *x, float slope, float *y, size_t n);
void cpu_relu_back_piece(const float *x, const float *dy, float slope, float *dx, size_t n);
/* The same, in parallel. */
void cpu_relu_run(const float *x, float slope, float *y, size_t n);
void cpu_relu_back_run(const float *x, const float *dy, float slope, float *dx, size_t n);

/* cpu_memory.c */
int cpu_alloc(size_t bytes, const char *what, void **out); /* zeroed, 64-byte aligned */
void cpu_free(void *context, void *memory);                /* engine_i.free; uses no context */
/* The same, freed with the op; NULL with the message. */
void *cpu_op_alloc(struct cpu_op *op, size_t bytes, const char *what);
/* Makes sure that a slot holds that many bytes. Set-up only. */
int cpu_work_reserve(struct cpu_engine *engine, enum cpu_work_slot slot, size_t bytes);

const struct cpu_format *cpu_tensor_format(const struct tensor *tensor);
/* Blocks of 4, 8 or 16 channels; else NULL, plain. */
const struct cpu_format *cpu_format_blocked(int block);
/* The format that a memory descriptor describes; false where it is none of ours. */
bool cpu_format_find(const_md_t md, const struct shape *shape, const struct cpu_format **out);
/* The shape's sizes as oneDNN is told them: one spatial axis is the width of one row. Returns their
 * number. */
int cpu_md_dims(const struct shape *shape, dnnl_dims_t dims);
/* Bytes of a shape in a format, padding included. */
size_t cpu_format_bytes(const struct shape *shape, const struct cpu_format *format);
/* Of more than three spatial axes, which only plain tensors have, the first ones are one depth. */
struct cpu_planes cpu_planes_of(const struct shape *shape, const struct cpu_format *format);

/* Gives a top its format: value and gradient, memory of its own. */
void cpu_top_set(struct blob *top, const struct cpu_format *format);
/* The top shares its bottom's memory: value always, gradient if asked. */
void cpu_top_alias(struct blob *top, struct blob *bottom, bool grad);

int cpu_primitive_create(struct cpu_engine *engine, struct owner *owner,
                         const_dnnl_primitive_desc_t desc, struct cpu_primitive *out);
/* Adds an argument; run takes the data pointers in the order of these calls. */
int cpu_primitive_arg(struct cpu_engine *engine, struct cpu_primitive *primitive, int arg,
                      const_md_t md);
/* Which of several that run side by side it is: each has temporary memory of its own. */
int cpu_primitive_place(struct cpu_engine *engine, struct cpu_primitive *primitive, int which);
int cpu_primitive_run(struct cpu_engine *engine, struct cpu_primitive *primitive,
                      const void *const data[]);
int cpu_reorder_create(struct cpu_engine *engine, struct owner *owner, const_md_t from,
                       const_md_t to, struct cpu_primitive *out);
int cpu_reorder_run(struct cpu_engine *engine, struct cpu_primitive *reorder, const float *from,
                    float *to);

/* Between two formats of one shape; see cpu_reorder_run. */
int cpu_format_reorder_create(struct cpu_engine *engine, struct owner *owner,
                              const struct shape *shape, const struct cpu_format *from,
                              const struct cpu_format *to, struct cpu_primitive *out);

int cpu_view_create(struct cpu_op *op, struct tensor *tensor, const struct cpu_format *format,
                    bool written, enum cpu_work_slot slot, struct cpu_view *out);
/* Where the numbers lie in that format: after cpu_view_move of what is read, before that of what is
 * written. */
float *cpu_view_data(const struct cpu_engine *engine, const struct cpu_view *view);
int cpu_view_move(struct cpu_engine *engine, struct cpu_view *view);

/* Has bottom i read in that format, and its gradient written in it. The work memory in `slot` is
 * the one to read from; of several bottoms in a shared one, each is to be loaded when it is read.
 */
int cpu_op_take(struct cpu_op *op, int i, const struct cpu_format *format, enum cpu_work_slot slot);

/* Sets the channels to 0 that only fill up the last block. */
void cpu_clear_padding(float *data, const struct shape *shape, const struct cpu_format *format);
/* y = x, y += x, y = a x, y += a x over n floats, in parallel. */
void cpu_copy(float *y, const float *x, size_t n);
void cpu_axpby(float *y, float a, const float *x, float b,
               size_t n); /* y = a x + b y; b 0: y unread */
/* The same by the calling thread alone, for pieces of what threads share. */
void cpu_axpby_piece(float *restrict y, float a, const float *restrict x, float b, size_t n);
void cpu_zero(float *y, size_t n);

/* Where bottom i's values and gradient lie in the format that it was taken in, and the tops'. */
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

/* Loops over n floats go by pieces that stay in the first-level cache: the length of the one at
 * `at`. */
enum { CPU_PIECE = 4096 };
static inline size_t cpu_piece(size_t n, size_t at)
{
    return n - at < CPU_PIECE ? n - at : CPU_PIECE;
}

/* Elements a tensor holds, padding included. */
static inline size_t cpu_tensor_stored(const struct tensor *tensor)
{
    return tensor->bytes / sizeof(float);
}

#endif
