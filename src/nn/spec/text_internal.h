/* Shared by the files that read texts. */
#ifndef POSEIDON_SPEC_TEXT_INTERNAL_H
#define POSEIDON_SPEC_TEXT_INTERNAL_H

#include "spec/caffe.pb-c.h"
#include "spec/scan.h"
#include "spec/text.h"
#include "util/strbuf.h"

#include <stdint.h>

#define DEPTH_MOST 64

/* Bytes of a list of refusals: fields leave room for types, and types for the last error. */
#define FIELDS_ROOM   1600
#define REFUSALS_ROOM 3200

struct reader {
    struct scanner scan;
    struct text_doc *doc;
    int depth;
    const ProtobufCMessageDescriptor *stack[DEPTH_MOST + 1]; /* open messages, outermost first */
    const ProtobufCMessage *layer; /* last message opened directly below the root */
    text_check_type *check_type;   /* may be NULL */
    bool drop_idle;
    int line_of[DEPTH_MOST + 1]; /* lines on which the messages of `stack` begin */
    int field_line;              /* line of the current field's name */
    struct strbuf refused;       /* lines on unknown fields and on types of the old form */
};

/* Value of a field; the field's type selects the member. */
union field_value {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f;
    double d;
    protobuf_c_boolean truth;
    int number; /* for enums */
    char *string;
    ProtobufCBinaryData bytes;
    ProtobufCMessage *message;
};

/* Creates an empty document around `root` and takes over `root` on success. */
int doc_create(const char *name, ProtobufCMessage *root, struct text_doc **out);

/* Reads all bytes of a file. The caller frees *out, also after a failure. */
int text_read_bytes(const char *path, struct strbuf *out);

/* Adds a line to `refused`: PLACE TAIL, for the unknown field or type at a token and its layer. */
void reader_refuse(struct reader *r, const struct scan_token *at, size_t room, const char *tail);

/* ---- values (text_value.c) ---- */

/* Steps over a symbol if it comes next. *taken: true if it came. */
int reader_take(struct reader *r, const char *symbol, bool *taken);

/* Fails with "expected `expected`, found TOKEN" for a field. remark: the message's end, or "". */
int reader_wrong_value(struct reader *r, const ProtobufCFieldDescriptor *field,
                       const char *expected, const char *remark);

/* Reads the value of a field that is no message and steps over it. The caller frees strings. */
int reader_scalar(struct reader *r, const ProtobufCFieldDescriptor *field, union field_value *out);

#endif
