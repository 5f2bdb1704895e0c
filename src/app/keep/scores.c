/* Finds the best test by one output of the first test net: the least loss, or the largest value of
 * another output, such as an accuracy. --keep-best[=OUTPUT] keeps the best test's snapshot.
 * --stop-after=N ends training after N tests in a row without a better score; rank 0 informs
 * dedicated servers (agree_signals.c). */
#include "keep/scores.h"

#include "report/outputs.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Returns the index of an Accuracy layer's first output among a test's outputs; -1: none. */
static int accuracy_of(const struct net *net, const char **name)
{
    size_t at = 0;

    for (int o = 0; o < net->noutputs; o++) {
        const struct blob *blob = net->outputs[o].blob;
        for (int l = 0; l < net->nlayers; l++) {
            const struct layer *layer = &net->layers[l];
            if (layer->i->is_score && layer->tops[0] == blob) {
                *name = blob->name;
                return (int)at;
            }
        }
        at += shape_elems(&blob->value.shape);
    }
    return -1;
}

/* Finds the output that decides the best test. given: --keep-best's name; "": an accuracy; NULL: no
 * --keep-best: an accuracy, else the first loss, else none. *names: list of possible names. */
static void find_output(struct scores *scores, const char *given, const struct net *test,
                        struct strbuf *names)
{
    const char *name = given;
    int at = 0;

    if ((!given || !*given) && accuracy_of(test, &name) < 0)
        name = given;
    for (int i = 0; i < test->noutputs; i++) {
        const struct net_output *output = &test->outputs[i];
        size_t elems = shape_elems(&output->blob->value.shape);
        bool loss = output->loss_weight > 0;
        if (elems == 1 && scores->output < 0 && (name ? !strcmp(output->blob->name, name) : loss)) {
            scores->output = at;
            scores->name = output->blob->name;
            scores->course.best_sign = loss ? -1 : 1;
        }
        if (elems == 1)
            strbuf_printf(names, "%s%s", names->length ? ", " : "", output->blob->name);
        at += (int)elems;
    }
}

/* Finds the output for --stop-after, which may differ from the best test's output. */
static void find_early(struct scores *scores, const struct net *test)
{
    scores->early_name = "loss";
    scores->early_output = accuracy_of(test, &scores->early_name);
    scores->course.early_sign = scores->early_output < 0 ? -1 : 1;
    if (scores->early_output < 0)
        scores->early_output = (int)outputs_count(test);
}

/* Sets the course's settings. Without real data there are no tests or snapshots. If the command
 * line sets the run's end, a last test is added. */
static void plan_course(struct course *course, const struct job *job, int64_t first)
{
    const struct trainer_options *o = job->options;
    const Caffe__SolverParameter *s = job->solver;
    bool rehearses = job_rehearses(job);

    *course = (struct course){.first = first,
                              .test_every = rehearses ? 0 : s->test_interval,
                              .save_every = s->snapshot,
                              .tests_first = s->test_initialization,
                              .tests_last = job->defs.ntests > 0 && (o->epochs > 0 || o->max_iter),
                              .saves = !rehearses,
                              .saves_last = s->snapshot_after_train,
                              .keeps_best = o->keep_best != NULL,
                              .stop_after = o->stop_after};
    course_open(course);
}

int scores_open(struct scores *scores, const struct job *job, const struct net *test, int64_t first,
                bool keeps)
{
    const char *given = job->options->keep_best;
    bool tests = job->defs.ntests > 0 && job->solver->test_interval > 0;
    struct strbuf names = {.data = NULL};
    int status = 0;

    *scores = (struct scores){.iteration = -1, .output = -1, .early_output = -1};
    plan_course(&scores->course, job, first);
    if (test)
        find_early(scores, test);
    if (tests && test)
        find_output(scores, given, test, &names);
    if (given && (!tests || (job->rank == 0 && !keeps)))
        status = error_set("--keep-best%s%s needs a test net, test_interval and snapshots with a "
                           "snapshot_prefix in the solver",
                           *given ? "=" : "", given);
    else if (given && scores->output < 0)
        status = error_set("--keep-best%s%s: the test net has no %s of one number; it has %s",
                           *given ? "=" : "", given, *given ? "such output" : "accuracy",
                           names.length ? strbuf_text(&names) : "none");
    strbuf_free(&names);
    if (!status && test)
        status = error_status(
            OWN(job->owner, scores->values, outputs_count(test) + 1, "test scores") ||
            OWN(job->owner, scores->of_average, outputs_count(test) + 1, "test scores"));
    return status;
}

void scores_tell_end(const struct scores *scores, const struct job *job)
{
    const struct course *course = &scores->course;

    if (course_is_over(course))
        LOG_INFO(job->log,
                 "%s in a row found no better %s than %g of iteration %" PRId64
                 ": --stop-after=%d ends training",
                 units_count(course->early.tests, "test").text, scores->early_name,
                 course->early.score, course->early.iteration, course->stop_after);
}

int scores_take(struct scores *scores, const struct job *job, int64_t iteration)
{
    struct course *course = &scores->course;
    int effects;

    if (scores->early_output < 0 || scores->iteration != iteration)
        return 0;
    assert(scores->values);
    effects = course_tested(course, iteration,
                            scores->output < 0 ? (double)NAN : scores->values[scores->output],
                            scores->values[scores->early_output]);
    if (effects & COURSE_FRUITLESS)
        scores_tell_end(scores, job);
    if ((effects & COURSE_BETTER) && course->keeps_best)
        LOG_INFO(job->log, "The best %s so far: %g", scores->name, course->best.score);
    return effects;
}
