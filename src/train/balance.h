/* --balance: workers of unlike speed take unlike shares of one batch. A worker's net is of its own
 * share's size, and its losses count by its samples (net_share_means): so the mean over workers, of
 * losses, gradients and whatever comes of them, is the mean over samples, in every scheme.
 *
 * Shares are given by hand, or dealt by the speed of a few passes; a run that is resumed on the
 * hosts that it had keeps those it was dealt: they stand before its plan in its snapshots. */
#ifndef POSEIDON_TRAIN_BALANCE_H
#define POSEIDON_TRAIN_BALANCE_H

#include "train/compute.h"

/* Deals the samples of a turn (struct job) to the workers: in the parts that options give, as the
 * resumed run had them, or evenly for now. Sets job->samples. Fails where options ask for what are
 * not whole samples for each. */
int balance_deal(struct job *job, int64_t turn);

/* Deals them by speed, where neither options nor the resumed run say how: every worker computes a
 * few passes of the net, all at the same time. After balance_deal, with the engine open. *dealt:
 * the nets are to be made again. Collective over the world. */
int balance_measure_all(struct job *job, struct compute *compute, bool *dealt);

/* Where job_follows, with the nets built: how many samples every worker has memory for. Collective.
 */
int balance_find_room_all(struct job *job, const struct compute *compute);

/* Rank 0, with every worker's seconds of an iteration: whether other shares would gain enough to
 * deal them; and, where training stops for them, says so: they are the job's from then on, for the
 * snapshot that the next start goes on from. */
bool balance_is_worth(struct job *job, const double *seconds);
void balance_deal_next(struct job *job, int64_t iteration);

/* Appends how many samples each worker has: "4 workers x 8", "workers of (2 x 30 + 10)". */
void balance_describe(const struct job *job, struct strbuf *out);

/* Appends the line that stands before a run's plan; nothing without --balance. And where the plan
 * begins in such a text, or NULL. */
void balance_put_saved(const struct job *job, struct strbuf *out);
const char *balance_skip_saved(const char *text);

#endif
