/* State and set-up shared by the layers that read samples.
 *
 * When a command only looks at the model (look_only), no batch is read. Shapes then come from the
 * user, else from an existing source, else from the definition and a printed assumption. */
#include "layers/data_internal.h"

#include "util/alloc.h"
#include "util/path.h"
#include "util/rng.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Image size assumed if neither the definition nor the user gives one. */
#define ASSUMED_CHANNELS 3
#define ASSUMED_SIZE     224

int layer_set_sample(struct layer *layer, int t, int64_t batch, const struct shape *record)
{
    int64_t dim[SHAPE_MAX_AXES + 1] = {batch};

    for (int i = 0; i < record->naxes; i++)
        dim[i + 1] = record->dim[i];
    return shape_set(&layer->tops[t]->value.shape, record->naxes + 1, dim, layer->tops[t]->name);
}

struct data *data_make_state(struct layer *layer, const struct layer_env *env, bool has_batch,
                             uint32_t batch_size, uint32_t rand_skip)
{
    const struct rng rng = rng_make(env->seed, RNG_SHUFFLE, (uint32_t)layer->index, UINT64_MAX);
    const Caffe__TransformationParameter defaults = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    struct data *state;
    int64_t batch;

    if (env->batch <= 0 && (!has_batch || batch_size == 0 || batch_size > INT32_MAX)) {
        error_set("batch_size is %s; expected at least 1", has_batch ? "out of range" : "missing");
        return NULL;
    }
    if (layer_scale_batch(layer, env, has_batch ? batch_size : 0, &batch) ||
        ALLOC(state, 1, "a data layer"))
        return NULL;
    layer->state = state;
    state->options = (struct feeder_options){
        .batch = (int)batch,
        .rank = env->rank,
        .nranks = env->nranks > 0 ? env->nranks : 1,
        .row = env->row,
        .before = env->before,
        .turn = env->turn,
        .first_sample = env->first_sample,
        .seed = env->seed,
        .layer_index = layer->index,
        .order_layer = layer->index,
        .shuffle = env->shuffle && layer->train ? SHUFFLE_WINDOWS : SHUFFLE_NONE,
        .depth = 4,
        .care = env->care,
        .trace = env->trace,
    };
    state->param = layer->param->transform_param ? *layer->param->transform_param : defaults;
    state->ranks_per_sample = 1;
    state->skip = rand_skip ? rng_below(&rng, 0, rand_skip) : 0;
    return state;
}

/* Returns the path of `source`, or of SOURCE_RANK if every rank has its own (`own`). */
static char *source_path(const char *source, bool own, const struct layer_env *env)
{
    struct strbuf name = {0};
    char *path;

    if (!own)
        return path_find(source, env->base_file, NULL);
    strbuf_printf(&name, "%s_%d", source, env->rank);
    path = strbuf_status(&name) ? NULL : path_find(name.data, env->base_file, NULL);
    strbuf_free(&name);
    return path;
}

char *data_source(struct data *state, const char *source, bool own, const struct layer_env *env)
{
    char *path = source_path(source, own, env);

    if (!own)
        return path;
    state->ranks_per_sample = (uint64_t)state->options.nranks;
    state->options.first_sample /= state->ranks_per_sample;
    /* each rank with its own source gets its own seed: equal sample numbers are different images */
    state->options.seed += (uint64_t)env->rank;
    state->options.rank = 0;
    state->options.nranks = 1;
    state->options.turn = 0;
    return path;
}

int data_forced_color(const struct layer *layer, enum image_color *out)
{
    const Caffe__TransformationParameter *t = layer->param->transform_param;

    *out = IMAGE_AS_STORED;
    if (!t)
        return 0;
    if (t->force_color && t->force_gray)
        return error_set("transform_param: both force_color and force_gray; expected one of them");
    if (t->force_color || t->force_gray)
        *out = t->force_color ? IMAGE_COLOR : IMAGE_GRAY;
    return 0;
}

