/* Prints protobuf-c messages as JSON and as text. text_read_string and protoc read the text back to
 * the same message, bit for bit (except a NaN's payload). Only fields that are set are printed. */
#ifndef POSEIDON_SPEC_PRINT_H
#define POSEIDON_SPEC_PRINT_H

#include "util/json.h"
#include "util/strbuf.h"

#include <protobuf-c/protobuf-c.h>

/* Appends the message's fields, one a line, indented by two spaces a level. `out` remembers a lack
 * of memory. */
void print_message(struct strbuf *out, const ProtobufCMessage *message);

/* Appends one value (field.h) of a field that holds no messages, in the form of print_message.
 * Numbers get the shortest form that reads back as the same value. */
void print_value(struct strbuf *out, const ProtobufCFieldDescriptor *field, const void *value);

/* Writes each message held by a singular field of `message` as a member of the open JSON object,
 * such as a layer's convolution_param. Infinities and NaN become null; bytes are not allowed. */
void print_json_parts(struct json *json, const ProtobufCMessage *message);

#endif
