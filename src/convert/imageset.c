/* Image sets: memory, order, counts. */
#include "convert/imageset.h"

#include "util/error.h"
#include "util/rng.h"

#include <stdlib.h>
#include <string.h>

void imageset_free(struct imageset *set)
{
    class_names_free(&set->classes);
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
