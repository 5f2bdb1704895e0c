/* The graph in Graphviz's language: each layer a table (an "HTML-like label") whose last row has
 * its blobs, from which the edges leave. Each row is of one font: programs that show SVG measure
 * fonts differently, and would push what follows into it, or the row's end out of the box: its last
 * blanks are for that. */
#include "commands/draw_graph.h"

#include "util/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Inside HTML and inside double quotes; in both, backslashes begin Graphviz's own escapes. Bytes
 * that are not UTF-8 become "?". */
static void put_text(struct strbuf *out, const char *text)
{
    while (*text != '\0') {
        int length = utf8_length(text);

        if (*text == '<')
            strbuf_puts(out, "&lt;");
        else if (*text == '>')
            strbuf_puts(out, "&gt;");
        else if (*text == '&')
            strbuf_puts(out, "&amp;");
        else if (*text == '"')
            strbuf_puts(out, "&quot;");
        else if (*text == '\\')
            strbuf_puts(out, "\\\\");
        else if (length == 0 || (unsigned char)*text < ' ' || *text == 127)
            strbuf_putc(out, '?');
        else
            strbuf_append(out, text, (size_t)length);
        text += length ? length : 1;
    }
}

/* 60192808 -> "60,192,808" */
static void put_count(struct strbuf *out, size_t count)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%zu", count);

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            strbuf_putc(out, ',');
        strbuf_putc(out, digits[i]);
    }
}

static void begin_row(struct strbuf *out, const struct draw_node *node)
{
    strbuf_puts(out, "<TR><TD");
    if (node->nblobs > 1)
        strbuf_printf(out, " COLSPAN=\"%d\"", node->nblobs);
    strbuf_puts(out, ">&#160;");
}

static void end_row(struct strbuf *out)
{
    strbuf_puts(out, "&#160;&#160;</TD></TR>");
}

static void put_blobs(struct strbuf *out, const struct draw_graph *graph,
                      const struct draw_node *node)
{
    if (node->nblobs == 0)
        return;
    strbuf_puts(out, "<TR>");
    for (int t = 0; t < node->nblobs; t++) {
        const struct draw_blob *blob = &graph->blobs[node->first_blob + t];

        strbuf_printf(out, "<TD PORT=\"b%d\"><FONT POINT-SIZE=\"9\">&#160;", t);
        put_text(out, blob->name);
        if (*blob->shape)
            strbuf_printf(out, ":  %s", blob->shape);
        strbuf_puts(out, "&#160;&#160;</FONT></TD>");
    }
    strbuf_puts(out, "</TR>");
}

static void put_node(struct strbuf *out, const struct draw_graph *graph, int n)
{
    const struct draw_node *node = &graph->nodes[n];

    strbuf_printf(out, "  n%d [tooltip=\"", n);
    put_text(out, node->name);
    strbuf_puts(out, *node->inside_names ? ", " : "");
    put_text(out, node->inside_names);
    strbuf_printf(out,
                  "\", label=<<TABLE BORDER=\"1\" CELLBORDER=\"0\" CELLSPACING=\"0\" "
                  "CELLPADDING=\"2\" STYLE=\"rounded\" COLOR=\"#666666\" BGCOLOR=\"%s\">",
                  node->fill);
    strbuf_puts(out,
                "<TR><TD HEIGHT=\"1\" CELLPADDING=\"0\"></TD></TR>"); /* below the round corners */
    begin_row(out, node);
    strbuf_puts(out, "<B>");
    put_text(out, *node->name ? node->name : " ");
    strbuf_puts(out, "</B>");
    end_row(out);
    begin_row(out, node);
    put_text(out, *node->type ? node->type : " ");
    strbuf_puts(out, *node->detail ? "  " : "");
    put_text(out, node->detail);
    end_row(out);
    if (*node->inside) {
        begin_row(out, node);
        strbuf_puts(out, "+ ");
        put_text(out, node->inside);
        end_row(out);
    }
    if (node->params > 0) {
        begin_row(out, node);
        put_count(out, node->params);
        strbuf_printf(out, " parameters%s", *node->scheme ? " by " : "");
        put_text(out, node->scheme);
        end_row(out);
    }
    put_blobs(out, graph, node);
    strbuf_puts(out, "</TABLE>>];\n");
}

