/* The engine: memory and operators of one device.
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

#include "engine/ops.h"
#include "engine/rule.h"
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

/* How gradients are written in fewer bits (engine/codec.h). */
enum engine_code { ENGINE_BF16, ENGINE_ONEBIT };

/* `rows` pieces of `width` floats each: on the host and in the engine's memory, at their own
 * strides (in floats; they do not matter for one row). Where the engine's memory is the host's,
 * `host` and `memory` may be the same place. */
struct engine_rows {
    float *host;
    size_t host_stride;
    float *memory;
    size_t stride;
    size_t width, rows;
};

/* The gradient of a weight, m x n, from `parts` passes of k rows each: left' right of each pass,
 * added up over the passes by the tree of engine/tree_sum.h. All plain engine memory, the passes'
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

/* One copy under way; of several that share a ticket, ready and order speak of the last. */
struct engine_ticket;

/* When work in the engine's memory begins. */
enum engine_turn {
    ENGINE_IN_TURN, /* when every op that was run so far is over */
    ENGINE_STORED,  /* when all that was stored so far, and updated after it, is over: beside the
                       computation, which does not use that memory meanwhile */
};

enum engine_direction {
    ENGINE_FETCH,  /* from the engine's memory to the host's */
    ENGINE_STORE,  /* from the host's to the engine's */
    ENGINE_WITHIN, /* from rows->memory to rows->host, which is the engine's as well; in turn */
};

/* Copies between the host's memory and the engine's. Every engine has all of these functions, so
 * that whoever moves parameters and gradients need not ask where they are.
 *
 * Copies run beside the computation; a ticket says when one is over. Any thread may call these,
 * each ticket from one thread at a time. All return 0, or -1 with a message. Not collective.
 *
 * Where the engine works in the host's memory (engine_host_copies), a copy is over when its
 * function returns, rows that are to be copied onto themselves are left alone, and there are no
 * tickets: ticket_create gives NULL, which every function takes. */
struct engine_copies_i {
    /* The calling thread is going to hand the engine's memory to a library that reaches it by
     * itself. */
    int (*enter)(void *context);
    /* Host memory that copies reach fast (page-locked where that matters), zeroed, aligned to a
     * cache line. The caller's until host_free; host_free of NULL is fine. `what` it is for, in a
     * message. */
    int (*host_alloc)(void *context, size_t bytes, const char *what, void **out);
    void (*host_free)(void *context, void *memory);
    int (*ticket_create)(void *context, struct engine_ticket **out);
    void (*ticket_destroy)(void *context, struct engine_ticket *ticket);
    /* Begins when its turn has come. What is run later must not touch that memory before the copy
     * is over: order sees to it, and comes by itself within the engine's memory. No rows: the
     * ticket only says when what comes before is over. */
    int (*copy)(void *context, enum engine_direction direction, const struct engine_rows *rows,
                enum engine_turn turn, struct engine_ticket *ticket);
    /* Whether the ticket's last copy is over: 1, 0, or -1 with a message. Does not wait. */
    int (*ready)(void *context, struct engine_ticket *ticket);
    /* Whatever is run from now on begins after the ticket's copy; the host does not wait. */
    int (*order)(void *context, struct engine_ticket *ticket);
};

/* Copies of engines that work in the host's memory. They use no context. */
extern const struct engine_copies_i engine_host_copies;

/* What an engine does for others in its own memory. Every slot is optional; NULL: the host does it
 * (of what lies in its memory, or is fetched to it). update, sumsq and encode may be called by any
 * thread. All return 0, or -1 with a message. Not collective. */
struct engine_services_i {
    /* The solver's rule (rule_update) on n elements of engine memory; history: one or two blocks,
     * `stride` apart. Engines that compute nothing (engine_i.blank) let the time pass that it
     * takes, and touch nothing. ENGINE_IN_TURN is the compute thread's, which may have helpers. */
    int (*update)(void *context, const struct engine_update *update, float *value,
                  const float *grad, float *history, size_t stride, size_t n,
                  enum engine_turn turn);
    /* Sum of (scale x)^2 over n elements of engine memory. Comes after every op that was run so
     * far; waits. */
    int (*sumsq)(void *context, const float *x, float scale, size_t n, double *out);
    /* Within the engine's memory: rows x n floats in fewer bits, those that the host would write.
     * The computation goes on, and what is fetched in the same turn from now on comes after it.
     * residual, out: as the codec of that code has them
     * (engine/codec.h). */
    int (*encode)(void *context, enum engine_code code, const float *x, float *residual,
                  size_t rows, size_t n, void *out, enum engine_turn turn,
                  struct engine_ticket *ticket);
    /* For a data layer, at its build: a batch of images that is turned into values on the device,
     * to the bits that the host would give. Chooses the layout of `top`, as creating an op does.
     * The three come together. */
    int (*images_create)(void *context, const struct engine_images_args *args, struct blob *top,
                         struct engine_images **out);
    void (*images_destroy)(void *context, struct engine_images *images);
    /* pixels: batch x channels x height x width, cut out but not turned; one window per image. Both
     * may be changed when this returns. Takes its turn among the ops. */
    int (*images_write)(void *context, struct engine_images *images, struct tensor *top,
                        const uint8_t *pixels, const struct engine_window *windows);
};

/* update, sumsq and encode of engines that work in the host's memory, over when they return. They
 * use no context. */
extern const struct engine_services_i engine_host_services;
int engine_host_sumsq(void *context, const float *x, float scale, size_t n, double *out);
int engine_host_encode(void *context, enum engine_code code, const float *x, float *residual,
                       size_t rows, size_t n, void *out, enum engine_turn turn,
                       struct engine_ticket *ticket);

