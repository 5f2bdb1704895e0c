/* Types and functions that the files of the CUDA engine share.
 *
 * Activations are plain row-major, or, for four or more axes, NHWC as cuDNN's tensor cores want
 * them. They are floats, or bfloat16 where the engine computes so. Operators convert bottoms of
 * other formats. All operators run on one stream in the order of the calls, so they need no
 * synchronisation. Copies for sync run on streams of their own (streams.c). */
#ifndef POSEIDON_CUDA_CUDA_INTERNAL_H
#define POSEIDON_CUDA_CUDA_INTERNAL_H

#include "engine/engine.h"
#include "engine/op_check.h"
#include "kernels.h"
#include "libs.h"

#include "util/owner.h"

/* Check a call's status: 0, or -1 with the call's text in the message. */
#define cuda_check(call)             cuda_status((call), #call)
#define cudnn_check(engine, call)    cuda_cudnn_status((engine), (call), #call)
#define cublaslt_check(engine, call) cuda_cublaslt_status((engine), (call), #call)

/* Device memory that all operators share for the time of one call: operators run one by one. */
enum cuda_work_slot {
    WORK_LIBRARY,     /* workspace of cuDNN and cuBLASLt */
    WORK_TOP_GRAD,    /* top gradient in the operator's format */
    WORK_BOTTOM_GRAD, /* bottom gradient in the operator's format */
    WORK_WEIGHT_GRAD, /* weight gradient in the operator's layout */
    WORK_SCRATCH,     /* partial sums */
    WORK_SLOTS,
    WORK_OWN = WORK_SLOTS /* memory of one operator, kept from forward to backward */
};

struct cuda_work {
    void *data;
    size_t bytes;
};

/* A format of activations; NULL stands for plain floats. Formats are constants, never freed. */
struct cuda_format {
    const char *name;
    enum cuda_type type;
    bool nhwc;
};

extern const struct cuda_format cuda_plain_bf16, cuda_nhwc_f32;

struct cuda_engine {
    struct cuda_libs libs;
    int device, major, minor; /* device number; compute capability */
    char words[320], identity[64];
    size_t memory;         /* device memory, bytes */
    cudaStream_t stream;   /* computation */
    cudaStream_t down, up; /* down: copies to the host; up: copies from the host */
    cudaStream_t back;     /* copies to the host of values updated after a store */
    cudaStream_t feed;     /* copies of batches, which parameters and sums must not delay */
    cudnnHandle_t cudnn;
    cublasLtHandle_t cublaslt;
    enum engine_math math; /* never MATH_DEFAULT */
    enum cuda_type type;   /* element type of activations */
    bool deterministic;
    size_t workspace;                   /* limit for the libraries, bytes */
    struct cuda_work work[WORK_SLOTS];  /* grows only while operators are created */
    struct cuda_staging *staging;       /* see device_memory.c */
    struct choices *choices;            /* see choice_file.h */
    cudnnBackendDescriptor_t described; /* description of the device for cuDNN's heuristics */
    bool no_graphs, no_fusion;          /* the user's options */
    bool recording;                     /* operators are captured, not run (stream_graph.c) */
    /* Device memory: the running pass, read by recorded operators; NULL before the first pass. */
    struct kernel_pass *pass;
    struct kernel_pass prepared;  /* contents of *pass */
    unsigned generation;          /* number of moves of work slots; a move makes recordings stale */
    double *sums;                 /* device memory: partial sums of sumsq, and its result */
    struct kernel_bad *bad;       /* host memory that the device writes: a label out of range */
    struct cuda_team *team;       /* see team.c; NULL: this rank has no team */
    struct cuda_matmul *products; /* products that cuda_gemm keeps (matmul.c) */
    cudaEvent_t guest;            /* event in the calling program's stream (memory_device.c) */
};

/* A tensor that an operator reads or writes in a format that may differ from the tensor's own. */
struct cuda_view {
    struct tensor *tensor;
    const struct cuda_format *format;
    bool written, converts;
    enum cuda_work_slot slot;
    void *own; /* the operator's memory, with WORK_OWN */
};

struct cuda_kind;

/* First member of every operator of this engine. */
struct cuda_op {
    struct op op;
    const struct cuda_kind *kind;
    struct cuda_engine *engine;
    struct op_args args;
    const struct pass *pass; /* pass under way */
    struct owner owner;      /* owner of all memory of the operator */
    /* Each bottom as the operator reads it. tensor NULL: read in place, without cuda_op_take. */
    struct cuda_view *in;
    struct cuda_view *out; /* per bottom: gradient; tensor NULL: does not propagate */
};

