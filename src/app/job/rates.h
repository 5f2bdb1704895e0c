/* The learning rate of each iteration, and the losses that it may follow.
 *
 * A server may need a rate before its compute thread gets to that iteration: a rate follows from
 * the iteration's number. Only plateau's has a memory, which is filled before the iteration begins,
 * so that it follows the loss one iteration later than in the forks that have it, where the update
 * waits for the loss. */
#ifndef POSEIDON_JOB_RATES_H
#define POSEIDON_JOB_RATES_H

#include "snapshot/checkpoint.h"
#include "job/policy.h"

struct course;
struct sync;

/* The same on all workers, but for sum and losses. */
struct rates {
    const struct policy *policy; /* borrowed */
    int64_t first;               /* the iteration that training starts with */
    int32_t step;                /* policy_step of the snapshot that it starts from, or 0 */
    struct policy_memory memory;
    int32_t steps[2]; /* plateau: policy_step of even and of odd iterations: the wire may still ask
                         for the one before */
    double sum;       /* plateau: this worker's losses since the last smoothed one */
    int64_t count;    /* of as many iterations */
    int64_t window;   /* losses that are smoothed: average_loss */
    float *losses;    /* the last ones, a ring. Owned */
    int64_t nlosses;  /* ever put in */
};

/* For training from `at` on. */
int rates_open(struct rates *rates, const struct policy *policy, int average_loss,
               const struct train_state *at);
void rates_close(struct rates *rates);

/* The learning rate of an iteration from the first one on; plateau's when the iteration before is
 * over. Any thread. */
float rates_of(const struct rates *rates, int64_t iteration);

/* The policy's current_step of a snapshot before that iteration. */
int32_t rates_step(const struct rates *rates, int64_t iteration);

/* A loss of this worker; and the mean of the last ones, 0 before the first. */
void rates_put(struct rates *rates, double loss);
double rates_smoothed(const struct rates *rates);
int rates_smooths(const struct rates *rates); /* of how many losses that is the mean */

/* Plateau, on each of nworkers workers (1: all have the same loss) after that iteration's passes:
 * the next iteration's rate. *dropped: the rate is lower than before. Collective over the workers
 * where the loss is smoothed. */
int rates_follow(struct rates *rates, struct sync *sync, int nworkers, int64_t iteration,
                 double loss, bool *dropped);

/* What must be remembered of losses and tests, as text, into a state, and back. name: that of the
 * output by which tests are compared. Collective over the workers with plateau. */
int rates_remember(const struct rates *rates, const struct course *course, const char *name,
                   struct sync *sync, int nworkers, struct train_state *state);
int rates_recall(struct rates *rates, struct course *course, const char *name,
                 const struct train_state *state);

#endif
