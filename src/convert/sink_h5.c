/* The HDF5 sink: one data set that grows by chunks of about 1 MiB where the number of images is not
 * known before; they are collected until a chunk is full. */
#include "convert/sink.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/file.h"
#include "util/h5.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)1 << 20)

struct hdf5_sink {
    struct sink sink;
    struct sink_options o;
    hid_t file, data;   /* negative: not open */
    struct shape shape; /* of the first image */
    size_t chunk;       /* records */
    struct bytes block; /* records not written yet */
    uint64_t written;
    int32_t *label; /* owned */
};

/* ---- pieces of the file, with the lock held ---- */

/* To be called before anything else of HDF5: every call forgets the error of the one before. */
static int write_failed(const char *path)
{
    char reason[512];

    return error_set("%s: cannot be written (%s)", path, h5_reason(reason, sizeof reason));
}

/* Texts as one attribute of the file, of fixed length, which every reader understands. */
static int texts_write(hid_t file, const char *path, const char *name, int n, char *const *texts)
{
    size_t size = 1;
    hsize_t dim = (hsize_t)n;
    char *block;
    hid_t type, space, attribute;
    int status = 0;

    for (int i = 0; i < n; i++)
        if (strlen(texts[i]) + 1 > size)
            size = strlen(texts[i]) + 1;
    block = calloc((size_t)n, size);
    if (!block)
        return error_memory((size_t)n * size, "an attribute");
    for (int i = 0; i < n; i++)
        strcpy(block + (size_t)i * size, texts[i]);
    type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size);
    space = n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &dim, NULL);
    attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0 || H5Awrite(attribute, type, block) < 0)
        status = write_failed(path);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    free(block);
    return status;
}

static int labels_write(hid_t file, const char *path, const int32_t *label, size_t count)
{
    hsize_t dim = count;
    hid_t space = H5Screate_simple(1, &dim, NULL), dataset;
    int status = 0;

    dataset =
        H5Dcreate2(file, "label", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (dataset < 0 ||
        H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, label) < 0)
        status = write_failed(path);
    if (dataset >= 0 && H5Dclose(dataset) < 0 && status == 0)
        status = write_failed(path);
    H5Sclose(space);
    return status;
}

/* ---- the sink ---- */

static void hdf5_free(struct hdf5_sink *self)
{
    bytes_free(&self->block);
    free(self->label);
    free(self->sink.temp);
    free(self->sink.path);
    free(self);
}

/* With the lock held. */
static int file_close(struct hdf5_sink *self)
{
    int status = 0;

    if (self->data >= 0 && H5Dclose(self->data) < 0)
        status = write_failed(self->sink.temp);
    self->data = -1;
    if (self->file >= 0 && H5Fclose(self->file) < 0 && status == 0)
        status = write_failed(self->sink.temp);
    self->file = -1;
    return status;
}

static void hdf5_discard(struct sink *sink)
{
    struct hdf5_sink *self = (struct hdf5_sink *)sink;

    h5_lock();
    file_close(self);
    h5_unlock();
    if (sink->temp)
        unlink(sink->temp);
    hdf5_free(self);
}

