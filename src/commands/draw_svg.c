/* A layered picture: every node stands one row below the last of those it reads from; an edge over
 * several rows has a *stop* in each row between, which takes part in the ordering like a node, so
 * that edges find their way between the boxes. Rows are ordered by their neighbours' mean places,
 * downwards and upwards in turn, and then moved together without changing the order. */
#include "commands/draw_graph.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define BOX_HEIGHT 48.0
#define ROW_STEP   86.0
#define GAP        26.0 /* between neighbours of a row */
#define STOP_WIDTH 12.0
#define MARGIN     24.0
#define SWEEPS     12

struct place {
    int row;
    int order; /* within its row */
    double x;  /* middle */
    double width;
    double wanted; /* where its neighbours would have it */
};

struct link {     /* between neighbouring rows */
    int from, to; /* places */
};

struct layout {
    int nplaces, nlinks, nrows;
    struct place *places; /* nodes first, then stops */
    struct link *links;
    int *first_stop; /* per edge: its first stop's place; its others follow */
    int *members;    /* places row by row, in order */
    int *row_begin;  /* per row, and one more */
};

static double box_width(const struct draw_node *node)
{
    size_t longest = strlen(node->name);

    if (strlen(node->type) > longest)
        longest = strlen(node->type);
    if (strlen(node->detail) > longest)
        longest = strlen(node->detail);
    return 22.0 + 7.0 * (double)longest;
}

/* Rows of the nodes, and how many stops all edges need. */
static size_t assign_rows(const struct draw_graph *graph, int *row)
{
    size_t stops = 0;

    for (int e = 0; e < graph->nedges; e++)
        if (row[graph->edges[e].to] <= row[graph->edges[e].from])
            row[graph->edges[e].to] = row[graph->edges[e].from] + 1;
    for (int e = 0; e < graph->nedges; e++)
        stops += (size_t)(row[graph->edges[e].to] - row[graph->edges[e].from] - 1);
    return stops;
}

static void link_edges(const struct draw_graph *graph, struct layout *l)
{
    for (int e = 0; e < graph->nedges; e++) {
        int from = graph->edges[e].from, to = graph->edges[e].to;

        l->first_stop[e] = l->nplaces;
        for (int row = l->places[from].row + 1; row < l->places[to].row; row++) {
            l->places[l->nplaces] = (struct place){.row = row, .width = STOP_WIDTH};
            l->links[l->nlinks++] = (struct link){from, l->nplaces};
            from = l->nplaces++;
        }
        l->links[l->nlinks++] = (struct link){from, to};
    }
}

static void fill_rows(struct layout *l)
{
    for (int i = 0; i < l->nplaces; i++)
        l->row_begin[l->places[i].row + 1]++;
    for (int r = 0; r < l->nrows; r++)
        l->row_begin[r + 1] += l->row_begin[r];
    for (int r = 0, at = 0; r < l->nrows; r++)
        for (int i = 0; i < l->nplaces; i++)
            if (l->places[i].row == r) {
                l->places[i].order = at - l->row_begin[r];
                l->members[at++] = i;
            }
}

static int layout_make(const struct draw_graph *graph, struct layout *l)
{
    int *row = calloc((size_t)graph->nnodes + 1, sizeof *row);
    size_t stops, places, links;

    if (row == NULL)
        return error_memory((size_t)graph->nnodes * sizeof *row, "the picture");
    stops = assign_rows(graph, row);
    places = (size_t)graph->nnodes + stops;
    links = (size_t)graph->nedges + stops;
    for (int i = 0; i < graph->nnodes; i++)
        l->nrows = row[i] + 1 > l->nrows ? row[i] + 1 : l->nrows;
    if (places < 2000000) {
        l->places = calloc(places + 1, sizeof *l->places);
        l->links = calloc(links + 1, sizeof *l->links);
        l->first_stop = calloc((size_t)graph->nedges + 1, sizeof *l->first_stop);
        l->members = calloc(places + 1, sizeof *l->members);
        l->row_begin = calloc((size_t)l->nrows + 2, sizeof *l->row_begin);
    }
    if (l->places == NULL || l->links == NULL || l->first_stop == NULL || l->members == NULL ||
        l->row_begin == NULL) {
        free(row);
        return error_memory(places * sizeof *l->places, "the picture");
    }
    for (int i = 0; i < graph->nnodes; i++)
        l->places[l->nplaces++] =
            (struct place){.row = row[i], .width = box_width(&graph->nodes[i])};
    free(row);
    link_edges(graph, l);
    fill_rows(l);
    return 0;
}

