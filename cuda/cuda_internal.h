/* What the files of the CUDA engine share.
 *
 * Activations are plain row-major floats, or, for four axes, NHWC as cuDNN's tensor cores want
 * them; in bfloat16 where the engine computes so. Ops convert what comes in another format. All
 * work goes to one stream in the order of the calls, so ops need no synchronisation; copies that
 * sync asks for run on streams of their own (streams.c). */
#ifndef POSEIDON_CUDA_CUDA_INTERNAL_H
#define POSEIDON_CUDA_CUDA_INTERNAL_H

#include "engine/engine.h"
#include "engine/op_check.h"
#include "kernels.h"
#include "libs.h"

#include "util/owner.h"

/* Record the text of a call that failed; 0 or -1. */
#define cuda_check(call)             cuda_status((call), #call)
#define cudnn_check(engine, call)    cuda_cudnn_status((engine), (call), #call)
#define cublaslt_check(engine, call) cuda_cublaslt_status((engine), (call), #call)

/* Memory lent to one op while it runs, shared by all: they run one after another. */
enum cuda_work_slot {
    WORK_LIBRARY,     /* cuDNN's and cuBLASLt's workspace */
    WORK_TOP_GRAD,    /* top gradient in the format an op wants */
    WORK_BOTTOM_GRAD, /* bottom gradient in the format an op gives */
    WORK_WEIGHT_GRAD, /* weight gradient in the layout an op gives */
    WORK_SCRATCH,     /* partial sums */
    WORK_SLOTS,
    WORK_OWN = WORK_SLOTS /* not shared: kept from forward to backward */
};

struct cuda_work {
    void *data;
    size_t bytes;
};

/* A format of activations; plain floats are NULL. Static constants: nothing to free. */
struct cuda_format {
    const char *name;
    enum cuda_type type;
    bool nhwc;
};

extern const struct cuda_format cuda_plain_bf16, cuda_nhwc_f32;

struct cuda_engine {
    struct cuda_libs libs;
    int device, major, minor; /* compute capability */
    char words[320], identity[64];
    size_t memory;         /* of the device, bytes */
    cudaStream_t stream;   /* computes */
    cudaStream_t down, up; /* copy to and from the host */
    cudaStream_t back;     /* copies to the host what was made of what went up */
    cudaStream_t feed;     /* brings batches, which no parameter or sum is to delay */
    cudnnHandle_t cudnn;
    cublasLtHandle_t cublaslt;
    enum engine_math math; /* not MATH_DEFAULT */
    enum cuda_type type;   /* of activations */
    bool deterministic;
    size_t workspace;                   /* limit */
    struct cuda_work work[WORK_SLOTS];  /* grows while ops are created, fixed while they run */
    struct cuda_staging *staging;       /* device_memory.c */
    struct choices *choices;            /* choice_file.h */
    cudnnBackendDescriptor_t described; /* the device, as cuDNN's heuristics want it */
    bool no_graphs, no_fusion;          /* the user's wish */
    bool recording;                     /* ops are captured, not run (stream_graph.c) */
    struct kernel_pass
        *pass; /* device: the running pass's place, for recorded ops; NULL before the first */
    struct kernel_pass prepared;  /* what it holds */
    unsigned generation;          /* goes up when work slots move: recorded pointers are stale */
    double *sums;                 /* device: partial sums of sumsq and its result */
    struct kernel_bad *bad;       /* host memory the device can write: a label out of range */
    struct cuda_team *team;       /* team.c; NULL: this rank is in none */
    struct cuda_matmul *products; /* matmul.c: those of factors */
    cudaEvent_t guest;            /* memory_gpu.c: a place in a stream */
};

/* A tensor that is read, or written, in another format than it may have. */
struct cuda_view {
    struct tensor *tensor;
    const struct cuda_format *format;
    bool written, converts;
    enum cuda_work_slot slot;
    void *own; /* the op's */
};

struct cuda_kind;

