/* The send queue by itself: what goes next, how much is in flight, how fast. MPI is replaced by a list. */
#include <check.h>
#include <stdlib.h>

#include "sync/sync_internal.h"
#include "util/clock.h"

enum { MOST = 64 };
static int sent[MOST], nsent; /* tags, in the order in which MPI got them */

int progress_send_now(struct sync *sync, const struct parcel *parcel)
{
    (void)sync;
    sent[nsent++] = parcel->tag;
    return 0;
}

static struct sync queue(size_t window, bool fifo, int staleness)
{
    struct sync sync = {.options = {.window = window, .fifo = fifo, .staleness = staleness}};

    nsent = 0;
    ck_assert_int_eq(sendq_open(&sync, MOST), 0);
    return sync;
}

/* Its tag is the number by which it is known here. */
static void put(struct sync *sync, int tag, int group, double weight, size_t elems)
{
    struct parcel parcel = {.tag = tag, .elems = elems, .transfer = {.group = group, .weight = weight}};

    ck_assert_int_eq(sendq_put(sync, parcel), 0);
}

/* The one in flight is over; what is sent next? */
static int next(struct sync *sync)
{
    int before = nsent;

    sync->sendq.in_flight = 0;
    ck_assert_int_eq(sendq_flush(sync), 0);
    return nsent > before ? sent[before] : -1;
}

START_TEST(lowest_layer_goes_first_and_equals_in_order)
{
    struct sync sync = queue(4, false, 0); /* one float at a time */

    put(&sync, 1, 9, 0, 1); /* leaves at once */
    put(&sync, 2, 7, 0, 1);
    put(&sync, 3, 2, 0, 1);
    put(&sync, 4, 5, 0, 1);
    put(&sync, 5, 2, 0, 1);
    ck_assert_int_eq(nsent, 1);
    ck_assert_int_eq(next(&sync), 3);
    ck_assert_int_eq(next(&sync), 5);
    ck_assert_int_eq(next(&sync), 4);
    ck_assert_int_eq(next(&sync), 2);
    ck_assert_int_eq(next(&sync), -1);
    sendq_close(&sync);
}
END_TEST

START_TEST(fifo_keeps_the_order_of_posting)
{
    struct sync sync = queue(4, true, 0);

    for (int i = 0; i < 5; i++)
        put(&sync, i, 9 - i, 0, 1);
    for (int i = 1; i < 5; i++)
        ck_assert_int_eq(next(&sync), i);
    sendq_close(&sync);
}
END_TEST

START_TEST(under_staleness_the_largest_change_goes_first)
{
    struct sync sync = queue(4, false, 2);

    put(&sync, 1, 0, 0.1, 1);
    put(&sync, 2, 0, 0.2, 1);
    put(&sync, 3, 5, 0.9, 1);
    put(&sync, 4, 3, 0.5, 1);
    put(&sync, 5, 4, 0.5, 1);
    ck_assert_int_eq(next(&sync), 3);
    ck_assert_int_eq(next(&sync), 4);
    ck_assert_int_eq(next(&sync), 5);
    ck_assert_int_eq(next(&sync), 2);
    sendq_close(&sync);
}
END_TEST

START_TEST(window_bounds_what_is_in_flight_but_never_stops_all)
{
    struct sync sync = queue(400, false, 0);

    put(&sync, 1, 0, 0, 60);
    put(&sync, 2, 1, 0, 40); /* exactly full */
    put(&sync, 3, 2, 0, 1);
    ck_assert_int_eq(nsent, 2);
    put(&sync, 4, 1, 0, 5000); /* larger than the window: alone */
    ck_assert_int_eq(next(&sync), 4);
    ck_assert_int_eq(nsent, 3);
    ck_assert_int_eq(next(&sync), 3);
    sendq_close(&sync);
}
END_TEST

START_TEST(cap_holds_the_rate)
{
    double begun = clock_seconds(), allowed;
    struct sync sync = queue(0, false, 0);

    sync.options.bytes_per_second = 4e6;
    for (int i = 0; i < 10; i++)
        put(&sync, i, 0, 0, 10000); /* 10 ms each */
    while (nsent < 10) {
        ck_assert_int_eq(sendq_flush(&sync), 0);
        /* 20 ms may have been saved up, and the last one may go on credit */
        allowed = 4e6 * (clock_seconds() - begun + 0.02) + 40000;
        ck_assert_double_le(nsent * 40000.0, allowed);
    }
    sendq_close(&sync);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sendq");
    TCase *tcase = tcase_create("sendq");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, lowest_layer_goes_first_and_equals_in_order);
    tcase_add_test(tcase, fifo_keeps_the_order_of_posting);
    tcase_add_test(tcase, under_staleness_the_largest_change_goes_first);
    tcase_add_test(tcase, window_bounds_what_is_in_flight_but_never_stops_all);
    tcase_add_test(tcase, cap_holds_the_rate);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
