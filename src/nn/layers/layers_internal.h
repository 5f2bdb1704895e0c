/* Tables of the layer families, and checks that many layers share. */
#ifndef POSEIDON_LAYERS_LAYERS_INTERNAL_H
#define POSEIDON_LAYERS_LAYERS_INTERNAL_H

#include "layers/layer.h"

/* All layer types, in alphabetical order for the message that lists them. X(NAME) stands for the
 * table layer_NAME in a file of this folder. */
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
    X(dense_image_data)      \
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
    X(image_seg_data)        \
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
    X(tile)                  \
    X(upsample)
/* clang-format on */

#define LAYER_TABLE(name) extern const struct layer_i layer_##name;
LAYERS(LAYER_TABLE)
#undef LAYER_TABLE

/* Fields of convolution and pooling that hold a value per spatial axis. By Caffe's rule a file
 * gives one value for all axes, one for each, or values for height and width by name. */
enum spatial_kind { SPATIAL_KERNEL, SPATIAL_STRIDE, SPATIAL_PAD, SPATIAL_DILATION };

/* A spatial field as read from a message; borrows from the message. */
struct spatial_field {
    const char *name, *name_h, *name_w; /* "kernel_size", "kernel_h", "kernel_w" */
    size_t n;                           /* values of `name` */
    const uint32_t *value;
    bool has_h, has_w;
    uint32_t h, w;
    int absent; /* value of an absent field; -1: the field is required */
    int least;  /* smallest allowed value */
};

/* Reads the field from a convolution's or a pooling's message. */
struct spatial_field spatial_of(const ProtobufCMessage *p, enum spatial_kind kind);

/* Resolves the field for the bottom's one to three spatial axes. */
int layer_spatial(const struct spatial_field *field, const struct blob *bottom,
                  int out[OP_SPATIAL]);

/* Fails unless the bottom has one to three axes behind N and C. */
int layer_expect_spatial(const struct layer *layer, int bottom);

/* Returns the name of spatial axis i of naxes: "height". */
const char *layer_spatial_name(int naxes, int i);

/* Ends the error about a window larger than its input. */
#define SPATIAL_TOO_SMALL "; expected a larger input, channels first, or a smaller kernel"

/* Writes "3 x 3", a value for each of naxes axes. Returns buffer. */
#define SPATIAL_TEXT_BYTES 48
const char *layer_spatial_text(const int *values, int naxes, char buffer[SPATIAL_TEXT_BYTES]);

/* Fails unless the bottom has naxes axes, described by `meaning`: "N,C,H,W". */
int layer_expect_axes(const struct layer *layer, int bottom, int naxes, const char *meaning);

/* Fails unless all bottoms have the first one's shape. */
int layer_expect_one_shape(const struct layer *layer);

/* Resolves a possibly negative axis of the first bottom. The error names `field` and the shape. */
int layer_resolve_axis(const struct layer *layer, const char *field, int axis, int *out);

/* Defines the table of a loss layer. Tops missing in the definition are added. */
#define LOSS(variable, name, kind, ...)                                                            \
    const struct layer_i variable = {                                                              \
        .type = name,                                                                              \
        .no_in_place = true,                                                                       \
        .auto_tops = true,                                                                         \
        .means = layer_loss_means,                                                                 \
        .op = kind,                                                                                \
        __VA_ARGS__,                                                                               \
    }

/* True if the layer is a ReLU without a slope. */
bool layer_is_plain_relu(const struct layer *layer);

/* Reads loss_param. An explicit `normalization` wins over the old `normalize`. */
struct loss_args layer_loss_args(const struct layer *layer);

/* Sets a scalar top, and the layer's flops from the flops per element of the first bottom. */
int layer_set_scalar(struct layer *layer, double flops);

/* Returns true: for layer_i.wants_own_top and layer_i.takes_relu. */
bool layer_always(const struct layer *layer);

/* Slot layer_i.means of losses: returns true unless normalization is NONE. */
bool layer_loss_means(const struct layer *layer);

/* Declares a weight of naxes sizes `weight` and, if `bias`, a bias of `outputs` elements. */
int layer_declare_weights(struct layer *layer, int naxes, const int64_t *weight,
                          const Caffe__FillerParameter *weight_filler, bool bias, int64_t outputs,
                          const Caffe__FillerParameter *bias_filler);

/* The layer's message `field`, or a message of defaults if the file has none. */
#define LAYER_PARAM(layer, field, TYPE, INIT)                                                      \
    ((layer)->param->field ? (layer)->param->field : &(const Caffe__##TYPE)CAFFE__##INIT##__INIT)

/* Sets top t's shape from the definition; fails unless all sizes are at least 1. */
int layer_set_shape(struct layer *layer, int t, size_t naxes, const int64_t *dim);

/* Gives top t of a data layer the shape batch x record. */
int layer_set_sample(struct layer *layer, int t, int64_t batch, const struct shape *record);

/* Returns the shape that a user gave top t of a data layer, without the batch; naxes 0: none.
 * --input-shape=C,H,W holds for tops of images; before a shape is set, top 0 counts as images. */
struct shape layer_given_shape(const struct layer *layer, const struct layer_env *env, int t);

/* Sets *out to a data layer's batch size: its definition's (`own`), or, if env->batch is given,
 * env->batch * own / (the first data layer's own). */
int layer_scale_batch(struct layer *layer, const struct layer_env *env, int64_t own, int64_t *out);

/* For layers whose definition gives their tops' shapes. Sets the batch axis, the first axis of
 * every top that equals the first top's, to env->batch. Then sets the other axes to sizes that a
 * user gave. */
int layer_replace_batch(struct layer *layer, const struct layer_env *env);

#endif