/* First member of every op of this engine. */
struct cuda_op {
    struct op op;
    const struct cuda_kind *kind;
    struct cuda_engine *engine;
    struct op_args args;
    const struct pass *pass; /* the one under way */
    struct owner owner;      /* of all its memory */
    /* Per bottom that cuda_op_take was called for; the others are used as they are. */
    struct cuda_view *in;
    struct cuda_view *out; /* tensor NULL where it does not propagate */
};

/* In which format an operator takes its first bottom, or more of them, and makes its tops; by this
 * alone many of them need no create. */
enum cuda_blobs {
    CUDA_OWN,       /* create sees to that */
    CUDA_AS_BOTTOM, /* tops come in the first bottom's, unless they are that bottom */
    CUDA_PLAIN,     /* plain, of the engine's type */
    CUDA_NHWC,      /* with channels last, likewise */
    CUDA_FLOATS,    /* plain floats */
};

/* One operator. Each of its functions finds op->pass, and what was filled before; create a zeroed
 * struct otherwise. destroy must cope with what a failed create left. */
struct cuda_kind {
    size_t size; /* of the op's struct; 0: it is a struct cuda_op */
    enum cuda_blobs blobs;
    int taken;  /* how many bottoms are; 0: one */
    bool again; /* backward reads them, too */
    bool loads; /* forward loads the bottoms that were taken itself; else they are before it */
    int (*create)(struct cuda_op *op); /* NULL: nothing else is to be made */
    /* Both passes of an operator that is one function of what comes in, y of x, or, where back, dx
     * of dy; forward and gradient are then NULL. One top, and bottom 0 alone propagates. */
    int (*run)(struct cuda_op *op, bool back, const void *from, void *to);
    int (*forward)(struct cuda_op *op); /* NULL: tops are the bottom, or there are none */
    /* Whatever is to be done behind this layer's tops: parameters' gradients, and those of bottoms
     * that `gradient` does not write. NULL: none. */
    int (*backward)(struct cuda_op *op);
    /* Then, of each bottom that propagates: writes its gradient, dx, in the format that it was
     * taken in. NULL: run or backward does, or there is none. */
    int (*gradient)(struct cuda_op *op, int bottom, void *dx);
    void (*destroy)(struct cuda_op *op); /* NULL: nothing to free */
};

#define OPERATOR_KIND(ENUM, name, words, args) extern const struct cuda_kind cuda_##name;
OPERATORS(OPERATOR_KIND)
#undef OPERATOR_KIND

/* Whether backward is to write the gradient of bottom i. */
static inline bool cuda_op_propagates(const struct cuda_op *op, int i)
{
    return op_args_propagates(&op->args, i);
}

static inline bool cuda_op_in_place(const struct cuda_op *op)
{
    return op_args_in_place(&op->args);
}

/* cuda_error.c: 0, or -1 with a message of the call that failed. */
int cuda_status(cudaError_t status, const char *call);
int cuda_cudnn_status(const struct cuda_engine *engine, cudnnStatus_t status, const char *call);
int cuda_cublaslt_status(const struct cuda_engine *engine, cublasStatus_t status, const char *call);

/* device.c */
int cuda_device_open(struct cuda_engine *engine, int which);

/* base.c: a struct that is zero is opened, with cuDNN if that is asked for; and closed, however far
 * that came. Then functions of struct engine_i. */
int cuda_base_open(struct cuda_engine *engine, int number, size_t workspace, bool dnn);
void cuda_base_close(struct cuda_engine *engine);
int cuda_engine_alloc(void *context, size_t bytes, const char *what, void **out);
size_t cuda_room(void *context);
const char *cuda_device_words(void *context, char identity[64]);
int cuda_finish(void *context);

