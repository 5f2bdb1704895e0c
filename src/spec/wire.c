/* Protobuf's binary form, read from a file field by field. */
#include "spec/wire.h"

#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW ((size_t)1 << 16)

struct wire {
    char *path; /* owned */
    int fd;
    uint64_t bytes;                /* of the file */
    uint64_t window_at;            /* place in the file of window[0] */
    size_t window_bytes;           /* valid ones */
    unsigned char window[WINDOW];  /* a piece of the file, for the small reads */
};

int wire_error(const struct wire *wire, uint64_t at, const char *format, ...)
{
    char what[256];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set("%s: damaged or truncated at byte %" PRIu64 ": %s", wire->path, at, what);
}

int wire_open(const char *path, struct wire **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct wire *wire;
    struct stat info;

    if (fd < 0 && errno == ENOENT)
        return error_set("File not found: %s", path);
    if (fd < 0)
        return error_set("%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return error_set("%s: expected a plain file, found something else", path);
    }
    wire = calloc(1, sizeof *wire);
    if (wire == NULL || (wire->path = strdup(path)) == NULL) {
        free(wire);
        close(fd);
        return error_memory(sizeof *wire, path);
    }
    wire->fd = fd;
    wire->bytes = (uint64_t)info.st_size;
    *out = wire;
    return 0;
}

void wire_close(struct wire *wire)
{
    if (wire == NULL)
        return;
    close(wire->fd);
    free(wire->path);
    free(wire);
}

const char *wire_path(const struct wire *wire)
{
    return wire->path;
}

uint64_t wire_bytes(const struct wire *wire)
{
    return wire->bytes;
}

static int read_at(struct wire *wire, uint64_t at, void *out, size_t bytes, size_t *got)
{
    char *to = out;

    *got = 0;
    while (*got < bytes) {
        ssize_t n = pread(wire->fd, to + *got, bytes - *got, (off_t)(at + *got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set("%s: cannot be read at byte %" PRIu64 ": %s", wire->path, at + *got,
                             strerror(errno));
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return 0;
}

int wire_copy(struct wire *wire, uint64_t at, void *out, size_t bytes)
{
    bool inside = at >= wire->window_at && at - wire->window_at <= wire->window_bytes &&
                  bytes <= wire->window_bytes - (size_t)(at - wire->window_at);
    size_t got;

    if (!inside && bytes >= WINDOW) {
        if (read_at(wire, at, out, bytes, &got))
            return -1;
        return got == bytes ? 0 : wire_error(wire, at + got, "the file ends early");
    }
    if (!inside) {
        wire->window_bytes = 0;
        if (read_at(wire, at, wire->window, WINDOW, &got))
            return -1;
        wire->window_at = at;
        wire->window_bytes = got;
        if (got < bytes)
            return wire_error(wire, at + got, "the file ends early");
    }
    memcpy(out, wire->window + (at - wire->window_at), bytes);
    return 0;
}

int wire_varint(struct wire *wire, uint64_t *at, uint64_t end, uint64_t *value)
{
    uint64_t begin = *at;
    unsigned char byte;

    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*at >= end)
            return wire_error(wire, begin, "a number that goes beyond the end of its message");
        if (wire_copy(wire, *at, &byte, 1))
            return -1;
        ++*at;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 0;
    }
    return wire_error(wire, begin, "a number of more than 10 bytes");
}

static int read_fixed(struct wire *wire, struct wire_field *field)
{
    unsigned char bytes[8];

    if (wire_copy(wire, field->begin, bytes, (size_t)field->length))
        return -1;
    for (size_t i = 0; i < field->length; i++)
        field->value |= (uint64_t)bytes[i] << (8 * i);
    return 0;
}

int wire_next(struct wire *wire, uint64_t *at, uint64_t end, struct wire_field *field)
{
    uint64_t begin = *at, tag;

    if (wire_varint(wire, at, end, &tag))
        return -1;
    *field = (struct wire_field){.number = (uint32_t)(tag >> 3), .type = tag & 7, .begin = *at};
    if (field->number == 0 || tag >> 32 != 0)
        return wire_error(wire, begin, "%" PRIu64 " where the number of a field is expected",
                          tag >> 3);
    switch ((int)(tag & 7)) {
    case WIRE_VARINT:
        if (wire_varint(wire, at, end, &field->value))
            return -1;
        field->length = *at - field->begin;
        return 0;
    case WIRE_BYTES:
        if (wire_varint(wire, at, end, &field->length))
            return -1;
        field->begin = *at;
        break;
    case WIRE_FIXED32:
        field->length = 4;
        break;
    case WIRE_FIXED64:
        field->length = 8;
        break;
    default:
        return wire_error(wire, begin, "field %" PRIu32 " is of a kind (%d) that is not used",
                          field->number, (int)(tag & 7));
    }
    if (field->length > end - *at)
        return wire_error(wire, begin,
                          "field %" PRIu32 " says it has %" PRIu64 " bytes, of which %" PRIu64
                          " are there",
                          field->number, field->length, end - *at);
    *at += field->length;
    return field->type == WIRE_BYTES ? 0 : read_fixed(wire, field);
}

bool wire_is_text(struct wire *wire)
{
    unsigned char bytes[4096];
    size_t count = wire->bytes < sizeof bytes ? (size_t)wire->bytes : sizeof bytes;

    if (wire_copy(wire, 0, bytes, count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (bytes[i] < 7 || (bytes[i] > '\r' && bytes[i] < ' ' && bytes[i] != 27))
            return false;
    return true;
}

bool wire_is_binary(const char *path)
{
    struct wire_field field;
    struct wire *wire;
    uint64_t at = 0;
    bool binary = false;

    if (wire_open(path, &wire) == 0) {
        binary = wire->bytes > 0 && wire_next(wire, &at, wire->bytes, &field) == 0 &&
                 !wire_is_text(wire);
        wire_close(wire);
    }
    error_clear();
    return binary;
}

size_t wire_varint_bytes(uint64_t value)
{
    size_t bytes = 1;

    while (value >>= 7)
        bytes++;
    return bytes;
}

size_t wire_put_varint(unsigned char *out, uint64_t value)
{
    size_t bytes = 0;

    do {
        out[bytes++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    } while (value >>= 7);
    return bytes;
}
