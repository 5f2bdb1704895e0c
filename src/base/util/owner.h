/* Things that are freed together: code that opens much, in steps that may fail, closes everything
 * by one call, however far it came. One thread at a time for one owner. */
#ifndef POSEIDON_UTIL_OWNER_H
#define POSEIDON_UTIL_OWNER_H

#include <stddef.h>

#include "util/error.h"

/* List of owned things; {NULL} is an empty list. */
struct owner {
    struct owned *last;
};

/* Allocate like alloc_array and ALLOC (alloc.h), in memory that owner_free frees. */
void *owner_array(struct owner *owner, size_t count, size_t size, const char *what);
#define OWN(owner, pointer, count, what)                                                           \
    (((pointer) = owner_array(owner, (size_t)(count), sizeof *(pointer), what)) ? 0 : -1)

/* Adds `thing`, which release(context, thing) frees. On failure (-1 with a message) frees `thing`
 * at once. */
int owner_take(struct owner *owner, void (*release)(void *context, void *thing), void *context,
               void *thing);

/* Frees everything that the owner has, the latest first. */
void owner_free(struct owner *owner);

#endif
