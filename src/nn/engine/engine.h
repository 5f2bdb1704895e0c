/* The engine: the operators of one device (device/device.h).
 *
 * A layer never asks which engine it runs on. It fills an op_args, the engine makes an op of it,
 * and the op runs forward and backward on the blobs it was made for. Everything is created once, at
 * set-up: running an op allocates nothing. The CPU engine (oneDNN) is the specification of the
 * others.
 *
 * Order of set-up: ops are created bottom-up. Creating an op chooses the layout of its tops
 * (value.layout, value.bytes, value.base, and the same for grad) given the layouts of its bottoms.
 * A top may be based on the bottom it was made from: the value where the op only passes it on, the
 * gradient where backward can write the bottom's over the top's. When all ops exist, the net places
 * the data pointers. An op runs only after that. */
#ifndef POSEIDON_ENGINE_ENGINE_H
#define POSEIDON_ENGINE_ENGINE_H

#include "device/device.h"
#include "engine/ops.h"
#include "engine/tensor.h"

#include <assert.h>

/* An operator's own arguments; conv: of OP_CONV, OP_DECONV, OP_IM2COL. */
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
    const char *layer; /* name for messages, borrowed for the op's life */
    const char *with;  /* a layer whose work this op does, too, likewise; NULL: none */
    bool relu;         /* with a fused ReLU (ops.h), of a convolution with a bias, a sum, or a batch
                          normalization */
    int layer_index;   /* key of the random generator */
    int nbottoms, ntops, nparams;
    struct blob **bottoms,
        **tops;            /* arrays and blobs outlive the op. tops[0] == bottoms[0]: in place */
    struct param **params; /* outlive the op */
    const bool *propagate; /* per bottom: backward writes its gradient. Outlives the op */
    union op_own_args u;
};

/* What changes from one pass to the next. */
struct pass {
    uint64_t seed;
    uint64_t
        first_sample; /* global index, over the whole run, of this rank's first sample in this
                         pass; sample n of the batch is first_sample + n. Key of dropout masks */
};

struct op;

struct op_i {
    /* Reads bottoms' values, writes all of tops' values, and touches no gradient of a blob: blobs
     * that do not live at the same time lie in the same memory, which forward finds in any state.
     */
    int (*forward)(struct op *op, const struct pass *pass);
    /* Reads tops[]->grad (and may overwrite it: nobody reads it afterwards, except an inner
     * product's, which stays intact until its factors were sent), writes all of bottoms[i]->grad
     * where propagate[i] and params' grad where wanted. Changes no values; tops' only where the
     * layer says that it keeps them does it read. NULL: the op has no backward. */
    int (*backward)(struct op *op, const struct pass *pass);
    void (*destroy)(struct op *op);
};

/* What one pass of an operator is, by its definition, however an engine computes it: what a time is
 * measured by. */
struct op_work {
    double flops;       /* a multiply-add counts as 2 */
    double blob_bytes;  /* of blobs, read and written: anew at each reading that the formulas need
                           the whole blob for, so that nothing counts as cached */
    double param_bytes; /* the same of parameters and their gradients */
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
                     CPU: operands of convolutions and inner products, rounded for each product;
                     sums and all that is kept stay single */
};

/* How the CPU engine computes convolutions. */
enum engine_convolution {
    CONVOLUTION_AUTO,     /* by the algorithm that is faster, which the shape alone decides */
    CONVOLUTION_DIRECT,   /* every product and sum of the definition */
    CONVOLUTION_WINOGRAD, /* by Winograd's algorithm wherever it can be, else direct */
};

