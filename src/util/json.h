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
    bool one_line;                /* as logs want it: not laid out over lines. The caller's */
    int depth;                    /* open objects and arrays */
    char closing[JSON_MAX_DEPTH]; /* '}' or ']' of each */
    bool filled[JSON_MAX_DEPTH];  /* it has a member already */
    bool after_key;               /* a value must follow */
    bool complete;                /* the one top-level value was written */
};

void json_object_begin(struct json *json);
void json_object_end(struct json *json);
void json_array_begin(struct json *json);
void json_array_end(struct json *json);
void json_key(struct json *json, const char *key);

/* Bytes that are not UTF-8 (a path may hold any) become U+FFFD. NULL is written as null. */
void json_string(struct json *json, const char *value);
void json_int(struct json *json, int64_t value);
void json_uint(struct json *json, uint64_t value);
/* A number, true, false or null, as text. */
void json_plain(struct json *json, const char *text);
/* Nine digits, enough for any float; nan and the infinities, which JSON lacks, become null. */
void json_double(struct json *json, double value);

/* A key and its value. json_put_known: a figure that is negative where it is not known becomes
 * null. */
void json_put_string(struct json *json, const char *key, const char *value);
void json_put_int(struct json *json, const char *key, int64_t value);
void json_put_uint(struct json *json, const char *key, uint64_t value);
void json_put_double(struct json *json, const char *key, double value);
void json_put_known(struct json *json, const char *key, double value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_ints(struct json *json, const char *key, int n, const int64_t *values);

/* A key and the beginning of its value, whose end is the caller's. */
void json_put_object(struct json *json, const char *key);
void json_put_array(struct json *json, const char *key);

/* Appends the value of a string as documents have it, to a text that is composed by hand. */
void json_quote(struct strbuf *text, const char *value);

/* The finished document in *text, ending in a newline; borrowed until the writer changes or is
 * freed. It must be complete. */
int json_text(struct json *json, const char **text);

/* The finished document to a stream, and frees it; or as a file that appears whole or not at all.
 */
int json_print(struct json *json, FILE *to);
int json_write_file(struct json *json, const char *path);

void json_free(struct json *json);

#endif
