/* The recorder, the common clock, pairs and lanes, and the report's arithmetic and words. */
#define _GNU_SOURCE
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/merge.h"
#include "report/report.h"
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

/* ---- report ---- */

static struct figures_rank ranks[3];
static struct figures_layer layers[2];

/* Two workers and a server; 100 ms, all of it computing. */
static struct figures plain(void)
{
    for (int r = 0; r < 3; r++) {
        ranks[r] = (struct figures_rank){.worker = r < 2, .compute_seconds = r < 2 ? 0.1 : 7};
        snprintf(ranks[r].host, sizeof ranks[r].host, "node%d", r);
    }
    layers[0] = (struct figures_layer){.name = "conv1",
                                       .scheme = "PS",
                                       .predicted_sent = 1e6,
                                       .sent = 1e6,
                                       .predicted_seconds = 0.003,
                                       .alone_seconds = 0.002};
    layers[1] = (struct figures_layer){.name = "fc\"6",
                                       .scheme = "SFB",
                                       .predicted_sent = 2e6,
                                       .sent = 2e6,
                                       .predicted_seconds = -1,
                                       .alone_seconds = 0.01};
    return (struct figures){.net = "n",
                            .iterations = 10,
                            .seconds = 0.1,
                            .overlap = true,
                            .batch = 32,
                            .nranks = 3,
                            .nworkers = 2,
                            .ranks = ranks,
                            .nlayers = 2,
                            .layers = layers};
}

static void stall(double seconds, double conv1, double fc6)
{
    for (int r = 0; r < 2; r++) {
        ranks[r].compute_seconds = 0.1 - seconds;
        ranks[r].stall_seconds = seconds;
    }
    layers[0].stall_seconds = conv1;
    layers[1].stall_seconds = fc6;
}

START_TEST(spread_leaves_servers_out)
{
    struct figures figures = plain();
    struct report_advice advice;

    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_NOTHING);
    ck_assert_ptr_nonnull(strstr(advice.text, "compute-bound (100 % of the time), so more ranks"));
}
END_TEST

START_TEST(waits_outside_of_iterations_do_not_count)
{
    struct figures figures = plain();
    struct report_advice advice;

    stall(0.04, 0.01, 0.02);
    figures_leave_out_pauses(&figures); /* nothing is */
    ck_assert_double_eq_tol(ranks[1].stall_seconds, 0.04, 1e-9);
    ck_assert_double_eq_tol(layers[1].stall_seconds, 0.02, 1e-9);

    ranks[1].stall_seconds = 0.5; /* rank 0 saved snapshots meanwhile */
    ranks[1].other_stall_seconds = 0.25;
    layers[0].stall_seconds = 0.27;
    layers[0].stall_most = 0.5;
    layers[0].stall_rank = 1;
    figures_leave_out_pauses(&figures);
    ck_assert_double_eq_tol(ranks[0].stall_seconds, 0.04, 1e-9);
    ck_assert_double_eq_tol(ranks[1].stall_seconds, 0.04, 1e-9);
    ck_assert_double_eq_tol(ranks[1].other_stall_seconds, 0.02, 1e-9);
    ck_assert_double_eq_tol(layers[0].stall_seconds, 0.04, 1e-9);
    ck_assert_double_eq_tol(layers[0].stall_most, 0.04, 1e-9);
    report_advise(&figures, &advice);
    ck_assert_double_le(advice.saves, 0.04 + 1e-9);
    ranks[1].other_stall_seconds = layers[0].stall_most = 0;
    layers[0].stall_rank = -1;
}
END_TEST