struct engine_options {
    int threads;         /* compute threads of this rank; 0: the engine's default */
    const char *profile; /* replay: the file of times (engine/replay/profile.h); others ignore it */
    int dilate;          /* replay: what the wire's bytes are divided by, > 1; else 0 */
    enum engine_convolution convolution; /* CPU */
    bool steady;    /* CPU: the same bits at any number of threads: each sum is one thread's */
    bool no_fusion; /* every layer is an operator of its own */
    int passes;     /* CPU: over the same parameters in training (iter_size); 0: one. Of several
                       and in TEST, ops keep parameters as they lay them out */
    enum engine_math math;
    bool float_products; /* CPU, MATH_BF16, for tests: rounded operands stay floats, which any
                            processor multiplies */
    /* What follows is for engines with devices of their own; the CPU engine reads none of it. */
    size_t workspace; /* the most temporary memory one operator may take; 0: the engine's default */
    int device;       /* which device, counted over those visible, modulo their number: the rank's
                         number on its node */
    bool deterministic; /* the same bits at every run */
    bool no_graphs;     /* passes are not recorded: every op is launched by itself */
};

/* The gradient of a weight, m x n, from `parts` passes of k rows each: left' right of each pass,
 * added up over the passes by the tree of device/tree_sum.h. All plain engine memory, the passes'
 * rows one behind the other. */
struct engine_products {
    const float *left, *right; /* rows of m, and of n */
    int parts;
    int64_t k, m, n;
    float *out;
};

/* What is cut out of an image, and whether it is turned left to right. */
struct engine_window {
    int32_t top, left;   /* in the image that the mean has the size of */
    int32_t mirror;      /* 0 or 1 */
    const float *values; /* what the host made already of an image of floats among those of bytes;
                            NULL: there is none. Engines in the host's memory alone are given it */
};

/* How bytes of images become values: (x - mean) * scale. */
struct engine_images_args {
    int64_t channels, height, width; /* of what is cut out: of bytes and values */
    const float *mean; /* of the window's place; channels x mean_height x mean_width, or NULL */
    int64_t mean_height, mean_width;
    const float *channel_mean; /* one per channel, or NULL; never both. Both are lent for as
                                  long as images are written */
    float scale;
};

struct engine_images; /* the engine's own */

/* Batches of images that become values on the device, to the bits that the host would give. For a
 * data layer, at its build. All return 0, or -1 with a message. Not collective. */
struct engine_images_i {
    /* Chooses the layout of `top`, as creating an op does. */
    int (*create)(void *context, const struct engine_images_args *args, struct blob *top,
                  struct engine_images **out);
    void (*destroy)(void *context, struct engine_images *images);
    /* pixels: batch x channels x height x width, cut out but not turned; one window per image. Both
     * may be changed when this returns. Takes its turn among the ops. */
    int (*write)(void *context, struct engine_images *images, struct tensor *top,
                 const uint8_t *pixels, const struct engine_window *windows);
};

struct engine_graph; /* ops that were recorded, with all that they read of the host but `pass` */

/* What an engine offers that can record ops and launch them again as one. Compute thread only. */
struct engine_graph_i {
    bool (*available)(void *context);
    /* Before a pass: ops that are recorded or launched from now on take `pass` from here. */
    int (*prepare)(void *context, const struct pass *pass);
    /* Ops that are run between the two are recorded and do nothing yet. end is called even if one
     * of them failed; it fails where the recording did. */
    int (*begin)(void *context);
    int (*end)(void *context, struct engine_graph **out);
    /* Takes its turn among the ops. 1: the engine's memory has moved since it was recorded; nothing
     * ran. */
    int (*launch)(void *context, struct engine_graph *graph);
    void (*destroy)(void *context, struct engine_graph *graph);
};

enum { ENGINE_OP_WORDS = 48, ENGINE_PROCESSOR_WORDS = 256 };

