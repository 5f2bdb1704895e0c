/* Datum messages, parsed in place: protobuf libraries copy what they parse, and an image is most of
 * a message. Sizes in a message are checked against its length before any allocation. Accepts and
 * refuses exactly the messages that protobuf-c accepts and refuses. */
#include "input/format/datum.h"

#include "input/source_internal.h"
#include "spec/caffe.pb-c.h"
#include "spec/proto.h"
#include "util/error.h"

#include <limits.h>
#include <string.h>

enum {
    FIELD_CHANNELS = 1,
    FIELD_HEIGHT,
    FIELD_WIDTH,
    FIELD_DATA,
    FIELD_LABEL,
    FIELD_FLOATS,
    FIELD_ENCODED,
    FIELDS
};

struct datum {
    int32_t number[FIELDS]; /* values of the numeric fields */
    bool encoded;
    const uint8_t *data; /* borrowed from the message */
    size_t length;
    size_t nfloats;
};

/* Reads a varint of at most `most` bytes, keeping 35 low bits. Returns its end, or NULL. */
static const uint8_t *varint_read(const uint8_t *at, const uint8_t *end, int most, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < most && at + i < end; i++) {
        *value |= i < 5 ? (uint64_t)(at[i] & 0x7f) << (7 * i) : 0;
        if (!(at[i] & 0x80))
            return at + i + 1;
    }
    return NULL;
}

/* Reads a field's content of the given wire type and returns its end, or NULL. *value: the number,
 * or the content's length in bytes. */
static const uint8_t *content_read(const uint8_t *at, const uint8_t *end, unsigned type,
                                   uint64_t *value)
{
    switch (type) {
    case PROTO_VARINT:
        return varint_read(at, end, 10, value);
    case PROTO_BYTES:
        at = varint_read(at, end, 5, value);
        return at && *value <= INT_MAX && *value <= (uint64_t)(end - at) ? at + *value : NULL;
    case PROTO_FIXED32:
    case PROTO_FIXED64:
        *value = type == PROTO_FIXED64 ? 8 : 4;
        return (uint64_t)(end - at) >= *value ? at + *value : NULL;
    default:
        return NULL;
    }
}

static bool type_fits(uint64_t field, unsigned type, uint64_t length)
{
    switch (field) {
    case FIELD_DATA:
        return type == PROTO_BYTES;
    case FIELD_FLOATS:
        return type == PROTO_FIXED32 || (type == PROTO_BYTES && length % sizeof(float) == 0);
    case FIELD_ENCODED: /* any set bit means true */
        return true;
    default:
        return field == 0 || field >= FIELDS || type == PROTO_VARINT;
    }
}

/* Parses a Datum. float_data is appended to `floats`; NULL skips it. */
static int datum_scan(const uint8_t *at, size_t length, struct strbuf *floats, struct datum *out)
{
    const uint8_t *const end = at + length, *content;

    *out = (struct datum){.data = NULL};
    while (at < end) {
        uint64_t tag = *at, value = 0;

        content = tag & 0xf8 ? varint_read(at, end, 5, &tag) : NULL; /* field number 0 is invalid */
        at = content ? content_read(content, end, tag & 7, &value) : NULL;
        if (!at || !type_fits(tag >> 3, tag & 7, value))
            return error_set("%zu bytes that are not a Datum message", length);
        if (tag >> 3 == FIELD_DATA) {
            out->data = at - value;
            out->length = value;
        } else if (tag >> 3 == FIELD_FLOATS) {
            out->nfloats += value / sizeof(float);
            if (floats && strbuf_add(floats, at - value, value, "a record"))
                return -1;
        } else if (tag >> 3 == FIELD_ENCODED) {
            for (out->encoded = false; content < at; content++)
                out->encoded |= (*content & 0x7f) != 0;
        } else if (tag >> 3 < FIELDS) {
            out->number[tag >> 3] = (int32_t)value;
        }
    }
    return 0;
}

static int values_set(const struct datum *datum, struct record *out)
{
    const int64_t dim[3] = {datum->number[FIELD_CHANNELS], datum->number[FIELD_HEIGHT],
                            datum->number[FIELD_WIDTH]};
    const size_t values = datum->length ? datum->length : datum->nfloats;

    for (int i = 0; i < 3; i++)
        if (dim[i] < 1)
            return error_set("a Datum of %lld x %lld x %lld (channels x height x width); expected "
                             "sizes of at least 1",
                             (long long)dim[0], (long long)dim[1], (long long)dim[2]);
    if (shape_set(&out->shape, 3, dim, "a Datum"))
        return -1;
    if (shape_elems(&out->shape) != values)
        return error_set("a Datum of %lld x %lld x %lld (channels x height x width) with %zu "
                         "values; expected %zu",
                         (long long)dim[0], (long long)dim[1], (long long)dim[2], values,
                         shape_elems(&out->shape));
    out->type = datum->length ? SOURCE_U8 : SOURCE_F32;
    out->data = datum->length ? datum->data : out->planes.bytes;
    out->image = NULL;
    return 0;
}

int datum_read_label(const void *bytes, size_t length, float *label)
{
    struct datum datum;

    if (datum_scan(bytes, length, NULL, &datum))
        return -1;
    *label = (float)datum.number[FIELD_LABEL];
    return 0;
}

int datum_read(const void *bytes, size_t length, enum image_color color, struct record *out)
{
    struct datum datum;

    out->planes.length = 0;
    if (datum_scan(bytes, length, &out->planes, &datum))
        return -1;
    out->label = (float)datum.number[FIELD_LABEL];
    if (datum.length == 0 && datum.nfloats == 0)
        return error_set("a Datum without an image");
    if (!datum.encoded)
        return values_set(&datum, out);
    if (datum.length == 0)
        return error_set("an encoded Datum without an image file");
    return error_status(image_decode(datum.data, datum.length, color, &out->decoded) ||
                        record_set_image(out, &out->decoded, 0, 0));
}

static int datum_append(Caffe__Datum *datum, int label, struct strbuf *out)
{
    size_t length;

    datum->has_data = datum->has_label = datum->n_float_data == 0;
    datum->label = label;
    length = caffe__datum__get_packed_size(datum);
    if (strbuf_reserve(out, out->length + length, "a Datum"))
        return -1;
    out->length += caffe__datum__pack(datum, out->bytes + out->length);
    return 0;
}

int datum_write_raw(const struct record *record, int label, struct strbuf *out)
{
    Caffe__Datum datum = CAFFE__DATUM__INIT;

    datum.has_channels = datum.has_height = datum.has_width = 1;
    datum.channels = (int32_t)record->shape.dim[0];
    datum.height = (int32_t)record->shape.dim[1];
    datum.width = (int32_t)record->shape.dim[2];
    if (record->type == SOURCE_F32) {
        datum.float_data = (float *)record->data;
        datum.n_float_data = shape_elems(&record->shape);
    } else {
        datum.data.data = (uint8_t *)record->data;
        datum.data.len = shape_elems(&record->shape);
    }
    return datum_append(&datum, label, out);
}

int datum_write_encoded(const void *file, size_t length, int label, struct strbuf *out)
{
    Caffe__Datum datum = CAFFE__DATUM__INIT;

    datum.has_encoded = datum.encoded = 1;
    datum.data.data = (uint8_t *)file;
    datum.data.len = length;
    return datum_append(&datum, label, out);
}
