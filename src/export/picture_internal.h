/* Between the boxes of a picture (picture_graph.c), the blocks and columns that they stand in
 * (picture_layout.c) and what is written of them (picture.c). */
#ifndef POSEIDON_EXPORT_PICTURE_INTERNAL_H
#define POSEIDON_EXPORT_PICTURE_INTERNAL_H

#include "export/picture.h"

struct picture_blob {
    const char *name; /* borrowed from the definition */
    int node;         /* that makes it */
    char shape[64];   /* "32 x 96 x 55 x 55"; "" where it is not known */
};

struct picture_node {
    const char *name, *type; /* borrowed from the definition */
    char detail[96];         /* "96, 11 x 11, stride 4"; "" if there is nothing to tell */
    char inside[96];         /* types of the layers that work in place behind it */
    char inside_names[256];
    char scheme[48];        /* of its parameters; "" without a plan */
    size_t params;          /* of all these layers; what a layer shares counts with its owner */
    int first_blob, nblobs; /* tops */
    int first_edge, nedges; /* what it reads */
    int shown;         /* the node that stands for it: itself, or that of a block's first time */
    int first;         /* node of the first time of its block; itself where it is in none */
    int length, times; /* of the block whose first node this is; 0: of none */
    int column, depth; /* of the picture; layers above it in that column, and itself */
};

struct picture_edge {
    int blob, to; /* of picture_graph.blobs, of nodes; the blob's node is before `to` */
};

struct picture_graph {
    const char *title; /* borrowed */
    int plan_nodes;    /* picture_plan.nodes; 0: there is no plan */
    bool assumed;      /* the shapes are those of an assumed input */
    size_t params;     /* of the net */
    int nnodes, nblobs, nedges;
    struct picture_node *nodes;
    struct picture_blob *blobs;
    struct picture_edge *edges; /* those of a node one behind the other */
};

/* As for picture_write. The definition must outlive the graph, which has no block yet. */
int picture_graph_make(const struct net_def *def, const struct net *net,
                       const struct picture_plan *plan, struct picture_graph *out);
void picture_graph_free(struct picture_graph *graph);

/* Finds blocks that repeat, nodes that come several times alike, one time behind the other, of
 * which those of the first time are shown; then cuts a long net into columns of about the same
 * depth. */
void picture_arrange(struct picture_graph *graph);

/* The blob that is drawn for `blob`: the same, or that of the node that stands for its node. */
int picture_shown_blob(const struct picture_graph *graph, int blob);

#endif
