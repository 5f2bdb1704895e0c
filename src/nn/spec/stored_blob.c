/* Blobs in binary files. A blob is walked twice: for its shape, then for its values. NVIDIA's Caffe
 * since 0.16, DIGITS 6 and OpenCV's shrinkCaffeModel store values in fields of their own: raw bytes
 * and their type. */
#include "spec/stored_blob.h"

#include "util/alloc.h"
#include "util/file_kind.h"
#include "util/strbuf.h"

#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUM = 1,
    CHANNELS,
    HEIGHT,
    WIDTH,
    DATA,
    SHAPE = 7,
    DOUBLE_DATA,
    RAW_TYPE = 10,
    RAW_DATA = 12
};

static const size_t stored_bytes[] = {
    [STORED_F32] = 4, [STORED_F64] = 8, [STORED_F16] = 2, [STORED_BF16] = 2};

#define PIECE 4096 /* values converted at a time */

static int add_dim(const struct proto *proto, uint64_t at, struct stored_blob *blob, uint64_t value)
{
    if (blob->naxes == MODELFILE_MAX_AXES)
        return proto_error(proto, at, "a blob of more than %d axes", MODELFILE_MAX_AXES);
    blob->dim[blob->naxes++] = (int64_t)value;
    return 0;
}

/* Reads a list of sizes, packed or not. */
static int scan_shape(struct proto *proto, uint64_t at, uint64_t end, struct stored_blob *blob)
{
    struct proto_field field;

    while (at < end) {
        if (proto_next(proto, &at, end, &field))
            return -1;
        if (field.number != 1)
            continue;
        if (field.type == PROTO_VARINT && add_dim(proto, field.begin, blob, field.value))
            return -1;
        for (uint64_t k = field.begin; field.type == PROTO_BYTES && k < at;) {
            uint64_t value, place = k;

            if (proto_varint(proto, &k, at, &value) || add_dim(proto, place, blob, value))
                return -1;
        }
    }
    return 0;
}

/* Returns the bytes of a value in a field of blob values (1 if raw); 0 for other fields. */
static uint64_t value_bytes(const struct proto_field *field)
{
    if (field->number == DATA && (field->type == PROTO_BYTES || field->type == PROTO_FIXED32))
        return 4;
    if (field->number == DOUBLE_DATA &&
        (field->type == PROTO_BYTES || field->type == PROTO_FIXED64))
        return 8;
    return field->number == RAW_DATA && field->type == PROTO_BYTES;
}

/* Sets one axis of an old-form shape, which always has four axes, given or not. */
static void set_legacy(struct stored_blob *blob, const struct proto_field *field)
{
    if (!blob->legacy) {
        blob->legacy = true;
        blob->naxes = 4;
        memset(blob->dim, 0, sizeof blob->dim);
    }
    blob->dim[field->number - NUM] = (int32_t)field->value;
}

/* Chooses the values' field and type. Doubles win over floats, as in Caffe, and raw bytes over
 * both, as in NVIDIA's Caffe. Raw bytes have a type field: DOUBLE, FLOAT, FLOAT16, INT or UINT. */
static int set_values(const struct proto *proto, struct stored_blob *blob,
                      const uint64_t bytes[RAW_DATA + 1], uint64_t raw_type)
{
    static const enum stored_type raw[] = {STORED_F64, STORED_F32, STORED_F16};

    blob->field = bytes[RAW_DATA] ? RAW_DATA : bytes[DOUBLE_DATA] ? DOUBLE_DATA : DATA;
    blob->type = blob->field == DOUBLE_DATA ? STORED_F64 : STORED_F32;
    if (blob->field == RAW_DATA && raw_type >= sizeof raw / sizeof *raw)
        return error_set("%s: a blob has NVIDIA Caffe's raw_data_type %" PRIu64
                         " (integers); expected 0, 1 or 2 (DOUBLE, FLOAT, FLOAT16)",
                         proto_path(proto), raw_type);
    if (blob->field == RAW_DATA)
        blob->type = raw[raw_type];
    if (bytes[blob->field] % stored_bytes[blob->type])
        return proto_error(proto, blob->begin,
                           "%" PRIu64 " bytes of values, where a value has %zu bytes",
                           bytes[blob->field], stored_bytes[blob->type]);
    blob->elems = bytes[blob->field] / stored_bytes[blob->type];
    return 0;
}

int stored_blob_scan(struct proto *proto, uint64_t begin, uint64_t end, struct stored_blob *out)
{
    uint64_t at = begin, bytes[RAW_DATA + 1] = {0}, raw_type = 0;
    struct proto_field field;

    *out = (struct stored_blob){.begin = begin, .end = end};
    while (at < end) {
        uint64_t size;

        if (proto_next(proto, &at, end, &field))
            return -1;
        size = value_bytes(&field);
        if (size > 0 && field.length % size != 0)
            return proto_error(proto, field.begin,
                               "%" PRIu64 " bytes of values, where a value has %" PRIu64 " bytes",
                               field.length, size);
        if (size > 0) {
            bytes[field.number] += field.length;
        } else if (field.number == RAW_TYPE && field.type == PROTO_VARINT) {
            raw_type = field.value;
        } else if (field.number == SHAPE && field.type == PROTO_BYTES && !out->legacy) {
            if (scan_shape(proto, field.begin, at, out))
                return -1;
        } else if (field.number >= NUM && field.number <= WIDTH && field.type == PROTO_VARINT) {
            set_legacy(out, &field);
        }
    }
    return set_values(proto, out, bytes, raw_type);
}

