/* A snapshot has what is remembered here, so that a run that stopped goes on as one that did not.
 */
#include "train/rates.h"

#include "train/grains.h"
#include "train/scores.h"
#include "util/alloc.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rates_open(struct rates *rates, const struct policy *policy, int average_loss, int shares,
               const struct train_state *at)
{
    *rates = (struct rates){.policy = policy,
                            .first = at->iteration,
                            .step = at->current_step,
                            .steps = {at->current_step, at->current_step},
                            .memory.least = INFINITY,
                            .shares = shares,
                            .window = average_loss > 0 ? average_loss : 1};
    rates->losses =
        alloc_array((size_t)shares * (size_t)rates->window, sizeof *rates->losses, "losses");
    rates->nlosses = alloc_array((size_t)shares, sizeof *rates->nlosses, "losses");
    rates->sums = alloc_array(2 * (size_t)shares, sizeof *rates->sums, "losses");
    return rates->losses && rates->nlosses && rates->sums ? 0 : -1;
}

void rates_close(struct rates *rates)
{
    free(rates->losses);
    free(rates->nlosses);
    free(rates->sums);
}

/* ---- rates ---- */

static bool is_plateau(const struct rates *rates)
{
    return rates->policy->type == POLICY_PLATEAU;
}

/* The policy's memory in that iteration. */
static int32_t step_in(const struct rates *rates, int64_t iteration)
{
    return is_plateau(rates) ? rates->steps[iteration & 1]
                             : policy_step(rates->policy, rates->first, rates->step, iteration);
}

float rates_of(const struct rates *rates, int64_t iteration)
{
    return policy_rate(rates->policy, iteration, step_in(rates, iteration));
}

int32_t rates_step(const struct rates *rates, int64_t iteration)
{
    if (is_plateau(rates)) /* the step that the iteration to come has */
        return step_in(rates, iteration);
    return iteration > rates->first ? step_in(rates, iteration - 1) : rates->step;
}

/* ---- losses ---- */

void rates_put(struct rates *rates, int share, double loss)
{
    if (isfinite(loss)) /* else its update is left out, too */
        rates->losses[share * rates->window + rates->nlosses[share]++ % rates->window] =
            (float)loss;
}

double rates_smoothed(const struct rates *rates, int share)
{
    const float *losses = rates->losses + share * rates->window;
    int64_t all = rates->nlosses[share], n = all < rates->window ? all : rates->window;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)losses[i];
    return n > 0 ? sum / (double)n : 0;
}

/* The mean of all workers' sums. */
static int mean_sum(const struct rates *rates, const struct job *job, struct sync *sync,
                    double *mean)
{
    double *sums = rates->sums + rates->shares;

    memcpy(sums, rates->sums, (size_t)rates->shares * sizeof *sums);
    if (grains_sum(job, sync, sums, 1))
        return -1;
    *mean = sums[0] / grains_count(job);
    return 0;
}

/* The mean over all workers of the losses since the last call with one; NAN: the window is not
 * full. */
static int smooth(struct rates *rates, const struct job *job, struct sync *sync, int64_t iteration,
                  const double *losses, double *mean)
{
    *mean = NAN;
    for (int s = 0; s < rates->shares; s++)
        rates->sums[s] += isfinite(losses[s]) ? (double)(float)losses[s]
                                              : (double)(float)rates_smoothed(rates, s);
    rates->count++;
    if ((iteration + 1) % rates->window)
        return 0;
    if (mean_sum(rates, job, sync, mean))
        return -1;
    *mean /= (double)rates->count;
    memset(rates->sums, 0, (size_t)rates->shares * sizeof *rates->sums);
    rates->count = 0;
    return 0;
}

int rates_follow(struct rates *rates, const struct job *job, struct sync *sync, int64_t iteration,
                 const double *losses, bool *dropped)
{
    int32_t step = step_in(rates, iteration);
    double mean;

    *dropped = false;
    if (!is_plateau(rates))
        return 0;
    if (smooth(rates, job, sync, iteration, losses, &mean))
        return -1;
    *dropped = policy_follow(rates->policy, iteration, mean, &rates->memory, &step);
    rates->steps[(iteration + 1) & 1] = step;
    return 0;
}

/* ---- what a snapshot keeps ---- */

static bool remembers(const struct rates *rates, const struct scores *scores)
{
    return is_plateau(rates) || scores->stop_after > 0;
}

int rates_remember(const struct rates *rates, const struct scores *scores, const struct job *job,
                   struct sync *sync, struct train_state *state)
{
    double mean = 0;

    state->memory[0] = '\0';
    if (!remembers(rates, scores))
        return 0;
    if (is_plateau(rates) && mean_sum(rates, job, sync, &mean))
        return -1;
    snprintf(state->memory, sizeof state->memory, "%a %" PRId64 " %a %" PRId64 " %a %" PRId64 " %d",
             rates->memory.least, rates->memory.event, mean, rates->count, scores->early.best,
             scores->early.iteration, scores->early.tests);
    return 0;
}

int rates_recall(struct rates *rates, struct scores *scores, const struct train_state *state)
{
    struct early *early = &scores->early;

    if (!remembers(rates, scores) || !state->memory[0])
        return 0;
    if (sscanf(state->memory, "%la %" SCNd64 " %la %" SCNd64 " %la %" SCNd64 " %d",
               &rates->memory.least, &rates->memory.event, rates->sums, &rates->count, &early->best,
               &early->iteration, &early->tests) != 7)
        return error_set("the snapshot's memory of losses and tests, \"%s\", cannot be read",
                         state->memory);
    for (int s = 1; s < rates->shares; s++)
        rates->sums[s] = rates->sums[0];
    return 0;
}
