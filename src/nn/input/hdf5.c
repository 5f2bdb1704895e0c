/* HDF5 sources: the image file of a Data layer, and the list of files of an HDF5Data layer.
 *
 * Both are a list of files with the same data sets, read by hyperslab, one file open at a time. An
 * image file is a list of one. */
#include "input/source_internal.h"

#include "util/alloc.h"
#include "util/path.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "spec/h5.h"
#include "util/strbuf.h"
#include "util/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct part {
    char *path;            /* owned */
    uint64_t first, count; /* first record in the source; number of records */
};

struct hdf5_source {
    struct source source; /* must be first: struct source * is cast to struct hdf5_source * */
    bool images;          /* fields follow the Data layer's rules; false: HDF5Data's */
    int nparts;
    struct part *part;
    int open;       /* index of the open part, -1 for none */
    bool scattered; /* the part is open for reading in a random order */
    hid_t file;
    struct h5_dataset dataset[SOURCE_MAX_FIELDS];
};

static struct hdf5_source *self_of(struct source *source)
{
    return (struct hdf5_source *)source;
}

static void part_close(struct hdf5_source *self)
{
    if (self->open < 0)
        return;
    for (int f = 0; f < self->source.nfields; f++)
        h5_dataset_close(&self->dataset[f]);
    H5Fclose(self->file);
    self->open = -1;
}

/* Sets type and shape of field f from its data set. */
static int field_describe(const struct hdf5_source *self, int f, struct source_field *out)
{
    const struct h5_dataset *d = &self->dataset[f];
    char text[256], what[1200];
    int64_t dim[SHAPE_MAX_AXES];
    bool label = self->images && f == 1;

    h5_shape_text(d, text, sizeof text);
    if (d->naxes < 1)
        return error_set("%s: data set '%s' is a scalar; expected one entry per record", d->path,
                         d->name);
    if (self->images && f == 0 && d->naxes != 4)
        return error_set("%s: data set '%s' has shape %s; expected 4 axes, N x C x H x W", d->path,
                         d->name, text);
    if (d->naxes > SHAPE_MAX_AXES)
        return error_set("%s: data set '%s' has %d axes; at most %d are possible", d->path, d->name,
                         d->naxes, SHAPE_MAX_AXES);
    if (d->dim[0] == 0)
        return error_set("%s: data set '%s' has no records (shape %s)", d->path, d->name, text);
    snprintf(what, sizeof what, "%s: data set '%s'", d->path, d->name);
    for (int i = 1; i < d->naxes; i++)
        dim[i - 1] = d->dim[i] > INT64_MAX ? INT64_MAX : (int64_t)d->dim[i];
    if (shape_set(&out->shape, d->naxes - 1, dim, what))
        return -1;
    if (shape_elems(&out->shape) == 0)
        return error_set("%s: data set '%s' has empty records (shape %s)", d->path, d->name, text);
    if (label && shape_elems(&out->shape) != 1)
        return error_set("%s: data set '%s' has shape %s; expected one label per record, %llu "
                         "(HDF5Data reads others)",
                         d->path, d->name, text, (unsigned long long)d->dim[0]);
    if (label)
        out->shape.naxes = 0;
    out->type = self->images && f == 0 && d->is_u8 ? SOURCE_U8 : SOURCE_F32;
    return 0;
}

static int field_same(const struct hdf5_source *self, int f, const struct source_field *now)
{
    const struct source_field *field = &self->source.field[f];

    if (shape_equal(&field->shape, &now->shape))
        return 0;
    return error_set("%s: records of data set '%s' have shape %s, but %s in %s",
                     self->dataset[f].path, field->name, shape_text(&now->shape).text,
                     shape_text(&field->shape).text, self->part[0].path);
}

