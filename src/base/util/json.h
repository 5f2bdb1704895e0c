/* Writes JSON piece by piece into a growing text.
 *
 *     struct json json = {0};
 *     json_object_begin(&json);
 *     json_key(&json, "ranks");
 *     json_int(&json, 4);
 *     json_object_end(&json);
 *     status = json_write_file(&json, "summary.json");
 *     json_free(&json);
 *
 * Wrong nesting (a value without a key in an object, an end without its begin) is the caller's
 * mistake: an assertion. Lack of memory is remembered and reported by the function that takes the
 * text out. Not thread-safe. */
#ifndef POSEIDON_UTIL_JSON_H
#define POSEIDON_UTIL_JSON_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 32

/* All zero is an empty document. */
struct json {
    struct strbuf text;
    bool one_line;                /* no line breaks, for logs; set by the caller */
    int depth;                    /* open objects and arrays */
    char closing[JSON_MAX_DEPTH]; /* '}' or ']' of each open object or array */
    bool filled[JSON_MAX_DEPTH];  /* the open object or array already has a member */
    bool after_key;               /* a key was written, and its value must follow */
    bool complete;                /* the one top-level value was written */
};

void json_object_begin(struct json *json);
void json_object_end(struct json *json);
void json_array_begin(struct json *json);
void json_array_end(struct json *json);
void json_key(struct json *json, const char *key);

/* Writes a string, or null for NULL. Bytes that are not UTF-8, as in some paths, become U+FFFD. */
void json_string(struct json *json, const char *value);
void json_int(struct json *json, int64_t value);
/* Writes a number, true, false or null that is given as text. */
void json_plain(struct json *json, const char *text);
/* Writes nine digits, enough for any float. NaN and infinity, which JSON lacks, become null. */
void json_double(struct json *json, double value);

/* Write a key and its value. json_put_known writes null for a negative (unknown) value. */
void json_put_string(struct json *json, const char *key, const char *value);
void json_put_int(struct json *json, const char *key, int64_t value);
void json_put_uint(struct json *json, const char *key, uint64_t value);
void json_put_double(struct json *json, const char *key, double value);
void json_put_known(struct json *json, const char *key, double value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_ints(struct json *json, const char *key, int n, const int64_t *values);

/* Write a key and begin its object or array, which the caller ends. */
void json_put_object(struct json *json, const char *key);
void json_put_array(struct json *json, const char *key);

/* Appends `value` as a JSON string, with quotes and escapes, to a text that is composed by hand. */
void json_quote(struct strbuf *text, const char *value);

/* Sets *text to the finished document, which must be complete and ends in a newline. The text is
 * borrowed until the writer changes or is freed. */
int json_text(struct json *json, const char **text);

/* json_print writes the finished document to a stream and frees the writer. json_write_file writes
 * it as a file that appears whole or not at all. */
int json_print(struct json *json, FILE *to);
int json_write_file(struct json *json, const char *path);

void json_free(struct json *json);

#endif