/* Format in which an operator takes its first bottoms and makes its tops. Many operators need no
 * create beyond this choice. */
enum cuda_blobs {
    CUDA_OWN,       /* chosen by create */
    CUDA_AS_BOTTOM, /* the first bottom's format for the tops, unless in place */
    CUDA_PLAIN,     /* plain, of the engine's type */
    CUDA_NHWC,      /* channels last, of the engine's type */
    CUDA_FLOATS,    /* plain floats */
};

/* Functions of one kind of operator. forward and backward find op->pass. create gets a filled
 * struct cuda_op, with zeros behind it. destroy must cope with a create that failed midway. */
struct cuda_kind {
    size_t size; /* bytes of the operator's struct; 0: a struct cuda_op */
    enum cuda_blobs blobs;
    int taken;  /* number of bottoms taken; 0: one */
    bool again; /* backward reads the taken bottoms, too */
    bool loads; /* forward loads the taken bottoms itself; else the engine, before forward */
    int (*create)(struct cuda_op *op); /* NULL: `blobs` says all */
    /* Runs either pass of an operator that is one function: y of x, or, with back, dx of dy.
     * Requires one top, bottom 0 alone to propagate, and forward and gradient NULL. */
    int (*run)(struct cuda_op *op, bool back, const void *from, void *to);
    int (*forward)(struct cuda_op *op); /* NULL: no tops, or tops share the bottom's memory */
    /* Computes gradients of parameters, and of bottoms without `gradient`. NULL: none. */
    int (*backward)(struct cuda_op *op);
    /* Called after backward, per bottom that propagates; writes dx in the format in which the
     * bottom was taken. NULL: run or backward writes dx, or there is none. */
    int (*gradient)(struct cuda_op *op, int bottom, void *dx);
    void (*destroy)(struct cuda_op *op); /* NULL: nothing to free */
};

#define OPERATOR_KIND(ENUM, name, words, args) extern const struct cuda_kind cuda_##name;
OPERATORS(OPERATOR_KIND)
#undef OPERATOR_KIND

/* Returns true if backward must write the gradient of bottom i. */
static inline bool cuda_op_propagates(const struct cuda_op *op, int i)
{
    return op_args_propagates(&op->args, i);
}

static inline bool cuda_op_in_place(const struct cuda_op *op)
{
    return op_args_in_place(&op->args);
}

/* cuda_error.c: return 0, or -1 with a message that names the failed call. */
int cuda_status(cudaError_t status, const char *call);
int cuda_cudnn_status(const struct cuda_engine *engine, cudnnStatus_t status, const char *call);
int cuda_cublaslt_status(const struct cuda_engine *engine, cublasStatus_t status, const char *call);

/* gpu.c: selects visible GPU number `which`, modulo their number. */
int cuda_device_open(struct cuda_engine *engine, int which);

/* base.c. Open fills a zeroed struct, with cuDNN if dnn; workspace 0: a default. Close copes with
 * an open that failed. The others are functions of struct device_i. */
int cuda_base_open(struct cuda_engine *engine, int number, size_t workspace, bool dnn);
void cuda_base_close(struct cuda_engine *engine);
int cuda_engine_alloc(void *context, size_t bytes, const char *what, void **out);
size_t cuda_room(void *context);
const char *cuda_device_words(void *context, char identity[64]);
int cuda_finish(void *context);

/* device_memory.c */
int cuda_alloc(size_t bytes, const char *what, void **out); /* zeroed device memory */
void cuda_free(void *context, void *memory);                /* device_i.free; uses no context */
/* Makes a slot hold at least that many bytes. Set-up only: the slot may move. */
int cuda_work_reserve(struct cuda_engine *engine, enum cuda_work_slot slot, size_t bytes);
int cuda_staging_open(struct cuda_engine *engine);
void cuda_staging_close(struct cuda_engine *engine);
/* Copies at most 16 KiB from the host, in order with operators. `from` may change after return. */
int cuda_write_small(struct cuda_engine *engine, void *to, const void *from, size_t bytes);
/* A copy of host memory in one of two device buffers, in order with the operators. Call
 * cuda_staged_done after the work that reads the buffer; `from` may change after that. */
struct cuda_staged {
    void *data;
    cudaEvent_t filled, used;
};
int cuda_stage(struct cuda_engine *engine, const void *from, size_t bytes, struct cuda_staged *out);
int cuda_staged_done(struct cuda_engine *engine, const struct cuda_staged *staged);
/* cuda_store, cuda_fetch: device_i.write and device_i.read; cuda_write, cuda_read: engine_i's. */
int cuda_store(void *context, float *to, const float *from, size_t n);
int cuda_fetch(void *context, const float *from, float *to, size_t n);
int cuda_write(void *context, struct tensor *to, const float *from);
int cuda_read(void *context, const struct tensor *from, float *to);

