/* Connects training to src/comm/exchange: the rank's role, its engine, its net's groups, times and
 * values; and places the servers' updates. */
#ifndef POSEIDON_COMPUTE_NET_EXCHANGE_H
#define POSEIDON_COMPUTE_NET_EXCHANGE_H

#include "exchange/exchange.h"
#include "compute/compute.h"

struct net_exchange {
    const struct job *job;   /* borrowed */
    struct compute *compute; /* borrowed */
    struct engine stand_in;  /* CPU engine, measured in place of a replay engine; else .i NULL */
    struct engine host;      /* CPU engine for an engine with own memory; else .i NULL. Owned */
    struct sync_model model; /* the net, as sync sees it */
};

/* Forms the nodes that the options ask for; between net_create and net_build. saved_plan: of the
 * resumed run, or NULL. */
int net_exchange_form_all(struct net_exchange *mine, const struct job *job, struct compute *compute,
                          const char *saved_plan, struct exchange *out);

/* Deals the samples anew by the exchange's costs (exchange_deal_all), after balance_measure_all.
 * *dealt: shares have changed, and the caller makes the nets again. */
int net_exchange_deal_all(struct net_exchange *mine, struct exchange *exchange, bool *dealt);

/* Moves the arenas of a node's ranks into the memory that they share; before net_build. */
void net_exchange_share_memory(struct net_exchange *mine, const struct exchange *exchange);

/* Chooses schemes and makes the plan; nets and engine must be there. */
int net_exchange_plan_all(struct net_exchange *mine, struct exchange *exchange);

/* Decides where this rank's server updates, after the plan, and says so (place_updates.c). */
int net_exchange_place_updates_all(const struct net_exchange *mine, const struct exchange *exchange,
                                   bool *on_device);

/* Makes sync. job: sync's options that do not follow from the job's options and solver. */
int net_exchange_open_all(struct net_exchange *mine, struct exchange *exchange,
                          const struct sync_update *update, const struct sync_options *job);

/* Gives all ranks rank 0's values. */
int net_exchange_share_values_all(struct net_exchange *mine, struct exchange *exchange);

/* Closes `host`; after exchange_close. */
void net_exchange_close(struct net_exchange *mine);

#endif
