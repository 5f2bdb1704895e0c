/* What suites with files share: paths in a folder of the suite's own (SUITE_IN of tests/suite.h) or
 * of each test's, and the messages of those who read and write there. */
#ifndef POSEIDON_TESTS_FILES_H
#define POSEIDON_TESTS_FILES_H

#include "tests/suite.h" /* first: an argument there is called `folder`, too */
#include "util/error.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "/tmp/poseidon-test-XXXXXX"

static char folder[] = FOLDER;

/* A folder for the files of one test: folder_make before it, folder_remove after it. */
static inline void folder_make(void)
{
    strcpy(folder, FOLDER);
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void folder_remove(void)
{
    char command[300];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Valid until the fourth call after it. */
static inline const char *path_in(const char *where, const char *name)
{
    static char paths[4][1024];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

static inline const char *in_folder(const char *name)
{
    return path_in(folder, name);
}

/* Both give the path of the new file. */
static inline const char *write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

/* The bytes of a whole file that is smaller than `size`; how many. */
static inline size_t read_bytes(const char *path, void *out, size_t size)
{
    FILE *file = fopen(path, "rb");
    size_t n;

    ck_assert_msg(file != NULL, "%s is missing", path);
    n = fread(out, 1, size, file);
    ck_assert_uint_lt(n, size);
    fclose(file);
    return n;
}

static inline const char *file_put(const char *name, const void *bytes, size_t length)
{
    return write_bytes(in_folder(name), bytes, length);
}

/* The message of the last failure is that, to the last character. */
static inline void assert_error(const char *format, ...)
{
    char expected[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    ck_assert_str_eq(error_text(), expected);
}

#endif
