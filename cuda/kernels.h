/* The kernels, as the C files of the CUDA engine see them: each call launches on a stream and
 * returns what the launch said.
 *
 * Indices are 32 bits wide: no blob has more than INT32_MAX elements, and 64-bit divisions are
 * slow. None uses atomics, and all add in one fixed order: the same bits at every run. Activations
 * come in two element types (enum cuda_type); kernels compute in float. */
#ifndef POSEIDON_CUDA_KERNELS_H
#define POSEIDON_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_type { CUDA_F32, CUDA_BF16 };

/* ---- layout.cu ---- */

/* A tensor of outer x rows x columns elements becomes outer x columns x rows, in another type if
 * asked: NCHW to NHWC with rows = C, columns = H W, and back with the two exchanged. rows 1: a
 * copy. */
cudaError_t kernel_transpose(cudaStream_t stream, enum cuda_type from_type, const void *from,
                             enum cuda_type to_type, void *to, int outer, int rows, int columns,
                             bool add);
/* y = a x + b y over n elements; b = 0: y is not read. */
cudaError_t kernel_axpby(cudaStream_t stream, enum cuda_type type, float a, const void *x, float b,
                         void *y, size_t n);
/* `rows` pieces of `width` elements each, from one stride (elements) to another. */
cudaError_t kernel_copy_rows(cudaStream_t stream, enum cuda_type type, const void *from,
                             int from_stride, void *to, int to_stride, int width, int rows);
/* The same through a ReLU; with y, which lies as `from` does, through the ReLU's gradient: y is
 * what came out of it. */
cudaError_t kernel_relu_rows(cudaStream_t stream, enum cuda_type type, const void *from,
                             const void *y, int from_stride, void *to, int to_stride, int width,
                             int rows);
/* y[row][c] += bias[c]; relu: 0 where that is negative */
cudaError_t kernel_add_bias(cudaStream_t stream, enum cuda_type type, void *y, const float *bias,
                            bool relu, int rows, int columns);

struct engine_window;
/* y = (x - mean) scale, turned where its window says so; x: bytes, plain. mean: an image of
 * mean_height x mean_width, at the window's place; or one number per channel, 1 x 1; or NULL. */
struct kernel_images {
    int samples, channels, height, width, mean_height, mean_width;
    float scale;
};
cudaError_t kernel_images(cudaStream_t stream, const struct kernel_images *p, const uint8_t *x,
                          const struct engine_window *windows, const float *mean,
                          enum cuda_type type, bool nhwc, void *y);

/* ---- channel.cu: tensors as outer x channels x inner; NHWC has inner = 1 ---- */

struct kernel_channels {
    int outer, channels, inner;
};

static inline size_t kernel_channels_elems(const struct kernel_channels *v)
{
    return (size_t)v->outer * (size_t)(v->channels * v->inner);
}

/* Sums over all that is not the channel: of x; of x and of x^2, so that their difference is a
 * variance to single precision; of (x - mean)^2; of |x|; of dy and of dy (x - mean) inverse; of dy
 * x and of dy; of dy x where x <= 0. */
enum kernel_sums {
    SUMS_X,
    SUMS_MOMENTS,
    SUMS_VARIANCE,
    SUMS_ABS,
    SUMS_BATCH_NORM,
    SUMS_SCALE,
    SUMS_PRELU,
    SUMS_BEHIND_RELU, /* kernel_sums_behind_relu alone */
    SUMS_CUT          /* kernel_sums_cut alone */
};
/* Doubles of scratch that kernel_sums needs. */
size_t kernel_sums_scratch(const struct kernel_channels *v);
/* Leaves one or two sums per channel, all first ones before all second ones, at the beginning of
 * scratch. */
cudaError_t kernel_sums(cudaStream_t stream, enum cuda_type type, enum kernel_sums what,
                        const struct kernel_channels *v, const void *x, const void *dy,
                        const float *mean, const float *inverse, double *scratch);
/* Those of SUMS_BATCH_NORM, dy taken as 0 where gamma (x - mean) inverse + beta is not positive;
 * gamma and beta may be NULL. */
cudaError_t kernel_sums_behind_relu(cudaStream_t stream, enum cuda_type type,
                                    const struct kernel_channels *v, const void *x, const void *dy,
                                    const float *mean, const float *inverse, const float *gamma,
                                    const float *beta, double *scratch);
