/* Ranks in messages: a few by name and the number of the others, or all that have the same text. */
#ifndef POSEIDON_UTIL_RANKS_H
#define POSEIDON_UTIL_RANKS_H

#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>

enum { RANKS_NAMED = 8 }; /* the most that a list names */

struct topology;

/* "rank 3 on n3"; without topology "rank 3". */
void ranks_put(struct strbuf *text, const struct topology *topology, int rank);

/* "3 on n3, 5 on n5 and 12 more", rank by rank. */
struct ranks {
    struct strbuf *text; /* appended to. Borrowed */
    int count;           /* of all ranks so far, named or not; begins at 0 */
};

/* One rank more. Returns whether the caller is to name it, behind the comma that then stands. */
bool ranks_next(struct ranks *ranks);

/* One rank more, by its number and its host; NULL: its host is not known. */
void ranks_name(struct ranks *ranks, int rank, const char *host);

/* The number of ranks that were not named, if any. */
void ranks_end(const struct ranks *ranks);

/* Of the ranks' texts, `room` bytes each: whether a lower rank has the same; and which ranks have
 * the same as rank `first`, "WORD 2" or "WORDs 0-3, 8". Returns how many. */
bool ranks_were_said(const char *texts, size_t room, int rank);
int ranks_put_alike(struct strbuf *out, const char *word, const char *texts, size_t room,
                    int nranks, int first);

#endif
