/* Layers that read samples from files: Data (an HDF5 file, LMDB or LevelDB), ImageData (a list of
 * photographs), ImageSegData and DenseImageData (also pictures of labels) and HDF5Data (named data
 * sets of listed files). */
#include "layers/data_internal.h"

#include "util/error.h"
#include "util/path.h"

#include <stdlib.h>

/* True if each rank has a source of its own (shared_file_system: false). */
#define IS_OWN(p) ((p)->has_shared_file_system && !(p)->shared_file_system)

static int data_open(struct layer *layer, struct data *state, const struct layer_env *env)
{
    const Caffe__DataParameter *p = layer->param->data_param;
    char *path = data_source(state, p->source, IS_OWN(p), env);
    enum image_color color = IMAGE_AS_STORED;
    int status = path ? data_forced_color(layer, &color) : -1;

    if (status == 0)
        status = source_open_images(path, layer->ntops == 2, color, &state->source);
    free(path);
    return status;
}

/* Adds a notice about transform fields outside transform_param. Upgrades of V1 move such fields. */
static int data_notice_transform(const struct layer *layer, const struct layer_env *env,
                                 const char *param)
{
    return layer_notice(layer, env,
                        "scale, mean_file, crop_size and mirror have no effect in %s, as in Caffe; "
                        "they belong in transform_param",
                        param);
}

/* Adds notices about fields that have no effect. */
static int data_notices(const struct layer *layer, const struct layer_env *env,
                        const Caffe__DataParameter *p)
{
    if (p->force_encoded_color && layer_notice(layer, env,
                                               "force_encoded_color of data_param has no effect, "
                                               "as in Caffe; use force_color of transform_param"))
        return -1;
    if (p->has_scale || p->has_mirror || p->has_crop_size || p->mean_file)
        return data_notice_transform(layer, env, "data_param");
    return 0;
}

static int data_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__DataParameter *p = layer->param->data_param;
    struct data_look look = {.open = data_open};
    enum image_color color;
    struct data *state;

    if (!p || (!env->look_only && (!p->source || !p->source[0])))
        return error_set(
            "data_param source is missing; expected the name of an HDF5 file, an LMDB or "
            "a LevelDB");
    state = data_make_state(layer, env, p->has_batch_size, p->batch_size, p->rand_skip);
    if (!state || data_forced_color(layer, &color) || data_notices(layer, env, p))
        return -1;
    if (p->shuffle && layer->train)
        state->options.shuffle = SHUFFLE_WINDOWS;
    if (p->prefetch > 2)
        state->options.depth = p->prefetch < 64 ? (int)p->prefetch : 64;
    look.source = p->source;
    look.own = IS_OWN(p);
    look.mixes = "train --shuffle mixes them; 'poseidon convert images' shuffles a folder, and "
                 "with --shuffle a list";
    look.known[0] = color == IMAGE_GRAY ? 1 : color == IMAGE_COLOR ? 3 : 0;
    return data_set_up(layer, env, &look);
}

const struct layer_i layer_data = {
    .type = "Data",
    .tops = {1, 2},
    .setup_in = data_setup,
    .images = data_images,
    DATA_LAYER_SLOTS,
};

enum { MAX_LABELS = 1 << 20 };

static bool is_dense(const struct layer *layer)
{
    return layer->i == &layer_dense_image_data;
}

static const Caffe__ImageDataParameter *image_settings(const struct layer *layer)
{
    return is_dense(layer) ? layer->param->dense_image_data_param : layer->param->image_data_param;
}

static int image_data_open(struct layer *layer, struct data *state, const struct layer_env *env)
{
    const Caffe__ImageDataParameter *p = image_settings(layer);
    const struct image_list_options o = {
        .root = p->root_folder ? p->root_folder : "",
        .height = (int)p->new_height,
        .width = (int)p->new_width,
        .color = p->is_color ? IMAGE_COLOR : IMAGE_GRAY,
        .nlabels = (int)p->label_size,
        .labels = layer->i == &layer_image_data ? IMAGE_LABELS_ONE
                  : is_dense(layer)             ? IMAGE_LABELS_PICTURE
                                                : IMAGE_LABELS_NONE + p->label_type,
        .ignore = p->ignore_label,
        .base_file = env->base_file,
    };
    char *path = data_source(state, p->source, IS_OWN(p), env);
    int status = path ? source_open_image_list(path, &o, &state->source) : -1;

    free(path);
    return status;
}

static int image_data_check(const struct layer *layer, const struct layer_env *env,
                            const Caffe__ImageDataParameter *p)
{
    const bool planes = layer->i != &layer_image_data;

    if (!p || (!env->look_only && (!p->source || !p->source[0])))
        return error_set("source is missing; expected a text file with a line \"%s\" for every "
                         "image",
                         planes ? "IMAGE LABELS" : "PATH LABEL");
    if ((p->new_height == 0) != (p->new_width == 0))
        return error_set("new_height is %lu and new_width %lu; expected both or neither",
                         (unsigned long)p->new_height, (unsigned long)p->new_width);
    if (p->new_height > IMAGE_MAX_PIXELS || p->new_width > IMAGE_MAX_PIXELS)
        return error_set("new_height is %lu and new_width %lu; such images are too large",
                         (unsigned long)p->new_height, (unsigned long)p->new_width);
    if (layer->i != &layer_image_seg_data && (p->has_label_type || p->has_ignore_label))
        return error_set("label_type and ignore_label are ImageSegData's; expected a layer of this "
                         "type");
    if (p->has_label_size && (planes || p->label_size == 0 || p->label_size > MAX_LABELS))
        return error_set("label_size is %lu; expected 1 to %d labels after a path, in a layer of "
                         "type ImageData",
                         (unsigned long)p->label_size, MAX_LABELS);
    return 0;
}

