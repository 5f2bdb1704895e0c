/* The shape of an exchange: which ranks add up their gradients together, how many of these lead,
 * and whether comm=auto needs the cluster's figures. A pure function of the user's options and of
 * facts about the ranks, the same on all ranks, for `train`, `plan` and libposeidon. */
#ifndef POSEIDON_EXCHANGE_SHAPE_H
#define POSEIDON_EXCHANGE_SHAPE_H

#include "exchange/exchange_options.h"
#include "sync/node_map.h"

/* Facts about the ranks. Borrowed. */
struct exchange_facts {
    int nranks;         /* number of ranks: workers, then options->servers dedicated servers */
    const int *machine; /* per rank: the number of its machine, below nmachines */
    int nmachines, ranks_per_host; /* most ranks of one machine */
    bool blank;                    /* replay: each rank stands for a machine of its own */
    bool capped;                   /* true if bandwidth-mbps limits the sends of some rank */
    bool reproducible;             /* gradients are added up along one tree over all workers */
    bool unlike;                   /* with reproducible: workers have different numbers of grains */
    bool own_memory;               /* true if some worker computes in memory of its own (GPU) */
    const char *no_team;           /* reason why such engines cannot add up; NULL: they can */
    const char *saved_plan; /* text of the resumed run's plan (exchange/saved_plan.h); NULL: none */
};

struct exchange_shape {
    struct node_map nodes; /* nodes of workers; .node NULL: each its own node; owned */
    char hindered[256];    /* reason why hierarchy=auto was given up; "": not given up */
    bool only;             /* true if all workers are on one machine and share its memory */
    bool asks; /* true if comm=auto chooses by the cluster's figures, not by the paper's rule */
    bool whole_gradients; /* forbids schemes that move factors */
    int rails;            /* number of ranks that lead a node (plan_options.rails) */
    int leaders_per_host; /* most ranks of one machine that send, and share its link */
};

/* Fills *out; the caller frees it. Fails with a message for a hierarchy that ranks cannot form. */
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
