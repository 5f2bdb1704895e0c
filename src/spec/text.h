/* Reads protobuf's text format into protobuf-c messages of any type.
 *
 * The grammar is protoc's, so a file is accepted here exactly when protoc accepts it, but for two
 * kindnesses: a byte-order mark is skipped, and `device_id: "0,1"` in a solver is kept in
 * device_list. Messages read "FILE:LINE:COLUMN: what was expected, what was found"; unknown fields
 * and types are collected, one a line with their number, so that one attempt shows them all. */
#ifndef POSEIDON_SPEC_TEXT_H
#define POSEIDON_SPEC_TEXT_H

#include "util/strbuf.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* A message as read from a file, and where its parts stood there. */
struct text_doc;

/* Reads a file. The message of a missing file is "PATH: no such file" and the current
 * folder. */
int text_read_file(const char *path, const ProtobufCMessageDescriptor *descriptor,
                   struct text_doc **out);

/* Returns 0 if a layer type exists, else -1 with a message. */
typedef int text_check_type(const char *type);

/* text_read_file with a check of layer types: unknown fields mostly belong to layers of forks, and
 * the message then names all types that check_type refuses. check_type may be NULL. drop_idle:
 * fields of forks that are about speed or files alone are left out, with a notice. */
int text_read_file_of(const char *path, const ProtobufCMessageDescriptor *descriptor,
                      text_check_type *check_type, bool drop_idle, struct text_doc **out);

/* Reads `length` bytes of `text`; `name` stands for the file in messages. */
int text_read_string(const char *name, const char *text, size_t length,
                     const ProtobufCMessageDescriptor *descriptor, struct text_doc **out);

/* The message. It belongs to the document and may be changed, with protobuf-c's default allocator
 * (malloc) for whatever is added or taken out. */
ProtobufCMessage *text_root(const struct text_doc *doc);

/* The line, from 1, on which this part of the message began; 0 for parts that were not read from
 * the file, and for doc NULL. Parts are messages, and of a net also the names in its `input` and,
 * as &net->n_input_dim, the first input_dim. */
int text_line(const struct text_doc *doc, const void *message);

/* Says that `message` began on that line, for messages that take the place of others. */
int text_set_line(struct text_doc *doc, const void *message, int line);

/* The file's name as it was given. */
const char *text_name(const struct text_doc *doc);

/* Remarks on the file that its user should see, one a line, each ending in a newline; "" if none.
 */
const char *text_notices(const struct text_doc *doc);

/* Adds a remark (printf style, no newline). */
int text_add_notice(struct text_doc *doc, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Of what this program lacks of a net: adds the line PLACE TAIL, or counts the one with this tail.
 * The lines take up to `room` bytes, but the first one is whole. */
void text_refuse(struct strbuf *lines, size_t room, const char *place, const char *tail);

/* Adds the line "PLACE (TYPE): MESSAGE" unless check_type knows the type of the layer there. */
void text_refuse_type(struct strbuf *lines, const char *place, const char *type,
                      text_check_type *check_type);

/* Makes lines, if there are any, this thread's error message, followed by `stop`, if that is not
 * "", and for a net by where its user finds the way out. Frees them. Returns -1, or 0 without
 * lines. */
int text_refusals_end(struct strbuf *lines, const char *stop, bool of_net);

/* Frees the document with its message; NULL is allowed. */
void text_free(struct text_doc *doc);

/* For messages: "FILE:LINE" of a part, or "FILE" where its line is not known, and behind that,
 * where a name is given, ": layer 'NAME'". doc NULL: a "net" of no file. */
struct text_place {
    char text[512];
};
struct text_place text_place(const struct text_doc *doc, const void *part, const char *layer);

/* The same of that line, 0 where it is not known. */
struct text_place text_place_of(const char *file, int line, const char *layer);

#endif
