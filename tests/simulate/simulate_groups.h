/* A small net of three groups, 2000, 10^6 and 10^6 parameters, and the cluster, for seconds that
 * are worked out by hand. */
#ifndef POSEIDON_TESTS_SIMULATE_SIMULATE_GROUPS_H
#define POSEIDON_TESTS_SIMULATE_SIMULATE_GROUPS_H

#include "simulate/simulate.h"
#include "tests/plan/schemes.h"

enum { LAYERS = 3, BIG = 1000 * 1000 };

static const struct group_param big_param = {.elems = BIG, .lr_mult = 1, .decay_mult = 1};
static const struct group_param small_param = {.elems = 2000, .lr_mult = 1, .decay_mult = 1};

/* A small convolution, a large one; what follows begins where they end. */
#define TWO_CONVOLUTIONS                                                                           \
    {.name = "conv1", .elems = 2000, .nparams = 1, .params = &small_param, .trains = true},        \
    {                                                                                              \
        .name = "conv2", .layer = 1, .begin = 2000, .elems = BIG, .nparams = 1,                    \
        .params = &big_param, .trains = true, .outputs = 1000                                      \
    }

/* Behind them, a fully connected layer of 1000 x 1000 whose factors have so many rows. */
#define FULLY_CONNECTED(rows)                                                                      \
    {                                                                                              \
        .name = "fc", .layer = 2, .begin = 2000 + BIG, .elems = BIG, .nparams = 1,                 \
        .params = &big_param, .trains = true, .factorable = true, .m = 1000, .n = 1000,            \
        .k = (rows), .outputs = 1000                                                               \
    }

static double ten[] = {0.01, 0.01, 0.01}, twenty[] = {0.02, 0.02, 0.02};
static int layers[] = {0, 1, 2};
static const struct layer_times one_layer = {
    .nlayers = 1, .forward = ten, .backward = twenty, .ngroups = 1, .layer = layers};
static const struct layer_times three_layers = {
    .nlayers = LAYERS, .forward = ten, .backward = twenty, .ngroups = LAYERS, .layer = layers};

/* 1 GB/s, 1 ms; all else costs nothing. */
static const struct cost_cluster only_link = {.latency_seconds = 1e-3,
                                              .link_Bps = 1e9,
                                              .local_Bps = 1e30,
                                              .gemm_flops = 1e30,
                                              .copy_Bps = 1e30,
                                              .sum_Bps = 1e30,
                                              .transport_Bps = 1e30};

#endif
