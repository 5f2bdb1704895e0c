/* Reads and changes members of protobuf-c messages through their descriptors. */
#include "spec/field.h"

#include "util/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int message_new(const ProtobufCMessageDescriptor *descriptor, ProtobufCMessage **out)
{
    ProtobufCMessage *message = malloc(descriptor->sizeof_message);

    if (message == NULL)
        return error_memory(descriptor->sizeof_message, descriptor->name);
    descriptor->message_init(message);
    *out = message;
    return 0;
}

const ProtobufCFieldDescriptor *message_find_field(const ProtobufCMessageDescriptor *descriptor,
                                                   const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
}

static size_t value_bytes(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    default:
        return 4;
    }
}

static const void *member(const ProtobufCMessage *message, unsigned offset)
{
    return (const char *)message + offset;
}

static void *member_to_change(ProtobufCMessage *message, unsigned offset)
{
    return (char *)message + offset;
}

size_t field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)member(message, field->quantifier_offset);
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const void *pointer = *(void *const *)member(message, field->offset);

        return pointer != NULL && pointer != field->default_value;
    }
    if (field->label == PROTOBUF_C_LABEL_REQUIRED)
        return 1;
    return *(const protobuf_c_boolean *)member(message, field->quantifier_offset) != 0;
}

bool field_is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return field_count(message, field) > 0;
}

const void *field_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                     size_t index)
{
    const void *place = member(message, field->offset);

    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return place;
    return *(const char *const *)place + index * value_bytes(field);
}

void field_set(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const void *value)
{
    memcpy(member_to_change(message, field->offset), value, value_bytes(field));
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_STRING &&
        field->type != PROTOBUF_C_TYPE_MESSAGE)
        *(protobuf_c_boolean *)member_to_change(message, field->quantifier_offset) = 1;
}

int field_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                 const void *value, bool spare)
{
    size_t *count = member_to_change(message, field->quantifier_offset);
    char **array = member_to_change(message, field->offset);
    size_t bytes = value_bytes(field), room = *count + 1;

    if (spare)
        room = *count == 0 ? 4 : (*count & (*count - 1)) == 0 && *count >= 4 ? 2 * *count : 0;
    if (room > 0) {
        char *grown;

        if (*count > SIZE_MAX / 4 / bytes)
            return error_set("field \"%s\": more than %zu values", field->name, *count);
        grown = realloc(*array, room * bytes);
        if (grown == NULL)
            return error_memory(room * bytes, field->name);
        *array = grown;
    }
    memcpy(*array + *count * bytes, value, bytes);
    ++*count;
    return 0;
}

int message_part(ProtobufCMessage *message, const char *name, ProtobufCMessage **out)
{
    const ProtobufCFieldDescriptor *field = message_find_field(message->descriptor, name);

    if (!field_is_set(message, field)) {
        if (message_new(field->descriptor, out))
            return -1;
        field_set(message, field, out);
    }
    *out = *(ProtobufCMessage *const *)field_at(message, field, 0);
    return 0;
}

/* Marks a field as empty without freeing its content. */
static void forget(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    char *place = (char *)message + field->offset;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        *(size_t *)((char *)message + field->quantifier_offset) = 0;
        *(void **)place = NULL;
    } else if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE) {
        /* protobuf-c takes NULL, like the default, as "not set". */
        *(const void **)place = field->type == PROTOBUF_C_TYPE_STRING ? field->default_value : NULL;
    } else {
        *(protobuf_c_boolean *)((char *)message + field->quantifier_offset) = 0;
    }
}

void field_drop(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t count = field_count(message, field);

    for (size_t i = 0; i < count; i++) {
        const void *value = field_at(message, field, i);

        if (field->type == PROTOBUF_C_TYPE_STRING)
            free(*(char *const *)value);
        else if (field->type == PROTOBUF_C_TYPE_BYTES)
            free(((const ProtobufCBinaryData *)value)->data);
        else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            protobuf_c_message_free_unpacked(*(ProtobufCMessage *const *)value, NULL);
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        free(*(void **)((char *)message + field->offset));
    forget(message, field);
}

int field_move(ProtobufCMessage *from, const ProtobufCFieldDescriptor *source, ProtobufCMessage *to,
               const ProtobufCFieldDescriptor *target)
{
    field_drop(to, target);
    if (!field_is_set(from, source))
        return 0;
    if (source->label == PROTOBUF_C_LABEL_REPEATED) {
        memcpy(member_to_change(to, target->offset), member(from, source->offset), sizeof(void *));
        memcpy(member_to_change(to, target->quantifier_offset),
               member(from, source->quantifier_offset), sizeof(size_t));
    } else if (target->label == PROTOBUF_C_LABEL_REPEATED) {
        if (field_append(to, target, field_at(from, source, 0), false))
            return -1;
    } else {
        field_set(to, target, field_at(from, source, 0));
    }
    forget(from, source);
    return 0;
}

int message_check_enums(const char *file, const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        bool whole = field->type == PROTOBUF_C_TYPE_MESSAGE;
        size_t count =
            whole || field->type == PROTOBUF_C_TYPE_ENUM ? field_count(message, field) : 0;

        for (size_t k = 0; k < count; k++) {
            const void *value = field_at(message, field, k);

            if (whole && message_check_enums(file, *(ProtobufCMessage *const *)value))
                return -1;
            if (!whole && protobuf_c_enum_descriptor_get_value(field->descriptor,
                                                               *(const int *)value) == NULL)
                return error_set("%s: unknown value %d for field \"%s\" of \"%s\"", file,
                                 *(const int *)value, field->name, message->descriptor->name);
        }
    }
    return 0;
}
