/* Reads and changes members of protobuf-c messages through their descriptors.
 *
 * All memory comes from malloc, protobuf-c's default allocator:
 * protobuf_c_message_free_unpacked(message, NULL) frees messages built here. A *value* is a pointer
 * to the content of a member: int32_t, float, char *, ProtobufCMessage *, ... */
#ifndef POSEIDON_SPEC_FIELD_H
#define POSEIDON_SPEC_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/* Creates a message with every default in place and no field set. */
int message_new(const ProtobufCMessageDescriptor *descriptor, ProtobufCMessage **out);

/* Returns the field with a name; NULL if there is none. */
const ProtobufCFieldDescriptor *message_find_field(const ProtobufCMessageDescriptor *descriptor,
                                                   const char *name);

/* Returns true if a singular field was given, or a repeated field has elements. */
bool field_is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Returns the number of elements of a repeated field; for a singular field 1 if set, else 0. */
size_t field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Returns the value with an index (0 for a singular field). Valid until the field changes. */
const void *field_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                     size_t index);

/* Sets a singular field that is not set; the message takes over strings, bytes and messages. */
void field_set(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const void *value);

/* Adds an element to a repeated field; on success the message takes over what the value points to.
 * spare: the array grows by doubling; only for arrays that no other code has sized. */
int field_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                 const void *value, bool spare);

/* Finds the message held by a singular field; creates the message if the field is not set. */
int message_part(ProtobufCMessage *message, const char *name, ProtobufCMessage **out);

/* Empties a field and frees its content. */
void field_drop(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Moves a field of `from` into a field of `to` with values of the same size; a singular value may
 * go into a list. Frees the target's old content, even if the source is empty. */
int field_move(ProtobufCMessage *from, const ProtobufCFieldDescriptor *source, ProtobufCMessage *to,
               const ProtobufCFieldDescriptor *target);

/* Fails if an enum anywhere in the message holds a number that its type does not have, which the
 * binary form allows. The error names the file, the field and the number. */
int message_check_enums(const char *file, const ProtobufCMessage *message);

#endif