/* Makes dy 0 where y is not positive, and sums it. */
cudaError_t kernel_sums_cut(cudaStream_t stream, enum cuda_type type,
                            const struct kernel_channels *v, const void *y, void *dy,
                            double *scratch);
/* out[c] (+)= sums[c] */
cudaError_t kernel_sums_store(cudaStream_t stream, const double *sums, int channels, float *out,
                              bool add);

/* ---- batch_norm.cu ---- */

struct kernel_batch_norm {
    double elems; /* per channel */
    float fraction, eps;
};
/* mean[c] = sums[c] / elems */
cudaError_t kernel_batch_mean(cudaStream_t stream, const struct kernel_batch_norm *b,
                              const double *sums, int channels, float *mean);
/* mean and inverse = 1 / sqrt(variance + eps) of SUMS_MOMENTS, and the running sums of both */
cudaError_t kernel_batch_statistics(cudaStream_t stream, const struct kernel_batch_norm *b,
                                    const double *sums, int channels, float *mean, float *inverse,
                                    float *mean_sum, float *variance_sum, float *weight);
/* mean and inverse of the running sums */
cudaError_t kernel_batch_global(cudaStream_t stream, const struct kernel_batch_norm *b,
                                int channels, const float *mean_sum, const float *variance_sum,
                                const float *weight, float *mean, float *inverse);
/* y = gamma (x - mean) inverse + beta; gamma and beta may be NULL. relu: 0 where that is negative
 */
cudaError_t kernel_batch_apply(cudaStream_t stream, enum cuda_type type,
                               const struct kernel_channels *v, const void *x, const float *mean,
                               const float *inverse, const float *gamma, const float *beta,
                               bool relu, void *y);
/* sums of SUMS_BATCH_NORM; NULL: statistics that do not depend on x. relu: dy as in
 * kernel_sums_behind_relu */
cudaError_t kernel_batch_back(cudaStream_t stream, enum cuda_type type,
                              const struct kernel_channels *v, const struct kernel_batch_norm *b,
                              const void *x, const void *dy, const float *mean,
                              const float *inverse, const float *gamma, const float *beta,
                              bool relu, const double *sums, void *dx);
/* ---- scale.cu ---- */

/* y = x gain[c] + bias[c]; either may be NULL */
cudaError_t kernel_scale(cudaStream_t stream, enum cuda_type type, const struct kernel_channels *v,
                         const void *x, const float *gain, const float *bias, void *y);
/* y = x > 0 ? x : slope[c] x; shared: slope[0]. dy: dx = x > 0 ? dy : slope dy, into y */
cudaError_t kernel_prelu(cudaStream_t stream, enum cuda_type type, const struct kernel_channels *v,
                         const void *x, const void *dy, const float *slope, bool shared, void *y);

/* ---- neuron.cu: ReLU ---- */

cudaError_t kernel_relu(cudaStream_t stream, enum cuda_type type, const void *x, float slope,
                        void *y, size_t n);
cudaError_t kernel_relu_back(cudaStream_t stream, enum cuda_type type, const void *x,
                             const void *dy, float slope, void *dx, size_t n);

/* ---- unary.cu ---- */

struct kernel_unary {
    int function; /* enum unary_function */
    float a, b, c;
    bool from_top; /* y tells the derivative (op_unary_from_top) */
};
/* y = f(x) */
cudaError_t kernel_unary(cudaStream_t stream, enum cuda_type type, const struct kernel_unary *u,
                         const void *x, void *y, size_t n);
/* dx = dy f'(x); at: x, or y (`top`) for the functions with from_top */
cudaError_t kernel_unary_back(cudaStream_t stream, enum cuda_type type,
                              const struct kernel_unary *u, bool top, const void *at,
                              const void *dy, void *dx, size_t n);

/* ---- neuron.cu: dropout ---- */

/* Dropout: element e of a sample (plain row-major order) is kept iff draw e of the sample's own
 * sequence is >= ratio: the bits of util/rng.h. The mask is drawn anew in backward rather than
 * stored. */
/* What changes from pass to pass: struct pass, in device memory. */
struct kernel_pass {
    uint64_t seed, first_sample;
};

struct kernel_dropout {
    struct kernel_pass pass;
    const struct kernel_pass
        *at; /* not NULL: device memory that is read instead, when the kernel runs */
    uint32_t layer;
    float ratio;
    int samples, channels, pixels; /* sample elements = channels x pixels */
    bool nhwc;
};
cudaError_t kernel_dropout(cudaStream_t stream, enum cuda_type type, const struct kernel_dropout *d,
                           const void *x, void *y);

