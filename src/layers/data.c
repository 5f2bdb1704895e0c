/* Layers that bring samples: Data (an image file), HDF5Data (named data sets of listed files), and
 * Input (a buffer that others write).
 *
 * When only the model is looked at, no source is opened: shapes then come from the definition, from
 * what the user said, or from an assumption that is said aloud. */
#include "layers/layers_internal.h"

#include "input/feeder.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Image size assumed when nothing tells. */
#define ASSUMED_CHANNELS 3
#define ASSUMED_SIZE     224

struct data {
    struct engine *engine;      /* borrowed; NULL before build */
    struct source *source;      /* owned until build, then the feeder's */
    struct transform transform; /* ditto */
    bool transforms;            /* `transform` applies to field 0 */
    struct feeder_options options;
    struct feeder *feeder; /* owned; NULL before build */
};

/* Where the file is: as named, or beside base_file. The result is the caller's to free. */
static char *data_path(const char *path, const char *base_file)
{
    const char *slash = base_file ? strrchr(base_file, '/') : NULL;
    size_t folder = slash ? (size_t)(slash - base_file) + 1 : 0;
    char *beside;

    if (path[0] != '/' && folder > 0 && access(path, F_OK) != 0) {
        beside = malloc(folder + strlen(path) + 1);
        if (!beside)
            return NULL;
        memcpy(beside, base_file, folder);
        strcpy(beside + folder, path);
        if (access(beside, F_OK) == 0)
            return beside;
        free(beside);
    }
    return strdup(path);
}

static int check_batch(const struct layer *layer, const struct layer_env *env, bool has,
                       uint32_t batch_size, int *batch)
{
    if (layer->train && env->batch > 0) {
        *batch = env->batch;
        return 0;
    }
    if (!has || batch_size == 0 || batch_size > INT32_MAX)
        return error_set("batch_size is %s; expected at least 1", has ? "out of range" : "missing");
    *batch = (int)batch_size;
    return 0;
}

/* Top t is (batch, record...). */
static int set_top(struct layer *layer, int t, int batch, const struct shape *record)
{
    int64_t dim[SHAPE_MAX_AXES + 1] = {batch};

    for (int i = 0; i < record->naxes; i++)
        dim[i + 1] = record->dim[i];
    return shape_set(&layer->tops[t]->value.shape, record->naxes + 1, dim, layer->tops[t]->name);
}

static struct data *make_state(struct layer *layer, const struct layer_env *env, int batch)
{
    struct data *state = calloc(1, sizeof(*state));

    layer->state = state;
    if (!state) {
        error_memory(sizeof(*state), "a data layer");
        return NULL;
    }
    state->options = (struct feeder_options){
        .batch = batch,
        .rank = env->rank,
        .nranks = env->nranks > 0 ? env->nranks : 1,
        .first_sample = env->first_sample,
        .seed = env->seed,
        .layer_index = layer->index,
        .depth = 4,
    };
    return state;
}

/* The record's shape where no source may be opened. */
static int assume_record(const struct layer *layer, const struct layer_env *env,
                         struct shape *record)
{
    const Caffe__TransformationParameter *t = layer->param->transform_param;
    const int64_t *known = env->input_chw;
    int64_t crop = t ? (int64_t)t->crop_size : 0;
    int64_t dim[3] = {ASSUMED_CHANNELS, ASSUMED_SIZE, ASSUMED_SIZE};

    if (t && t->n_mean_value > 1)
        dim[0] = (int64_t)t->n_mean_value;
    if (known)
        memcpy(dim, known, sizeof(dim));
    if (known && crop > 0 && (known[1] < crop || known[2] < crop))
        return error_set("crop_size %" PRId64 " is larger than the input of %" PRId64 " x %" PRId64,
                         crop, known[1], known[2]);
    if (crop > 0)
        dim[1] = dim[2] = crop;
    if (shape_set(record, 3, dim, "the assumed input"))
        return -1;
    if (known || (crop > 0 && t->n_mean_value > 1))
        return 0;
    return layer_notice(layer, env,
                        "assuming images of %" PRId64 " channels, %" PRId64 " x %" PRId64
                        " pixels%s; --input-shape=C,H,W says otherwise",
                        dim[0], dim[1], dim[2], crop > 0 ? " (crop_size)" : "");
}

