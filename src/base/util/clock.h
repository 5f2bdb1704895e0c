/* Time that only goes forward: for durations and rates, never for dates. */
#ifndef POSEIDON_UTIL_CLOCK_H
#define POSEIDON_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Returns nanoseconds since a fixed moment of the uptime; not comparable between nodes. */
static inline int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns clock_ns() in seconds. */
static inline double clock_seconds(void)
{
    return 1e-9 * (double)clock_ns();
}

#endif
