/* What of a text is UTF-8: names and paths may hold any bytes, what is written for others may not.
 */
#ifndef POSEIDON_UTIL_UTF8_H
#define POSEIDON_UTIL_UTF8_H

/* Bytes of the sequence that begins at `s`, which ends in a NUL; 0 where there is none (overlong
 * forms and surrogates too). */
int utf8_length(const char *s);

/* Bytes of the byte-order mark at the beginning of a text: 3 or 0. */
int utf8_mark(const char *text);

#endif