/* ---- eltwise.cu ---- */

enum kernel_eltwise { KERNEL_PROD, KERNEL_MAX };
/* y = y * x, or the greater of both with winner = who; Caffe's rule for equal values: the second
 * beats the first, later ones must be greater. winner may be NULL. */
cudaError_t kernel_eltwise(cudaStream_t stream, enum cuda_type type, enum kernel_eltwise operation,
                           const void *x, void *y, int32_t *winner, int who, size_t n);
/* dx = winner == who ? dy : 0 */
/* y = a x + b z; z NULL: a x. relu: 0 where that is negative. y may be z, or x. */
cudaError_t kernel_eltwise_sum(cudaStream_t stream, enum cuda_type type, float a, const void *x,
                               float b, const void *z, bool relu, void *y, size_t n);
/* dx = a dy and dz = b dy; y not NULL: dy is taken as 0 where y is not positive. Either may be dy;
 * dz may be NULL. */
cudaError_t kernel_eltwise_sum_back(cudaStream_t stream, enum cuda_type type, const void *y,
                                    const void *dy, float a, void *dx, float b, void *dz, size_t n);
cudaError_t kernel_eltwise_max_back(cudaStream_t stream, enum cuda_type type, const void *dy,
                                    const int32_t *winner, int who, void *dx, size_t n);

/* ---- pool.cu: NHWC ---- */

/* Sizes and windows of pooling and convolution: depth, height, width; 1 where there is no such
 * axis. */
struct kernel_pool {
    int samples, channels, size[3], places[3]; /* of the bottom; of the top */
    int kernel[3], stride[3], pad[3];
    bool max, stochastic; /* neither: the average */
    uint32_t layer;       /* STOCHASTIC: keys of the draws, as in kernel_dropout */
    struct kernel_pass pass;
    const struct kernel_pass *at;
};
/* where: place of the maximum, or of the element drawn, in its D x H x W plane, -1: none; NULL: not
 * wanted, and STOCHASTIC then averages. */
cudaError_t kernel_pool(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                        const void *x, void *y, int32_t *where);
cudaError_t kernel_pool_back(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                             const void *dy, const int32_t *where, void *dx);
cudaError_t kernel_int_to_float(cudaStream_t stream, enum cuda_type type, const int32_t *from,
                                void *to, size_t n);

/* ---- lrn.cu: NHWC ---- */

struct kernel_lrn {
    int samples, channels, height, width;
    int half;             /* the window reaches that far on either side */
    float scale, beta, k; /* s = k + scale * sum of squares; y = x s^-beta */
    bool within;          /* windows in the H x W plane instead of across channels */
};
cudaError_t kernel_lrn(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                       const void *x, void *y);
/* ratio: as many elements as x, float */
cudaError_t kernel_lrn_back(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                            const void *x, const void *dy, float *ratio, void *dx);

/* ---- softmax.cu: plain floats seen as outer x classes x inner ---- */

/* A label that is no class, found by a kernel: in host memory that the device can write. */
struct kernel_bad {
    int position; /* 1 + where; 0: none. Stays until cleared */
    int classes, inner;
    bool rows; /* not classes: rows of a table */
    float label;
    const char *layer;
};
struct kernel_labels {
    int outer, classes, inner;
    bool rows; /* only passed on to the report */
    bool has_ignore;
    int ignore;
    float smoothing; /* of the softmax loss (engine/ops.h) */
    struct kernel_bad *report;
    const char *layer; /* only passed on to the report */
};

cudaError_t kernel_softmax(cudaStream_t stream, const float *x, float *p, int outer, int classes,
                           int inner);
cudaError_t kernel_softmax_back(cudaStream_t stream, const float *p, const float *dy, float *dx,
                                int outer, int classes, int inner);
/* given: what the sum is divided by; 0: the places that count, at least 1. terms: one double per
 * position; *divisor: what the sum was divided by, for backward. */
cudaError_t kernel_softmax_loss(cudaStream_t stream, const struct kernel_labels *l, const float *p,
                                const float *labels, double given, double *terms, double *divisor,
                                float *loss);
cudaError_t kernel_softmax_loss_back(cudaStream_t stream, const struct kernel_labels *l,
                                     const float *p, const float *labels, const float *weight,
                                     const double *divisor, float *dx);
