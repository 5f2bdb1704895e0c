/* How a feeder reads ahead: calls, threads, waits, depth, and failures of the source. */
#include "tests/input/fake_source.h"
#include "tests/suite.h"

START_TEST(neighbours_are_read_in_one_call)
{
    struct fake *fake = fake_create(1000);
    struct feeder *feeder = feed(fake, options(100, 0, 1), false);
    const float *const *fields;

    expect_ok(feeder_next(feeder, &fields));
    expect_ok(feeder_next(feeder, &fields));
    ck_assert_uint_le(atomic_load(&fake->calls), 2 + 3);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(an_error_comes_after_the_good_batches_and_ends_with_a_seek)
{
    singly = _i;
    struct fake *fake = fake_create(100);
    const float *const *fields;

    fake->fail_at = 33;
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);
    for (int round = 0; round < 3; round++) {
        for (int pass = 0; pass < 3; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            ck_assert_float_eq(fields[1][9], (float)(10 * pass + 9));
        }
        expect_error(feeder_next(feeder, &fields), "record 33 is damaged");
        error_clear();
        expect_error(feeder_next(feeder, &fields), "record 33 is damaged");
        feeder_seek(feeder, 40);
        expect_ok(feeder_next(feeder, &fields));
        ck_assert_float_eq(fields[1][0], 40);
        feeder_seek(feeder, 0);
    }
    feeder_destroy(feeder);
}
END_TEST

START_TEST(waiting_is_counted_but_for_the_first_batch)
{
    singly = _i;
    struct fake *fake = fake_create(100);
    const float *const *fields;
    uint64_t times;
    double seconds;

    fake->delay_us = 20000;
    atomic_store(&fake->held_from, 10);
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);
    expect_ok(feeder_next(feeder, &fields));
    feeder_waits(feeder, &times, &seconds);
    ck_assert_uint_eq(times, 0);
    ck_assert_double_eq(seconds, 0);
    for (uint64_t pass = 1; pass < 10; pass++) {
        atomic_store(&fake->held_from, 10 * (pass + 1)); /* this one alone, and not at once */
        expect_ok(feeder_next(feeder, &fields));
    }
    feeder_waits(feeder, &times, &seconds);
    ck_assert_uint_ge(times, 5); /* 9, but where this thread lost its core just there */
    ck_assert_uint_le(times, 9);
    ck_assert_double_ge(seconds, 0.05);
    atomic_store(&fake->held_from, UINT64_MAX);
    feeder_destroy(feeder);
}
END_TEST

