/* The operators: what each computes, forward and backward. Every engine implements this table; the
 * CPU engine is its specification, and tests/layers/layer_values and
 * tests/engine/engine_conformance compare engines with it.
 *
 * Notation: x are bottoms, y tops, dx and dy their gradients, w parameters, dw theirs. A "sum" over
 * a batch has a fixed order and at least the accuracy of double partial sums. The layer sets the
 * tops' shapes, and op_check refuses wrong shapes. Backward writes dx only where propagate says so,
 * and adds to dw where the parameter says accumulate. NaN inputs give NaN outputs: comparisons
 * below are written so that this holds unless said otherwise. */
#ifndef POSEIDON_ENGINE_OPS_H
#define POSEIDON_ENGINE_OPS_H

#include "engine/tensor.h"

/* All operators, one line each: X(ENUM, name, words, ARGS, LOSS or NONE). OP_ENUM is the
 * enumerator, op_signature_NAME (engine/op_check.h) the signature, ENGINE_NAME an engine's
 * implementation, and words the name in messages. ARGS: op_args.u.NAME is a struct NAME_args,
 * below; LOSS: a struct loss_args; NONE: no member. This list makes all other tables of operators.
 */
/* clang-format off */
#define OPERATORS(X)                                                \
    X(CONV, conv, "convolution", ARGS)                              \
    X(INNER_PRODUCT, inner_product, "inner product", ARGS)          \
    X(POOL, pool, "pooling", ARGS)                                  \
    X(RELU, relu, "ReLU", ARGS)                                     \
    X(LRN, lrn, "LRN", ARGS)                                        \
    X(DROPOUT, dropout, "dropout", ARGS)                            \
    X(SOFTMAX, softmax, "softmax", ARGS)                            \
    X(SOFTMAX_LOSS, softmax_loss, "softmax loss", LOSS)             \
    X(ACCURACY, accuracy, "accuracy", ARGS)                         \
    X(CONCAT, concat, "concat", ARGS)                               \
    X(SPLIT, split, "split", NONE)                                  \
    X(FLATTEN, flatten, "flatten", NONE)                            \
    X(ELTWISE, eltwise, "eltwise", ARGS)                            \
    X(BATCH_NORM, batch_norm, "batch normalization", ARGS)          \
    X(SCALE, scale, "scale", ARGS)                                  \
    X(UNARY, unary, "unary function", ARGS)                         \
    X(PRELU, prelu, "PReLU", ARGS)                                  \
    X(SLICE, slice, "slice", ARGS)                                  \
    X(CROP, crop, "crop", ARGS)                                     \
    X(TILE, tile, "tile", ARGS)                                     \
    X(REDUCE, reduce, "reduction", ARGS)                            \
    X(ARGMAX, argmax, "argmax", ARGS)                               \
    X(MVN, mvn, "MVN", ARGS)                                        \
    X(IM2COL, im2col, "im2col", NONE)                               \
    X(DECONV, deconv, "deconvolution", NONE)                        \
    X(EMBED, embed, "embed", ARGS)                                  \
    X(SILENCE, silence, "silence", NONE)                            \
    X(PARAMETER, parameter, "parameter", NONE)                      \
    X(BATCH_REINDEX, batch_reindex, "batch reindex", NONE)          \
    X(SHUFFLE, shuffle, "channel shuffle", ARGS)                    \
    X(INTERP, interp, "interp", ARGS)                               \
    X(SPP, spp, "SPP", ARGS)                                        \
    X(UPSAMPLE, upsample, "upsample", NONE)                         \
    X(SIGMOID_LOSS, sigmoid_loss, "sigmoid loss", LOSS)             \
    X(EUCLIDEAN_LOSS, euclidean_loss, "Euclidean loss", NONE)       \
    X(HINGE_LOSS, hinge_loss, "hinge loss", ARGS)                   \
    X(CONTRASTIVE_LOSS, contrastive_loss, "contrastive loss", ARGS) \
    X(INFOGAIN_LOSS, infogain_loss, "infogain loss", LOSS)          \
    X(MULTINOMIAL_LOSS, multinomial_loss, "multinomial loss", NONE)