/* hits: one int32 per position. per_class may be NULL. */
cudaError_t kernel_accuracy(cudaStream_t stream, const struct kernel_labels *l, int top_k,
                            const float *x, const float *labels, int32_t *hits, float *accuracy,
                            float *per_class);

/* ---- loss.cu: the other losses, on plain floats ---- */

enum kernel_loss_kind {
    KERNEL_SIGMOID,
    KERNEL_EUCLIDEAN,
    KERNEL_HINGE,
    KERNEL_MULTINOMIAL,
    KERNEL_CONTRASTIVE,
    KERNEL_INFOGAIN
};
struct kernel_loss {
    enum kernel_loss_kind kind;
    int rows, length; /* of bottom 0; INFOGAIN: all of `labels` instead */
    bool other;       /* HINGE: squares; CONTRASTIVE: the legacy form */
    bool has_ignore;  /* SIGMOID */
    int ignore;
    float margin;   /* CONTRASTIVE */
    double divisor; /* what the sum is divided by; 0: the places that count, at least 1 */
    struct kernel_labels labels; /* HINGE, MULTINOMIAL, INFOGAIN */
};
struct kernel_loss_data {
    const float *x, *t;     /* bottoms 0 and 1; INFOGAIN: x are the probabilities */
    const float *third;     /* CONTRASTIVE: similar; INFOGAIN: the matrix */
    const double *distance; /* CONTRASTIVE: per row, (a - b)^2 */
    const float *row_sums;  /* INFOGAIN: of the matrix */
};
enum { KERNEL_LOSS_SCRATCH = 1 + 2 * 256 }; /* doubles; the first is the divisor, for backward */
cudaError_t kernel_loss(cudaStream_t stream, const struct kernel_loss *l,
                        const struct kernel_loss_data *d, double *scratch, float *loss);
/* sign: of the bottom whose gradient is asked for, 1 or -1 */
cudaError_t kernel_loss_back(cudaStream_t stream, const struct kernel_loss *l,
                             const struct kernel_loss_data *d, const float *weight,
                             const double *divisor, float sign, float *dx);
/* distance[row] = sum of (a - b)^2 */
cudaError_t kernel_distances(cudaStream_t stream, const float *a, const float *b, int rows,
                             int length, double *distance);
/* sums[row] = sum of the row */
cudaError_t kernel_row_sums(cudaStream_t stream, const float *x, int rows, int length, float *sums);

/* ---- move.cu ---- */

enum { KERNEL_AXES = 12 };
/* Part of a tensor, axes in the order of memory: from offset on, `small` of `large`. */
struct kernel_window {
    int naxes, small[KERNEL_AXES], large[KERNEL_AXES], offset[KERNEL_AXES];
};
/* y: the part of x. back: y, all of it, is x where x's part is, 0 elsewhere. */
cudaError_t kernel_window(cudaStream_t stream, enum cuda_type type, const struct kernel_window *w,
                          bool back, const void *x, void *y);
/* Each of `outer` pieces of `length` elements, `tiles` times; and the sum over the copies. */
cudaError_t kernel_tile(cudaStream_t stream, enum cuda_type type, int outer, int length, int tiles,
                        const void *x, void *y);
cudaError_t kernel_tile_back(cudaStream_t stream, enum cuda_type type, int outer, int length,
                             int tiles, const void *dy, void *dx);
/* y's row i = x's row index[i] (+ bias, which may be NULL); l: as many labels as y has rows, as
 * many classes as x has. */
cudaError_t kernel_take_rows(cudaStream_t stream, const struct kernel_labels *l, const float *index,
                             int length, enum cuda_type x_type, const void *x, const float *bias,
                             enum cuda_type y_type, void *y);
/* dx's row r (+)= sum of dy's rows i with index[i] = r. */
cudaError_t kernel_take_rows_back(cudaStream_t stream, const struct kernel_labels *l,
                                  const float *index, int length, enum cuda_type dy_type,
                                  const void *dy, enum cuda_type dx_type, void *dx, bool add);
/* Channel c of y is channel c % rows * (C / rows) + c / rows of x. */
cudaError_t kernel_shuffle(cudaStream_t stream, enum cuda_type type,
                           const struct kernel_channels *v, int rows, const void *x, void *y);

/* ---- resize.cu ---- */

struct kernel_interp {
    int samples, channels, height, width, top_height, top_width;
    int begin, end; /* rows and columns of the bottom that are left out */
    bool nhwc;
};
cudaError_t kernel_interp(cudaStream_t stream, enum cuda_type type, const struct kernel_interp *p,
                          const void *x, void *y);
