/* Who adds up together, by what and how many lead; and whether the cluster's figures are asked: of
 * what users say and of what is known of the ranks. A pure function, the same on all ranks;
 * `train`, `plan` and libposeidon have no other. */
#ifndef POSEIDON_EXCHANGE_SHAPE_H
#define POSEIDON_EXCHANGE_SHAPE_H

#include "exchange/exchange_options.h"
#include "sync/node_map.h"

/* What is known of the ranks. Borrowed. */
struct exchange_facts {
    int nranks;                    /* workers, then options->servers dedicated servers */
    const int *machine;            /* per rank: the number of its machine, below nmachines */
    int nmachines, ranks_per_host; /* the latter: of the machine that has most */
    bool blank;                    /* nothing is computed: ranks stand for machines of their own */
    bool capped;                   /* some rank's sends keep to a rate */
    bool reproducible;             /* gradients are added up along one tree over all workers */
    bool own_memory;               /* some worker computes in memory that is not the host's */
    const char *no_team;           /* then: why engines cannot add up; NULL: they can */
    const char *saved_plan;        /* of the run that goes on (exchange/saved_plan.h); NULL: none */
};

struct exchange_shape {
    struct node_map nodes; /* who adds up together; .node NULL: every worker for itself. Owned */
    bool hindered;         /* hierarchy=auto found an obstacle, which is this thread's message */
    bool only;             /* one machine has all workers, which share its memory */
    bool asks;            /* comm=auto is a choice by the cluster's figures, not the paper's rule */
    bool whole_gradients; /* nothing that moves factors may be chosen */
    int rails;            /* ranks that lead a node, as in plan_options */
    int leaders_per_host; /* the most ranks of a machine that send: they share its link */
};

/* Fails with a message where a hierarchy that was named cannot be. To be freed. */
int exchange_shape(const struct exchange_options *options, const struct exchange_facts *facts,
                   struct exchange_shape *out);
void exchange_shape_free(struct exchange_shape *shape);

/* Every worker for itself, whatever was there. */
void exchange_shape_part(struct exchange_shape *shape, const struct exchange_facts *facts);

/* Whether its nodes can have as many leaders as were asked for. */
int exchange_check_leaders(const struct exchange_options *options,
                           const struct exchange_shape *shape);

#endif
