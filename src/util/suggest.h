/* What someone may have meant: the nearest known word. */
#ifndef POSEIDON_UTIL_SUGGEST_H
#define POSEIDON_UTIL_SUGGEST_H

#include <stdbool.h>

/* Keeps the word nearest to `word` among those offered, of which two letters and a third at most
 * may differ; words that only extend a known one by several letters are another. Case is ignored.
 */
struct suggest {
    const char *word;    /* borrowed */
    const char *nearest; /* borrowed; NULL while nothing near enough was offered */
    int distance;        /* insertions, deletions, replacements and swaps of neighbours */
};

struct suggest suggest_start(const char *word);
void suggest_offer(struct suggest *suggest, const char *candidate);

/* Whether a list of words, with blanks between them, contains this word in any case. */
bool suggest_lists(const char *list, const char *word);

#endif