/* Opens part p. The first part sets the shapes; other parts must agree with it. */
static int part_open(struct hdf5_source *self, int p)
{
    struct source *source = &self->source;
    const char *path = self->part[p].path;
    hid_t file;

    if (self->open == p && self->scattered == source->scattered)
        return 0;
    part_close(self);
    self->scattered = source->scattered;
    if (h5_file_open(path, &file))
        return -1;
    for (int f = 0; f < source->nfields; f++)
        self->dataset[f].id = -1;
    self->file = file;
    self->open = p;
    for (int f = 0; f < source->nfields; f++) {
        struct source_field now = source->field[f];
        const struct h5_dataset *d = &self->dataset[f], *d0 = &self->dataset[0];

        if (h5_dataset_open(file, path, source->field[f].name, &self->dataset[f]) ||
            (self->scattered && h5_dataset_scatter(file, &self->dataset[f])) ||
            field_describe(self, f, &now))
            goto fail;
        if (d->dim[0] != d0->dim[0]) {
            error_set("%s: data set '%s' has %llu records, but '%s' has %llu", path, d0->name,
                      (unsigned long long)d0->dim[0], d->name, (unsigned long long)d->dim[0]);
            goto fail;
        }
        if (self->part[p].count == 0 && p == 0)
            source->field[f] = now;
        else if (field_same(self, f, &now))
            goto fail;
    }
    if (self->part[p].count != 0 && self->part[p].count != self->dataset[0].dim[0]) {
        error_set("%s: had %llu records when first opened, and has %llu now", path,
                  (unsigned long long)self->part[p].count,
                  (unsigned long long)self->dataset[0].dim[0]);
        goto fail;
    }
    return 0;

fail:
    part_close(self);
    return -1;
}

