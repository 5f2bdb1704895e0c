/* Protobuf's binary form, read from a file field by field.
 *
 * A weight file may be larger than memory and larger than the 2 GB that protobuf libraries take, so
 * it is never loaded: a reader looks at one field at a time, and the values of large fields are
 * read straight to where they belong. A place in the file is a plain number that the caller keeps,
 * so that messages inside messages need no state here. Every length is compared with what is left
 * of the message around it before anything is done with it. */
#ifndef POSEIDON_SPEC_PROTO_H
#define POSEIDON_SPEC_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proto_type { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

struct proto_field {
    uint32_t number;
    enum proto_type type;
    uint64_t value;  /* of a varint or a fixed number; 0 for bytes */
    uint64_t begin;  /* where its content stands in the file: for bytes, behind their length */
    uint64_t length; /* of the content, in bytes */
};

struct proto;

/* Opens a regular file. */
int proto_open(const char *path, struct proto **out);
void proto_close(struct proto *proto); /* NULL is allowed */

const char *proto_path(const struct proto *proto);
uint64_t proto_bytes(const struct proto *proto);

/* Reads the field at *at of a message that ends at `end`, and moves *at behind it. Fails with
 * "PATH: damaged or truncated at byte N: ..." on whatever cannot be a field. */
int proto_next(struct proto *proto, uint64_t *at, uint64_t end, struct proto_field *field);

/* Reads the varint at *at, and moves *at behind it. */
int proto_varint(struct proto *proto, uint64_t *at, uint64_t end, uint64_t *value);

/* Copies bytes out of the file. */
int proto_copy(struct proto *proto, uint64_t at, void *out, size_t bytes);

/* Replaces *out, which is freed, by a copy of the field's bytes as text. Fails if the field has
 * more than `most` bytes. */
int proto_take_text(struct proto *proto, const struct proto_field *field, size_t most, char **out);

/* Sets "PATH: damaged or truncated at byte N: WHAT"; returns -1. */
int proto_error(const struct proto *proto, uint64_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the file begins as a binary message does and as no text does: with a first field that
 * fits, and not as proto_is_text has it. A file that cannot be read is none. */
bool proto_is_binary(const char *path);

/* Whether the first bytes have no control characters: text may hold any byte from 128 on. */
bool proto_is_text(struct proto *proto);

/* Numbers of fields that Caffe does not know, far above its own. Our models and states end in the
 * seal, the SHA-256 of all before it; models have the run's name, the parameters and those of
 * MODEL_ besides, states all but the latter. */
enum {
    PROTO_OWN = 1000, /* and above; the first is a state's cursor */
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
#define PROTO_SEAL_BYTES 32

/* For every field of the outermost message, in order: the seal, the file's last one, is compared
 * with what stands before it. Then, where the end is reached: fields of ours without a seal are
 * what is left of a file. */
int proto_check_field(struct proto *proto, const struct proto_field *field);
int proto_check_end(const struct proto *proto);

/* For writing: bytes of a varint, and the varint itself (at most 10 bytes); returns its length. */
size_t proto_varint_bytes(uint64_t value);
size_t proto_put_varint(unsigned char *out, uint64_t value);

#endif
