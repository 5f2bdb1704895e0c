/* A group: one layer's parameters, contiguous in the arenas, as plain data. A net makes groups; the
 * plan, the schemes and the wire know a net by its groups alone. */
#ifndef POSEIDON_DEVICE_GROUP_H
#define POSEIDON_DEVICE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One parameter of a group. A group's parameters lie side by side, without padding. */
struct group_param {
    size_t elems;
    float lr_mult, decay_mult;
};

struct group {
    const char *name; /* the owning layer's name; borrowed */
    int layer;        /* index of the owning layer in the net, for the trace; forward order */
    size_t begin;     /* element offset in the arenas; a multiple of 16 */
    size_t elems;     /* elements of all parameters together */
    int nparams;
    const struct group_param *params; /* borrowed */
    bool trains;                      /* a loss depends on some parameter with lr_mult != 0 */
    /* Not `trains`, but some parameter has lr_mult and decay_mult != 0: the gradient stays 0, and
     * every rank applies the rule by itself, since Caffe decays such parameters, too. */
    bool decays;
    /* Fully connected with sufficient factors: the gradient of the weight (m x n, the first
     * parameter) is the sum over k rows of top_grad^T bottom; a second parameter (m) is the bias.
     */
    bool factorable;
    int64_t m, n;    /* outputs, inputs */
    int64_t k;       /* rows of one pass (the batch) on one rank */
    int64_t outputs; /* rows of the first parameter as a matrix, outputs x the rest; 0: no matrix */
    int first;       /* number of the group's first parameter in the net (net->params) */
};

#endif
