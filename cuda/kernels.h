/* The kernels, as the C files of the CUDA engine see them. Each function launches on a stream and
 * returns the launch's status.
 *
 * Indices are 32 bits wide: no blob has more than INT32_MAX elements, and 64-bit divisions are
 * slow. Kernels add in a fixed order, without atomics, so every run gives the same bits.
 * Activations have one of two element types (enum cuda_type); kernels compute in float. */
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

/* Transposes outer x rows x columns elements to outer x columns x rows, in another type if asked.
 * NCHW to NHWC: rows = C, columns = H W; back: exchanged. rows 1: a copy. add: adds to `to`. */
cudaError_t kernel_transpose(cudaStream_t stream, enum cuda_type from_type, const void *from,
                             enum cuda_type to_type, void *to, int outer, int rows, int columns,
                             bool add);
/* y = a x + b y over n elements; b = 0: y is not read. */
cudaError_t kernel_axpby(cudaStream_t stream, enum cuda_type type, float a, const void *x, float b,
                         void *y, size_t n);
/* Copies `rows` pieces of `width` elements; a stride is the elements from one piece to the next. */
cudaError_t kernel_copy_rows(cudaStream_t stream, enum cuda_type type, const void *from,
                             int from_stride, void *to, int to_stride, int width, int rows);
/* Copies rows through a ReLU. With y, the ReLU's outputs laid out like `from`: through the ReLU's
 * gradient instead. */
cudaError_t kernel_relu_rows(cudaStream_t stream, enum cuda_type type, const void *from,
                             const void *y, int from_stride, void *to, int to_stride, int width,
                             int rows);
/* y[row][c] += bias[c]; relu: negative results become 0 */
cudaError_t kernel_add_bias(cudaStream_t stream, enum cuda_type type, void *y, const float *bias,
                            bool relu, int rows, int columns);

struct engine_window;
/* y = (x - mean) scale, mirrored where the window says so; x: bytes, plain. mean: an image of
 * mean_height x mean_width, read at the window's place; one number per channel, 1 x 1; or NULL. */
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

/* Sums per channel over all other axes. */
enum kernel_sums {
    SUMS_X,           /* x */
    SUMS_MOMENTS,     /* x, and x^2, precise enough for a variance in single precision */
    SUMS_VARIANCE,    /* (x - mean)^2 */
    SUMS_ABS,         /* |x| */
    SUMS_BATCH_NORM,  /* dy, and dy (x - mean) inverse */
    SUMS_SCALE,       /* dy x, and dy */
    SUMS_PRELU,       /* dy x where x <= 0 */
    SUMS_BEHIND_RELU, /* for kernel_sums_behind_relu alone */
    SUMS_CUT          /* for kernel_sums_cut alone */
};
/* Returns the doubles of scratch that kernel_sums needs. */
size_t kernel_sums_scratch(const struct kernel_channels *v);
/* Leaves one or two sums per channel in scratch: all first sums, then all second sums. */
cudaError_t kernel_sums(cudaStream_t stream, enum cuda_type type, enum kernel_sums what,
                        const struct kernel_channels *v, const void *x, const void *dy,
                        const float *mean, const float *inverse, double *scratch);
/* Sums as SUMS_BATCH_NORM, with dy 0 where gamma (x - mean) inverse + beta is not positive. gamma
 * and beta may be NULL. */
cudaError_t kernel_sums_behind_relu(cudaStream_t stream, enum cuda_type type,
                                    const struct kernel_channels *v, const void *x, const void *dy,
                                    const float *mean, const float *inverse, const float *gamma,
                                    const float *beta, double *scratch);
/* Makes dy 0 where y is not positive, and sums dy. */
cudaError_t kernel_sums_cut(cudaStream_t stream, enum cuda_type type,
                            const struct kernel_channels *v, const void *y, void *dy,
                            double *scratch);
/* out[c] = sums[c]; add: out[c] += sums[c] */
cudaError_t kernel_sums_store(cudaStream_t stream, const double *sums, int channels, float *out,
                              bool add);

/* ---- batch_norm.cu ---- */

