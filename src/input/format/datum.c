/* Datum messages by protobuf-c. What a message claims about sizes is checked against what it holds
 * before anything is allocated for it. */
#include "input/format/datum.h"

#include "input/source_internal.h"
#include "spec/caffe.pb-c.h"
#include "util/error.h"

#include <string.h>

static int shape_read(const Caffe__Datum *datum, size_t values, struct record *out)
{
    const int64_t dim[3] = {datum->channels, datum->height, datum->width};

    for (int i = 0; i < 3; i++)
        if (dim[i] < 1)
            return error_set("a Datum of %lld x %lld x %lld (channels x height x width); expected "
                             "sizes of at least 1",
                             (long long)dim[0], (long long)dim[1], (long long)dim[2]);
    if (shape_set(&out->shape, 3, dim, "a Datum"))
        return -1;
    if (shape_elems(&out->shape) == values)
        return 0;
    return error_set("a Datum of %lld x %lld x %lld (channels x height x width) with %zu values; "
                     "expected %zu",
                     (long long)dim[0], (long long)dim[1], (long long)dim[2], values,
                     shape_elems(&out->shape));
}

static int encoded_read(const Caffe__Datum *datum, enum image_color color, struct record *out)
{
    return error_status(image_decode(datum->data.data, datum->data.len, color, &out->decoded) ||
                        record_from_image(out, &out->decoded));
}

static int values_read(const void *values, size_t count, enum source_type type, struct record *out)
{
    size_t bytes = count * (type == SOURCE_U8 ? 1 : sizeof(float));

    if (strbuf_reserve(&out->planes, bytes, "a record"))
        return -1;
    memcpy(out->planes.bytes, values, bytes);
    out->type = type;
    out->data = out->planes.bytes;
    return 0;
}

int datum_read_label(const void *bytes, size_t length, float *label)
{
    Caffe__Datum *datum = caffe__datum__unpack(NULL, length, bytes);

    if (!datum)
        return error_set("%zu bytes that are no Datum message", length);
    *label = (float)datum->label;
    caffe__datum__free_unpacked(datum, NULL);
    return 0;
}

int datum_read(const void *bytes, size_t length, enum image_color color, struct record *out)
{
    Caffe__Datum *datum = caffe__datum__unpack(NULL, length, bytes);
    int status;

    if (!datum)
        return error_set("%zu bytes that are no Datum message", length);
    out->label = (float)datum->label;
    if (datum->data.len == 0 && datum->n_float_data == 0)
        status = error_set("a Datum without an image");
    else if (datum->encoded)
        status = datum->data.len ? encoded_read(datum, color, out)
                                 : error_set("an encoded Datum without an image file");
    else if (datum->data.len)
        status = shape_read(datum, datum->data.len, out) ||
                 values_read(datum->data.data, datum->data.len, SOURCE_U8, out);
    else
        status = shape_read(datum, datum->n_float_data, out) ||
                 values_read(datum->float_data, datum->n_float_data, SOURCE_F32, out);
    caffe__datum__free_unpacked(datum, NULL);
    return status ? -1 : 0;
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
