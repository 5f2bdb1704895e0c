/* A linked list of what is owned. An owned array's memory follows its list entry. */
#include "util/owner.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

struct owned {
    alignas(max_align_t) struct owned *before;
    void (*release)(void *context, void *thing); /* frees `thing`; NULL for an owned array */
    void *context, *thing;
};

void *owner_array(struct owner *owner, size_t count, size_t size, const char *what)
{
    bool fits = size == 0 || count <= (SIZE_MAX / 2 - sizeof(struct owned)) / size;
    struct owned *owned = fits ? calloc(1, sizeof *owned + count * size) : NULL;

    if (!owned) {
        error_memory((unsigned long long)count * size, what);
        return NULL;
    }
    owned->before = owner->last;
    owner->last = owned;
    return owned + 1;
}

int owner_take(struct owner *owner, void (*release)(void *context, void *thing), void *context,
               void *thing)
{
    if (!owner_array(owner, 0, 0, "a list of what is open")) {
        release(context, thing);
        return -1;
    }
    owner->last->release = release;
    owner->last->context = context;
    owner->last->thing = thing;
    return 0;
}

void owner_free(struct owner *owner)
{
    struct owned *owned;

    while ((owned = owner->last)) {
        owner->last = owned->before;
        if (owned->release)
            owned->release(owned->context, owned->thing);
        free(owned);
    }
}
