/* The HDF5 sink: collects images until a chunk of about 1 MiB is full. If the number of images is
 * unknown, the data set grows chunk by chunk. */
#include "convert/sink.h"

#include "util/error.h"
#include "util/file.h"
#include "spec/h5.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)1 << 20)

struct hdf5_sink {
    struct sink sink;
    struct sink_options o;
    hid_t file; /* negative: the file is not open */
    struct h5_output data;
    struct shape shape;  /* shape of the first image */
    size_t chunk;        /* records per chunk */
    struct strbuf block; /* records not written yet */
    uint64_t written;
    struct strbuf label; /* int32_t labels of all records */
};

/* ---- pieces of the file, with HDF5's lock held ---- */

static int labels_write(hid_t file, const char *path, const void *label, size_t count)
{
    struct h5_output o = {
        .path = path, .name = "label", .type = H5T_STD_I32LE, .naxes = 1, .dim = {count}};
    int status = h5_output_create(file, &o);

    if (!status)
        status = h5_output_write(&o, 0, count, H5T_NATIVE_INT32, label);
    return h5_output_close(&o) ? -1 : status;
}

/* ---- the sink ---- */

/* Creates the data set for images of the first image's shape. Called with HDF5's lock held. */
static int h5_data_create(struct hdf5_sink *self, const struct shape *shape)
{
    size_t bytes = shape_elems(shape);

    self->shape = *shape;
    self->chunk = bytes < CHUNK_BYTES ? CHUNK_BYTES / bytes : 1;
    self->data = (struct h5_output){
        .path = self->sink.temp,
        .name = "data",
        .type = H5T_STD_U8LE,
        .naxes = 4,
        .dim = {self->o.count, (hsize_t)shape->dim[0], (hsize_t)shape->dim[1],
                (hsize_t)shape->dim[2]},
        .chunk = self->o.count == 0 || self->o.gzip ? self->chunk : 0,
        .gzip = self->o.gzip,
    };
    return h5_output_create(self->file, &self->data);
}

/* Writes the collected records. Called with HDF5's lock held. */
static int h5_block_write(struct hdf5_sink *self)
{
    size_t count = self->block.length ? self->block.length / shape_elems(&self->shape) : 0;
    int status = 0;

    if (count)
        status =
            h5_output_write(&self->data, self->written, count, H5T_NATIVE_UINT8, self->block.bytes);
    self->written += count;
    self->block.length = 0;
    return status;
}

static int hdf5_add(struct sink *sink, const struct sample *sample)
{
    struct hdf5_sink *self = (struct hdf5_sink *)sink;
    const struct shape *shape = &sample->raw->shape;
    const int32_t label = sample->label;
    int status = 0;

    if (sink->count > 0 && !shape_equal(shape, &self->shape))
        return error_set(
            "shape %s, but the first image has %s; an HDF5 file holds images of one size "
            "(--resize makes them so)",
            shape_text(shape).text, shape_text(&self->shape).text);
    h5_lock();
    if (sink->count == 0)
        status = h5_data_create(self, shape);
    if (status == 0)
        status = strbuf_add(&self->label, &label, sizeof label, "labels");
    if (status == 0)
        status = strbuf_add(&self->block, sample->raw->data, shape_elems(shape), "images");
    if (status == 0 && self->block.length >= self->chunk * shape_elems(shape))
        status = h5_block_write(self);
    h5_unlock();
    sink->count += status == 0;
    return status;
}

/* Writes the rest of the contents. Called with HDF5's lock held. */
static int contents_finish(struct hdf5_sink *self)
{
    const char *path = self->sink.temp;

    return error_status(
        h5_block_write(self) ||
        labels_write(self->file, path, self->label.bytes, self->sink.count) ||
        h5_attribute_write_texts(self->file, path, "source", 1, &self->o.source) ||
        (self->o.nclasses && h5_attribute_write_texts(self->file, path, "classes", self->o.nclasses,
                                                      (const char *const *)self->o.class_name)));
}

static int hdf5_close(struct sink *sink, int status)
{
    struct hdf5_sink *self = (struct hdf5_sink *)sink;

    h5_lock();
    if (!status)
        status = contents_finish(self);
    if (h5_output_close(&self->data))
        status = -1;
    if (self->file >= 0 && H5Fclose(self->file) < 0 && !status)
        status = h5_write_failed(sink->temp);
    h5_unlock();
    if (!status)
        status = file_commit(sink->temp, sink->path);
    else if (sink->temp)
        unlink(sink->temp);
    strbuf_free(&self->block);
    strbuf_free(&self->label);
    free(sink->temp);
    free(sink->path);
    free(self);
    return status;
}

static const struct sink_i hdf5_i = {.add = hdf5_add, .close = hdf5_close};

int sink_create_hdf5(const char *path, const struct sink_options *o, struct sink **out)
{
    struct hdf5_sink *self = calloc(1, sizeof *self);

    *out = NULL;
    if (!self)
        return error_memory(sizeof *self, "an HDF5 file");
    self->sink.i = &hdf5_i;
    self->o = *o;
    self->file = self->data.id = -1;
    self->sink.path = strdup(path);
    self->sink.temp = self->sink.path ? file_temp_name(path) : NULL;
    if (!self->sink.temp)
        return hdf5_close(&self->sink, error_memory(strlen(path), "a path"));
    h5_lock();
    self->file = H5Fcreate(self->sink.temp, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (self->file < 0)
        h5_write_failed(self->sink.temp);
    h5_unlock();
    if (self->file < 0)
        return hdf5_close(&self->sink, -1);
    *out = &self->sink;
    return 0;
}
