/* A piece of memory that is used again and again and grows as needed: files and images as they are
 * read one after another. */
#ifndef POSEIDON_INPUT_FORMAT_BYTES_H
#define POSEIDON_INPUT_FORMAT_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* All zero is empty. */
struct bytes {
    uint8_t *data;   /* owned; NULL while nothing was reserved */
    size_t length;   /* bytes in use */
    size_t capacity; /* bytes allocated */
};

/* Makes room for `capacity` bytes and keeps the first `length`; the message names `what`. */
int bytes_reserve(struct bytes *bytes, size_t capacity, const char *what);

int bytes_append(struct bytes *bytes, const void *data, size_t length, const char *what);

/* Reads the whole file. Errors name it: missing, a folder, unreadable, larger than `max` bytes. */
int bytes_load(struct bytes *bytes, const char *path, size_t max);

void bytes_free(struct bytes *bytes);

#endif
