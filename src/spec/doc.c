/* The document: a message with the places of its parts. Places are kept in a hash table by address,
 * because protobuf-c's structs have no room for them. */
#include "spec/text.h"

#include "spec/text_internal.h"
#include "util/error.h"
#include "util/file.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
    const void *message; /* NULL: free slot */
    int line;
};

struct text_doc {
    char *name;             /* owned */
    ProtobufCMessage *root; /* owned */
    struct place *places;   /* open addressing, at most half full */
    size_t nplaces, room;   /* room is 0 or a power of two */
    char *notices;          /* owned; NULL: none */
};

int doc_create(const char *name, ProtobufCMessage *root, struct text_doc **out)
{
    struct text_doc *doc = calloc(1, sizeof *doc);

    if (doc == NULL)
        return error_memory(sizeof *doc, "a document");
    doc->root = root;
    doc->name = strdup(name);
    if (doc->name == NULL) {
        free(doc);
        return error_memory(strlen(name) + 1, "a file name");
    }
    *out = doc;
    return 0;
}

static struct place *find_place(const struct text_doc *doc, const void *message)
{
    /* Fibonacci hashing; the low bits of an address are always zero. */
    size_t slot = (size_t)(((uint64_t)(uintptr_t)message * 0x9e3779b97f4a7c15u) >> 20);

    for (;; slot++) {
        struct place *place = &doc->places[slot & (doc->room - 1)];

        if (place->message == message || place->message == NULL)
            return place;
    }
}

static int grow_places(struct text_doc *doc)
{
    struct place *old = doc->places;
    size_t room = doc->room;
    struct place *places = calloc(room == 0 ? 64 : 2 * room, sizeof *places);

    if (places == NULL)
        return error_memory(2 * room * sizeof *places, "line numbers");
    doc->places = places;
    doc->room = room == 0 ? 64 : 2 * room;
    for (size_t i = 0; i < room; i++)
        if (old[i].message != NULL)
            *find_place(doc, old[i].message) = old[i];
    free(old);
    return 0;
}

int text_set_line(struct text_doc *doc, const void *message, int line)
{
    struct place *place;

    if (2 * (doc->nplaces + 1) > doc->room && grow_places(doc))
        return -1;
    place = find_place(doc, message);
    if (place->message == NULL)
        doc->nplaces++;
    *place = (struct place){message, line};
    return 0;
}

int text_line(const struct text_doc *doc, const void *message)
{
    return doc == NULL || doc->room == 0 || message == NULL ? 0 : find_place(doc, message)->line;
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
    return doc->notices != NULL ? doc->notices : "";
}

int text_add_notice(struct text_doc *doc, const char *format, ...)
{
    size_t before = strlen(text_notices(doc)), bytes;
    char line[1024], *grown;
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    bytes = before + strlen(line) + 2;
    grown = realloc(doc->notices, bytes);
    if (grown == NULL)
        return error_memory(bytes, "a notice");
    doc->notices = grown;
    snprintf(grown + before, bytes - before, "%s\n", line);
    return 0;
}

void text_free(struct text_doc *doc)
{
    if (doc == NULL)
        return;
    if (doc->root != NULL)
        protobuf_c_message_free_unpacked(doc->root, NULL);
    free(doc->places);
    free(doc->notices);
    free(doc->name);
    free(doc);
}

int text_read_bytes(const char *path, char **out, size_t *length)
{
    struct strbuf text = {0};
    int status = file_read(path, NULL, &text);

    if (status && errno == ENOENT)
        path_missing(path);
    *length = text.length;
    if (status)
        strbuf_free(&text);
    else
        *out = strbuf_take(&text);
    return status || !*out ? -1 : 0;
}