static void layout_free(struct layout *l)
{
    free(l->places);
    free(l->links);
    free(l->first_stop);
    free(l->members);
    free(l->row_begin);
}

/* wanted = mean x of the neighbours above, below, or both. */
static void want(struct layout *l, bool above, bool below)
{
    double *sum = calloc((size_t)l->nplaces + 1, sizeof *sum);
    int *count = calloc((size_t)l->nplaces + 1, sizeof *count);

    for (int i = 0; sum != NULL && count != NULL && i < l->nlinks; i++) {
        const struct link *link = &l->links[i];

        if (above) {
            sum[link->to] += l->places[link->from].x;
            count[link->to]++;
        }
        if (below) {
            sum[link->from] += l->places[link->to].x;
            count[link->from]++;
        }
    }
    for (int i = 0; i < l->nplaces; i++)
        l->places[i].wanted =
            sum != NULL && count != NULL && count[i] > 0 ? sum[i] / count[i] : l->places[i].x;
    free(sum);
    free(count);
}

/* Sorts a row by what its places want; rows are short, and mostly sorted already. */
static void sort_row(struct layout *l, int row)
{
    for (int i = l->row_begin[row] + 1; i < l->row_begin[row + 1]; i++)
        for (int k = i; k > l->row_begin[row]; k--) {
            int right = l->members[k], left = l->members[k - 1];

            if (l->places[left].wanted <= l->places[right].wanted)
                break;
            l->members[k] = left;
            l->members[k - 1] = right;
        }
}

static double apart(const struct place *a, const struct place *b)
{
    return (a->width + b->width) / 2 + GAP;
}

/* Puts the places of a row as near to where they want as their order and widths allow: pushed to
 * the right from the left end, pushed to the left from the right end, and the mean of both. */
static void settle_row(struct layout *l, int row)
{
    int begin = l->row_begin[row], end = l->row_begin[row + 1];
    double *x = calloc((size_t)(end - begin) + 1, sizeof *x);

    if (x == NULL)
        return;
    for (int i = begin; i < end; i++) {
        x[i - begin] = l->places[l->members[i]].wanted;
        if (i > begin) {
            double least =
                x[i - begin - 1] + apart(&l->places[l->members[i - 1]], &l->places[l->members[i]]);

            x[i - begin] = x[i - begin] < least ? least : x[i - begin];
        }
    }
    for (int i = end - 1; i >= begin; i--) {
        struct place *place = &l->places[l->members[i]];

        place->x = place->wanted;
        if (i + 1 < end) {
            const struct place *right = &l->places[l->members[i + 1]];
            double most = right->x - apart(place, right);

            place->x = place->x > most ? most : place->x;
        }
    }
    for (int i = begin; i < end; i++)
        l->places[l->members[i]].x = (l->places[l->members[i]].x + x[i - begin]) / 2;
    free(x);
}

static void arrange(struct layout *l)
{
    for (int r = 0; r < l->nrows; r++)
        for (int i = l->row_begin[r] + 1; i < l->row_begin[r + 1]; i++)
            l->places[l->members[i]].x =
                l->places[l->members[i - 1]].x +
                apart(&l->places[l->members[i - 1]], &l->places[l->members[i]]);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        bool down = sweep % 2 == 0, ordering = sweep < SWEEPS - 4;

        for (int k = 0; k < l->nrows; k++) {
            int row = down ? k : l->nrows - 1 - k;

            /* neighbours in the row before have moved: look again, but only at full rows */
            if (k == 0 || l->row_begin[row + 1] - l->row_begin[row] > 1 || !ordering)
                want(l, ordering ? down : true, ordering ? !down : true);
            if (ordering)
                sort_row(l, row);
            settle_row(l, row);
        }
    }
}

static void put_xml(struct strbuf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<')
            strbuf_puts(out, "&lt;");
        else if (*text == '>')
            strbuf_puts(out, "&gt;");
        else if (*text == '&')
            strbuf_puts(out, "&amp;");
        else if ((unsigned char)*text >= 127 || *text < ' ')
            strbuf_putc(out, '?'); /* the file says it is ASCII */
        else
            strbuf_putc(out, *text);
    }
}

static void put_text(struct strbuf *out, double x, double y, const char *style, const char *text)
{
    strbuf_printf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, style);
    put_xml(out, text);
    strbuf_puts(out, "</text>\n");
}

