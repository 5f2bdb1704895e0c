/* What all ranks of a run must have been given alike, as a list of lines "name, value"
 * (agree_alike compares them), and the words that name the first line that differs.
 *
 * Ranks with different solvers, nets or options would train something that nobody asked for, or
 * wait for messages that never come; neither says why. */
#ifndef POSEIDON_UTIL_AGREEMENT_H
#define POSEIDON_UTIL_AGREEMENT_H

#include "util/strbuf.h"

/* Appends one line. `name` is what a message calls the value ("max_iter", "--comm") and may hold no
 * tab or newline; those of a value become '?'. Lack of memory is remembered by `list`. Not
 * collective. */
void agreement_put(struct strbuf *list, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The first name in which two lists differ and both values, "base_lr: 0.01 there, 0.1 here", into
 * `out`, which stays empty where they are the same. Not collective. */
void agreement_difference(const char *there, const char *here, struct strbuf *out);

/* Of the ranks' lists, `room` bytes each, some of which differ, sets the message of the first name
 * that does, of the ranks' values of it, and of what to do; -1. Not collective. */
int agreement_describe(const char *lists, size_t room, int nranks, const char *advice);

/* What to do where it is the ranks of our own program that differ. */
#define AGREEMENT_START "start all ranks with the same files and the same command line"

#endif
