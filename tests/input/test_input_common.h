/* What the input suites share: fixture paths and a way to state the expected error. */
#ifndef POSEIDON_TESTS_INPUT_TEST_INPUT_COMMON_H
#define POSEIDON_TESTS_INPUT_TEST_INPUT_COMMON_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "engine/tensor.h"
#include "util/error.h"
#include "spec/h5.h"
#include "util/rng.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which formats of images this build reads and writes. */
#ifdef HAVE_JPEG
enum { BUILT_JPEG = 1 };
#else
enum { BUILT_JPEG = 0 };
#endif
#ifdef HAVE_PNG
enum { BUILT_PNG = 1 };
#else
enum { BUILT_PNG = 0 };
#endif
#ifdef HAVE_WEBP
enum { BUILT_WEBP = 1 };
#else
enum { BUILT_WEBP = 0 };
#endif

/* A path below tests/data/input; valid until the fourth call after it. */
static inline const char *fixture(const char *name)
{
    static char paths[4][1024];
    static int next;
    const char *top = getenv("abs_top_srcdir");
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/tests/data/input/%s", top ? top : ".", name);
    return path;
}

/* status is a failure whose message holds all of the given pieces (end the list with NULL). */
#define expect_error(status, ...)                                                                  \
    do {                                                                                           \
        const char *const pieces_[] = {__VA_ARGS__, NULL};                                         \
        ck_assert_int_ne((status), 0);                                                             \
        for (int piece_ = 0; pieces_[piece_]; piece_++)                                            \
            ck_assert_msg(strstr(error_text(), pieces_[piece_]) != NULL, "'%s' not in: %s",        \
                          pieces_[piece_], error_text());                                          \
    } while (0)

/* generate.py mirrors a sample by the first draw. */
static inline bool fixture_mirrors(uint64_t seed, uint32_t layer, uint64_t sample)
{
    const struct rng rng = rng_make(seed, RNG_AUGMENT, layer, sample);

    return rng_below(&rng, 0, 2) == 1;
}

#define expect_ok(status) ck_assert_msg((status) == 0, "%s", error_text())

static inline void check_shape(const struct shape *shape, int64_t c, int64_t h, int64_t w)
{
    ck_assert_int_eq(shape->naxes, 3);
    ck_assert_int_eq(shape->dim[0], c);
    ck_assert_int_eq(shape->dim[1], h);
    ck_assert_int_eq(shape->dim[2], w);
}

/* All values of a data set of that fixture, of `size` bytes each; freed by the caller. */
static inline void *read_fixture(const char *path, const char *name, hid_t type, size_t size)
{
    struct h5_dataset dataset;
    hid_t file;
    size_t elems = 1;
    void *out;

    h5_lock();
    expect_ok(h5_file_open(fixture(path), &file));
    expect_ok(h5_dataset_open(file, path, name, &dataset));
    for (int i = 0; i < dataset.naxes; i++)
        elems *= dataset.dim[i];
    out = malloc(elems * size);
    expect_ok(h5_dataset_read_all(&dataset, type, out));
    h5_dataset_close(&dataset);
    H5Fclose(file);
    h5_unlock();
    return out;
}

#endif
