/* The send queue by itself: what goes next, how much is in flight, how fast. MPI is replaced by a
 * list. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sync/sync_internal.h"
#include "tests/suite.h"
#include "util/clock.h"

enum { MOST = 64, RANKS = 20 };
static int sent[MOST], nsent; /* tags, in the order in which MPI got them */
static size_t on_their_way[RANKS];

int progress_send_now(struct sync *sync, const struct parcel *parcel)
{
    (void)sync;
    sent[nsent++] = parcel->tag;
    on_their_way[parcel->transfer.peer] += parcel->elems * sizeof(float);
    return 0;
}

static struct sync queue(size_t window, bool fifo, int staleness)
{
    struct sync sync = {.options = {.window = window, .fifo = fifo, .staleness = staleness}};

    nsent = 0;
    memset(on_their_way, 0, sizeof on_their_way);
    ck_assert_int_eq(sendq_open(&sync, MOST, RANKS), 0);
    return sync;
}

/* Its tag is the number by which it is known here. */
static void put_to(struct sync *sync, int peer, int tag, int group, double weight, size_t elems)
{
    struct parcel parcel = {
        .tag = tag, .elems = elems, .transfer = {.group = group, .peer = peer, .weight = weight}};

    ck_assert_int_eq(sendq_put(sync, parcel), 0);
}

static void put(struct sync *sync, int tag, int group, double weight, size_t elems)
{
    put_to(sync, 0, tag, group, weight, elems);
}

/* All that was on its way to that rank has left. */
static void over(struct sync *sync, int peer)
{
    struct transfer transfer = {.peer = peer, .out = on_their_way[peer]};

    on_their_way[peer] = 0;
    sendq_sent(sync, &transfer);
}

/* The one in flight is over; what is sent next? */
static int next(struct sync *sync)
{
    int before = nsent;

    over(sync, 0);
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

START_TEST(a_rank_has_an_eighth_of_the_window_but_one_parcel_at_least)
{
    struct sync sync = queue(3200, false, 0);

    put(&sync, 1, 0, 0, 60);
    put(&sync, 2, 1, 0, 40); /* exactly full */
    put(&sync, 3, 2, 0, 1);
    ck_assert_int_eq(nsent, 2);
    put_to(&sync, 7, 4, 9, 0, 5); /* another rank's link is free */
    ck_assert_int_eq(nsent, 3);
    put(&sync, 5, 1, 0, 5000); /* larger than the window: alone */
    ck_assert_int_eq(next(&sync), -1);
    over(&sync, 7);
    ck_assert_int_eq(next(&sync), 5);
    ck_assert_int_eq(nsent, 4);
    ck_assert_int_eq(next(&sync), 3);
    ck_assert_uint_eq(sync.sendq.in_flight, 4);
    sendq_close(&sync);
}
END_TEST

START_TEST(window_bounds_what_is_in_flight_to_all)
{
    struct sync sync = queue(3200, false, 0);

    for (int peer = 0; peer < RANKS; peer++)
        put_to(&sync, peer, peer, RANKS - peer, 0, 100);
    ck_assert_int_eq(nsent, 8);
    over(&sync, 3);
    ck_assert_int_eq(sendq_flush(&sync), 0);
    ck_assert_int_eq(nsent, 9);
    ck_assert_int_eq(sent[8], RANKS - 1); /* of those that waited, the most urgent */
    sendq_close(&sync);
}
END_TEST

START_TEST(without_a_window_all_goes_at_once)
{
    struct sync sync = queue(0, false, 0);

    for (int i = 0; i < MOST; i++)
        put_to(&sync, i % RANKS, i, i, 0, 1000000);
    ck_assert_int_eq(nsent, MOST);
    sendq_close(&sync);
}
END_TEST

/* Whatever comes and goes: what leaves is the most urgent of what waits, and of the first among
 * equals. */
START_TEST(heap_is_a_sorted_list)
{
    struct sync sync = queue(4, false, 0);
    int waits[MOST], n = 0, tag = 0;
    unsigned seed = 7;

    put(&sync, -1, 0, 0, 1); /* holds the link */
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1103515245 + 12345;
        if (n < MOST && (n == 0 || seed >> 16 & 1)) {
            int group = (int)(seed >> 20 & 15);
            waits[n++] = group << 24 | tag; /* in this order they leave */
            put(&sync, waits[n - 1], group, 0, 1);
            tag++;
        } else {
            int least = 0;
            for (int i = 1; i < n; i++)
                least = waits[i] < waits[least] ? i : least;
            nsent = 0;
            ck_assert_int_eq(next(&sync), waits[least]);
            waits[least] = waits[--n];
        }
    }
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

SUITE("sendq")
{
    TCase *tcase = suite_case(suite, "sendq");

    tcase_add_test(tcase, lowest_layer_goes_first_and_equals_in_order);
    tcase_add_test(tcase, fifo_keeps_the_order_of_posting);
    tcase_add_test(tcase, under_staleness_the_largest_change_goes_first);
    tcase_add_test(tcase, a_rank_has_an_eighth_of_the_window_but_one_parcel_at_least);
    tcase_add_test(tcase, window_bounds_what_is_in_flight_to_all);
    tcase_add_test(tcase, without_a_window_all_goes_at_once);
    tcase_add_test(tcase, heap_is_a_sorted_list);
    tcase_add_test(tcase, cap_holds_the_rate);
}