struct kernel_batch_norm {
    double elems; /* elements per channel */
    float fraction, eps;
};
/* mean[c] = sums[c] / elems */
cudaError_t kernel_batch_mean(cudaStream_t stream, const struct kernel_batch_norm *b,
                              const double *sums, int channels, float *mean);
/* mean, inverse = 1 / sqrt(variance + eps), from SUMS_MOMENTS; updates the running sums */
cudaError_t kernel_batch_statistics(cudaStream_t stream, const struct kernel_batch_norm *b,
                                    const double *sums, int channels, float *mean, float *inverse,
                                    float *mean_sum, float *variance_sum, float *weight);
/* mean and inverse from the running sums */
cudaError_t kernel_batch_global(cudaStream_t stream, const struct kernel_batch_norm *b,
                                int channels, const float *mean_sum, const float *variance_sum,
                                const float *weight, float *mean, float *inverse);
/* y = gamma (x - mean) inverse + beta; gamma, beta may be NULL. relu: negative results become 0 */
cudaError_t kernel_batch_apply(cudaStream_t stream, enum cuda_type type,
                               const struct kernel_channels *v, const void *x, const float *mean,
                               const float *inverse, const float *gamma, const float *beta,
                               bool relu, void *y);
/* Writes dx. sums: from SUMS_BATCH_NORM; NULL: the statistics do not depend on x. relu: dy as in
 * kernel_sums_behind_relu. */
cudaError_t kernel_batch_back(cudaStream_t stream, enum cuda_type type,
                              const struct kernel_channels *v, const struct kernel_batch_norm *b,
                              const void *x, const void *dy, const float *mean,
                              const float *inverse, const float *gamma, const float *beta,
                              bool relu, const double *sums, void *dx);
/* ---- scale.cu ---- */

/* y = x gain[c] + bias[c]; gain and bias may be NULL */
cudaError_t kernel_scale(cudaStream_t stream, enum cuda_type type, const struct kernel_channels *v,
                         const void *x, const float *gain, const float *bias, void *y);
/* y = x > 0 ? x : slope[c] x; shared: slope[0]. With dy: y gets dx = x > 0 ? dy : slope[c] dy */
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
    bool from_top; /* the derivative follows from y (op_unary_from_top) */
};
/* y = f(x) */
cudaError_t kernel_unary(cudaStream_t stream, enum cuda_type type, const struct kernel_unary *u,
                         const void *x, void *y, size_t n);
/* dx = dy f'(x). at: x; or y, with `top`, for functions with from_top */
cudaError_t kernel_unary_back(cudaStream_t stream, enum cuda_type type,
                              const struct kernel_unary *u, bool top, const void *at,
                              const void *dy, void *dx, size_t n);

/* ---- neuron.cu: dropout ---- */

/* Values that change from pass to pass (struct pass). */
struct kernel_pass {
    uint64_t seed, first_sample;
};

/* Dropout: element e of a sample (plain row-major order) is kept iff draw e of the sample's own
 * sequence is >= ratio, bit for bit as util/rng.h. Backward draws the mask again. */
struct kernel_dropout {
    struct kernel_pass pass;
    /* Device memory to read when the kernel runs, in place of `pass`; NULL: `pass` holds. */
    const struct kernel_pass *at;
    uint32_t layer;
    float ratio;
    int samples, channels, pixels; /* elements of a sample = channels x pixels */
    bool nhwc;
};
cudaError_t kernel_dropout(cudaStream_t stream, enum cuda_type type, const struct kernel_dropout *d,
                           const void *x, void *y);

/* ---- eltwise.cu ---- */

enum kernel_eltwise { KERNEL_PROD, KERNEL_MAX };
/* y = y x, or the maximum of y and x, with winner = who where x wins. Equal values, as in Caffe:
 * the second bottom beats the first, later ones must be greater. winner may be NULL. */
cudaError_t kernel_eltwise(cudaStream_t stream, enum cuda_type type, enum kernel_eltwise operation,
                           const void *x, void *y, int32_t *winner, int who, size_t n);