/* device_memory.c */
int cuda_alloc(size_t bytes, const char *what, void **out); /* zeroed */
void cuda_free(void *context, void *memory);                /* engine_i.free; uses no context */
/* Makes sure that a slot holds that many bytes. Set-up only. */
int cuda_work_reserve(struct cuda_engine *engine, enum cuda_work_slot slot, size_t bytes);
int cuda_staging_open(struct cuda_engine *engine);
void cuda_staging_close(struct cuda_engine *engine);
/* From the host at once, at most a few KiB; takes its turn among the ops. */
int cuda_write_small(struct cuda_engine *engine, void *to, const void *from, size_t bytes);
/* A copy of host memory in one of two buffers, in the turn of the compute stream: `from` may be
 * changed after cuda_staged_done, which follows the work that reads the buffer. */
struct cuda_staged {
    void *data;
    cudaEvent_t filled, used;
};
int cuda_stage(struct cuda_engine *engine, const void *from, size_t bytes, struct cuda_staged *out);
int cuda_staged_done(struct cuda_engine *engine, const struct cuda_staged *staged);
/* device_i.write and device_i.read */
int cuda_store(void *context, float *to, const float *from, size_t n);
int cuda_fetch(void *context, const float *from, float *to, size_t n);
int cuda_write(void *context, struct tensor *to, const float *from);
int cuda_read(void *context, const struct tensor *from, float *to);

const struct cuda_format *cuda_tensor_format(const struct tensor *tensor);
enum cuda_type cuda_format_type(const struct cuda_format *format);
/* Of an op's first bottom, and its top where both have one format. */
static inline enum cuda_type cuda_bottom_type(const struct cuda_op *op)
{
    return cuda_format_type(cuda_tensor_format(&op->args.bottoms[0]->value));
}
/* The engine's own formats for activations. */
const struct cuda_format *cuda_plain(const struct cuda_engine *engine);
const struct cuda_format *cuda_nhwc(const struct cuda_engine *engine);
size_t cuda_type_bytes(enum cuda_type type);
/* Gives a top its format: value and gradient, memory of its own. */
void cuda_top_set(struct blob *top, const struct cuda_format *format);
/* The top shares its bottom's memory: value always, gradient if asked. */
void cuda_top_alias(struct blob *top, struct blob *bottom, bool grad);
/* From one format into another. */
int cuda_convert(struct cuda_engine *engine, const struct shape *shape,
                 const struct cuda_format *from_format, const void *from,
                 const struct cuda_format *to_format, void *to);

/* Zeroed device memory that is freed with the op; NULL with the message. */
void *cuda_op_alloc(struct cuda_op *op, size_t bytes, const char *what);

int cuda_view_create(struct cuda_op *op, struct tensor *tensor, const struct cuda_format *format,
                     bool written, enum cuda_work_slot slot, struct cuda_view *out);
/* Where the numbers lie in that format: after cuda_view_move of what is read, before that of what
 * is written. */
void *cuda_view_data(const struct cuda_engine *engine, const struct cuda_view *view);
int cuda_view_move(struct cuda_engine *engine, const struct cuda_view *view);
/* Has bottom i read in that format, and its gradient written in it. again: backward reads it, too;
 * else, of several bottoms, each is to be loaded when it is read. */
int cuda_op_take(struct cuda_op *op, int i, const struct cuda_format *format, bool again);

/* Where bottom i's values and gradient lie in the format that it was taken in, and the tops'. */
static inline const void *cuda_op_x(const struct cuda_op *op, int i)
{
    return op->in[i].tensor ? cuda_view_data(op->engine, &op->in[i])
                            : op->args.bottoms[i]->value.data;
}

static inline void *cuda_op_dx(const struct cuda_op *op, int i)
{
    return op->out[i].tensor ? cuda_view_data(op->engine, &op->out[i])
                             : op->args.bottoms[i]->grad.data;
}

static inline void *cuda_op_y(const struct cuda_op *op)
{
    return op->args.tops[0]->value.data;
}

static inline const void *cuda_op_dy(const struct cuda_op *op)
{
    return op->args.tops[0]->grad.data;
}