enum op_kind {
#define OPERATOR_ENUM(ENUM, name, words, args) OP_##ENUM,
    OPERATORS(OPERATOR_ENUM)
#undef OPERATOR_ENUM
    OP_KINDS
};
/* clang-format on */

/* Convolution and pooling go over one to three spatial axes: length; height and width; depth,
 * height and width. Member i of kernel, stride, ... belongs to the blobs' axis 2 + i; members
 * beyond the last axis are ignored. */
enum { OP_SPATIAL = 3 };

struct conv_args {
    int kernel[OP_SPATIAL], stride[OP_SPATIAL], pad[OP_SPATIAL];
    int dilation[OP_SPATIAL]; /* 1 = dense */
    int group;
    bool bias; /* params: weight (O, C/group, kernel...), then bias (O) */
};

struct inner_product_args {
    int axis;  /* the bottom is a matrix: (product of axes before, product of axes from here on) */
    bool bias; /* params: weight (O, K), or (K, O) if transpose; then bias (O) */
    bool transpose;
};

/* STOCHASTIC: Zeiler and Fergus, "Stochastic pooling for regularization of deep convolutional
 * neural networks", 2013. In TRAIN y is an element of its window: the first whose running sum, in
 * reading order and single precision, reaches u times the whole sum (the last element if none does;
 * 0 for an empty window). Elements >= 0 are thus picked in proportion to their values. dx goes to
 * the picked element. u is uniform draw e of the sample's sequence (RNG_POOL); e counts the
 * elements of the sample's top in plain row-major order. In TEST y = sum x^2 / sum x, 0 where sum x
 * is not positive. */
enum pool_method { POOL_MAX, POOL_AVE, POOL_STOCHASTIC };

struct pool_args {
    enum pool_method method;
    /* windows are clipped as in Caffe: MAX to the image, AVE's divisor to [-pad, size + pad).
     * STOCHASTIC has no pad */
    int kernel[OP_SPATIAL], stride[OP_SPATIAL], pad[OP_SPATIAL];
    /* MAX with two tops: the second is the flat index of the maximum in its H x W plane, or its
     * D x H x W volume */
};

struct relu_args {
    float negative_slope;
};

struct lrn_args {
    int local_size;
    float alpha, beta, k;
    bool within_channel; /* k then counts as 1, as in Caffe */
};

struct dropout_args {
    float ratio;
};

struct softmax_args {
    int axis;
};

enum loss_normalization { LOSS_FULL, LOSS_VALID, LOSS_BATCH_SIZE, LOSS_NONE };

/* Arguments of softmax, infogain and sigmoid loss.
 * Softmax: bottoms: scores, labels (floats holding class numbers, N*inner of them); tops: loss
 * (scalar), optionally the probabilities. backward reads the loss weight from tops[0]->grad.
 * smoothing e: the target is 1 - e + e / classes at the label and e / classes elsewhere, as in
 * torch.nn.CrossEntropyLoss (Szegedy et al. 2016, section 7). */
struct loss_args {
    float smoothing; /* softmax loss: 0 to below 1 */
    int axis;        /* unused by sigmoid loss */
    bool has_ignore_label;
    int ignore_label;
    enum loss_normalization normalization;
    const float *matrix; /* infogain loss: plain, host memory, borrowed while the op lives; NULL:
                            bottom 2 */
};

struct accuracy_args {
    int top_k, axis;
    bool has_ignore_label;
    int ignore_label;
    /* tops: accuracy (scalar), optionally per class (classes). No backward. */
};

struct concat_args {
    int axis;
    /* Per bottom: true fuses a ReLU into the copy to the top; the bottom itself stays as it is.
     * Backward then takes dy as 0 where the top is not positive. Borrowed while the op lives; NULL:
     * none. */
    const bool *relu;
};

enum eltwise_operation { ELTWISE_PROD, ELTWISE_SUM, ELTWISE_MAX };

struct eltwise_args {
    enum eltwise_operation operation;
    const float *coeff; /* SUM: one per bottom, borrowed while the op lives; NULL: all 1 */
};

/* A fused ReLU (relu in op_args, or in concat_args) replaces a ReLU that works in place behind the
 * operator. With v the operator's own result, y = v < 0 ? 0 : v; backward takes dy as 0 where v was
 * not positive. The bits are those of the two ops one after the other, unless the engine says
 * otherwise. */

