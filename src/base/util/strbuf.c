/* Texts and byte arrays whose memory grows by half. */
#include "util/strbuf.h"

#include "util/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int strbuf_reserve(struct strbuf *buffer, size_t capacity, const char *what)
{
    enum { LEAST = 64 };
    size_t larger = buffer->capacity + buffer->capacity / 2;
    size_t wanted = capacity > larger ? capacity : larger;
    char *grown;

    if (capacity <= buffer->capacity && buffer->data)
        return 0;
    wanted = wanted > LEAST ? wanted : LEAST;
    grown = realloc(buffer->data, wanted);
    if (!grown)
        return error_memory(wanted, what);
    buffer->data = grown;
    buffer->capacity = wanted;
    return 0;
}

int strbuf_add(struct strbuf *buffer, const void *data, size_t length, const char *what)
{
    if (length >= SIZE_MAX - buffer->length)
        return error_memory(SIZE_MAX, what);
    if (strbuf_reserve(buffer, buffer->length + length + 1, what))
        return -1;
    if (length > 0)
        memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
    return 0;
}

void strbuf_append(struct strbuf *text, const char *data, size_t length)
{
    text->failed = text->failed || strbuf_add(text, data, length, "a text");
}

void strbuf_puts(struct strbuf *text, const char *string)
{
    strbuf_append(text, string, strlen(string));
}

void strbuf_putc(struct strbuf *text, char c)
{
    strbuf_append(text, &c, 1);
}

void strbuf_vprintf(struct strbuf *text, const char *format, va_list args)
{
    va_list again;
    int length;

    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    text->failed = text->failed || length < 0 ||
                   strbuf_reserve(text, text->length + (size_t)length + 1, "a text");
    if (text->failed)
        return;
    vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
    text->length += (size_t)length;
}

void strbuf_printf(struct strbuf *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    strbuf_vprintf(text, format, args);
    va_end(args);
}

bool strbuf_count_line(struct strbuf *text, const char *tail)
{
    for (char *at = text->data; at && (at = strstr(at, tail));) {
        unsigned count = 1;
        int read = 0;

        at += strlen(tail);
        if (*at == ' ' && sscanf(at, " (%u times)%n", &count, &read) < 1)
            continue;
        if (at[read] == '\n' || !at[read]) {
            struct strbuf counted = {0};

            strbuf_append(&counted, text->data, (size_t)(at - text->data));
            strbuf_printf(&counted, " (%u times)%s", count + 1, at + read);
            strbuf_free(text);
            *text = counted;
            return true;
        }
    }
    return false;
}

const char *strbuf_text(const struct strbuf *text)
{
    return text->data ? text->data : "";
}

int strbuf_status(const struct strbuf *text)
{
    if (text->failed)
        return error_set("out of memory: a text of more than %zu bytes could not be composed",
                         text->length);
    return 0;
}

void strbuf_clear(struct strbuf *text)
{
    text->length = 0;
    text->failed = false;
    if (text->data)
        text->data[0] = '\0';
}

char *strbuf_take(struct strbuf *text)
{
    char *data;

    strbuf_append(text, "", 0); /* an empty text is "" too */
    if (strbuf_status(text)) {
        strbuf_free(text);
        return NULL;
    }
    data = text->data;
    *text = (struct strbuf){0};
    return data;
}

void strbuf_free(struct strbuf *text)
{
    free(text->data);
    *text = (struct strbuf){0};
}

void buffer_printf(char *buffer, size_t size, const char *format, ...)
{
    size_t used = strlen(buffer);
    va_list args;

    va_start(args, format);
    vsnprintf(buffer + used, size - used, format, args);
    va_end(args);
}

void buffer_list(char *buffer, size_t size, const char *item)
{
    buffer_printf(buffer, size, "%s%s", *buffer ? ", " : "", item);
}
