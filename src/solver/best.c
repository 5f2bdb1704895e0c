/* The best snapshot by an output of the first test net: of losses the least, of anything else, such
 * as an accuracy, the most. */
#include "solver/trainer_internal.h"

#include "report/outputs.h"
#include "util/agree.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The output that --keep-best names: its place among all values, and whether less is better. */
static int find_output(const struct trainer *t, int *place, bool *least)
{
    const char *name = t->options->keep_best;
    struct strbuf names = {0};
    int at = 0;

    *place = -1;
    for (int i = 0; i < t->tests[0]->noutputs; i++) {
        const struct net_output *output = &t->tests[0]->outputs[i];
        size_t elems = shape_elems(&output->blob->value.shape);
        if (!strcmp(output->blob->name, name) && elems == 1) {
            *place = at;
            *least = output->loss_weight > 0;
        }
        if (elems == 1)
            strbuf_printf(&names, "%s%s", names.length ? ", " : "", output->blob->name);
        at += (int)elems;
    }
    if (*place < 0)
        error_set("--keep-best=%s: the test net has no such output of one number; it has %s", name,
                  names.length ? strbuf_text(&names) : "none");
    strbuf_free(&names);
    return *place < 0 ? -1 : 0;
}

static int check(const struct trainer *t)
{
    const struct trainer_options *o = t->options;

    bool tests = !t->blank && t->defs.ntests > 0 && t->solver->test_interval > 0;

    if (!tests || (t->rank == 0 && !t->run.keeps))
        return error_set("--keep-best=%s needs a test net, test_interval and snapshots with a "
                         "snapshot_prefix in the solver",
                         o->keep_best);
    if (o->servers > 0)
        return error_set("--keep-best is decided by the workers' test scores: not with "
                         "--servers=%d",
                         o->servers);
    return 0;
}

int trainer_open_best(struct trainer *t)
{
    struct trainer_run *run = &t->run;
    bool least = false;
    struct {
        int64_t iteration;
        double score;
    } known = {.iteration = -1};

    t->best_output = -1;
    t->best = -1;
    if (!t->options->keep_best)
        return 0;
    if (error_agree(t->world, check(t)) ||
        error_agree(t->world, find_output(t, &t->best_output, &least)))
        return -1;
    t->best_sign = least ? -1 : 1;
    if (t->rank == 0) {
        if (t->resumed && !strcmp(run->found.run, run->file.run) &&
            !strcmp(run->found.best_of, t->options->keep_best)) {
            known.iteration = run->found.best;
            known.score = run->found.best_score;
        }
        run->file.best = known.iteration;
        run->file.best_score = known.score;
        snprintf(run->file.best_of, sizeof run->file.best_of, "%s", t->options->keep_best);
    }
    MPI_TRY(MPI_Bcast(&known, (int)sizeof known, MPI_BYTE, 0, t->world));
    t->best = known.iteration;
    t->best_score = known.score;
    return 0;
fail:
    return -1;
}

bool trainer_is_best(struct trainer *t, int64_t iteration)
{
    double score;

    if (t->best_output < 0 || !t->scores || t->scores_iteration != iteration ||
        iteration <= t->at.iteration)
        return false;
    score = t->scores[t->best_output];
    if (!isfinite(score) || (t->best >= 0 && t->best_sign * score <= t->best_sign * t->best_score))
        return false;
    t->best = iteration;
    t->best_score = score;
    LOG_INFO(t->log, "The best %s so far: %g", t->options->keep_best, score);
    return true;
}
