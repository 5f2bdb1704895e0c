/* A file read front to back, gzip or plain, whose errors name the file and the offset.
 *
 * Offsets count bytes of the unpacked data. */
#ifndef POSEIDON_CONVERT_GZSTREAM_H
#define POSEIDON_CONVERT_GZSTREAM_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

struct gzstream {
    gzFile file;
    char *path;      /* owned; for messages */
    uint64_t offset; /* of the next byte */
};

int gzstream_open(struct gzstream *s, const char *path);
void gzstream_close(struct gzstream *s);

/* Up to `length` bytes, fewer only at the end of the file; *got says how many. Damaged or cut gzip
 * data is an error. */
int gzstream_read_some(struct gzstream *s, void *out, size_t length, size_t *got);

/* Exactly `length` bytes; the message of a file that ends before names `what`. */
int gzstream_read(struct gzstream *s, void *out, size_t length, const char *what);

/* Fails unless the file, and its checksum where it is gzip, ends here; `what` came last. */
int gzstream_expect_end(struct gzstream *s, const char *what);

#endif
