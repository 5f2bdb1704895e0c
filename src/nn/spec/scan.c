/* Splits protobuf's text format into tokens by the rules of protoc's tokenizer
 * (tests/test_spec_text.c compares the two). */
#include "spec/scan.h"

#include "util/error.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Own tests of characters, since ctype.h depends on the locale. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

static int hex_value(char c)
{
    return is_digit(c) ? c - '0' : (c | 32) - 'a' + 10;
}

/* Returns the byte `offset` places ahead; 0 behind the end. */
static char peek(const struct scanner *s, size_t offset)
{
    return offset < (size_t)(s->end - s->at) ? s->at[offset] : '\0';
}

int scan_error(const struct scanner *s, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set("%s:%d:%d: %s", s->name, s->token.line, s->token.column, text);
}

struct scan_shown scan_show(const struct scan_token *token)
{
    struct scan_shown shown;
    const size_t most = 40;

    if (token->kind == SCAN_END)
        snprintf(shown.text, sizeof shown.text, "end of file");
    else if (token->kind == SCAN_STRING && token->length <= most)
        snprintf(shown.text, sizeof shown.text, "the string %.*s", (int)token->length, token->text);
    else if (token->length <= most)
        snprintf(shown.text, sizeof shown.text, "\"%.*s\"", (int)token->length, token->text);
    else
        snprintf(shown.text, sizeof shown.text, "\"%.*s...\"", (int)most, token->text);
    return shown;
}

bool scan_is(const struct scanner *s, const char *text)
{
    return s->token.kind != SCAN_STRING && s->token.length == strlen(text) &&
           memcmp(s->token.text, text, s->token.length) == 0;
}

/* Fails at a place inside the current token. */
static int error_at(struct scanner *s, const char *where, const char *what)
{
    s->token.column = (int)(where - s->line_begin) + 1;
    s->token.text = where;
    return scan_error(s, "%s", what);
}

static void skip_blanks(struct scanner *s)
{
    while (s->at < s->end) {
        if (*s->at == '#') {
            while (s->at < s->end && *s->at != '\n')
                s->at++;
        } else if (is_blank(*s->at)) {
            if (*s->at++ == '\n') {
                s->line++;
                s->line_begin = s->at;
            }
        } else {
            return;
        }
    }
}

/* Reads one escape; s->at is behind the backslash. */
static int read_escape(struct scanner *s)
{
    char c = peek(s, 0);
    size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : c == 'x' ? 1 : 0;

    if (c == '\0' || (!is_octal(c) && digits == 0 && strchr("abfnrtv\\?'\"", c) == NULL))
        return error_at(s, s->at - 1,
                        "invalid escape sequence in a string (write a path with / or \\\\)");
    for (size_t i = 1; i <= digits; i++)
        if (!is_hex(peek(s, i)))
            return error_at(s, s->at - 1,
                            c == 'x' ? "expected hexadecimal digits behind \\x"
                                     : "expected 4 hexadecimal digits behind \\u or 8 "
                                       "behind \\U");
    if (c == 'U') {
        uint32_t code = 0;

        for (size_t i = 1; i <= digits; i++)
            code = code * 16 + (uint32_t)hex_value(peek(s, i));
        if (code > 0x10ffff)
            return error_at(s, s->at - 1, "\\U beyond the last Unicode character, 0010ffff");
    }
    s->at += 1 + digits;
    return 0;
}

static int read_string(struct scanner *s)
{
    char quote = *s->at++;

    while (s->at < s->end && *s->at != quote) {
        if (*s->at == '\n')
            return error_at(
                s, s->token.text,
                "a string must end on the line it begins on; its closing quote is missing");
        if (*s->at == '\0')
            return error_at(s, s->at, "a zero byte inside a string");
        if (*s->at++ == '\\' && read_escape(s))
            return -1;
    }
    if (s->at == s->end)
        return error_at(s, s->token.text,
                        "expected the closing quote of a string, found end of file");
    s->at++;
    s->token.kind = SCAN_STRING;
    return 0;
}

static void skip_digits(struct scanner *s)
{
    while (is_digit(peek(s, 0)))
        s->at++;
}

static int read_fraction(struct scanner *s)
{
    skip_digits(s);
    if (peek(s, 0) == '.') {
        s->at++;
        s->token.kind = SCAN_FLOAT;
        skip_digits(s);
    }
    if (peek(s, 0) == 'e' || peek(s, 0) == 'E') {
        s->at++;
        if (peek(s, 0) == '-' || peek(s, 0) == '+')
            s->at++;
        if (!is_digit(peek(s, 0)))
            return error_at(s, s->at, "expected an exponent behind \"e\"");
        s->token.kind = SCAN_FLOAT;
        skip_digits(s);
    }
    if (peek(s, 0) == 'f' || peek(s, 0) == 'F') {
        s->at++;
        s->token.kind = SCAN_FLOAT;
    }
    return 0;
}

static int read_number(struct scanner *s)
{
    s->token.kind = SCAN_INTEGER;
    if (peek(s, 0) == '0' && (peek(s, 1) | 32) == 'x') {
        s->at += 2;
        if (!is_hex(peek(s, 0)))
            return error_at(s, s->at, "expected hexadecimal digits behind \"0x\"");
        while (is_hex(peek(s, 0)))
            s->at++;
    } else if (peek(s, 0) == '0' && is_digit(peek(s, 1))) {
        while (is_octal(peek(s, 0)))
            s->at++;
        if (is_digit(peek(s, 0)))
            return error_at(s, s->token.text,
                            "a number with a leading zero is octal and may not hold 8 or 9");
    } else if (read_fraction(s)) {
        return -1;
    }
    if (is_letter(peek(s, 0)))
        return error_at(s, s->at, "expected a space between a number and a name");
    if (peek(s, 0) == '.')
        return error_at(s, s->at,
                        s->token.kind == SCAN_FLOAT
                            ? "a second decimal point, or one behind the exponent"
                            : "a decimal point in a hexadecimal or octal number");
    return 0;
}

