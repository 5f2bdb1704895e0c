/* Things that are freed together: whoever opens much, in steps that may fail, closes it by one
 * call, however far it came. One thread at a time for one owner. */
#ifndef POSEIDON_UTIL_OWNER_H
#define POSEIDON_UTIL_OWNER_H

#include <stddef.h>

#include "util/error.h"

/* {NULL}: it owns nothing yet. */
struct owner {
    struct owned *last;
};

/* As alloc_array and ALLOC (alloc.h), but freed with all else that the owner has. */
void *owner_array(struct owner *owner, size_t count, size_t size, const char *what);
#define OWN(owner, pointer, count, what)                                                           \
    (((pointer) = owner_array(owner, (size_t)(count), sizeof *(pointer), what)) ? 0 : -1)

/* Something else, which release(context, thing) frees: now, where that could not be noted (-1 with
 * a message). */
int owner_take(struct owner *owner, void (*release)(void *context, void *thing), void *context,
               void *thing);

/* Frees all of it, the latest first. */
void owner_free(struct owner *owner);

#endif
