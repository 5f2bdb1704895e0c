/* The send queue by itself: what goes next, how much is on its way, how fast. Time is a number. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite.h"
#include "wire/queue.h"

enum { MOST = 512, PEERS = 20 };

static struct owner owner;
static struct queue queue;
static struct queue_entry entries[MOST];
static int nentries;
static int sent[MOST], nsent; /* numbers of entries, in the order in which they left */
static struct queue_entry *on_their_way[PEERS][MOST];
static int flying_to[PEERS];

static void open_with(struct queue_options options)
{
    options.peers = PEERS;
    nsent = nentries = 0;
    memset(flying_to, 0, sizeof flying_to);
    ck_assert_int_eq(queue_open(&queue, &owner, &options, 0), 0);
}

static void open_queue(size_t window, bool fifo)
{
    open_with((struct queue_options){.window = window, .fifo = fifo});
}

static void flush(void)
{
    struct queue_entry *entry;

    while ((entry = queue_take(&queue, 0))) {
        on_their_way[entry->peer][flying_to[entry->peer]++] = entry;
        sent[nsent++] = (int)(entry - entries);
    }
}

/* Entries are known by their number: the first is 0. */
static void put_to(int peer, int urgency, double weight, size_t bytes)
{
    ck_assert_int_lt(nentries, MOST);
    entries[nentries] =
        (struct queue_entry){.peer = peer, .urgency = urgency, .weight = weight, .bytes = bytes};
    queue_put(&queue, &entries[nentries++]);
    flush();
}

static void put(int urgency, double weight, size_t bytes)
{
    put_to(0, urgency, weight, bytes);
}

/* All that was on its way to that peer is there, and the replies are back. */
static void over(int peer)
{
    while (flying_to[peer] > 0) {
        const struct queue_entry *entry = on_their_way[peer][--flying_to[peer]];
        if (entry->needs_ack)
            queue_sent(&queue, entry);
    }
}

/* The one on its way is there; what is sent next? */
static int next(void)
{
    int before = nsent;

    over(0);
    flush();
    return nsent > before ? sent[before] : -1;
}

START_TEST(least_urgency_goes_first_and_equals_in_order)
{
    open_queue(4, false); /* one at a time */
    put(9, 0, 4);         /* leaves at once */
    put(7, 0, 4);
    put(2, 0, 4);
    put(5, 0, 4);
    put(2, 0, 4);
    ck_assert_int_eq(nsent, 1);
    ck_assert_int_eq(next(), 2);
    ck_assert_int_eq(next(), 4);
    ck_assert_int_eq(next(), 3);
    ck_assert_int_eq(next(), 1);
    ck_assert_int_eq(next(), -1);
    ck_assert_uint_eq(queue_count(&queue), 0);
    owner_free(&owner);
}
END_TEST

START_TEST(fifo_keeps_the_order_of_posting)
{
    open_queue(4, true);
    for (int i = 0; i < 5; i++)
        put(9 - i, i, 4);
    for (int i = 1; i < 5; i++)
        ck_assert_int_eq(next(), i);
    owner_free(&owner);
}
END_TEST

START_TEST(among_equals_the_greatest_weight_goes_first)
{
    open_queue(4, false);
    put(0, 0.1, 4);
    put(0, 0.2, 4);
    put(0, 0.9, 4);
    put(0, 0.5, 4);
    put(0, 0.5, 4);
    put(-1, 0, 4);
    ck_assert_int_eq(next(), 5);
    ck_assert_int_eq(next(), 2);
    ck_assert_int_eq(next(), 3);
    ck_assert_int_eq(next(), 4);
    ck_assert_int_eq(next(), 1);
    owner_free(&owner);
}
END_TEST

START_TEST(a_peer_has_an_eighth_of_the_window_but_one_entry_at_least)
{
    open_queue(3200, false);
    put(0, 0, 240);
    put(1, 0, 160); /* exactly full */
    put(2, 0, 40);
    ck_assert_int_eq(nsent, 2);
    put_to(7, 9, 0, 20); /* another peer's link is free */
    ck_assert_int_eq(nsent, 3);
    put(1, 0, 20000); /* larger than the window: alone */
    ck_assert_int_eq(next(), -1);
    over(7);
    ck_assert_int_eq(next(), 4);
    ck_assert_int_eq(nsent, 4);
    ck_assert_int_eq(next(), 2);
    ck_assert_uint_eq(queue.in_flight, 40);
    owner_free(&owner);
}
END_TEST

