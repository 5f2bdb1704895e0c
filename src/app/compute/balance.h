/* --balance: workers of unlike speed take unlike shares of one batch. A worker's net is of its own
 * share's size, and its losses count by its samples (net_share_means): so the mean over workers, of
 * losses, gradients and whatever comes of them, is the mean over samples, in every scheme.
 *
 * Shares are given by hand, or dealt by the speed of a few passes; a run that is resumed on the
 * hosts that it had keeps those it was dealt: they stand before its plan in its snapshots. */
#ifndef POSEIDON_COMPUTE_BALANCE_H
#define POSEIDON_COMPUTE_BALANCE_H

#include "compute/compute.h"

/* Deals the samples of a turn (struct job) to the workers: in the parts that the options give, else
 * as the resumed run had them, else evenly, until they are dealt by speed. Sets job->samples. Fails
 * if a worker's part would not be a positive whole number of samples. */
int balance_deal(struct job *job, int64_t turn);

/* Deals the samples by speed, if neither the options nor the resumed run gave parts: every worker
 * times a few passes of the net, all at the same time. After balance_deal, with the engine open.
 * *dealt: shares have changed, and the caller makes the nets again. Collective over the world. */
int balance_measure_all(struct job *job, struct compute *compute, bool *dealt);

/* Appends how many samples each worker has: "4 workers x 8", "workers of (2 x 30 + 10)". */
void balance_describe(const struct job *job, struct strbuf *out);

/* Appends the line with the workers' shares that stands before a run's plan; nothing without
 * --balance. */
void balance_put_saved(const struct job *job, struct strbuf *out);

/* The plan in a text that balance_put_saved began; NULL for NULL. */
const char *balance_skip_saved(const char *text);

#endif
