/* Between the files that read texts. */
#ifndef POSEIDON_SPEC_TEXT_INTERNAL_H
#define POSEIDON_SPEC_TEXT_INTERNAL_H

#include "spec/text.h"

/* An empty document around `root`, which it takes over on success. */
int doc_create(const char *name, ProtobufCMessage *root, struct text_doc **out);

/* All bytes of a file; freed by the caller. */
int text_read_bytes(const char *path, char **out, size_t *length);

#endif
