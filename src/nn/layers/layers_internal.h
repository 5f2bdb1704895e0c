/* What the layer families share: their tables, and the checks that many of them make. */
#ifndef POSEIDON_LAYERS_LAYERS_INTERNAL_H
#define POSEIDON_LAYERS_LAYERS_INTERNAL_H

#include "layers/layer.h"

/* All layer types, one line each: the table layer_NAME of one of this folder's files. In
 * alphabetical order, for the message that lists them. */
/* clang-format off */
#define LAYERS(X)            \
    X(absval)                \
    X(accuracy)              \
    X(argmax)                \
    X(batch_norm)            \
    X(batch_reindex)         \
    X(bias)                  \
    X(bnll)                  \
    X(clip)                  \
    X(concat)                \
    X(contrastive_loss)      \
    X(convolution)           \
    X(convolution_depthwise) \
    X(crop)                  \
    X(data)                  \
    X(deconvolution)         \
    X(depthwise_convolution) \
    X(dropout)               \
    X(dummy_data)            \
    X(eltwise)               \
    X(elu)                   \
    X(embed)                 \
    X(euclidean_loss)        \
    X(exp)                   \
    X(flatten)               \
    X(gelu)                  \
    X(hdf5_data)             \
    X(hdf5_output)           \
    X(hinge_loss)            \
    X(im2col)                \
    X(image_data)            \
    X(infogain_loss)         \
    X(inner_product)         \
    X(input)                 \
    X(interp)                \
    X(log)                   \
    X(lrn)                   \
    X(memory_data)           \
    X(multinomial_loss)      \
    X(mvn)                   \
    X(parameter)             \
    X(pooling)               \
    X(power)                 \
    X(prelu)                 \
    X(reduction)             \
    X(relu)                  \
    X(relu6)                 \
    X(reshape)               \
    X(scale)                 \
    X(shuffle_channel)       \
    X(sigmoid)               \
    X(sigmoid_loss)          \
    X(silence)               \
    X(slice)                 \
    X(softmax)               \
    X(softmax_loss)          \
    X(split)                 \
    X(spp)                   \
    X(swish)                 \
    X(tanh)                  \
    X(threshold)             \
    X(tile)
/* clang-format on */

#define LAYER_TABLE(name) extern const struct layer_i layer_##name;
LAYERS(LAYER_TABLE)
#undef LAYER_TABLE

/* What a file says of the windows of convolution and pooling, by Caffe's rule: once for all spatial
 * axes, or once for each; of height and width also by name. */
enum spatial_kind { SPATIAL_KERNEL, SPATIAL_STRIDE, SPATIAL_PAD, SPATIAL_DILATION };

/* Borrows from the parameter that it is of. */
struct spatial_field {
    const char *name, *name_h, *name_w; /* "kernel_size", "kernel_h", "kernel_w" */
    size_t n;                           /* values of `name` */
    const uint32_t *value;
    bool has_h, has_w;
    uint32_t h, w;
    int absent; /* what an absent field means; -1: it must be there */
    int least;  /* smallest allowed value */
};

/* Of a convolution's or a pooling's message. */
struct spatial_field spatial_of(const ProtobufCMessage *p, enum spatial_kind kind);

/* Resolves the field for the bottom's spatial axes, one to three. */
int layer_spatial(const struct spatial_field *field, const struct blob *bottom,
                  int out[OP_SPATIAL]);

/* Fails unless the bottom has one to three axes behind N and C. */
int layer_expect_spatial(const struct layer *layer, int bottom);

/* The name of spatial axis i of naxes: "height". */
const char *layer_spatial_name(int naxes, int i);

/* What to add to the message of a window that does not fit: the least input of the net that the
 * layer can do with, where layers like convolutions lie between; a guess where the layer reads data
 * of the shape of images whose channels come last; else "". */
struct axes_hint {
    char text[128];
};
struct axes_hint layer_axes_hint(const struct layer *layer);

/* "3 x 3": a value for each of naxes axes. Returns buffer. */
#define SPATIAL_TEXT_BYTES 48
const char *layer_spatial_text(const int *values, int naxes, char buffer[SPATIAL_TEXT_BYTES]);

/* Fails unless the bottom has that many axes; `meaning` names them: "N,C,H,W". */
int layer_expect_axes(const struct layer *layer, int bottom, int naxes, const char *meaning);

/* Fails unless all bottoms have the first one's shape. */
int layer_expect_one_shape(const struct layer *layer);

/* Resolves a possibly negative axis of the first bottom; the message names `field` and the shape.
 */
int layer_resolve_axis(const struct layer *layer, const char *field, int axis, int *out);

/* The table of a loss, whose missing tops are added. */
#define LOSS(variable, name, kind, ...)                                                            \
    const struct layer_i variable = {                                                              \
        .type = name,                                                                              \
        .no_in_place = true,                                                                       \
        .auto_tops = true,                                                                         \
        .means = layer_loss_means,                                                                 \
        .op = kind,                                                                                \
        __VA_ARGS__,                                                                               \
    }

/* Whether it is a ReLU without a slope. */
bool layer_is_plain_relu(const struct layer *layer);

/* What loss_param says. An explicit `normalization` wins over the old `normalize`. */
struct loss_args layer_loss_args(const struct layer *layer);

/* Its top is one number, for so much work per element of the first bottom. */
int layer_set_scalar(struct layer *layer, double flops);

/* layer_i.wants_own_top of layers that always want a top of their own. */
bool layer_always(const struct layer *layer);

/* Of losses, layer_i.means: all but those with normalization: NONE. */
bool layer_loss_means(const struct layer *layer);

/* A weight of that shape and, if `bias`, a summand for each output. */
int layer_declare_weights(struct layer *layer, int naxes, const int64_t *weight,
                          const Caffe__FillerParameter *weight_filler, bool bias, int64_t outputs,
                          const Caffe__FillerParameter *bias_filler);

/* The layer's message of that type, or one that holds the defaults. */
#define LAYER_PARAM(layer, field, TYPE, INIT)                                                      \
    ((layer)->param->field ? (layer)->param->field : &(const Caffe__##TYPE)CAFFE__##INIT##__INIT)

/* Sets the shape that the definition gives top t: sizes of at least 1. */
int layer_set_shape(struct layer *layer, int t, size_t naxes, const int64_t *dim);

/* Gives top t of a data layer the shape batch x record. */
int layer_set_sample(struct layer *layer, int t, int64_t batch, const struct shape *record);

/* The size that a user gave top t of a data layer, without the batch; naxes 0: none. Before the
 * shape is set, top 0 is taken for images. */
struct shape layer_given_shape(const struct layer *layer, const struct layer_env *env, int t);

/* A data layer's batch: its own, or what env->batch makes of it in proportion to the net's first
 * data layer. */
int layer_scale_batch(struct layer *layer, const struct layer_env *env, int64_t own, int64_t *out);

/* For layers whose definition gives the whole shape of their tops: in training, the batch that a
 * command was given replaces the first axis of all tops that share the first top's; the others are
 * no batches. When looking only, the sizes that a user gave replace the other axes. */
int layer_replace_batch(struct layer *layer, const struct layer_env *env);

#endif
