/* --reproducible: the batch of an iteration is cut into grains, each of them one pass of the net,
 * and whatever is summed over the batch (gradients, losses, outputs, BatchNorm's running averages)
 * is summed over the grains by one binary tree (engine/tree_sum.h). A worker computes a branch of
 * it, and whoever adds up workers' sums goes on with the same tree: so the bits are those of one
 * worker that has all the grains.
 *
 * Without the option a worker has one share of an iteration (job->shares) and not several: all of
 * this holds for it, too, but that nothing is added here and MPI sums as it likes. */
#ifndef POSEIDON_TRAIN_GRAINS_H
#define POSEIDON_TRAIN_GRAINS_H

#include "net/net.h"
#include "train/job.h"

struct sync;

struct grains {
    double *losses;     /* per share: of this iteration. Owned */
    double *outputs;    /* per share: the net's outputs of it, where they are displayed. Owned */
    int levels;         /* of the tree over this worker's grains */
    float *waiting;     /* per level: gradients of a branch that waits for its other half, an arena
                           each. Owned; NULL: one share */
    double seconds;     /* that adding them up took */
    size_t nstatistics; /* running sums of BatchNorm's, whose grains each have their own */
    float *statistics;  /* per share. Owned; NULL: one share, whose are the net's */
    float *now;         /* behind them: room for as many more */
};

/* net: of nothing but its shapes. Not collective. */
int grains_open(struct grains *grains, const struct job *job, const struct net *net,
                size_t nstatistics);
void grains_close(struct grains *grains);

/* The group's gradient of that pass, of the last one the sum of all, is in the net's arena: called
 * pass by pass. The net's engine works on the host's memory. */
void grains_add(struct grains *grains, const struct job *job, const struct net *net, int group,
                int pass);

/* rows: `width` numbers of each of this worker's shares; the first row becomes their sum over all
 * shares of all workers, of whom every one calls it. Collective over the workers. */
int grains_sum(const struct job *job, struct sync *sync, double *rows, size_t width);

/* How many shares that are. */
static inline int grains_count(const struct job *job)
{
    return job->shares * job->nworkers;
}

#endif