/* Until so many reads have begun; what one thread read before them is delivered. */
static void await_calls(struct fake *fake, uint64_t calls)
{
    while (atomic_load(&fake->calls) < calls)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

START_TEST(a_reader_that_is_ahead_is_not_waited_for)
{
    struct fake *fake = fake_create(100);
    const float *const *fields;
    uint64_t times;
    double seconds;
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);

    expect_ok(feeder_next(feeder, &fields));
    for (uint64_t pass = 0; pass < 5; pass++) {
        await_calls(fake, pass + 3);
        expect_ok(feeder_next(feeder, &fields));
    }
    feeder_waits(feeder, &times, &seconds);
    ck_assert_uint_eq(times, 0);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(it_reads_no_further_than_its_depth)
{
    struct fake *fake = fake_create(100);
    const float *const *fields;
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);

    expect_ok(feeder_next(feeder, &fields));
    await_calls(fake, 3); /* one borrowed, two ahead */
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    ck_assert_uint_eq(atomic_load(&fake->calls), 3);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(it_reads_single_records_no_further_than_its_depth)
{
    struct fake *fake;
    const float *const *fields;
    struct feeder *feeder;

    singly = true;
    fake = fake_create(100);
    feeder = feed(fake, options(10, 0, 1), false);
    expect_ok(feeder_next(feeder, &fields));
    await_calls(fake, 30);
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    ck_assert_uint_eq(atomic_load(&fake->calls), 30);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(a_thread_is_added_for_every_wait_up_to_the_limit)
{
    struct feeder_options o = options(4, 0, 1);
    const float *const *fields;
    struct feeder *feeder;
    struct fake *fake;

    for (int most = 1; most <= 5; most += 2) {
        singly = true;
        fake = fake_create(100);
        fake->delay_us = 3000;
        o.max_threads = most;
        feeder = feed(fake, o, false);
        ck_assert_int_eq(feeder_threads(feeder), 1);
        for (int pass = 0; pass < 20 || feeder_threads(feeder) < most; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            for (int k = 0; k < 4; k++)
                ck_assert_float_eq(fields[1][k], (float)((4 * pass + k) % 100));
        }
        ck_assert_int_eq(feeder_threads(feeder), most);
        feeder_destroy(feeder);
    }
}
END_TEST

START_TEST(a_source_that_keeps_ahead_stays_with_one_thread)
{
    const float *const *fields;
    struct feeder *feeder;
    struct fake *fake;

    singly = true;
    fake = fake_create(100);
    feeder = feed(fake, options(4, 0, 1), false);
    for (uint64_t pass = 0; pass < 10; pass++) {
        expect_ok(feeder_next(feeder, &fields));
        await_calls(fake, 4 * (pass + 3));
    }
    ck_assert_int_eq(feeder_threads(feeder), 1);
    feeder_destroy(feeder);
}
END_TEST

/* The lowest record that fails is reported, however the threads hurry. */
START_TEST(the_first_failing_sample_is_the_one_reported)
{
    for (int round = 0; round < 30; round++) {
        struct feeder_options o = options(32, 0, 1);
        const float *const *fields;
        struct feeder *feeder;
        struct fake *fake;

        singly = true;
        o.max_threads = 4;
        fake = fake_create(1000);
        fake->delay_us = 1; /* rounded up by the system to some 50 */
        fake->fail_at = 333;
        fake->fail_from_there = true;
        feeder = feed(fake, o, false);
        do {
            feeder_seek(feeder, 0);
            for (int pass = 0; pass < 10; pass++)
                expect_ok(feeder_next(feeder, &fields));
        } while (feeder_threads(feeder) < 4);
        expect_error(feeder_next(feeder, &fields), "record 333 is damaged");
        expect_error(feeder_next(feeder, &fields), "record 333 is damaged");
        feeder_seek(feeder, 320);
        expect_error(feeder_next(feeder, &fields), "record 333 is damaged");
        feeder_destroy(feeder);
    }
}
END_TEST

START_TEST(it_can_be_destroyed_at_any_moment)
{
    singly = _i;
    _Atomic int closed = 0;
    const float *const *fields;

    for (int round = 0; round < 200; round++) {
        struct fake *fake = fake_create(50);
        struct feeder_options o = options(8, 0, 1);

        fake->closed = &closed;
        fake->delay_us = round % 3 * 50;
        fake->fail_at = round % 7 == 0 ? 20 : UINT64_MAX;
        o.shuffle = round % 2;
        struct feeder *feeder = feed(fake, o, true);
        for (int k = 0; k < round % 5; k++)
            if (feeder_next(feeder, &fields))
                break;
        if (round % 4 == 1)
            feeder_seek(feeder, 3);
        if (round % 5 == 2)
            nanosleep(&(struct timespec){0, 1000L * round}, NULL);
        feeder_destroy(feeder);
    }
    ck_assert_int_eq(atomic_load(&closed), 200);
    feeder_destroy(NULL);
}
END_TEST

START_TEST(impossible_options_are_refused_and_everything_is_freed)
{
    static const struct {
        struct feeder_options o;
        uint64_t nrecords;
        const char *expected;
    } cases[] = {
        {{.batch = 0, .nranks = 1, .depth = 2}, 10, "batch_size 0"},
        {{.batch = 1, .nranks = 2, .rank = 2, .depth = 2}, 10, "rank 2 of 2"},
        {{.batch = 1, .nranks = 1, .depth = 1}, 10, "1 batches kept ready; expected at least 2"},
        {{.batch = 1, .nranks = 1, .depth = 2, .shuffle = true},
         ((uint64_t)1 << 40) + 1,
         "cannot be shuffled"},
        {{.batch = 1 << 28, .nranks = 1, .depth = 2}, 10, "exceeds INT_MAX"},
        {{.batch = 1, .nranks = 1, .depth = 2, .bytes = true},
         10,
         "only images of bytes with a transform"},
    };
    _Atomic int closed = 0;
    int n = sizeof cases / sizeof *cases;

    for (int i = 0; i < n; i++) {
        struct fake *fake = fake_create(cases[i].nrecords);
        struct feeder *feeder = NULL;

        fake->closed = &closed;
        expect_error(feeder_create(&fake->source, NULL, &cases[i].o, &feeder), "fake",
                     cases[i].expected);
        ck_assert_ptr_null(feeder);
    }
    ck_assert_int_eq(atomic_load(&closed), n);
}
END_TEST

SUITE("input: feeder ahead")
{
    TCase *tcase = suite_case(suite, "ahead");

    tcase_add_test(tcase, neighbours_are_read_in_one_call);
    tcase_add_loop_test(tcase, an_error_comes_after_the_good_batches_and_ends_with_a_seek, 0, 2);
    tcase_add_loop_test(tcase, waiting_is_counted_but_for_the_first_batch, 0, 2);
    tcase_add_test(tcase, a_reader_that_is_ahead_is_not_waited_for);
    tcase_add_test(tcase, it_reads_no_further_than_its_depth);
    tcase_add_loop_test(tcase, it_can_be_destroyed_at_any_moment, 0, 2);
    tcase_add_test(tcase, it_reads_single_records_no_further_than_its_depth);
    tcase_add_test(tcase, a_thread_is_added_for_every_wait_up_to_the_limit);
    tcase_add_test(tcase, a_source_that_keeps_ahead_stays_with_one_thread);
    tcase_add_test(tcase, the_first_failing_sample_is_the_one_reported);
    tcase_add_test(tcase, impossible_options_are_refused_and_everything_is_freed);
}
