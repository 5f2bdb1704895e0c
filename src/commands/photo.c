/* Photographs as a net's input. */
#include "commands/photo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spec/modelfile.h"
#include "util/error.h"
#include "util/file.h"
#include "util/h5.h"

#define MAX_FILE ((size_t)256 << 20) /* bytes of an image file */

/* Means over planes of `channels` x anything. */
static int mean_of_planes(const char *path, int naxes, const int64_t *dim, const float *values,
                          uint64_t elems, struct photo_options *o)
{
    int64_t channels = naxes >= 3 ? dim[naxes - 3] : 0;
    uint64_t plane;

    if (channels != o->channels)
        return error_set("%s: expected a mean image of %d channels, found %lld", path, o->channels,
                         (long long)channels);
    plane = elems / (uint64_t)channels;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;

        for (uint64_t i = 0; i < plane; i++)
            sum += (double)values[(uint64_t)c * plane + i];
        o->mean[c] = (float)(sum / (double)plane);
    }
    return 0;
}

static int load_hdf5(const char *path, struct photo_options *o)
{
    struct h5_dataset dataset;
    int64_t dim[H5S_MAX_RANK];
    uint64_t elems = 1;
    float *values = NULL;
    hid_t file = -1;
    int status = -1;

    h5_lock();
    if (h5_file_open(path, &file) ||
        h5_dataset_open(file, path, H5Lexists(file, "mean", H5P_DEFAULT) > 0 ? "mean" : "data",
                        &dataset))
        goto done;
    for (int i = 0; i < dataset.naxes; i++) {
        dim[i] = (int64_t)dataset.dim[i];
        elems *= dataset.dim[i];
    }
    if (elems == 0 || elems > MAX_FILE)
        error_set("%s: expected a mean image, found %llu values", path, (unsigned long long)elems);
    else if (!(values = malloc(elems * sizeof *values)))
        error_memory(elems * sizeof *values, path);
    else if (h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, values) == 0)
        status = mean_of_planes(path, dataset.naxes, dim, values, elems, o);
    h5_dataset_close(&dataset);
done:
    if (file >= 0)
        H5Fclose(file);
    h5_unlock();
    free(values);
    return status;
}

int photo_set_mean(const char *text, struct photo_options *o)
{
    float given[3];
    char end;
    struct stored_blob blob;
    float *values;
    int status, count = sscanf(text, "%f,%f,%f%c", &given[0], &given[1], &given[2], &end);

    if (access(text, F_OK) != 0) {
        if (count != 3 && sscanf(text, "%f%c", &given[0], &end) != 1)
            return error_set(
                "--mean expects one number, or three such as 104,117,123, or the file of a "
                "mean image; found '%s', and no such file",
                text);
        for (int c = 0; c < 3; c++)
            o->mean[c] = given[count == 3 ? c : 0];
        return 0;
    }
    if (file_is_hdf5(text))
        return load_hdf5(text, o);
    status = stored_blob_load(text, &blob, &values);
    if (!status)
        status = mean_of_planes(text, blob.naxes, blob.dim, values, blob.elems, o);
    free(values);
    return status;
}

/* Height and width to resize to, so that the input's window fits in. */
static void target_size(const struct image *image, const struct photo_options *o, int *height,
                        int *width)
{
    double side = o->side, ratio;

    *height = o->whole_height;
    *width = o->whole_width;
    if (!o->side)
        return;
    ratio = (double)image->height / image->width;
    *height = (int)(ratio > 1 ? side * ratio + 0.5 : side);
    *width = (int)(ratio > 1 ? side : side / ratio + 0.5);
    *height = *height < o->height ? o->height : *height;
    *width = *width < o->width ? o->width : *width;
}

static void cut_centre(const struct image *image, const struct photo_options *o, float *out)
{
    int top = (image->height - o->height) / 2, left = (image->width - o->width) / 2;
    size_t plane = (size_t)o->height * (size_t)o->width;

    for (int c = 0; c < o->channels; c++) {
        int from = o->rgb ? o->channels - 1 - c : c;

        for (int y = 0; y < o->height; y++) {
            const uint8_t *row =
                image->pixels.data +
                ((size_t)(top + y) * (size_t)image->width + (size_t)left) * (size_t)image->channels;

            for (int x = 0; x < o->width; x++)
                out[(size_t)c * plane + (size_t)y * (size_t)o->width + (size_t)x] =
                    ((float)row[x * image->channels + from] - o->mean[c]) * o->scale;
        }
    }
}

int photo_read(const char *path, const struct photo_options *o, float *out)
{
    struct image image = {0}, sized = {0};
    struct bytes file = {0};
    int height, width, status = -1;

    if (bytes_load(&file, path, MAX_FILE))
        goto done;
    if (image_decode(file.data, file.length, o->channels == 1 ? IMAGE_GRAY : IMAGE_COLOR, &image)) {
        error_context("%s", path);
        goto done;
    }
    target_size(&image, o, &height, &width);
    if (image_resize(&image, height, width, &sized)) {
        error_context("%s", path);
        goto done;
    }
    cut_centre(&sized, o, out);
    status = 0;
done:
    image_free(&image);
    image_free(&sized);
    bytes_free(&file);
    return status;
}