cudaError_t kernel_interp_back(cudaStream_t stream, enum cuda_type type,
                               const struct kernel_interp *p, const void *dy, void *dx);

/* x plain, y (samples, over the levels: channels x bins x bins) */
struct kernel_spp {
    int samples, channels, height, width, levels, places; /* places: bins of all levels */
    bool max;
};
/* winner (MAX; may be NULL): per element of y, the place of its maximum in the plane */
cudaError_t kernel_spp(cudaStream_t stream, enum cuda_type type, const struct kernel_spp *p,
                       const void *x, void *y, int32_t *winner);
cudaError_t kernel_spp_back(cudaStream_t stream, enum cuda_type type, const struct kernel_spp *p,
                            const void *dy, const int32_t *winner, void *dx);

/* ---- reduce.cu: plain rows ---- */

/* y[row] = coeff sums[row] */
cudaError_t kernel_reduce_store(cudaStream_t stream, enum cuda_type type, const double *sums,
                                int rows, double coeff, void *y);
enum kernel_slope { KERNEL_ONE, KERNEL_SIGN, KERNEL_TWICE };
/* dx = coeff dy[row] slope(x), slope 1, sign(x) or 2 x */
cudaError_t kernel_reduce_back(cudaStream_t stream, enum cuda_type type, enum kernel_slope slope,
                               float coeff, const void *x, const void *dy, int rows, int length,
                               void *dx);
/* inverse[row] = 1 / (sqrt(sums[row] / elems) + eps) */
cudaError_t kernel_mvn_inverse(cudaStream_t stream, const double *sums, int rows, double elems,
                               float eps, float *inverse);
struct kernel_argmax {
    int outer, length, inner, top_k;
    bool values; /* instead of places */
    bool both;   /* places, then values; inner is 1 */
};
cudaError_t kernel_argmax(cudaStream_t stream, enum cuda_type type, const struct kernel_argmax *a,
                          const void *x, float *y);

/* ---- update.cu ---- */

struct device_update;
/* second: the other history of rules that have two (rule_kind_histories); NULL for the rest. */
cudaError_t kernel_update(cudaStream_t stream, const struct device_update *u, float *value,
                          const float *grad, float *history, float *second, size_t n);
/* *out = sum of (scale x)^2, in double; partial: KERNEL_SUM_BLOCKS doubles. */
enum { KERNEL_SUM_BLOCKS = 256 };
cudaError_t kernel_sumsq(cudaStream_t stream, const float *x, float scale, size_t n,
                         double *partial, double *out);

/* ---- codec.cu: gradients in fewer bits (device/codec.h); residual in and out, out 4-aligned ----
 */

cudaError_t kernel_encode_bf16(cudaStream_t stream, const float *x, float *residual, size_t n,
                               void *out);
/* n: at most INT32_MAX */
cudaError_t kernel_encode_onebit(cudaStream_t stream, const float *x, float *residual, size_t rows,
                                 size_t n, void *out);

/* ---- element.cu: another program's elements, of half precision or else bfloat16, and floats ----
 */

cudaError_t kernel_expand(cudaStream_t stream, bool half, const void *from, float *to, size_t n);
cudaError_t kernel_take(cudaStream_t stream, bool half, const float *from, void *to, size_t n);

/* ---- conv.cu: convolution for what the library has no kernel for; NHWC, weights KRSC ---- */

struct kernel_conv {
    int samples, channels, size[3], outputs, places[3]; /* of the image; of the windows in it */
    int group, kernel[3], stride[3], pad[3], dilation[3];
};
cudaError_t kernel_conv(cudaStream_t stream, enum cuda_type type, const struct kernel_conv *c,
                        const void *x, const void *w, void *y);
cudaError_t kernel_conv_back_data(cudaStream_t stream, enum cuda_type type,
                                  const struct kernel_conv *c, const void *dy, const void *w,
                                  void *dx);
cudaError_t kernel_conv_back_weight(cudaStream_t stream, enum cuda_type type,
                                    const struct kernel_conv *c, const void *dy, const void *x,
                                    float *dw);

/* Windows as columns: x (N, C, D, H, W) and y (N, C taps, places...), plain; outputs and group are
 * not used. back: adds up columns x into the image y. */
cudaError_t kernel_columns(cudaStream_t stream, enum cuda_type type, const struct kernel_conv *c,
                           bool back, const void *x, void *y);

#ifdef __cplusplus
}
#endif
#endif