struct engine_i {
    const char *name;
    /* The memory that the engine works in. Its functions take the engine's context. */
    const struct device_i *device;
    int (*open)(const struct engine_options *options, void **context);
    void (*close)(void *context);
    /* Host, plain row-major, in the tensor's shape <-> the tensor in its layout. */
    int (*write)(void *context, struct tensor *to, const float *from);
    int (*read)(void *context, const struct tensor *from, float *to);
    /* Frees tensor->layout (not its data); the tensor is plain again. */
    void (*release)(void *context, struct tensor *tensor);
    /* Whether the operator can do the work of a `next` in place behind it (OP_CONCAT: before it),
     * too, in one pass over memory (engine/ops.h says of which operators that can be asked). NULL:
     * of none. */
    bool (*fuses)(void *context, enum op_kind kind, enum op_kind next);
    /* Called by engine_op_create alone: the engine has the operator, and args have passed op_check
     * (engine/op_check.h). */
    int (*op_create)(void *context, const struct op_args *args, struct op **out);
    /* A product of square matrices as operators compute it, for whoever measures: of operands of
     * engine_options.math, whose bits a and b hold. NULL: gemm is one. */
    int (*multiply)(void *context, int size, const float *a, const float *b, float *c);
    /* The plain (rows x columns) input and top gradient that an inner product op saw in its last
     * forward and backward: the sufficient factors. Valid until its next forward. `op` must be
     * OP_INNER_PRODUCT. bottom: rows x K, top: rows x O. */
    void (*factors)(struct op *op, const float **bottom, const float **top_grad);
    /* Of the factors that an inner product op saw in as many passes as engine_options say. The bits
     * do not depend on the threads, nor on how the passes' tree is dealt. NULL where
     * engine_options.steady means nothing. */
    int (*sum_products)(void *context, const struct engine_products *products);
    /* How the op is computed, in words, where that was a choice ("Winograd"); else "".
     * NULL: never. */
    void (*describe)(const struct op *op, char words[ENGINE_OP_WORDS]);
    /* Bytes of the engine's own: the temporary memory that all ops share, and the parameters that
     * ops keep laid out. NULL: not known. */
    size_t (*held)(void *context);
    /* What the last bits of ops depend on beside their inputs: the processor, as far as the engine
     * and its library look at it, and the library. NULL where engine_options.steady means nothing.
     */
    void (*processor)(char words[ENGINE_PROCESSOR_WORDS]);
    const struct engine_images_i *images; /* NULL: the host makes values of images */
    const struct engine_graph_i *graph;   /* NULL: nothing can be recorded */
};

struct engine {
    const struct engine_i *i;
    void *context;
    struct device device; /* i->device with the same context */
};

/* Opens the engine of that name ("cpu", "replay"); fails with the list of engines this build has.
 */
int engine_open(const char *name, const struct engine_options *options, struct engine *out);
void engine_close(struct engine *engine);

/* By enum engine_math: "auto", "fp32", "tf32", "bf16"; ended by NULL, as util/choice.h has it. */
extern const char *const engine_math_words[];

/* By enum engine_convolution: "auto", "direct", "winograd"; ended by NULL. */
extern const char *const engine_convolution_words[];

/* Whether the engine of that name computes nothing (device_i.blank); false for unknown names. */
bool engine_is_blank(const char *name);

/* engine_i.processor of that engine; "": nothing is known. */
void engine_processor(const char *name, char words[ENGINE_PROCESSOR_WORDS]);

/* engine_i.fuses. */
bool engine_fuses(const struct engine *engine, enum op_kind kind, enum op_kind next);

/* Makes an op, and chooses the layouts of its tops. Fails where args are not what the operator
 * takes, or where the engine cannot make it; the message names the layer. */
int engine_op_create(struct engine *engine, const struct op_args *args, struct op **out);

/* engine_i.describe; "" where the engine has nothing to say or there is no op. */
void engine_describe(const struct engine *engine, const struct op *op, char words[ENGINE_OP_WORDS]);

/* Name of the operator, for messages. */
const char *op_kind_name(enum op_kind kind);

static inline int op_forward(struct op *op, const struct pass *pass)
{
    return op->i->forward(op, pass);
}

static inline int op_backward(struct op *op, const struct pass *pass)
{
    assert(op->i->backward); /* TEST nets have none */
    return op->i->backward(op, pass);
}

static inline void op_destroy(struct op *op)
{
    if (op)
        op->i->destroy(op);
}

#endif
