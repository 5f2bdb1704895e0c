/* What someone may have meant: the nearest known word, and where fields of Caffe's forks come from.
 */
#ifndef POSEIDON_SPEC_SUGGEST_H
#define POSEIDON_SPEC_SUGGEST_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* Keeps the word nearest to `word` among those offered, of which a third at most may differ; words
 * that only extend a known one by several letters are another. Case is ignored. */
struct suggest {
    const char *word;    /* borrowed */
    const char *nearest; /* borrowed; NULL while nothing near enough was offered */
    int distance;
};

struct suggest suggest_start(const char *word);
void suggest_offer(struct suggest *suggest, const char *candidate);

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other;
 * 64 for words too long to compare. */
int suggest_distance(const char *a, const char *b);

/* Writes a remark on an unknown field of a message into `out` ("" when there is nothing to say):
 * the nearest name, the fork of Caffe that has such a field, or the message it belongs into. outer:
 * the message around this one, or NULL. */
void suggest_field(const ProtobufCMessageDescriptor *message,
                   const ProtobufCMessageDescriptor *outer, const char *name, char *out,
                   size_t bytes);

/* The same for an enum: all values when there are few, else the nearest. */
void suggest_value(const ProtobufCEnumDescriptor *descriptor, const char *name, char *out,
                   size_t bytes);

#endif
