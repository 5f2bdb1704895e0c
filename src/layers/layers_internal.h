/* What the layer families share: their tables, and the checks that many of them make. */
#ifndef POSEIDON_LAYERS_LAYERS_INTERNAL_H
#define POSEIDON_LAYERS_LAYERS_INTERNAL_H

#include "layers/layer.h"

extern const struct layer_i layer_absval, layer_accuracy, layer_argmax, layer_batch_norm,
    layer_batch_reindex, layer_bias, layer_bnll, layer_clip, layer_concat, layer_contrastive_loss,
    layer_convolution, layer_convolution_depthwise, layer_crop, layer_data, layer_deconvolution,
    layer_depthwise_convolution, layer_dropout, layer_dummy_data, layer_eltwise, layer_elu,
    layer_embed, layer_euclidean_loss, layer_exp, layer_flatten, layer_hdf5_data, layer_hdf5_output,
    layer_hinge_loss, layer_im2col, layer_image_data, layer_infogain_loss, layer_inner_product,
    layer_input, layer_interp, layer_log, layer_lrn, layer_memory_data, layer_multinomial_loss,
    layer_mvn, layer_parameter, layer_pooling, layer_power, layer_prelu, layer_reduction,
    layer_relu, layer_relu6, layer_reshape, layer_scale, layer_shuffle_channel, layer_sigmoid,
    layer_sigmoid_loss, layer_silence, layer_slice, layer_softmax, layer_softmax_loss, layer_split,
    layer_spp, layer_swish, layer_tanh, layer_threshold, layer_tile;

/* Room for any shape_text. */
#define SHAPE_TEXT_BYTES 288

/* A height or width pair as the messages of convolution and pooling give it: `name` for both axes,
 * or `name_h` and `name_w` one by one. */
struct spatial_field {
    const char *name; /* "kernel_size", "stride", "pad", ... */
    const char *name_h, *name_w;
    size_t n; /* values of `name`: 0, 1 (both axes), or 2 */
    const uint32_t *value;
    bool has_h, has_w;
    uint32_t h, w;
    int absent; /* what an absent field means; -1: it must be there */
    int least;  /* smallest allowed value */
};

/* Resolves the field into {height, width}. */
int layer_spatial_pair(const struct spatial_field *field, int out[2]);

/* Fails unless the bottom has that many axes; `meaning` names them: "N,C,H,W". */
int layer_expect_axes(const struct layer *layer, int bottom, int naxes, const char *meaning);

/* Resolves a possibly negative axis of the first bottom; the message names `field` and the shape.
 */
int layer_resolve_axis(const struct layer *layer, const char *field, int axis, int *out);

/* What a loss is divided by. An explicit `normalization` wins over the old `normalize`; without
 * either, `otherwise`. */
enum loss_normalization layer_loss_normalization(const Caffe__LossParameter *p,
                                                 enum loss_normalization otherwise);

/* What a BatchNorm layer asks of its op, without the Scale behind it. */
struct batch_norm_args layer_batch_norm_args(const struct layer *layer);

/* For layers whose definition gives the whole shape of their tops: in training, the batch that a
 * command was given replaces the first axis of all tops that share the first top's; the others are
 * no batches. */
int layer_replace_batch(struct layer *layer, const struct layer_env *env);

/* All tops take the first bottom's shape. */
void layer_tops_like_bottom(struct layer *layer);

#endif
