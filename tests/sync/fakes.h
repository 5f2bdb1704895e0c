/* A scheme and a gathering of the tests' own: each is one file, and no file of src knows of it. */
#ifndef POSEIDON_TESTS_SYNC_FAKES_H
#define POSEIDON_TESTS_SYNC_FAKES_H

#include <stdint.h>

#include "plan/scheme.h"
#include "sync/gather.h"

/* Every worker sends its whole gradient to everybody, and everybody adds them up. */
extern const struct scheme scheme_flood;

/* Nobody to add up with, but what is posted begins to travel late, the last one first. */
extern const struct gather_i gather_late;

/* What gather_late was called for since it was last opened. */
struct late_counts {
    int64_t marks, posts, polls, publishes;
};
extern struct late_counts late_counts;

#endif
