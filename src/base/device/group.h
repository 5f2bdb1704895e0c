/* A group of parameters as plain data: what one layer owns, contiguous in the arenas. A net makes
 * them; the plan, the schemes and the wire know a net by its groups alone. */
#ifndef POSEIDON_DEVICE_GROUP_H
#define POSEIDON_DEVICE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One parameter of a group; they lie side by side, without padding. */
struct group_param {
    size_t elems;
    float lr_mult, decay_mult;
};

struct group {
    const char *name; /* the owning layer's; borrowed */
    int layer;        /* its index in the net, for the trace; forward order */
    size_t begin;     /* element offset in the arenas; a multiple of 16 */
    size_t elems;     /* all its parameters together */
    int nparams;
    const struct group_param *params; /* borrowed */
    bool trains;                      /* some parameter has lr_mult != 0 and a loss depends on it */
    /* Else: some parameter has lr_mult and decay_mult != 0. Its gradient stays 0: every rank
     * applies the rule by itself, as Caffe decays what no loss depends on. */
    bool decays;
    /* Fully connected with sufficient factors: the gradient of the weight (m x n, the first
     * parameter) is the sum over k rows of top_grad^T bottom; a second parameter (m) is the bias.
     */
    bool factorable;
    int64_t m, n;    /* outputs, inputs */
    int64_t k;       /* rows of one pass (the batch) on one rank */
    int64_t outputs; /* of the first parameter, a matrix of outputs x all the rest; 0: it is none */
    int first;       /* the number of its first parameter, for whoever has the net */
};

#endif
