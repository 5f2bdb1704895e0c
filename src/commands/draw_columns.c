/* Columns, so that a deep net fills a page and no strip. The net is cut where one blob alone goes
 * on, those of layers without inputs (labels) aside: each column's end and the next one's begin
 * then name that blob, and no line crosses the picture. */
#include "commands/draw_graph.h"

#include "util/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 8 };

/* Points of a picture, nearly: what Graphviz makes of it is known only when it has. */
#define LINE_HEIGHT 13.0
#define ROW_GAP     30.0
#define CHARACTER   5.5
#define COLUMN_GAP  30.0

struct outline {
    double *bottom; /* of each node, from the net's top */
    double *width;
    bool *cut; /* a column may begin at that node */
    int *at;   /* of each column, the node it begins at */
};

static double height_of(const struct draw_node *node)
{
    return ROW_GAP + LINE_HEIGHT * (2 + (*node->detail != 0) + (*node->inside != 0) +
                                    (node->params > 0) + (node->nblobs > 0));
}

static double width_of(const struct draw_graph *graph, const struct draw_node *node)
{
    size_t most = strlen(node->name), blobs = 0;

    most = strlen(node->inside) > most ? strlen(node->inside) : most;
    most = strlen(node->detail) > most ? strlen(node->detail) : most;
    for (int t = 0; t < node->nblobs; t++)
        blobs += strlen(graph->blobs[node->first_blob + t].name) +
                 strlen(graph->blobs[node->first_blob + t].shape) + 2;
    return CHARACTER * (double)(most > blobs ? most : blobs) + COLUMN_GAP;
}

/* Whether one blob alone goes on from the nodes before `at`, and not amid a block. */
static bool may_cut(const struct draw_graph *graph, int at)
{
    int through = -1;

    if (graph->nodes[at].hidden ||
        (graph->nodes[at].block >= 0 && graph->blocks[graph->nodes[at].block].first < at))
        return false;
    for (int e = 0; e < graph->nedges; e++) {
        int blob = graph->edges[e].blob, from = graph->blobs[blob].node;

        if (from >= at || graph->edges[e].to < at || graph->nodes[from].nedges == 0)
            continue;
        if (through >= 0 && through != blob)
            return false;
        through = blob;
    }
    return through >= 0;
}

static void measure(const struct draw_graph *graph, struct outline *o)
{
    for (int n = 0; n < graph->nnodes; n++) {
        const struct draw_node *node = &graph->nodes[n];
        double top = 0;

        o->width[n] = width_of(graph, node);
        o->cut[n] = n > 0 && may_cut(graph, n);
        for (int e = 0; e < node->nedges; e++) {
            int blob = graph->edges[node->first_edge + e].blob;

            top = fmax(top, o->bottom[graph->blobs[draw_shown_blob(graph, blob)].node]);
        }
        o->bottom[n] = node->hidden ? 0 : top + height_of(node);
    }
}

/* Begins of `ncolumns` columns of about the same height; false where there are too few cuts. */
static bool place_cuts(const struct draw_graph *graph, const struct outline *o, int ncolumns)
{
    double height = 0;

    for (int n = 0; n < graph->nnodes; n++)
        height = fmax(height, o->bottom[n]);
    o->at[0] = 0;
    for (int c = 1; c < ncolumns; c++) {
        double want = height * c / ncolumns, nearest = INFINITY, reached = 0;

        o->at[c] = -1;
        for (int n = 1; n < graph->nnodes; n++) {
            reached = fmax(reached, o->bottom[n - 1]);
            if (!o->cut[n] || n <= o->at[c - 1] || fabs(reached - want) >= nearest)
                continue;
            nearest = fabs(reached - want);
            o->at[c] = n;
        }
        if (o->at[c] < 0)
            return false;
    }
    return true;
}

/* The widest row: nodes of the column whose boxes overlap in height. */
static double column_width(const struct draw_graph *graph, const struct outline *o, int first,
                           int end)
{
    double widest = 0;

    for (int n = first; n < end; n++) {
        double row = 0;

        for (int k = first; k < end && !graph->nodes[n].hidden; k++)
            if (!graph->nodes[k].hidden && fabs(o->bottom[k] - o->bottom[n]) < LINE_HEIGHT)
                row += o->width[k];
        widest = fmax(widest, row);
    }
    return widest;
}

/* How much smaller the picture must become to fit a page, upright or not. */
static double shrinkage(const struct draw_graph *graph, const struct outline *o, int ncolumns)
{
    double width = 0, height = 0, page_width = 595, page_height = 842;

    for (int c = 0; c < ncolumns; c++) {
        int end = c + 1 < ncolumns ? o->at[c + 1] : graph->nnodes;
        double top = 0, bottom = 0;

        for (int n = 0; n < o->at[c]; n++)
            top = fmax(top, o->bottom[n]);
        for (int n = o->at[c]; n < end; n++)
            bottom = fmax(bottom, o->bottom[n]);
        height = fmax(height, bottom - top);
        width += column_width(graph, o, o->at[c], end);
    }
    return fmin(fmax(width / page_width, height / page_height),
                fmax(width / page_height, height / page_width));
}

static int choose(const struct draw_graph *graph, const struct outline *o)
{
    int best = 1;
    double least = INFINITY;

    for (int n = 1; n <= MOST_COLUMNS && place_cuts(graph, o, n); n++) {
        double shrunk = shrinkage(graph, o, n);

        if (shrunk < 0.9 * least) { /* a further column is to be worth it */
            least = shrunk;
            best = n;
        }
        if (least <= 1)
            break;
    }
    return best;
}

int draw_columns(struct draw_graph *graph, int columns)
{
    size_t nnodes = (size_t)graph->nnodes;
    struct outline o = {alloc_array(nnodes, sizeof *o.bottom, "the picture's outline"),
                        alloc_array(nnodes, sizeof *o.width, "the picture's outline"),
                        alloc_array(nnodes, sizeof *o.cut, "the picture's outline"),
                        alloc_array(nnodes + MOST_COLUMNS + (size_t)columns, sizeof *o.at,
                                    "the picture's outline")};
    int status = o.bottom && o.width && o.cut && o.at ? 0 : -1, c = 0;

    if (status == 0) {
        measure(graph, &o);
        if (columns == 0)
            columns = choose(graph, &o);
        while (!place_cuts(graph, &o, columns)) /* one column needs no cut */
            columns--;
        for (int n = 0; n < graph->nnodes; n++) {
            c += c + 1 < columns && n == o.at[c + 1];
            graph->nodes[n].column = c;
        }
        graph->ncolumns = columns;
    }
    free(o.bottom);
    free(o.width);
    free(o.cut);
    free(o.at);
    return status;
}
