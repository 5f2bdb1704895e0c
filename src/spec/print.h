/* Prints protobuf-c messages as JSON, and as text that text_read_string and protoc read back to the
 * same message, bit for bit (but for the payload of a NaN). Only fields that are set are printed.
 */
#ifndef POSEIDON_SPEC_PRINT_H
#define POSEIDON_SPEC_PRINT_H

#include "util/json.h"
#include "util/strbuf.h"

#include <protobuf-c/protobuf-c.h>

/* Appends the fields of the message, one a line, indented by two spaces for each level. Lack of
 * memory is remembered by `out`. */
void print_message(struct strbuf *out, const ProtobufCMessage *message);

/* Appends one value (field.h) of a field that holds no messages, as print_message shows it: numbers
 * in their shortest form that reads back as this value. */
void print_value(struct strbuf *out, const ProtobufCFieldDescriptor *field, const void *value);

/* Writes each message that `message` holds in a field of its own, not in a list, as a member of the
 * JSON object that is open: of a layer its settings, such as convolution_param. Infinities and NaN
 * become null. There must be no field of bytes. */
void print_json_parts(struct json *json, const ProtobufCMessage *message);

#endif
