/* The best test by an output of the first test net, whose snapshot --keep-best[=OUTPUT] keeps; of
 * losses the least, of anything else, such as an accuracy, the most. --stop-after=N: training ends
 * when N tests in a row found nothing better; rank 0 tells the dedicated servers with the next
 * question about signals. */
#include "train/scores.h"

#include "report/outputs.h"
#include "util/alloc.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The place among a test's outputs of the first that an Accuracy layer makes; -1: there is none. */
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

/* ---- the best snapshot ---- */

/* The output that --keep-best names, or an accuracy where it names none: its place among all
 * values, and whether less is better. */
static int find_output(struct scores *scores, const char *given, const struct net *test)
{
    struct strbuf names = {0};
    const char *name = given;
    int at = 0;

    if (!*given && accuracy_of(test, &name) < 0)
        name = "";
    for (int i = 0; i < test->noutputs; i++) {
        const struct net_output *output = &test->outputs[i];
        size_t elems = shape_elems(&output->blob->value.shape);
        if (!strcmp(output->blob->name, name) && elems == 1) {
            scores->output = at;
            scores->name = output->blob->name;
            scores->sign = output->loss_weight > 0 ? -1 : 1;
        }
        if (elems == 1)
            strbuf_printf(&names, "%s%s", names.length ? ", " : "", output->blob->name);
        at += (int)elems;
    }
    if (scores->output < 0)
        error_set("--keep-best%s%s: the test net has no %s of one number; it has %s",
                  *given ? "=" : "", given, *given ? "such output" : "accuracy",
                  names.length ? strbuf_text(&names) : "none");
    strbuf_free(&names);
    return scores->output < 0 ? -1 : 0;
}

/* Nobody says which: an accuracy, else the first loss; none is no error. */
static void find_usual(struct scores *scores, const struct net *test)
{
    size_t at = 0;

    scores->output = accuracy_of(test, &scores->name);
    scores->sign = 1;
    for (int i = 0; i < test->noutputs && scores->output < 0; i++) {
        const struct net_output *output = &test->outputs[i];
        size_t elems = shape_elems(&output->blob->value.shape);
        if (elems == 1 && output->loss_weight > 0) {
            scores->output = (int)at;
            scores->name = output->blob->name;
            scores->sign = -1;
        }
        at += elems;
    }
}

int scores_open(struct scores *scores, const struct job *job, const struct net *test, bool keeps)
{
    const struct trainer_options *o = job->options;
    bool tests = job->defs.ntests > 0 && job->solver->test_interval > 0;

    *scores =
        (struct scores){.output = -1, .best = -1, .stop_after = o->stop_after, .early.best = NAN};
    if (!o->keep_best) {
        if (tests && test)
            find_usual(scores, test);
        return 0;
    }
    if (!tests || (job->rank == 0 && !keeps))
        return error_set("--keep-best%s%s needs a test net, test_interval and snapshots with a "
                         "snapshot_prefix in the solver",
                         *o->keep_best ? "=" : "", o->keep_best);
    if (o->servers > 0)
        return error_set("--keep-best is decided by the workers' test scores: not with "
                         "--servers=%d",
                         o->servers);
    return find_output(scores, o->keep_best, test);
}

void scores_close(struct scores *scores)
{
    free(scores->values);
}

int scores_put(struct scores *scores, int64_t iteration, const double *values, size_t count)
{
    free(scores->values);
    scores->values = alloc_array(count, sizeof *scores->values, "test scores");
    if (!scores->values)
        return -1;
    memcpy(scores->values, values, count * sizeof *values);
    scores->iteration = iteration;
    return 0;
}

bool scores_better(struct scores *scores, const struct job *job, int64_t iteration)
{
    double score;

    if (scores->output < 0 || !scores->values || scores->iteration != iteration)
        return false;
    score = scores->values[scores->output];
    if (!isfinite(score) ||
        (scores->best >= 0 && scores->sign * score <= scores->sign * scores->best_score))
        return false;
    scores->best = iteration;
    scores->best_score = score;
    if (job->options->keep_best)
        LOG_INFO(job->log, "The best %s so far: %g", scores->name, score);
    return true;
}

/* ---- the early stop ---- */

void scores_count(struct scores *scores, const struct job *job, const struct net *test,
                  int64_t iteration)
{
    struct early *early = &scores->early;
    const char *name = "loss";
    int place;
    double score;

    if (scores->stop_after <= 0 || !scores->values || scores->iteration != iteration)
        return;
    place = accuracy_of(test, &name);
    score = scores->values[place >= 0 ? (size_t)place : outputs_count(test)];
    if (isnan(early->best) || (place >= 0 ? score > early->best : score < early->best)) {
        early->best = score;
        early->iteration = iteration;
        early->tests = 0;
    } else if (++early->tests >= scores->stop_after) {
        LOG_INFO(job->log,
                 "%d test%s in a row found no better %s than %g of iteration %" PRId64
                 ": --stop-after=%d ends training",
                 early->tests, early->tests == 1 ? "" : "s", name, early->best, early->iteration,
                 scores->stop_after);
        early->enough = true;
    }
}
