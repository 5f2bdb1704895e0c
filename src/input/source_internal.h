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

/* Fields 0 "data" and, where with_labels, 1 "label", from what the first record is like. */
int source_describe_images(struct source *source, bool with_labels, const struct record *first);

/* Frees what all kinds of sources have: names, files that are watched, path. */
void source_release(struct source *source);

/* Puts a decoded image into record->planes and describes it. */
int record_from_image(struct record *record, const struct image *image);

#endif