/* Converts an IEEE half: sign, 5 bits of exponent, 10 of mantissa. */
static float half_value(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    float mantissa = (float)(bits & 1023);
    float value = exponent == 31 ? (mantissa > 0 ? NAN : INFINITY)
                  : exponent     ? ldexpf(1024 + mantissa, exponent - 25)
                                 : ldexpf(mantissa, -24);

    return bits >> 15 ? -value : value;
}

static float load_value(enum stored_type type, const unsigned char *b)
{
    uint64_t bits = 0;
    uint32_t half;
    double twice;
    float single;

    for (size_t i = stored_bytes[type]; i-- > 0;)
        bits = bits << 8 | b[i];
    if (type == STORED_F16)
        return half_value((uint32_t)bits);
    half = type == STORED_BF16 ? (uint32_t)bits << 16 : (uint32_t)bits;
    memcpy(&twice, &bits, sizeof twice);
    memcpy(&single, &half, sizeof single);
    return type == STORED_F64 ? (float)twice : single;
}

static void values_load(enum stored_type type, const unsigned char *bytes, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = load_value(type, bytes + stored_bytes[type] * i);
}

static int read_values(struct proto *proto, const struct proto_field *field, enum stored_type type,
                       float *out)
{
    unsigned char bytes[PIECE * 8];
    uint64_t size = stored_bytes[type], count = field->length / size;

    if (type == STORED_F32 && htole32(1) == 1) /* the file has the layout of memory */
        return proto_copy(proto, field->begin, out, (size_t)field->length);
    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < PIECE ? count - done : PIECE;

        if (proto_copy(proto, field->begin + done * size, bytes, (size_t)(n * size)))
            return -1;
        values_load(type, bytes, (size_t)n, out + done);
        done += n;
    }
    return 0;
}

int stored_blob_read(struct proto *proto, const struct stored_blob *blob, float *out)
{
    uint64_t at = blob->begin, done = 0, count;
    struct proto_field field;

    while (at < blob->end) {
        if (proto_next(proto, &at, blob->end, &field))
            return -1;
        if (!value_bytes(&field) || field.number != blob->field)
            continue;
        count = field.length / stored_bytes[blob->type];
        if (count > blob->elems - done)
            break;
        if (read_values(proto, &field, blob->type, out + done))
            return -1;
        done += count;
    }
    return done == blob->elems && at == blob->end
               ? 0
               : proto_error(proto, blob->begin, "the file has changed while it was read");
}

struct stored_layer *stored_layers_add(struct stored_layers *layers, const char *name,
                                       size_t length)
{
    struct stored_layer *layer;

    if (ALLOC_ROOM(layers->layer, layers->count, "the layers of a model"))
        return NULL;
    layer = &layers->layer[layers->count];
    *layer = (struct stored_layer){.name = NULL};
    if (alloc_bytes(&layer->name, name, length, "a layer's name"))
        return NULL;
    layers->count++;
    return layer;
}

struct stored_blob *stored_layer_add(struct stored_layer *layer)
{
    if (ALLOC_ROOM(layer->blobs, layer->nblobs, "the blobs of a layer"))
        return NULL;
    layer->blobs[layer->nblobs] = (struct stored_blob){.naxes = 0};
    return &layer->blobs[layer->nblobs++];
}

void stored_layers_free(struct stored_layers *layers)
{
    for (int i = 0; i < layers->count; i++) {
        free(layers->layer[i].name);
        free(layers->layer[i].blobs);
    }
    free(layers->layer);
}

/* Multiplies a blob's sizes; false if one is negative or the product overflows. */
static bool count_shape(const struct stored_blob *blob, uint64_t *elems)
{
    *elems = 1;
    for (int i = 0; i < blob->naxes; i++) {
        if (blob->dim[i] < 0 || (blob->dim[i] > 0 && *elems > UINT64_MAX / (uint64_t)blob->dim[i]))
            return false;
        *elems *= (uint64_t)blob->dim[i];
    }
    return true;
}

int stored_blob_load(const char *path, struct stored_blob *blob, float **values)
{
    char shape[256];
    struct proto *proto;
    uint64_t elems;
    int status = -1, scanned = -1;

    *values = NULL;
    if (proto_open(path, &proto))
        return -1;
    if (proto_is_text(proto))
        error_set("%s: expected a blob (.binaryproto), found a text", path);
    else
        scanned = stored_blob_scan(proto, 0, proto_bytes(proto), blob);
    if (!scanned && blob->naxes == 0)
        blob->dim[blob->naxes++] = (int64_t)blob->elems;
    if (!scanned && (blob->elems == 0 || !count_shape(blob, &elems) || elems != blob->elems))
        error_set("%s: expected a blob (.binaryproto), found a shape of %s with %" PRIu64 " values",
                  path, stored_blob_shape(blob, shape, sizeof shape), blob->elems);
    else if (!scanned && (*values = malloc((size_t)blob->elems * sizeof **values)) == NULL)
        error_memory(blob->elems * sizeof **values, path);
    else if (*values != NULL)
        status = stored_blob_read(proto, blob, *values);
    if (status) {
        free(*values);
        *values = NULL;
        file_kind_error(path, "a blob (.binaryproto)");
    }
    proto_close(proto);
    return status;
}

const char *stored_blob_shape(const struct stored_blob *blob, char *out, size_t bytes)
{
    double elems = 1;

    out[0] = '\0';
    for (int i = 0; i < blob->naxes; i++) {
        buffer_printf(out, bytes, "%" PRId64 " ", blob->dim[i]);
        elems *= (double)blob->dim[i];
    }
    buffer_printf(out, bytes, "(%.0f)", elems);
    return out;
}
