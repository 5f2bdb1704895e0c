/* How long a net's layers compute, for the cost model. */
#ifndef POSEIDON_FORECAST_WORK_H
#define POSEIDON_FORECAST_WORK_H

#include "net/net.h"
#include "plan/timeline.h"

/* By the operations of the layers: products at gemm_flops, all else at the rate of copying its
 * data. For a net without figures of its own. To be freed by cost_work_free. */
int work_estimate(const struct net *net, const struct cost_cluster *cluster, struct cost_work *out);

/* From a file of measured times (engine/replay/profile.h), one line for every layer that is in the
 * net's file. The rates of products and updates there, if any, become cluster's, and that of copies
 * where the cluster has none. */
int work_read(const struct net *net, const char *file, struct cost_cluster *cluster,
              struct cost_work *out);

/* Of one pass, the work of an iteration of that many. */
void work_repeat(struct cost_work *work, int iter_size);

#endif
