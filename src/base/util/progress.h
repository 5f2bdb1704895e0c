/* A line on the terminal that says how far a command has come with its images. */
#ifndef POSEIDON_UTIL_PROGRESS_H
#define POSEIDON_UTIL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shows; /* stderr is a terminal */
    uint64_t count;
    double started, shown; /* clock_seconds() at the beginning, and when last drawn */
};

/* Begins with none of `count` images finished. */
void progress_begin(struct progress *progress, uint64_t count);

/* Draws the line again for `done` finished images, at most five times a second. */
void progress_show(struct progress *progress, uint64_t done);

/* Erases the line, before anything else is printed and at the end. */
void progress_erase(const struct progress *progress);

#endif