START_TEST(window_bounds_what_is_on_its_way_to_all)
{
    open_queue(3200, false);
    for (int peer = 0; peer < PEERS; peer++)
        put_to(peer, PEERS - peer, 0, 400);
    ck_assert_int_eq(nsent, 8);
    over(3);
    flush();
    ck_assert_int_eq(nsent, 9);
    ck_assert_int_eq(sent[8], PEERS - 1); /* of those that waited, the most urgent */
    owner_free(&owner);
}
END_TEST

/* What a transport has no room for it tries again at every poll. */
START_TEST(window_bounds_the_number_of_small_ones)
{
    open_queue(2048 * 100, false);
    for (int i = 0; i < 280; i++)
        put(0, 0, i % 2 ? 4 : 0);
    ck_assert_int_eq(nsent, 256);
    over(0);
    flush();
    ck_assert_int_eq(nsent, 280);
    over(0);
    ck_assert_uint_eq(queue.in_flight, 0);
    owner_free(&owner);
}
END_TEST

START_TEST(without_a_window_all_goes_at_once)
{
    open_queue(0, false);
    for (int i = 0; i < MOST; i++)
        put_to(i % PEERS, i, 0, 4000000);
    ck_assert_int_eq(nsent, MOST);
    owner_free(&owner);
}
END_TEST

/* Something small and less urgent must not keep something large from ever finding the window empty.
 */
START_TEST(small_ones_do_not_overtake_a_large_one_that_waits_for_the_window)
{
    open_queue(800, false);
    for (int peer = 1; peer < 6; peer++)
        put_to(peer, 5, 0, 100);
    put_to(0, 1, 0, 700); /* 500 are on their way */
    for (int peer = 6; peer < 12; peer++)
        put_to(peer, 5, 0, 100);
    ck_assert_int_eq(nsent, 5);
    for (int peer = 1; peer < 5; peer++) {
        over(peer);
        flush();
    }
    ck_assert_int_eq(sent[5], 5);
    owner_free(&owner);
}
END_TEST

/* Every peer gets its turn where all are equal: what was posted first leaves first. */
START_TEST(equals_leave_peer_by_peer_as_they_were_posted)
{
    open_queue(800, false);
    for (int i = 0; i < 60; i++)
        put_to(i % PEERS, 0, 0, 100);
    for (int round = 0; round < 60 && nsent < 60; round++) {
        over(sent[round] % PEERS);
        flush();
    }
    ck_assert_int_eq(nsent, 60);
    for (int i = 0; i < 60; i++)
        ck_assert_int_eq(sent[i], i);
    owner_free(&owner);
}
END_TEST

/* ---- shared replies ---- */

static void open_sharing(void)
{
    open_with((struct queue_options){.window = 2048 * 100, .shared_replies = true});
}

/* 256 of them fill a peer's share; a quarter of it may go without a reply. */
START_TEST(a_reply_in_65_is_enough_for_small_ones)
{
    open_sharing();
    for (int i = 0; i < 400; i++)
        put(0, 0, 4);
    ck_assert_int_eq(nsent, 256); /* the share counts them all the same */
    for (int i = 0; i < nsent; i++)
        ck_assert_int_eq(entries[i].needs_ack, i % 65 == 64);
    queue_sent(&queue, &entries[64]);
    flush();
    ck_assert_int_eq(nsent, 256 + 65);
    queue_sent(&queue, &entries[129]);
    queue_sent(&queue, &entries[194]);
    ck_assert_uint_eq(queue.in_flight, (256 + 65 - 195) * 100);
    owner_free(&owner);
}
END_TEST

START_TEST(what_is_not_small_has_a_reply_which_small_ones_before_it_share)
{
    open_sharing();
    put(0, 0, 4);
    put(0, 0, 100);
    put_to(1, 0, 0, 4);
    ck_assert(!entries[0].needs_ack && entries[1].needs_ack && !entries[2].needs_ack);
    ck_assert_uint_eq(queue.in_flight, 300);
    queue_sent(&queue, &entries[1]);
    ck_assert_uint_eq(queue.in_flight, 100); /* to the other peer */
    owner_free(&owner);
}
END_TEST

