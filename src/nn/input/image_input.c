/* Reads photographs as a net's input: decode, resize, transform. */
#include "input/image_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "input/mean_file.h"
#include "input/source_internal.h"
#include "util/alloc.h"
#include "util/file.h"

#define MAX_FILE ((size_t)256 << 20) /* bytes */

/* Sets the means of the transform's channels to the means of the image's planes. */
static int set_channels(const char *path, const struct stored_blob *mean, const float *values,
                        struct transform *t)
{
    int64_t channels = mean->naxes >= 3 ? mean->dim[mean->naxes - 3] : 0;
    uint64_t plane;

    if (channels != t->in.dim[0])
        return error_set("%s: expected a mean image of %lld channels, found %lld", path,
                         (long long)t->in.dim[0], (long long)channels);
    plane = mean->elems / (uint64_t)channels;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;

        for (uint64_t i = 0; i < plane; i++)
            sum += (double)values[(uint64_t)c * plane + i];
        t->channel_mean[c] = (float)(sum / (double)plane);
    }
    return 0;
}

int image_input_set_mean(const char *text, struct transform *t)
{
    float given[3];
    char end;
    struct stored_blob mean;
    float *values;
    int status, count = sscanf(text, "%f,%f,%f%c", &given[0], &given[1], &given[2], &end);

    transform_free(t); /* frees the mean of the net's own data layer */
    if (ALLOC(t->channel_mean, t->in.dim[0], "a mean"))
        return -1;
    if (access(text, F_OK) != 0) {
        if (count != 3 && sscanf(text, "%f%c", &given[0], &end) != 1)
            return error_set("--mean: expected one number, three such as 104,117,123, or the file "
                             "of a mean image; found '%s', and there is no such file",
                             text);
        for (int64_t c = 0; c < t->in.dim[0]; c++)
            t->channel_mean[c] = given[count == 3 ? c : 0];
        return 0;
    }
    status =
        error_status(mean_file_read(text, &mean, &values) || set_channels(text, &mean, values, t));
    free(values);
    return status;
}

/* Computes the height and width to resize to, at least as large as the net's input. */
static void target_size(const struct image *image, const struct image_input *o, int *height,
                        int *width)
{
    int least_height = (int)o->transform.out.dim[1], least_width = (int)o->transform.out.dim[2];
    double side = o->side, ratio;

    *height = o->as_stored ? image->height : (int)o->transform.in.dim[1];
    *width = o->as_stored ? image->width : (int)o->transform.in.dim[2];
    if (!o->side)
        return;
    ratio = (double)image->height / image->width;
    *height = (int)(ratio > 1 ? side * ratio + 0.5 : side);
    *width = (int)(ratio > 1 ? side : side / ratio + 0.5);
    *height = *height < least_height ? least_height : *height;
    *width = *width < least_width ? least_width : *width;
}

/* Swaps blue and red. */
static void turn_channels(struct record *record)
{
    size_t plane = (size_t)record->shape.dim[1] * (size_t)record->shape.dim[2];
    uint8_t *pixels = record->planes.bytes;

    for (size_t i = 0; i < plane; i++) {
        uint8_t blue = pixels[i];

        pixels[i] = pixels[2 * plane + i];
        pixels[2 * plane + i] = blue;
    }
}

static int read_record(const char *path, const struct image_input *o, struct record *record)
{
    const struct transform *t = &o->transform;
    int height, width;

    if (image_decode(record->file.bytes, record->file.length,
                     t->in.dim[0] == 1 ? IMAGE_GRAY : IMAGE_COLOR, &record->decoded))
        return error_context("%s", path);
    target_size(&record->decoded, o, &height, &width);
    if (record_set_image(record, &record->decoded, height, width) || record_to_planes(record) ||
        transform_accepts(t, &record->shape))
        return error_context("%s", path);
    if (o->rgb && t->in.dim[0] == 3)
        turn_channels(record);
    return 0;
}

int image_input_read(const char *path, const struct image_input *o, float *out)
{
    struct record record = {.label = 0};
    int status =
        error_status(file_load(&record.file, path, MAX_FILE) || read_record(path, o, &record));

    if (!status)
        status = transform_apply(&o->transform, &record, 0, 0, 0, out);
    record_free(&record);
    return status;
}