/* With the lock held, at the first image: its shape is everyone's. */
static int h5_data_create(struct hdf5_sink *self, const struct shape *shape)
{
    hsize_t dim[4] = {self->o.count, (hsize_t)shape->dim[0], (hsize_t)shape->dim[1],
                      (hsize_t)shape->dim[2]};
    hsize_t most[4] = {H5S_UNLIMITED, dim[1], dim[2], dim[3]},
            chunk[4] = {1, dim[1], dim[2], dim[3]};
    bool grows = self->o.count == 0 || self->o.gzip;
    size_t bytes = shape_elems(shape);
    hid_t space, properties;
    int status = 0;

    self->shape = *shape;
    self->chunk = bytes < CHUNK_BYTES ? CHUNK_BYTES / bytes : 1;
    chunk[0] = self->chunk;
    space = H5Screate_simple(4, dim, grows ? most : NULL);
    properties = H5Pcreate(H5P_DATASET_CREATE);
    if (grows)
        H5Pset_chunk(properties, 4, chunk);
    if (self->o.gzip)
        H5Pset_deflate(properties, (unsigned)self->o.gzip);
    self->data =
        H5Dcreate2(self->file, "data", H5T_STD_U8LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    if (self->data < 0)
        status = write_failed(self->sink.temp);
    H5Pclose(properties);
    H5Sclose(space);
    return status;
}

/* With the lock held: the collected records. */
static int h5_block_write(struct hdf5_sink *self)
{
    size_t bytes = shape_elems(&self->shape), count = self->block.length / bytes;
    hsize_t start[4] = {self->written, 0, 0, 0};
    hsize_t size[4] = {count, (hsize_t)self->shape.dim[0], (hsize_t)self->shape.dim[1],
                       (hsize_t)self->shape.dim[2]};
    hsize_t dim[4] = {self->written + count, size[1], size[2], size[3]};
    hid_t to = -1, from = -1;
    int status = 0;

    if (count == 0)
        return 0;
    if ((dim[0] > self->o.count && H5Dset_extent(self->data, dim) < 0) ||
        (to = H5Dget_space(self->data)) < 0 || (from = H5Screate_simple(4, size, NULL)) < 0 ||
        H5Sselect_hyperslab(to, H5S_SELECT_SET, start, NULL, size, NULL) < 0 ||
        H5Dwrite(self->data, H5T_NATIVE_UINT8, from, to, H5P_DEFAULT, self->block.data) < 0)
        status = write_failed(self->sink.temp);
    if (from >= 0)
        H5Sclose(from);
    if (to >= 0)
        H5Sclose(to);
    self->written += count;
    self->block.length = 0;
    return status;
}

static int label_add(struct hdf5_sink *self, int label)
{
    int32_t *grown = alloc_room(self->label, self->sink.count, sizeof *grown, "labels");

    if (!grown)
        return -1;
    self->label = grown;
    self->label[self->sink.count] = label;
    return 0;
}

static int hdf5_add(struct sink *sink, const struct sample *sample)
{
    struct hdf5_sink *self = (struct hdf5_sink *)sink;
    const struct shape *shape = &sample->raw->shape;
    char found[256], expected[256];
    int status = 0;

    if (sink->count > 0 && !shape_equal(shape, &self->shape))
        return error_set(
            "shape %s, but the first image has %s; an HDF5 file holds images of one size "
            "(--resize makes them so)",
            shape_text(shape, found, sizeof found),
            shape_text(&self->shape, expected, sizeof expected));
    h5_lock();
    if (sink->count == 0)
        status = h5_data_create(self, shape);
    if (status == 0)
        status = label_add(self, sample->label);
    if (status == 0)
        status = bytes_append(&self->block, sample->raw->data, shape_elems(shape), "images");
    if (status == 0 && self->block.length >= self->chunk * shape_elems(shape))
        status = h5_block_write(self);
    h5_unlock();
    sink->count += status == 0;
    return status;
}

static int contents_finish(struct hdf5_sink *self)
{
    char *source = (char *)self->o.source;
    const char *path = self->sink.temp;

    if (h5_block_write(self) || labels_write(self->file, path, self->label, self->sink.count) ||
        texts_write(self->file, path, "source", 1, &source) ||
        (self->o.nclasses &&
         texts_write(self->file, path, "classes", self->o.nclasses, self->o.class_name)))
        return -1;
    return file_close(self);
}

static int hdf5_commit(struct sink *sink)
{
    struct hdf5_sink *self = (struct hdf5_sink *)sink;
    int status;

    h5_lock();
    status = contents_finish(self);
    h5_unlock();
    if (status == 0)
        status = file_commit(sink->temp, sink->path);
    if (status)
        hdf5_discard(sink);
    else
        hdf5_free(self);
    return status;
}

static const struct sink_i hdf5_i = {
    .add = hdf5_add,
    .commit = hdf5_commit,
    .discard = hdf5_discard,
};

int sink_create_hdf5(const char *path, const struct sink_options *o, struct sink **out)
{
    struct hdf5_sink *self = calloc(1, sizeof *self);

    *out = NULL;
    if (!self)
        return error_memory(sizeof *self, "an HDF5 file");
    self->sink.i = &hdf5_i;
    self->o = *o;
    self->file = self->data = -1;
    self->sink.path = strdup(path);
    self->sink.temp = self->sink.path ? file_temp_name(path) : NULL;
    if (!self->sink.temp) {
        hdf5_discard(&self->sink);
        return error_memory(strlen(path), "a path");
    }
    h5_lock();
    self->file = H5Fcreate(self->sink.temp, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (self->file < 0)
        write_failed(self->sink.temp);
    h5_unlock();
    if (self->file < 0) {
        hdf5_discard(&self->sink);
        return -1;
    }
    *out = &self->sink;
    return 0;
}
