/* Image sets: memory, order, counts, and writing them as HDF5. */
#include "convert/imageset.h"

#include "convert/h5write.h"
#include "util/error.h"
#include "util/rng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)1 << 22) /* written at once */
#define CHUNK_BYTES ((size_t)1 << 15) /* of one compressed chunk */

void imageset_free(struct imageset *set)
{
    for (int i = 0; i < IMAGESET_MAX_CLASSES; i++)
        free(set->class_name[i]);
    free(set->data);
    free(set->label);
    *set = (struct imageset){0};
}

size_t imageset_record_bytes(const struct imageset *set)
{
    return (size_t)set->dim[0] * (size_t)set->dim[1] * (size_t)set->dim[2];
}

int imageset_reserve(struct imageset *set, size_t count)
{
    size_t bytes = imageset_record_bytes(set);
    uint8_t *data, *label;

    if (count <= set->capacity)
        return 0;
    if (count > SIZE_MAX / bytes)
        return error_memory((unsigned long long)-1, "images");
    data = realloc(set->data, count * bytes);
    if (!data)
        return error_memory(count * bytes, "images");
    set->data = data;
    label = realloc(set->label, count);
    if (!label)
        return error_memory(count, "labels");
    set->label = label;
    set->capacity = count;
    return 0;
}

int imageset_shuffle(struct imageset *set, uint64_t seed)
{
    size_t bytes = imageset_record_bytes(set);
    struct rng rng = rng_make(seed, RNG_SHUFFLE, 0, 0);
    uint8_t *swap = malloc(bytes);

    if (!swap)
        return error_memory(bytes, "an image");
    for (size_t i = set->count - 1; i > 0; i--) {
        size_t j = rng_below(&rng, i, (uint32_t)(i + 1));
        uint8_t *x = set->data + i * bytes, *y = set->data + j * bytes, label = set->label[i];

        memcpy(swap, x, bytes);
        memmove(x, y, bytes);
        memcpy(y, swap, bytes);
        set->label[i] = set->label[j];
        set->label[j] = label;
    }
    free(swap);
    return 0;
}

/* The mean of each channel over all images, rounded. */
static int mean_colour(const struct imageset *set, uint8_t *colour)
{
    size_t plane = (size_t)set->dim[1] * (size_t)set->dim[2], channels = (size_t)set->dim[0];
    uint64_t *sum = calloc(channels, sizeof *sum), total = (uint64_t)plane * set->count;

    if (!sum)
        return error_memory(channels * sizeof *sum, "a mean colour");
    for (size_t i = 0; i < set->count * channels; i++)
        for (size_t e = 0; e < plane; e++)
            sum[i % channels] += set->data[i * plane + e];
    for (size_t c = 0; c < channels; c++)
        colour[c] = (uint8_t)((sum[c] + total / 2) / total);
    free(sum);
    return 0;
}

int imageset_pad(struct imageset *set, int border)
{
    size_t height = (size_t)set->dim[1], width = (size_t)set->dim[2], b = (size_t)border;
    size_t rows = height + 2 * b, columns = width + 2 * b, channels = (size_t)set->dim[0];
    uint8_t *data = malloc(set->count * channels * rows * columns), *colour = malloc(channels);

    if (!data || !colour || mean_colour(set, colour)) {
        free(data);
        free(colour);
        return error_memory(set->count * channels * rows * columns, "images with a border");
    }
    for (size_t i = 0; i < set->count * channels; i++) {
        const uint8_t *from = set->data + i * height * width;
        uint8_t *to = data + i * rows * columns;

        memset(to, colour[i % channels], rows * columns);
        for (size_t y = 0; y < height; y++)
            memcpy(to + (y + b) * columns + b, from + y * width, width);
    }
    free(colour);
    free(set->data);
    set->data = data;
    set->capacity = set->count;
    set->dim[1] = (int)rows;
    set->dim[2] = (int)columns;
    return 0;
}

void imageset_count(const struct imageset *set, size_t *out)
{
    memset(out, 0, (size_t)set->nclasses * sizeof *out);
    for (size_t i = 0; i < set->count; i++)
        out[set->label[i]]++;
}

