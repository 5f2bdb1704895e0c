/* Suggests what an unknown field or value may have meant: the nearest name, or the fork of Caffe
 * that the field comes from. */
#ifndef POSEIDON_SPEC_SUGGEST_FIELD_H
#define POSEIDON_SPEC_SUGGEST_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* Writes a remark on an unknown field of a message into `out`: the nearest name, the fork of Caffe
 * that has such a field, or the message that the field belongs in; "" without a suggestion. outer:
 * the message around `message`, or NULL. */
void suggest_field(const ProtobufCMessageDescriptor *message,
                   const ProtobufCMessageDescriptor *outer, const char *name, char *out,
                   size_t bytes);

/* Writes a remark on an unknown enum value into `out`: all values if few, else the nearest. */
void suggest_value(const ProtobufCEnumDescriptor *descriptor, const char *name, char *out,
                   size_t bytes);

#endif
