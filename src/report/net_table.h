/* The net as a table: what `poseidon summary` and the start of training show. */
#ifndef POSEIDON_REPORT_NET_TABLE_H
#define POSEIDON_REPORT_NET_TABLE_H

#include "net/net.h"
#include "plan/plan.h"

#include <stdio.h>

/* Prints one row per layer and top - name, type, top, shape, parameters the layer owns, operations
 * of one forward pass, scheme - and the totals. Splits that are not in the file are left out.
 * plan: of the net; NULL leaves the schemes' column out. The net need not be built. Fails when the
 * stream cannot be written. */
int net_table_print(const struct net *net, const struct plan *plan, FILE *to);

#endif