START_TEST(advice_names_the_largest_loss)
{
    struct figures figures = plain();
    struct report_advice advice;

    stall(0.01, 0.001, 0.009);
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_LAYER);
    ck_assert_int_eq(advice.which, 1);
    ck_assert_double_eq_tol(advice.saves, 0.01, 1e-9);

    figures.overlap = false;
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_OVERLAP);
    figures.overlap = true;

    layers[1].alone_seconds = 0.3; /* more than computation can hide */
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_TRAFFIC);
    layers[1].alone_seconds = 0.001; /* far less than was waited */
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_SKEW);
    ck_assert_double_eq_tol(advice.saves, 0.01 - 0.002, 1e-9);
    layers[1].alone_seconds = 0.01;

    ranks[0].input_seconds = ranks[1].input_seconds = 0.02;
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_INPUT);
    ranks[0].input_seconds = ranks[1].input_seconds = 0;

    ranks[1].compute_seconds = 0.12;
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_STRAGGLER);
    ck_assert_int_eq(advice.which, 1);
    ck_assert_ptr_nonnull(strstr(advice.text, "host node1: rank 1 there computes"));
}
END_TEST

/* It has no network, and the update it waits for is computation. */
START_TEST(a_rank_alone_waits_for_its_update)
{
    struct figures figures = plain();
    struct report_advice advice;

    figures.nranks = figures.nworkers = 1;
    layers[0].alone_seconds = layers[1].alone_seconds = -1;
    for (int i = 0; i < 2; i++) {
        struct strbuf text = {.data = NULL};
        stall(0.03, 0, i * 0.03);
        ranks[0].other_stall_seconds = 0.03 - i * 0.03;
        report_advise(&figures, &advice);
        ck_assert_int_eq(advice.change, CHANGE_NOTHING);
        report_words(&figures, &text);
        ck_assert_msg(strstr(strbuf_text(&text),
                             "70 ms computing (70.0 %), 30 ms waiting for the update "
                             "of parameters (30.0 %)") != NULL,
                      "%s", strbuf_text(&text));
        ck_assert_ptr_null(strstr(strbuf_text(&text), "network"));
        ck_assert_ptr_nonnull(
            strstr(strbuf_text(&text), "compute-bound (100 % of the time, updates included), so "));
        strbuf_free(&text);
    }
    figures.overlap = false; /* then it could pass while the net computes */
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_OVERLAP);
}
END_TEST

START_TEST(waits_for_sums_are_not_laid_on_a_layer)
{
    struct figures figures = plain();
    struct report_advice advice;

    stall(0.03, 0, 0);
    layers[0].alone_seconds = layers[1].alone_seconds = -1;
    ranks[0].other_stall_seconds = ranks[1].other_stall_seconds = 0.03;
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_SKEW);
    ck_assert_double_eq_tol(advice.saves, 0.03, 1e-9);
    ck_assert_msg(strstr(advice.text, "30 ms of 30 ms waiting is for sums of losses") != NULL, "%s",
                  advice.text);
}
END_TEST

START_TEST(words_say_what_the_figures_say)
{
    struct figures figures = plain();
    struct strbuf text = {.data = NULL};

    stall(0.02, 0.005, 0.015);
    ranks[0].progress_share = 0.01, ranks[1].progress_share = 0.02, ranks[2].progress_share = 0.09;
    report_words(&figures, &text);
    report_table(&figures, &text);
    static const char *const says[] = {
        "An iteration took 100 ms: 80 ms computing (80.0 %), 20 ms waiting for the network (20.0 "
        "%)",
        "Waiting by layer: conv1 5 ms (25 %), fc\"6 15 ms (75 %)",
        /* of 2 and 10 ms alone all is exposed, 8 ms are for other ranks */
        "takes 12 ms; training hid 0 % of it and waited 12 ms for it, and 8 ms for ranks",
        "planned bytes  sent bytes predicted time time alone time waited  exposed\n",
        "   1 MB        1 MB           3 ms       2 ms        5 ms    100 %",
        "The communication thread used 4.0 % of a core on average; maximum on rank 2 (node2), 9.0 "
        "%",
    };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        ck_assert_msg(strstr(strbuf_text(&text), says[i]) != NULL, "'%s' lacks '%s'",
                      strbuf_text(&text), says[i]);
    strbuf_free(&text);
}
END_TEST