const struct cuda_format *cuda_tensor_format(const struct tensor *tensor);
enum cuda_type cuda_format_type(const struct cuda_format *format);
/* Returns the type of the first bottom, and of the top where both have one format. */
static inline enum cuda_type cuda_bottom_type(const struct cuda_op *op)
{
    return cuda_format_type(cuda_tensor_format(&op->args.bottoms[0]->value));
}
/* Return the plain and the NHWC format of the engine's type. */
const struct cuda_format *cuda_plain(const struct cuda_engine *engine);
const struct cuda_format *cuda_nhwc(const struct cuda_engine *engine);
size_t cuda_type_bytes(enum cuda_type type);
/* Gives a top's value and gradient a format, and memory of their own. */
void cuda_top_set(struct blob *top, const struct cuda_format *format);
/* Lets a top share its bottom's memory: the value always, the gradient if grad. */
void cuda_top_alias(struct blob *top, struct blob *bottom, bool grad);
/* Converts elements from one format into another. */
int cuda_convert(struct cuda_engine *engine, const struct shape *shape,
                 const struct cuda_format *from_format, const void *from,
                 const struct cuda_format *to_format, void *to);

/* Returns zeroed device memory, freed with the operator; NULL with a message. */
void *cuda_op_alloc(struct cuda_op *op, size_t bytes, const char *what);

int cuda_view_create(struct cuda_op *op, struct tensor *tensor, const struct cuda_format *format,
                     bool written, enum cuda_work_slot slot, struct cuda_view *out);
/* Returns the elements in the view's format. Call cuda_view_move before reading, after writing. */
void *cuda_view_data(const struct cuda_engine *engine, const struct cuda_view *view);
int cuda_view_move(struct cuda_engine *engine, const struct cuda_view *view);
/* Makes the operator read bottom i, and write its gradient, in a format. again: backward reads the
 * bottom, too. Without again, bottoms share one copy: load each just before it is read. */
int cuda_op_take(struct cuda_op *op, int i, const struct cuda_format *format, bool again);

/* Return x and dx of bottom i, and y and dy of the top, in the operator's formats. */
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

/* Returns the shape's axis that comes i-th in memory. */
static inline int cuda_axis_at(const struct shape *shape, const struct cuda_format *format, int i)
{
    if (!format || !format->nhwc || i == 0)
        return i;
    return i == shape->naxes - 1 ? 1 : i + 1;
}
/* Returns the number of contiguous pieces; a piece spans `axis` and the axes after it in memory. */
int cuda_pieces(const struct shape *shape, const struct cuda_format *format, int axis);

/* matmul.c: C = alpha op(A) op(B) + beta C, row-major; C is m x n, the inner size k. A and B have
 * one type, C its own. bias: n numbers of C's type, added to every row of C; or NULL. */
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
void cuda_products_close(struct cuda_engine *engine); /* frees what cuda_gemm kept */
int cuda_gemm(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
              float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
              float *c, int64_t ldc);

/* channel.c */
/* Views a tensor as outer x channels x inner; `naxes` axes from `axis` on are the channels. Returns
 * false where the format allows no such view; *out then views the plain tensor. */
bool cuda_channels_view(const struct tensor *x, int axis, int naxes, struct kernel_channels *out);
/* Sum the rows of dy into a bias's gradient; cuda_bias_reserve is for set-up. ..._behind_relu first
 * makes dy 0 where y, of the same type, is not positive; the bias may want no gradient. */
int cuda_bias_reserve(struct cuda_engine *engine, int rows, int columns);
int cuda_bias_gradient(struct cuda_engine *engine, enum cuda_type type, const void *dy, int rows,
                       int columns, struct param *bias);
int cuda_bias_gradient_behind_relu(struct cuda_engine *engine, enum cuda_type type, const void *y,
                                   void *dy, int rows, int columns, struct param *bias);

/* Alignment of operands that cuDNN's kernels may count on, bytes. */
enum { CUDA_ALIGNMENT = 16 };

/* param.c: a parameter in the engine's type, aligned to CUDA_ALIGNMENT: the parameter itself, or a
 * copy, renewed when the parameter's version changes. All zero: no parameter. */
