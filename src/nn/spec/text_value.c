/* Reads values of the text format: numbers, words and strings, by the field's descriptor. */
#include "spec/text_internal.h"

#include "spec/suggest_field.h"
#include "util/error.h"
#include "util/suggest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int reader_take(struct reader *r, const char *symbol, bool *taken)
{
    *taken = scan_is(&r->scan, symbol);
    return *taken ? scan_next(&r->scan) : 0;
}

int reader_wrong_value(struct reader *r, const ProtobufCFieldDescriptor *field,
                       const char *expected, const char *remark)
{
    struct scan_shown found = scan_show(&r->scan.token);

    return scan_error(&r->scan, "expected %s for field \"%s\" of \"%s\", found %s%s", expected,
                      field->name, r->stack[r->depth]->name, found.text, remark);
}

/* Reads an integer with an optional sign: magnitude up to `most`, or most + 1 if negative. */
static int read_signed(struct reader *r, const ProtobufCFieldDescriptor *field, uint64_t most,
                       int64_t *out)
{
    uint64_t magnitude;
    bool negative;

    if (reader_take(r, "-", &negative))
        return -1;
    if (r->scan.token.kind != SCAN_INTEGER)
        return reader_wrong_value(r, field, "an integer", "");
    if (!scan_integer(&r->scan.token, most + negative, &magnitude)) {
        char expected[80];

        snprintf(expected, sizeof expected, "an integer from -%llu to %llu",
                 (unsigned long long)most + 1, (unsigned long long)most);
        return reader_wrong_value(r, field, expected, "");
    }
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return scan_next(&r->scan);
}

static int read_unsigned(struct reader *r, const ProtobufCFieldDescriptor *field, uint64_t most,
                         uint64_t *out)
{
    char expected[80];

    if (r->scan.token.kind != SCAN_INTEGER)
        return reader_wrong_value(
            r, field, scan_is(&r->scan, "-") ? "an integer that is not negative" : "an integer",
            "");
    snprintf(expected, sizeof expected, "an integer from 0 to %llu", (unsigned long long)most);
    if (!scan_integer(&r->scan.token, most, out))
        return reader_wrong_value(r, field, expected, "");
    return scan_next(&r->scan);
}

/* Compares a token with a lower-case word, case ignored. */
static bool is_word(const struct scan_token *token, const char *word)
{
    if (token->kind != SCAN_IDENTIFIER || token->length != strlen(word))
        return false;
    for (size_t i = 0; i < token->length; i++)
        if ((token->text[i] | 32) != word[i])
            return false;
    return true;
}

static int read_real(struct reader *r, const ProtobufCFieldDescriptor *field, double *out)
{
    const struct scan_token *token = &r->scan.token;
    bool negative;

    if (reader_take(r, "-", &negative))
        return -1;
    if (token->kind == SCAN_INTEGER && token->length > 1 && token->text[0] == '0')
        return reader_wrong_value(r, field, "a decimal number", " (it is hexadecimal or octal)");
    if (token->kind == SCAN_INTEGER || token->kind == SCAN_FLOAT)
        *out = scan_double(token);
    else if (is_word(token, "inf") || is_word(token, "infinity"))
        *out = INFINITY;
    else if (is_word(token, "nan"))
        *out = NAN;
    else
        return reader_wrong_value(r, field, "a number", "");
    if (negative)
        *out = -*out;
    return scan_next(&r->scan);
}

static int read_truth(struct reader *r, const ProtobufCFieldDescriptor *field,
                      protobuf_c_boolean *out)
{
    static const char *const words[] = {"false", "true", "False", "True", "f", "t"};
    uint64_t number;

    if (r->scan.token.kind == SCAN_INTEGER && scan_integer(&r->scan.token, 1, &number)) {
        *out = number != 0;
        return scan_next(&r->scan);
    }
    for (int i = 0; i < 6; i++) {
        if (scan_is(&r->scan, words[i])) {
            *out = i % 2;
            return scan_next(&r->scan);
        }
    }
    return reader_wrong_value(r, field, "true or false", "");
}

/* Adds a line on an unknown layer type of the old form, whose enum lacks forks' types. */
static void unknown_type(struct reader *r, const struct scan_token *at, const char *type,
                         const char *remark)
{
    char tail[768];

    snprintf(tail, sizeof tail,
             "unknown layer type %s for field \"type\" of \"caffe.V1LayerParameter\"%s", type,
             remark);
    if (remark[0] == '\0' && r->check_type != NULL && r->check_type(type))
        snprintf(tail, sizeof tail, "%s%s", error_text(),
                 strstr(error_text(), "did you mean") == NULL
                     ? ""
                     : " Only today's form has this type: run 'poseidon upgrade' on the net "
                       "without this layer, then add it as layer { }");
    error_clear();
    reader_refuse(r, at, REFUSALS_ROOM, tail);
}

