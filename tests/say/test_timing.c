/* The spread of a run's rate over its displays. */
#include "say/timing.h"
#include "tests/suite.h"

#include <check.h>

START_TEST(fewer_than_three_displays_have_no_spread)
{
    struct timing_lapses lapses = {.count = 0};
    double least, median, most;

    timing_note_lapse(&lapses, 0, 0); /* the display before training */
    timing_note_lapse(&lapses, 2, 100);
    timing_note_lapse(&lapses, 4, 100);
    ck_assert(!timing_spread(&lapses, &least, &median, &most));
    timing_note_lapse(&lapses, 1, 100);
    ck_assert(timing_spread(&lapses, &least, &median, &most));
    ck_assert_double_eq(least, 25);
    ck_assert_double_eq(median, 50);
    ck_assert_double_eq(most, 100);
    timing_note_lapse(&lapses, 1, 60);
    ck_assert(timing_spread(&lapses, &least, &median, &most));
    ck_assert_double_eq(median, 55);
}
END_TEST

/* A ramp of 1 to n iterations a second: its median is its middle, however many were kept. */
START_TEST(long_runs_are_thinned_evenly)
{
    for (int n = 256; n <= 100000; n = n * 3 + 1) {
        struct timing_lapses lapses = {.count = 0};
        double least, median, most;

        for (int i = 1; i <= n; i++)
            timing_note_lapse(&lapses, 1, i);
        ck_assert_int_le(lapses.count, TIMING_LAPSES);
        ck_assert_int_ge(lapses.count, TIMING_LAPSES / 2);
        ck_assert(timing_spread(&lapses, &least, &median, &most));
        ck_assert_double_eq(least, 1);
        ck_assert_double_le(n - most, n / 128.0);
        ck_assert_double_le(median < n / 2.0 ? n / 2.0 - median : median - n / 2.0, n / 128.0);
    }
}
END_TEST

SUITE("timing")
{
    TCase *tcase = suite_case(suite, "timing");

    tcase_add_test(tcase, fewer_than_three_displays_have_no_spread);
    tcase_add_test(tcase, long_runs_are_thinned_evenly);
}
