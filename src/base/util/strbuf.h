/* A growing text or byte array. A text remembers that memory ran out, so that a caller can compose
 * a whole text without checking every call, and check once at its end. */
#ifndef POSEIDON_UTIL_STRBUF_H
#define POSEIDON_UTIL_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty text: `struct strbuf text = {0};`. */
struct strbuf {
    size_t length; /* without the NUL */
    union {
        char *data;     /* NUL-terminated; NULL while nothing was appended. Owned */
        uint8_t *bytes; /* data as bytes; strbuf_reserve adds no NUL */
    };
    size_t capacity; /* bytes allocated */
    bool failed;     /* memory ran out: the text is incomplete */
};

/* Makes room for `capacity` bytes and keeps the first `length`; the message names `what`. */
int strbuf_reserve(struct strbuf *buffer, size_t capacity, const char *what);

/* Adds bytes; the message names `what`. */
int strbuf_add(struct strbuf *buffer, const void *data, size_t length, const char *what);

void strbuf_append(struct strbuf *text, const char *data, size_t length);
void strbuf_puts(struct strbuf *text, const char *string);
void strbuf_putc(struct strbuf *text, char c);
void strbuf_printf(struct strbuf *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void strbuf_vprintf(struct strbuf *text, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Returns true if a line of the text ends in `tail`, and counts it in the text: " (2 times)"
 * follows that line's tail from then on. */
bool strbuf_count_line(struct strbuf *text, const char *tail);

/* Returns the text so far, "" when empty; borrowed until the next change. */
const char *strbuf_text(const struct strbuf *text);

/* Returns 0, or -1 with a message if memory ran out. */
int strbuf_status(const struct strbuf *text);

/* Empties the text and keeps its memory. */
void strbuf_clear(struct strbuf *text);

/* Hands the text over to the caller, who frees it; NULL with a message when memory ran out. */
char *strbuf_take(struct strbuf *text);

void strbuf_free(struct strbuf *text);

/* Append to the text in a buffer of `size` bytes and cut what does not fit. buffer_printf appends
 * formatted text; buffer_list appends an item, with ", " before all but the first. */
void buffer_printf(char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void buffer_list(char *buffer, size_t size, const char *item);

#endif
