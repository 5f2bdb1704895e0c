/* Values that all ranks of a run must have been given alike, as a list of lines "name, value".
 * agree_alike compares the ranks' lists; the functions here name the first line that differs.
 *
 * Ranks with different solvers, nets or options would silently train a mixture, or wait for
 * messages that never come. */
#ifndef POSEIDON_UTIL_AGREEMENT_H
#define POSEIDON_UTIL_AGREEMENT_H

#include "util/strbuf.h"

/* Appends one line. `name` is the value's name in messages ("max_iter", "--comm") and must not hold
 * a tab or newline. Control characters in the value become '?'. `list` remembers if memory runs
 * out. Not collective. */
void agreement_put(struct strbuf *list, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends the first name in which two lists differ, with both values, to `out`: "base_lr: 0.01
 * there, 0.1 here". Appends nothing if the lists are equal. Not collective. */
void agreement_difference(const char *there, const char *here, struct strbuf *out);

/* Sets the message for ranks' lists that differ, `room` bytes each: the first name that differs,
 * every rank's value, and the advice. Returns -1. Not collective. */
int agreement_describe(const char *lists, size_t room, int nranks, const char *advice);

/* Advice when ranks of the same program were started differently. */
#define AGREEMENT_START "start all ranks with the same files and the same command line"

#endif
