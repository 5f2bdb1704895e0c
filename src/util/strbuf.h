/* A text that grows. Failing to get memory is remembered, so that a whole text can be composed
 * without checking every call and is checked once at its end. */
#ifndef POSEIDON_UTIL_STRBUF_H
#define POSEIDON_UTIL_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* All zero is an empty text: `struct strbuf text = {0};`. */
struct strbuf {
    char *data;      /* NUL-terminated; NULL while nothing was appended. Owned */
    size_t length;   /* without the NUL */
    size_t capacity; /* bytes allocated */
    bool failed;     /* memory ran out: the text is incomplete */
};

void strbuf_append(struct strbuf *text, const char *data, size_t length);
void strbuf_puts(struct strbuf *text, const char *string);
void strbuf_putc(struct strbuf *text, char c);
void strbuf_printf(struct strbuf *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void strbuf_vprintf(struct strbuf *text, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* The text so far, "" when empty; borrowed until the next change. */
const char *strbuf_text(const struct strbuf *text);

/* 0, or -1 with a message when memory ran out on the way. */
int strbuf_status(const struct strbuf *text);

/* Empties the text and keeps its memory. */
void strbuf_clear(struct strbuf *text);

/* Hands the text over to the caller, who frees it; NULL with a message when memory ran out. */
char *strbuf_take(struct strbuf *text);

void strbuf_free(struct strbuf *text);

#endif