/* y = a x + b z, or a x if z is NULL; relu: negative results become 0. y may be x or z. */
cudaError_t kernel_eltwise_sum(cudaStream_t stream, enum cuda_type type, float a, const void *x,
                               float b, const void *z, bool relu, void *y, size_t n);
/* dx = a dy, dz = b dy; with y, dy counts as 0 where y is not positive. dx or dz may be dy; dz may
 * be NULL. */
cudaError_t kernel_eltwise_sum_back(cudaStream_t stream, enum cuda_type type, const void *y,
                                    const void *dy, float a, void *dx, float b, void *dz, size_t n);
/* dx = winner == who ? dy : 0 */
cudaError_t kernel_eltwise_max_back(cudaStream_t stream, enum cuda_type type, const void *dy,
                                    const int32_t *winner, int who, void *dx, size_t n);

/* ---- pool.cu: NHWC ---- */

/* Sizes and windows, also of struct kernel_conv: depth, height, width; 1 for a missing axis. */
struct kernel_pool {
    int samples, channels, size[3], places[3]; /* size: of the bottom; places: of the top */
    int kernel[3], stride[3], pad[3];
    bool max, stochastic; /* both false: average */
    uint32_t layer;       /* STOCHASTIC: key of the draws, as in kernel_dropout */
    struct kernel_pass pass;
    const struct kernel_pass *at;
};
/* `where`: index of the maximum, or of the element drawn, in its D x H x W plane; -1: none. `where`
 * NULL: no indices; STOCHASTIC then takes the weighted average. */
cudaError_t kernel_pool(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                        const void *x, void *y, int32_t *where);
cudaError_t kernel_pool_back(cudaStream_t stream, enum cuda_type type, const struct kernel_pool *p,
                             const void *dy, const int32_t *where, void *dx);
cudaError_t kernel_int_to_float(cudaStream_t stream, enum cuda_type type, const int32_t *from,
                                void *to, size_t n);

/* ---- lrn.cu: NHWC ---- */

struct kernel_lrn {
    int samples, channels, height, width;
    int half;             /* reach of the window on either side */
    float scale, beta, k; /* s = k + scale * sum of squares; y = x s^-beta */
    bool within;          /* windows in the H x W plane, not across channels */
};
cudaError_t kernel_lrn(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                       const void *x, void *y);
/* ratio: scratch for as many floats as x has elements */
cudaError_t kernel_lrn_back(cudaStream_t stream, enum cuda_type type, const struct kernel_lrn *l,
                            const void *x, const void *dy, float *ratio, void *dx);

/* ---- softmax.cu: plain floats seen as outer x classes x inner ---- */

/* A label out of range, noted by a kernel in host memory that the device can write. */
struct kernel_bad {
    int position; /* 1 + position of the label; 0: none. Kept until cleared */
    int classes, inner;
    int rows; /* the label is 1: the row number of a table, 2: a mask's place; 0: a class */
    float label;
    const char *layer;
};
struct kernel_labels {
    int outer, classes, inner;
    int rows; /* for the report alone */
    bool has_ignore;
    int ignore;
    float smoothing; /* label smoothing of the softmax loss (engine/ops.h) */
    struct kernel_bad *report;
    const char *layer; /* for the report alone */
};

cudaError_t kernel_softmax(cudaStream_t stream, const float *x, float *p, int outer, int classes,
                           int inner);
cudaError_t kernel_softmax_back(cudaStream_t stream, const float *p, const float *dy, float *dx,
                                int outer, int classes, int inner);
/* given: the sum's divisor; 0: the number of labels not ignored, at least 1. terms: scratch, one
 * double per position. *divisor: the divisor used, which backward reads. */
cudaError_t kernel_softmax_loss(cudaStream_t stream, const struct kernel_labels *l, const float *p,
                                const float *labels, double given, double *terms, double *divisor,
                                float *loss);
cudaError_t kernel_softmax_loss_back(cudaStream_t stream, const struct kernel_labels *l,
                                     const float *p, const float *labels, const float *weight,
                                     const double *divisor, float *dx);
