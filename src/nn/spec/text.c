/* Reads protobuf's text format by recursive descent over scan.h's tokens, led by descriptors. */
#include "spec/text.h"

#include "spec/caffe.pb-c.h"
#include "spec/field.h"
#include "spec/scan.h"
#include "spec/suggest_field.h"
#include "spec/text_internal.h"
#include "util/error.h"
#include "util/file_kind.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_fields(struct reader *r, ProtobufCMessage *message, const char *close);

static int put_value(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                     const union field_value *value)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return field_append(message, field, value, true);
    field_set(message, field, value);
    return 0;
}

/* Reads { fields } or < fields >. Puts the new message into its parent first, so that a failure
 * frees it with the root. */
static int read_message(struct reader *r, ProtobufCMessage *parent,
                        const ProtobufCFieldDescriptor *field)
{
    union field_value value;
    const char *close = scan_is(&r->scan, "<") ? ">" : "}";

    if (!scan_is(&r->scan, "<") && !scan_is(&r->scan, "{"))
        return reader_wrong_value(r, field, "\"{\"", "");
    if (r->depth == DEPTH_MOST)
        return scan_error(&r->scan, "expected at most %d nested messages", DEPTH_MOST);
    if (message_new(field->descriptor, &value.message))
        return -1;
    if (put_value(parent, field, &value)) {
        protobuf_c_message_free_unpacked(value.message, NULL);
        return -1;
    }
    r->depth++;
    r->stack[r->depth] = field->descriptor;
    r->line_of[r->depth] = r->scan.token.line;
    if (r->depth == 1)
        r->layer = value.message;
    if (scan_next(&r->scan) || read_fields(r, value.message, close))
        return -1;
    r->depth--;
    return scan_next(&r->scan);
}

/* Returns the field for a value of another type than Caffe's: Poseidon's first release allowed a
 * string for device_id, which goes to device_list. */
static const ProtobufCFieldDescriptor *other_type(const struct reader *r,
                                                  const ProtobufCMessage *message,
                                                  const ProtobufCFieldDescriptor *field)
{
    const ProtobufCFieldDescriptor *list;

    if (r->scan.token.kind != SCAN_STRING || strcmp(field->name, "device_id") != 0)
        return field;
    list = message_find_field(message->descriptor, "device_list");
    return list != NULL && !field_is_set(message, list) ? list : field;
}

/* Keeps the lines of net-level inputs, which are no messages but become a layer: the line of each
 * name and, under the field's own address, of the first size. */
static int keep_line(struct reader *r, const ProtobufCMessage *message,
                     const ProtobufCFieldDescriptor *field, const union field_value *value)
{
    const Caffe__NetParameter *net = (const Caffe__NetParameter *)message;

    if (message->descriptor != &caffe__net_parameter__descriptor)
        return 0;
    if (strcmp(field->name, "input") == 0)
        return text_set_line(r->doc, value->string, r->field_line);
    if (strcmp(field->name, "input_dim") == 0 && net->n_input_dim == 1)
        return text_set_line(r->doc, &net->n_input_dim, r->field_line);
    return 0;
}

static int read_value(struct reader *r, ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    union field_value value;

    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return read_message(r, message, field);
    if (reader_scalar(r, field, &value))
        return -1;
    if (put_value(message, field, &value) == 0)
        return keep_line(r, message, field, &value);
    if (field->type == PROTOBUF_C_TYPE_STRING)
        free(value.string);
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        free(value.bytes.data);
    return -1;
}

static int read_list(struct reader *r, ProtobufCMessage *message,
                     const ProtobufCFieldDescriptor *field)
{
    bool done, comma;

    if (scan_next(&r->scan) || reader_take(r, "]", &done))
        return -1;
    while (!done) {
        r->field_line = r->scan.token.line;
        if (read_value(r, message, field) || reader_take(r, "]", &done))
            return -1;
        if (!done) {
            if (reader_take(r, ",", &comma))
                return -1;
            if (!comma)
                return reader_wrong_value(r, field, "\",\" or \"]\" in the list", "");
        }
    }
    return 0;
}

/* Skips { ... }, < ... > or [ ... ] without checking that brackets match in kind. */
static int skip_brackets(struct reader *r)
{
    int open = 0;

    do {
        if (scan_is(&r->scan, "{") || scan_is(&r->scan, "<") || scan_is(&r->scan, "["))
            open++;
        else if (scan_is(&r->scan, "}") || scan_is(&r->scan, ">") || scan_is(&r->scan, "]"))
            open--;
        if (r->scan.token.kind == SCAN_END || scan_next(&r->scan))
            return -1;
    } while (open > 0);
    return 0;
}