static void put_node(struct strbuf *out, const struct draw_node *node, const struct place *place,
                     double left)
{
    double x = place->x - left, y = MARGIN + ROW_STEP * place->row;

    strbuf_printf(out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\" fill=\"%s\" "
                  "stroke=\"#666\"/>\n",
                  x - place->width / 2, y, place->width, BOX_HEIGHT, node->fill);
    put_text(out, x, y + 15, " font-weight=\"bold\"", node->name);
    put_text(out, x, y + 29, "", node->type);
    if (node->detail[0] != '\0')
        put_text(out, x, y + 42, " fill=\"#555\"", node->detail);
}

/* From the lower edge of a box, or from a stop, down to the next row. */
static void put_step(struct strbuf *out, double x0, double y0, double x1, double y1)
{
    double bend = (y1 - y0) / 2;

    strbuf_printf(out, " C%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0 + bend, x1, y1 - bend, x1, y1);
}

static void put_edge(struct strbuf *out, const struct draw_edge *edge, const struct layout *l,
                     int index, double left)
{
    const struct place *from = &l->places[edge->from], *to = &l->places[edge->to];
    double x = from->x - left, y = MARGIN + ROW_STEP * from->row + BOX_HEIGHT;

    strbuf_printf(out, "<path d=\"M%.1f %.1f", x, y);
    for (int k = 0; k < to->row - from->row - 1; k++) {
        const struct place *stop = &l->places[l->first_stop[index] + k];
        double top = MARGIN + ROW_STEP * stop->row;

        put_step(out, x, y, stop->x - left, top);
        x = stop->x - left;
        y = top + BOX_HEIGHT;
        strbuf_printf(out, " L%.1f %.1f", x, y);
    }
    put_step(out, x, y, to->x - left, MARGIN + ROW_STEP * to->row);
    strbuf_puts(out, "\" marker-end=\"url(#arrow)\"/>\n");
}

/* What leaves a box, below it: each blob once, however many layers read it. */
static void put_labels(struct strbuf *out, const struct draw_graph *graph, const struct layout *l,
                       double left)
{
    int *last =
        calloc((size_t)graph->nnodes + 1, sizeof *last); /* edge with the node's last label + 1 */
    int *count = calloc((size_t)graph->nnodes + 1, sizeof *count);

    for (int e = 0; last != NULL && count != NULL && e < graph->nedges; e++) {
        const struct draw_edge *edge = &graph->edges[e];
        const struct place *from = &l->places[edge->from];

        if (last[edge->from] > 0 &&
            strcmp(graph->edges[last[edge->from] - 1].label, edge->label) == 0)
            continue;
        last[edge->from] = e + 1;
        put_text(out, from->x - left + 5,
                 MARGIN + ROW_STEP * from->row + BOX_HEIGHT + 12 + 11 * count[edge->from]++, "",
                 edge->label);
    }
    free(last);
    free(count);
}

int draw_svg(const struct draw_graph *graph, struct strbuf *out)
{
    struct layout l = {0};
    double left = 0, right = 0, height;

    if (layout_make(graph, &l)) {
        layout_free(&l);
        return -1;
    }
    arrange(&l);
    for (int i = 0; i < l.nplaces; i++) {
        double begin = l.places[i].x - l.places[i].width / 2 - MARGIN;
        double end = l.places[i].x + l.places[i].width / 2 + MARGIN;

        left = i == 0 || begin < left ? begin : left;
        right = i == 0 || end > right ? end : right;
    }
    height = 2 * MARGIN + ROW_STEP * (l.nrows > 0 ? l.nrows - 1 : 0) + BOX_HEIGHT;
    strbuf_printf(out,
                  "<?xml version=\"1.0\" encoding=\"US-ASCII\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                  "font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n<title>",
                  right - left, height);
    put_xml(out, graph->title);
    strbuf_printf(out,
                  "</title>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
                  "markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">"
                  "<polygon points=\"0 0, 8 4, 0 8\" fill=\"#888\"/></marker></defs>\n"
                  "<path d=\"M0 0 H%.0f V%.0f H0 Z\" fill=\"white\"/>\n"
                  "<g fill=\"none\" stroke=\"#888\">\n",
                  right - left, height);
    for (int e = 0; e < graph->nedges; e++)
        put_edge(out, &graph->edges[e], &l, e, left);
    strbuf_puts(out, "</g>\n<g fill=\"#777\" font-size=\"10\" text-anchor=\"start\">\n");
    put_labels(out, graph, &l, left);
    strbuf_puts(out, "</g>\n");
    for (int i = 0; i < graph->nnodes; i++)
        put_node(out, &graph->nodes[i], &l.places[i], left);
    strbuf_puts(out, "</svg>\n");
    layout_free(&l);
    return strbuf_status(out);
}