static int data_look(struct layer *layer, const struct layer_env *env, int batch)
{
    const struct shape label = {0};
    struct shape record;

    if (assume_record(layer, env, &record) || set_top(layer, 0, batch, &record))
        return -1;
    for (int t = 1; t < layer->ntops; t++)
        if (set_top(layer, t, batch, &label))
            return -1;
    return 0;
}

static int data_open(struct layer *layer, struct data *state, const struct layer_env *env,
                     const char *name)
{
    const Caffe__TransformationParameter defaults = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    const Caffe__TransformationParameter *t = layer->param->transform_param;
    char *path = data_path(name, env->base_file);
    int status;

    if (!path)
        return error_memory(strlen(name) + 1, "a path");
    status = source_open_images(path, layer->ntops == 2, IMAGE_AS_STORED, &state->source);
    free(path);
    if (status || transform_create(t ? t : &defaults, &state->source->field[0].shape, layer->train,
                                   env->base_file, &state->transform))
        return -1;
    state->transforms = true;
    if (set_top(layer, 0, state->options.batch, &state->transform.out))
        return -1;
    return layer->ntops == 2
               ? set_top(layer, 1, state->options.batch, &state->source->field[1].shape)
               : 0;
}

static int data_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__DataParameter *p = layer->param->data_param;
    struct data *state;
    int batch = 0;

    if (!p || !p->source || !p->source[0])
        return error_set("data_param source is missing; expected the name of an image file");
    if (check_batch(layer, env, p->has_batch_size, p->batch_size, &batch))
        return -1;
    state = make_state(layer, env, batch);
    if (!state)
        return -1;
    if (p->prefetch > 2)
        state->options.depth = p->prefetch < 64 ? (int)p->prefetch : 64;
    return env->look_only ? data_look(layer, env, batch) : data_open(layer, state, env, p->source);
}

static int data_build(struct layer *layer, struct engine *engine)
{
    struct data *state = layer->state;
    struct source *source = state->source;
    struct transform transform = state->transform;

    state->engine = engine;
    if (!source)
        return 0; /* only looked at: what the net allocated stays blank */
    state->source = NULL; /* the feeder's from here on, also when it fails */
    memset(&state->transform, 0, sizeof(state->transform));
    return feeder_create(source, state->transforms ? &transform : NULL, &state->options,
                         &state->feeder);
}

static int data_forward(struct layer *layer, const struct run *run)
{
    struct data *state = layer->state;
    struct engine *engine = state->engine;
    const float *const *fields;

    (void)run;
    if (!state->feeder)
        return 0;
    if (feeder_next(state->feeder, &fields))
        return -1;
    for (int t = 0; t < layer->ntops; t++)
        if (engine->i->write(engine->context, &layer->tops[t]->value, fields[t]))
            return -1;
    return 0;
}

static int data_seek(struct layer *layer, uint64_t first_sample)
{
    struct data *state = layer->state;

    return state->feeder ? feeder_seek(state->feeder, first_sample) : 0;
}

static void data_waits(const struct layer *layer, uint64_t *times, double *seconds)
{
    const struct data *state = layer->state;

    *times = 0;
    *seconds = 0;
    if (state && state->feeder)
        feeder_waits(state->feeder, times, seconds);
}

static void data_destroy(struct layer *layer)
{
    struct data *state = layer->state;

    if (!state)
        return;
    if (state->feeder)
        feeder_destroy(state->feeder);
    transform_free(&state->transform);
    source_close(state->source);
    free(state);
}