/* Skips the value of an unknown field, so that the next field can be read. Fails if the end of the
 * value is unclear; the error does not matter. */
static int skip_value(struct reader *r)
{
    bool colon, minus;

    if (reader_take(r, ":", &colon))
        return -1;
    if (scan_is(&r->scan, "{") || scan_is(&r->scan, "<") || (colon && scan_is(&r->scan, "[")))
        return skip_brackets(r);
    if (!colon || reader_take(r, "-", &minus))
        return -1;
    if (r->scan.token.kind == SCAN_STRING) {
        while (r->scan.token.kind == SCAN_STRING)
            if (scan_next(&r->scan))
                return -1;
        return 0;
    }
    if (r->scan.token.kind == SCAN_SYMBOL || r->scan.token.kind == SCAN_END)
        return -1;
    return scan_next(&r->scan);
}

/* Puts name and type of the current layer, as far as read, behind the place: a fork's fields mostly
 * belong to a fork's layers. */
void reader_refuse(struct reader *r, const struct scan_token *at, size_t room, const char *tail)
{
    const Caffe__LayerParameter *layer = (const Caffe__LayerParameter *)r->layer;
    const Caffe__V1LayerParameter *old = (const Caffe__V1LayerParameter *)r->layer;
    char place[4400];

    snprintf(place, sizeof place, "%.4096s:%d:%d: ", r->scan.name, at->line, at->column);
    if (r->depth == 0)
        ;
    else if (r->stack[1] == &caffe__layer_parameter__descriptor && layer->type != NULL)
        buffer_printf(place, sizeof place,
                      "layer '%.64s' (%.64s): ", layer->name ? layer->name : "", layer->type);
    else if (r->stack[1] == &caffe__v1_layer_parameter__descriptor && old->name != NULL)
        buffer_printf(place, sizeof place, "layer '%.64s': ", old->name);
    if (r->drop_idle && strstr(tail, ": remove it") != NULL)
        text_add_notice(r->doc, "%s%.*s: left out", place,
                        (int)(strstr(tail, ": remove it") - tail), tail);
    else
        text_refuse(&r->refused, room, place, tail);
}

static void note_unknown(struct reader *r, const struct scan_token *token, const char *name)
{
    char remark[384], tail[768];

    suggest_field(r->stack[r->depth], r->depth > 0 ? r->stack[r->depth - 1] : NULL, name, remark,
                  sizeof remark);
    snprintf(tail, sizeof tail, "message \"%s\" has no field \"%s\"%s", r->stack[r->depth]->name,
             name, remark);
    reader_refuse(r, token, FIELDS_ROOM, tail);
}

static int expected_name(struct reader *r)
{
    struct scan_shown found = scan_show(&r->scan.token);

    if (r->depth == 0)
        return scan_error(
            &r->scan, "expected the name of a field of \"%s\", found %s%s", r->stack[0]->name,
            found.text,
            scan_is(&r->scan, "}") || scan_is(&r->scan, ">") ? ", which closes nothing" : "");
    return scan_error(&r->scan,
                      "expected the name of a field, or the end of the \"%s\" that began "
                      "on line %d, found %s",
                      r->stack[r->depth]->name, r->line_of[r->depth], found.text);
}

/* Reads everything behind the name of a known field. */
static int read_field_value(struct reader *r, ProtobufCMessage *message,
                            const ProtobufCFieldDescriptor *field, const struct scan_token *token)
{
    bool colon;

    if (field->label != PROTOBUF_C_LABEL_REPEATED && field_is_set(message, field)) {
        r->scan.token = *token;
        return scan_error(&r->scan, "field \"%s\" of \"%s\" is given twice, expected once",
                          field->name, r->stack[r->depth]->name);
    }
    if (reader_take(r, ":", &colon))
        return -1;
    if (!colon && field->type != PROTOBUF_C_TYPE_MESSAGE)
        return scan_error(&r->scan, "expected \":\" behind \"%s\", found %s", field->name,
                          scan_show(&r->scan.token).text);
    r->field_line = token->line;
    if (field->label == PROTOBUF_C_LABEL_REPEATED && scan_is(&r->scan, "["))
        return read_list(r, message, field);
    return read_value(r, message, other_type(r, message, field));
}

