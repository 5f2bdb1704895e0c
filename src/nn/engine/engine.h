/* The engine: the operators of one device (device/device.h).
 *
 * A layer never asks which engine it runs on. The layer fills an op_args, the engine makes an op of
 * the op_args, and the op runs forward and backward on the blobs it was made for. Everything is
 * created once, at set-up: running an op allocates nothing. The CPU engine (oneDNN) is the
 * specification of the other engines.
 *
 * Order of set-up: ops are created bottom-up. Creating an op chooses the layout of its tops
 * (value.layout, value.bytes, value.base, and the same for grad) given the layouts of its bottoms.
 * A top may share memory with its bottom (tensor.base): the value where the op only passes it on,
 * the gradient where backward can overwrite it with the bottom's. When all ops exist, the net
 * places the data pointers. No op runs before that. */
#ifndef POSEIDON_ENGINE_ENGINE_H
#define POSEIDON_ENGINE_ENGINE_H

#include "device/device.h"
#include "engine/ops.h"
#include "engine/tensor.h"

#include <assert.h>

/* Arguments of one operator. OP_CONV, OP_DECONV and OP_IM2COL share conv. */
union op_own_args {
#define OPERATOR_ARGS(name) struct name##_args name;
#define OPERATOR_LOSS(name) struct loss_args name;
#define OPERATOR_NONE(name)
#define OPERATOR_MEMBER(ENUM, name, words, args) OPERATOR_##args(name)
    OPERATORS(OPERATOR_MEMBER)
#undef OPERATOR_MEMBER
};

struct op_args {
    enum op_kind kind;
    bool train;        /* TRAIN phase: dropout drops, backward will be called */
    const char *layer; /* the layer's name for messages; borrowed while the op lives */
    const char *with;  /* name of a fused layer, whose work this op also does; borrowed alike; NULL:
                          none */
    bool relu;         /* a ReLU is fused (ops.h): for a convolution with a bias, a sum, or a batch
                          normalization */
    int layer_index;   /* key of the random generator */
    int nbottoms, ntops, nparams;
    struct blob **bottoms,
        **tops;            /* arrays and blobs outlive the op. tops[0] == bottoms[0]: in place */
    struct param **params; /* outlive the op */
    const bool *propagate; /* per bottom: backward writes its gradient. Outlives the op */
    union op_own_args u;
};

/* Values that change from one pass to the next. */
struct pass {
    uint64_t seed;
    uint64_t first_sample; /* index in the whole run of this rank's first sample in this pass;
                              sample n of the batch is first_sample + n. Key of dropout masks */
};

struct op;

struct op_i {
    /* Reads the bottoms' values, writes all of the tops' values, and touches no blob's gradient.
     * Blobs that are never needed together share memory: tops hold arbitrary values before. */
    int (*forward)(struct op *op, const struct pass *pass);
    /* Reads tops[]->grad, writes all of bottoms[i]->grad where propagate[i], and params' grad where
     * wanted. May overwrite tops[]->grad, except an inner product's, which must last until its
     * factors are sent. Changes no values; reads tops' values only if the layer says that it keeps
     * them. NULL: the op has no backward. */
    int (*backward)(struct op *op, const struct pass *pass);
    void (*destroy)(struct op *op);
};

/* Work of one pass by the operator's definition, whatever algorithm the engine uses. Measured times
 * are compared with this work. */
struct op_work {
    double flops;       /* a multiply-add counts as 2 */
    double blob_bytes;  /* bytes of blobs, read and written. A second pass over a whole blob counts
                           again: no cache is assumed */
    double param_bytes; /* bytes of parameters and their gradients, counted alike */
};

enum op_pass { OP_FORWARD, OP_BACKWARD, OP_PASSES };

struct op { /* first member of every engine's own op structs */
    const struct op_i *i;
    struct op_work work[OP_PASSES]; /* filled by engine_op_create */
};

enum engine_math {
    MATH_DEFAULT, /* the engine's own choice: TF32 where the device has it */
    MATH_FP32,    /* every product in full single precision */
    MATH_TF32,    /* products of 10-bit mantissas, sums in single precision */
    MATH_BF16,    /* GPUs: activations in bfloat16; parameters and their gradients stay single.
                     CPU: operands of convolutions and inner products are rounded for each product;
                     sums and blobs stay single */
};