const struct layer_i layer_data = {
    .type = "Data",
    .min_bottoms = 0,
    .max_bottoms = 0,
    .min_tops = 1,
    .max_tops = 2,
    .is_data = true,
    .no_backward = true,
    .setup = data_setup,
    .build = data_build,
    .forward = data_forward,
    .destroy = data_destroy,
    .seek = data_seek,
    .waits = data_waits,
};

static int hdf5_open(struct layer *layer, struct data *state, const struct layer_env *env,
                     const char *name)
{
    const char *names[SOURCE_MAX_FIELDS];
    char *path = data_path(name, env->base_file);
    int status;

    if (!path)
        return error_memory(strlen(name) + 1, "a path");
    for (int t = 0; t < layer->ntops; t++)
        names[t] = layer->tops[t]->name;
    status = source_open_hdf5_list(path, layer->ntops, names, &state->source);
    free(path);
    for (int t = 0; !status && t < layer->ntops; t++)
        status = set_top(layer, t, state->options.batch, &state->source->field[t].shape);
    return status;
}

static int hdf5_data_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__HDF5DataParameter *p = layer->param->hdf5_data_param;
    struct data *state;
    int batch = 0;

    if (!p || !p->source || !p->source[0])
        return error_set("hdf5_data_param source is missing; expected a text file that lists HDF5 "
                         "files");
    if (layer->param->transform_param)
        return error_set("transform_param is not for HDF5Data: it feeds the values as they are");
    if (layer->ntops > SOURCE_MAX_FIELDS)
        return error_set("%d tops; expected at most %d data sets", layer->ntops, SOURCE_MAX_FIELDS);
    if (check_batch(layer, env, p->has_batch_size, p->batch_size, &batch))
        return -1;
    state = make_state(layer, env, batch);
    if (!state)
        return -1;
    state->options.shuffle = p->shuffle;
    return env->look_only ? data_look(layer, env, batch) : hdf5_open(layer, state, env, p->source);
}

const struct layer_i layer_hdf5_data = {
    .type = "HDF5Data",
    .min_bottoms = 0,
    .max_bottoms = 0,
    .min_tops = 1,
    .max_tops = -1,
    .is_data = true,
    .no_backward = true,
    .setup = hdf5_data_setup,
    .build = data_build,
    .forward = data_forward,
    .destroy = data_destroy,
    .seek = data_seek,
    .waits = data_waits,
};

static int input_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__InputParameter *p = layer->param->input_param;
    size_t shapes = p ? p->n_shape : 0;

    (void)env;
    if (shapes != 1 && shapes != (size_t)layer->ntops)
        return error_set("input_param has %zu shapes for %d tops; expected one for all or one each",
                         shapes, layer->ntops);
    for (int t = 0; t < layer->ntops; t++) {
        const Caffe__BlobShape *shape = p->shape[shapes == 1 ? 0 : t];
        if (shape->n_dim > SHAPE_MAX_AXES)
            return error_set("input_param shape has %zu axes; at most %d are possible",
                             shape->n_dim, SHAPE_MAX_AXES);
        for (size_t i = 0; i < shape->n_dim; i++)
            if (shape->dim[i] < 1)
                return error_set("input_param shape has size %" PRId64 " on axis %zu; expected at "
                                 "least 1",
                                 shape->dim[i], i);
        if (shape_set(&layer->tops[t]->value.shape, (int)shape->n_dim, shape->dim,
                      layer->tops[t]->name))
            return -1;
    }
    return 0;
}

/* The net's memory is all an Input needs; whoever feeds it writes there. */
static int input_build(struct layer *layer, struct engine *engine)
{
    (void)layer;
    (void)engine;
    return 0;
}

static int input_forward(struct layer *layer, const struct run *run)
{
    (void)layer;
    (void)run;
    return 0;
}

const struct layer_i layer_input = {
    .type = "Input",
    .min_bottoms = 0,
    .max_bottoms = 0,
    .min_tops = 1,
    .max_tops = -1,
    .is_data = true,
    .no_backward = true,
    .setup = input_setup,
    .build = input_build,
    .forward = input_forward,
};