/* hits: scratch, one int32 per position. per_class may be NULL. */
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
    int rows, length; /* bottom 0 as a matrix; INFOGAIN uses labels instead */
    bool other;       /* HINGE: squared margins; CONTRASTIVE: the legacy form */
    bool has_ignore;  /* SIGMOID */
    int ignore;
    float margin;   /* CONTRASTIVE */
    double divisor; /* divisor of the sum; 0: the number of places not ignored, at least 1 */
    struct kernel_labels labels; /* HINGE, MULTINOMIAL, INFOGAIN */
};
struct kernel_loss_data {
    const float *x, *t;     /* bottoms 0 and 1; with INFOGAIN, x are the probabilities */
    const float *third;     /* CONTRASTIVE: similar; INFOGAIN: the matrix */
    const double *distance; /* CONTRASTIVE: per row, sum of (a - b)^2 */
    const float *row_sums;  /* INFOGAIN: sums of the matrix's rows */
};
enum { KERNEL_LOSS_SCRATCH = 1 + 2 * 256 }; /* doubles; the first is the divisor, for backward */
cudaError_t kernel_loss(cudaStream_t stream, const struct kernel_loss *l,
                        const struct kernel_loss_data *d, double *scratch, float *loss);
/* sign: 1 for the gradient of bottom 0, -1 for the gradient of bottom 1 */
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
/* Part of a tensor, axes in the order of memory: `small` elements of `large`, from `offset` on. */
struct kernel_window {
    int naxes, small[KERNEL_AXES], large[KERNEL_AXES], offset[KERNEL_AXES];
};
/* Copies the part of x to y. back: fills y with x at the part's place, and 0 elsewhere. */
cudaError_t kernel_window(cudaStream_t stream, enum cuda_type type, const struct kernel_window *w,
                          bool back, const void *x, void *y);
/* kernel_tile copies each of `outer` pieces of `length` elements `tiles` times; kernel_tile_back
 * sums the copies. */
cudaError_t kernel_tile(cudaStream_t stream, enum cuda_type type, int outer, int length, int tiles,
                        const void *x, void *y);
cudaError_t kernel_tile_back(cudaStream_t stream, enum cuda_type type, int outer, int length,
                             int tiles, const void *dy, void *dx);
/* y's row i = x's row index[i], + bias unless NULL. l->outer: rows of y; l->classes: rows of x. */
cudaError_t kernel_take_rows(cudaStream_t stream, const struct kernel_labels *l, const float *index,
                             int length, enum cuda_type x_type, const void *x, const float *bias,
                             enum cuda_type y_type, void *y);
/* dx's row r = sum of dy's rows i with index[i] = r; add: added to dx. */
cudaError_t kernel_take_rows_back(cudaStream_t stream, const struct kernel_labels *l,
                                  const float *index, int length, enum cuda_type dy_type,
                                  const void *dy, enum cuda_type dx_type, void *dx, bool add);
/* Channel c of y is channel c % rows * (C / rows) + c / rows of x. */
cudaError_t kernel_shuffle(cudaStream_t stream, enum cuda_type type,
                           const struct kernel_channels *v, int rows, const void *x, void *y);

/* labels->classes: pixels of y's planes; labels->outer: elements of x. x, place and y: NHWC. last:
 * scratch, one int32 per element of y. */
struct kernel_upsample {
    struct kernel_labels labels;
    int samples, channels, pixels; /* pixels: of x's planes */
};
cudaError_t kernel_upsample(cudaStream_t stream, enum cuda_type type,
                            const struct kernel_upsample *u, const float *place, const void *x,
                            int32_t *last, void *y);
cudaError_t kernel_upsample_back(cudaStream_t stream, enum cuda_type type,
                                 const struct kernel_upsample *u, const float *place,
                                 const void *dy, void *dx);

/* ---- resize.cu ---- */

struct kernel_interp {
    int samples, channels, height, width, top_height, top_width;
    int begin, end; /* rows and columns cropped at either side of the bottom */
    bool nhwc;
};
cudaError_t kernel_interp(cudaStream_t stream, enum cuda_type type, const struct kernel_interp *p,
                          const void *x, void *y);
