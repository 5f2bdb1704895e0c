/* Between the files that read texts. */
#ifndef POSEIDON_SPEC_TEXT_INTERNAL_H
#define POSEIDON_SPEC_TEXT_INTERNAL_H

#include "spec/caffe.pb-c.h"
#include "spec/scan.h"
#include "spec/text.h"
#include "util/strbuf.h"

#include <stdint.h>

#define DEPTH_MOST 64

/* Bytes of a list of refusals: fields leave room for types, and both for what stopped the reading.
 */
#define FIELDS_ROOM   1600
#define REFUSALS_ROOM 3200

struct reader {
    struct scanner scan;
    struct text_doc *doc;
    int depth;
    const ProtobufCMessageDescriptor *stack[DEPTH_MOST + 1]; /* open messages, outermost first */
    const ProtobufCMessage *layer; /* the last one opened below the root */
    text_check_type *check_type;   /* or NULL */
    bool drop_idle;
    int line_of[DEPTH_MOST + 1]; /* where they were opened */
    int field_line;              /* of the name of the field being read */
    struct strbuf refused;       /* unknown fields, and types of the old form */
};

/* What a field can hold; the member that its type names is in use. */
union field_value {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f;
    double d;
    protobuf_c_boolean truth;
    int number; /* of an enum */
    char *string;
    ProtobufCBinaryData bytes;
    ProtobufCMessage *message;
};

/* An empty document around `root`, which it takes over on success. */
int doc_create(const char *name, ProtobufCMessage *root, struct text_doc **out);

/* All bytes of a file; to be freed in either case. */
int text_read_bytes(const char *path, struct strbuf *out);

/* Notes what is unknown at a token. */
void reader_refuse(struct reader *r, const struct scan_token *at, size_t room, const char *tail);

/* ---- values (text_value.c) ---- */

/* Steps over a symbol if it comes next; *was says whether. */
int reader_take(struct reader *r, const char *symbol, bool *was);

/* Fails: `expected` was, and the present token was found. remark: what follows it, or "". */
int reader_wrong_value(struct reader *r, const ProtobufCFieldDescriptor *field,
                       const char *expected, const char *remark);

/* The value of a field that is no message; steps over it. Strings are the caller's to free. */
int reader_scalar(struct reader *r, const ProtobufCFieldDescriptor *field, union field_value *out);

#endif
