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

/* ---- of a comparison ---- */

enum {
    AGREEMENT_NAME = 1024, /* bytes of a message's name; no layer's is nearly that long */
    AGREEMENT_VALUE = 128, /* longer values lose their middle in messages */
};

/* Where `mine` departs from rank 0's list: in how many bytes the line begins, up to which both are
 * the same, and the name of what differs. INT_MAX: the lists are the same. Not collective, as is
 * the next one. */
int agreement_find(const char *root, const char *mine, char name[AGREEMENT_NAME]);

/* The value of that name among the lines. */
void agreement_copy_value(const char *lines, const char *name, char out[AGREEMENT_VALUE]);

/* Sets the message of a name and the ranks' values of it, AGREEMENT_VALUE bytes each, and what to
 * do; -1. */
int agreement_describe(const char *name, const char *values, int nranks, const char *advice);

/* What to do where it is the ranks of our own program that differ. */
#define AGREEMENT_START "start all ranks with the same files and the same command line"

#endif