/* 4 kB cannot take 22 ms: the first layer that communicates carries the wait for a rank that comes
 * late, and that rank is the one that hardly waits. */
START_TEST(a_small_layer_is_not_blamed_for_a_rank_that_comes_late)
{
    struct figures figures = plain();
    struct report_advice advice;

    stall(0.022, 0.0219, 0.0001);
    ranks[1].stall_seconds = 0.011;
    ranks[0].stall_seconds = 0.033;
    layers[0].alone_seconds = layers[1].alone_seconds = -1;
    layers[0].predicted_seconds = 28e-6;
    layers[1].predicted_seconds = 1e-3;
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_SKEW);
    ck_assert_int_eq(advice.which, 1);
    ck_assert_msg(strstr(advice.text, "of 22 ms waiting only 128 us is transfer; host node1: rank "
                                      "1 was most often the last") != NULL,
                  "%s", advice.text);
    ck_assert_ptr_null(strstr(advice.text, "conv1"));
    /* where the transfer accounts for the wait, the layer is what to look at */
    layers[0].predicted_seconds = 0.02;
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_LAYER);
    ck_assert_int_eq(advice.which, 0);
}
END_TEST

/* A host at half speed makes some layer late: the host is what to look at. */
START_TEST(a_late_rank_comes_before_any_layer)
{
    struct figures figures = plain();
    struct strbuf text = {.data = NULL};
    struct report_advice advice;

    stall(0.022, 0.0219, 0.0001);
    layers[0].predicted_seconds = 0.02;
    layers[0].alone_seconds = layers[1].alone_seconds = -1;
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_LAYER);
    figures.looks = 5;
    ranks[1].late =
        (struct figures_late){.times = 4, .seconds = {[LATE_INPUT] = 0.15, [LATE_NETWORK] = 0.05}};
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_STRAGGLER);
    ck_assert_int_eq(advice.which, 1);
    ck_assert_double_eq_tol(advice.saves, 0.02, 1e-9);
    ck_assert_msg(
        strstr(advice.text,
               "host node1: rank 1 there was late 4 of 5 times, and the others waited 20 ms an "
               "iteration for its input; see the disk") != NULL,
        "%s", advice.text);
    report_words(&figures, &text);
    ck_assert_msg(strstr(strbuf_text(&text),
                         "Late: rank 1 on node1 4 of 5 times (input 150 ms, network 50 ms)\n") !=
                      NULL,
                  "%s", strbuf_text(&text));
    strbuf_free(&text);
    ranks[1].late.seconds[LATE_INPUT] = ranks[1].late.seconds[LATE_NETWORK] =
        1e-4; /* not worth it */
    report_advise(&figures, &advice);
    ck_assert_int_eq(advice.change, CHANGE_LAYER);
}
END_TEST

START_TEST(ranks_of_one_machine_wait_for_no_network)
{
    struct figures figures = plain();
    struct strbuf text = {.data = NULL};

    figures.local = true;
    stall(0.02, 0.005, 0.015);
    report_words(&figures, &text);
    ck_assert_ptr_nonnull(strstr(strbuf_text(&text), "20 ms waiting for other ranks (20.0 %)"));
    ck_assert_ptr_nonnull(strstr(
        strbuf_text(&text), "training waits 20 ms for ranks of this machine that come later; "));
    ck_assert_ptr_null(strstr(strbuf_text(&text), "network"));
    strbuf_free(&text);
}
END_TEST

START_TEST(what_was_not_measured_is_not_spoken_of)
{
    struct figures figures = plain();
    struct strbuf text = {.data = NULL};

    stall(0.02, 0.005, 0.015);
    for (int i = 0; i < 2; i++)
        layers[i].alone_seconds = layers[i].predicted_seconds = -1;
    report_words(&figures, &text);
    report_table(&figures, &text);
    ck_assert_ptr_null(strstr(strbuf_text(&text), "layer 'fc\"6'"));
    ck_assert_ptr_nonnull(strstr(strbuf_text(&text), "for transfers or for ranks that come later"));
    ck_assert_ptr_null(strstr(strbuf_text(&text), " alone"));
    ck_assert_ptr_null(strstr(strbuf_text(&text), "exposed"));
    ck_assert_ptr_null(strstr(strbuf_text(&text), " -"));
    strbuf_free(&text);
}
END_TEST