/* What elements of another program's arrays are: float, half precision, the upper half of a float.
 */
enum element_type { ELEMENT_FLOAT32, ELEMENT_FLOAT16, ELEMENT_BFLOAT16 };

/* What an engine offers to a program whose arrays and streams are its own. Compute thread. All
 * return 0, or -1 with a message. Not collective. */
struct engine_guest_i {
    /* n elements of the program's array become floats of the engine's memory (expand), or floats
     * its elements (take), as engine/codec.h has both; in turn. from NULL: zeros. */
    int (*expand)(void *context, enum element_type type, const void *from, size_t n, float *to);
    int (*take)(void *context, enum element_type type, const float *from, size_t n, void *to);
    /* Of engines with own_memory; else NULL. Which device the memory is of, as
     * engine_options.device has it; fails where a device has none of it. */
    int (*locate)(const void *memory, int *device);
    /* What is run from now on comes after what the stream was asked for so far (NULL: the default
     * stream); or the other way round. The host does not wait. */
    int (*follow)(void *context, void *stream);
    int (*precede)(void *context, void *stream);
};

enum { ENGINE_TEAM_ID = 128 };

/* What an engine offers whose device and those of other ranks of its machine add up among
 * themselves, as a team. All its ranks ask for the same operations in the same order. An operation
 * takes its turn among what is stored: it comes after what was stored before, and what is
 * ENGINE_STORED comes after it. It is over when all ranks
 * have asked for it; the host never waits. One thread at a time. */
struct engine_team_i {
    /* The library in words ("NCCL 2.28.9"); fails with what is missing. */
    int (*library)(char *words, size_t size);
    /* What rank 0 hands to all ranks for open. */
    int (*identify)(void *context, char id[ENGINE_TEAM_ID]);
    /* Joins the ranks, which have a device each, and lets them add up once. Lasts until the engine
     * is closed, by all ranks. Collective. */
    int (*open)(void *context, const char id[ENGINE_TEAM_ID], int rank, int nranks);
    /* The sum of all ranks' x, n elements of engine memory, takes the place of rank 0's. Begins
     * after the ticket's copy; NULL: there is none. */
    int (*reduce)(void *context, float *x, size_t n, struct engine_ticket *after);
    /* Rank 0's x takes the place of all others'. */
    int (*broadcast)(void *context, float *x, size_t n);
    /* -1 with a message where something went wrong since, here or at another rank. */
    int (*check)(void *context);
    /* What is under way ends now, and means nothing: others may never come to it. The last call. */
    void (*abort)(void *context);
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
    bool blank; /* computes nothing: blobs have no memory, values mean nothing and are not worth
                   initialising, testing or saving */
    int (*open)(const struct engine_options *options, void **context);
    void (*close)(void *context);
    /* Device memory, zeroed, aligned for the library; free(NULL) is fine. */
    int (*alloc)(void *context, size_t bytes, const char *what, void **out);
    void (*free)(void *context, void *memory);
    /* Bytes that alloc could still give; for messages. NULL: not known. */
    size_t (*room)(void *context);
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
    /* C = alpha op(A) op(B) + beta C, all plain row-major engine memory: C is m x n, inner size k.
     */
    int (*gemm)(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                float *c, int64_t ldc);
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
    /* The device in words ("NVIDIA H200, device 0") and, in identity, what no other device in the
     * world shares. NULL: computes on the host's processors. */
    const char *(*device)(void *context, char identity[64]);
    /* What the last bits of ops depend on beside their inputs: the processor, as far as the engine
     * and its library look at it, and the library. NULL where engine_options.steady means nothing.
     */
    void (*processor)(char words[ENGINE_PROCESSOR_WORDS]);
    /* Every op run so far is over when this returns; for timing. NULL: ops are over when they
     * return. */
    int (*finish)(void *context);
    /* The host cannot address the engine's memory, and ops return before their work is done. false:
     * alloc gives the host's memory; values, gradients and factors may be touched directly. */
    bool own_memory;
    const struct engine_copies_i *copies;     /* never NULL */
    const struct engine_services_i *services; /* never NULL; its slots may be */
    const struct engine_graph_i *graph;       /* NULL: nothing can be recorded */
    const struct engine_team_i *team;         /* with own_memory; NULL: this build has none */
    const struct engine_guest_i *guest;       /* NULL: no other program's arrays */
};

struct engine {
    const struct engine_i *i;
    void *context;
};

struct owner;

/* As i->alloc, and i->copies->host_alloc, which for no engine is plain zeroed memory: freed with
 * all else that the owner has. NULL with a message. */
void *engine_own(const struct engine *engine, struct owner *owner, size_t bytes, const char *what);
void *engine_own_host(const struct engine *engine, struct owner *owner, size_t bytes,
                      const char *what);

/* Memory of the host, copies, rules and products by one thread, and no operators: what
 * communication needs of an engine where nothing else computes. Of no library; not by name. One
 * product at a time.
 */
extern const struct engine_i engine_host;

/* Opens the engine of that name ("cpu", "replay"); fails with the list of engines this build has.
 */
int engine_open(const char *name, const struct engine_options *options, struct engine *out);
void engine_close(struct engine *engine);

/* By enum engine_math: "auto", "fp32", "tf32", "bf16"; ended by NULL, as util/choice.h has it. */
extern const char *const engine_math_words[];

/* By enum engine_convolution: "auto", "direct", "winograd"; ended by NULL. */
extern const char *const engine_convolution_words[];

/* Whether the engine of that name computes nothing (engine_i.blank); false for unknown names. */
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