/* Sums of an operator over all ranks. sum: replaces each of the `count` values by its sum over the
 * ranks, to the same bits on all of them; every rank calls it in the same order, on the compute
 * thread, which waits. Borrowed, and lives as long as the op. */
struct op_ranks {
    int (*sum)(void *context, double *values, int count);
    void *context;
};

/* Batch normalisation per channel (axis 1; a bottom of one axis is one channel), with the affine
 * map of a Scale layer behind it in the same pass over memory. M = N*H*W: elements per channel.
 *
 *   params: 0 mean sum (C), 1 variance sum (C), 2 weight of both sums (1): statistics, without
 *           gradient; then gamma (C) if scale, then beta (C) if bias; else gamma 1, beta 0.
 *   global_stats: s = w2; mu = w0 / s, var = w1 / s; both 0 where s is 0.
 *   else: mu = mean of x, var = mean of (x - mu)^2 (biased), over this batch; and forward then does
 *           w2 = fraction w2 + 1, w0 = fraction w0 + mu, w1 = fraction w1 + var * M / (M - 1)
 *           (factor 1 where M is 1), and counts up the versions of all three.
 *   y = gamma (x - mu) r + beta, r = 1 / sqrt(var + eps)
 *   dbeta = sum dy; dgamma = sum dy (x - mu) r
 *   dx = gamma r dy                                                          with global_stats
 *   dx = gamma r (dy - sum(dy) / M - (x - mu) r sum(dy (x - mu) r) / M)      else
 * ranks: mu, var, M and the two sums in dx are over the batches of all ranks, and dy is the
 * gradient of the sum of all ranks' losses; dbeta and dgamma stay sums over the rank's own batch.
 *
 * In place only where `train` is false. */
struct batch_norm_args {
    const struct op_ranks *ranks; /* NULL: this rank's statistics; always with global_stats */
    bool global_stats;
    float fraction, eps;
    bool scale, bias; /* bias only with scale */
};

/* Scale, Bias: y = x g + b. g and b have the shape of x's axes axis .. axis + naxes - 1 and are the
 * same along all other axes. With from_bottom, bottom 1 is g, or b where scale is false. The
 * remaining factors are parameters, in the order g, b. dx = dy g; dg = sum dy x; db = sum dy, over
 * the other axes. In place only where `train` is false. */
struct scale_args {
    int axis, naxes; /* naxes 0: scalars */
    bool scale, bias;
    bool from_bottom; /* bottom 1 is the first factor: g or b */
};

/* y = f(x), with the members a, b, c of unary_args. Each line has the enumerator, the layer's type,
 * and whether y alone gives the derivative: only then may a top be its bottom in training, since
 * backward has y alone. `args` is a pointer to the unary_args. */
/* clang-format off */
#define UNARY_LIST(X)                                                                            \
    X(ABS, "AbsVal", false)      /* |x|; derivative sign(x), 0 at 0 */                           \
    X(BNLL, "BNLL", false)       /* x > 0 ? x + ln(1 + e^-x) : ln(1 + e^x);                      \
                                    derivative e^t / (1 + e^t) with t = min(x, 50) */            \
    X(CLIP, "Clip", false)       /* min(max(x, a), b); derivative 1 where a <= x <= b, else 0 */ \
    X(ELU, "ELU", args->a >= 0)  /* x > 0 ? x : a (e^x - 1); derivative 1, else a e^x = y + a */ \
    X(EXP, "Exp", true)          /* e^(a x + b); derivative a y */                               \
    X(GELU, "GELU", false)       /* x F(x); derivative F(x) + x F'(x); F is the normal           \
                                    distribution, (1 + erf(x / sqrt 2)) / 2, where a is 0, else  \
                                    (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2: Hendrycks   \
                                    and Gimpel, "Gaussian Error Linear Units", 2016 */           \
    X(LOG, "Log", false)         /* c ln(a x + b); derivative c a / (a x + b) */                 \
    X(POWER, "Power", args->c == 1) /* (a x + b)^c, 1 where c is 0;                              \
                                    derivative c a (a x + b)^(c - 1), 0 where c or a is 0 */     \
    X(RELU6, "ReLU6", true)      /* min(max(x, 0), 6); derivative 1 where 0 < y < 6, else 0 */   \
    X(SIGMOID, "Sigmoid", true)  /* 1 / (1 + e^-x); derivative y (1 - y) */                      \
    X(SWISH, "Swish", false)     /* x sigmoid(a x); derivative a y + sigmoid(a x) (1 - a y) */   \
    X(TANH, "TanH", true)        /* tanh x; derivative 1 - y^2 */                                \
    X(THRESHOLD, "Threshold", false) /* x > a ? 1 : 0; no backward */

