/* The HDF5 sink: collects images until a chunk of about 1 MiB is full. Data sets grow chunk by
 * chunk. */
#include "convert/sink.h"

#include "util/error.h"
#include "util/file.h"
#include "spec/h5.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)1 << 20)

/* A data set of bytes, N x C x H x W. */
struct rows {
    struct h5_output output;
    size_t bytes;        /* bytes of a record */
    struct strbuf block; /* records not written yet */
};

struct hdf5_sink {
    struct sink sink;
    struct sink_options o;
    hid_t file; /* negative: the file is not open */
    struct rows data, pictures;
    struct shape shape;  /* shape of the first image */
    struct strbuf label; /* int32_t labels of all records without pictures of labels */
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

/* Creates a data set for records of this shape. */
static int rows_create(const struct hdf5_sink *self, const char *name, const struct shape *shape,
                       struct rows *rows)
{
    rows->bytes = shape_elems(shape);
    rows->output = (struct h5_output){
        .path = self->sink.temp,
        .name = name,
        .type = H5T_STD_U8LE,
        .naxes = 4,
        .dim = {0, (hsize_t)shape->dim[0], (hsize_t)shape->dim[1], (hsize_t)shape->dim[2]},
        .chunk = rows->bytes < CHUNK_BYTES ? CHUNK_BYTES / rows->bytes : 1,
        .gzip = self->o.gzip,
    };
    return h5_output_create(self->file, &rows->output);
}

/* Writes the collected records. */
static int rows_write(struct rows *rows)
{
    size_t length = rows->block.length;

    rows->block.length = 0;
    return length ? h5_output_write(&rows->output, rows->output.dim[0], length / rows->bytes,
                                    H5T_NATIVE_UINT8, rows->block.bytes)
                  : 0;
}

static int rows_add(const struct hdf5_sink *self, const char *name, const struct record *record,
                    struct rows *rows)
{
    if ((rows->output.id < 0 && rows_create(self, name, &record->shape, rows)) ||
        strbuf_add(&rows->block, record->data, rows->bytes, "images"))
        return -1;
    return rows->block.length >= rows->output.chunk * rows->bytes ? rows_write(rows) : 0;
}

/* ---- the sink ---- */

static int hdf5_add(struct sink *sink, const struct sample *sample)
{
    struct hdf5_sink *self = (struct hdf5_sink *)sink;
    const struct shape *shape = &sample->raw->shape;
    const int32_t label = sample->label;
    int status;

    if (sink->count == 0)
        self->shape = *shape;
    if (!shape_equal(shape, &self->shape))
        return error_set(
            "shape %s, but the first image has %s; an HDF5 file holds images of one size "
            "(--resize makes them so)",
            shape_text(shape).text, shape_text(&self->shape).text);
    h5_lock();
    status = sample->picture ? rows_add(self, "label", sample->picture, &self->pictures)
                             : strbuf_add(&self->label, &label, sizeof label, "labels");
    if (status == 0)
        status = rows_add(self, "data", sample->raw, &self->data);
    h5_unlock();
    sink->count += status == 0;
    return status;
}

/* Writes the rest of the contents. Called with HDF5's lock held. */
static int contents_finish(struct hdf5_sink *self)
{
    const char *path = self->sink.temp;

    return error_status(
        rows_write(&self->data) || rows_write(&self->pictures) ||
        (self->label.length &&
         labels_write(self->file, path, self->label.bytes, self->sink.count)) ||
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
    if (h5_output_close(&self->data.output))
        status = -1;
    if (h5_output_close(&self->pictures.output))
        status = -1;
    if (self->file >= 0 && H5Fclose(self->file) < 0 && !status)
        status = h5_write_failed(sink->temp);
    h5_unlock();
    if (!status)
        status = file_commit(sink->temp, sink->path);
    else if (sink->temp)
        unlink(sink->temp);
    strbuf_free(&self->data.block);
    strbuf_free(&self->pictures.block);
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
    self->file = self->data.output.id = self->pictures.output.id = -1;
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