int scan_next(struct scanner *s)
{
    const char *before = s->token.text + s->token.length;
    bool after_name = s->token.kind == SCAN_IDENTIFIER;
    char c;

    skip_blanks(s);
    if (s->at - s->line_begin >= INT_MAX || s->line == INT_MAX)
        return error_set("%s: more lines or longer lines than can be counted", s->name);
    s->token.kind = SCAN_END;
    s->token.text = s->at;
    s->token.length = 0;
    s->token.line = s->line;
    s->token.column = (int)(s->at - s->line_begin) + 1;
    if (s->at == s->end)
        return 0;
    c = *s->at;
    if (is_letter(c)) {
        s->token.kind = SCAN_IDENTIFIER;
        while (is_letter(peek(s, 0)) || is_digit(peek(s, 0)))
            s->at++;
    } else if (is_digit(c) || (c == '.' && is_digit(peek(s, 1)))) {
        if (c == '.' && after_name && before == s->at)
            return scan_error(s, "expected a space between a name and a decimal point");
        if (read_number(s))
            return -1;
    } else if (c == '"' || c == '\'') {
        if (read_string(s))
            return -1;
    } else if ((unsigned char)c < ' ' || (unsigned char)c >= 127) {
        return scan_error(s,
                          "expected text, found the byte 0x%02x (only strings and comments may "
                          "hold other characters than ASCII)",
                          (unsigned)(unsigned char)c);
    } else {
        s->token.kind = SCAN_SYMBOL;
        s->at++;
    }
    s->token.length = (size_t)(s->at - s->token.text);
    return 0;
}

int scan_start(struct scanner *s, const char *name, const char *text, size_t length, bool *had_mark)
{
    *had_mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    if (*had_mark) {
        text += 3;
        length -= 3;
    }
    *s = (struct scanner){.name = name,
                          .at = text,
                          .begin = text,
                          .end = text + length,
                          .line_begin = text,
                          .line = 1,
                          .token = {.text = text, .line = 1, .column = 1}};
    return scan_next(s);
}

bool scan_integer(const struct scan_token *token, uint64_t most, uint64_t *value)
{
    const char *text = token->text, *end = text + token->length;
    unsigned base = 10;
    uint64_t sum = 0;

    if (token->length > 1 && text[0] == '0') {
        base = (text[1] | 32) == 'x' ? 16 : 8;
        text += base == 16 ? 2 : 1;
    }
    for (; text < end; text++) {
        uint64_t digit = (uint64_t)hex_value(*text);

        if (digit > most || sum > (most - digit) / base)
            return false;
        sum = sum * base + digit;
    }
    *value = sum;
    return true;
}

double scan_double(const struct scan_token *token)
{
    char small[64], *text = small;
    double value;

    /* strtod needs a terminated text; only long numbers need memory for it */
    if (token->length >= sizeof small) {
        text = malloc(token->length + 1);
        if (text == NULL)
            return strtod(token->text, NULL); /* safe: a non-digit follows every number */
    }
    memcpy(text, token->text, token->length);
    text[token->length] = '\0';
    value = strtod(text, NULL);
    if (text != small)
        free(text);
    return value;
}

static size_t put_utf8(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | (code >> 6));
        out[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | (code >> 12));
        out[1] = (char)(0x80 | ((code >> 6) & 63));
        out[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | (code >> 18));
    out[1] = (char)(0x80 | ((code >> 12) & 63));
    out[2] = (char)(0x80 | ((code >> 6) & 63));
    out[3] = (char)(0x80 | (code & 63));
    return 4;
}

static uint32_t read_hex(const char **at, const char *end, size_t most)
{
    uint32_t code = 0;

    for (size_t i = 0; i < most && *at < end && is_hex(**at); i++)
        code = code * 16 + (uint32_t)hex_value(*(*at)++);
    return code;
}

/* Reads four hexadecimal digits, or a surrogate pair of two \u in a row. */
static uint32_t read_u16(const char **at, const char *end)
{
    uint32_t high = read_hex(at, end, 4), low;
    const char *next = *at + 2;

    if (high < 0xd800 || high > 0xdbff || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return high;
    low = read_hex(&next, end, 4);
    if (low < 0xdc00 || low > 0xdfff)
        return high;
    *at = next;
    return 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
}

size_t scan_string(const struct scan_token *token, char *out)
{
    static const char names[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
    const char *at = token->text + 1, *end = token->text + token->length - 1;
    char *to = out;

    while (at < end) {
        const char *name;

        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        if (is_octal(*at)) {
            unsigned code = 0;

            for (int i = 0; i < 3 && at < end && is_octal(*at); i++)
                code = code * 8 + (unsigned)(*at++ - '0');
            *to++ = (char)code;
        } else if (*at == 'x') {
            at++;
            *to++ = (char)read_hex(&at, end, 2);
        } else if (*at == 'u') {
            at++;
            to += put_utf8(read_u16(&at, end), to);
        } else if (*at == 'U') {
            at++;
            to += put_utf8(read_hex(&at, end, 8), to);
        } else {
            name = strchr(names, *at);
            *to++ = name != NULL ? values[name - names] : *at;
            at++;
        }
    }
    return (size_t)(to - out);
}
