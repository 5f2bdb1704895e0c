/* Blobs inside binary files. A blob is walked twice: once for its shape and once for its values. */
#include "spec/stored_blob.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUM = 1, CHANNELS, HEIGHT, WIDTH, DATA, SHAPE = 7, DOUBLE_DATA };

#define PIECE 4096 /* values converted at a time */

static int add_dim(const struct wire *wire, uint64_t at, struct stored_blob *blob, uint64_t value)
{
    if (blob->naxes == MODELFILE_MAX_AXES)
        return wire_error(wire, at, "a blob of more than %d axes", MODELFILE_MAX_AXES);
    blob->dim[blob->naxes++] = (int64_t)value;
    return 0;
}

/* A list of sizes, in either of the two ways in which protobuf writes lists. */
static int scan_shape(struct wire *wire, uint64_t at, uint64_t end, struct stored_blob *blob)
{
    struct wire_field field;

    while (at < end) {
        if (wire_next(wire, &at, end, &field))
            return -1;
        if (field.number != 1)
            continue;
        if (field.type == WIRE_VARINT && add_dim(wire, field.begin, blob, field.value))
            return -1;
        for (uint64_t k = field.begin; field.type == WIRE_BYTES && k < at;) {
            uint64_t value, place = k;

            if (wire_varint(wire, &k, at, &value) || add_dim(wire, place, blob, value))
                return -1;
        }
    }
    return 0;
}

/* Bytes of one value in a field that holds values of a blob; 0 if it holds none. */
static uint64_t value_bytes(const struct wire_field *field)
{
    if (field->number == DATA && (field->type == WIRE_BYTES || field->type == WIRE_FIXED32))
        return 4;
    if (field->number == DOUBLE_DATA && (field->type == WIRE_BYTES || field->type == WIRE_FIXED64))
        return 8;
    return 0;
}

/* The old way to give a shape has four axes whether all are there or not. */
static void set_legacy(struct stored_blob *blob, const struct wire_field *field)
{
    if (!blob->legacy) {
        blob->legacy = true;
        blob->naxes = 4;
        memset(blob->dim, 0, sizeof blob->dim);
    }
    blob->dim[field->number - NUM] = (int32_t)field->value;
}

int stored_blob_scan(struct wire *wire, uint64_t begin, uint64_t end, struct stored_blob *out)
{
    uint64_t at = begin, floats = 0, doubles = 0;
    struct wire_field field;

    *out = (struct stored_blob){.begin = begin, .end = end};
    while (at < end) {
        uint64_t size;

        if (wire_next(wire, &at, end, &field))
            return -1;
        size = value_bytes(&field);
        if (size > 0 && field.length % size != 0)
            return wire_error(wire, field.begin, "%" PRIu64 " bytes of values of %" PRIu64 " bytes",
                              field.length, size);
        floats += size == 4 ? field.length / 4 : 0;
        doubles += size == 8 ? field.length / 8 : 0;
        if (field.number == SHAPE && field.type == WIRE_BYTES && !out->legacy) {
            if (scan_shape(wire, field.begin, at, out))
                return -1;
        } else if (field.number >= NUM && field.number <= WIDTH && field.type == WIRE_VARINT) {
            set_legacy(out, &field);
        }
    }
    out->doubles = doubles > 0; /* as in Caffe: doubles win where both are there */
    out->elems = doubles > 0 ? doubles : floats;
    return 0;
}

static float load_float(const unsigned char *b)
{
    uint32_t bits = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static float load_double(const unsigned char *b)
{
    uint64_t bits = 0;
    double value;

    for (int i = 7; i >= 0; i--)
        bits = bits << 8 | b[i];
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static int read_values(struct wire *wire, const struct wire_field *field, uint64_t size, float *out)
{
    unsigned char bytes[PIECE * 8];
    uint64_t count = field->length / size;

    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < PIECE ? count - done : PIECE;

        if (wire_copy(wire, field->begin + done * size, bytes, (size_t)(n * size)))
            return -1;
        for (uint64_t i = 0; i < n; i++)
            out[done + i] = size == 4 ? load_float(bytes + 4 * i) : load_double(bytes + 8 * i);
        done += n;
    }
    return 0;
}

int stored_blob_read(struct wire *wire, const struct stored_blob *blob, float *out)
{
    uint64_t at = blob->begin, done = 0, count;
    struct wire_field field;

    while (at < blob->end) {
        if (wire_next(wire, &at, blob->end, &field))
            return -1;
        if (value_bytes(&field) != (blob->doubles ? 8 : 4))
            continue;
        count = field.length / value_bytes(&field);
        if (count > blob->elems - done)
            break;
        if (read_values(wire, &field, value_bytes(&field), out + done))
            return -1;
        done += count;
    }
    return done == blob->elems && at == blob->end
               ? 0
               : wire_error(wire, blob->begin, "the file has changed while it was read");
}

const char *stored_blob_shape(const struct stored_blob *blob, char *out, size_t bytes)
{
    size_t used = 0;
    double elems = 1;

    out[0] = '\0';
    for (int i = 0; i < blob->naxes && used < bytes; i++) {
        used += (size_t)snprintf(out + used, bytes - used, "%" PRId64 " ", blob->dim[i]);
        elems *= (double)blob->dim[i];
    }
    if (used < bytes)
        snprintf(out + used, bytes - used, "(%.0f)", elems);
    return out;
}
