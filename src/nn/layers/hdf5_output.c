/* HDF5Output: appends its bottoms to the data sets `data` and `label` at every pass.
 *
 * Caffe's HDF5Output can write one pass only. Each rank writes its own file, since HDF5 files
 * cannot be shared. Each pass flushes the file: interrupted runs leave a readable one. */
#include "layers/layers_internal.h"

#include "util/alloc.h"
#include "spec/h5.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <stdlib.h>

#define CHUNK_BYTES ((hsize_t)1 << 20)

enum { LEAST_AXES = 4 }; /* axes that Caffe writes (N,C,H,W), even if the bottom has fewer */

static const char *const names[2] = {"data", "label"};

struct output {
    struct engine *engine;       /* borrowed */
    char *path;                  /* owned */
    hid_t file;                  /* negative: not open */
    float *values;               /* owned; holds the larger bottom */
    struct h5_output dataset[2]; /* dim[0] counts the rows written so far */
    bool look_only;
};

static int output_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__HDF5OutputParameter *p = layer->param->hdf5_output_param;
    struct strbuf path = {0};
    struct output *state;

    if (!p || !p->file_name || !p->file_name[0])
        return error_set("hdf5_output_param file_name is missing; expected the file to write");
    for (int b = 0; b < 2; b++)
        if (layer->bottoms[b]->value.shape.naxes < 1)
            return error_set("bottom '%s' is a scalar; expected a first axis of samples",
                             layer->bottoms[b]->name);
    if (shape_dim(&layer->bottoms[0]->value.shape, 0) !=
        shape_dim(&layer->bottoms[1]->value.shape, 0))
        return error_set("bottom '%s' has %s, but '%s' has %lld", layer->bottoms[0]->name,
                         units_count(shape_dim(&layer->bottoms[0]->value.shape, 0), "sample").text,
                         layer->bottoms[1]->name,
                         (long long)shape_dim(&layer->bottoms[1]->value.shape, 0));
    if (ALLOC(state, 1, "an HDF5Output layer"))
        return -1;
    layer->state = state;
    state->file = state->dataset[0].id = state->dataset[1].id = -1;
    state->look_only = env->look_only;
    strbuf_puts(&path, p->file_name);
    if (env->rank > 0)
        strbuf_printf(&path, ".rank%d", env->rank);
    state->path = strbuf_take(&path);
    if (!state->path)
        return -1;
    if (env->nranks > 1 && env->rank == 0)
        return layer_notice(layer, env,
                            "each of %d ranks writes a file of its own samples: %s, %s.rank1, ...",
                            env->nranks, p->file_name, p->file_name);
    return 0;
}

/* Creates an extendible data set without rows. */
static int output_dataset_create(struct output *state, int b, const struct shape *shape)
{
    struct h5_output *o = &state->dataset[b];
    hsize_t row = sizeof(float) * (hsize_t)shape_count(shape, 1, shape->naxes);

    o->path = state->path;
    o->name = names[b];
    o->type = H5T_IEEE_F32LE;
    o->naxes = shape->naxes < LEAST_AXES ? LEAST_AXES : shape->naxes;
    for (int i = 1; i < o->naxes; i++)
        o->dim[i] = i < shape->naxes ? (hsize_t)shape->dim[i] : 1;
    o->chunk = row < CHUNK_BYTES ? CHUNK_BYTES / row : 1;
    return h5_output_create(state->file, o);
}

static int output_build(struct layer *layer, struct engine *engine)
{
    struct output *state = layer->state;
    size_t elems = 1;
    int status = 0;

    state->engine = engine;
    if (state->look_only)
        return 0;
    for (int b = 0; b < 2; b++)
        if (shape_elems(&layer->bottoms[b]->value.shape) > elems)
            elems = shape_elems(&layer->bottoms[b]->value.shape);
    if (ALLOC(state->values, elems, "an HDF5Output layer"))
        return -1;
    h5_lock();
    state->file = H5Fcreate(state->path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (state->file < 0)
        status = h5_write_failed(state->path);
    for (int b = 0; b < 2 && status == 0; b++)
        status = output_dataset_create(state, b, &layer->bottoms[b]->value.shape);
    h5_unlock();
    return status;
}

static int output_forward(struct layer *layer, const struct pass *pass)
{
    struct output *state = layer->state;
    struct engine *engine = state->engine;
    int status = 0;

    (void)pass;
    if (state->look_only)
        return 0;
    for (int b = 0; b < 2 && status == 0; b++) {
        const struct tensor *value = &layer->bottoms[b]->value;

        if (engine->i->read(engine->context, value, state->values))
            return -1;
        h5_lock();
        status = h5_output_write(&state->dataset[b], state->dataset[b].dim[0],
                                 (hsize_t)value->shape.dim[0], H5T_NATIVE_FLOAT, state->values);
        h5_unlock();
    }
    h5_lock();
    if (status == 0 && H5Fflush(state->file, H5F_SCOPE_LOCAL) < 0)
        status = h5_write_failed(state->path);
    h5_unlock();
    return status;
}

static void output_destroy(struct layer *layer)
{
    struct output *state = layer->state;

    if (!state)
        return;
    h5_lock();
    for (int b = 0; b < 2; b++)
        (void)h5_output_close(&state->dataset[b]);
    if (state->file >= 0)
        H5Fclose(state->file);
    h5_unlock();
    free(state->values);
    free(state->path);
    free(state);
    layer->state = NULL;
}

const struct layer_i layer_hdf5_output = {
    .type = "HDF5Output",
    .bottoms = {2, 2},
    .no_gradient_to = 3u,
    .setup_in = output_setup,
    .build = output_build,
    .forward = output_forward,
    .destroy = output_destroy,
};