/* Finds the record's shape, C,H,W, without a source. *assumed: part of the shape is a guess. */
static int record_assume(const struct layer *layer, const struct layer_env *env,
                         const int64_t known[3], int64_t dim[3], bool *assumed)
{
    const struct data *state = layer->state;
    const Caffe__TransformationParameter *t = &state->param;
    const struct shape said = layer_given_shape(layer, env, 0);
    struct shape image = {.naxes = 3};
    int64_t crop[2];

    if (transform_crop(t, crop))
        return -1;
    dim[0] = known[0] ? known[0] : ASSUMED_CHANNELS;
    dim[1] = known[1] ? known[1] : ASSUMED_SIZE;
    dim[2] = known[2] ? known[2] : ASSUMED_SIZE;
    *assumed = !known[0] || !(known[1] || crop[0] > 0);
    if (!known[0] && t->n_mean_value > 1) {
        dim[0] = (int64_t)t->n_mean_value;
        *assumed = !(known[1] || crop[0] > 0);
    }
    if (said.naxes && said.naxes != 3)
        return error_set("--input-shape gives '%s' %s; expected C,H,W", layer->tops[0]->name,
                         units_count(said.naxes, "size").text);
    if (said.naxes) {
        memcpy(dim, said.dim, 3 * sizeof(*dim));
        *assumed = false;
    }
    memcpy(image.dim, dim, 3 * sizeof *dim);
    if ((said.naxes || known[1]) && !state->planes.pads &&
        transform_crop_fits(crop, &image, "the input"))
        return -1;
    for (int i = 0; i < 2 && crop[0] > 0; i++)
        dim[1 + i] = crop[i];
    return 0;
}

/* Sets *there if the source is a file or a folder; opening a pipe would block. */
static int source_is_there(const char *source, bool own, const struct layer_env *env, bool *there)
{
    struct stat st;
    char *path = source && *source ? source_path(source, own, env) : NULL;

    *there = path && stat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
    if (source && *source && !path)
        return -1;
    free(path);
    return 0;
}

/* Sets the tops' shapes from the open source; the crop replaces the size of images and of planes of
 * labels. */
static int shapes_of_source(struct layer *layer, const struct source *source, int batch)
{
    const struct data *state = layer->state;
    int64_t crop[2];

    if (transform_crop(&state->param, crop))
        return -1;
    for (int i = 0; i < layer->ntops; i++) {
        struct shape record = source->field[i].shape;

        if (i < 2 && crop[0] > 0 && record.naxes == 3) {
            if (!state->planes.pads && transform_crop_fits(crop, &record, "the images"))
                return error_context("%s", source->path);
            record.dim[1] = crop[0];
            record.dim[2] = crop[1];
        }
        if (layer_set_sample(layer, i, batch, &record))
            return -1;
    }
    return 0;
}

/* Copies record shape, path and class names out of the source, which may be closed afterwards. */
static int data_remember(struct data *state)
{
    const struct watch *watch = &state->source->watch;
    struct class_names names = {.count = 0};
    int status;

    state->record = state->source->field[0].shape;
    free(state->path);
    if (alloc_text(&state->path, state->source->path, "a path"))
        return -1;
    class_names_free(&state->classes);
    status = class_names_of_data(state->path, &state->classes);
    if (!status && state->source->folders.count) {
        state->classes = state->source->folders;
        state->source->folders = (struct class_names){.count = 0};
    }
    for (int f = 0; f < watch->nfiles && !status; f++) {
        bool first = !state->classes.count;

        status = error_status(
            class_names_of_data(watch->file[f].path, first ? &state->classes : &names) ||
            class_names_compare(watch->file[0].path, &state->classes, watch->file[f].path, &names));
        class_names_free(&names);
    }
    return status;
}

