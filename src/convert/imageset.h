/* A set of labelled byte images in memory, as the readers of published sets make it. */
#ifndef POSEIDON_CONVERT_IMAGESET_H
#define POSEIDON_CONVERT_IMAGESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "input/class_names.h"

#define IMAGESET_MAX_CLASSES 256

struct imageset {
    int dim[3];                 /* C, H, W */
    size_t count;               /* records */
    size_t capacity;            /* records there is room for */
    uint8_t *data;              /* count x C x H x W; owned */
    uint8_t *label;             /* count; owned */
    int nclasses;               /* labels are 0 .. nclasses-1 */
    struct class_names classes; /* all or none are known; owned */
};

/* Splits that the published sets come in. */
enum imageset_split { IMAGESET_TRAIN, IMAGESET_TEST };

void imageset_free(struct imageset *set);

/* Makes room for `count` records (dim must be set); keeps set->count and the records in it. */
int imageset_reserve(struct imageset *set, size_t count);

size_t imageset_record_bytes(const struct imageset *set);

/* Reads the binary version of CIFAR-10 from `path`: a folder with data_batch_1.bin .. _5.bin and
 * test_batch.bin. On failure *set is empty. */
int imageset_read_cifar10(const char *path, enum imageset_split split, struct imageset *set);

/* Reads single CIFAR-10 .bin files, in the order given. */
int imageset_read_cifar10_files(int npaths, char *const *paths, struct imageset *set);

/* Whether path is a file that imageset_read_cifar10_files takes, by its name (*.bin, *.bin.gz). */
bool imageset_is_cifar10_file(const char *path);

/* Reads MNIST's IDX files, gzip or plain, from a folder (train-*, t10k-*) or from an images file
 * with its labels file beside it, named alike. Labels are checked against nclasses. */
int imageset_read_mnist(const char *path, enum imageset_split split, int nclasses,
                        struct imageset *set);

/* Puts the records into the order that the seed gives. */
int imageset_shuffle(struct imageset *set, uint64_t seed);

/* Puts a border of `border` pixels around every image, of the mean colour of all of them: with a
 * mean subtracted it is close to nothing. */
int imageset_pad(struct imageset *set, int border);

/* Records of each class; out has set->nclasses entries. */
void imageset_count(const struct imageset *set, size_t *out);

#endif