static hid_t data_create(hid_t file, const char *path, const struct imageset *set, int gzip)
{
    size_t bytes = imageset_record_bytes(set);
    hsize_t dim[4] = {set->count, (hsize_t)set->dim[0], (hsize_t)set->dim[1], (hsize_t)set->dim[2]};
    hsize_t chunk[4] = {bytes < CHUNK_BYTES ? CHUNK_BYTES / bytes : 1, dim[1], dim[2], dim[3]};
    hid_t space = H5Screate_simple(4, dim, NULL), properties = H5Pcreate(H5P_DATASET_CREATE), id;

    if (chunk[0] > dim[0])
        chunk[0] = dim[0];
    if (gzip) {
        H5Pset_chunk(properties, 4, chunk);
        H5Pset_deflate(properties, (unsigned)gzip);
    }
    id = H5Dcreate2(file, "data", H5T_STD_U8LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    if (id < 0)
        h5_failed_write(path);
    H5Pclose(properties);
    H5Sclose(space);
    return id;
}

static int block_write(hid_t dataset, const char *path, const struct imageset *set, size_t first,
                       size_t count)
{
    hsize_t start[4] = {first, 0, 0, 0};
    hsize_t size[4] = {count, (hsize_t)set->dim[0], (hsize_t)set->dim[1], (hsize_t)set->dim[2]};
    hid_t to = H5Dget_space(dataset), from = H5Screate_simple(4, size, NULL);
    int status = 0;

    if (to < 0 || from < 0 ||
        H5Sselect_hyperslab(to, H5S_SELECT_SET, start, NULL, size, NULL) < 0 ||
        H5Dwrite(dataset, H5T_NATIVE_UINT8, from, to, H5P_DEFAULT,
                 set->data + first * imageset_record_bytes(set)) < 0)
        status = h5_failed_write(path);
    if (from >= 0)
        H5Sclose(from);
    if (to >= 0)
        H5Sclose(to);
    return status;
}

static bool interrupted(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
            sigismember(&pending, SIGHUP) == 1);
}

static int data_write(hid_t file, const struct imageset *set, const char *path,
                      const struct imageset_write_options *o)
{
    size_t block = BLOCK_BYTES / imageset_record_bytes(set) + 1;
    hid_t dataset = data_create(file, path, set, o->gzip);
    int status = 0;

    if (dataset < 0)
        return -1;
    for (size_t first = 0; first < set->count && status == 0; first += block) {
        size_t count = set->count - first < block ? set->count - first : block;

        status = block_write(dataset, path, set, first, count);
        if (status == 0 && interrupted())
            status = error_set("%s: interrupted by a signal", path);
        if (o->progress)
            fprintf(stderr, "\r%zu of %zu records written\033[K", first + count, set->count);
    }
    if (o->progress)
        fprintf(stderr, "\r\033[K");
    if (H5Dclose(dataset) < 0 && status == 0)
        status = h5_failed_write(path);
    return status;
}

static int labels_write(hid_t file, const struct imageset *set, const char *path)
{
    int32_t *label = malloc(set->count * sizeof *label);
    int status;

    if (!label)
        return error_memory(set->count * sizeof *label, "labels");
    for (size_t i = 0; i < set->count; i++)
        label[i] = set->label[i];
    status = h5_write_labels(file, path, label, set->count);
    free(label);
    return status;
}

static int contents_write(hid_t file, const struct imageset *set, const char *path,
                          const struct imageset_write_options *o)
{
    char *source = (char *)o->source;

    if (data_write(file, set, path, o) || labels_write(file, set, path) ||
        h5_write_texts(file, path, "source", 1, &source))
        return -1;
    return set->class_name[0]
               ? h5_write_texts(file, path, "classes", set->nclasses, set->class_name)
               : 0;
}

int imageset_write(const struct imageset *set, const char *path,
                   const struct imageset_write_options *o)
{
    hid_t file;
    int status;

    h5_lock();
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    status = file < 0 ? h5_failed_write(path) : contents_write(file, set, path, o);
    if (file >= 0 && H5Fclose(file) < 0 && status == 0)
        status = h5_failed_write(path);
    h5_unlock();
    return status;
}