static bool is_channels(int64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

/* Warns of HDF5 images stored as N x H x W x C, as numpy and Pillow do, and passes on the source's
 * remark about its first image (label pictures that reading changes). */
static int warn_of_images(const struct layer *layer, const struct layer_env *env,
                          const struct source *source)
{
    for (int f = 0; f < source->nfields && !strcmp(source->i->name, "hdf5"); f++) {
        const struct shape *s = &source->field[f].shape;

        if (s->naxes == 3 && is_channels(s->dim[2]) && !is_channels(s->dim[0]) &&
            !is_channels(s->dim[1]) &&
            layer_notice(layer, env,
                         "warning: %s: data set '%s' of %" PRIu64 " x %s is read as N x C x H x W, "
                         "so %" PRId64 " channels; if it is N x H x W x C, write "
                         "data.transpose(0, 3, 1, 2) instead",
                         source->path, source->field[f].name, source->nrecords,
                         shape_product(s).text, s->dim[0]))
            return -1;
    }
    return source->remark ? layer_notice(layer, env, "warning: %s, first image: %s", source->path,
                                         source->remark)
                          : 0;
}

/* Warns if records are sorted by label, so that each batch has few classes. */
static int warn_of_order(const struct layer *layer, const struct layer_env *env,
                         struct source *source, const char *mixes)
{
    int nrecords, nlabels;

    if (!layer->train || env->rank != 0 || ((struct data *)layer->state)->options.shuffle ||
        !source_is_sorted(source, &nrecords, &nlabels))
        return 0;
    return layer_notice(layer, env,
                        "warning: %s is sorted by label (%s in its first %d records), so "
                        "batches have few classes each, and training may fail; %s",
                        source->path, units_count(nlabels, "label").text, nrecords, mixes);
}

/* Takes shapes from the source if it exists, and sets *read. An unreadable source is a notice. */
static int look_into_source(struct layer *layer, const struct layer_env *env, int batch,
                            const struct data_look *look, bool *read)
{
    struct data *state = layer->state;
    int status;

    if (source_is_there(look->source, look->own, env, read))
        return -1;
    if (!*read)
        return 0;
    if (look->open(layer, state, env)) {
        *read = false;
        return layer_notice(layer, env, "the source exists, but its shape could not be read: %s",
                            error_text());
    }
    status = error_status(shapes_of_source(layer, state->source, batch) ||
                          warn_of_images(layer, env, state->source) || data_remember(state));
    source_close(state->source);
    state->source = NULL;
    return status;
}

static int look_only(struct layer *layer, const struct layer_env *env, int batch,
                     const struct data_look *look)
{
    struct shape said = layer_given_shape(layer, env, 0), label = {0};
    int64_t dim[3];
    bool read = false;

    for (int i = 1; i < layer->ntops; i++)
        label = label.naxes ? label : layer_given_shape(layer, env, i);
    if (!said.naxes && !label.naxes && look_into_source(layer, env, batch, look, &read))
        return -1;
    if (read)
        return 0;
    if ((!look->values || !said.naxes) &&
        (record_assume(layer, env, look->known, dim, &layer->assumed) ||
         shape_set(&said, 3, dim, "the assumed input")))
        return -1;
    if (layer_set_sample(layer, 0, batch, &said))
        return -1;
    for (int i = 1; i < layer->ntops; i++) {
        label = layer_given_shape(layer, env, i);
        if (!label.naxes)
            label = !look->planes ? look->label
                    : i == 1      ? (struct shape){3, {1, said.dim[1], said.dim[2]}}
                                  : (struct shape){3, {1, 1, 2}};
        if (layer_set_sample(layer, i, batch, &label))
            return -1;
    }
    if (layer->assumed &&
        layer_notice(layer, env,
                     "assuming images of %s, %" PRId64 " x %" PRId64
                     " pixels%s; %s=C,H,W says otherwise",
                     units_count(dim[0], "channel").text, dim[1], dim[2],
                     ((struct data *)layer->state)->param.crop_size > 0 ? " (crop_size)" : "",
                     env->fake ? "--fake-data" : "--input-shape"))
        return -1;
    if (!look->values || layer->ntops < 2 || layer_given_shape(layer, env, 1).naxes)
        return 0;
    layer->assumed = true;
    return layer_notice(layer, env,
                        "assuming one value per sample for '%s'%s: the HDF5 files are missing, and "
                        "may have another shape",
                        layer->tops[1]->name, layer->ntops > 2 ? " and the tops behind it" : "");
}

/* Says that every image is padded, if the first one is smaller than the crop along both axes. */
static int warn_of_padding(const struct layer *layer, const struct layer_env *env,
                           const struct transform *t)
{
    if (!t->pads || t->in.dim[1] >= t->out.dim[1] || t->in.dim[2] >= t->out.dim[2])
        return 0;
    return layer_notice(layer, env,
                        "warning: the crop of %" PRId64 " x %" PRId64 " is larger than the first "
                        "image of %" PRId64 " x %" PRId64 " (height x width): images are padded "
                        "with the mean, labels with ignore_label %d",
                        t->out.dim[1], t->out.dim[2], t->in.dim[1], t->in.dim[2], t->ignore);
}

static int make_transform(struct layer *layer, struct data *state, const struct layer_env *env,
                          bool planes)
{
    struct source_field *field = state->source->field;

    if (transform_create_pair(&state->param, planes ? &state->planes : NULL, &field[0].shape,
                              layer->train, env->base_file, &state->transform) ||
        transform_takes(&state->transform, field[0].type))
        return -1;
    if (data_remember(state) ||
        (state->transform.scale == 0 &&
         layer_notice(layer, env, "transform_param scale is 0: all values are 0")))
        return -1;
    state->transforms = true;
    if (planes)
        memcpy(field[1].shape.dim + 1, state->transform.out.dim + 1, 2 * sizeof(int64_t));
    for (int t = 0; t < layer->ntops; t++)
        if (layer_set_sample(layer, t, state->options.batch,
                             t ? &field[t].shape : &state->transform.out))
            return -1;
    return warn_of_padding(layer, env, &state->transform);
}

int data_set_up(struct layer *layer, const struct layer_env *env, const struct data_look *look)
{
    struct data *state = layer->state;

    if (env->look_only)
        return look_only(layer, env, state->options.batch, look);
    if (look->open(layer, state, env) || warn_of_images(layer, env, state->source) ||
        warn_of_order(layer, env, state->source, look->mixes))
        return -1;
    return look->values ? error_status(data_remember(state) ||
                                       shapes_of_source(layer, state->source, state->options.batch))
                        : make_transform(layer, state, env, look->planes);
}

static bool is_opened(const struct layer *layer)
{
    return layer->i->build == data_build && ((struct data *)layer->state)->source;
}

/* Raises `layer`'s shuffle and rand_skip to those of `other`, if larger, and makes orders equal. */
static int align(const struct layer *layer, const struct layer *other, const struct layer_env *env)
{
    struct data *own = layer->state, *its = other->state;
    struct feeder_options *o = &own->options;
    bool follows;

    if (own->source->nrecords != its->source->nrecords ||
        own->ranks_per_sample != its->ranks_per_sample)
        return 0;
    follows = its->options.shuffle > o->shuffle || its->skip > own->skip;
    o->shuffle = its->options.shuffle > o->shuffle ? its->options.shuffle : o->shuffle;
    own->skip = its->skip > own->skip ? its->skip : own->skip;
    if (its->options.order_layer < o->order_layer)
        o->order_layer = its->options.order_layer;
    if (env->care.max_bad > 0 && other->index < layer->index &&
        layer_notice(
            layer, env,
            "warning: --max-bad replaces a damaged record by the next record in this layer alone: "
            "the sample then no longer matches layer '%s', which has as many records (%" PRIu64 ")",
            other->def->name, own->source->nrecords))
        return -1;
    return follows ? layer_notice(layer, env,
                                  "samples come in the order of layer '%s', which has as many "
                                  "records (%" PRIu64 ")",
                                  other->def->name, own->source->nrecords)
                   : 0;
}

int layer_align_data(const struct layer *layers, int n, const struct layer_env *env)
{
    for (int l = 0; l < n; l++)
        for (int k = 0; k < n && is_opened(&layers[l]); k++)
            if (k != l && is_opened(&layers[k]) && align(&layers[l], &layers[k], env))
                return -1;
    return 0;
}

/* Creates the engine's conversion of bytes, if it has one: bytes are a quarter of the floats. */
static int images_create(struct layer *layer, struct data *state, struct engine *engine)
{
    const struct engine_images_args args = transform_args(&state->transform);

    state->options.device = &engine->device;
    if (!engine->i->images || !state->transforms || state->source->nfields > 2 ||
        state->source->field[0].type != SOURCE_U8)
        return 0;
    state->options.bytes = true;
    return engine->i->images->create(engine->context, &args, layer->tops[0], &state->images);
}

int data_build(struct layer *layer, struct engine *engine)
{
    struct data *state = layer->state;
    struct source *source = state->source;
    struct transform transform = state->transform;

    if (source && images_create(layer, state, engine))
        return -1;
    state->engine = engine;
    state->options.first_sample += state->skip;
    if (!source)
        return 0;         /* look_only: the tops stay blank */
    state->source = NULL; /* owned by the feeder from here on, even if feeder_create fails */
    memset(&state->transform, 0, sizeof(state->transform));
    return feeder_create(source, state->transforms ? &transform : NULL, &state->options,
                         &layer->feeder);
}

int data_forward(struct layer *layer, const struct pass *pass)
{
    struct data *state = layer->state;
    struct engine *engine = state->engine;
    const float *const *fields;
    const uint8_t *pixels;
    const struct engine_window *windows;

    (void)pass;
    assert(layer->i->is_data && layer->nbottoms == 0);
    if (!layer->feeder)
        return 0;
    if (feeder_next(layer->feeder, &fields))
        return -1;
    if (state->images) {
        feeder_bytes(layer->feeder, &pixels, &windows);
        if (engine->i->images->write(engine->context, state->images, &layer->tops[0]->value, pixels,
                                     windows))
            return -1;
    }
    for (int t = state->images ? 1 : 0; t < layer->ntops; t++)
        if (engine->i->write(engine->context, &layer->tops[t]->value, fields[t]))
            return -1;
    return 0;
}

static void put_hex(const unsigned char digest[32], char text[SHA256_HEX])
{
    for (int i = 0; i < 32; i++)
        sprintf(text + 2 * i, "%02x", digest[i]);
}

int data_mark(const struct layer *layer, struct layer_data_mark *out)
{
    const struct data *state = layer->state;
    const struct transform *t = &state->transform;
    struct source_mark mark;
    struct sha256 hash;

    memset(out, 0, sizeof *out);
    if (!state->source)
        return 0;
    if (source_read_mark(state->source, &mark))
        return -1;
    out->known = true;
    out->own = state->ranks_per_sample > 1;
    out->nrecords = mark.nrecords;
    put_hex(mark.first, out->first);
    put_hex(mark.last, out->last);
    if (!state->transforms || (!t->mean && !t->channel_mean))
        return 0;
    sha256_init(&hash);
    if (t->mean)
        sha256_update(&hash, t->mean, shape_elems(&t->in) * sizeof(float));
    else
        sha256_update(&hash, t->channel_mean, (size_t)t->in.dim[0] * sizeof(float));
    sha256_final_hex(&hash, out->mean);
    return 0;
}

int data_look_at(const struct layer *layer, double seconds, struct source_survey *out)
{
    const struct data *state = layer->state;

    *out = (struct source_survey){.path = NULL};
    return state->source ? source_look(state->source, seconds, out) : 0;
}

void data_images(const struct layer *layer, struct layer_images *out)
{
    const struct data *state = layer->state;

    *out = (struct layer_images){.transform = layer->param->transform_param,
                                 .record = state->record,
                                 .source = state->path,
                                 .classes = state->classes.name,
                                 .nclasses = state->classes.images ? 0 : state->classes.count,
                                 .names = state->classes.count ? &state->classes : NULL};
}

static struct class_names names_of(const struct layer_images *images)
{
    return images->names ? *images->names : (struct class_names){.count = 0};
}

int layer_compare_classes(const struct layer_images *one, const struct layer_images *other)
{
    const struct class_names names = names_of(one), others = names_of(other);

    return class_names_compare(one->source, &names, other->source, &others);
}

int layer_compare_told_classes(const char *path, const char *names, const struct layer_images *data)
{
    const struct class_names known = names_of(data);
    struct class_names told = {.count = 0};
    int status = class_names_split(names, &told);

    if (!status)
        status = class_names_compare(path, &told, data->source, &known);
    class_names_free(&told);
    return status;
}

int data_seek(struct layer *layer, uint64_t first_sample)
{
    const struct data *state = layer->state;

    return layer->feeder
               ? feeder_seek(layer->feeder, first_sample / state->ranks_per_sample + state->skip)
               : 0;
}

void layer_waits(const struct layer *layer, uint64_t *times, double *seconds)
{
    *times = 0;
    *seconds = 0;
    if (layer->feeder)
        feeder_waits(layer->feeder, times, seconds);
}

uint64_t layer_records(const struct layer *layer, const char **path)
{
    *path = NULL;
    return layer->feeder ? feeder_records(layer->feeder, path) : 0;
}

void layer_tell(const struct layer *layer, uint64_t sample, struct strbuf *out)
{
    if (layer->feeder)
        feeder_tell(layer->feeder, sample, out);
}

void data_destroy(struct layer *layer)
{
    struct data *state = layer->state;

    if (!state)
        return;
    feeder_destroy(layer->feeder);
    if (state->images)
        state->engine->i->images->destroy(state->engine->context, state->images);
    transform_free(&state->transform);
    source_close(state->source);
    class_names_free(&state->classes);
    free(state->path);
    free(state);
}
