/* Time that only goes forward: for durations and rates, never for dates. */
#ifndef POSEIDON_UTIL_CLOCK_H
#define POSEIDON_UTIL_CLOCK_H

#include <time.h>

/* Seconds since some fixed moment of this machine's uptime; not comparable between nodes. */
static inline double clock_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
