/* The best test by an output of the first test net, whose snapshot --keep-best[=OUTPUT] keeps; of
 * losses the least, of anything else, such as an accuracy, the most. --stop-after=N: training ends
 * when N tests in a row found nothing better; rank 0 tells the dedicated servers with the next
 * question about signals. */
#include "train/scores.h"

#include "report/outputs.h"

#include <inttypes.h>
#include <math.h>
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

/* The output by which tests are compared: the one that --keep-best names; where it names none (""),
 * an accuracy; where nobody asks (NULL), that, else the first loss, and none is no error. *names:
 * those that could be named, in a list. */
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
            scores->sign = loss ? -1 : 1;
        }
        if (elems == 1)
            strbuf_printf(names, "%s%s", names->length ? ", " : "", output->blob->name);
        at += (int)elems;
    }
}

int scores_open(struct scores *scores, const struct job *job, const struct net *test, bool keeps)
{
    const char *given = job->options->keep_best;
    bool tests = job->defs.ntests > 0 && job->solver->test_interval > 0;
    struct strbuf names = {.data = NULL};
    int status = 0;

    *scores = (struct scores){.iteration = -1,
                              .output = -1,
                              .best = -1,
                              .stop_after = job->options->stop_after,
                              .early.best = NAN};
    if (tests && test)
        find_output(scores, given, test, &names);
    if (given && (!tests || (job->rank == 0 && !keeps)))
        status = error_set("--keep-best%s%s needs a test net, test_interval and snapshots with a "
                           "snapshot_prefix in the solver",
                           *given ? "=" : "", given);
    else if (given && job->options->exchange.servers > 0)
        status = error_set("--keep-best is decided by the workers' test scores: not with "
                           "--servers=%d",
                           job->options->exchange.servers);
    else if (given && scores->output < 0)
        status = error_set("--keep-best%s%s: the test net has no %s of one number; it has %s",
                           *given ? "=" : "", given, *given ? "such output" : "accuracy",
                           names.length ? strbuf_text(&names) : "none");
    strbuf_free(&names);
    if (!status && test)
        status = OWN(job->owner, scores->values, outputs_count(test) + 1, "test scores");
    return status;
}

bool scores_better(struct scores *scores, const struct job *job, int64_t iteration)
{
    double score;

    if (scores->output < 0 || scores->iteration != iteration)
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

    if (scores->stop_after <= 0 || scores->iteration != iteration)
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
