/* The shape of an exchange: which ranks add up their gradients together, how many of them lead, and
 * whether comm=auto needs the cluster's figures. A pure function of the user's options and of facts
 * about the ranks, the same on all ranks, for `train`, `plan` and libposeidon. */
#ifndef POSEIDON_EXCHANGE_SHAPE_H
#define POSEIDON_EXCHANGE_SHAPE_H

#include "exchange/exchange_options.h"
#include "sync/node_map.h"

/* Facts about the ranks. Borrowed. */
struct exchange_facts {
    int nranks;                    /* workers, then options->servers dedicated servers */
    const int *machine;            /* per rank: the number of its machine, below nmachines */
    int nmachines, ranks_per_host; /* ranks of the machine that has most */
    bool blank;                    /* replay: each rank stands for a machine of its own */
    bool capped;                   /* the sends of some rank are limited (bandwidth-mbps) */
    bool reproducible;             /* gradients are added up along one tree over all workers */
    bool unlike;                   /* with reproducible: workers have unlike numbers of grains */
    bool own_memory;               /* some worker computes in memory of its own (GPU) */
    const char *no_team;           /* why such engines cannot add up; NULL: they can */
    const char *saved_plan;        /* of the resumed run (exchange/saved_plan.h); NULL: none */
};

struct exchange_shape {
    struct node_map nodes; /* which workers form a node; .node NULL: each is its own. Owned */
    char hindered[256];    /* why hierarchy=auto was given up; "": it was not */
    bool only;             /* all workers are on one machine and share its memory */
    bool asks;            /* comm=auto is a choice by the cluster's figures, not the paper's rule */
    bool whole_gradients; /* schemes that move factors may not be chosen */
    int rails;            /* ranks that lead a node, as in plan_options */
    int leaders_per_host; /* most ranks of one machine that send and share its link */
};

/* Fills *out, for the caller to free. Fails with a message if a hierarchy was named that the ranks
 * cannot form. */
int exchange_shape(const struct exchange_options *options, const struct exchange_facts *facts,
                   struct exchange_shape *out);

/* Frees what the shape owns. */
void exchange_shape_free(struct exchange_shape *shape);

/* Makes every worker a node of its own. */
void exchange_shape_part(struct exchange_shape *shape, const struct exchange_facts *facts);

/* Fails with a message if the nodes have fewer workers than options->leaders. */
int exchange_check_leaders(const struct exchange_options *options,
                           const struct exchange_shape *shape);

#endif