static int read_enum(struct reader *r, const ProtobufCFieldDescriptor *field, int *out)
{
    const ProtobufCEnumDescriptor *descriptor = field->descriptor;
    const ProtobufCEnumValue *value = NULL;
    struct scan_token start = r->scan.token;
    char name[64], remark[256];
    int64_t number;

    if (start.kind == SCAN_IDENTIFIER) {
        snprintf(name, sizeof name, "%.*s", start.length < 63 ? (int)start.length : 63, start.text);
        value = protobuf_c_enum_descriptor_get_value_by_name(descriptor, name);
        if (scan_next(&r->scan))
            return -1;
    } else if (start.kind == SCAN_INTEGER || scan_is(&r->scan, "-")) {
        if (read_signed(r, field, INT32_MAX, &number))
            return -1;
        snprintf(name, sizeof name, "%lld", (long long)number);
        value = protobuf_c_enum_descriptor_get_value(descriptor, (int)number);
    } else {
        return reader_wrong_value(r, field, "a name without quotes", "");
    }
    if (value == NULL) {
        suggest_value(descriptor, name, remark, sizeof remark);
        if (descriptor == &caffe__v1_layer_parameter__layer_type__descriptor) {
            unknown_type(r, &start, name, remark);
            *out = 0;
            return 0;
        }
        r->scan.token = start;
        return scan_error(&r->scan, "unknown value \"%s\" for field \"%s\" of \"%s\"%s", name,
                          field->name, r->stack[r->depth]->name, remark);
    }
    *out = value->value;
    return 0;
}

/* Returns the fault of a string; NULL: none. A Windows path loses its backslashes: "E:\\new" has
 * a line feed. */
static const char *wrong_text(const ProtobufCFieldDescriptor *field, const char *text,
                              size_t length)
{
    static const char paths[] = "net train_net test_net weights snapshot_prefix source mean_file "
                                "meanfile root_folder file_name";

    if (field->type == PROTOBUF_C_TYPE_STRING && memchr(text, '\0', length) != NULL)
        return "expected a string without zero bytes";
    for (size_t i = 0; i < length && suggest_lists(paths, field->name); i++)
        if ((unsigned char)text[i] < ' ')
            return "expected a path without control characters (write / or \\\\, not \\)";
    return NULL;
}

/* Reads one string, or joins several in a row. A zero byte follows the result. */
static int read_string(struct reader *r, const ProtobufCFieldDescriptor *field,
                       ProtobufCBinaryData *out)
{
    bool old_form = strcmp(field->name, "type") == 0 && r->scan.token.kind == SCAN_IDENTIFIER;
    struct scan_token start = r->scan.token;
    const char *wrong;
    char *text = NULL;
    size_t length = 0;

    if (r->scan.token.kind != SCAN_STRING)
        return reader_wrong_value(
            r, field, "a string in quotes",
            old_form ? " (types without quotes belong to the old form, \"layers\")" : "");
    while (r->scan.token.kind == SCAN_STRING) {
        char *grown = realloc(text, length + r->scan.token.length + 1);

        if (grown == NULL) {
            error_memory(length + r->scan.token.length + 1, field->name);
            goto fail;
        }
        text = grown;
        length += scan_string(&r->scan.token, text + length);
        text[length] = '\0';
        if (scan_next(&r->scan))
            goto fail;
    }
    if ((wrong = wrong_text(field, text, length)) != NULL) {
        r->scan.token = start;
        scan_error(&r->scan, "%s for field \"%s\"", wrong, field->name);
        goto fail;
    }
    out->data = (uint8_t *)text;
    out->len = length;
    return 0;

fail:
    free(text);
    return -1;
}

int reader_scalar(struct reader *r, const ProtobufCFieldDescriptor *field, union field_value *out)
{
    ProtobufCBinaryData bytes;
    uint64_t u;
    int64_t i;
    double d;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
        if (read_signed(r, field, INT32_MAX, &i))
            return -1;
        out->i32 = (int32_t)i;
        return 0;
    case PROTOBUF_C_TYPE_INT64:
        return read_signed(r, field, INT64_MAX, &out->i64);
    case PROTOBUF_C_TYPE_UINT32:
        if (read_unsigned(r, field, UINT32_MAX, &u))
            return -1;
        out->u32 = (uint32_t)u;
        return 0;
    case PROTOBUF_C_TYPE_UINT64:
        return read_unsigned(r, field, UINT64_MAX, &out->u64);
    case PROTOBUF_C_TYPE_FLOAT:
        if (read_real(r, field, &d))
            return -1;
        out->f = (float)d;
        return 0;
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_real(r, field, &out->d);
    case PROTOBUF_C_TYPE_BOOL:
        return read_truth(r, field, &out->truth);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(r, field, &out->number);
    case PROTOBUF_C_TYPE_BYTES:
        return read_string(r, field, &out->bytes);
    default:
        if (read_string(r, field, &bytes))
            return -1;
        out->string = (char *)bytes.data;
        return 0;
    }
}
