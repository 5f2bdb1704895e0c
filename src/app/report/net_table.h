/* The net as a table, for `poseidon summary` and the start of training. */
#ifndef POSEIDON_REPORT_NET_TABLE_H
#define POSEIDON_REPORT_NET_TABLE_H

#include "net/net.h"
#include "plan/plan.h"

#include <stdio.h>

/* Returns the group that the layer owns, or NULL. Shared parameters count with their owner, so that
 * sums over layers are right. */
const struct group *net_table_owned(const struct net *net, int layer);

/* Prints one row per layer and top - name, type, top, shape, parameters the layer owns, operations
 * of one forward pass, scheme - and the totals. Leaves out splits that are not in the file. plan:
 * the net's; NULL leaves out the column of schemes. The net need not be built. Fails if the stream
 * cannot be written. */
int net_table_print(const struct net *net, const struct plan *plan, FILE *to);

#endif
