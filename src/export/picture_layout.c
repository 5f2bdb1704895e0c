/* Blocks that repeat. A block is nodes that stand one behind the other in the file, reads one blob
 * from outside, and is left by blobs of its last node alone. It repeats where the next nodes are
 * alike in all but their names and read what the block before them ends in. */
#include "export/picture_internal.h"

#include <string.h>

static const struct picture_edge *edges_of(const struct picture_graph *graph, int node)
{
    return &graph->edges[graph->nodes[node].first_edge];
}

/* Alike in all but names. */
static bool are_alike(const struct picture_graph *graph, int a, int b)
{
    const struct picture_node *one = &graph->nodes[a], *other = &graph->nodes[b];

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

/* Whether the block at `at` is that at `first` once more, or the first itself: alike, closed, and
 * with inputs from the same places inside, or from outside where the first has them: *entry. */
static bool is_block(const struct picture_graph *graph, int first, int at, int length, int *entry)
{
    *entry = -1;
    for (int n = 0; n < length; n++)
        if (!are_alike(graph, first + n, at + n))
            return false;
    for (int e = 0; e < graph->nedges; e++) {
        int blob = graph->edges[e].blob, to = graph->edges[e].to, from = graph->blobs[blob].node;
        const struct picture_blob *source = &graph->blobs[blob], *twin;

        if (to >= at + length && from >= at - (at > first) && from < at + length - 1)
            return false; /* what is inside, or behind a block but the last, is read from afar */
        if (to < at || to >= at + length)
            continue;
        twin =
            &graph->blobs[edges_of(graph, first + to - at)[&graph->edges[e] - edges_of(graph, to)]
                              .blob];
        if (strcmp(source->shape, twin->shape) || (from < at) != (twin->node < first) ||
            (from < at && *entry >= 0 && *entry != blob) ||
            (from >= at && (from - at != twin->node - first ||
                            blob - graph->nodes[from].first_blob !=
                                twin - graph->blobs - graph->nodes[twin->node].first_blob)))
            return false;
        *entry = from < at ? blob : *entry;
    }
    return *entry >= 0;
}

/* How often the block of `length` nodes at `first` comes. */
static int count_times(const struct picture_graph *graph, int first, int length)
{
    int times = 1, exit = -1, entry;

    if (!are_alike(graph, first, first + length) || !is_block(graph, first, first, length, &entry))
        return 1;
    for (int at = first + length; at + length <= graph->nnodes; at += length, times++) {
        /* each time goes on by the same blob of the last node of the one before */
        if (!is_block(graph, first, at, length, &entry) || graph->blobs[entry].node != at - 1 ||
            (exit >= 0 && entry - graph->nodes[at - 1].first_blob != exit))
            break;
        exit = entry - graph->nodes[at - 1].first_blob;
    }
    return times;
}

static void fold(struct picture_graph *graph)
{
    for (int first = 0; first < graph->nnodes;) {
        int best = 1, most = 1;

        for (int length = 1; first + 2 * length <= graph->nnodes; length++) {
            int times = count_times(graph, first, length);

            if (length * (times - 1) > best * (most - 1)) {
                best = length;
                most = times;
            }
        }
        if (best * (most - 1) < 2) { /* a frame is no less to look at than one box */
            first++;
            continue;
        }
        graph->nodes[first].length = best;
        graph->nodes[first].times = most;
        for (int n = 0; n < best * most; n++) {
            graph->nodes[first + n].first = first;
            graph->nodes[first + n].shown = first + n % best;
        }
        first += best * most;
    }
}

int picture_shown_blob(const struct picture_graph *graph, int blob)
{
    const struct picture_node *node = &graph->nodes[graph->blobs[blob].node];

    return graph->nodes[node->shown].first_blob + blob - node->first_blob;
}

/* ---- columns ---- */

static int shown_source(const struct picture_graph *graph, int edge)
{
    return graph->nodes[graph->blobs[graph->edges[edge].blob].node].shown;
}

/* Whether all that goes on at n comes from one layer, but for labels and other data. */
static bool is_neck(const struct picture_graph *graph, int n)
{
    int only = -1;

    if (graph->nodes[n].first != n)
        return false;
    for (int e = 0; e < graph->nedges; e++) {
        int from = shown_source(graph, e), to = graph->edges[e].to;

        if (to < n || from >= n || graph->nodes[to].shown != to || graph->nodes[from].nedges == 0)
            continue;
        if (only >= 0 && from != only)
            return false;
        only = from;
    }
    return only >= 0;
}

/* Cuts before what would stand deeper than `most`, where there is a neck; the greatest depth. */
static int cut(struct picture_graph *graph, int most)
{
    int column = 0, deepest = 0;

    for (int n = 0; n < graph->nnodes; n++) {
        struct picture_node *node = &graph->nodes[n];

        if (node->shown != n)
            continue;
        node->column = column;
        node->depth = 1;
        for (int e = node->first_edge; e < node->first_edge + node->nedges; e++) {
            const struct picture_node *from = &graph->nodes[shown_source(graph, e)];
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

static void make_columns(struct picture_graph *graph)
{
    enum { DEEP = 16 };
    int depth = cut(graph, graph->nnodes), columns = (depth + DEEP - 1) / DEEP;

    if (columns > 1)
        cut(graph, (depth + columns - 1) / columns);
}

void picture_arrange(struct picture_graph *graph)
{
    fold(graph);
    make_columns(graph);
}
