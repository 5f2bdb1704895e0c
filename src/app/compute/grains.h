/* --reproducible: cuts the batch of an iteration into grains, each one pass of the net. One binary
 * tree (device/tree_sum.h) sums gradients, losses, outputs and BatchNorm's running averages over
 * all grains. A worker computes one branch of the tree, or several if workers have unequal numbers
 * of grains; sums over workers continue the same tree. So the bits equal those of one worker with
 * all grains. Without the option a worker has one share of an iteration (job_shares), and MPI
 * chooses the order of sums. */
#ifndef POSEIDON_COMPUTE_GRAINS_H
#define POSEIDON_COMPUTE_GRAINS_H

#include "net/net.h"
#include "job/job.h"

struct plan;
struct sync;

struct grains {
    int pass;      /* running pass of the iteration */
    double *rows;  /* per share: loss, and outputs if displayed */
    double *table; /* rows to sum in grains_mean: one per grain of all workers, or one */
    struct grains_branch {
        int begin, end; /* first pass; pass after the last */
        float *sum; /* sum of the branch, as an arena; NULL: the net's arena, for the last branch */
    } * branches;   /* this worker's branches */
    float **arenas; /* per branch but the last: its `sum`, for sync; NULL: one branch */
    int nbranches;
    float *waiting; /* per level of the tree: `each` gradients of a half branch until the other half
                       is summed; NULL: one share */
    size_t each;
    float *factors; /* factors of fully connected layers over all grains. A weight's gradient is one
                       product of all factors, so memory holds only the sum */
    struct grains_place {
        size_t waiting, rows; /* offsets of the group in `waiting` and `factors` */
    } * places;               /* per group */
    size_t bytes;             /* bytes of waiting and factors */
    double seconds;           /* seconds spent on adding gradients */
    size_t nstatistics;       /* number of BatchNorm's running sums */
    float *statistics; /* running sums per share, then scratch for one share; NULL: one share, which
                          uses the net's sums */
    double *sums;      /* running sums per share, for averaging */
    float *mean;       /* running sums, averaged over all shares */
};

/* Allocates the sums, owned by the job's owner, and marks weights whose gradients are products of
 * factors. plan: has the workers' branches. Not collective. */
int grains_open(struct grains *grains, const struct job *job, const struct net *net,
                const struct plan *plan, size_t nstatistics);

/* Adds a group's gradient of the running pass, in the net's arena on the host, to the branch's sum.
 * After the last pass the arena holds the last branch's sum. */
int grains_add(struct grains *grains, const struct job *job, const struct net *net, int group);

/* Replaces row 0 by the mean over all shares of all workers. rows: `width` numbers per share of
 * this worker, at most a loss with its outputs, or nstatistics. Collective over all workers. */
int grains_mean(struct grains *grains, const struct job *job, struct sync *sync, double *rows,
                size_t width);

#endif
