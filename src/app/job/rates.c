/* Keeps the state of rates and losses. Snapshots hold this state, so that a resumed run continues
 * exactly. */
#include "job/rates.h"

#include "job/course.h"
#include "sync/sync.h"
#include "util/alloc.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int rates_open(struct rates *rates, const struct policy *policy, int average_loss,
               const struct train_state *at)
{
    assert(average_loss >= 1 && at->iteration >= 0 && at->current_step >= 0);
    *rates = (struct rates){.policy = policy,
                            .first = at->iteration,
                            .step = at->current_step,
                            .steps = {at->current_step, at->current_step},
                            .memory.least = INFINITY,
                            .window = average_loss};
    return ALLOC(rates->losses, rates->window, "losses");
}

void rates_close(struct rates *rates)
{
    free(rates->losses);
}

/* ---- rates ---- */

static bool is_plateau(const struct rates *rates)
{
    return rates->policy->type == POLICY_PLATEAU;
}

/* Returns the policy's current_step in `iteration`. */
static int32_t step_in(const struct rates *rates, int64_t iteration)
{
    return is_plateau(rates) ? rates->steps[iteration & 1]
                             : policy_step(rates->policy, rates->first, rates->step, iteration);
}

float rates_of(const struct rates *rates, int64_t iteration)
{
    assert(iteration >= rates->first); /* earlier iterations were before the snapshot */
    return policy_rate(rates->policy, iteration, step_in(rates, iteration));
}

int32_t rates_step(const struct rates *rates, int64_t iteration)
{
    assert(iteration >= rates->first);
    if (is_plateau(rates)) /* known before the iteration begins */
        return step_in(rates, iteration);
    return iteration > rates->first ? step_in(rates, iteration - 1) : rates->step;
}

/* ---- losses ---- */

void rates_put(struct rates *rates, double loss)
{
    rates->losses[rates->nlosses++ % rates->window] = (float)loss;
}

int rates_smooths(const struct rates *rates)
{
    return rates->nlosses < rates->window ? (int)rates->nlosses : rates->window;
}

double rates_smoothed(const struct rates *rates)
{
    int n = rates_smooths(rates);
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)rates->losses[i];
    return n > 0 ? sum / n : 0;
}

/* Adds a loss. *mean: if the window is full, mean of its losses over all workers; else NAN. */
static int smooth(struct rates *rates, struct sync *sync, int nworkers, int64_t iteration,
                  double loss, double *mean)
{
    *mean = NAN;
    rates->sum += (double)(float)loss;
    rates->count++;
    if ((iteration + 1) % rates->window)
        return 0;
    if (nworkers > 1 && sync_sum(sync, &rates->sum, 1))
        return -1;
    *mean = rates->sum / nworkers / (double)rates->count;
    rates->sum = 0;
    rates->count = 0;
    return 0;
}

int rates_follow(struct rates *rates, struct sync *sync, int nworkers, int64_t iteration,
                 double loss, bool *dropped)
{
    int32_t step = step_in(rates, iteration);
    double mean;

    assert(nworkers >= 1 && iteration >= rates->first);
    *dropped = false;
    if (!is_plateau(rates))
        return 0;
    if (smooth(rates, sync, nworkers, iteration, loss, &mean))
        return -1;
    *dropped = policy_follow(rates->policy, iteration, mean, &rates->memory, &step);
    rates->steps[(iteration + 1) & 1] = step;
    return 0;
}

/* ---- state in snapshots ---- */

int rates_remember(const struct rates *rates, const struct course *course, const char *name,
                   struct sync *sync, int nworkers, struct train_state *state)
{
    double sum = rates->sum;
    int length;

    state->memory[0] = '\0';
    if (!is_plateau(rates) && course->test_every <= 0)
        return 0;
    if (is_plateau(rates) && nworkers > 1 && sync_sum(sync, &sum, 1))
        return -1;
    length = snprintf(state->memory, sizeof state->memory, "%a %" PRId64 " %a %" PRId64 " ",
                      rates->memory.least, rates->memory.event, sum / nworkers, rates->count);
    assert((size_t)length < sizeof state->memory); /* fits any four numbers */
    course_remember(course, name, state->memory + length, sizeof state->memory - (size_t)length);
    return 0;
}

int rates_recall(struct rates *rates, struct course *course, const char *name,
                 const struct train_state *state)
{
    bool needed = is_plateau(rates) || course->stop_after > 0;
    int length = 0;

    if (!state->memory[0] ||
        (sscanf(state->memory, "%la %" SCNd64 " %la %" SCNd64 "%n", &rates->memory.least,
                &rates->memory.event, &rates->sum, &rates->count, &length) == 4 &&
         course_recall(course, name, state->memory + length)) ||
        !needed)
        return 0;
    return error_set("the snapshot's memory of losses and tests, \"%s\", cannot be read",
                     state->memory);
}
