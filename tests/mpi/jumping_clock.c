/* Linked into a program of its own, these stand in the place of libc's for all of it, MPI included:
 * the clock of the wall jumps by POSEIDON_JUMP seconds as soon as there is a POSEIDON_JUMP_FILE;
 * the clock that nobody sets does not. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void)
{
    const char *by = getenv("POSEIDON_JUMP"), *file = getenv("POSEIDON_JUMP_FILE");

    return by && file && access(file, F_OK) == 0 ? atol(by) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int status = (int)syscall(SYS_clock_gettime, clock, out);

    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += jump();
    return status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    time_t seconds = clock_gettime(CLOCK_REALTIME, &now) ? -1 : now.tv_sec;

    if (out)
        *out = seconds;
    return seconds;
}
