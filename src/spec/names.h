/* A map from names to numbers, for nets of thousands of blobs. */
#ifndef POSEIDON_SPEC_NAMES_H
#define POSEIDON_SPEC_NAMES_H

/* All zero is an empty map: `struct names names = {0};`. */
struct names {
    void *tree; /* owned */
};

/* Sets the number of a name, which is borrowed until names_free. */
int names_set(struct names *names, const char *name, int number);

/* The number of that name; -1 if it has none. */
int names_get(const struct names *names, const char *name);

void names_free(struct names *names);

#endif
