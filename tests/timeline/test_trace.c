/* The recorder, the common clock, pairs and lanes. */
#define _GNU_SOURCE
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/merge.h"
#include "tests/suite.h"
#include "util/error.h"

/* ---- recorder ---- */

static const struct {
    const char *text;
    int64_t first, last; /* first -1: an error */
} windows[] = {
    {"0-9", 0, 9},   {"7", 7, 7},     {"5-", 5, INT32_MAX},  {"3-3", 3, 3},
    {"9-3", -1, 0},  {"", -1, 0},     {"-3", -1, 0},         {"a-b", -1, 0},
    {"1-2x", -1, 0}, {"1--2", -1, 0}, {"4294967296", -1, 0}, {" 1", -1, 0},
};

START_TEST(iterations_are_a_range)
{
    int64_t first, last;
    int status = trace_parse_iterations(windows[_i].text, &first, &last);

    if (windows[_i].first < 0) {
        ck_assert_int_ne(status, 0);
        ck_assert_ptr_nonnull(strstr(error_text(), "A-B"));
        return;
    }
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(first, windows[_i].first);
    ck_assert_int_eq(last, windows[_i].last);
}
END_TEST

START_TEST(recorder_keeps_its_window_and_a_margin)
{
    const struct trace_options options = {.first = 3, .last = 5, .capacity = 100};
    struct trace *trace;

    ck_assert_int_eq(trace_create(&options, &trace), 0);
    for (int i = 0; i < 10; i++) {
        trace_iteration(trace, i);
        trace_span(trace, TRACE_COMPUTE, TRACE_FORWARD, 2, trace_begin(trace));
    }
    ck_assert_uint_eq(trace->buffer[TRACE_COMPUTE].used, 3 + 2 * TRACE_MARGIN);
    for (int i = 0; i < 3 + 2 * TRACE_MARGIN; i++) {
        const struct trace_event *event = &trace->buffer[TRACE_COMPUTE].events[i];
        ck_assert_int_eq(event->iteration, 3 - TRACE_MARGIN + i);
        ck_assert_int_eq(event->layer, 2);
        ck_assert_int_ge(event->end, event->start);
    }
    trace_destroy(trace);
}
END_TEST

START_TEST(full_recorder_drops_and_counts)
{
    const struct trace_options options = {.last = 100, .capacity = 5};
    struct trace *trace;

    ck_assert_int_eq(trace_create(&options, &trace), 0);
    trace_iteration(trace, 0);
    for (int i = 0; i < 12; i++)
        trace_span(trace, TRACE_PROGRESS, TRACE_UPDATE, i, trace_begin(trace));
    ck_assert_uint_eq(trace->buffer[TRACE_PROGRESS].used, 5);
    ck_assert_uint_eq(trace->buffer[TRACE_PROGRESS].dropped, 7);
    ck_assert_uint_eq(trace->buffer[TRACE_COMPUTE].used, 0);
    trace_destroy(trace);
}
END_TEST

START_TEST(no_recorder_is_no_work)
{
    ck_assert_int_eq(trace_begin(NULL), 0);
    trace_iteration(NULL, 1);
    trace_span(NULL, TRACE_COMPUTE, TRACE_WAIT, 0, 0);
}
END_TEST

/* ---- clock ---- */

START_TEST(drift_is_taken_off_on_a_line)
{
    /* this clock is 5 ms ahead at first and gains 80 us a second: true time t shows as
     * 5e6 + t * (1 + 8e-5) */
    const double rate = 1 + 8e-5, ahead = 5e6, seconds = 1e9;
    struct clock_offset before = {.at = (int64_t)ahead, .offset = ahead};
    struct clock_offset after = {.at = (int64_t)(ahead + 100 * seconds * rate),
                                 .offset = ahead + 100 * seconds * (rate - 1)};
    int64_t last = INT64_MIN;

    for (int i = 0; i <= 1000; i++) {
        double truth = i * 0.1 * seconds;
        int64_t found = clock_align(&before, &after, (int64_t)(ahead + truth * rate));
        ck_assert_double_le(fabs((double)found - truth), 2);
        ck_assert_int_gt(found, last);
        last = found;
    }
}
END_TEST

START_TEST(alignment_keeps_the_order_of_close_events)
{
    struct clock_offset before = {.at = 1000, .offset = -3e9},
                        after = {.at = 2000000, .offset = -3e9 - 777};

    for (int64_t t = 1000; t < 20000; t++)
        ck_assert_int_le(clock_align(&before, &after, t), clock_align(&before, &after, t + 1));
}
END_TEST

/* ---- pairs and lanes ---- */

static struct timeline_rank rank_of(const struct trace_event *events, size_t n)
{
    struct timeline_rank rank = {
        .nevents = n, .events = malloc(n * sizeof *events), .worker = true};

    ck_assert_ptr_nonnull(rank.events);
    memcpy(rank.events, events, n * sizeof *events);
    return rank;
}

#define SEND(to, tag_, from_ns, to_ns, i)                                                          \
    {                                                                                              \
        .kind = TRACE_SEND, .peer = (to), .tag = (tag_), .start = (from_ns), .end = (to_ns),       \
        .posted = (from_ns), .iteration = (i)                                                      \
    }
