/* Caffe's Datum message: one labelled image, raw bytes, floats, or an image file in itself. */
#ifndef POSEIDON_INPUT_FORMAT_DATUM_H
#define POSEIDON_INPUT_FORMAT_DATUM_H

#include "input/source.h"

/* Reads a serialised Datum: `data` if it is not empty, else `float_data`; encoded images are
 * decoded to `color` (force_color, force_gray), raw ones are as they are: out->data are then bytes
 * of the message, which must outlive them. Errors do not name the record. */
int datum_read(const void *bytes, size_t length, enum image_color color, struct record *out);

/* The label alone. */
int datum_read_label(const void *bytes, size_t length, float *label);

/* Appends a serialised Datum of raw bytes or floats, C x H x W; record->label is not looked at.
 * Floats are features, which have no label: as extract_features writes them. */
int datum_write_raw(const struct record *record, int label, struct strbuf *out);

/* Appends a serialised Datum that holds an image file. */
int datum_write_encoded(const void *file, size_t length, int label, struct strbuf *out);

#endif