/* The shape's axis that is axis i in memory. */
static inline int cuda_axis_at(const struct shape *shape, const struct cuda_format *format, int i)
{
    if (!format || !format->nhwc || i == 0)
        return i;
    return i == shape->naxes - 1 ? 1 : i + 1;
}
/* Pieces are what is contiguous in memory, from the axis on; how many there are. */
int cuda_pieces(const struct shape *shape, const struct cuda_format *format, int axis);

/* matmul.c: C = alpha op(A) op(B) + beta C, row-major, C is m x n, inner size k. A and B are of one
 * type, C of its own. bias: n floats (of C's type) added to every row of C, or NULL. */
struct cuda_matmul_shape {
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    enum cuda_type type, type_c;
    bool bias;
};
struct cuda_matmul;
int cuda_matmul_create(struct cuda_engine *engine, const struct cuda_matmul_shape *shape,
                       struct cuda_matmul **out);
int cuda_matmul_run(struct cuda_engine *engine, struct cuda_matmul *matmul, float alpha,
                    const void *a, const void *b, float beta, void *c, const void *bias);
void cuda_matmul_destroy(struct cuda_engine *engine, struct cuda_matmul *matmul);
void cuda_products_close(struct cuda_engine *engine); /* those that cuda_gemm kept */
int cuda_gemm(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
              float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
              float *c, int64_t ldc);

/* channel.c */
/* The tensor as outer x channels x inner, the channels being `naxes` axes from `axis` on; false
 * where its format has no such view: then the view is of the plain tensor. */
bool cuda_channels_view(const struct tensor *x, int axis, int naxes, struct kernel_channels *out);
/* The gradient of a bias: sums over the rows of dy. reserve: at set-up. behind_relu: makes dy 0
 * first where y, of its type, is not positive; the bias's gradient only if it wants one. */
int cuda_bias_reserve(struct cuda_engine *engine, int rows, int columns);
int cuda_bias_gradient(struct cuda_engine *engine, enum cuda_type type, const void *dy, int rows,
                       int columns, struct param *bias);
int cuda_bias_gradient_behind_relu(struct cuda_engine *engine, enum cuda_type type, const void *y,
                                   void *dy, int rows, int columns, struct param *bias);

/* Bytes that the operands of cuDNN's kernels are promised to be aligned to. */
enum { CUDA_ALIGNMENT = 16 };

/* param.c: a parameter of the engine's type, aligned to CUDA_ALIGNMENT: itself, or a copy that
 * follows its versions. All zero: none. */
struct cuda_param {
    struct param *param;
    int outer, rows, columns; /* as kernel_transpose turns it. Filled by who wants it turned */
    void *copy;
    uint64_t version; /* of the parameter when it was copied */
    bool fresh;
};
/* Whether the copy has another order of elements. */
static inline bool cuda_param_is_turned(const struct cuda_param *p)
{
    return p->rows > 1 && p->columns > 1;
}
/* at_ends: it is not the first of its group, and may begin anywhere. */
int cuda_param_create(struct cuda_op *op, struct param *param, bool at_ends, const char *what,
                      struct cuda_param *out);
/* Renews the copy if there is one; then cuda_param_data is where the parameter lies. */
int cuda_param_load(struct cuda_engine *engine, struct cuda_param *p);
const void *cuda_param_data(const struct cuda_engine *engine, const struct cuda_param *p);

/* conv.c */
struct kernel_conv cuda_conv_shape(const struct conv_args *a, const struct shape *image,
                                   const struct shape *places);
/* Whether it is more than height and width can tell. */
static inline bool cuda_conv_has_depth(const struct kernel_conv *c)
{
    return c->size[0] > 1 || c->places[0] > 1 || c->kernel[0] > 1 || c->pad[0] > 0;
}
/* Elements of `outer` images of `channels` channels over three axes. */
static inline size_t cuda_conv_elems(int outer, int channels, const int size[3])
{
    return (size_t)outer * (size_t)channels * (size_t)(size[0] * size[1] * size[2]);
}

