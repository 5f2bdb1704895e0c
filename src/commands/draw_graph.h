/* The net as a graph for drawing: layers are nodes, blobs are edges. Splits that are not in the
 * file are left out, and a layer that works in place stands in line with its neighbours. */
#ifndef POSEIDON_COMMANDS_DRAW_GRAPH_H
#define POSEIDON_COMMANDS_DRAW_GRAPH_H

#include "net/net.h"
#include "util/strbuf.h"

struct draw_node {
    const char *name, *type; /* borrowed from the definition */
    char detail[96];         /* "96, 11 x 11, stride 4"; "" if there is nothing to tell */
    const char *fill;        /* colour by kind of layer, "#rrggbb" */
};

struct draw_edge {
    int from, to;   /* nodes; from < to */
    char label[64]; /* shape, or the blob's name where shapes are unknown */
};

struct draw_graph {
    const char *title;
    int nnodes, nedges;
    struct draw_node *nodes;
    struct draw_edge *edges;
};

/* net: for shapes; NULL where they could not be told. The definition must outlive the graph. */
int draw_graph_make(const struct net_def *def, const struct net *net, struct draw_graph *out);
void draw_graph_free(struct draw_graph *graph);

/* Graphviz's language, for `dot` to lay out. */
void draw_dot(const struct draw_graph *graph, struct strbuf *out);

/* A picture with a layout of our own: one row for each step that data takes, rows from top to
 * bottom; edges that skip rows are led around what stands there. */
int draw_svg(const struct draw_graph *graph, struct strbuf *out);

#endif
