/* A text that grows by doubling. */
#include "util/strbuf.h"

#include "util/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `more` bytes and the NUL. */
static bool reserve(struct strbuf *text, size_t more)
{
    size_t capacity = text->capacity ? text->capacity : 64;
    char *data;

    if (text->failed)
        return false;
    if (more > SIZE_MAX / 4 || text->length > SIZE_MAX / 4) {
        text->failed = true;
        return false;
    }
    while (capacity < text->length + more + 1)
        capacity *= 2;
    if (capacity == text->capacity)
        return true;
    data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void strbuf_append(struct strbuf *text, const char *data, size_t length)
{
    if (!reserve(text, length))
        return;
    if (length > 0)
        memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = '\0';
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
    if (length < 0) {
        text->failed = true;
        return;
    }
    if (!reserve(text, (size_t)length))
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
