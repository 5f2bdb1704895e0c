/* Connects training to src/comm/exchange: the rank's role, engine and net, and the place of
 * servers' updates. */
#ifndef POSEIDON_COMPUTE_NET_EXCHANGE_H
#define POSEIDON_COMPUTE_NET_EXCHANGE_H

#include "exchange/exchange.h"
#include "compute/compute.h"

struct net_exchange {
    const struct job *job;   /* borrowed */
    struct compute *compute; /* borrowed */
    struct engine stand_in;  /* CPU engine that is measured for a replay engine; else .i NULL */
    struct engine host;      /* CPU engine beside a device's engine; else .i NULL. Owned */
    struct sync_model model; /* description of the net for sync */
};

/* Forms the nodes that the options ask for; between net_create and net_build. saved_plan: plan of
 * the resumed run, or NULL. */
int net_exchange_form_all(struct net_exchange *mine, const struct job *job, struct compute *compute,
                          const char *saved_plan, struct exchange *out);

/* Divides the samples again, with the compute time that schemes add (exchange_deal_all); after
 * balance_measure_all. *dealt: shares changed, and the caller makes the nets again. */
int net_exchange_deal_all(struct net_exchange *mine, struct exchange *exchange, bool *dealt);

/* Moves the net's arenas into memory shared by a node's ranks; before net_build. */
void net_exchange_share_memory(struct net_exchange *mine, const struct exchange *exchange);

/* Chooses schemes and makes the plan; after nets and engine are built. */
int net_exchange_plan_all(struct net_exchange *mine, struct exchange *exchange);

/* Decides if this rank's server updates on the device, and logs why; after the plan.
 * place_updates.c */
int net_exchange_place_updates_all(const struct net_exchange *mine, const struct exchange *exchange,
                                   bool *on_device);

/* Opens sync. job: options of sync beyond the job's options and solver. */
int net_exchange_open_all(struct net_exchange *mine, struct exchange *exchange,
                          const struct sync_update *update, const struct sync_options *job);

/* Copies rank 0's values to all ranks. */
int net_exchange_share_values_all(struct net_exchange *mine, struct exchange *exchange);

/* Closes `host`; after exchange_close. */
void net_exchange_close(struct net_exchange *mine);

#endif
