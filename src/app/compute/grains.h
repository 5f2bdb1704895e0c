/* --reproducible: the batch of an iteration is cut into grains, each of which is one pass of the
 * net. All that is summed over the batch (gradients, losses, outputs, BatchNorm's running averages)
 * is summed over the grains by one binary tree (device/tree_sum.h). A worker computes one branch of
 * the tree, or several if workers have unequal numbers of grains, and sums over workers continue
 * the same tree. So the bits are those of one worker that has all grains. Without the option a
 * worker has one share of an iteration (job_shares), and MPI adds in an order of its own. */
#ifndef POSEIDON_COMPUTE_GRAINS_H
#define POSEIDON_COMPUTE_GRAINS_H

#include "net/net.h"
#include "job/job.h"

struct plan;
struct sync;

struct grains {
    int pass;      /* running pass of the iteration */
    double *rows;  /* per share: its loss, and its outputs if they are displayed */
    double *table; /* rows that grains_mean sums: one per grain of all workers, else one */
    struct grains_branch {
        int begin, end; /* first pass, and the pass after the last */
        float *sum;     /* arena of the sum; NULL: the net's arena, for the last branch */
    } * branches;       /* this worker's branches */
    float **arenas;     /* per branch but the last: its sum, for sync; NULL: one branch */
    int nbranches;
    float *waiting; /* per level of the tree: `each` gradients of a branch that waits for its other
                       half; NULL: one share */
    size_t each;
    float *factors; /* factors of fully connected layers, whose weights' gradients are made of all
                       grains' factors at once, so that memory sees the sum alone */
    struct grains_place {
        size_t waiting, rows; /* offsets of the group in `waiting` and `factors` */
    } * places;               /* per group */
    size_t bytes;             /* bytes of waiting and factors */
    double seconds;           /* seconds spent on adding gradients */
    size_t nstatistics;       /* number of BatchNorm's running sums */
    float *statistics; /* running sums per share, and room for those of one more; NULL: one share,
                          with the net's sums */
    double *sums;      /* running sums per share while they are averaged */
    float *mean;       /* nstatistics running sums, the mean of all shares */
};

/* Allocates the sums, owned by the job's owner, and marks weights whose gradients are made of
 * factors. plan: gives the workers' branches. Not collective. */
int grains_open(struct grains *grains, const struct job *job, const struct net *net,
                const struct plan *plan, size_t nstatistics);

/* Adds the running pass's gradient of the group, which is in the net's arena, on the host. After
 * the last pass the arena has the last branch's sum. */
int grains_add(struct grains *grains, const struct job *job, const struct net *net, int group);

/* Replaces the first of `rows` by the mean over all shares of all workers. rows: `width` numbers
 * for each of this worker's shares, at most a loss with its outputs, or nstatistics. Collective
 * over the workers, all of which call it. */
int grains_mean(struct grains *grains, const struct job *job, struct sync *sync, double *rows,
                size_t width);

#endif