/* Returns the part that holds record r. */
static int part_find(const struct hdf5_source *self, uint64_t r)
{
    int low = 0, high = self->nparts - 1;

    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (self->part[middle].first <= r)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int read_locked(struct hdf5_source *self, uint64_t first, uint64_t count, void *const *out)
{
    uint64_t done = 0;

    while (done < count) {
        int p = part_find(self, first + done);
        const struct part *part = &self->part[p];
        uint64_t from = first + done - part->first, n = part->count - from;

        if (n > count - done)
            n = count - done;
        if (part_open(self, p))
            return -1;
        for (int f = 0; f < self->source.nfields; f++) {
            const struct source_field *field = &self->source.field[f];
            if (!out[f])
                continue;
            if (h5_dataset_read(&self->dataset[f], from, n,
                                field->type == SOURCE_U8 ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT,
                                (char *)out[f] + done * source_field_bytes(field)))
                return -1;
        }
        done += n;
    }
    return 0;
}

static int hdf5_read(struct source *source, uint64_t first, uint64_t count, void *const *out)
{
    int status;

    if (count > source->nrecords || first > source->nrecords - count)
        return error_set("%s: records %llu..%llu asked for; it has %llu", source->path,
                         (unsigned long long)first, (unsigned long long)(first + count) - 1,
                         (unsigned long long)source->nrecords);
    h5_lock();
    status = read_locked(self_of(source), first, count, out);
    h5_unlock();
    return status;
}

static void hdf5_expect(struct source *source, uint64_t first, uint64_t count)
{
    struct hdf5_source *self = self_of(source);
    const struct part *part = &self->part[part_find(self, first)];

    h5_lock();
    if (self->open >= 0 && part == &self->part[self->open] &&
        first + count <= part->first + part->count)
        h5_dataset_expect(&self->dataset[0], first - part->first, count);
    h5_unlock();
}

static void hdf5_close(struct source *source)
{
    struct hdf5_source *self = self_of(source);

    h5_lock();
    part_close(self);
    h5_unlock();
    for (int p = 0; p < self->nparts; p++)
        free(self->part[p].path);
    free(self->part);
    source_release(source);
    free(self);
}

static const struct source_i hdf5_source_i = {
    .name = "hdf5",
    .close = hdf5_close,
    .read = hdf5_read,
    .expect = hdf5_expect,
};

static struct hdf5_source *self_create(const char *path, int nnames, const char *const *names,
                                       bool images)
{
    struct hdf5_source *self = source_create(sizeof *self, &hdf5_source_i, path);

    if (!self)
        return NULL;
    self->images = images;
    self->open = -1;
    for (int f = 0; f < nnames; f++)
        if (source_add_field(&self->source, names[f])) {
            hdf5_close(&self->source);
            return NULL;
        }
    return self;
}

/* Takes ownership of path. */
static int part_add(struct hdf5_source *self, char *path)
{
    if (!path || ALLOC_ROOM(self->part, self->nparts, "the list of HDF5 files")) {
        free(path);
        return -1;
    }
    self->part[self->nparts++] = (struct part){.path = path};
    return 0;
}

/* Opens every part once, for its shapes, its count, and the number of its first record. */
static int parts_scan(struct hdf5_source *self)
{
    uint64_t total = 0;
    int status = 0;

    h5_lock();
    for (int p = 0; p < self->nparts && status == 0; p++) {
        status = part_open(self, p);
        if (status == 0) {
            self->part[p].first = total;
            self->part[p].count = self->dataset[0].dim[0];
            total += self->part[p].count;
        }
    }
    h5_unlock();
    for (int p = 0; p < self->nparts && status == 0; p++)
        status = watch_add(&self->source.watch, self->part[p].path);
    self->source.nrecords = total;
    return status;
}

int source_open_hdf5_images(const char *path, bool with_labels, struct source **out)
{
    static const char *const names[] = {"data", "label"};
    struct hdf5_source *self;

    *out = NULL;
    self = self_create(path, with_labels ? 2 : 1, names, true);
    if (!self)
        return -1;
    if (part_add(self, path_beside(path, NULL)) || parts_scan(self)) {
        hdf5_close(&self->source);
        return -1;
    }
    *out = &self->source;
    return 0;
}

/* Loads the list file; the caller frees the text, also on failure. */
static int list_load(const char *list, struct strbuf *out)
{
    if (file_load(out, list, SIZE_MAX))
        return error_context("the list of HDF5 files");
    return strlen(strbuf_text(out)) == out->length
               ? 0
               : error_set("%s: not a text file (a zero byte at offset %zu); HDF5Data expects a "
                           "text file that lists HDF5 files",
                           list, strlen(out->data));
}

static int list_parse(struct hdf5_source *self, const char *list, char *text)
{
    int line = 1;

    for (char *at = text + utf8_mark(text); *at;) {
        char *end = at, *path;
        bool found;

        if (isspace((unsigned char)*at)) {
            line += *at++ == '\n';
            continue;
        }
        while (*end && !isspace((unsigned char)*end))
            end++;
        char after = *end;
        *end = '\0';
        path = path_find(at, list, &found);
        if (path && !found) {
            error_set("%s:%d: '%s' cannot be found, neither as given nor beside the list (%s)",
                      list, line, at, strerror(errno));
            free(path);
            return -1;
        }
        if (part_add(self, path))
            return -1;
        *end = after;
        at = end;
    }
    if (self->nparts == 0)
        return error_set("%s: lists no files; expected names of HDF5 files", list);
    return 0;
}

int source_open_hdf5_list(const char *list, int nnames, const char *const *names,
                          struct source **out)
{
    struct hdf5_source *self;
    struct strbuf text = {0};
    int status;

    *out = NULL;
    if (nnames < 1 || nnames > SOURCE_MAX_FIELDS)
        return error_set("%s: %d data sets asked for; expected 1 to %d", list, nnames,
                         SOURCE_MAX_FIELDS);
    self = self_create(list, nnames, names, false);
    if (!self)
        return -1;
    status = error_status(list_load(list, &text) || list_parse(self, list, text.data));
    if (status)
        file_kind_error(list, "a list of HDF5 files");
    else if (parts_scan(self))
        status = error_context("%s", list);
    strbuf_free(&text);
    if (status)
        hdf5_close(&self->source);
    else
        *out = &self->source;
    return status;
}