enum unary_function {
#define UNARY_ENUM(name, type, from_top) UNARY_##name,
    UNARY_LIST(UNARY_ENUM)
#undef UNARY_ENUM
};
#define UNARY_ONE(name, type, from_top) + 1
enum { UNARY_FUNCTIONS = 0 UNARY_LIST(UNARY_ONE) };
#undef UNARY_ONE
/* clang-format on */

struct unary_args {
    enum unary_function function;
    float a, b, c;
};

/* y = x > 0 ? x : w x; one w per channel (axis 1), or one for all.
 * dx = dy where x > 0, else w dy; dw = sum of dy x over x <= 0.
 * In place only where `train` is false. */
struct prelu_args {
    bool shared;
};

/* Tops are consecutive pieces of the bottom along the axis, in sizes given by their shapes. dx is 0
 * in the piece of a top without gradient. */
struct slice_args {
    int axis;
};

/* The top is a window of bottom 0: y[i] = x[i + offset], per axis. dx is 0 outside. Bottom 1, if
 * any, only gives the shape. */
struct crop_args {
    int64_t offset[SHAPE_MAX_AXES];
};

/* The top repeats the bottom's whole axis `tiles` times. dx = sum over the copies. */
struct tile_args {
    int axis, tiles;
};

enum reduce_operation { REDUCE_SUM, REDUCE_ASUM, REDUCE_SUMSQ, REDUCE_MEAN };

/* All axes from `axis` on become one number: y = coeff sum f(x), f = x, |x|, x^2, or x / K for the
 * mean, K the number of elements summed. dx = coeff dy times 1, sign(x) (0 at 0), 2 x, 1 / K. */
struct reduce_args {
    enum reduce_operation operation;
    int axis;
    float coeff;
};

/* The top_k largest along one axis, largest first; of equal values the one with the greater index
 * first (Caffe sorts pairs of value and index); NaN counts as the smallest. With has_axis, the top
 * has the bottom's shape with top_k on that axis and holds indices, or values if out_max_val.
 * Without has_axis, the bottom is seen as (N, D): the top is (N, 1, top_k, 1...) of indices (places
 * within D), or (N, 2, top_k, 1...) of indices and values if out_max_val. No backward. */
struct argmax_args {
    bool has_axis;
    int axis;
    int top_k;
    bool out_max_val;
};

/* Mean and variance normalisation over groups of D consecutive elements: H*W, or C*H*W if across.
 * m = mean, v = mean of (x - m)^2, q = sqrt(v) + eps.
 *   without variance: y = x - m;           dx = dy - mean(dy)
 *   with variance:    y = (x - m) / q;     dx = (dy - mean(dy) - y mean(dy y)) / q
 * The last dx is Caffe's, which treats q as sqrt(v) in the last term. */
struct mvn_args {
    bool variance, across;
    float eps;
};

/* OP_IM2COL: y (N, C*kh*kw, oh, ow) in two dimensions: the windows of x as columns, channel-major,
 * 0 in the padding. dx adds up. The arguments are conv_args; group and bias are unused. */

/* OP_DECONV: the transpose of a convolution from the top's shape to the bottom's. params: weight
 * (C, O/group, kernel...), C channels of the bottom; then bias (O). The arguments are conv_args; an
 * axis of the top has stride (in - 1) + dilation (kernel - 1) + 1 - 2 pad pixels. */

/* y (shape of x, outputs): row x of the weight (rows, outputs), plus bias (outputs). x holds row
 * numbers; an error where there is no such row. params: weight, bias. No gradient to x. */
struct embed_args {
    bool bias;
};

