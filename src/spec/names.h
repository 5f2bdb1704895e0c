/* A map from names, or addresses, to numbers, for nets of thousands of blobs. */
#ifndef POSEIDON_SPEC_NAMES_H
#define POSEIDON_SPEC_NAMES_H

#include <stdbool.h>

/* All zero is an empty map: `struct names names = {0};`. */
struct names {
    bool by_address; /* a name is the address of something, not a text. The caller's */
    void *tree;      /* owned */
};

/* Sets the number of a name, which is borrowed until names_free. */
int names_set(struct names *names, const void *name, int number);

/* The number of that name; -1 if it has none. */
int names_get(const struct names *names, const void *name);

void names_free(struct names *names);

#endif
