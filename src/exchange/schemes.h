/* The one place that turns options and shape into plan_create's options, and into the choice of
 * schemes behind comm=auto. Pure functions. */
#ifndef POSEIDON_EXCHANGE_SCHEMES_H
#define POSEIDON_EXCHANGE_SCHEMES_H

#include "exchange/shape.h"
#include "simulate/choose.h"

/* The groups to exchange. Borrowed. */
struct exchange_net {
    const struct group *groups;
    int ngroups;
    int iter_size;             /* passes per iteration */
    const int *parts, *grains; /* per worker, as in plan_options; NULL: all alike */
    int batch;                 /* likewise */
};

/* The cluster on which the simulator plays candidates. Borrowed. */
struct exchange_cluster {
    struct simulate_options play; /* work, cluster, ranks_per_node, bytes_per_second and the
                                     switches are read */
    int dilate;                   /* > 1: the links carry dilated bytes */
    bool quick;                   /* as in choose_question */
};

/* Shares of the batch that may be dealt anew. Borrowed. */
struct exchange_deal {
    int *share;                 /* per worker: exchange_net.parts, written */
    struct simulate_pace *pace; /* cluster.play.paces, of these shares; written likewise */
    const int *most;            /* samples that each worker has memory for; NULL: any number */
    double before, after;       /* answers: seconds of an iteration with these shares and those */
};

/* Writes each worker's share: its samples beside the batch, which is that of play.work. */
void exchange_set_shares(struct simulate_pace *pace, const int *samples, int n, int batch);

/* Fills plan_create's options, all but the sizes that comm=auto chooses. way: the scheme of each
 * group, net->ngroups places, borrowed by *out. */
void exchange_plan_options(const struct exchange_options *options,
                           const struct exchange_shape *shape, const struct exchange_net *net,
                           int nranks, const struct way *way, struct plan_options *out);

/* Limits the links of `cluster` to bytes_per_second for each rank that sends (0: no limit); the
 * shape says how many ranks share a link. */
void exchange_cap(const struct exchange_shape *shape, double bytes_per_second,
                  struct cost_cluster *cluster);

/* Calls plan_create; a failure's message names the option that caused it. *out is the caller's. */
int exchange_plan(const struct exchange_options *options, const struct exchange_net *net,
                  const struct plan_options *how, struct plan **out);

/* Chooses schemes and sizes for comm=auto; for shape->asks alone. how: from exchange_plan_options.
 * The caller frees *out. deal: NULL, or shares that make the passes alone equally long. They are
 * dealt anew with what the chosen schemes add to the passes, such as gradients rebuilt from
 * factors, which takes a slow worker longer whatever its share; and are kept so where the iteration
 * with what is then chosen is played as 1 % shorter. Bytes of factors, which shares change, too,
 * have the player's word in that, but are not dealt by. */
int exchange_choose(const struct exchange_options *options, const struct exchange_shape *shape,
                    const struct exchange_net *net, const struct exchange_cluster *cluster,
                    const struct plan_options *how, struct exchange_deal *deal,
                    struct choose_answer *out);

/* Takes the resumed run's plan in place of a choice: returns whether it fits these ranks and
 * groups, and then sets how->sizes, but for those that options give, and `way` (net->ngroups
 * places) to those of the plan. */
bool exchange_keep(const struct exchange_options *options, const struct exchange_shape *shape,
                   const struct exchange_net *net, const char *saved_plan, struct plan_options *how,
                   struct way *way);

#endif
