/* Maps names, or addresses, to numbers. Fast enough for nets of thousands of blobs. */
#ifndef POSEIDON_SPEC_NAMES_H
#define POSEIDON_SPEC_NAMES_H

#include <stdbool.h>

/* All zero is an empty map: `struct names names = {0};`. */
struct names {
    bool by_address; /* set by the caller: names are compared as addresses, not as texts */
    void *tree;      /* owned */
};

/* Sets the number of a name. The name is borrowed until names_free. */
int names_set(struct names *names, const void *name, int number);

/* Returns the number of a name; -1 if it has none. */
int names_get(const struct names *names, const void *name);

void names_free(struct names *names);

#endif
