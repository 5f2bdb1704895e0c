/* The learning rate of each iteration, and what must be remembered of losses and tests for it and
 * for an early stop: a snapshot has both, so that a run that stopped goes on as one that did not.
 *
 * Rates stand ready before the iteration begins, since a server may need one before its compute
 * thread gets there. So plateau's follows the loss one iteration later than in the forks that have
 * it, where the update waits for the loss. */
#include "solver/trainer_internal.h"

#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a snapshot keeps ---- */

static bool remembers(const struct trainer *t)
{
    return t->policy.type == POLICY_PLATEAU || t->options->stop_after > 0;
}

/* The text of train_state.memory, read with what it is written with. */
static int read_memory(struct trainer *t)
{
    struct trainer_memory *m = &t->memory;
    const char *text = t->at.memory;

    *m = (struct trainer_memory){.policy.least = INFINITY, .best = NAN};
    if (!remembers(t) || !text[0] ||
        sscanf(text, "%la %" SCNd64 " %la %" SCNd64 " %la %" SCNd64 " %d", &m->policy.least,
               &m->policy.event, &m->sum, &m->count, &m->best, &m->best_iteration, &m->tests) == 7)
        return 0;
    return error_set("the snapshot's memory of losses and tests, \"%s\", cannot be read", text);
}

int trainer_remember(struct trainer *t, struct train_state *state)
{
    const struct trainer_memory *m = &t->memory;
    double sum = m->sum;

    state->memory[0] = '\0';
    if (!remembers(t))
        return 0;
    if (t->policy.type == POLICY_PLATEAU && t->worker && sync_sum(t->sync, &sum, 1))
        return -1;
    snprintf(state->memory, sizeof state->memory, "%a %" PRId64 " %a %" PRId64 " %a %" PRId64 " %d",
             m->policy.least, m->policy.event, sum / t->nworkers, m->count, m->best,
             m->best_iteration, m->tests);
    return 0;
}

/* ---- rates ---- */

int trainer_check_policy(const struct trainer *t)
{
    const struct trainer_options *o = t->options;

    if (t->policy.type != POLICY_PLATEAU || (o->staleness <= 0 && o->servers <= 0))
        return 0;
    return error_set("lr_policy \"plateau\" follows the loss of all workers, which must be known "
                     "before the next iteration: it cannot be combined with %s",
                     o->staleness > 0 ? "--staleness" : "--servers, which have no loss");
}

int trainer_work_out_rates(struct trainer *t)
{
    int64_t n = t->max_iter - t->at.iteration;
    int32_t step = t->at.current_step;

    if (n < 0)
        n = 0;
    t->rates = calloc((size_t)n + 1, sizeof *t->rates);
    t->steps = calloc((size_t)n + 1, sizeof *t->steps);
    t->losses = calloc((size_t)(t->solver->average_loss > 0 ? t->solver->average_loss : 1),
                       sizeof *t->losses);
    if (!t->rates || !t->steps || !t->losses)
        return error_memory((uint64_t)n * sizeof *t->rates, "learning rates");
    for (int64_t i = 0; i < n; i++) {
        t->rates[i] = policy_rate(&t->policy, t->at.iteration + i, &step);
        t->steps[i] = step;
    }
    return read_memory(t);
}

int32_t trainer_step(const struct trainer *t, int64_t iteration)
{
    int64_t done = iteration - t->at.iteration;

    if (t->policy.type == POLICY_PLATEAU) /* the step that the iteration to come has */
        return t->memory.dropped ? t->memory.step : t->at.current_step;
    return done > 0 ? t->steps[done - 1] : t->at.current_step;
}

/* The mean over all workers of the losses since the last call with one; NAN: the window of
 * average_loss iterations is not full. */
static int smooth(struct trainer *t, int64_t iteration, double loss, double *mean)
{
    struct trainer_memory *m = &t->memory;
    int64_t window = t->solver->average_loss > 0 ? t->solver->average_loss : 1;

    *mean = NAN;
    m->sum += (double)(float)loss;
    m->count++;
    if ((iteration + 1) % window)
        return 0;
    if (sync_sum(t->sync, &m->sum, 1))
        return -1;
    *mean = m->sum / t->nworkers / (double)m->count;
    m->sum = 0;
    m->count = 0;
    return 0;
}

int trainer_follow_loss(struct trainer *t, int64_t iteration, double loss)
{
    struct trainer_memory *m = &t->memory;
    int64_t next = iteration + 1 - t->at.iteration;
    int32_t step = trainer_step(t, iteration);
    double mean;

    if (t->policy.type != POLICY_PLATEAU || t->blank)
        return 0;
    if (smooth(t, iteration, loss, &mean))
        return -1;
    if (policy_follow(&t->policy, iteration, mean, &m->policy, &step)) {
        LOG_INFO(t->log,
                 "Plateau Status: Iteration %" PRId64 ", step = %d: the loss found no minimum "
                 "below %g",
                 iteration + 1, step, m->policy.least);
        m->dropped = true;
        m->step = step;
    }
    t->rates[next] = policy_rate(&t->policy, iteration + 1, &step);
    return 0;
}
