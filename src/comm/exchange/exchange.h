/* The only way from ranks to a running sync: decides which ranks add up their gradients together
 * and which scheme moves each group, then makes the plan and its sync. Training and libposeidon use
 * all of this; `poseidon plan` uses the parts that need no ranks (shape.h, schemes.h).
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
    const struct topology *topology; /* topology of `world` */
    struct device *device;           /* device that holds this rank's parameters and gradients */
    bool blank;                      /* see exchange_facts */
    bool reproducible, unlike;       /* see exchange_facts */
    bool dry_run;                    /* true: the run writes no file */
    /* Paces of workers, beside the times of find_work; NULL: all workers are equal. */
    const struct simulate_pace *paces;
    const char *no_team; /* reason why engines with own memory may not add up; or NULL */
    void *context;       /* first argument of the functions below */
    /* Logs a notice or a warning. All ranks call it alike. */
    void (*say)(void *context, bool warning, const char *text);
    /* Called before products are measured (begins), which needs all cores, and after. *device is
     * member.device, and may be replaced by the device to measure. May be NULL. */
    int (*measure)(void *context, bool begins, const struct device **device);
    /* Finds the seconds of each layer's passes on this cluster; may correct its figures. On rank
     * 0. */
    int (*find_work)(void *context, struct cost_cluster *cluster, struct layer_times *out);
};

struct exchange {
    const struct exchange_options *options; /* borrowed */
    struct exchange_member member;
    struct exchange_facts facts;
    struct exchange_shape shape;
    char team[64];      /* name of the library by which a node's engines add up */
    struct node *node;  /* this rank's node; NULL: none; owned */
    struct probe probe; /* figures of the cluster, for messages of the planned length */
    bool probed;        /* true if `probe` and `cap` are set */
    double cap;         /* most bytes per second that a rank sends; 0: no limit */
    struct plan *plan;  /* owned */
    struct sync_options sync_options; /* options that sync was made with */
    struct sync *sync;                /* owned; the user may destroy it first, and sets it NULL */
};

enum { EXCHANGE_SHARERS = 256 };

/* Writes on all ranks such as "2 ranks, the first of them rank 0, would share one GPU (NVIDIA H200,
 * device 0)"; "" if each computes on a device of its own, or on processors. Collective. */
int exchange_find_sharers(MPI_Comm world, const struct device *device,
                          char sharers[EXCHANGE_SHARERS]);

/* Forms the nodes that options->hierarchy asks for, of ranks of a machine that share memory or
 * whose engines make a team. elems: elements of the arenas, which a node shares. saved_plan: text
 * of the resumed run's plan, borrowed, or NULL. *out must be zero. */
int exchange_form_all(struct exchange *out, const struct exchange_options *options,
                      const struct exchange_member *member, const char *saved_plan, size_t elems);

/* Measures the cluster, unless `exchange` already has the figures, or reads them from the options'
 * file or the user's cache. No traffic may be under way. */
int exchange_measure_all(struct exchange *exchange);

/* Deals the batch anew if comm=auto finds better shares (exchange_choose), but not if the resumed
 * run has a plan. Writes the shares on all ranks, the paces on rank 0 alone. */
int exchange_deal_all(struct exchange *exchange, const struct exchange_net *net,
                      struct exchange_deal *shares);

/* Chooses ways, measuring the cluster only if there is a choice, and makes the plan. Fails if the
 * plan sends too much for the limit on sends. */
int exchange_plan_all(struct exchange *exchange, const struct exchange_net *net);

/* Makes sync. job: the user's part of its options; the rest comes from exchange->options. A meter
 * of sends begins here, after exchange_measure_all. */
int exchange_open_all(struct exchange *exchange, const struct sync_model *model,
                      const struct sync_update *update, const struct sync_options *job);

/* Writes the expected cost of each bucket to `out`, plan->nbuckets places. Needs
 * exchange_measure_all. */
int exchange_price(const struct exchange *exchange, struct cost *out);

/* Frees sync and plan. Collective. */
void exchange_close(struct exchange *exchange);

/* Frees the node, in whose memory the arenas may lie, and the shape. Collective. */
void exchange_leave(struct exchange *exchange);

#endif
