/* Functions that source.c and the files of single kinds (HDF5, data base, image list) share. */
#ifndef POSEIDON_INPUT_SOURCE_INTERNAL_H
#define POSEIDON_INPUT_SOURCE_INTERNAL_H

#include "input/format/kv.h"
#include "input/source.h"

/* See source_open_images. */
int source_open_hdf5_images(const char *path, bool with_labels, struct source **out);

/* Opens a data base as a source. Takes ownership of kv, also on failure. */
int source_open_database(struct kv *kv, bool with_labels, enum image_color color,
                         struct source **out);

/* Allocates a kind's own struct of `bytes` bytes, zeroed, whose first member is a struct source,
 * and sets its table and path. Returns NULL with a message on failure. */
void *source_create(size_t bytes, const struct source_i *i, const char *path);

/* Adds a field called `name`; shape and type are the caller's to set. */
int source_add_field(struct source *source, const char *name);

/* Ends the opening of a source of single records; `status` is the result so far. Adds fields 0
 * "data" and, if with_labels, 1 "label", like the first record's. Closes the source on failure. */
int source_open_records(struct source *source, int status, bool with_labels, struct source **out);

/* Returns the bytes that a field takes in one record. */
size_t source_field_bytes(const struct source_field *field);

/* Frees what all kinds of sources have: field names, watched files, class names, path. */
void source_release(struct source *source);

#endif
