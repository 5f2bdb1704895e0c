/* Normal numbers by vectors against the C library's functions, to the last bit. */
#include "engine/normal.h"
#include "tests/suite.h"

#include "util/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the words mean, in the library's functions. */
static void expect(const uint32_t *words, double mean, double std, const float *found, size_t n)
{
    const double pi = 3.14159265358979323846;

    for (size_t i = 0; i < n; i++) {
        double u = ((double)words[i & ~(size_t)1] + 1) / 4294967296.0;
        double angle = 2 * pi * ((double)words[i | 1] / 4294967296.0);
        double radius = std * sqrt(-2 * log(u));
        float truth = (float)(mean + radius * (i & 1 ? sin(angle) : cos(angle)));
        ck_assert_msg(memcmp(&truth, &found[i], sizeof truth) == 0 || truth == found[i],
                      "number %zu of words %08x %08x: %a, not %a", i, words[i & ~(size_t)1],
                      words[i | 1], (double)found[i], (double)truth);
    }
}

static const struct {
    double mean, std;
} shapes[] = {{0, 1}, {0, 0.01}, {128, 50}, {-1e-3, 1e3}, {5, 0}};

START_TEST(bits_are_those_of_the_library)
{
    enum { WORDS = 1 << 19 };
    uint32_t *words = malloc(WORDS * sizeof *words);
    float *found = malloc(WORDS * sizeof *found);
    struct rng rng = rng_make(11, RNG_FILLER, (uint32_t)_i, 0);

    ck_assert(words && found);
    for (uint32_t b = 0; b < WORDS / 4; b++)
        rng_block(&rng, b, words + 4 * b);
    normal_fill(words, shapes[_i].mean, shapes[_i].std, found, WORDS);
    expect(words, shapes[_i].mean, shapes[_i].std, found, WORDS);
    free(words);
    free(found);
}
END_TEST

/* Every eighth of the circle and the smallest and largest radii, with their neighbours. */
START_TEST(edges_are_those_of_the_library)
{
    uint32_t edges[64], words[64 * 64 * 2];
    float found[64 * 64 * 2];
    size_t n = 0;

    for (uint32_t eighth = 0; eighth < 8; eighth++)
        for (int d = -4; d < 4; d++)
            edges[n++] = (eighth << 29) + (uint32_t)d;
    for (size_t i = 0; i < n * n; i++) {
        words[2 * i] = edges[i / n];
        words[2 * i + 1] = edges[i % n];
    }
    normal_fill(words, shapes[_i].mean, shapes[_i].std, found, 2 * n * n);
    expect(words, shapes[_i].mean, shapes[_i].std, found, 2 * n * n);
}
END_TEST

START_TEST(any_number_of_them_is_filled_and_no_more)
{
    uint32_t words[600];
    float found[601];
    struct rng rng = rng_make(12, RNG_FILLER, 0, 0);

    for (uint32_t b = 0; b < 150; b++)
        rng_block(&rng, b, words + 4 * b);
    for (size_t n = 0; n <= 600; n++) {
        found[n] = 77;
        normal_fill(words, 1, 2, found, n);
        expect(words, 1, 2, found, n);
        ck_assert(found[n] == 77);
    }
}
END_TEST

SUITE("normal")
{
    TCase *tests = suite_case(suite, "normal numbers");

    tcase_add_loop_test(tests, bits_are_those_of_the_library, 0, 5);
    tcase_add_loop_test(tests, edges_are_those_of_the_library, 0, 5);
    tcase_add_test(tests, any_number_of_them_is_filled_and_no_more);
}
