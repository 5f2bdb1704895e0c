/* Reads protobuf's binary form from a file, field by field. */
#define _GNU_SOURCE
#include "spec/proto.h"

#include "util/alloc.h"
#include "util/crc32c.h"
#include "util/file.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW ((size_t)1 << 16)

struct proto {
    char *path; /* owned */
    int fd;
    uint64_t bytes;               /* size of the file */
    bool has_own, sealed;         /* fields of Poseidon's were seen; a right seal was seen */
    uint64_t window_at;           /* place in the file of window[0] */
    size_t window_bytes;          /* valid bytes of `window` */
    unsigned char window[WINDOW]; /* piece of the file, for small reads */
};

int proto_error(const struct proto *proto, uint64_t at, const char *format, ...)
{
    char what[256];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set("%s: damaged or truncated at byte %" PRIu64 ": %s", proto->path, at, what);
}

int proto_open(const char *path, struct proto **out)
{
    int fd = file_open_plain(path);
    struct proto *proto;
    struct stat info;

    if (fd < 0)
        return -1;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return error_set("%s: expected a plain file, found something else", path);
    }
    if (ALLOC(proto, 1, path) || alloc_text(&proto->path, path, path)) {
        free(proto);
        close(fd);
        return -1;
    }
    proto->fd = fd;
    proto->bytes = (uint64_t)info.st_size;
    *out = proto;
    return 0;
}

void proto_close(struct proto *proto)
{
    if (proto == NULL)
        return;
    close(proto->fd);
    free(proto->path);
    free(proto);
}

const char *proto_path(const struct proto *proto)
{
    return proto->path;
}

uint64_t proto_bytes(const struct proto *proto)
{
    return proto->bytes;
}

static int read_at(struct proto *proto, uint64_t at, void *out, size_t bytes, size_t *got)
{
    char *to = out;

    *got = 0;
    while (*got < bytes) {
        ssize_t n =
            TEMP_FAILURE_RETRY(pread(proto->fd, to + *got, bytes - *got, (off_t)(at + *got)));

        if (n < 0)
            return error_set("%s: cannot be read at byte %" PRIu64 ": %s", proto->path, at + *got,
                             strerror(errno));
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return 0;
}

int proto_copy(struct proto *proto, uint64_t at, void *out, size_t bytes)
{
    bool inside = at >= proto->window_at && at - proto->window_at <= proto->window_bytes &&
                  bytes <= proto->window_bytes - (size_t)(at - proto->window_at);
    size_t got;

    if (!inside && bytes >= WINDOW) {
        if (read_at(proto, at, out, bytes, &got))
            return -1;
        return got == bytes ? 0 : proto_error(proto, at + got, "the file ends early");
    }
    if (!inside) {
        proto->window_bytes = 0;
        if (read_at(proto, at, proto->window, WINDOW, &got))
            return -1;
        proto->window_at = at;
        proto->window_bytes = got;
        if (got < bytes)
            return proto_error(proto, at + got, "the file ends early");
    }
    memcpy(out, proto->window + (at - proto->window_at), bytes);
    return 0;
}

int proto_take_text(struct proto *proto, const struct proto_field *field, size_t most, char **out)
{
    free(*out);
    *out = NULL;
    if (field->length > most)
        return error_set("%s: a text of %" PRIu64 " bytes, expected %zu at most", proto->path,
                         field->length, most);
    if (ALLOC(*out, field->length + 1, "a text"))
        return -1;
    return proto_copy(proto, field->begin, *out, (size_t)field->length);
}

int proto_varint(struct proto *proto, uint64_t *at, uint64_t end, uint64_t *value)
{
    uint64_t begin = *at;
    unsigned char byte;

    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*at >= end)
            return proto_error(proto, begin, "a number that goes beyond the end of its message");
        if (proto_copy(proto, *at, &byte, 1))
            return -1;
        ++*at;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 0;
    }
    return proto_error(proto, begin, "a number of more than 10 bytes");
}

static int read_fixed(struct proto *proto, struct proto_field *field)
{
    unsigned char bytes[8];

    if (proto_copy(proto, field->begin, bytes, (size_t)field->length))
        return -1;
    for (size_t i = 0; i < field->length; i++)
        field->value |= (uint64_t)bytes[i] << (8 * i);
    return 0;
}

