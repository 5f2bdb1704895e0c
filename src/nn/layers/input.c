/* Layers whose tops the program fills: Input, and MemoryData of Caffe's programming interface. */
#include "layers/layers_internal.h"

#include "util/error.h"
#include "util/units.h"

#include <inttypes.h>
#include <string.h>

struct shape layer_given_shape(const struct layer *layer, const struct layer_env *env, int t)
{
    const char *name = layer->tops[t]->name;
    const struct shape *own = &layer->tops[t]->value.shape;
    bool images = own->naxes ? own->naxes == 4 && own->dim[2] * own->dim[3] > 1 : t == 0;
    const int64_t *chw = env->input_chw;

    for (int i = 0; i < env->ninputs; i++)
        if (strlen(name) == (size_t)env->inputs[i].letters &&
            !strncmp(name, env->inputs[i].top, strlen(name)))
            return env->inputs[i].shape;
    return chw && images ? (struct shape){3, {chw[0], chw[1], chw[2]}} : (struct shape){0};
}

/* Gives the tops the sizes from the command line. */
static int take_given_shapes(struct layer *layer, const struct layer_env *env)
{
    for (int t = 0; t < layer->ntops && !env->fake; t++) {
        const struct shape own = layer->tops[t]->value.shape,
                           given = layer_given_shape(layer, env, t);

        if (given.naxes && layer_set_sample(layer, t, own.naxes ? own.dim[0] : 1, &given))
            return -1;
    }
    return 0;
}

int layer_scale_batch(struct layer *layer, const struct layer_env *env, int64_t own, int64_t *out)
{
    int64_t first = env->first_batch > 0 ? env->first_batch : own;

    layer->own_batch = own;
    *out = env->batch <= 0 ? own : own > 0 ? env->batch * own / first : env->batch;
    if (env->batch <= 0 || own <= 0 ||
        (env->batch * own % first == 0 && (own == first || !env->turn)))
        return 0;
    return error_set("the batch is %" PRId64 " here and %" PRId64
                     " in the first data layer: with %d there, expected a whole number here (where "
                     "workers' shares differ, the same number)",
                     own, first, env->batch);
}

int layer_replace_batch(struct layer *layer, const struct layer_env *env)
{
    const struct shape first = layer->tops[0]->value.shape;
    int64_t batch;

    if (first.naxes > 0 && layer_scale_batch(layer, env, first.dim[0], &batch))
        return -1;
    for (int t = 0; t < layer->ntops && first.naxes > 0; t++) {
        struct shape *shape = &layer->tops[t]->value.shape;
        int64_t dim[SHAPE_MAX_AXES];

        if (shape->naxes == 0 || shape->dim[0] != first.dim[0])
            continue;
        memcpy(dim, shape->dim, sizeof(dim));
        dim[0] = batch;
        if (shape_set(shape, shape->naxes, dim, layer->tops[t]->name))
            return -1;
    }
    return take_given_shapes(layer, env);
}

int layer_set_shape(struct layer *layer, int t, size_t naxes, const int64_t *dim)
{
    const char *name = layer->tops[t]->name;

    if (naxes > SHAPE_MAX_AXES)
        return error_set("the shape of '%s' has %zu axes; at most %d are possible", name, naxes,
                         SHAPE_MAX_AXES);
    for (size_t i = 0; i < naxes; i++)
        if (dim[i] < 1)
            return error_set("the shape of '%s' has size %" PRId64 " on axis %zu; expected at "
                             "least 1",
                             name, dim[i], i);
    return shape_set(&layer->tops[t]->value.shape, (int)naxes, dim, name);
}

static int input_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__InputParameter *p = layer->param->input_param;
    size_t shapes = p ? p->n_shape : 0;

    if (shapes != 1 && shapes != (size_t)layer->ntops)
        return error_set("input_param has %s for %s; expected one for all or one each",
                         units_count((long long)shapes, "shape").text,
                         units_count(layer->ntops, "top").text);
    for (int t = 0; t < layer->ntops; t++) {
        const Caffe__BlobShape *shape = p->shape[shapes == 1 ? 0 : t];
        if (layer_set_shape(layer, t, shape->n_dim, shape->dim))
            return -1;
    }
    return layer_replace_batch(layer, env);
}

/* An Input needs no operator: the program writes into the net's memory. */
static int input_build(struct layer *layer, struct engine *engine)
{
    (void)layer;
    (void)engine;
    return 0;
}

static int input_forward(struct layer *layer, const struct pass *pass)
{
    (void)layer;
    (void)pass;
    return 0;
}

const struct layer_i layer_input = {
    .type = "Input",
    .tops = {1, OP_ANY},
    .is_data = true,
    .from_program = true,
    .setup_in = input_setup,
    .build = input_build,
    .forward = input_forward,
};

static int memory_data_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__MemoryDataParameter *p = layer->param->memory_data_param;
    int64_t dim[4];

    if (!p || !p->batch_size || !p->channels || !p->height || !p->width)
        return error_set("memory_data_param needs batch_size, channels, height and width, all at "
                         "least 1");
    if (!env->look_only)
        return error_set(
            "MemoryData gets its samples from a program through Caffe's interface, which poseidon "
            "lacks; use a Data, ImageData or HDF5Data layer, which reads files");
    if (layer_scale_batch(layer, env, p->batch_size, &dim[0]))
        return -1;
    dim[1] = p->channels;
    dim[2] = p->height;
    dim[3] = p->width;
    return error_status(shape_set(&layer->tops[0]->value.shape, 4, dim, layer->tops[0]->name) ||
                        shape_set(&layer->tops[1]->value.shape, 1, dim, layer->tops[1]->name) ||
                        take_given_shapes(layer, env));
}

const struct layer_i layer_memory_data = {
    .type = "MemoryData",
    .tops = {2, 2},
    .is_data = true,
    .from_program = true,
    .setup_in = memory_data_setup,
    .build = input_build,
    .forward = input_forward,
};
