/* Words for the members of an enumeration, as options take them: an array with the word of member i
 * at place i, and NULL behind the last one. Not collective. */
#ifndef POSEIDON_UTIL_CHOICE_H
#define POSEIDON_UTIL_CHOICE_H

#include <stddef.h>

/* The place of `text` among the words; -1: it is none of them. */
int choice_find(const char *const *words, const char *text);

/* "auto, on or off". Returns buffer; what does not fit is cut. */
const char *choice_list(const char *const *words, char *buffer, size_t size);

/* Puts the place of `text` into *out, or fails: "--direct=x: expected auto, on or off". */
int choice_parse(const char *option, const char *text, const char *const *words, int *out);

/* The same where capitals do not count. */
int choice_parse_caseless(const char *option, const char *text, const char *const *words, int *out);

#endif
