/* A net's groups as the plan knows them. */
#ifndef POSEIDON_FORECAST_GROUPS_H
#define POSEIDON_FORECAST_GROUPS_H

#include "net/net.h"
#include "plan/group.h"

/* net->ngroups of them, in one block of memory with their parameters, to be freed; names are the
 * net's. NULL with a message for want of memory. Not collective. */
struct group *groups_create(const struct net *net);

#endif