static int read_field(struct reader *r, ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field;
    struct scan_token token = r->scan.token;
    bool taken;
    char name[128];

    if (token.kind != SCAN_IDENTIFIER)
        return expected_name(r);
    snprintf(name, sizeof name, "%.*s", (int)(token.length < 127 ? token.length : 127), token.text);
    if (scan_next(&r->scan))
        return -1;
    field = message_find_field(message->descriptor, name);
    if (field == NULL || token.length >= sizeof name) {
        note_unknown(r, &token, name);
        if (skip_value(r)) {
            error_clear();
            return -1;
        }
    } else if (read_field_value(r, message, field, &token)) {
        return -1;
    }
    if (reader_take(r, ";", &taken))
        return -1;
    return taken ? 0 : reader_take(r, ",", &taken);
}

/* Reads fields up to `close`, which stays the current token; NULL: to the end of the file. */
static int read_fields(struct reader *r, ProtobufCMessage *message, const char *close)
{
    if (text_set_line(r->doc, message, r->field_line))
        return -1;
    while (close == NULL ? r->scan.token.kind != SCAN_END
                         : !scan_is(&r->scan, "}") && !scan_is(&r->scan, ">"))
        if (read_field(r, message))
            return -1;
    if (close != NULL && !scan_is(&r->scan, close))
        return scan_error(
            &r->scan, "expected \"%s\" to end the \"%s\" that began on line %d, found %s", close,
            r->stack[r->depth]->name, r->line_of[r->depth], scan_show(&r->scan.token).text);
    return 0;
}

/* Sets the error: unknown fields first, then unsupported types, then the reason why reading
 * stopped, if it did. */
static int unknown_error(struct reader *r, const char *stopped_by)
{
    const Caffe__NetParameter *net = (const Caffe__NetParameter *)text_root(r->doc);
    char stop[641];

    snprintf(stop, sizeof stop, "%s", stopped_by);
    for (size_t i = 0; r->check_type != NULL && i < net->n_layer; i++) {
        const Caffe__LayerParameter *layer = net->layer[i];

        if (layer->type != NULL)
            text_refuse_type(&r->refused,
                             text_place(r->doc, layer, layer->name ? layer->name : "").text,
                             layer->type, r->check_type);
    }
    return text_refusals_end(&r->refused, stop, r->check_type != NULL);
}

static int read_all(struct reader *r, const char *text, size_t length)
{
    bool had_mark;

    if (scan_start(&r->scan, text_name(r->doc), text, length, &had_mark) ||
        read_fields(r, text_root(r->doc), NULL))
        return -1;
    if (had_mark)
        return text_add_notice(r->doc, "%s: skipped the byte-order mark at its beginning",
                               text_name(r->doc));
    return 0;
}

static int read_document(const char *name, const char *text, size_t length,
                         const ProtobufCMessageDescriptor *descriptor, text_check_type *check_type,
                         bool drop_idle, struct text_doc **out)
{
    struct reader *r = calloc(1, sizeof *r);
    ProtobufCMessage *root = NULL;
    int status = -1;

    if (r == NULL)
        return error_memory(sizeof *r, "the text reader");
    if (message_new(descriptor, &root) || doc_create(name, root, &r->doc)) {
        free(root);
        goto done;
    }
    r->stack[0] = descriptor;
    r->check_type = check_type;
    r->drop_idle = drop_idle;
    r->field_line = 1;
    error_clear();
    status = read_all(r, text, length);
    if (r->refused.length > 0)
        status = unknown_error(r, status ? error_text() : "");
    if (status)
        text_free(r->doc);
    else
        *out = r->doc;
done:
    strbuf_free(&r->refused);
    free(r);
    return status;
}

int text_read_string(const char *name, const char *text, size_t length,
                     const ProtobufCMessageDescriptor *descriptor, struct text_doc **out)
{
    return read_document(name, text, length, descriptor, NULL, false, out);
}

int text_read_file(const char *path, const ProtobufCMessageDescriptor *descriptor,
                   struct text_doc **out)
{
    return text_read_file_of(path, descriptor, NULL, false, out);
}

int text_read_file_of(const char *path, const ProtobufCMessageDescriptor *descriptor,
                      text_check_type *check_type, bool drop_idle, struct text_doc **out)
{
    struct strbuf text = {0};
    int status = text_read_bytes(path, &text);

    if (status == 0)
        status = read_document(path, strbuf_text(&text), text.length, descriptor, check_type,
                               drop_idle, out)
                     ? file_kind_error(path, "text")
                     : 0;
    strbuf_free(&text);
    return status;
}
