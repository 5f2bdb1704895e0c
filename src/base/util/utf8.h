/* UTF-8 in texts: names and paths may hold any bytes, but what is written for others may not. */
#ifndef POSEIDON_UTIL_UTF8_H
#define POSEIDON_UTIL_UTF8_H

/* Returns the bytes of the UTF-8 sequence at `s`, which ends in a NUL; 0 if there is none (also for
 * overlong forms and surrogates). */
int utf8_length(const char *s);

/* Returns the bytes of the byte-order mark at the beginning of a text: 3 or 0. */
int utf8_mark(const char *text);

#endif
