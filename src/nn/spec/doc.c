/* Documents: a message with the lines of its parts. Lines are kept by address, because protobuf-c's
 * structs have no room for them. */
#include "spec/text.h"

#include "spec/names.h"
#include "spec/text_internal.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text_doc {
    char *name;             /* owned */
    ProtobufCMessage *root; /* owned */
    struct names lines;     /* lines of parts, by the parts' addresses */
    struct strbuf notices;
};

int doc_create(const char *name, ProtobufCMessage *root, struct text_doc **out)
{
    struct text_doc *doc = calloc(1, sizeof *doc);

    if (doc == NULL)
        return error_memory(sizeof *doc, "a document");
    doc->root = root;
    doc->lines.by_address = true;
    if (alloc_text(&doc->name, name, "a file name")) {
        free(doc);
        return -1;
    }
    *out = doc;
    return 0;
}

int text_set_line(struct text_doc *doc, const void *message, int line)
{
    return names_set(&doc->lines, message, line);
}

int text_line(const struct text_doc *doc, const void *message)
{
    int line = doc == NULL ? 0 : names_get(&doc->lines, message);

    return line < 0 ? 0 : line;
}

void text_refuse(struct strbuf *lines, size_t room, const char *place, const char *tail)
{
    static const char others[] = "... and others";

    if (strbuf_count_line(lines, tail))
        return;
    if (lines->length == 0 || lines->length + strlen(place) + strlen(tail) < room)
        strbuf_printf(lines, "%s%s%s", lines->length > 0 ? "\n" : "", place, tail);
    else if (!strbuf_count_line(lines, others))
        strbuf_printf(lines, "\n%s", others);
}

void text_refuse_type(struct strbuf *lines, const char *place, const char *type,
                      text_check_type *check_type)
{
    char tail[768];

    if (check_type(type) == 0)
        return;
    snprintf(tail, sizeof tail, " (%.64s): %s", type, error_text());
    error_clear();
    text_refuse(lines, REFUSALS_ROOM, place, tail);
}

int text_refusals_end(struct strbuf *lines, const char *stop, bool of_net)
{
    static const char help[] =
        "\n('poseidon help layers' lists all types; \"My net is refused\" in "
        "man poseidon says what to do)";
    int status = lines->length == 0 ? 0
                                    : error_set("%s%s%s%s", strbuf_text(lines), *stop ? "\n" : "",
                                                stop, of_net ? help : "");

    strbuf_free(lines);
    return status;
}

struct text_place text_place_of(const char *file, int line, const char *layer)
{
    struct text_place place;
    char number[16] = "";

    if (line > 0)
        snprintf(number, sizeof number, ":%d", line);
    snprintf(place.text, sizeof place.text, "%s%s%s%s%s", file, number, layer ? ": layer '" : "",
             layer ? layer : "", layer ? "'" : "");
    return place;
}

struct text_place text_place(const struct text_doc *doc, const void *part, const char *layer)
{
    return text_place_of(doc ? doc->name : "net", text_line(doc, part), layer);
}

ProtobufCMessage *text_root(const struct text_doc *doc)
{
    return doc->root;
}

const char *text_name(const struct text_doc *doc)
{
    return doc->name;
}

const char *text_notices(const struct text_doc *doc)
{
    return strbuf_text(&doc->notices);
}

int text_add_notice(struct text_doc *doc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    strbuf_vprintf(&doc->notices, format, args);
    va_end(args);
    strbuf_putc(&doc->notices, '\n');
    return strbuf_status(&doc->notices);
}

void text_free(struct text_doc *doc)
{
    if (doc == NULL)
        return;
    if (doc->root != NULL)
        protobuf_c_message_free_unpacked(doc->root, NULL);
    names_free(&doc->lines);
    strbuf_free(&doc->notices);
    free(doc->name);
    free(doc);
}

int text_read_bytes(const char *path, struct strbuf *out)
{
    return file_load(out, path, SIZE_MAX);
}
