/* A source of Datum messages in an LMDB or LevelDB. */
#include "input/source_internal.h"

#include "input/format/datum.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

struct database {
    struct source source;
    struct kv *kv; /* owned */
    enum image_color color;
};

/* Puts "PATH: record N (key 'KEY'): " before the error message. */
static int record_error(struct database *self, uint64_t number)
{
    struct strbuf key = {0};
    char text[80] = "", message[1024];
    size_t n = 0;

    /* Reading the key may replace the message, so keep a copy. */
    strncpy(message, error_text(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    if (self->kv->i->read(self->kv, number, true, &key) == 0)
        for (; n < key.length && n + 1 < sizeof text; n++)
            text[n] = (char)(key.bytes[n] >= ' ' && key.bytes[n] < 127 ? key.bytes[n] : '?');
    text[n] = '\0';
    strbuf_free(&key);
    return error_set("%s: record %llu (key '%s'): %s", self->source.path,
                     (unsigned long long)number, text, message);
}

static int database_read(struct source *source, uint64_t number, struct record *out)
{
    struct database *self = (struct database *)source;

    if (number >= source->nrecords)
        return error_set("%s: record %llu asked for; it has %llu", source->path,
                         (unsigned long long)number, (unsigned long long)source->nrecords);
    out->damaged = false;
    if (self->kv->i->read(self->kv, number, false, &out->file))
        return -1;
    if (datum_read(out->file.bytes, out->file.length, self->color, out)) {
        record_error(self, number);
        out->damaged = !(source->i->check && source->i->check(source));
        return -1;
    }
    return 0;
}

static int database_check(struct source *source)
{
    struct kv *kv = ((struct database *)source)->kv;

    return kv->i->check(kv);
}

static int database_read_label(struct source *source, uint64_t number, float *label)
{
    struct kv *kv = ((struct database *)source)->kv;
    struct strbuf datum = {0};
    int status =
        error_status(kv->i->read(kv, number, false, &datum) || (kv->i->check && kv->i->check(kv)) ||
                     datum_read_label(datum.bytes, datum.length, label));

    strbuf_free(&datum);
    return status;
}

static void database_expect(struct source *source, uint64_t first, uint64_t count)
{
    struct kv *kv = ((struct database *)source)->kv;

    kv->i->expect(kv, first, count);
}

static void database_close(struct source *source)
{
    struct database *self = (struct database *)source;

    source_release(source);
    kv_close(self->kv);
    free(self);
}

#define DATABASE_SLOTS                                                                             \
    .close = database_close, .read_record = database_read, .read_label = database_read_label

static const struct source_i lmdb_i = {
    .name = "lmdb", DATABASE_SLOTS, .check = database_check, .expect = database_expect};
static const struct source_i leveldb_i = {.name = "leveldb", DATABASE_SLOTS};

int source_open_database(struct kv *kv, bool with_labels, enum image_color color,
                         struct source **out)
{
    bool lmdb = strcmp(kv->i->name, "LMDB") == 0;
    struct database *self = source_create(sizeof *self, lmdb ? &lmdb_i : &leveldb_i, kv->path);

    *out = NULL;
    if (!self) {
        kv_close(kv);
        return -1;
    }
    self->source.nrecords = kv->count;
    self->kv = kv;
    self->color = color;
    /* no watch on LevelDB, whose files are replaced in normal use */
    return source_open_records(&self->source, lmdb ? watch_add(&self->source.watch, kv->path) : 0,
                               with_labels, out);
}
