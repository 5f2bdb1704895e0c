/* What someone may have meant by a field or a value that the schema has not: the nearest name, and
 * where fields of Caffe's forks come from. */
#ifndef POSEIDON_SPEC_SUGGEST_FIELD_H
#define POSEIDON_SPEC_SUGGEST_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* Writes a remark on an unknown field of a message into `out` ("" when there is nothing to say):
 * the nearest name, the fork of Caffe that has such a field, or the message it belongs in. outer:
 * the message around this one, or NULL. */
void suggest_field(const ProtobufCMessageDescriptor *message,
                   const ProtobufCMessageDescriptor *outer, const char *name, char *out,
                   size_t bytes);

/* The same for an enum: all values when there are few, else the nearest. */
void suggest_value(const ProtobufCEnumDescriptor *descriptor, const char *name, char *out,
                   size_t bytes);

#endif
