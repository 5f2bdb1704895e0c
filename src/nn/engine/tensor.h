/* Shapes, tensors, blobs and parameters: the data that layers, engines and syncers share.
 *
 * A blob's memory layout belongs to the engine (oneDNN's nChw8c, cuDNN's NHWC, ...): the op that
 * produces a blob chooses it, consumers adapt. A parameter's layout is always plain row-major in
 * Caffe's shape, whatever the engine: it is what travels, is updated, hashed and saved, and all
 * ranks agree on it by construction. Ops keep private re-laid copies of weights where their library
 * wants one, and renew them when the parameter's version changes. */
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
                            op that chose it through the engine (engine_tensor_release frees it) */
    size_t bytes;        /* what `data` must hold in this layout, padding included */
    struct tensor *base; /* shares that tensor's memory (Split, Flatten, ...); NULL: has its own */
    float *data; /* engine memory; placed by the net after all ops were created. Ops read this
                    field when they run, never keep the pointer */
};

struct blob {
    const char *name; /* borrowed from the net's definition */
    struct tensor value;
    struct tensor grad; /* same shape and layout as value; data only where wants_grad */
    bool wants_grad;    /* a parameter below needs this blob's gradient, or it is a loss */
    bool kept;          /* shares its memory with none that lives at another time (net_keep) */
};

struct param {
    struct shape shape;
    float *value; /* plain row-major, a slice of the net's value arena (engine memory) */
    float *grad;  /* plain row-major, a slice of the net's gradient arena; NULL if unwanted */
    float lr_mult, decay_mult;
    bool statistic;  /* measured by forward, not learnt (BatchNorm's running sums): lr_mult is 0 and
                        the ranks' values differ; whoever tests or saves averages them first */
    bool wants_grad; /* lr_mult != 0 and a loss depends on it */
    bool accumulate; /* the next backward adds to grad instead of overwriting it */
    bool factored;   /* weight or bias of an inner product that travels as sufficient factors:
                        backward leaves grad alone, the syncer rebuilds it */
    uint64_t version; /* goes up whenever value changed: re-laid copies are then stale */
};

/* Number of elements; 1 for a scalar. shape_count covers axes [from, to). */
size_t shape_elems(const struct shape *shape);
size_t shape_count(const struct shape *shape, int from, int to);
bool shape_equal(const struct shape *a, const struct shape *b);

/* Builds a shape from `naxes` sizes. Fails (message names `what`) where an axis is negative, there
 * are too many axes, or the product exceeds INT32_MAX, Caffe's limit for a blob. */
int shape_set(struct shape *shape, int naxes, const int64_t *dim, const char *what);

/* axis counted from the end when negative; fails where it is out of range. */
int shape_axis(const struct shape *shape, int axis, int *out);

/* Written as shape_text(shape).text, which lasts as long as the expression that it stands in. Room
 * for any shape. */
struct shape_text {
    char text[(SHAPE_MAX_AXES + 1) * 24];
};

/* "64 1 28 28 (50176)", Caffe's form; and "64 x 1 x 28 x 28", "" of a scalar. */
struct shape_text shape_text(const struct shape *shape);
struct shape_text shape_product(const struct shape *shape);

/* Axis i, 1 where the shape is shorter: Caffe's legacy num/channels/height/width. */
int64_t shape_dim(const struct shape *shape, int axis);

#endif
