/* Seconds for benchmarks: of this thread's processor time where it computes alone, so that whoever
 * else is at work on the machine does not count; of the clock on the wall where several threads
 * compute. */
#ifndef POSEIDON_TESTS_BENCH_BENCH_CLOCK_H
#define POSEIDON_TESTS_BENCH_BENCH_CLOCK_H

#include <time.h>

static inline double bench_seconds(int threads)
{
    struct timespec now;

    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
