/* The net as a table: what `poseidon summary` and the start of training show. */
#ifndef POSEIDON_REPORT_NET_TABLE_H
#define POSEIDON_REPORT_NET_TABLE_H

#include "net/net.h"
#include "util/json.h"

#include <stdio.h>

/* How a group of the net travels, for the table's last column: a short word, borrowed. */
struct net_table_scheme {
    const char *(*name)(void *context, int group);
    void *context;
};

/* Prints one row per layer and top - name, type, top, shape, parameters the layer owns, operations
 * of one forward pass, scheme - and the totals. Splits that are not in the file are left out.
 * scheme: NULL leaves its column out. The net need not be built. Fails when the stream cannot be
 * written. */
int net_table_print(const struct net *net, const struct net_table_scheme *scheme, FILE *to);

/* The same as one JSON object, with the Splits that are not in the file among the layers: {"name",
 * "phase", "parameters", "flops", "outputs": [sorted names], "layers": [{"name", "type", "bottoms":
 * [names], "tops": [{"name", "shape": [...]}], "parameters", "flops", "scheme"}]}; scheme is null
 * where there is none. */
void net_table_json(const struct net *net, const struct net_table_scheme *scheme,
                    struct json *json);

#endif
