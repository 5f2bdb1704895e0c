/* What the suites of binary models share: files of the source tree and of the test's own folder. */
#ifndef POSEIDON_TEST_MODELS_COMMON_H
#define POSEIDON_TEST_MODELS_COMMON_H

#include "tests/suite.h"
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static char folder[] = "/tmp/poseidon_models_XXXXXX";

/* A file of the source tree or, by tmp, of the test's own folder; valid until the fourth call. */
static const char *path_in(const char *where, const char *name)
{
    static char paths[4][1024];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

static const char *data(const char *name)
{
    return path_in(TEST_DATA "/spec", name);
}

static const char *tmp(const char *name)
{
    return path_in(folder, name);
}

static inline void assert_error(const char *format, ...)
{
    char expected[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    ck_assert_str_eq(error_text(), expected);
}

static const char *write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

#endif