/* How the CPU engine computes convolutions. */
enum engine_convolution {
    CONVOLUTION_AUTO,     /* the faster algorithm, chosen by the shape alone */
    CONVOLUTION_DIRECT,   /* directly: every product and sum of the definition */
    CONVOLUTION_WINOGRAD, /* Winograd's algorithm wherever possible, else direct */
};

struct engine_options {
    int threads;         /* compute threads of this rank; 0: the engine's default */
    const char *profile; /* replay: file of times (engine/replay/profile.h); other engines ignore
                            it */
    int dilate;          /* replay: divisor of the wire's bytes, > 1; else 0 */
    enum engine_convolution convolution; /* CPU */
    bool steady;    /* CPU: the same bits at any number of threads: one thread sums up floats */
    bool no_fusion; /* every layer is an operator of its own */
    int passes;     /* CPU: training passes over the same parameters (iter_size); 0: one. With
                       several, and in TEST, ops keep reordered copies of parameters */
    enum engine_math math;
    bool float_products; /* CPU with MATH_BF16: products take floats although the processor has
                            products of bfloat16; for tests */
    /* Members from here on are for engines with devices of their own, not for the CPU. */
    size_t workspace; /* most temporary memory of one operator, in bytes; 0: the engine's default */
    int device;       /* index among the visible devices, modulo their number: the rank's number on
                         its node */
    bool deterministic; /* the same bits in every run */
    bool no_graphs;     /* no pass is recorded as a graph: every op is launched by itself */
};

/* The gradient of a weight, m x n, from `parts` passes of k rows each: the passes' products left^T
 * right, added up by the tree of device/tree_sum.h. Plain device memory; the passes' rows lie one
 * behind another. */
struct engine_products {
    const float *left, *right; /* left: rows of m floats; right: rows of n */
    int parts;
    int64_t k, m, n;
    float *out;
};

/* A window to cut out of an image, and its mirroring. */
struct engine_window {
    int32_t top, left;   /* the window's position in the image, and in the mean */
    int32_t mirror;      /* 1: turn left to right; else 0 */
    const float *values; /* values that the host already made, for an image of floats among images
                            of bytes; else NULL. Always NULL for engines with memory of their own */
};

/* Arguments that turn images' bytes into values: (x - mean) * scale. */
struct engine_images_args {
    int64_t channels, height, width; /* size of a window */
    const float *mean; /* channels x mean_height x mean_width, read at the window's place; NULL:
                          none */
    int64_t mean_height, mean_width;
    const float *channel_mean; /* one per channel; NULL: none. Never beside mean. Both are borrowed
                                  while images are written */
    float scale;
};

struct engine_images; /* the engine's own */

/* Conversion of batches of images to values on the device, with the bits that the host would give.
 * A data layer uses it at set-up. All return 0, or -1 with a message. Not collective. */
struct engine_images_i {
    /* Creates the conversion, and chooses the layout of `top` as creating an op does. */
    int (*create)(void *context, const struct engine_images_args *args, struct blob *top,
                  struct engine_images **out);
    void (*destroy)(void *context, struct engine_images *images);
    /* Runs in order with the ops. pixels: batch x channels x height x width, cut out but not
     * mirrored; one window per image. The caller may change both when this returns. */
    int (*write)(void *context, struct engine_images *images, struct tensor *top,
                 const uint8_t *pixels, const struct engine_window *windows);
};

struct engine_graph; /* recorded ops, with all that they read from the host except `pass` */

/* Recording of ops, to launch them again as one. Compute thread only. */
struct engine_graph_i {
    bool (*available)(void *context);
    /* Sets the pass of all ops recorded or launched from now on. Call before each pass. */
    int (*prepare)(void *context, const struct pass *pass);
    /* Ops run between begin and end are recorded and do nothing yet. Call end even if an op failed;
     * end fails if the recording did. */
    int (*begin)(void *context);
    int (*end)(void *context, struct engine_graph **out);
    /* Runs in order with the ops. Returns 1, and runs nothing, if the engine's memory has moved
     * since the recording. */
    int (*launch)(void *context, struct engine_graph *graph);
    void (*destroy)(void *context, struct engine_graph *graph);
};

enum { ENGINE_OP_WORDS = 48, ENGINE_PROCESSOR_WORDS = 256 };

