/* What the fuzz targets share. A target is one file with the function that libFuzzer calls; without
 * libFuzzer, driver.c calls it. */
#ifndef POSEIDON_TESTS_FUZZ_FUZZ_H
#define POSEIDON_TESTS_FUZZ_FUZZ_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* One of a few files in memory, with that content. The name is the same for every call with the same
 * `which`. */
static inline const char *fuzz_file(int which, const uint8_t *data, size_t length)
{
    static int fd[4] = {-1, -1, -1, -1};
    static char name[4][64];

    if (fd[which] < 0) {
        fd[which] = (int)memfd_create("fuzz", 0);
        snprintf(name[which], sizeof name[which], "/proc/self/fd/%d", fd[which]);
    }
    if (fd[which] < 0 || ftruncate(fd[which], 0) != 0 ||
        pwrite(fd[which], data, length, 0) != (ssize_t)length)
        abort();
    return name[which];
}

#endif
