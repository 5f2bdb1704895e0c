/* transform_param: y = (x - mean) * scale on a crop, maybe mirrored.
 *
 * The mean image has the record's size and is cut at the same window as the record. Window, mirror
 * and scale of a sample depend on its global index alone, so that labels get the image's. */
#include "input/transform.h"

#include "engine/image_plane.h"
#include "input/format/image.h"
#include "input/mean_file.h"
#include "util/alloc.h"
#include "util/path.h"
#include "util/rng.h"
#include "util/strbuf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Index of each random draw of a sample. */
enum { DRAW_ROW = 1, DRAW_COLUMN, DRAW_FACTOR = AUGMENT_FREE_DRAW };

static const char *size_text(const struct shape *shape, char *buffer, size_t size)
{
    snprintf(buffer, size, "%lldx%lldx%lld", (long long)shape->dim[0], (long long)shape->dim[1],
             (long long)shape->dim[2]);
    return buffer;
}

/* Fails unless the mean's shape, without a leading axis of size 1, is the record's shape. */
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

int transform_crop(const Caffe__TransformationParameter *p, int64_t crop[2])
{
    bool sides = p->crop_height || p->crop_width;

    if (sides && (p->crop_size || !p->crop_height || !p->crop_width))
        return error_set(
            "transform_param: crop_size %lu, crop_height %lu, crop_width %lu; expected "
            "crop_size, or height and width",
            (unsigned long)p->crop_size, (unsigned long)p->crop_height,
            (unsigned long)p->crop_width);
    crop[0] = sides ? p->crop_height : p->crop_size;
    crop[1] = sides ? p->crop_width : p->crop_size;
    return 0;
}

int transform_crop_fits(const int64_t crop[2], const struct shape *image, const char *where)
{
    char text[64];

    if (crop[0] <= image->dim[1] && crop[1] <= image->dim[2])
        return 0;
    snprintf(text, sizeof text, crop[0] == crop[1] ? "crop_size %lld" : "the crop of %lld x %lld",
             (long long)crop[0], (long long)crop[1]);
    return error_set("%s is larger than %s of %lld x %lld (height x width)", text, where,
                     (long long)image->dim[1], (long long)image->dim[2]);
}

/* Checks what goes with planes of labels, and sets the factors that scale image and labels. */
static int planes_set(const Caffe__TransformationParameter *param,
                      const struct transform_planes *planes, struct transform *t)
{
    if (!planes)
        return param->n_scale_factors == 0
                   ? 0
                   : error_set("transform_param: scale_factors scales images and pictures of "
                               "labels alike; expected ImageSegData or DenseImageData");
    if (param->random_aspect_ratio_param)
        return error_set("transform_param: random_aspect_ratio_param does not cut pictures of "
                         "labels; expected crop_size and scale_factors");
    if (param->n_scale_factors > TRANSFORM_MAX_FACTORS || (param->n_scale_factors && t->mean))
        return error_set("transform_param: %zu scale_factors%s; expected at most %d, without "
                         "mean_file",
                         param->n_scale_factors, t->mean ? " and mean_file" : "",
                         TRANSFORM_MAX_FACTORS);
    for (size_t i = 0; i < param->n_scale_factors; i++) {
        t->factor[i] = param->scale_factors[i];
        if (!(t->factor[i] >= 0.01f && t->factor[i] <= 100))
            return error_set("transform_param: scale_factors %g; expected 0.01 to 100",
                             (double)t->factor[i]);
    }
    t->nfactors = t->random_crop ? (int)param->n_scale_factors : 0;
    t->ignore = planes->ignore;
    return 0;
}

