/* Opens a path by its kind of source, and holds what all kinds of sources share. */
#include "input/source_internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/sha256.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void record_free(struct record *record)
{
    strbuf_free(&record->file);
    strbuf_free(&record->planes);
    strbuf_free(&record->cut);
    strbuf_free(&record->label_file);
    image_free(&record->decoded);
    image_free(&record->resized);
    image_free(&record->label_decoded);
    *record = (struct record){0};
}

int record_set_image(struct record *record, const struct image *image, int height, int width)
{
    const int64_t dim[3] = {image->channels, height ? height : image->height,
                            width ? width : image->width};

    record->type = SOURCE_U8;
    record->image = image;
    record->data = image->pixels.bytes;
    return shape_set(&record->shape, 3, dim, "an image");
}

int record_check_labels(const struct record *record, const char *name)
{
    const struct image *image = &record->decoded, *labels = &record->label_decoded;

    if (labels->height == image->height && labels->width == image->width)
        return 0;
    return error_set("a picture of labels of %d x %d (height x width), but its image %s is "
                     "%d x %d; expected one size",
                     labels->height, labels->width, name, image->height, image->width);
}

int record_to_planes(struct record *record)
{
    const struct image *image = record->image;
    const int height = (int)record->shape.dim[1], width = (int)record->shape.dim[2];

    if (!image)
        return 0;
    if (image->height != height || image->width != width) {
        if (image_resize(image, height, width, &record->resized))
            return -1;
        image = &record->resized;
    }
    if (strbuf_reserve(&record->planes, image->pixels.length, "an image"))
        return -1;
    image_to_planes(image, record->planes.bytes);
    record->data = record->planes.bytes;
    record->image = NULL;
    return 0;
}

void source_release(struct source *source)
{
    for (int f = 0; f < source->nfields; f++)
        free(source->field[f].name);
    watch_free(&source->watch);
    class_names_free(&source->folders);
    free(source->path);
}

void *source_create(size_t bytes, const struct source_i *i, const char *path)
{
    struct source *source = alloc_array(1, bytes, "a source");

    if (!source)
        return NULL;
    source->i = i;
    if (!alloc_text(&source->path, path, "a path"))
        return source;
    free(source);
    return NULL;
}

int source_add_field(struct source *source, const char *name)
{
    return alloc_text(&source->field[source->nfields++].name, name, "a field's name");
}

int source_open_records(struct source *source, int status, bool with_labels, struct source **out)
{
    struct record first = {.label = 0};

    if (!status)
        status = source_read_record(source, 0, &first);
    if (!status)
        status = source_add_field(source, "data");
    if (!status && with_labels)
        status = source_add_field(source, "label");
    source->field[0].shape = first.shape;
    source->field[0].type = first.type;
    source->remark =
        image_label_remark(&first.decoded, (int)first.shape.dim[1], (int)first.shape.dim[2]);
    source->field[1].type = SOURCE_F32;
    record_free(&first);
    if (status)
        source_close(source);
    else
        *out = source;
    return status;
}

size_t source_field_bytes(const struct source_field *field)
{
    return shape_elems(&field->shape) * (field->type == SOURCE_U8 ? 1 : sizeof(float));
}

int source_open_images(const char *path, bool with_labels, enum image_color color,
                       struct source **out)
{
    struct kv *kv;

    *out = NULL;
    if (kv_open(path, &kv))
        return -1;
    return kv ? source_open_database(kv, with_labels, color, out)
              : source_open_hdf5_images(path, with_labels, out);
}

void source_floats(const void *data, enum source_type type, size_t n, float *out)
{
    const uint8_t *bytes = data;

    if (type == SOURCE_F32)
        memcpy(out, data, n * sizeof *out);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = (float)bytes[i];
}

int source_read_record(struct source *source, uint64_t n, struct record *out)
{
    const struct source_field *field = &source->field[0];
    void *fields[SOURCE_MAX_FIELDS] = {NULL};

    if (source->i->read_record)
        return error_status(source->i->read_record(source, n, out) || record_to_planes(out) ||
                            (source->i->check && source->i->check(source)));
    if (strbuf_reserve(&out->planes, source_field_bytes(field), "a record"))
        return -1;
    fields[0] = out->planes.bytes;
    if (source->nfields > 1)
        fields[1] = &out->label;
    out->shape = field->shape;
    out->type = field->type;
    out->data = out->planes.bytes;
    out->image = NULL;
    return source->i->read(source, n, 1, fields);
}

/* Hashes every field of record n of a block source. */
static int mark_fields(struct source *source, uint64_t n, struct sha256 *hash)
{
    void *fields[SOURCE_MAX_FIELDS] = {NULL};
    size_t bytes[SOURCE_MAX_FIELDS];
    int status = 0;

    for (int f = 0; f < source->nfields && !status; f++) {
        bytes[f] = source_field_bytes(&source->field[f]);
        fields[f] = malloc(bytes[f] + 1);
        status = fields[f] ? 0 : error_memory(bytes[f], "a record");
    }
    if (!status)
        status = source->i->read(source, n, 1, fields);
    for (int f = 0; f < source->nfields; f++) {
        if (!status)
            sha256_update(hash, fields[f], bytes[f]);
        free(fields[f]);
    }
    return status;
}

