/* Shapes, tensors, blobs and parameters: the data that layers, engines and syncers share.
 *
 * A blob's memory layout belongs to the engine (oneDNN's nChw8c, cuDNN's NHWC, ...): the op that
 * produces a blob chooses it, consumers adapt. A parameter's layout is always plain row-major in
 * Caffe's shape, in every engine: parameters travel, are updated, hashed and saved in this layout,
 * and all ranks agree on it by construction. Ops keep private reordered copies of weights where
 * their library wants another layout, and renew a copy when the parameter's version changes. */
#ifndef POSEIDON_ENGINE_TENSOR_H
#define POSEIDON_ENGINE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPE_MAX_AXES 12

struct shape {
    int naxes;                   /* 0 for a scalar */
    int64_t dim[SHAPE_MAX_AXES]; /* Caffe's order: N, C, H, W */
};

struct tensor {
    struct shape shape;  /* logical */
    void *layout;        /* the engine's description; NULL: plain row-major. Owned by the engine's
                            op that chose the layout; engine_i.release frees it */
    size_t bytes;        /* size of `data` in this layout, padding included */
    bool padded;         /* the layout has padding, which must stay 0 */
    struct tensor *base; /* tensor whose memory this tensor shares (Split, Flatten, ...); NULL:
                            none */
    float *data; /* device memory, floats or what the layout says; placed by the net after all ops
                    were created. Ops read this field when they run, never keep the pointer */
};

struct blob {
    const char *name; /* borrowed from the net's definition */
    struct tensor value;
    struct tensor grad; /* same shape and layout as value; data only where wants_grad */
    bool wants_grad;    /* a parameter below needs this blob's gradient, or the blob is a loss */
    bool kept;          /* memory of its own, so that values last until the next pass (net_keep) */
};

struct param {
    struct shape shape;
    float *value; /* plain row-major, a slice of the net's value arena (device memory) */
    float *grad;  /* plain row-major, a slice of the net's gradient arena; NULL if unwanted */
    float lr_mult, decay_mult;
    bool statistic;   /* measured by forward, not learnt (BatchNorm's running sums): lr_mult is 0,
                         and ranks' values differ until a test or a snapshot averages them */
    bool wants_grad;  /* lr_mult != 0 and a loss depends on it */
    bool accumulate;  /* the next backward adds to grad instead of overwriting it */
    bool factored;    /* weight or bias of an inner product that travels as sufficient factors:
                         backward leaves grad alone, the syncer rebuilds grad */
    uint64_t version; /* goes up when value changes; reordered copies are then stale */
};

/* Count elements; 1 for a scalar. shape_count covers axes [from, to). */
size_t shape_elems(const struct shape *shape);
size_t shape_count(const struct shape *shape, int from, int to);
bool shape_equal(const struct shape *a, const struct shape *b);

/* Builds a shape from `naxes` sizes. Fails (message names `what`) if an axis is negative, there are
 * too many axes, or the product exceeds INT32_MAX, Caffe's limit for a blob. */
int shape_set(struct shape *shape, int naxes, const int64_t *dim, const char *what);

/* Finds the axis, counted from the end if negative; fails if it is out of range. */
int shape_axis(const struct shape *shape, int axis, int *out);

/* Text of a shape, with room for any shape. shape_text(shape).text lasts as long as the expression
 * around it. */
struct shape_text {
    char text[(SHAPE_MAX_AXES + 1) * 24];
};

/* Return "64 1 28 28 (50176)", Caffe's form, and "64 x 1 x 28 x 28" ("" for a scalar). */
struct shape_text shape_text(const struct shape *shape);
struct shape_text shape_product(const struct shape *shape);

/* Returns the size of an axis; 1 beyond the last: Caffe's legacy num/channels/height/width. */
int64_t shape_dim(const struct shape *shape, int axis);

#endif
