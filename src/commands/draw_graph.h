/* The net as a graph for drawing: layers are nodes, blobs are what leaves them. Splits that are not
 * in the file are left out; a layer that works in place is part of the node whose blob it changes.
 */
#ifndef POSEIDON_COMMANDS_DRAW_GRAPH_H
#define POSEIDON_COMMANDS_DRAW_GRAPH_H

#include "net/net.h"
#include "plan/scheme.h"

/* How each of the net's groups of parameters travels, between so many nodes. */
struct draw_plan {
    const struct scheme *const *chosen; /* per group; NULL there: by none. Borrowed */
    int nodes;
};

struct draw_blob {
    const char *name; /* borrowed from the definition */
    int node;         /* that makes it */
    char shape[64];   /* "32 x 96 x 55 x 55"; "" where it is not known */
};

struct draw_node {
    const char *name, *type; /* borrowed from the definition */
    char detail[96];         /* "96, 11 x 11, stride 4"; "" if there is nothing to tell */
    char inside[96];         /* types of the layers that work in place behind it */
    char inside_names[256];
    char scheme[48]; /* of its parameters; "" without a plan */
    size_t params;   /* of all these layers; what a layer shares counts with its owner */
    const char *fill;
    int first_blob, nblobs; /* tops */
    int first_edge, nedges; /* what it reads */
    int block;              /* it stands for each time's node of that block; or -1 */
    bool hidden;            /* another time's node stands for it */
    int column, depth;      /* of the picture; layers above it in that column, and itself */
};

struct draw_edge {
    int blob, to; /* of draw_graph.blobs, of nodes; the blob's node is before `to` */
};

/* Nodes that come several times alike, one time behind the other. The nodes of the first time stand
 * for all. */
struct draw_block {
    int first, length, times;
};

struct draw_graph {
    const char *title; /* borrowed */
    int plan_nodes;    /* draw_plan.nodes; 0: there is no plan */
    bool assumed;      /* the shapes are those of an assumed input */
    size_t params;     /* of the net */
    int nnodes, nblobs, nedges, nblocks;
    struct draw_node *nodes;
    struct draw_blob *blobs;
    struct draw_edge *edges; /* those of a node one behind the other */
    struct draw_block *blocks;
};

/* net: for shapes and parameters; NULL where they could not be told. plan: of that net, or NULL.
 * The definition must outlive the graph, which has no block yet. */
int draw_graph_make(const struct net_def *def, const struct net *net, const struct draw_plan *plan,
                    struct draw_graph *out);
void draw_graph_free(struct draw_graph *graph);

/* Finds blocks that repeat, and hides all their times but the first. */
void draw_fold(struct draw_graph *graph);

/* Cuts a long net into columns of about the same depth. */
void draw_columns(struct draw_graph *graph);

/* The blob that is drawn for `blob`: the same, or that of the node that stands for its node. */
int draw_shown_blob(const struct draw_graph *graph, int blob);

/* In Graphviz's language. */
void draw_dot(const struct draw_graph *graph, struct strbuf *out);

/* Whether `path` ends as text in that language does, or as a picture that Graphviz's library draws
 * and this build has that library; else fails and says what to do. */
int draw_check(const char *path);

/* Writes the file `path`, of the kind that its ending names. */
int draw_write(struct draw_graph *graph, const char *path);

#endif