struct engine_i {
    const char *name;
    /* The device that the engine works on; its functions take the engine's context. */
    const struct device_i *device;
    int (*open)(const struct engine_options *options, void **context);
    void (*close)(void *context);
    /* Copy between a tensor in its layout and plain row-major host memory of its shape. */
    int (*write)(void *context, struct tensor *to, const float *from);
    int (*read)(void *context, const struct tensor *from, float *to);
    /* Frees tensor->layout, not tensor->data; the tensor is plain again. */
    void (*release)(void *context, struct tensor *tensor);
    /* Returns true if operator `kind` can also do the work of `next` behind it (OP_CONCAT: before
     * it), in place and in one pass over memory (engine/ops.h). NULL: never. */
    bool (*fuses)(void *context, enum op_kind kind, enum op_kind next);
    /* Creates an op. engine_op_create alone calls this, after op_check (engine/op_check.h). */
    int (*op_create)(void *context, const struct op_args *args, struct op **out);
    /* Multiplies square matrices as operators do, for measurements: a and b hold operands in the
     * format of engine_options.math. NULL: device_i.gemm does the same. */
    int (*multiply)(void *context, int size, const float *a, const float *b, float *c);
    /* Gives the sufficient factors of an OP_INNER_PRODUCT: the plain input (rows x K) and top
     * gradient (rows x O) of its last forward and backward. Valid until the op's next forward. */
    void (*factors)(struct op *op, const float **bottom, const float **top_grad);
    /* Computes a weight's gradient from an inner product's factors of engine_options.passes passes.
     * The bits depend neither on the threads nor on how the passes' tree is divided. NULL where the
     * engine ignores engine_options.steady. */
    int (*sum_products)(void *context, const struct engine_products *products);
    /* Writes the algorithm that was chosen for the op ("Winograd"); "" where there was no choice.
     * NULL: there is never a choice. */
    void (*describe)(const struct op *op, char words[ENGINE_OP_WORDS]);
    /* Returns the engine's own bytes: temporary memory that all ops share, and reordered copies of
     * parameters. NULL: not known. */
    size_t (*held)(void *context);
    /* Writes what ops' last bits depend on besides inputs: the library, and the processor as the
     * engine and its library see it. NULL where the engine ignores engine_options.steady. */
    void (*processor)(char words[ENGINE_PROCESSOR_WORDS]);
    const struct engine_images_i *images; /* NULL: the host converts images */
    const struct engine_graph_i *graph;   /* NULL: no recording */
};

struct engine {
    const struct engine_i *i;
    void *context;
    struct device device; /* i->device with the same context */
};

/* Opens the engine `name` ("cpu", "replay"); fails with the list of this build's engines. */
int engine_open(const char *name, const struct engine_options *options, struct engine *out);
void engine_close(struct engine *engine);

/* Names by enum engine_math: "auto", "fp32", "tf32", "bf16"; ended by NULL for util/choice.h. */
extern const char *const engine_math_words[];

/* Names by enum engine_convolution: "auto", "direct", "winograd"; ended by NULL. */
extern const char *const engine_convolution_words[];

/* Returns true if the engine `name` computes nothing (device_i.blank); false for unknown names. */
bool engine_is_blank(const char *name);

/* Calls engine_i.processor of the engine `name`; "" if the engine or this function is missing. */
void engine_processor(const char *name, char words[ENGINE_PROCESSOR_WORDS]);

/* Calls engine_i.fuses; false if that is NULL. */
bool engine_fuses(const struct engine *engine, enum op_kind kind, enum op_kind next);

/* Creates an op, and chooses the layouts of its tops. Fails where args are not what the operator
 * takes, or where the engine cannot make the op; the message names the layer. */
int engine_op_create(struct engine *engine, const struct op_args *args, struct op **out);

/* Calls engine_i.describe; "" if that is NULL or there is no op. */
void engine_describe(const struct engine *engine, const struct op *op, char words[ENGINE_OP_WORDS]);

/* Returns the operator's name, for messages. */
const char *op_kind_name(enum op_kind kind);

static inline int op_forward(struct op *op, const struct pass *pass)
{
    return op->i->forward(op, pass);
}

static inline int op_backward(struct op *op, const struct pass *pass)
{
    assert(op->i->backward); /* ops of TEST nets have no backward */
    return op->i->backward(op, pass);
}

static inline void op_destroy(struct op *op)
{
    if (op)
        op->i->destroy(op);
}

#endif