START_TEST(many_layers_are_folded_but_not_in_the_log)
{
    enum { MANY = 60 };
    struct figures figures = plain();
    struct figures_layer many[MANY];
    struct strbuf text = {.data = NULL}, log = {.data = NULL};
    char names[MANY][20];
    int lines = 0, at = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "layer%02d", i);
        many[i] = (struct figures_layer){.name = names[i],
                                         .scheme = "PS",
                                         .predicted_sent = 1000,
                                         .sent = 1000,
                                         .predicted_seconds = 1e-3,
                                         .alone_seconds = 2e-3,
                                         .stall_seconds = i % 6 == 5 ? 1e-3 * i
                                                          : i < 3    ? 6e-4
                                                                     : 0};
    }
    figures.layers = many;
    figures.nlayers = MANY;
    report_table(&figures, &text);
    for (const char *c = strbuf_text(&text); *c; c++)
        lines += *c == '\n';
    ck_assert_int_eq(lines, 1 + REPORT_ROWS + 1);
    for (int i = 5; i < MANY; i += 6) { /* those that cost something, in the net's order */
        const char *found = strstr(strbuf_text(&text), names[i]);
        ck_assert_ptr_nonnull(found);
        ck_assert_int_gt((int)(found - strbuf_text(&text)), at);
        at = (int)(found - strbuf_text(&text));
    }
    /* 50 layers: 50 kB, 50 and 100 ms; of three 0.6 ms were waited, all of it exposed */
    ck_assert_ptr_nonnull(strstr(strbuf_text(&text), "50 other layers"));
    ck_assert_msg(strstr(strbuf_text(&text),
                         "  50 kB       50 kB          50 ms     100 ms      1.8 ms      2 %") !=
                      NULL,
                  "%s", strbuf_text(&text));
    ck_assert_int_eq(report_lines(&figures, &log), 0);
    ck_assert_ptr_nonnull(strstr(strbuf_text(&log), "layer59"));
    ck_assert_ptr_nonnull(strstr(strbuf_text(&log), "layer04"));
    strbuf_free(&text);
    strbuf_free(&log);
}
END_TEST

START_TEST(log_has_an_object_a_line)
{
    struct figures figures = plain();
    struct strbuf text = {.data = NULL};
    int lines = 0;

    stall(0.02, 0.005, 0.015);
    ck_assert_int_eq(report_lines(&figures, &text), 0);
    for (char *rest = text.data, *line; (line = strsep(&rest, "\n")) != NULL && *line; lines++) {
        ck_assert_int_eq(line[0], '{');
        ck_assert_int_eq(line[strlen(line) - 1], '}');
    }
    ck_assert_int_eq(lines, 1 + 3 + 2 + 1);
    strbuf_free(&text);
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
    tcase_add_test(tests, spread_leaves_servers_out);
    tcase_add_test(tests, waits_outside_of_iterations_do_not_count);
    tcase_add_test(tests, advice_names_the_largest_loss);
    tcase_add_test(tests, a_rank_alone_waits_for_its_update);
    tcase_add_test(tests, waits_for_sums_are_not_laid_on_a_layer);
    tcase_add_test(tests, words_say_what_the_figures_say);
    tcase_add_test(tests, ranks_of_one_machine_wait_for_no_network);
    tcase_add_test(tests, what_was_not_measured_is_not_spoken_of);
    tcase_add_test(tests, a_small_layer_is_not_blamed_for_a_rank_that_comes_late);
    tcase_add_test(tests, a_late_rank_comes_before_any_layer);
    tcase_add_test(tests, many_layers_are_folded_but_not_in_the_log);
    tcase_add_test(tests, log_has_an_object_a_line);
}