/* Nobody would ever give that room back. */
START_TEST(silent_ones_keep_nothing_large_waiting)
{
    open_sharing();
    for (int peer = 0; peer < PEERS; peer++)
        put_to(peer, 0, 0, 4);
    ck_assert_uint_eq(queue.in_flight, PEERS * 100);
    put(0, 0, 2048 * 100); /* all of the window */
    ck_assert_int_eq(nsent, PEERS + 1);
    ck_assert(entries[PEERS].needs_ack);
    put(0, 0, 4);
    ck_assert_int_eq(nsent, PEERS + 1); /* now there is a reply to wait for */
    queue_sent(&queue, &entries[PEERS]);
    flush();
    ck_assert_int_eq(nsent, PEERS + 2);
    owner_free(&owner);
}
END_TEST

START_TEST(silent_ones_to_many_take_an_eighth_of_the_window_at_most)
{
    open_sharing();
    for (int i = 0; i < 20 * PEERS; i++)
        put_to(i % PEERS, 0, 0, 4);
    ck_assert_int_eq(nsent, 20 * PEERS);
    for (int i = 0; i < 256; i++)
        ck_assert(!entries[i].needs_ack);
    ck_assert(entries[256].needs_ack); /* that of twelve before it as well, so that twelve may go */
    for (int i = 257; i < 270; i++)
        ck_assert_int_eq(entries[i].needs_ack, i == 269);
    owner_free(&owner);
}
END_TEST

/* ---- how full a link is ---- */

static void take_at(double now)
{
    struct queue_entry *entry = queue_take(&queue, now);

    ck_assert_ptr_nonnull(entry);
    on_their_way[entry->peer][flying_to[entry->peer]++] = entry;
}

static void put_only(size_t bytes)
{
    entries[nentries] = (struct queue_entry){.bytes = bytes};
    queue_put(&queue, &entries[nentries++]);
}

/* A link of 1 kB a millisecond, whose time begins at 10 s. */
START_TEST(a_meter_counts_the_milliseconds_in_which_the_link_is_full)
{
    struct link_meter meter = {.rate = 1e6, .begin = 10, .end = 11};

    open_with((struct queue_options){.window = 4000, .meter = &meter});
    put_only(4000);
    take_at(9.999); /* of which 3 ms are after the beginning */
    put_only(4000);
    put_only(250);
    ck_assert_uint_eq(meter.most_queued, 8250);
    over(0);
    take_at(10.002); /* at once after the first: 7 ms full */
    over(0);
    take_at(10.020); /* a quarter of a millisecond */
    put_only(950);
    put_only(2000);
    over(0);
    take_at(10.02105); /* all but 50 us of one */
    over(0);
    take_at(10.030);
    link_meter_look(&meter, 10.0315);
    ck_assert_double_eq_tol(meter.full_seconds, 9e-3, 1e-9); /* the last one is under way */
    over(0);
    put_only(1000);
    take_at(10.032); /* goes on where that ended */
    put_only(1);
    over(0);
    take_at(10.050);
    link_meter_look(&meter, 10.051); /* closes what is before it */
    ck_assert_double_eq_tol(meter.full_seconds, 11e-3, 1e-9);
    ck_assert_double_eq_tol(meter.longest_seconds, 7e-3, 1e-9);
    ck_assert_uint_eq(meter.most_queued, 8250);
    over(0);
    owner_free(&owner);
}
END_TEST

START_TEST(a_meter_counts_no_time_that_has_not_come)
{
    struct link_meter meter = {.rate = 1e3, .begin = 10, .end = INFINITY};

    open_with((struct queue_options){.window = 8000, .meter = &meter});
    put_only(4000); /* four seconds of that link */
    take_at(10);
    over(0);
    link_meter_look(&meter, 11);
    ck_assert_double_eq_tol(meter.full_seconds, 1, 2e-3); /* but for slots under way */
    ck_assert_double_eq_tol(meter.longest_seconds, 1, 2e-3);
    link_meter_look(&meter, 16);
    ck_assert_double_eq_tol(meter.longest_seconds, 4, 2e-3);
    owner_free(&owner);
}
END_TEST

