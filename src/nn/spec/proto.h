/* Reads protobuf's binary form from a file, field by field.
 *
 * Weight files may exceed memory and the 2 GB limit of protobuf libraries, so the file is never
 * loaded. A reader looks at one field at a time and reads large values directly into the caller's
 * buffer. The caller keeps the place in the file as a plain number, so nested messages need no
 * state here. Every length is checked against the rest of the enclosing message before use. */
#ifndef POSEIDON_SPEC_PROTO_H
#define POSEIDON_SPEC_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proto_type { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

struct proto_field {
    uint32_t number;
    enum proto_type type;
    uint64_t value;  /* value of a varint or a fixed number; 0 for bytes */
    uint64_t begin;  /* place of the content in the file: for bytes, behind their length */
    uint64_t length; /* bytes of content */
};

struct proto;

/* Opens a regular file. */
int proto_open(const char *path, struct proto **out);
void proto_close(struct proto *proto); /* NULL is allowed */

const char *proto_path(const struct proto *proto);
uint64_t proto_bytes(const struct proto *proto);

/* Reads the field at *at of a message that ends at `end`, and moves *at behind it. Fails with
 * "PATH: damaged or truncated at byte N: ..." if there is no valid field. */
int proto_next(struct proto *proto, uint64_t *at, uint64_t end, struct proto_field *field);

/* Reads the varint at *at, and moves *at behind it. */
int proto_varint(struct proto *proto, uint64_t *at, uint64_t end, uint64_t *value);

/* Copies `bytes` bytes from place `at` of the file to `out`. */
int proto_copy(struct proto *proto, uint64_t at, void *out, size_t bytes);

/* Frees *out and replaces it by a copy of the field's bytes as text. Fails if the field has more
 * than `most` bytes. */
int proto_take_text(struct proto *proto, const struct proto_field *field, size_t most, char **out);

/* Sets the error "PATH: damaged or truncated at byte N: WHAT"; returns -1. */
int proto_error(const struct proto *proto, uint64_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns true if the file begins with a valid field and is not text by proto_is_text; false if the
 * file cannot be read. */
bool proto_is_binary(const char *path);

/* Returns true if the first bytes have no control characters. Text may hold bytes from 128 on. */
bool proto_is_text(struct proto *proto);

/* Field numbers of Poseidon's own, far above Caffe's. Models and states end in the seal, the
 * CRC-32C of all bytes before it. Models also have STATE_RUN (the run's name), STATE_PARAMETERS and
 * the MODEL_ fields; states have all but the MODEL_ fields. */
enum {
    PROTO_OWN = 1000, /* smallest own number; a state's cursor */
    PROTO_SEAL = 1002,
    STATE_RUN,
    STATE_DIGEST,
    STATE_PLAN,
    STATE_BATCH,
    STATE_MEMORY,
    STATE_OWED,
    STATE_PARAMETERS,
    STATE_RULE,
    MODEL_CLASSES = 1020,
    MODEL_PREPARATION
};
#define PROTO_SEAL_BYTES     4  /* a uint32_t, little-endian */
#define PROTO_OLD_SEAL_BYTES 32 /* SHA-256 of earlier versions, not compared */

/* Check Poseidon's own fields. Pass every field of the outermost message in order to
 * proto_check_field, which compares the seal, the file's last field, with the bytes before it. Call
 * proto_check_end at the end: it fails if a file with own fields has no seal, because such a file
 * was cut off. */
int proto_check_field(struct proto *proto, const struct proto_field *field);
int proto_check_end(const struct proto *proto);

/* Return the length of a varint, at most 10 bytes; proto_put_varint also writes the varint. */
size_t proto_varint_bytes(uint64_t value);
size_t proto_put_varint(unsigned char *out, uint64_t value);

#endif
