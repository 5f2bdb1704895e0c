/* Unlike shares of one batch, for workers of unlike speed (--balance) or because there are no equal
 * ones. A worker's batch is its share, and its losses are weighted by samples (net_share_means). So
 * the mean over workers of losses and gradients is the mean over samples, in every scheme.
 *
 * Shares are even, given by hand, or found by timing a few passes. A run that is resumed on the
 * same hosts keeps its shares, which precede the plan in its snapshots. */
#ifndef POSEIDON_COMPUTE_BALANCE_H
#define POSEIDON_COMPUTE_BALANCE_H

#include "compute/compute.h"

/* Divides the samples of a turn (struct job) among workers: in the proportions of the options, else
 * as in the resumed run, else evenly until balance_measure_all. Sets job->samples. Fails if a
 * worker's share would not be a positive whole number of samples. */
int balance_deal(struct job *job, int64_t turn);

/* Divides the samples by speed, unless options or the resumed run gave shares: all workers time a
 * few passes of the net at once. After balance_deal, with the engine open. *dealt: shares were
 * found, and the caller makes the nets again. Collective over the world. */
int balance_measure_all(struct job *job, struct compute *compute, bool *dealt);

/* Appends the number of samples of each worker: "4 workers x 8", "workers of (2 x 30 + 10)". */
void balance_describe(const struct job *job, struct strbuf *out);

/* Appends the line of the workers' shares that precedes a saved plan; nothing without --balance. */
void balance_put_saved(const struct job *job, struct strbuf *out);

/* Returns the plan that follows the line of balance_put_saved in `text`; NULL for NULL. */
const char *balance_skip_saved(const char *text);

#endif
