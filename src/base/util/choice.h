/* Option words for the members of an enumeration. An array has the word of member i at index i, and
 * ends with NULL. Not collective. */
#ifndef POSEIDON_UTIL_CHOICE_H
#define POSEIDON_UTIL_CHOICE_H

#include <stddef.h>

/* Returns the index of `text` among the words, or -1. */
int choice_find(const char *const *words, const char *text);

/* Writes "auto, on or off" to `buffer`, cut at `size` bytes. Returns buffer. */
const char *choice_list(const char *const *words, char *buffer, size_t size);

/* Sets *out to the index of `text`, or fails: "--direct=x: expected auto, on or off". */
int choice_parse(const char *option, const char *text, const char *const *words, int *out);

#endif
