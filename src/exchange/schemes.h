/* The one place where options and shape become what plan_create is asked, and the question behind
 * comm=auto. Pure. */
#ifndef POSEIDON_EXCHANGE_SCHEMES_H
#define POSEIDON_EXCHANGE_SCHEMES_H

#include "exchange/shape.h"
#include "simulate/choose.h"

/* What is to be exchanged. Borrowed. */
struct exchange_net {
    const struct group *groups;
    int ngroups;
    int iter_size; /* passes per iteration */
};

/* Where candidates are played. Borrowed. */
struct exchange_cluster {
    struct simulate_options play; /* work, cluster, ranks_per_node, bytes_per_second and the
                                     switches are read */
    int dilate;                   /* > 1: the links carry dilated bytes */
    bool quick;                   /* as in choose_question */
};

/* What plan_create is asked: all but comm=auto's sizes. way: of net->ngroups places, borrowed. */
void exchange_plan_options(const struct exchange_options *options,
                           const struct exchange_shape *shape, const struct exchange_net *net,
                           int nranks, const struct way *way, struct plan_options *out);

/* The cluster where no rank sends more than that (0: no limit); the shape says who shares links. */
void exchange_cap(const struct exchange_shape *shape, double bytes_per_second,
                  struct cost_cluster *cluster);

/* plan_create, whose message names the option. */
int exchange_plan(const struct exchange_options *options, const struct exchange_net *net,
                  const struct plan_options *how, struct plan **out);

/* comm=auto, where shape->asks. how: of exchange_plan_options. *out is to be freed. */
int exchange_choose(const struct exchange_options *options, const struct exchange_shape *shape,
                    const struct exchange_net *net, const struct exchange_cluster *cluster,
                    const struct plan_options *how, struct choose_answer *out);

/* The plan of the run that goes on, in place of a choice: whether it fits; then how->sizes and
 * `way`, of net->ngroups places, are its. */
bool exchange_keep(const struct exchange_options *options, const struct exchange_shape *shape,
                   const struct exchange_net *net, const char *saved_plan, struct plan_options *how,
                   struct way *way);

#endif
