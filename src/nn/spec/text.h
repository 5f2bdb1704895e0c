/* Reads protobuf's text format into protobuf-c messages of any type.
 *
 * Files are accepted exactly if protoc accepts them, with two exceptions: a byte-order mark is
 * skipped, and `device_id: "0,1"` in a solver is kept in device_list. Errors read
 * "FILE:LINE:COLUMN: expected ..., found ...". Unknown fields and types are collected, one a line
 * with their count, so that one attempt shows them all. */
#ifndef POSEIDON_SPEC_TEXT_H
#define POSEIDON_SPEC_TEXT_H

#include "util/strbuf.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* A message read from a file, with the lines of its parts. */
struct text_doc;

/* Reads a file. The error for a missing file is "PATH: no such file" and the current folder. */
int text_read_file(const char *path, const ProtobufCMessageDescriptor *descriptor,
                   struct text_doc **out);

/* Returns 0 if a layer type exists, else -1 with a message. */
typedef int text_check_type(const char *type);

/* Reads a file with a check of layer types. Unknown fields mostly belong to layers of forks, so the
 * error then names all types that check_type refuses, too. check_type may be NULL. drop_idle:
 * leaves out forks' fields that only affect speed or files, with a notice. */
int text_read_file_of(const char *path, const ProtobufCMessageDescriptor *descriptor,
                      text_check_type *check_type, bool drop_idle, struct text_doc **out);

/* Reads `length` bytes of `text`; `name` stands for the file in messages. */
int text_read_string(const char *name, const char *text, size_t length,
                     const ProtobufCMessageDescriptor *descriptor, struct text_doc **out);

/* Returns the message, owned by the document. The caller may change it, using protobuf-c's default
 * allocator (malloc). */
ProtobufCMessage *text_root(const struct text_doc *doc);

/* Returns the first line of a part of the message, from 1; 0 for parts that were not read from the
 * file, and if doc is NULL. Parts are messages; in a net also the names in `input`, and
 * &net->n_input_dim for the first input_dim. */
int text_line(const struct text_doc *doc, const void *message);

/* Sets the line of `message`, for messages that replace others. */
int text_set_line(struct text_doc *doc, const void *message, int line);

/* Returns the file's name as given. */
const char *text_name(const struct text_doc *doc);

/* Returns remarks on the file for the user, one a line, each ending in a newline; "" if none. */
const char *text_notices(const struct text_doc *doc);

/* Adds a remark (printf style, no newline). */
int text_add_notice(struct text_doc *doc, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds the line PLACE TAIL about an unsupported part of a net, or counts the line that has this
 * tail already. Lines take up to `room` bytes; the first line is always whole. */
void text_refuse(struct strbuf *lines, size_t room, const char *place, const char *tail);

/* Adds the line "PLACE (TYPE): MESSAGE" if check_type does not know the layer's type. */
void text_refuse_type(struct strbuf *lines, const char *place, const char *type,
                      text_check_type *check_type);

/* Sets this thread's error to the lines, followed by `stop` if not "", and for a net by a pointer
 * to help. Frees the lines. Returns -1, or 0 if there are no lines. */
int text_refusals_end(struct strbuf *lines, const char *stop, bool of_net);

/* Frees the document with its message; NULL is allowed. */
void text_free(struct text_doc *doc);

/* Place of a part for messages: "FILE:LINE", or "FILE" if the line is unknown, followed by ": layer
 * 'NAME'" if a name is given. doc NULL: "net" instead of a file. */
struct text_place {
    char text[512];
};
struct text_place text_place(const struct text_doc *doc, const void *part, const char *layer);

/* Returns the place of a line in a file; line 0: unknown. */
struct text_place text_place_of(const char *file, int line, const char *layer);

#endif
