/* Turns options and shape into plan_create's options, and chooses the schemes for comm=auto, in
 * this one place. Pure functions. */
#ifndef POSEIDON_EXCHANGE_SCHEMES_H
#define POSEIDON_EXCHANGE_SCHEMES_H

#include "exchange/shape.h"
#include "simulate/choose.h"

/* The groups to exchange. Borrowed. */
struct exchange_net {
    const struct group *groups;
    int ngroups;
    int iter_size;             /* passes per iteration */
    const int *parts, *grains; /* per worker, see plan_options; NULL: all workers are equal */
    int batch;                 /* see plan_options */
};

/* The cluster on which the simulator plays candidates. Borrowed. */
struct exchange_cluster {
    struct simulate_options play; /* options of the simulator, of which work, cluster,
                                     ranks_per_node, bytes_per_second and the switches are read */
    int dilate;                   /* > 1: the links carry dilated bytes */
};

/* Shares of the batch that exchange_choose may change. Borrowed. */
struct exchange_deal {
    int *share;                 /* per worker: samples, exchange_net.parts; written */
    struct simulate_pace *pace; /* cluster.play.paces, which belong to the shares; written */
    const int *most;      /* per worker: samples that its memory has room for; NULL: any number */
    double before, after; /* seconds of an iteration with the shares as given, and as returned */
};

/* Writes each worker's share: its samples divided by the batch, which is the batch of play.work. */
void exchange_set_shares(struct simulate_pace *pace, const int *samples, int n, int batch);

/* Fills plan_create's options, except the sizes that comm=auto chooses. way: one per group,
 * net->ngroups places, borrowed by *out. */
void exchange_plan_options(const struct exchange_options *options,
                           const struct exchange_shape *shape, const struct exchange_net *net,
                           int nranks, const struct way *way, struct plan_options *out);

/* Limits the links of `cluster` to bytes_per_second for each rank that sends (0: no limit). The
 * shape knows how many ranks share a link. */
void exchange_cap(const struct exchange_shape *shape, double bytes_per_second,
                  struct cost_cluster *cluster);

/* Calls plan_create; a failure's message names the option that caused it. *out is the caller's. */
int exchange_plan(const struct exchange_options *options, const struct exchange_net *net,
                  const struct plan_options *how, struct plan **out);

/* Chooses schemes and sizes for comm=auto; only if shape->asks. how: from exchange_plan_options.
 * The caller frees *out.
 * deal: NULL, or shares that make the workers' compute times equal. If given, recomputes the shares
 * with the compute time that the chosen schemes add, such as rebuilt gradients, which take a slow
 * worker longer whatever its share. Then chooses again with the new shares, and keeps these if the
 * simulated iteration is 1 % shorter. Factor bytes, which also depend on shares, affect that
 * simulation but not the shares. */
int exchange_choose(const struct exchange_options *options, const struct exchange_shape *shape,
                    const struct exchange_net *net, const struct exchange_cluster *cluster,
                    const struct plan_options *how, struct exchange_deal *deal,
                    struct choose_answer *out);

/* Uses the resumed run's plan instead of a choice. Returns true if the plan fits these ranks and
 * groups; then sets `way` (net->ngroups places), and how->sizes except those given by options. */
bool exchange_keep(const struct exchange_options *options, const struct exchange_shape *shape,
                   const struct exchange_net *net, const char *saved_plan, struct plan_options *how,
                   struct way *way);

#endif
