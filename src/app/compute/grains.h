/* --reproducible: the batch of an iteration is cut into grains, each of them one pass of the net,
 * and whatever is summed over the batch (gradients, losses, outputs, BatchNorm's running averages)
 * is summed over the grains by one binary tree (device/tree_sum.h). A worker computes a branch of
 * it, or several where workers have unlike numbers of grains, and whoever adds up workers' sums
 * goes on with the same tree: so the bits are those of one worker that has all the grains. Without
 * the option a worker has one share of an iteration (job_shares), and MPI adds in an order of its
 * own. */
#ifndef POSEIDON_COMPUTE_GRAINS_H
#define POSEIDON_COMPUTE_GRAINS_H

#include "net/net.h"
#include "job/job.h"

struct plan;
struct sync;

struct grains {
    int pass;      /* of the iteration, that runs */
    double *rows;  /* per share: its loss, and its outputs where they are displayed */
    double *table; /* what grains_mean sums: with grains a row of each, of all workers */
    struct grains_branch {
        int begin, end; /* passes */
        float *sum;     /* an arena; NULL: the net's, of the last branch */
    } * branches;       /* of this worker */
    float **arenas;     /* per branch but the last: its sum, as sync wants them; NULL: one branch */
    int nbranches;
    float *waiting; /* per level of the tree: gradients of a branch that waits for its other
                       half, `each` of them; NULL: one share */
    size_t each;
    float *factors; /* of fully connected layers, whose weights' gradients are made of the factors
                       of all grains at once: memory sees the sum alone */
    struct grains_place {
        size_t waiting, rows; /* the group's, in `waiting` and `factors` */
    } * places;               /* per group */
    size_t bytes;             /* of waiting and factors */
    double seconds;           /* that adding gradients took */
    size_t nstatistics;       /* running sums of BatchNorm's */
    float *statistics;        /* per share, and room for as many more; NULL: one share, whose are
                                 the net's */
    double *sums;             /* per share: its running sums, while they are averaged */
    float *mean;              /* nstatistics: of all shares */
};

/* net: of nothing but its shapes; plan: the workers' branches. The memory is the job's owner's. Not
 * collective. */
int grains_open(struct grains *grains, const struct job *job, const struct net *net,
                const struct plan *plan, size_t nstatistics);

/* The group's gradient of the pass stands in the net's arena, on the host; after the last pass of
 * an iteration the sum of all does. */
int grains_add(struct grains *grains, const struct job *job, const struct net *net, int group);

/* rows: of each of this worker's shares `width` numbers, a loss with its outputs or nstatistics at
 * most. The first row becomes their mean over all shares of all workers, every one of which calls
 * it. Collective over the workers. */
int grains_mean(struct grains *grains, const struct job *job, struct sync *sync, double *rows,
                size_t width);

#endif
