/* Time that only goes forward, for durations and rates; and dates, for files alone. */
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

/* Returns the processor seconds of the calling thread. */
static inline double clock_thread_seconds(void)
{
    struct timespec used = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

/* Returns the seconds since 1970, which may jump. */
static inline double clock_date(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns clock_ns() in seconds. */
static inline double clock_seconds(void)
{
    return 1e-9 * (double)clock_ns();
}

#endif
