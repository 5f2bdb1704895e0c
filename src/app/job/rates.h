/* The learning rate of each iteration, and the losses that it may follow.
 *
 * A server may need a rate before its compute thread reaches the iteration, so a rate depends on
 * the iteration's number alone. Only plateau has a memory, which is filled before the iteration
 * begins: its rate follows the loss one iteration later than in the forks that have plateau, where
 * the update waits for the loss. */
#ifndef POSEIDON_JOB_RATES_H
#define POSEIDON_JOB_RATES_H

#include "snapshot/checkpoint.h"
#include "job/policy.h"

struct course;
struct sync;

/* Equal on all workers, except sum and losses. */
struct rates {
    const struct policy *policy; /* borrowed */
    int64_t first;               /* the iteration that training starts with */
    int32_t step;                /* policy_step of the snapshot at the start; 0: no snapshot */
    struct policy_memory memory;
    int32_t steps[2]; /* plateau: policy_step of even and of odd iterations; the wire may still ask
                         for the iteration before */
    double sum;       /* plateau: sum of this worker's losses since the last mean */
    int64_t count;    /* plateau: number of losses in `sum` */
    int64_t window;   /* number of losses to smooth: average_loss */
    float *losses;    /* ring of the last `window` losses. Owned */
    int64_t nlosses;  /* losses put in so far */
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
int rates_smooths(const struct rates *rates); /* number of losses in that mean */

/* Finds plateau's rate of the next iteration, on each of nworkers workers (1: all have the same
 * loss), after the passes of `iteration`. *dropped: the rate falls. Collective over the workers
 * when losses are averaged. */
int rates_follow(struct rates *rates, struct sync *sync, int nworkers, int64_t iteration,
                 double loss, bool *dropped);

/* Write the memory of losses and tests as text into a state, and read it back. name: output by
 * which tests are compared. With plateau rates_remember is collective over the workers. */
int rates_remember(const struct rates *rates, const struct course *course, const char *name,
                   struct sync *sync, int nworkers, struct train_state *state);
int rates_recall(struct rates *rates, struct course *course, const char *name,
                 const struct train_state *state);

#endif
