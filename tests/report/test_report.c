/* The report's arithmetic and words. */
#define _GNU_SOURCE
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "tests/suite.h"
#include "util/error.h"

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
    report_words(&figures, &text);
    report_table(&figures, &text);
    static const char *const says[] = {
        "An iteration took 100 ms: 80 ms computing (80.0 %), 20 ms waiting for the network (20.0 "
        "%)",
        /* of 2 and 10 ms alone all is exposed, 8 ms are for other ranks */
        "takes 12 ms; training hid 0 % of that time, and waited 12 ms for transfers and 8 ms for "
        "later ranks",
        "planned bytes  sent bytes predicted time time alone time waited  exposed\n",
        "   1 MB        1 MB           3 ms       2 ms        5 ms    100 %",
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
    ck_assert_msg(strstr(advice.text,
                         "of 22 ms waiting only 128 us is transfer; rank 1 (host node1, "
                         "waited only 11 ms) is usually the slowest") != NULL,
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
               "host node1: rank 1 there was late 4 of 5 times, and other ranks waited 20 ms an "
               "iteration for its input; check the disk") != NULL,
        "%s", advice.text);
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
        strbuf_text(&text), "training waits 20 ms for ranks of this machine that finish later; "));
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
    ck_assert_ptr_nonnull(
        strstr(strbuf_text(&text), "for transfers or for ranks that finish later"));
    ck_assert_ptr_null(strstr(strbuf_text(&text), " alone"));
    ck_assert_ptr_null(strstr(strbuf_text(&text), "exposed"));
    ck_assert_ptr_null(strstr(strbuf_text(&text), " -"));
    ck_assert_ptr_null(strstr(strbuf_text(&text), "full"));
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

SUITE("report")
{
    TCase *tests = suite_case(suite, "report");

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
