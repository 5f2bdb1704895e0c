/* Caffe's Datum message: one labelled image as raw bytes, as floats, or as an image file. */
#ifndef POSEIDON_INPUT_FORMAT_DATUM_H
#define POSEIDON_INPUT_FORMAT_DATUM_H

#include "input/source.h"

/* Reads a serialised Datum: `data` unless empty, else `float_data`. Encoded images are decoded to
 * `color` (force_color, force_gray). Raw images keep their channels, and out->data points into the
 * message, which must outlive it. Messages do not name the record. */
int datum_read(const void *bytes, size_t length, enum image_color color, struct record *out);

/* Reads the label of a serialised Datum without decoding its image. */
int datum_read_label(const void *bytes, size_t length, float *label);

/* Appends a serialised Datum of raw bytes or floats, C x H x W, with `label`; record->label is
 * ignored. Floats are features, written without a label, like extract_features does. */
int datum_write_raw(const struct record *record, int label, struct strbuf *out);

/* Appends a serialised Datum that holds an image file. */
int datum_write_encoded(const void *file, size_t length, int label, struct strbuf *out);

#endif