int proto_next(struct proto *proto, uint64_t *at, uint64_t end, struct proto_field *field)
{
    uint64_t begin = *at, tag;

    if (proto_varint(proto, at, end, &tag))
        return -1;
    *field = (struct proto_field){.number = (uint32_t)(tag >> 3), .type = tag & 7, .begin = *at};
    if (field->number == 0 || tag >> 32 != 0)
        return proto_error(proto, begin, "%" PRIu64 " where the number of a field is expected",
                           tag >> 3);
    switch ((int)(tag & 7)) {
    case PROTO_VARINT:
        if (proto_varint(proto, at, end, &field->value))
            return -1;
        field->length = *at - field->begin;
        return 0;
    case PROTO_BYTES:
        if (proto_varint(proto, at, end, &field->length))
            return -1;
        field->begin = *at;
        break;
    case PROTO_FIXED32:
        field->length = 4;
        break;
    case PROTO_FIXED64:
        field->length = 8;
        break;
    default:
        return proto_error(proto, begin, "field %" PRIu32 " has the unknown wire type %d",
                           field->number, (int)(tag & 7));
    }
    if (field->length > end - *at)
        return proto_error(proto, begin,
                           "field %" PRIu32 " claims %" PRIu64 " bytes, but only %" PRIu64
                           " are left",
                           field->number, field->length, end - *at);
    *at += field->length;
    return field->type == PROTO_BYTES ? 0 : read_fixed(proto, field);
}

static int check_seal(struct proto *proto, const struct proto_field *field)
{
    uint64_t end = field->begin - proto_varint_bytes((uint64_t)PROTO_SEAL << 3 | PROTO_BYTES) - 1;
    unsigned char piece[4096];
    uint32_t sum = 0, seal;

    for (uint64_t at = 0; at < end;) {
        size_t n = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;

        if (proto_copy(proto, at, piece, n))
            return -1;
        sum = crc32c(sum, piece, n);
        at += n;
    }
    if (proto_copy(proto, field->begin, &seal, sizeof seal))
        return -1;
    if (le32toh(seal) != sum)
        return error_set("%s: damaged: its content is not what was written (CRC-32C)", proto->path);
    proto->sealed = true;
    return 0;
}

int proto_check_field(struct proto *proto, const struct proto_field *field)
{
    bool seal = field->number == PROTO_SEAL && field->type == PROTO_BYTES &&
                field->begin + field->length == proto->bytes;

    proto->has_own |= field->number >= PROTO_OWN;
    proto->sealed |= seal && field->length == PROTO_OLD_SEAL_BYTES;
    return seal && field->length == PROTO_SEAL_BYTES ? check_seal(proto, field) : 0;
}

int proto_check_end(const struct proto *proto)
{
    if (!proto->has_own || proto->sealed)
        return 0;
    return error_set("%s: damaged: expected its checksum at the end, as poseidon writes it, found "
                     "none: the file was cut off or changed; use an older snapshot",
                     proto->path);
}

bool proto_is_text(struct proto *proto)
{
    unsigned char bytes[4096];
    size_t count = proto->bytes < sizeof bytes ? (size_t)proto->bytes : sizeof bytes;

    if (proto_copy(proto, 0, bytes, count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (bytes[i] < 7 || (bytes[i] > '\r' && bytes[i] < ' ' && bytes[i] != 27))
            return false;
    return true;
}

bool proto_is_binary(const char *path)
{
    struct proto_field field;
    struct proto *proto;
    uint64_t at = 0;
    bool binary = false;

    if (proto_open(path, &proto) == 0) {
        binary = proto->bytes > 0 && proto_next(proto, &at, proto->bytes, &field) == 0 &&
                 !proto_is_text(proto);
        proto_close(proto);
    }
    error_clear();
    return binary;
}

size_t proto_varint_bytes(uint64_t value)
{
    size_t bytes = 1;

    while (value >>= 7)
        bytes++;
    return bytes;
}

size_t proto_put_varint(unsigned char *out, uint64_t value)
{
    size_t bytes = 0;

    do {
        out[bytes++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    } while (value >>= 7);
    return bytes;
}