/* The label stands at the left, where edges seldom enter. */
static void put_block(struct strbuf *out, const struct draw_graph *graph, int b)
{
    const struct draw_block *block = &graph->blocks[b];
    int last = block->first + block->length * block->times - 1;

    strbuf_printf(out,
                  "  subgraph cluster_%d {\n    labeljust=l;\n    label=<<B>x %d</B><BR "
                  "ALIGN=\"LEFT\"/>to ",
                  b, block->times);
    put_text(out, graph->nodes[last].name);
    strbuf_puts(out, "<BR ALIGN=\"LEFT\"/>>;\n");
    for (int i = 0; i < block->length; i++)
        put_node(out, graph, block->first + i);
    strbuf_puts(out, "  }\n");
}

/* From the foot of the blob to the head of the layer; to the top of another column from side to
 * side, without a word on how high that stands. */
static void put_edges(struct strbuf *out, const struct draw_graph *graph)
{
    for (int e = 0; e < graph->nedges; e++) {
        const struct draw_blob *shown = &graph->blobs[draw_shown_blob(graph, graph->edges[e].blob)];
        const struct draw_node *from = &graph->nodes[shown->node],
                               *to = &graph->nodes[graph->edges[e].to];
        bool stays = from->column == to->column;

        if (!to->hidden)
            strbuf_printf(out, "  n%d:b%d:%s -> n%d%s;\n", shown->node,
                          (int)(shown - &graph->blobs[from->first_blob]), stays ? "s" : "e",
                          graph->edges[e].to,
                          stays ? "" : ":w [constraint=false, color=\"#1f77b4\"]");
    }
}

/* Columns begin at the same height, from left to right. */
static void put_columns(struct strbuf *out, const struct draw_graph *graph)
{
    for (int n = 1, last = 0; n < graph->nnodes; n++)
        if (!graph->nodes[n].hidden && graph->nodes[n].column > graph->nodes[last].column) {
            strbuf_printf(out, "  { rank=same; n%d -> n%d [style=invis]; }\n", last, n);
            last = n;
        }
}

static void put_head(struct strbuf *out, const struct draw_graph *graph)
{
    strbuf_puts(out, "digraph \"");
    put_text(out, graph->title);
    strbuf_puts(out, "\" {\n"
                     "  graph [fontname=\"Helvetica,Arial,sans-serif\", fontsize=11, labelloc=t, "
                     "newrank=true,\n"
                     "    ranksep=0.25, nodesep=0.2, style=\"rounded,dashed\", color=\"#444444\", "
                     "bgcolor=white];\n"
                     "  node [fontname=\"Helvetica,Arial,sans-serif\", fontsize=10, shape=plain];\n"
                     "  edge [color=\"#555555\", arrowsize=0.6];\n"
                     "  label=<<B>");
    put_text(out, *graph->title ? graph->title : "net");
    strbuf_puts(out, "</B>");
    if (graph->params > 0) {
        strbuf_puts(out, "<BR/>");
        put_count(out, graph->params);
        strbuf_puts(out, " parameters");
    }
    strbuf_puts(out, graph->assumed ? "<BR/>the input's size is assumed" : "");
    if (graph->plan_nodes > 0)
        strbuf_printf(out, "<BR/>schemes for %d node%s", graph->plan_nodes,
                      graph->plan_nodes == 1 ? "" : "s");
    strbuf_puts(out, ">;\n");
}

void draw_dot(const struct draw_graph *graph, struct strbuf *out)
{
    put_head(out, graph);
    for (int n = 0; n < graph->nnodes; n++) {
        int block = graph->nodes[n].block;

        if (block < 0)
            put_node(out, graph, n);
        else if (graph->blocks[block].first == n)
            put_block(out, graph, block);
    }
    put_edges(out, graph);
    put_columns(out, graph);
    strbuf_puts(out, "}\n");
}
