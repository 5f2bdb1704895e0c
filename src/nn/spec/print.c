/* Prints protobuf-c messages as text and as JSON. */
#include "spec/print.h"

#include "spec/field.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints infinities, NaN and whole numbers, where %g may use an exponent; else returns false. */
static bool print_special(struct strbuf *out, double value)
{
    if (isfinite(value) && (fabs(value) >= 1e9 || value != (double)(long)value || value == 0))
        return false;
    if (isfinite(value))
        strbuf_printf(out, "%ld", (long)value);
    else
        strbuf_puts(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    return true;
}

/* Prints the shortest form that reads back as the same value. single: as the same float. */
static void print_number(struct strbuf *out, double value, bool single)
{
    char text[40];

    if (print_special(out, value))
        return;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        /* The reader, too, converts floats from double. */
        if (single ? (float)strtod(text, NULL) == (float)value : strtod(text, NULL) == value)
            break;
    }
    strbuf_puts(out, text);
}

static void print_bytes(struct strbuf *out, const char *text, size_t length)
{
    static const char plain[] = "\n\r\t\"'\\", names[] = "nrt\"'\\";

    strbuf_putc(out, '"');
    for (size_t i = 0; i < length; i++) {
        const char *at = text[i] != '\0' ? strchr(plain, text[i]) : NULL;

        if (at != NULL)
            strbuf_printf(out, "\\%c", names[at - plain]);
        else if (text[i] >= ' ' && text[i] < 127)
            strbuf_putc(out, text[i]);
        else
            strbuf_printf(out, "\\%03o", (unsigned)(unsigned char)text[i]);
    }
    strbuf_putc(out, '"');
}

void print_value(struct strbuf *out, const ProtobufCFieldDescriptor *field, const void *value)
{
    const ProtobufCBinaryData *bytes = value;
    const ProtobufCEnumValue *name;
    const char *text;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
        strbuf_printf(out, "%lld", (long long)*(const int64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        strbuf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        strbuf_printf(out, "%lu", (unsigned long)*(const uint32_t *)value);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        print_number(out, (double)*(const float *)value, true);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        print_number(out, *(const double *)value, false);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        strbuf_puts(out, *(const protobuf_c_boolean *)value ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        name = protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *)value);
        if (name != NULL)
            strbuf_puts(out, name->name);
        else
            strbuf_printf(out, "%d", *(const int *)value);
        break;
    case PROTOBUF_C_TYPE_STRING:
        text = *(char *const *)value;
        print_bytes(out, text, strlen(text));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        print_bytes(out, (const char *)bytes->data, bytes->len);
        break;
    default:
        strbuf_printf(out, "%ld", (long)*(const int32_t *)value);
    }
}

static void print_fields(struct strbuf *out, const ProtobufCMessage *message, int depth)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count = field_count(message, field);

        for (size_t k = 0; k < count; k++) {
            const void *value = field_at(message, field, k);

            strbuf_printf(out, "%*s%s", 2 * depth, "", field->name);
            if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
                strbuf_puts(out, " {\n");
                print_fields(out, *(ProtobufCMessage *const *)value, depth + 1);
                strbuf_printf(out, "%*s}\n", 2 * depth, "");
            } else {
                strbuf_puts(out, ": ");
                print_value(out, field, value);
                strbuf_putc(out, '\n');
            }
        }
    }
}

void print_message(struct strbuf *out, const ProtobufCMessage *message)
{
    print_fields(out, message, 0);
}

static void print_json(struct json *json, const ProtobufCMessage *message);

static void print_json_value(struct json *json, const ProtobufCFieldDescriptor *field,
                             const void *value)
{
    struct strbuf text = {.data = NULL};

    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        print_json(json, *(ProtobufCMessage *const *)value);
        return;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        json_string(json, *(char *const *)value);
        return;
    }
    assert(field->type != PROTOBUF_C_TYPE_BYTES);
    print_value(&text, field, value);
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        json_string(json, strbuf_text(&text));
    else /* JSON has neither infinities nor NaN */
        json_plain(json, strchr(strbuf_text(&text), 'n') ? "null" : strbuf_text(&text));
    strbuf_free(&text);
}

static void print_json(struct json *json, const ProtobufCMessage *message)
{
    json_object_begin(json);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        bool list = field->label == PROTOBUF_C_LABEL_REPEATED;

        if (!field_is_set(message, field))
            continue;
        json_key(json, field->name);
        if (list)
            json_array_begin(json);
        for (size_t k = 0; k < field_count(message, field); k++)
            print_json_value(json, field, field_at(message, field, k));
        if (list)
            json_array_end(json);
    }
    json_object_end(json);
}

void print_json_parts(struct json *json, const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];

        if (field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED &&
            field_is_set(message, field)) {
            json_key(json, field->name);
            print_json(json, *(ProtobufCMessage *const *)field_at(message, field, 0));
        }
    }
}
