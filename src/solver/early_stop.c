/* --stop-after=N: training ends when N tests in a row found nothing better. All workers see the
 * same scores; rank 0 tells the dedicated servers with the next question about signals. */
#include "solver/trainer_internal.h"

#include "report/outputs.h"
#include "util/error.h"

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
            if (!strcmp(layer->i->type, "Accuracy") && layer->tops[0] == blob) {
                *name = blob->name;
                return (int)at;
            }
        }
        at += shape_elems(&blob->value.shape);
    }
    return -1;
}

int trainer_check_early_stop(const struct trainer *t)
{
    const Caffe__SolverParameter *s = t->solver;

    if (t->options->stop_after <= 0 ||
        (s->test_interval > 0 && t->defs.ntests > 0 && t->defs.test_iter[0] > 0))
        return 0;
    return error_set("--stop-after=%d counts tests, and %s asks for none: expected a test net, "
                     "test_iter and test_interval",
                     t->options->stop_after, t->options->solver);
}

void trainer_judge_test(struct trainer *t, int64_t iteration)
{
    struct trainer_memory *m = &t->memory;
    const struct net *net = t->tests ? t->tests[0] : NULL;
    const char *name = "loss";
    int place;
    double score;

    if (t->options->stop_after <= 0 || !t->scores || t->scores_iteration != iteration)
        return;
    place = accuracy_of(net, &name);
    score = t->scores[place >= 0 ? (size_t)place : outputs_count(net)];
    if (isnan(m->best) || (place >= 0 ? score > m->best : score < m->best)) {
        m->best = score;
        m->best_iteration = iteration;
        m->tests = 0;
    } else if (++m->tests >= t->options->stop_after) {
        LOG_INFO(t->log,
                 "%d test%s in a row found no better %s than %g of iteration %" PRId64
                 ": --stop-after=%d ends training",
                 m->tests, m->tests == 1 ? "" : "s", name, m->best, m->best_iteration,
                 t->options->stop_after);
        m->enough = true;
    }
}
