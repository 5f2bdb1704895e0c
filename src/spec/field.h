/* Members of protobuf-c messages, reached through their descriptors.
 *
 * All memory is malloc's, as protobuf-c's default allocator has it: what is built here is freed by
 * protobuf_c_message_free_unpacked(message, NULL). A *value* is a pointer to what the member holds:
 * int32_t, float, char *, ProtobufCMessage *, ... */
#ifndef POSEIDON_SPEC_FIELD_H
#define POSEIDON_SPEC_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/* A message with every default in place and nothing set. */
int message_new(const ProtobufCMessageDescriptor *descriptor, ProtobufCMessage **out);

/* The field of that name; NULL if there is none. */
const ProtobufCFieldDescriptor *message_find_field(const ProtobufCMessageDescriptor *descriptor,
                                                   const char *name);

/* Singular: was it given? Repeated: has it any element? */
bool field_is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Elements of a repeated field; of a singular one 1 if set, else 0. */
size_t field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* The value with that index (0 for a singular field). Valid until the field changes. */
const void *field_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                     size_t index);

/* Sets a singular field that is not set; the message takes over strings, bytes and messages. */
void field_set(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const void *value);

/* Adds an element to a repeated field; on success the message takes over what the value points to.
 * `spare`: arrays grow by doubling, which is right only for arrays that nothing else has sized. */
int field_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                 const void *value, bool spare);

/* The message that the singular field of that name holds, made if it is not there yet. */
int message_part(ProtobufCMessage *message, const char *name, ProtobufCMessage **out);

/* Empties a field and frees what it held. */
void field_drop(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Moves what `from` holds in one field into a field of `to` that holds values of the same size; a
 * singular value may go into a list. What `to` had there is replaced, by nothing if need be. */
int field_move(ProtobufCMessage *from, const ProtobufCFieldDescriptor *source, ProtobufCMessage *to,
               const ProtobufCFieldDescriptor *target);

/* Fails, naming the file, the field and the number, when an enum somewhere in the message holds a
 * number that its type does not have: the binary form lets it through. */
int message_check_enums(const char *file, const ProtobufCMessage *message);

#endif
