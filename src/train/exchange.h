/* How ranks bring their gradients together: nodes, plan and sync. Written while the trainer is set
 * up. */
#ifndef POSEIDON_TRAIN_EXCHANGE_H
#define POSEIDON_TRAIN_EXCHANGE_H

#include "plan/probe.h"
#include "train/compute.h"
#include "sync/node.h"
#include "sync/sync.h"

struct exchange {
    struct node_map nodes;   /* who adds up together; .node NULL: every worker for itself. Owned */
    struct node *node;       /* this rank's node; NULL: likewise. Owned */
    char team[64];           /* the library by which a node's engines add up, in words */
    struct probe probe;      /* the cluster's figures, for messages of the length that is planned,
                                not dilated */
    bool probed;             /* they are there */
    double cap;              /* likewise: bytes per second that a rank sends at most; 0: no limit */
    struct plan *plan;       /* Owned */
    bool update_remotely;    /* as in sync_options */
    struct sync_model model; /* the net, as sync sees it */
    struct engine host;      /* beside one with memory of its own; else .i NULL. Owned */
    struct sync_options sync_options; /* what sync was made with */
    struct sync *sync; /* from trainer_create until training is over, then NULL. Owned */
};

/* ---- nodes.c ---- */

/* Between net_create and net_build: forms the nodes that options->hierarchy asks for, if any, of
 * the ranks of a machine that share memory or whose engines make a team. kept_plan: of the run that
 * goes on, or NULL. */
int nodes_form_all(struct exchange *exchange, const struct job *job, struct compute *compute,
                   const char *kept_plan);

/* How many ranks lead a node, when they are formed: options->leaders, else all of the only one,
 * which share its memory. The same on all ranks. */
int nodes_leaders(const struct exchange *exchange, const struct job *job);

/* Decides where this rank's server updates, after the plan, and says so. */
int nodes_place_updates_all(struct exchange *exchange, const struct job *job,
                            struct compute *compute);

/* ---- choose_plan.c ---- */

/* Chooses schemes and makes the plan, which --tune=bandwidth-mbps must let through; nets and engine
 * must be there. */
int schemes_plan_all(struct exchange *exchange, const struct job *job, struct compute *compute,
                     const char *kept_plan);

/* Measures the cluster into exchange->probe, once. Collective; no traffic may be under way. */
int schemes_probe_all(struct exchange *exchange, const struct job *job, struct compute *compute);

/* Leaders that share a machine's link, as the cost model wants it; after schemes_probe_all. */
int schemes_leaders_per_host(const struct exchange *exchange);

/* ---- exchange.c ---- */

/* Whether options->mbps lets an iteration's messages through. After the plan is made. */
int exchange_check_pace(const struct exchange *exchange, const struct job *job);

/* sync_options of a training from iteration `first` on, but for who looks after it. */
void exchange_set_options(struct exchange *exchange, const struct job *job, int64_t first,
                          struct trace *trace);

/* Makes sync with these. */
int exchange_open_all(struct exchange *exchange, const struct job *job, struct compute *compute,
                      const struct sync_update *update);

/* Everybody has rank 0's values. */
int exchange_share_values_all(struct exchange *exchange, const struct job *job,
                              struct compute *compute);

/* Frees it all but the node, in whose memory the nets may lie. Collective. */
void exchange_close(struct exchange *exchange);

#endif
