/* Splits protobuf's text format into tokens.
 *
 * The scanner looks at one token at a time and never copies: a token points into the text. It
 * accepts the same text files as protoc's tokenizer ("1f" is a number, "#" starts a comment) and
 * refuses the rest with FILE:LINE:COLUMN, both counted from 1. */
#ifndef POSEIDON_SPEC_SCAN_H
#define POSEIDON_SPEC_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scan_kind {
    SCAN_END,        /* end of the text */
    SCAN_IDENTIFIER, /* letters, digits, "_", not beginning with a digit */
    SCAN_INTEGER,    /* decimal, 0x hexadecimal, or octal with a leading zero; no sign */
    SCAN_FLOAT,      /* with a point, an exponent, or an "f" at the end; no sign */
    SCAN_STRING,     /* one quoted string, quotes included, escapes still in it */
    SCAN_SYMBOL      /* any other single character */
};

struct scan_token {
    enum scan_kind kind;
    const char *text; /* points into the scanned text, not terminated */
    size_t length;
    int line, column; /* position of the first byte */
};

struct scanner {
    const char *name; /* file's name for messages; borrowed */
    const char *at, *end;
    const char *begin;      /* begin of the text */
    const char *line_begin; /* begin of the line that holds `at` */
    int line;
    struct scan_token token; /* current token */
};

/* Starts at the first token of `length` bytes of `text`, which must stay in place. Skips a
 * byte-order mark and sets *had_mark if there was one. */
int scan_start(struct scanner *scanner, const char *name, const char *text, size_t length,
               bool *had_mark);

/* Moves to the next token. */
int scan_next(struct scanner *scanner);

/* Returns true if the current token is this symbol or word. */
bool scan_is(const struct scanner *scanner, const char *text);

/* Sets an error behind the "FILE:LINE:COLUMN: " of the current token. Returns -1. */
int scan_error(const struct scanner *scanner, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A token as shown in messages, cut to a readable length; "end of file" at the end. */
struct scan_shown {
    char text[64];
};
struct scan_shown scan_show(const struct scan_token *token);

/* Reads the value of an integer token; false if it exceeds `most`. */
bool scan_integer(const struct scan_token *token, uint64_t most, uint64_t *value);

/* Returns the value of an integer (decimal) or float token. */
double scan_double(const struct scan_token *token);

/* Resolves the escapes of a string token into `out`, which holds token->length bytes; returns the
 * number written. */
size_t scan_string(const struct scan_token *token, char *out);

#endif
