/* transform_param: y = (x - mean) * scale on a crop, maybe mirrored.
 *
 * The mean image has the size of the record and is cut at the same window as the record; the window
 * and the mirror of a sample are a function of its global index alone. */
#include "input/transform.h"

#include "input/mean_file.h"
#include "util/alloc.h"
#include "util/path.h"
#include "util/rng.h"
#include "util/strbuf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which draw of a sample is for what. */
enum { DRAW_MIRROR, DRAW_ROW, DRAW_COLUMN };

static const char *size_text(const struct shape *shape, char *buffer, size_t size)
{
    snprintf(buffer, size, "%lldx%lldx%lld", (long long)shape->dim[0], (long long)shape->dim[1],
             (long long)shape->dim[2]);
    return buffer;
}

/* The mean's shape without its leading axes of size 1, against the record's. */
static int mean_check(const char *path, const struct stored_blob *mean, const struct shape *record)
{
    char expected[128], found[512] = "";
    const int64_t *dim = mean->dim;
    int skip = mean->naxes == 4 && dim[0] == 1 ? 1 : 0;

    if (mean->naxes - skip == 3 && dim[skip] == record->dim[0] && dim[skip + 1] == record->dim[1] &&
        dim[skip + 2] == record->dim[2])
        return 0;
    for (int i = skip; i < mean->naxes; i++)
        buffer_printf(found, sizeof found, "%s%lld", i > skip ? "x" : "", (long long)dim[i]);
    return error_set(
        "%s: the mean image is %s, but the records are %s (C x H x W, before cropping); "
        "mean_value, one per channel, works at any size",
        path, *found ? found : "a scalar", size_text(record, expected, sizeof expected));
}

static int mean_load(const char *name, const char *base_file, struct transform *t)
{
    char *path = path_find(name, base_file, NULL);
    struct stored_blob mean;
    int status =
        path ? mean_file_read(path, &mean, &t->mean) || mean_check(path, &mean, &t->in) : -1;

    free(path);
    return status ? error_context("mean_file") : 0;
}

static int means_set(const float *value, size_t n, struct transform *t)
{
    int64_t channels = t->in.dim[0];

    if (n != 1 && n != (size_t)channels)
        return error_set("transform_param: %zu mean_value for %lld channels; expected 1 or one per "
                         "channel",
                         n, (long long)channels);
    if (ALLOC(t->channel_mean, channels, "mean_value"))
        return -1;
    for (int64_t c = 0; c < channels; c++)
        t->channel_mean[c] = value[n == 1 ? 0 : c];
    return 0;
}

int transform_create(const Caffe__TransformationParameter *param, const struct shape *record,
                     bool train, const char *base_file, struct transform *out)
{
    struct transform t = {.scale = 1, .random_crop = train, .in = *record, .out = *record};
    bool mean_file;

    *out = (struct transform){0};
    if (record->naxes != 3)
        return error_set("transform_param: a record has %d axes; expected an image, C x H x W",
                         record->naxes);
    if (!param) {
        *out = t;
        return 0;
    }
    mean_file = param->mean_file && param->mean_file[0];
    t.scale = param->scale;
    t.mirror = param->mirror;
    if (param->crop_size > record->dim[1] || param->crop_size > record->dim[2])
        return error_set("transform_param: crop_size %lu is larger than the image, %lldx%lld "
                         "(height x width)",
                         (unsigned long)param->crop_size, (long long)record->dim[1],
                         (long long)record->dim[2]);
    if (augment_create(param, record->dim[0], &t.augment))
        return -1;
    if (!train)
        t.augment = (struct augment){.attempts = 0};
    t.crop = (int)param->crop_size;
    if (t.crop)
        t.out.dim[1] = t.out.dim[2] = t.crop;
    if (mean_file && param->n_mean_value)
        return error_set(
            "transform_param: both mean_file ('%s') and mean_value are given; expected "
            "one of them",
            param->mean_file);
    if ((mean_file && mean_load(param->mean_file, base_file, &t)) ||
        (param->n_mean_value && means_set(param->mean_value, param->n_mean_value, &t))) {
        transform_free(&t);
        return -1;
    }
    *out = t;
    return 0;
}

void transform_free(struct transform *transform)
{
    free(transform->mean);
    free(transform->channel_mean);
    transform->mean = transform->channel_mean = NULL;
}

static void row_reverse(float *y, int64_t n)
{
    for (int64_t i = 0, j = n - 1; i < j; i++, j--) {
        float swap = y[i];
        y[i] = y[j];
        y[j] = swap;
    }
}

