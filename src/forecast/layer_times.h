/* How long a net's layers compute, as the simulator knows it. */
#ifndef POSEIDON_FORECAST_LAYER_TIMES_H
#define POSEIDON_FORECAST_LAYER_TIMES_H

#include "net/net.h"
#include "simulate/simulate.h"

/* By the operations of the layers: products at gemm_flops, all else at the rate of copying its
 * data. For a net without figures of its own. The owner has its arrays. */
int layer_times_estimate(struct owner *owner, const struct net *net,
                         const struct cost_cluster *cluster, struct layer_times *out);

/* From a file of measured times (engine/replay/profile.h), one line for every layer that is in the
 * net's file. The rates of products and updates there, if any, become cluster's, and that of copies
 * where the cluster has none. */
int layer_times_read(struct owner *owner, const struct net *net, const char *file,
                     struct cost_cluster *cluster, struct layer_times *out);

/* Makes them last that long together. */
void layer_times_stretch(struct layer_times *times, double seconds);

/* Of one pass, the times of an iteration of that many. */
void layer_times_repeat(struct layer_times *times, int iter_size);

#endif
