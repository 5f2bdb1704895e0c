/* A folder for the files of one test: folder_make before it, folder_remove after it. */
#ifndef POSEIDON_TEST_FOLDER_H
#define POSEIDON_TEST_FOLDER_H

#include "tests/suite.h" /* first: an argument there is called `folder`, too */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[256];

static inline void folder_make(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/poseidon-test-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void folder_remove(void)
{
    char command[300];

    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* A path in the folder; valid until the fourth call after it. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][400];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void file_put(const char *name, const void *data, size_t length)
{
    FILE *file = fopen(in_folder(name), "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

#endif
