/* Ranks in messages: a few by name and the number of the rest, or all that have the same text. */
#ifndef POSEIDON_UTIL_RANKS_H
#define POSEIDON_UTIL_RANKS_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

enum { RANKS_NAMED = 8 }; /* most ranks that a list names */

struct topology;

/* Appends "rank 3 on n3"; without topology "rank 3". */
void ranks_put(struct strbuf *text, const struct topology *topology, int rank);

/* A list "3 on n3, 5 on n5 and 12 more", composed rank by rank. */
struct ranks {
    struct strbuf *text; /* text to which the list is appended. Borrowed */
    int count;           /* number of ranks so far, named or not; begins at 0 */
};

/* Counts one more rank. Returns true if the caller is to name the rank; a comma is then written. */
bool ranks_next(struct ranks *ranks);

/* Counts one more rank, and names it by its number and host (NULL: unknown). */
void ranks_name(struct ranks *ranks, int rank, const char *host);

/* Appends the number of ranks that were not named, if any. */
void ranks_end(const struct ranks *ranks);

/* texts: one text per rank, `room` bytes each. ranks_were_said returns true if a lower rank has the
 * text of `rank`. ranks_put_alike appends the ranks that have the text of rank `first`, "WORD 2" or
 * "WORDs 0-3, 8", and returns how many. */
bool ranks_were_said(const char *texts, size_t room, int rank);
int ranks_put_alike(struct strbuf *out, const char *word, const char *texts, size_t room,
                    int nranks, int first);

#endif
