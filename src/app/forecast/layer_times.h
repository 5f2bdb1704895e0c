/* Compute times of a net's layers, for the simulator. */
#ifndef POSEIDON_FORECAST_LAYER_TIMES_H
#define POSEIDON_FORECAST_LAYER_TIMES_H

#include "net/net.h"
#include "simulate/simulate.h"

/* Estimates the times by the layers' operations: products at gemm_flops, all else at the rate of
 * copying a layer's data. For nets without measured times. The owner gets the arrays. */
int layer_times_estimate(struct owner *owner, const struct net *net,
                         const struct cost_cluster *cluster, struct layer_times *out);

/* Reads the times from a profile (engine/replay/profile.h) with a line for every layer of the net's
 * file. The profile's rates of products and updates, if any, replace the cluster's; its rate of
 * copies is taken if the cluster has none. */
int layer_times_read(struct owner *owner, const struct net *net, const char *file,
                     struct cost_cluster *cluster, struct layer_times *out);

/* Scales all times, so that their sum is `seconds`. */
void layer_times_stretch(struct layer_times *times, double seconds);

/* Turns the times of one pass into those of an iteration of iter_size passes. */
void layer_times_repeat(struct layer_times *times, int iter_size);

#endif