void cuda_inner_product_factors(struct op *op, const float **bottom, const float **top_grad);

/* execution_plan.c: convolutions by cuDNN, each direction with the fastest of its kernels. */
enum cuda_plan_kind {
    PLAN_FORWARD,
    PLAN_BACK_DATA,
    PLAN_BACK_WEIGHT,
    PLAN_FORWARD_BIAS,
    PLAN_FORWARD_BIAS_RELU,
    PLAN_KINDS
};
struct cuda_plan;
/* *out NULL: cuDNN has no kernel for it under the engine's precision. */
int cuda_plan_create(struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct kernel_conv *conv, struct cuda_plan **out);
/* Forward with a bias, and a ReLU if asked: all in one, or, *biased false, without either,
 * whichever is faster with what is left to do. What loses NaN is not taken. */
int cuda_plan_create_biased(struct cuda_engine *engine, const struct kernel_conv *conv, bool relu,
                            struct cuda_plan **out, bool *biased);
/* x, w, y: values, or the gradients in their place. The one that the kind computes is overwritten.
 * bias: of the engine's type; read by plans with bias alone. */
int cuda_plan_run(struct cuda_engine *engine, struct cuda_plan *plan, const void *x, const void *w,
                  const void *y, const void *bias);
void cuda_plan_destroy(struct cuda_engine *engine, struct cuda_plan *plan);
int cuda_plans_open(struct cuda_engine *engine);
void cuda_plans_close(struct cuda_engine *engine);

/* choices.c: which candidate won, by device and shape, kept in a file for the next run. Without a
 * place for the file, choices are kept for this run only. */
int cuda_choices_open(struct cuda_engine *engine);
void cuda_choices_close(struct cuda_engine *engine);
int cuda_choice_find(const struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct kernel_conv *conv); /* -1: not known */
void cuda_choice_note(struct cuda_engine *engine, enum cuda_plan_kind kind,
                      const struct kernel_conv *conv, int choice);

/* Where a recorded op finds the pass's place when it runs; NULL: the op is run now, with the values
 * given. */
static inline const struct kernel_pass *cuda_recorded_pass(const struct cuda_engine *engine)
{
    return engine->recording ? engine->pass : NULL;
}

/* stream_graph.c */
extern const struct engine_graph_i cuda_graph;

/* images.c */
int cuda_images_create(void *context, const struct engine_images_args *args, struct blob *top,
                       struct engine_images **out);
void cuda_images_destroy(void *context, struct engine_images *images);
int cuda_images_write(void *context, struct engine_images *images, struct tensor *top,
                      const uint8_t *pixels, const struct engine_window *windows);

/* streams.c */
struct device_ticket {
    cudaEvent_t before; /* the place in another stream that the copy waits for */
    cudaEvent_t over;
};
extern const struct device_copies_i cuda_copies;
/* What stream `on` does from now on comes after what was asked for on `after` so far. */
int cuda_follow(const struct cuda_engine *engine, cudaStream_t after, cudaStream_t on,
                struct device_ticket *ticket);
/* What is stored from now on comes after the ticket's copy. */
int cuda_store_after(const struct cuda_engine *engine, const struct device_ticket *ticket);

/* services.c: functions of struct device_services_i */
int cuda_update(void *context, const struct device_update *u, float *value, const float *grad,
                float *history, size_t stride, size_t n, enum device_turn turn);
int cuda_sumsq(void *context, const float *x, float scale, size_t n, double *out);
int cuda_encode(void *context, enum device_code code, const float *x, float *residual, size_t rows,
                size_t n, void *out, enum device_turn turn, struct device_ticket *ticket);

/* memory_gpu.c: copies, products and sums in a GPU's memory, which others compute in. */
extern const struct device_i device_cuda;

/* team.c; only where there is nccl.h */
extern const struct device_team_i cuda_team;
void cuda_team_close(struct cuda_engine *engine); /* if it is in one */

#endif