cudaError_t kernel_interp_back(cudaStream_t stream, enum cuda_type type,
                               const struct kernel_interp *p, const void *dy, void *dx);

/* Spatial pyramid pooling. x: plain. y: per sample, level after level, channels x bins x bins. */
struct kernel_spp {
    int samples, channels, height, width, levels, places; /* places: bins of all levels */
    bool max;
};
/* winner (MAX; may be NULL): per element of y, the index of its maximum in the plane */
cudaError_t kernel_spp(cudaStream_t stream, enum cuda_type type, const struct kernel_spp *p,
                       const void *x, void *y, int32_t *winner);
cudaError_t kernel_spp_back(cudaStream_t stream, enum cuda_type type, const struct kernel_spp *p,
                            const void *dy, const int32_t *winner, void *dx);

/* ---- reduce.cu: plain rows ---- */

/* y[row] = coeff sums[row] */
cudaError_t kernel_reduce_store(cudaStream_t stream, enum cuda_type type, const double *sums,
                                int rows, double coeff, void *y);
enum kernel_slope { KERNEL_ONE, KERNEL_SIGN, KERNEL_TWICE };
/* dx = coeff dy[row] slope(x); slope is 1, sign(x) or 2 x */
cudaError_t kernel_reduce_back(cudaStream_t stream, enum cuda_type type, enum kernel_slope slope,
                               float coeff, const void *x, const void *dy, int rows, int length,
                               void *dx);
/* inverse[row] = 1 / (sqrt(sums[row] / elems) + eps) */
cudaError_t kernel_mvn_inverse(cudaStream_t stream, const double *sums, int rows, double elems,
                               float eps, float *inverse);
struct kernel_argmax {
    int outer, length, inner, top_k;
    bool values; /* values instead of indices */
    bool both;   /* indices, then values; inner is 1 */
};
cudaError_t kernel_argmax(cudaStream_t stream, enum cuda_type type, const struct kernel_argmax *a,
                          const void *x, float *y);

/* ---- update.cu ---- */

struct device_update;
/* second: second history of rules that have two (rule_kind_histories), else NULL */
cudaError_t kernel_update(cudaStream_t stream, const struct device_update *u, float *value,
                          const float *grad, float *history, float *second, size_t n);
/* *out = sum of (scale x)^2, in double; partial: KERNEL_SUM_BLOCKS doubles. */
enum { KERNEL_SUM_BLOCKS = 256 };
cudaError_t kernel_sumsq(cudaStream_t stream, const float *x, float scale, size_t n,
                         double *partial, double *out);

/* ---- codec.cu: gradients in fewer bits (device/codec.h) ---- */
/* residual is read and written; out is aligned to 4 bytes. */
cudaError_t kernel_encode_bf16(cudaStream_t stream, const float *x, float *residual, size_t n,
                               void *out);
/* n: at most INT32_MAX. residual is read and written; out is aligned to 4 bytes. */
cudaError_t kernel_encode_onebit(cudaStream_t stream, const float *x, float *residual, size_t rows,
                                 size_t n, void *out);

/* ---- element.cu: another program's elements: half precision, else bfloat16 ---- */

cudaError_t kernel_expand(cudaStream_t stream, bool half, const void *from, float *to, size_t n);
cudaError_t kernel_take(cudaStream_t stream, bool half, const float *from, void *to, size_t n);

/* ---- conv.cu: convolutions that cuDNN has no kernel for; NHWC, weights KRSC ---- */

struct kernel_conv {
    int samples, channels, size[3], outputs, places[3]; /* size: of the image; places: of windows */
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

/* Copies windows of x (N, C, D, H, W) to columns of y (N, C taps, places...), plain; outputs and
 * group are not used. back: adds up columns x into image y. */
cudaError_t kernel_columns(cudaStream_t stream, enum cuda_type type, const struct kernel_conv *c,
                           bool back, const void *x, void *y);

#ifdef __cplusplus
}
#endif
#endif
