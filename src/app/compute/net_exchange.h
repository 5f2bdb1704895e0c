/* What training brings to src/comm/exchange: who this rank is, its engine and its net's groups,
 * times and values; and where servers update. */
#ifndef POSEIDON_COMPUTE_NET_EXCHANGE_H
#define POSEIDON_COMPUTE_NET_EXCHANGE_H

#include "exchange/exchange.h"
#include "compute/compute.h"

struct net_exchange {
    const struct job *job; /* borrowed, as is the next one */
    struct compute *compute;
    struct engine stand_in;  /* whose products are measured for the replay engine; else .i NULL */
    struct engine host;      /* beside an engine with memory of its own; else .i NULL. Owned */
    struct sync_model model; /* the net, as sync sees it */
};

/* Between net_create and net_build: forms the nodes that the options ask for. saved_plan: of the
 * run that goes on, or NULL. */
int net_exchange_form_all(struct net_exchange *mine, const struct job *job, struct compute *compute,
                          const char *saved_plan, struct exchange *out);

/* After balance_measure_all: the exchange's costs may deal the samples anew (exchange_deal_all),
 * which sets *dealt: then the caller makes the nets again. */
int net_exchange_deal_all(struct net_exchange *mine, struct exchange *exchange, bool *dealt);

/* A node's ranks have their arenas in the memory that they share; before net_build. */
void net_exchange_share_memory(struct net_exchange *mine, const struct exchange *exchange);

/* Chooses schemes and makes the plan; nets and engine must be there. */
int net_exchange_plan_all(struct net_exchange *mine, struct exchange *exchange);

/* Decides where this rank's server updates, after the plan, and says so (place_updates.c). */
int net_exchange_place_updates_all(const struct net_exchange *mine, const struct exchange *exchange,
                                   bool *on_device);

/* Makes sync. job: all but what options and solver say of it. */
int net_exchange_open_all(struct net_exchange *mine, struct exchange *exchange,
                          const struct sync_update *update, const struct sync_options *job);

/* Everybody has rank 0's values. */
int net_exchange_share_values_all(struct net_exchange *mine, struct exchange *exchange);

/* After exchange_close. */
void net_exchange_close(struct net_exchange *mine);

#endif