#define RECEIVE(from, tag_, from_ns, to_ns, i)                                                     \
    {                                                                                              \
        .kind = TRACE_RECEIVE, .peer = (from), .tag = (tag_), .start = (from_ns), .end = (to_ns),  \
        .posted = (from_ns), .iteration = (i)                                                      \
    }

START_TEST(receive_starts_with_its_send)
{
    /* the same tag comes round again in iteration 8: each receive takes the last send before it */
    const struct trace_event zero[] = {SEND(1, 4, 1000, 1500, 6), SEND(1, 5, 1100, 1200, 6),
                                       SEND(1, 4, 9000, 9100, 8), SEND(2, 4, 1900, 2500, 6)};
    const struct trace_event one[] = {RECEIVE(0, 4, 10, 2000, 5), RECEIVE(0, 4, 2001, 9500, 7),
                                      RECEIVE(0, 5, 1150, 1250, 6), RECEIVE(2, 4, 0, 3000, 6)};
    struct timeline_rank ranks[] = {rank_of(zero, 4), rank_of(one, 4)};
    const struct trace_event *got = ranks[1].events;

    ck_assert_int_eq(timeline_pair(ranks, 2, 0, 100), 0);
    ck_assert_uint_eq(ranks[1].nevents, 4);
    ck_assert_int_eq(got[0].start, 1000);
    ck_assert_int_eq(got[0].iteration, 6); /* the sender knows */
    ck_assert_int_eq(got[0].posted, 10);
    ck_assert_int_eq(got[1].start, 9000);
    ck_assert_int_eq(got[1].iteration, 8);
    ck_assert_int_eq(got[2].start, 1150); /* posted after the send began */
    ck_assert_int_eq(got[3].start, 0);    /* its send is not in the trace */
    free(ranks[0].events);
    free(ranks[1].events);
}
END_TEST

START_TEST(clock_error_does_not_make_arrivals_negative)
{
    const struct trace_event zero[] = {SEND(1, 4, 1000, 1500, 6)};
    const struct trace_event one[] = {RECEIVE(0, 4, 10, 950, 5)};
    struct timeline_rank ranks[] = {rank_of(zero, 1), rank_of(one, 1)};

    ranks[0].error = ranks[1].error = 30; /* 50 too early: within what the clocks may differ by */
    ck_assert_int_eq(timeline_pair(ranks, 2, 6, 6), 0);
    ck_assert_uint_eq(ranks[1].nevents, 1);
    ck_assert_int_eq(ranks[1].events[0].start, 950);
    free(ranks[0].events);
    free(ranks[1].events);
}
END_TEST

START_TEST(what_is_outside_of_the_window_goes)
{
    const struct trace_event zero[] = {SEND(1, 1, 1, 2, 4), SEND(1, 2, 3, 4, 5),
                                       SEND(1, 3, 5, 6, 6)};
    struct timeline_rank rank = rank_of(zero, 3);

    ck_assert_int_eq(timeline_pair(&rank, 1, 5, 5), 0);
    ck_assert_uint_eq(rank.nevents, 1);
    ck_assert_int_eq(rank.events[0].tag, 2);
    free(rank.events);
}
END_TEST

START_TEST(transfers_at_one_time_get_lanes_of_their_own)
{
    enum { N = 500 };
    struct trace_event events[N];
    struct timeline_rank rank;
    int deepest = 0;

    srand(7);
    for (int i = 0; i < N; i++) {
        int64_t start = rand() % 10000;
        events[i] = (struct trace_event)SEND(1, i, start, start + rand() % 200, 0);
    }
    rank = rank_of(events, N);
    ck_assert_int_eq(timeline_lay_out(&rank), 0);
    for (int i = 0; i < N; i++) {
        int depth = 0;
        for (int j = 0; j < N; j++) {
            const struct trace_event *a = &rank.events[i], *b = &rank.events[j];
            bool together = a->start < b->end && b->start < a->end;
            if (j < i && together)
                ck_assert_int_ne(rank.lane[i], rank.lane[j]);
            depth += b->start <= a->start && a->start < b->end;
        }
        deepest = depth > deepest ? depth : deepest;
        ck_assert_int_lt(rank.lane[i], rank.lanes[TRACE_SEND]);
    }
    ck_assert_int_le(rank.lanes[TRACE_SEND],
                     deepest + 1); /* no more of them than needed (spans of 0) */
    timeline_ranks_free(NULL, 0);
    free(rank.events);
    free(rank.lane);
}
END_TEST

SUITE("trace")
{
    TCase *tests = suite_case(suite, "trace");

    tcase_add_loop_test(tests, iterations_are_a_range, 0, sizeof windows / sizeof *windows);
    tcase_add_test(tests, recorder_keeps_its_window_and_a_margin);
    tcase_add_test(tests, full_recorder_drops_and_counts);
    tcase_add_test(tests, no_recorder_is_no_work);
    tcase_add_test(tests, drift_is_taken_off_on_a_line);
    tcase_add_test(tests, alignment_keeps_the_order_of_close_events);
    tcase_add_test(tests, receive_starts_with_its_send);
    tcase_add_test(tests, clock_error_does_not_make_arrivals_negative);
    tcase_add_test(tests, what_is_outside_of_the_window_goes);
    tcase_add_test(tests, transfers_at_one_time_get_lanes_of_their_own);
}