/* ---- the cap ---- */

static void open_capped(double rate, double now)
{
    struct queue_options options = {.peers = PEERS, .bytes_per_second = rate};

    nentries = 0;
    ck_assert_int_eq(queue_open(&queue, &owner, &options, now), 0);
}

START_TEST(cap_holds_the_rate_and_says_when_the_next_may_go)
{
    double now = 1e6; /* seconds after some start, as a machine's clock has them */

    open_capped(4e6, now);
    for (int i = 0; i < MOST; i++) {
        entries[i] = (struct queue_entry){.peer = i % PEERS, .bytes = 40000};
        queue_put(&queue, &entries[i]);
    }
    for (int i = 0; i < MOST; i++) {
        ck_assert_ptr_eq(queue_take(&queue, now), &entries[i]);
        ck_assert_ptr_eq(queue_take(&queue, now), NULL);
        ck_assert_double_eq_tol(queue_delay(&queue, now), 0.01, 1e-6);
        ck_assert_ptr_eq(queue_take(&queue, now + 0.0099), NULL);
        now += queue_delay(&queue, now);
    }
    owner_free(&owner);
}
END_TEST

START_TEST(cap_saves_up_twenty_milliseconds_and_no_more)
{
    int sent_at_once = 0;

    open_capped(1e6, 0);
    for (int i = 0; i < MOST; i++) {
        entries[i] = (struct queue_entry){.peer = i % PEERS, .bytes = 1000};
        queue_put(&queue, &entries[i]);
    }
    while (queue_take(&queue, 1000))
        sent_at_once++;
    ck_assert_int_eq(sent_at_once, 21); /* 20,000 bytes, and one on credit */
    owner_free(&owner);
}
END_TEST

START_TEST(many_small_ones_below_the_cap_are_as_fast_as_the_cap)
{
    double now = 0;
    size_t bytes = 0;

    open_capped(1e6, 0);
    for (int step = 0; step < 1000; step++) {
        struct queue_entry *entry;
        entries[0] = (struct queue_entry){.peer = step % PEERS, .bytes = 300};
        queue_put(&queue, &entries[0]);
        now += queue_delay(&queue, now);
        entry = queue_take(&queue, now);
        ck_assert_ptr_eq(entry, &entries[0]);
        bytes += entry->bytes;
        queue_sent(&queue, entry);
    }
    ck_assert_double_eq_tol((double)bytes / now, 1e6, 2e3);
    owner_free(&owner);
}
END_TEST

SUITE("queue")
{
    TCase *tcase = suite_case(suite, "queue");

    tcase_add_test(tcase, least_urgency_goes_first_and_equals_in_order);
    tcase_add_test(tcase, fifo_keeps_the_order_of_posting);
    tcase_add_test(tcase, among_equals_the_greatest_weight_goes_first);
    tcase_add_test(tcase, a_peer_has_an_eighth_of_the_window_but_one_entry_at_least);
    tcase_add_test(tcase, window_bounds_what_is_on_its_way_to_all);
    tcase_add_test(tcase, window_bounds_the_number_of_small_ones);
    tcase_add_test(tcase, without_a_window_all_goes_at_once);
    tcase_add_test(tcase, small_ones_do_not_overtake_a_large_one_that_waits_for_the_window);
    tcase_add_test(tcase, equals_leave_peer_by_peer_as_they_were_posted);
    tcase_add_test(tcase, a_reply_in_65_is_enough_for_small_ones);
    tcase_add_test(tcase, what_is_not_small_has_a_reply_which_small_ones_before_it_share);
    tcase_add_test(tcase, silent_ones_keep_nothing_large_waiting);
    tcase_add_test(tcase, silent_ones_to_many_take_an_eighth_of_the_window_at_most);
    tcase_add_test(tcase, a_meter_counts_the_milliseconds_in_which_the_link_is_full);
    tcase_add_test(tcase, a_meter_counts_no_time_that_has_not_come);
    tcase_add_test(tcase, cap_holds_the_rate_and_says_when_the_next_may_go);
    tcase_add_test(tcase, cap_saves_up_twenty_milliseconds_and_no_more);
    tcase_add_test(tcase, many_small_ones_below_the_cap_are_as_fast_as_the_cap);
}
