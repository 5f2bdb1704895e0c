/* What source.c asks of the files that know one kind of source each. */
#ifndef POSEIDON_INPUT_SOURCE_INTERNAL_H
#define POSEIDON_INPUT_SOURCE_INTERNAL_H

#include "input/format/kv.h"
#include "input/source.h"

/* See source_open_images. */
int source_open_hdf5_images(const char *path, bool with_labels, struct source **out);

/* Takes ownership of kv, also when it fails. */
int source_open_database(struct kv *kv, bool with_labels, enum image_color color,
                         struct source **out);

/* Memory for a kind's own struct of that size, all zero, which begins with a struct source of that
 * table and path. NULL with a message. */
void *source_create(size_t bytes, const struct source_i *i, const char *path);

/* One field more, of that name. */
int source_add_field(struct source *source, const char *name);

/* The end of opening a source of single records, which came to `status`: fields 0 "data" and, where
 * with_labels, 1 "label", from what the first record is like. Closes it where anything failed. */
int source_open_records(struct source *source, int status, bool with_labels, struct source **out);

/* Bytes of one record's field. */
size_t source_field_bytes(const struct source_field *field);

/* Frees what all kinds of sources have: names, files that are watched, path. */
void source_release(struct source *source);

#endif
