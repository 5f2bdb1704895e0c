/* Mean images. Sums in double are exact for bytes up to 2^53, so the order does not matter. */
#include "convert/mean_image.h"

#include "spec/caffe.pb-c.h"
#include "util/alloc.h"
#include "util/file.h"
#include "spec/h5.h"
#include "util/path.h"

#include <stdlib.h>
#include <unistd.h>

int mean_image_add(struct mean_image *mean, const struct shape *shape, enum source_type type,
                   const void *data)
{
    size_t elems = shape_elems(shape);

    if (mean->count == 0) {
        mean->shape = *shape;
        free(mean->sum);
        if (ALLOC(mean->sum, elems, "the mean image"))
            return -1;
    } else if (!shape_equal(shape, &mean->shape)) {
        return error_set(
            "an image of shape %s, but the first has %s; a mean image needs images of one size",
            shape_text(shape).text, shape_text(&mean->shape).text);
    }
    if (type == SOURCE_U8)
        for (size_t e = 0; e < elems; e++)
            mean->sum[e] += ((const uint8_t *)data)[e];
    else
        for (size_t e = 0; e < elems; e++)
            mean->sum[e] += (double)((const float *)data)[e];
    mean->count++;
    return 0;
}

double mean_image_channel(const struct mean_image *mean, int64_t c)
{
    size_t plane = shape_count(&mean->shape, 1, mean->shape.naxes);
    const double *sum = mean->sum + (size_t)c * plane;
    double total = 0;

    for (size_t e = 0; e < plane; e++)
        total += sum[e] / (double)mean->count;
    return total / (double)plane;
}

static int hdf5_write(const struct mean_image *mean, const float *values, const char *path)
{
    struct h5_output o = {
        .path = path, .name = "mean", .type = H5T_IEEE_F32LE, .naxes = mean->shape.naxes, .id = -1};
    hid_t file;
    int status;

    for (int i = 0; i < o.naxes; i++)
        o.dim[i] = (hsize_t)mean->shape.dim[i];
    h5_lock();
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    status = file < 0 ? h5_write_failed(path) : h5_output_create(file, &o);
    if (!status)
        status = h5_output_write(&o, 0, o.dim[0], H5T_NATIVE_FLOAT, values);
    if (h5_output_close(&o) || (file >= 0 && H5Fclose(file) < 0 && h5_write_failed(path)))
        status = -1;
    h5_unlock();
    return status;
}

static int binaryproto_write(const struct mean_image *mean, float *values, size_t elems,
                             const char *path)
{
    Caffe__BlobProto blob = CAFFE__BLOB_PROTO__INIT;
    struct strbuf packed = {0};
    int status;

    blob.has_num = blob.has_channels = blob.has_height = blob.has_width = 1;
    blob.num = 1;
    blob.channels = (int32_t)mean->shape.dim[0];
    blob.height = (int32_t)mean->shape.dim[1];
    blob.width = (int32_t)mean->shape.dim[2];
    blob.n_data = elems;
    blob.data = values;
    if (strbuf_reserve(&packed, caffe__blob_proto__get_packed_size(&blob), "a mean image"))
        return -1;
    packed.length = caffe__blob_proto__pack(&blob, packed.bytes);
    status = file_write(path, packed.bytes, packed.length);
    strbuf_free(&packed);
    return status;
}

int mean_image_write(const struct mean_image *mean, const char *path)
{
    size_t elems = shape_elems(&mean->shape);
    char *temp = file_temp_name(path);
    float *values = NULL;
    int status = temp ? ALLOC(values, elems, "the mean image") : -1;

    for (size_t e = 0; e < elems && !status; e++)
        values[e] = (float)(mean->sum[e] / (double)mean->count);
    if (!status)
        status = path_ends(path, ".binaryproto") ? binaryproto_write(mean, values, elems, temp)
                                                 : hdf5_write(mean, values, temp);
    if (!status)
        status = file_commit(temp, path);
    else if (temp)
        unlink(temp);
    free(values);
    free(temp);
    return status;
}

void mean_image_free(struct mean_image *mean)
{
    free(mean->sum);
    *mean = (struct mean_image){.count = 0};
}
