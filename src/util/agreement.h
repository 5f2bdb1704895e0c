/* What all ranks of a run must have been given alike, as a list of lines "name, value", and the
 * comparison that names the first one that differs.
 *
 * Ranks with different solvers, nets or options would train something that nobody asked for, or
 * wait for messages that never come; neither says why. */
#ifndef POSEIDON_UTIL_AGREEMENT_H
#define POSEIDON_UTIL_AGREEMENT_H

#include <mpi.h>

#include "util/strbuf.h"

#include <stdbool.h>

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

/* The first line where `mine` departs from rank 0's list: its number, and in *at the line whose
 * name tells what differs. INT_MAX: the lists are the same. Not collective, as are the next three.
 */
int agreement_find(const char *root, const char *mine, const char **at);

/* The name of a line, with its tab. */
void agreement_copy_name(const char *line, char out[AGREEMENT_NAME]);

/* The value of that name, among the list's lines from number `line` on. */
void agreement_copy_value(const char *list, int line, const char *name, char out[AGREEMENT_VALUE]);

/* Sets the message of a name and the ranks' values of it, AGREEMENT_VALUE bytes each, and what to
 * do; -1. */
int agreement_describe(const char *name, const char *values, int nranks, const char *advice);

/* Of the ranks' texts, `room` bytes each: whether a lower rank has the same; and which ranks have
 * the same as rank `first`, "WORD 2" or "WORDs 0-3, 8". Returns how many. */
bool agreement_is_said(const char *texts, size_t room, int rank);
int agreement_put_ranks(struct strbuf *out, const char *word, const char *texts, size_t room,
                        int nranks, int first);

/* What to do where it is the ranks of our own program that differ. */
#define AGREEMENT_START "start all ranks with the same files and the same command line"

/* Compares the lists of all ranks. Returns 0 where they are the same; else -1 on all ranks, with
 * one message: the first name that differs, and which ranks have which value of it
 * ("base_lr differs: 0.01 on ranks 0, 1, 3; 0.1 on rank 2; ..."). Costs one broadcast of the
 * list and one reduction of a few bytes where all are the same. Collective. */
int agreement_check(MPI_Comm comm, const struct strbuf *list, const char *advice);

#endif
