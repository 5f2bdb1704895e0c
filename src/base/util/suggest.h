/* The nearest known word to what someone typed. */
#ifndef POSEIDON_UTIL_SUGGEST_H
#define POSEIDON_UTIL_SUGGEST_H

#include <stdbool.h>

/* Keeps the word nearest to `word` among those offered, ignoring case. At most two letters, and a
 * third of the word, may differ. A word that extends a known word by several letters is another
 * word. */
struct suggest {
    const char *word;    /* borrowed */
    const char *nearest; /* borrowed; NULL while nothing near enough was offered */
    int distance;        /* insertions, deletions, replacements and swaps between the two words */
};

struct suggest suggest_start(const char *word);
void suggest_offer(struct suggest *suggest, const char *candidate);

/* Returns true if a list of words, separated by blanks, contains this word in any case. */
bool suggest_lists(const char *list, const char *word);

#endif