static int mark_record(struct source *source, uint64_t n, unsigned char digest[32])
{
    struct record record = {0};
    struct sha256 hash;
    int status;

    sha256_init(&hash);
    if (source->i->read_record) {
        status = source->i->read_record(source, n, &record);
        if (!status || record.damaged) { /* hashed as stored; later reading reports damage */
            status = 0;
            sha256_update(&hash, record.file.bytes, record.file.length);
            sha256_update(&hash, record.label_file.bytes, record.label_file.length);
            sha256_update(&hash, record_labels(&record),
                          record.labels ? source_field_bytes(&source->field[1])
                                        : sizeof record.label);
        }
        record_free(&record);
    } else {
        status = mark_fields(source, n, &hash);
    }
    sha256_final(&hash, digest);
    return status;
}

int source_read_mark(struct source *source, struct source_mark *out)
{
    assert(source->nrecords > 0);
    out->nrecords = source->nrecords;
    return error_status(mark_record(source, 0, out->first) ||
                        mark_record(source, source->nrecords - 1, out->last) ||
                        (source->i->check && source->i->check(source)));
}

static bool is_labelled(const struct source *source)
{
    return source->nfields > 1 && shape_elems(&source->field[1].shape) == 1 &&
           source->field[1].type == SOURCE_F32;
}

static void note_labels(struct source_survey *out, const float *labels, uint64_t count)
{
    for (uint64_t i = 0; out->labelled && i < count; i++) {
        if (out->nread == 0)
            out->least = out->most = labels[i];
        out->least = labels[i] < out->least ? labels[i] : out->least;
        out->most = labels[i] > out->most ? labels[i] : out->most;
        out->fraction |= labels[i] != floorf(labels[i]);
        out->last = labels[i];
        if (out->nread++ == 0)
            out->first = labels[i];
    }
}

/* Reads all labels of a block source, where labels are contiguous, STRETCH at a time. */
static int look_through_blocks(struct source *source, struct source_survey *out)
{
    enum { STRETCH = 4096 };
    float labels[STRETCH];
    void *fields[SOURCE_MAX_FIELDS] = {NULL, labels};

    for (uint64_t n = 0; n < source->nrecords; n += STRETCH) {
        uint64_t count = source->nrecords - n < STRETCH ? source->nrecords - n : STRETCH;
        if (source->i->read(source, n, count, fields))
            return -1;
        note_labels(out, labels, count);
    }
    return 0;
}

enum { RUN = 64 };

static int read_label(struct source *source, uint64_t number, float *out)
{
    void *fields[SOURCE_MAX_FIELDS] = {NULL, out};

    return source->i->read_label ? source->i->read_label(source, number, out)
           : source->i->read     ? source->i->read(source, number, 1, fields)
                                 : -1;
}

bool source_is_sorted(struct source *source, int *nrecords, int *nlabels)
{
    int n = source->nrecords < 2 * RUN ? (int)source->nrecords / 2 : RUN, pairs = 0, differ = 0;
    float label[2 * RUN]; /* labels of the first n records and of n spread ones */

    if (n < RUN / 2 || !is_labelled(source))
        return false;
    *nrecords = n;
    *nlabels = 1;
    for (int i = 0; i < 2 * n; i++)
        if (read_label(source,
                       i < n ? (uint64_t)i : source->nrecords / (uint64_t)n * (uint64_t)(i - n),
                       &label[i]))
            return false;
    for (int i = 0; i < n; i++) {
        *nlabels += i > 0 && label[i] != label[i - 1];
        for (int j = 0; j < i; j++, pairs++)
            differ += label[n + i] != label[n + j];
    }
    /* In a random order, neighbours differ as often as any two records. */
    return 5 * differ >= 2 * pairs && 5.0 * (*nlabels - 1) * pairs < (double)differ * (n - 1);
}

static int look_at(struct source *source, uint64_t n, struct record *record,
                   struct source_survey *out)
{
    if (source_read_record(source, n, record))
        return -1;
    note_labels(out, &record->label, 1);
    return 0;
}

/* Surveys each 4,096th record, then those halfway between, ..., until time is up; then the last. */
static int look_through_records(struct source *source, double seconds, struct source_survey *out)
{
    enum { WIDEST = 4096 };
    double end = clock_seconds() + seconds;
    uint64_t last = source->nrecords - 1;
    struct record record = {0};
    int status = last > 0 ? look_at(source, 0, &record, out) : 0;

    for (uint64_t step = WIDEST; step >= 1; step /= 2)
        for (uint64_t n = step; n < last && !status && clock_seconds() < end;
             n += step == WIDEST ? step : 2 * step)
            status = look_at(source, n, &record, out);
    if (!status)
        status = look_at(source, last, &record, out);
    record_free(&record);
    return status;
}

int source_look(struct source *source, double seconds, struct source_survey *out)
{
    struct sha256 hash; /* hash of records that are only read to test that they can be read */

    *out = (struct source_survey){.path = source->path,
                                  .nrecords = source->nrecords,
                                  .shape = source->field[0].shape,
                                  .type = source->field[0].type,
                                  .labelled = is_labelled(source)};
    if (source->i->read_record)
        return look_through_records(source, seconds, out);
    sha256_init(&hash);
    for (uint64_t part = 0; part <= 2; part++)
        if (mark_fields(source, (source->nrecords - 1) / 2 * part, &hash))
            return -1;
    return out->labelled ? look_through_blocks(source, out) : 0;
}
