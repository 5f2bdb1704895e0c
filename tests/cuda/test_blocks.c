/* Whole blocks of the emulated GPU (emulated_blocks.cpp) notice what they are there for. Run by
 * test_blocks.sh in each order of turns. */
#include "tests/suite.h"

#include <signal.h>

enum { THREADS = 256 }; /* cuda/kernel.cuh */

void emulated_fault(const char *name, int out[THREADS]); /* emulated_faults.cpp */

static int out[THREADS];

static int wrong(void)
{
    int count = 0;

    for (int t = 0; t < THREADS; t++)
        count += out[t] != (t + 1) % THREADS + 1;
    return count;
}

START_TEST(a_barrier_shows_what_others_wrote)
{
    for (int run = 0; run < 3; run++) {
        emulated_fault("none", out);
        ck_assert_int_eq(wrong(), 0);
    }
}
END_TEST

START_TEST(a_missing_barrier_gives_wrong_numbers)
{
    emulated_fault("no_barrier", out);
    ck_assert_int_gt(wrong(), 0);
}
END_TEST

START_TEST(a_vote_counts_the_warp)
{
    emulated_fault("vote", out);
    for (int t = 0; t < THREADS; t++)
        for (int lane = 0; lane < 32; lane++)
            ck_assert_int_eq((unsigned)out[t] >> lane & 1, (t / 32 * 32 + lane) % 3 == 0);
}
END_TEST

START_TEST(a_barrier_that_some_never_come_to_ends_the_program)
{
    emulated_fault("some_come", out);
}
END_TEST

START_TEST(two_barriers_are_not_one)
{
    emulated_fault("another_barrier", out);
}
END_TEST

START_TEST(a_vote_that_some_never_come_to_ends_the_program)
{
    emulated_fault("some_vote", out);
}
END_TEST

SUITE("whole blocks of the emulated GPU")
{
    TCase *tests = suite_case(suite, "faults");

    tcase_add_test(tests, a_barrier_shows_what_others_wrote);
    tcase_add_test(tests, a_missing_barrier_gives_wrong_numbers);
    tcase_add_test(tests, a_vote_counts_the_warp);
    tcase_add_test_raise_signal(tests, a_barrier_that_some_never_come_to_ends_the_program, SIGABRT);
    tcase_add_test_raise_signal(tests, two_barriers_are_not_one, SIGABRT);
    tcase_add_test_raise_signal(tests, a_vote_that_some_never_come_to_ends_the_program, SIGABRT);
}
