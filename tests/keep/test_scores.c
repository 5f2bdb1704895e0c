/* Which outputs the best test of --keep-best and the early stop of --stop-after are by, on scores
 * made here; what follows from them is test_course.c's. No MPI is linked. */
#include "keep/scores.h"
#include "tests/suite.h"
#include "util/error.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* A test net with an accuracy and a loss, in their order. */
struct made {
    struct blob accuracy, loss;
    struct net_output outputs[2];
    struct layer_i counts;
    struct layer layer;
    struct blob *tops[1];
    struct net net;
    Caffe__SolverParameter solver;
    struct trainer_options options;
    struct owner owner;
    struct job job;
};

static void make(struct made *m)
{
    *m = (struct made){.accuracy.name = (char *)"accuracy",
                       .loss.name = (char *)"loss",
                       .counts.is_score = true,
                       .solver.test_interval = 10};
    m->outputs[0] = (struct net_output){.blob = &m->accuracy};
    m->outputs[1] = (struct net_output){.blob = &m->loss, .loss_weight = 1};
    m->tops[0] = &m->accuracy;
    m->layer = (struct layer){.i = &m->counts, .tops = m->tops, .ntops = 1};
    m->net = (struct net){.noutputs = 2, .outputs = m->outputs, .nlayers = 1, .layers = &m->layer};
    m->job = (struct job){
        .owner = &m->owner, .options = &m->options, .solver = &m->solver, .defs.ntests = 1};
}

/* A test at that iteration, whether it is the best: accuracy, loss, and their sum as the net has
 * it.
 */
static bool test_at(struct made *m, struct scores *scores, int64_t iteration, double accuracy,
                    double loss)
{
    const double values[] = {accuracy, loss, loss};

    memcpy(scores->values, values, sizeof values);
    scores->iteration = iteration;
    return scores_take(scores, &m->job, iteration) & COURSE_BETTER;
}

START_TEST(the_best_accuracy_is_the_largest)
{
    struct made m;
    struct scores scores;

    make(&m);
    m.options.keep_best = "accuracy";
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, true), 0);
    ck_assert_int_eq(scores_take(&scores, &m.job, 0), 0); /* nothing was tested */
    ck_assert(test_at(&m, &scores, 10, 0.5, 1));
    ck_assert(!test_at(&m, &scores, 20, 0.4, 0.5));
    ck_assert(!test_at(&m, &scores, 30, 0.5, 0.5)); /* as good as the first is not better */
    ck_assert(test_at(&m, &scores, 40, 0.6, 2));
    ck_assert_int_eq(scores.course.best.iteration, 40);
    ck_assert_double_eq(scores.course.best.score, 0.6);
    owner_free(&m.owner);
}
END_TEST

START_TEST(the_best_loss_is_the_least_and_a_number)
{
    struct made m;
    struct scores scores;

    make(&m);
    m.options.keep_best = "loss";
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, true), 0);
    ck_assert(!test_at(&m, &scores, 10, 0, NAN));
    ck_assert(test_at(&m, &scores, 20, 0, 1));
    ck_assert(test_at(&m, &scores, 30, 0, 0.5));
    ck_assert_int_eq(scores_take(&scores, &m.job, 40), 0); /* those of iteration 30 are known */
    ck_assert_int_eq(scores.course.best.iteration, 30);
    owner_free(&m.owner);
}
END_TEST

START_TEST(without_keep_best_the_accuracy_counts_or_else_the_loss)
{
    struct made m;
    struct scores scores;

    make(&m);
    m.solver.test_interval = 10;
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, false), 0);
    ck_assert_str_eq(scores.name, "accuracy");
    ck_assert(test_at(&m, &scores, 10, 0.5, 1));
    ck_assert(!test_at(&m, &scores, 20, 0.4, 0.5));
    owner_free(&m.owner);
    m.net.nlayers = 0; /* no layer makes an accuracy */
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, false), 0);
    ck_assert_str_eq(scores.name, "loss");
    ck_assert(test_at(&m, &scores, 10, 0.5, 1));
    ck_assert(test_at(&m, &scores, 20, 0.4, 0.5));
    owner_free(&m.owner);
    ck_assert_int_eq(scores_open(&scores, &m.job, NULL, 0, false), 0); /* a dedicated server */
    ck_assert_int_eq(scores.output, -1);
}
END_TEST

START_TEST(an_output_that_is_not_there_is_refused_with_those_that_are)
{
    struct made m;
    struct scores scores;

    make(&m);
    m.options.keep_best = "acuracy";
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, true), -1);
    ck_assert_ptr_nonnull(strstr(error_text(), "--keep-best=acuracy"));
    ck_assert_ptr_nonnull(strstr(error_text(), "it has accuracy, loss"));
    m.options.keep_best = ""; /* an accuracy */
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, true), 0);
    ck_assert_str_eq(scores.name, "accuracy");
    owner_free(&m.owner);
    m.counts.is_score = false;
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, true), -1);
    ck_assert_ptr_nonnull(
        strstr(error_text(),
               "--keep-best: the test net has no accuracy of one number; it has accuracy, loss"));
    m.options.keep_best = "loss";
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, false), -1);
    ck_assert_ptr_nonnull(strstr(error_text(), "snapshots with a snapshot_prefix"));
}
END_TEST

START_TEST(so_many_tests_in_a_row_without_a_better_score_are_enough)
{
    static const double accuracy[] = {0.5, 0.4, 0.6, 0.6, 0.5, 0.1};
    struct made m;
    struct scores scores;

    make(&m);
    m.options.stop_after = 3;
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, true), 0);
    for (int i = 0; i < 6; i++) {
        ck_assert(!course_is_over(&scores.course));
        test_at(&m, &scores, 10 * i, accuracy[i], 6 - i); /* the loss falls, and does not count */
    }
    ck_assert(course_is_over(&scores.course));
    ck_assert_double_eq(scores.course.early.score, 0.6);
    ck_assert_int_eq(scores.course.early.iteration, 20);
    owner_free(&m.owner);
}
END_TEST

START_TEST(without_an_accuracy_the_loss_is_what_counts)
{
    struct made m;
    struct scores scores;

    make(&m);
    m.options.stop_after = 2;
    m.counts.is_score = false;
    ck_assert_int_eq(scores_open(&scores, &m.job, &m.net, 0, true), 0);
    for (int i = 0; i < 3; i++) {
        test_at(&m, &scores, 10 * i, 0, 1 + i);
        scores_take(&scores, &m.job, 10 * i + 1); /* not tested there */
    }
    ck_assert_int_eq(scores.course.early.tests, 2);
    ck_assert(course_is_over(&scores.course));
    owner_free(&m.owner);
}
END_TEST

SUITE("scores")
{
    TCase *tcase = suite_case(suite, "scores");

    tcase_add_test(tcase, the_best_accuracy_is_the_largest);
    tcase_add_test(tcase, the_best_loss_is_the_least_and_a_number);
    tcase_add_test(tcase, without_keep_best_the_accuracy_counts_or_else_the_loss);
    tcase_add_test(tcase, an_output_that_is_not_there_is_refused_with_those_that_are);
    tcase_add_test(tcase, so_many_tests_in_a_row_without_a_better_score_are_enough);
    tcase_add_test(tcase, without_an_accuracy_the_loss_is_what_counts);
}
