/* A line on the terminal that says how far a command has come with its images. */
#ifndef POSEIDON_UTIL_PROGRESS_H
#define POSEIDON_UTIL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool wanted; /* and stderr is a terminal */
    uint64_t count;
    double started, shown; /* clock_seconds() */
};

/* None of `count` images is finished. */
void progress_begin(struct progress *progress, uint64_t count, bool wanted);

/* `done` images are finished: draws the line again, at most five times a second. */
void progress_show(struct progress *progress, uint64_t done);

/* Before anything else is printed, and at the end. */
void progress_erase(const struct progress *progress);

#endif
