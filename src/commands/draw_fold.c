/* Blocks that repeat. A block is nodes that stand one behind the other in the file, reads one blob
 * from outside, and is left by blobs of its last node alone. It repeats where the next nodes are
 * alike in all but their names and read what the block before them ends in. */
#include "commands/draw_graph.h"

#include <string.h>

static const struct draw_edge *edges_of(const struct draw_graph *graph, int node)
{
    return &graph->edges[graph->nodes[node].first_edge];
}

/* The blob that nodes `first` to `end` read from outside; -1: none, or more than one. */
static int entry_of(const struct draw_graph *graph, int first, int end)
{
    int entry = -1;

    for (int n = first; n < end; n++)
        for (int e = 0; e < graph->nodes[n].nedges; e++) {
            int blob = edges_of(graph, n)[e].blob;

            if (graph->blobs[blob].node >= first || blob == entry)
                continue;
            if (entry >= 0)
                return -1;
            entry = blob;
        }
    return entry;
}

/* Whether nobody from `end` on reads what nodes `first` to `last`, without it, make. */
static bool is_closed(const struct draw_graph *graph, int first, int last, int end)
{
    for (int e = 0; e < graph->nedges; e++) {
        int from = graph->blobs[graph->edges[e].blob].node;

        if (from >= first && from < last && graph->edges[e].to >= end)
            return false;
    }
    return true;
}

/* Alike in all but names. */
static bool are_alike(const struct draw_graph *graph, int a, int b)
{
    const struct draw_node *one = &graph->nodes[a], *other = &graph->nodes[b];

    if (strcmp(one->type, other->type) || strcmp(one->detail, other->detail) ||
        strcmp(one->inside, other->inside) || strcmp(one->scheme, other->scheme) ||
        one->params != other->params || one->nblobs != other->nblobs ||
        one->nedges != other->nedges)
        return false;
    for (int t = 0; t < one->nblobs; t++)
        if (strcmp(graph->blobs[one->first_blob + t].shape,
                   graph->blobs[other->first_blob + t].shape))
            return false;
    return true;
}

/* Whether the block at `b` is that at `a` once more: inputs from the same places inside, or from
 * outside where the other has them. */
static bool is_again(const struct draw_graph *graph, int a, int b, int length)
{
    for (int i = 0; i < length; i++) {
        if (!are_alike(graph, a + i, b + i))
            return false;
        for (int e = 0; e < graph->nodes[a + i].nedges; e++) {
            const struct draw_blob *one = &graph->blobs[edges_of(graph, a + i)[e].blob];
            const struct draw_blob *other = &graph->blobs[edges_of(graph, b + i)[e].blob];
            const struct draw_node *from = &graph->nodes[one->node],
                                   *other_from = &graph->nodes[other->node];

            if (strcmp(one->shape, other->shape) || (one->node < a) != (other->node < b))
                return false;
            if (one->node >= a && (one->node - a != other->node - b ||
                                   one - &graph->blobs[from->first_blob] !=
                                       other - &graph->blobs[other_from->first_blob]))
                return false;
        }
    }
    return true;
}

/* How often the block of `length` nodes at `first` comes. */
static int count_times(const struct draw_graph *graph, int first, int length)
{
    int times = 1, exit = -1;

    if (!are_alike(graph, first, first + length) || entry_of(graph, first, first + length) < 0 ||
        !is_closed(graph, first, first + length - 1, first + length))
        return 1;
    for (int at = first + length; at + length <= graph->nnodes; at += length, times++) {
        int entry = entry_of(graph, at, at + length);
        int from = entry < 0 ? -1 : graph->blobs[entry].node;

        if (from != at - 1 || !is_again(graph, first, at, length) ||
            !is_closed(graph, at, at + length - 1, at + length) ||
            !is_closed(graph, at - 1, at, at + length))
            break;
        /* each time goes on by the same blob of its last node */
        if (exit >= 0 && entry - graph->nodes[from].first_blob != exit)
            break;
        exit = entry - graph->nodes[from].first_blob;
    }
    return times;
}

static void add_block(struct draw_graph *graph, struct draw_block block)
{
    for (int n = block.first; n < block.first + block.length * block.times; n++) {
        graph->nodes[n].block = graph->nblocks;
        graph->nodes[n].hidden = n >= block.first + block.length;
    }
    graph->blocks[graph->nblocks++] = block;
}

void draw_fold(struct draw_graph *graph)
{
    for (int first = 0; first < graph->nnodes;) {
        struct draw_block best = {first, 1, 1};

        for (int length = 1; first + 2 * length <= graph->nnodes; length++) {
            int times = count_times(graph, first, length);

            if (length * (times - 1) > best.length * (best.times - 1))
                best = (struct draw_block){first, length, times};
        }
        if (best.length * (best.times - 1) < 2) { /* a frame is no less to look at than one box */
            first++;
            continue;
        }
        add_block(graph, best);
        first += best.length * best.times;
    }
}

int draw_shown_blob(const struct draw_graph *graph, int blob)
{
    int n = graph->blobs[blob].node;
    const struct draw_node *node = &graph->nodes[n];
    const struct draw_block *block;

    if (!node->hidden)
        return blob;
    block = &graph->blocks[node->block];
    return graph->nodes[block->first + (n - block->first) % block->length].first_blob + blob -
           node->first_blob;
}

/* ---- columns ---- */

static int shown_source(const struct draw_graph *graph, int edge)
{
    return graph->blobs[draw_shown_blob(graph, graph->edges[edge].blob)].node;
}

/* Whether all that goes on at n comes from one layer, but for labels and other data. */
static bool is_neck(const struct draw_graph *graph, int n)
{
    int block = graph->nodes[n].block, only = -1;

    if (block >= 0 && graph->blocks[block].first != n)
        return false;
    for (int e = 0; e < graph->nedges; e++) {
        int from = shown_source(graph, e), to = graph->edges[e].to;

        if (to < n || from >= n || graph->nodes[to].hidden || graph->nodes[from].nedges == 0)
            continue;
        if (only >= 0 && from != only)
            return false;
        only = from;
    }
    return only >= 0;
}

/* Cuts before what would stand deeper than `most`, where there is a neck; the greatest depth. */
static int cut(struct draw_graph *graph, int most)
{
    int column = 0, deepest = 0;

    for (int n = 0; n < graph->nnodes; n++) {
        struct draw_node *node = &graph->nodes[n];

        if (node->hidden)
            continue;
        node->column = column;
        node->depth = 1;
        for (int e = node->first_edge; e < node->first_edge + node->nedges; e++) {
            const struct draw_node *from = &graph->nodes[shown_source(graph, e)];
            if (from->column == column && from->depth >= node->depth)
                node->depth = from->depth + 1;
        }
        if (node->depth > most && is_neck(graph, n)) {
            node->column = ++column;
            node->depth = 1;
        }
        deepest = node->depth > deepest ? node->depth : deepest;
    }
    return deepest;
}

void draw_columns(struct draw_graph *graph)
{
    enum { DEEP = 16 };
    int depth = cut(graph, graph->nnodes), columns = (depth + DEEP - 1) / DEEP;

    if (columns > 1)
        cut(graph, (depth + columns - 1) / columns);
}
