/* The one way from ranks to a running sync: which ranks add up their gradients together, which
 * scheme moves each group, the plan, and the sync that runs the plan. Training and libposeidon use
 * it; `poseidon plan` uses the parts that need no ranks (shape.h, schemes.h).
 *
 * Functions that end in _all are collective over member.world and fail on all ranks together. */
#ifndef POSEIDON_EXCHANGE_EXCHANGE_H
#define POSEIDON_EXCHANGE_EXCHANGE_H

#include "exchange/schemes.h"
#include "exchange/saved_plan.h"
#include "plan/probe.h"
#include "sync/node.h"
#include "sync/sync.h"

/* This rank, and the functions by which the exchange asks its user. Borrowed. */
struct exchange_member {
    MPI_Comm world;
    const struct topology *topology; /* of world */
    struct device *device;           /* holds parameters and gradients of this rank */
    bool blank;                      /* as in exchange_facts */
    bool reproducible, unlike;       /* as in exchange_facts */
    bool dry_run;                    /* writes no file */
    /* Of the workers, beside what find_work finds; NULL: all are alike. */
    const struct simulate_pace *paces;
    const char *no_team; /* why engines with memory of their own may not add up; NULL: they may */
    void *context;       /* first argument of the functions below */
    /* Logs a notice or a warning; called on all ranks alike. */
    void (*say)(void *context, bool warning, const char *text);
    /* Called before (begins) and after the measuring of products, which wants all cores. *engine
     * comes in as member.engine, and may be replaced by the engine to measure. May be NULL. */
    int (*measure)(void *context, bool begins, const struct device **device);
    /* On rank 0: seconds of each layer's passes on this cluster, whose figures it may correct. */
    int (*find_work)(void *context, struct cost_cluster *cluster, struct layer_times *out);
};

struct exchange {
    const struct exchange_options *options; /* borrowed */
    struct exchange_member member;
    struct exchange_facts facts;
    struct exchange_shape shape;
    char team[64];      /* the library by which a node's engines add up, in words */
    struct node *node;  /* this rank's node; NULL: it has none. Owned */
    struct probe probe; /* the cluster's figures, for messages of the length that is planned */
    bool probed;        /* they are there */
    double cap;         /* then: bytes per second that a rank sends at most; 0: no limit */
    struct plan *plan;  /* owned */
    struct sync_options sync_options; /* what sync was made with */
    struct sync *sync;                /* owned; the user may destroy it first, and sets it NULL */
};

enum { EXCHANGE_SHARERS = 256 };

/* "2 ranks, the first of them rank 0, would share one GPU (NVIDIA H200, device 0)", the same on all
 * ranks; "": every rank computes on a device of its own, or on processors. Collective. */
int exchange_find_sharers(MPI_Comm world, const struct device *device,
                          char sharers[EXCHANGE_SHARERS]);

/* Forms the nodes that options->hierarchy asks for, if any, of the ranks of a machine that share
 * memory or whose engines make a team. elems: of the arenas, which a node shares. saved_plan: of
 * the run that goes on, or NULL; borrowed. All before in *out is zero. */
int exchange_form_all(struct exchange *out, const struct exchange_options *options,
                      const struct exchange_member *member, const char *saved_plan, size_t elems);

/* Measures the cluster, once, or takes its figures from the options' file or the user's cache. No
 * traffic may be under way. */
int exchange_measure_all(struct exchange *exchange);

/* Deals the batch anew where comm=auto, as it chooses, finds shares that are better (as
 * exchange_choose); not where the run that goes on has a plan. Only rank 0's paces are written. */
int exchange_deal_all(struct exchange *exchange, const struct exchange_net *net,
                      struct exchange_deal *shares);

/* Chooses ways, measuring only where that is a choice, and makes the plan, which a limit on sends
 * must let through. */
int exchange_plan_all(struct exchange *exchange, const struct exchange_net *net);

/* Makes sync. job: what the user says of it; what the options say of sync is filled in. A meter of
 * its sends begins here, after exchange_measure_all. */
int exchange_open_all(struct exchange *exchange, const struct sync_model *model,
                      const struct sync_update *update, const struct sync_options *job);

/* Writes the expected cost of each bucket to `out`, plan->nbuckets places; after
 * exchange_measure_all. */
int exchange_price(const struct exchange *exchange, struct cost *out);

/* Frees sync and plan. Collective. */
void exchange_close(struct exchange *exchange);

/* Frees the node, in whose memory the arenas may lie, and the rest. Collective. */
void exchange_leave(struct exchange *exchange);

#endif