struct cuda_param {
    struct param *param;
    int outer, rows, columns; /* sizes for kernel_transpose, from the caller; 0: not transposed */
    void *copy;
    uint64_t version; /* the parameter's version at the last copy */
    bool fresh;
};
/* Returns true if the copy has another order of elements. */
static inline bool cuda_param_is_turned(const struct cuda_param *p)
{
    return p->rows > 1 && p->columns > 1;
}
/* at_ends: the parameter follows another parameter, and may begin at any address. */
int cuda_param_create(struct cuda_op *op, struct param *param, bool at_ends, const char *what,
                      struct cuda_param *out);
/* Renews the copy, if any. cuda_param_data then returns the address to read. */
int cuda_param_load(struct cuda_engine *engine, struct cuda_param *p);
const void *cuda_param_data(const struct cuda_engine *engine, const struct cuda_param *p);

/* conv.c */
struct kernel_conv cuda_conv_shape(const struct conv_args *a, const struct shape *image,
                                   const struct shape *places);
/* Returns true if the convolution has a third axis: depth. */
static inline bool cuda_conv_has_depth(const struct kernel_conv *c)
{
    return c->size[0] > 1 || c->places[0] > 1 || c->kernel[0] > 1 || c->pad[0] > 0;
}
/* Returns the elements of `outer` images of `channels` channels over three axes. */
static inline size_t cuda_conv_elems(int outer, int channels, const int size[3])
{
    return (size_t)outer * (size_t)channels * (size_t)(size[0] * size[1] * size[2]);
}

void cuda_inner_product_factors(struct op *op, const float **bottom, const float **top_grad);

/* execution_plan.c: convolutions by cuDNN, each kind of plan with the fastest of its kernels. */
enum cuda_plan_kind {
    PLAN_FORWARD,
    PLAN_BACK_DATA,
    PLAN_BACK_WEIGHT,
    PLAN_FORWARD_BIAS,
    PLAN_FORWARD_BIAS_RELU,
    PLAN_KINDS
};
struct cuda_plan;
/* Sets *out to NULL where cuDNN has no kernel for the shape under the engine's precision. */
int cuda_plan_create(struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct kernel_conv *conv, struct cuda_plan **out);
/* Plans forward with bias, and a ReLU if asked. *biased: one kernel does all. *biased false: the
 * plan only convolves, where a separate bias is faster. Takes no kernel that loses NaN. */
int cuda_plan_create_biased(struct cuda_engine *engine, const struct kernel_conv *conv, bool relu,
                            struct cuda_plan **out, bool *biased);
/* Runs a plan. x, w, y: values, or gradients in backward. Overwrites the operand that the plan's
 * kind computes. bias: in the engine's type; read only by plans with bias. */
int cuda_plan_run(struct cuda_engine *engine, struct cuda_plan *plan, const void *x, const void *w,
                  const void *y, const void *bias);
void cuda_plan_destroy(struct cuda_engine *engine, struct cuda_plan *plan);
int cuda_plans_open(struct cuda_engine *engine);
void cuda_plans_close(struct cuda_engine *engine);

/* choices.c: number of the fastest candidate, by device and shape, kept in a file for the next run.
 * Without a folder for the file, choices last for this run. */
int cuda_choices_open(struct cuda_engine *engine);
void cuda_choices_close(struct cuda_engine *engine);
int cuda_choice_find(const struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct kernel_conv *conv); /* -1: none known */
void cuda_choice_note(struct cuda_engine *engine, enum cuda_plan_kind kind,
                      const struct kernel_conv *conv, int choice);

/* Returns the device memory from which a recorded operator reads its pass; NULL: operators are not
 * recorded, and run with the values given. */
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
    cudaEvent_t before; /* event in another stream, for which the copy waits */
    cudaEvent_t over;
};
extern const struct device_copies_i cuda_copies;
/* Makes later work of stream `on` wait for all work asked of stream `after` so far. */
int cuda_follow(const struct cuda_engine *engine, cudaStream_t after, cudaStream_t on,
                struct device_ticket *ticket);
/* Makes later copies from the host wait for the ticket's copy. */
int cuda_store_after(const struct cuda_engine *engine, const struct device_ticket *ticket);

/* services.c: functions of struct device_services_i */
int cuda_update(void *context, const struct device_update *u, float *value, const float *grad,
                float *history, size_t stride, size_t n, enum device_turn turn);
int cuda_sumsq(void *context, const float *x, float scale, size_t n, double *out);
int cuda_encode(void *context, enum device_code code, const float *x, float *residual, size_t rows,
                size_t n, void *out, enum device_turn turn, struct device_ticket *ticket);

/* memory_device.c: a GPU as a device: copies, products and sums in its memory. */
extern const struct device_i device_cuda;

/* team.c; only in builds with NCCL */
extern const struct device_team_i cuda_team;
void cuda_team_close(struct cuda_engine *engine); /* without a team: does nothing */

#endif