/* OP_FLATTEN: the same elements in the same logical order, in another shape (Flatten, Reshape). */

/* OP_SILENCE: no tops. dx = 0 wherever propagate asks. */

/* OP_PARAMETER: no bottom; y = w, dw = dy. */

/* OP_BATCH_REINDEX: y[i] = x[index[i]] along axis 0, index = bottom 1, values 0 .. N-1 or an error.
 * dx adds up over all i with that index. */

/* Channels (axis 1) as a matrix of `group` rows, transposed: channel j * group + i of the top is
 * channel i * (C / group) + j of the bottom. dx is the inverse. */
struct shuffle_args {
    int group;
};

/* Bilinear resize of axes 2 and 3 with corners aligned, after cutting `crop` rows and columns from
 * the begin and end of the bottom: source = target (in - 1) / (out - 1), 0 where out is 1; the next
 * sample is weighted by the fraction, and clamped at the end. dx is the transpose. */
struct interp_args {
    int crop_begin, crop_end; /* >= 0; the same for both axes */
};

/* Spatial pyramid: level l of `levels` pools each channel into 2^l x 2^l bins: kernel = stride =
 * ceil(size / bins) per axis, pad = (kernel bins - size + 1) / 2 (integer division), windows as in
 * pool_args. The top is (N, sum over levels of C 4^l), each level's C x bins x bins in a row. */
struct spp_args {
    enum pool_method method;
    int levels;
};

/* OP_UPSAMPLE undoes MAX pooling. Bottoms: x, and the places of maxima, of x's shape. y has x's
 * samples and channels, and any spatial sizes. In each plane y[place[i]] = x[i], and 0 elsewhere;
 * the last i of a place counts, and a place of -1 is none. dx[i] = dy[place[i]], as in SegNet also
 * for an i that does not count. A place that is no pixel of the plane is an error. */

/* All losses: y is one number, the divisor D is at least 1; dx = dy (the loss weight) times the
 * derivative. Labels get no gradient. */

/* OP_SIGMOID_LOSS, with loss_args. Bottoms: x and targets t of one shape.
 * y = -sum (x (t - [x >= 0]) - ln(1 + e^(x - 2 x [x >= 0]))) / D;
 * dx = (sigmoid(x) - t) / D; elements whose t, truncated to an integer, is ignore_label count in
 * neither. D: FULL all elements, VALID those not ignored, BATCH_SIZE axis 0, NONE 1. */

/* OP_EUCLIDEAN_LOSS: two bottoms of one shape; y = sum (x0 - x1)^2 / (2 N), N = axis 0;
 * dx0 = (x0 - x1) / N = -dx1. */

/* Hinge loss: scores (N, D), D all axes after the first, and one label per row. m = max(0, 1 + x),
 * where x is negated at the label. L1: y = sum m / N, dx = sign(m) / N; L2: y = sum m^2 / N, dx = 2
 * m / N; dx is negated at the label. */
struct hinge_loss_args {
    bool l2;
};

/* Contrastive loss: features a and b (N, C), similar (N; truncated to an integer, not 0: similar).
 * d2 = sum over C of (a - b)^2, d = sqrt(d2).
 *   similar:  d2;  da = (a - b) / N
 *   else:     max(margin - d, 0)^2;  da = -(margin - d) / (d + 1e-4) (a - b) / N where margin > d
 *   legacy:   max(margin - d2, 0);   da = -(a - b) / N where margin > d2
 * y = sum / (2 N); db = -da. */
struct contrastive_loss_args {
    float margin;
    bool legacy;
};

/* OP_INFOGAIN_LOSS: scores, labels as in softmax loss, and a matrix H (classes x classes): bottom
 * 2, or loss_args.matrix.
 * p = softmax; y = -sum over k of H[label, k] ln max(p_k, 1e-20), / D;
 * dx_k = (p_k sum_j H[label, j] - H[label, k]) / D. Tops: loss, optionally p. D as for softmax
 * loss. */

/* OP_MULTINOMIAL_LOSS: probabilities (N, D) and one label per row:
 * y = -sum ln max(p[label], 1e-20) / N;
 * dx = -1 / (N max(p[label], 1e-20)) at the label, else 0. */

#endif
