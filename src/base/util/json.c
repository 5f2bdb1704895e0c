/* A JSON writer. Objects take one line per member, arrays one line in all: readable by people, and
 * stable under diff. */
#include "util/json.h"

#include "util/error.h"
#include "util/file.h"
#include "util/utf8.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void new_line(struct json *json)
{
    if (!json->one_line)
        strbuf_printf(&json->text, "\n%*s", 2 * json->depth, "");
}

/* Writes the comma, and a line break in objects, between the previous member and the next. */
static void separate(struct json *json)
{
    int top = json->depth - 1;

    if (json->filled[top])
        strbuf_puts(&json->text, json->closing[top] == ']' ? ", " : ",");
    json->filled[top] = true;
    if (json->closing[top] == '}')
        new_line(json);
}

/* Begins any value: checks that a value may stand here, and separates array items. */
static void value_begin(struct json *json)
{
    if (json->depth == 0) {
        assert(!json->complete); /* one value at the top */
        json->complete = true;
    } else if (json->closing[json->depth - 1] == ']') {
        separate(json);
    } else {
        assert(json->after_key); /* a value in an object needs a key */
    }
    json->after_key = false;
}

static void open_scope(struct json *json, char opening, char closing)
{
    value_begin(json);
    assert(json->depth < JSON_MAX_DEPTH);
    strbuf_putc(&json->text, opening);
    json->closing[json->depth] = closing;
    json->filled[json->depth] = false;
    json->depth++;
}

static void close_scope(struct json *json, char closing)
{
    assert(json->depth > 0 && json->closing[json->depth - 1] == closing && !json->after_key);
    json->depth--;
    if (json->filled[json->depth] && closing == '}')
        new_line(json);
    strbuf_putc(&json->text, closing);
}

void json_object_begin(struct json *json)
{
    open_scope(json, '{', '}');
}

void json_object_end(struct json *json)
{
    close_scope(json, '}');
}

void json_array_begin(struct json *json)
{
    open_scope(json, '[', ']');
}

void json_array_end(struct json *json)
{
    close_scope(json, ']');
}

void json_quote(struct strbuf *text, const char *value)
{
    const unsigned char *s = (const unsigned char *)value;

    strbuf_putc(text, '"');
    while (*s) {
        int length = utf8_length((const char *)s);

        if (length == 0) {
            strbuf_puts(text, "\xef\xbf\xbd");
            length = 1;
        } else if (*s == '"' || *s == '\\') {
            strbuf_printf(text, "\\%c", *s);
        } else if (*s == '\n') {
            strbuf_puts(text, "\\n");
        } else if (*s == '\t') {
            strbuf_puts(text, "\\t");
        } else if (*s < 0x20 || *s == 0x7f) {
            strbuf_printf(text, "\\u%04x", *s);
        } else {
            strbuf_append(text, (const char *)s, (size_t)length);
        }
        s += length;
    }
    strbuf_putc(text, '"');
}

void json_key(struct json *json, const char *key)
{
    assert(json->depth > 0 && json->closing[json->depth - 1] == '}' && !json->after_key);
    separate(json);
    json_quote(&json->text, key);
    strbuf_puts(&json->text, ": ");
    json->after_key = true;
}

void json_plain(struct json *json, const char *text)
{
    value_begin(json);
    strbuf_puts(&json->text, text);
}

void json_string(struct json *json, const char *value)
{
    if (value == NULL) {
        json_plain(json, "null");
        return;
    }
    value_begin(json);
    json_quote(&json->text, value);
}

void json_int(struct json *json, int64_t value)
{
    value_begin(json);
    strbuf_printf(&json->text, "%" PRId64, value);
}

static void json_uint(struct json *json, uint64_t value)
{
    value_begin(json);
    strbuf_printf(&json->text, "%" PRIu64, value);
}

void json_double(struct json *json, double value)
{
    value_begin(json);
    if (isfinite(value))
        strbuf_printf(&json->text, "%.9g", value);
    else
        strbuf_puts(&json->text, "null");
}

/* Defines json_put_int and the like, each of which writes a key and a value. */
#define PUT(kind, type)                                                                            \
    void json_put_##kind(struct json *json, const char *key, type value)                           \
    {                                                                                              \
        json_key(json, key);                                                                       \
        json_##kind(json, value);                                                                  \
    }
PUT(string, const char *)
PUT(int, int64_t)
PUT(uint, uint64_t)
PUT(double, double)

void json_put_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_plain(json, value ? "true" : "false");
}

void json_put_object(struct json *json, const char *key)
{
    json_key(json, key);
    json_object_begin(json);
}

void json_put_array(struct json *json, const char *key)
{
    json_key(json, key);
    json_array_begin(json);
}

void json_put_ints(struct json *json, const char *key, int n, const int64_t *values)
{
    json_put_array(json, key);
    for (int i = 0; i < n; i++)
        json_int(json, values[i]);
    json_array_end(json);
}

void json_put_known(struct json *json, const char *key, double value)
{
    json_put_double(json, key, value >= 0 ? value : (double)NAN);
}

int json_text(struct json *json, const char **text)
{
    assert(json->complete && json->depth == 0);
    if (json->text.length == 0 || json->text.data[json->text.length - 1] != '\n')
        strbuf_putc(&json->text, '\n');
    if (strbuf_status(&json->text))
        return error_context("JSON report");
    *text = strbuf_text(&json->text);
    return 0;
}

int json_print(struct json *json, FILE *to)
{
    const char *text;
    int status = json_text(json, &text);

    if (!status && (fputs(text, to) == EOF || fflush(to) == EOF))
        status = error_set("cannot write the JSON report: %s", strerror(errno));
    json_free(json);
    return status;
}

int json_write_file(struct json *json, const char *path)
{
    const char *text;

    if (json_text(json, &text))
        return -1;
    return file_write(path, text, json->text.length);
}

void json_free(struct json *json)
{
    strbuf_free(&json->text);
    *json = (struct json){0};
}