int transform_create_pair(const Caffe__TransformationParameter *param,
                          const struct transform_planes *planes, const struct shape *record,
                          bool train, const char *base_file, struct transform *out)
{
    struct transform t = {.scale = 1, .random_crop = train, .in = *record, .out = *record};
    int64_t crop[2];
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
    t.pads = planes && planes->pads && !mean_file;
    if (transform_crop(param, crop))
        return -1;
    if (!t.pads && transform_crop_fits(crop, record, "the image"))
        return error_context("transform_param");
    if (augment_create(param, record->dim[0], &t.augment))
        return -1;
    if (!train)
        t.augment = (struct augment){.attempts = 0};
    t.crops = crop[0] > 0;
    t.out.dim[1] = t.crops ? crop[0] : record->dim[1];
    t.out.dim[2] = t.crops ? crop[1] : record->dim[2];
    if (mean_file && param->n_mean_value)
        return error_set(
            "transform_param: both mean_file ('%s') and mean_value are given; expected "
            "one of them",
            param->mean_file);
    if ((mean_file && mean_load(param->mean_file, base_file, &t)) ||
        (param->n_mean_value && means_set(param->mean_value, param->n_mean_value, &t)) ||
        planes_set(param, planes, &t)) {
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

int transform_accepts(const struct transform *t, const struct shape *shape)
{
    char expected[128], found[128];

    if (shape_equal(shape, &t->in))
        return 0;
    size_text(&t->in, expected, sizeof expected);
    size_text(shape, found, sizeof found);
    if (shape->dim[0] != t->in.dim[0])
        return error_set("the image is %s, but the first one is %s (C x H x W): all images need "
                         "the same channels, which force_color or force_gray gives encoded images",
                         found, expected);
    if (t->mean)
        return error_set(
            "the image is %s, but the mean image and the first one are %s (C x H x W); "
            "mean_value, one per channel, works at any size",
            found, expected);
    if (!t->crops)
        return error_set(
            "the image is %s, but the first one is %s (C x H x W); sizes may vary only "
            "with crop_size",
            found, expected);
    return t->pads ? 0 : transform_crop_fits(t->out.dim + 1, shape, "the image");
}

int transform_takes(const struct transform *t, enum source_type type)
{
    return type == SOURCE_U8 || !augment_works(&t->augment)
               ? 0
               : error_set("transform_param: random_aspect_ratio_param and distort_param work on "
                           "images of bytes, found floats");
}

static struct engine_window window_of(const struct transform *t, const struct record *record,
                                      const struct rng *rng)
{
    const struct shape *shape = &record->shape;
    int64_t rows = shape->dim[1] - t->out.dim[1], columns = shape->dim[2] - t->out.dim[2];
    struct engine_window window;

    assert(t->pads || (rows >= 0 && columns >= 0)); /* transform_accepts has checked this */
    rows = rows < 0 ? 0 : rows;
    columns = columns < 0 ? 0 : columns;
    window = (struct engine_window){.top = (int32_t)(rows / 2), .left = (int32_t)(columns / 2)};
    window.mirror = t->mirror && record->mirror;
    if (t->crops && t->random_crop) {
        window.top = (int32_t)rng_below(rng, DRAW_ROW, (uint32_t)(rows + 1));
        window.left = (int32_t)rng_below(rng, DRAW_COLUMN, (uint32_t)(columns + 1));
    }
    return window;
}

/* Returns the part of `t->out` that an image of that shape fills. */
static struct image_box filled(const struct transform *t, const struct shape *shape)
{
    return (struct image_box){
        .height = (int)(shape->dim[1] < t->out.dim[1] ? shape->dim[1] : t->out.dim[1]),
        .width = (int)(shape->dim[2] < t->out.dim[2] ? shape->dim[2] : t->out.dim[2])};
}

/* Cuts a box of the record into planes of rows x columns. Resizes the box where its size differs,
 * and the record's image where it is not yet resized. */
static int box_cut(const struct transform *t, struct record *record, const struct image_box *box,
                   int rows, int columns, uint8_t *out)
{
    const int height = (int)record->shape.dim[1], width = (int)record->shape.dim[2];
    const struct image_box all = {.height = rows, .width = columns};
    struct image_view view = {record->data, 1, height, width, (size_t)width}, part;

    if (record->image)
        view = image_view(record->image);
    for (int64_t c = 0; c < t->in.dim[0]; c += view.channels) {
        bool whole = view.height == height && view.width == width;

        part = whole ? image_view_part(&view, box) : view;
        if (!whole || box->height != rows || box->width != columns) {
            if (whole ? image_resize_part(&part, rows, columns, &all, &record->resized)
                      : image_resize_part(&view, height, width, box, &record->resized))
                return -1;
            part = image_view(&record->resized);
        }
        image_view_planes(&part, out + c * rows * columns);
        view.pixels += (size_t)height * view.stride;
    }
    return 0;
}

int transform_cut(const struct transform *t, struct record *record, uint64_t seed, int layer_index,
                  uint64_t sample, struct engine_window *window, uint8_t *out)
{
    const struct rng rng = rng_make(seed, RNG_AUGMENT, (uint32_t)layer_index, sample);
    struct image_box box = filled(t, &record->shape);
    const int rows = box.height, columns = box.width;

    *window = window_of(t, record, &rng);
    box.top = window->top;
    box.left = window->left;
    if (t->augment.attempts > 0) {
        if (record_to_planes(record)) /* resize as a whole before the second resizing */
            return -1;
        box = augment_window(&t->augment, &record->shape, &rng);
        window->top = window->left = 0;
    }
    if (box_cut(t, record, &box, rows, columns, out))
        return -1;
    augment_colors(&t->augment, &rng, t->in.dim[0], (int64_t)rows * columns, out);
    return 0;
}

struct engine_images_args transform_args(const struct transform *t)
{
    return (struct engine_images_args){.channels = t->out.dim[0],
                                       .height = t->out.dim[1],
                                       .width = t->out.dim[2],
                                       .mean = t->mean,
                                       .mean_height = t->in.dim[1],
                                       .mean_width = t->in.dim[2],
                                       .channel_mean = t->channel_mean,
                                       .scale = t->scale};
}

/* Converts a plane of bytes, smaller than `out`, and fills the rest by 0. */
static void plane_pad(const struct transform *t, struct engine_images_args args,
                      const struct engine_window *window, int64_t channel, const uint8_t *from,
                      float *out)
{
    const int64_t rows = args.height, width = t->out.dim[2];

    memset(out, 0, (size_t)(t->out.dim[1] * width) * sizeof *out);
    args.height = 1;
    out += window->mirror ? width - args.width : 0;
    for (int64_t h = 0; h < rows; h++)
        engine_image_plane(&args, window, channel, from + h * args.width, false, args.width,
                           out + h * width);
}

/* Reads floats where the record holds them; cuts bytes out first, by transform_cut. */
int transform_apply(const struct transform *t, struct record *record, uint64_t seed,
                    int layer_index, uint64_t sample, float *out)
{
    const struct rng rng = rng_make(seed, RNG_AUGMENT, (uint32_t)layer_index, sample);
    const struct image_box box = filled(t, &record->shape);
    const bool floats = record->type == SOURCE_F32;
    struct engine_images_args args = transform_args(t);
    int64_t to = args.height * args.width, part = (int64_t)box.height * box.width;
    int64_t stride = floats ? record->shape.dim[2] : box.width;
    int64_t plane = floats ? record->shape.dim[1] * stride : part;
    struct engine_window window;

    if (transform_takes(t, record->type))
        return -1;
    if (floats)
        window = window_of(t, record, &rng);
    else if (strbuf_reserve(&record->cut, shape_elems(&t->out), "an image") ||
             transform_cut(t, record, seed, layer_index, sample, &window, record->cut.bytes))
        return -1;
    args.height = box.height;
    args.width = box.width;
    for (int64_t c = 0; c < args.channels; c++)
        if (part < to)
            plane_pad(t, args, &window, c, record->cut.bytes + c * plane, out + c * to);
        else
            engine_image_plane(&args, &window, c,
                               floats ? (const void *)((const float *)record->data + c * plane +
                                                       window.top * stride + window.left)
                                      : record->cut.bytes + c * plane,
                               floats, stride, out + c * to);
    return 0;
}

/* Cuts labels at the image's window; labels of a picture are those of the nearest pixels, at the
 * places that OpenCV's INTER_NEAREST takes. */
static void labels_cut(const struct transform *t, const struct record *record,
                       const struct engine_window *window, float *out)
{
    const struct image *image = record->label_image;
    const int height = (int)record->shape.dim[1], width = (int)record->shape.dim[2];
    const int64_t rows = t->out.dim[1], columns = t->out.dim[2];
    const double down = image ? 1 / ((double)height / image->height) : 1;
    const double along = image ? 1 / ((double)width / image->width) : 1;

    for (int64_t h = 0; h < rows; h++, out += columns)
        for (int64_t w = 0; w < columns; w++) {
            int64_t y = h + window->top, x = (window->mirror ? columns - 1 - w : w) + window->left;
            float label = y < height && x < width ? record->label : (float)t->ignore;

            if (image && y < height && x < width)
                label = image_nearest(image, (double)y * down, (double)x * along);
            out[w] = label;
        }
}

int transform_pair(const struct transform *t, struct record *record, uint64_t seed, int layer_index,
                   uint64_t sample, float *out, float *labels, float size[2])
{
    const struct rng rng = rng_make(seed, RNG_AUGMENT, (uint32_t)layer_index, sample);
    float factor = 1;
    struct engine_window window;
    struct image_box box;

    if (t->nfactors)
        factor = t->factor[rng_below(&rng, DRAW_FACTOR, (uint32_t)t->nfactors)];
    for (int i = 1; i < 3; i++) {
        record->shape.dim[i] = (int64_t)((float)record->shape.dim[i] * factor);
        record->shape.dim[i] += !record->shape.dim[i];
    }
    if (transform_apply(t, record, seed, layer_index, sample, out))
        return -1;
    window = window_of(t, record, &rng);
    labels_cut(t, record, &window, labels);
    box = filled(t, &record->shape);
    size[0] = (float)box.height;
    size[1] = (float)box.width;
    return 0;
}