/* Takes padding from ImageSegData's message, crop and mirror from DenseImageData's. */
static void planes_set_up(const struct layer *layer, struct data *state,
                          const Caffe__ImageDataParameter *p)
{
    Caffe__TransformationParameter *t = &state->param;

    if (layer->i == &layer_image_seg_data)
        state->planes = (struct transform_planes){true, p->ignore_label};
    if (!is_dense(layer))
        return;
    t->mirror = t->mirror || p->mirror;
    t->crop_height = p->has_crop_height ? p->crop_height : t->crop_height;
    t->crop_width = p->has_crop_width ? p->crop_width : t->crop_width;
}

static int image_data_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__ImageDataParameter *p = image_settings(layer);
    const char *name = is_dense(layer) ? "dense_image_data_param" : "image_data_param";
    struct data *state;

    if (image_data_check(layer, env, p))
        return error_context("%s", name);
    state = data_make_state(layer, env, true, p->batch_size, p->rand_skip);
    if (!state)
        return -1;
    planes_set_up(layer, state, p);
    if ((p->has_scale || p->has_crop_size || p->mean_file ||
         (!is_dense(layer) && (p->has_mirror || p->has_crop_height || p->has_crop_width))) &&
        data_notice_transform(layer, env, name))
        return -1;
    if (p->shuffle)
        state->options.shuffle = SHUFFLE_ALL;
    return data_set_up(
        layer, env,
        &(struct data_look){
            .source = p->source,
            .own = IS_OWN(p),
            .mixes = "image_data_param { shuffle: true } mixes them",
            .open = image_data_open,
            .planes = layer->i != &layer_image_data,
            .label = {.naxes = p->has_label_size, .dim = {(int64_t)p->label_size}},
            .known = {p->is_color ? 3 : 1, (int64_t)p->new_height, (int64_t)p->new_width}});
}

static void image_data_images(const struct layer *layer, struct layer_images *out)
{
    const Caffe__ImageDataParameter *p = image_settings(layer);

    data_images(layer, out);
    out->as_stored = p->new_height == 0;
    if (!out->as_stored) /* the shape is known without the source */
        out->record = (struct shape){
            .naxes = 3,
            .dim = {p->is_color ? 3 : 1, (int64_t)p->new_height, (int64_t)p->new_width}};
}

#define IMAGE_DATA_LAYER(variable, name, most)                                                     \
    const struct layer_i variable = {                                                              \
        .type = name,                                                                              \
        .tops = {2, most},                                                                         \
        .setup_in = image_data_setup,                                                              \
        .images = image_data_images,                                                               \
        DATA_LAYER_SLOTS,                                                                          \
    }

IMAGE_DATA_LAYER(layer_image_data, "ImageData", 2);
IMAGE_DATA_LAYER(layer_image_seg_data, "ImageSegData", 3);
IMAGE_DATA_LAYER(layer_dense_image_data, "DenseImageData", 2);

static int hdf5_open(struct layer *layer, struct data *state, const struct layer_env *env)
{
    const char *names[SOURCE_MAX_FIELDS];
    char *path = path_find(layer->param->hdf5_data_param->source, env->base_file, NULL);
    int status;

    if (!path)
        return -1;
    for (int t = 0; t < layer->ntops; t++)
        names[t] = layer->tops[t]->name;
    status = source_open_hdf5_list(path, layer->ntops, names, &state->source);
    free(path);
    return status;
}

static int hdf5_data_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__HDF5DataParameter *p = layer->param->hdf5_data_param;
    struct data *state;

    if (!p || (!env->look_only && (!p->source || !p->source[0])))
        return error_set("hdf5_data_param source is missing; expected a text file that lists HDF5 "
                         "files");
    if (layer->param->transform_param)
        return error_set(
            "transform_param does not apply to HDF5Data, which feeds values unchanged");
    if (layer->ntops > SOURCE_MAX_FIELDS)
        return error_set("%d tops; expected at most %d data sets", layer->ntops, SOURCE_MAX_FIELDS);
    state = data_make_state(layer, env, p->has_batch_size, p->batch_size, 0);
    if (!state)
        return -1;
    if (p->shuffle)
        state->options.shuffle = SHUFFLE_ALL;
    return data_set_up(
        layer, env,
        &(struct data_look){.source = p->source,
                            .open = hdf5_open,
                            .values = true,
                            .mixes = "hdf5_data_param { shuffle: true } mixes them"});
}

const struct layer_i layer_hdf5_data = {
    .type = "HDF5Data",
    .tops = {1, OP_ANY},
    .setup_in = hdf5_data_setup,
    DATA_LAYER_SLOTS,
};
