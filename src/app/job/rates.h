/* The learning rate of each iteration, and the losses that policy plateau follows.
 *
 * A server may need a rate before its compute thread reaches the iteration, so a rate depends on
 * the iteration's number alone. Plateau's state is set before the iteration begins, so its rate
 * follows the loss one iteration later than in Caffe forks, where the update waits for the loss. */
#ifndef POSEIDON_JOB_RATES_H
#define POSEIDON_JOB_RATES_H

#include "snapshot/checkpoint.h"
#include "job/policy.h"

struct course;
struct sync;

/* Equal on all workers, except sum and losses. */
struct rates {
    const struct policy *policy; /* borrowed */
    int64_t first;               /* iteration that training starts with */
    int32_t step;                /* current_step in the snapshot at the start; 0: no snapshot */
    struct policy_memory memory;
    int32_t steps[2]; /* plateau: current_step of even and odd iterations; the wire may still ask
                         for the previous iteration */
    double sum;       /* plateau: sum of this worker's losses since the last mean */
    int64_t count;    /* plateau: number of losses in `sum` */
    int64_t window;   /* number of losses to average: average_loss */
    float *losses;    /* ring of the last `window` losses. Owned */
    int64_t nlosses;  /* number of losses added so far */
};

/* Prepares the rates of a training that starts from `at`. */
int rates_open(struct rates *rates, const struct policy *policy, int average_loss,
               const struct train_state *at);
void rates_close(struct rates *rates);

/* Returns the learning rate of an iteration, `first` or later; with plateau, the iteration before
 * must be over. Any thread. */
float rates_of(const struct rates *rates, int64_t iteration);

/* Returns the policy's current_step, for a snapshot before `iteration`. */
int32_t rates_step(const struct rates *rates, int64_t iteration);

/* Add a loss of this worker, and return the mean of the last losses (0 before the first). */
void rates_put(struct rates *rates, double loss);
double rates_smoothed(const struct rates *rates);
int rates_smooths(const struct rates *rates); /* number of losses in rates_smoothed */

/* Finds plateau's rate of the next iteration after the passes of `iteration`. nworkers: workers
 * whose losses differ. *dropped: the rate falls. Collective over workers when losses are
 * averaged. */
int rates_follow(struct rates *rates, struct sync *sync, int nworkers, int64_t iteration,
                 double loss, bool *dropped);

/* Write rates and course as text into a state, and read the text back. name: output that decides
 * the best test. With plateau rates_remember is collective over the workers. */
int rates_remember(const struct rates *rates, const struct course *course, const char *name,
                   struct sync *sync, int nworkers, struct train_state *state);
int rates_recall(struct rates *rates, struct course *course, const char *name,
                 const struct train_state *state);

#endif