int transform_accepts(const struct transform *t, const struct shape *shape)
{
    char expected[128], found[128];

    if (shape_equal(shape, &t->in))
        return 0;
    size_text(&t->in, expected, sizeof expected);
    size_text(shape, found, sizeof found);
    if (shape->dim[0] != t->in.dim[0])
        return error_set(
            "the image is %s, but the first one is %s (C x H x W): channels cannot vary; "
            "force_color or force_gray makes encoded ones alike",
            found, expected);
    if (t->mean)
        return error_set(
            "the image is %s, but the mean image and the first one are %s (C x H x W); "
            "mean_value, one per channel, works at any size",
            found, expected);
    if (!t->crop)
        return error_set(
            "the image is %s, but the first one is %s (C x H x W); sizes may vary only "
            "with crop_size",
            found, expected);
    if (shape->dim[1] < t->crop || shape->dim[2] < t->crop)
        return error_set("the image is %s (C x H x W), smaller than crop_size %d", found, t->crop);
    return 0;
}

int transform_takes(const struct transform *t, enum source_type type)
{
    return type == SOURCE_U8 || !augment_works(&t->augment)
               ? 0
               : error_set("transform_param: random_aspect_ratio_param and distort_param work on "
                           "images of bytes, found floats");
}

static struct engine_window window_of(const struct transform *t, const struct shape *shape,
                                      const struct rng *rng)
{
    int64_t rows = shape->dim[1] - t->out.dim[1], columns = shape->dim[2] - t->out.dim[2];
    struct engine_window window = {.top = (int32_t)(rows / 2), .left = (int32_t)(columns / 2)};

    assert(rows >= 0 && columns >= 0); /* transform_accepts said so */
    window.mirror = t->mirror && rng_below(rng, DRAW_MIRROR, 2);
    if (t->crop && t->random_crop) {
        window.top = (int32_t)rng_below(rng, DRAW_ROW, (uint32_t)(rows + 1));
        window.left = (int32_t)rng_below(rng, DRAW_COLUMN, (uint32_t)(columns + 1));
    }
    return window;
}

int transform_cut(const struct transform *t, struct record *record, uint64_t seed, int layer_index,
                  uint64_t sample, struct engine_window *window, uint8_t *out)
{
    const struct rng rng = rng_make(seed, RNG_AUGMENT, (uint32_t)layer_index, sample);
    const struct shape *in = &record->shape;
    const uint8_t *pixels = record->data;
    int64_t rows = t->out.dim[1], columns = t->out.dim[2];

    *window = window_of(t, in, &rng);
    if (t->augment.attempts > 0) {
        const struct augment_window place = augment_window(&t->augment, in, &rng);

        if (augment_resize(record, &place, t->crop, out))
            return -1;
        window->top = window->left = 0;
    } else {
        for (int64_t c = 0; c < t->in.dim[0]; c++)
            for (int64_t h = 0; h < rows; h++)
                memcpy(out + (c * rows + h) * columns,
                       pixels + (c * in->dim[1] + window->top + h) * in->dim[2] + window->left,
                       (size_t)columns);
    }
    augment_colors(&t->augment, &rng, t->in.dim[0], rows * columns, out);
    return 0;
}

/* What is cut out becomes values: `in` is the size of `record`, in which `at` lies. */
static void values_make(const struct transform *t, const void *record, const struct shape *in,
                        enum source_type type, const struct engine_window *at,
                        const struct engine_window *window, float *out)
{
    int64_t rows = t->out.dim[1], columns = t->out.dim[2];
    const float scale = t->scale;

    for (int64_t c = 0; c < t->in.dim[0]; c++) {
        float value = t->channel_mean ? t->channel_mean[c] : 0;
        for (int64_t h = 0; h < rows; h++) {
            int64_t from = (c * in->dim[1] + at->top + h) * in->dim[2] + at->left;
            const float *mean = t->mean ? t->mean + window->left +
                                              (c * t->in.dim[1] + window->top + h) * t->in.dim[2]
                                        : NULL;
            float *y = out + (c * rows + h) * columns;

            source_floats(record, type, (size_t)from, (size_t)columns, y);
            if (mean)
                for (int64_t i = 0; i < columns; i++)
                    y[i] = (y[i] - mean[i]) * scale;
            else
                for (int64_t i = 0; i < columns; i++)
                    y[i] = (y[i] - value) * scale;
            if (window->mirror)
                row_reverse(y, columns);
        }
    }
}

int transform_apply(const struct transform *t, struct record *record, uint64_t seed,
                    int layer_index, uint64_t sample, float *out)
{
    const struct rng rng = rng_make(seed, RNG_AUGMENT, (uint32_t)layer_index, sample);
    const struct engine_window none = {.top = 0};
    struct engine_window window;

    if (transform_takes(t, record->type))
        return -1;
    if (!augment_works(&t->augment)) {
        window = window_of(t, &record->shape, &rng);
        values_make(t, record->data, &record->shape, record->type, &window, &window, out);
        return 0;
    }
    if (strbuf_reserve(&record->cut, shape_elems(&t->out), "an image") ||
        transform_cut(t, record, seed, layer_index, sample, &window, record->cut.bytes))
        return -1;
    values_make(t, record->cut.bytes, &t->out, SOURCE_U8, &none, &window, out);
    return 0;
}
