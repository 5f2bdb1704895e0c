/* Protobuf's binary form, read from a file field by field.
 *
 * A weight file may be larger than memory and larger than the 2 GB that protobuf libraries take, so
 * it is never loaded: a reader looks at one field at a time, and the values of large fields are read
 * straight to where they belong. A place in the file is a plain number that the caller keeps, so
 * that messages inside messages need no state here. Every length is compared with what is left of
 * the message around it before anything is done with it. */
#ifndef POSEIDON_SPEC_WIRE_H
#define POSEIDON_SPEC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;  /* of a varint or a fixed number; 0 for bytes */
    uint64_t begin;  /* where its content stands in the file: for bytes, behind their length */
    uint64_t length; /* of the content, in bytes */
};

struct wire;

/* Opens a regular file. */
int wire_open(const char *path, struct wire **out);
void wire_close(struct wire *wire); /* NULL is allowed */

const char *wire_path(const struct wire *wire);
uint64_t wire_bytes(const struct wire *wire);

/* Reads the field at *at of a message that ends at `end`, and moves *at behind it. Fails with "PATH:
 * damaged or truncated at byte N: ..." on whatever cannot be a field. */
int wire_next(struct wire *wire, uint64_t *at, uint64_t end, struct wire_field *field);

/* Reads the varint at *at, and moves *at behind it. */
int wire_varint(struct wire *wire, uint64_t *at, uint64_t end, uint64_t *value);

/* Copies bytes out of the file. */
int wire_copy(struct wire *wire, uint64_t at, void *out, size_t bytes);

/* Sets "PATH: damaged or truncated at byte N: WHAT"; returns -1. */
int wire_error(const struct wire *wire, uint64_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the file begins as a binary message does and as no text does: with a first field that
 * fits, and not as wire_is_text has it. A file that cannot be read is none. */
bool wire_is_binary(const char *path);

/* Whether the first bytes have no control characters: text may hold any byte from 128 on. */
bool wire_is_text(struct wire *wire);

/* For writing: bytes of a varint, and the varint itself (at most 10 bytes); returns its length. */
size_t wire_varint_bytes(uint64_t value);
size_t wire_put_varint(unsigned char *out, uint64_t value);

#endif
