/* The graph in Graphviz's language, and the file: that text, or a picture by Graphviz's library.
 * Each layer is a table (an "HTML-like label") whose last row has its blobs, from which the edges
 * leave. Each row is of one font: programs that show SVG measure fonts differently, and would push
 * what follows into it, or the row's end out of the box: its last blanks are for that. The library
 * prints to the standard error stream unless it is told not to, and then has its last message for
 * those who ask; both are state of the library, of which one command a process makes use once. */
#include "export/picture_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/file.h"
#include "util/path.h"
#include "util/strbuf.h"
#include "util/utf8.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* ---- text for Graphviz ---- */

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

enum { COUNT = 32 };

/* 60192808 -> "60,192,808" */
static const char *count_text(size_t count, char out[COUNT])
{
    char *at = &out[COUNT - 1];

    *at = '\0';
    for (int digits = 0; count || !digits; digits++, count /= 10) {
        if (digits && digits % 3 == 0)
            *--at = ',';
        *--at = (char)('0' + count % 10);
    }
    return at;
}

/* Tints of the colours of Okabe and Ito, which colour-blind people tell apart; the type stands in
 * every box all the same. */
static const char *fill_of(const char *type)
{
    static const struct {
        const char *part, *fill;
    } kinds[] = {
        {"Data", "#dddddd"},         {"Input", "#dddddd"},       {"Loss", "#8fc1e3"},
        {"Accuracy", "#8fc1e3"},     {"Convolution", "#f5d48c"}, {"Deconvolution", "#f5d48c"},
        {"InnerProduct", "#e3b3cf"}, {"Pooling", "#faf6bd"},     {"Norm", "#d5ecf9"},
        {"LRN", "#d5ecf9"},          {"Scale", "#d5ecf9"},       {"Concat", "#9fdcc8"},
        {"Eltwise", "#9fdcc8"},      {"Slice", "#9fdcc8"},       {"Split", "#9fdcc8"}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(type, kinds[i].part) != NULL)
            return kinds[i].fill;
    return "#f4f4f4";
}

/* A row of a box: the texts behind each other, between `open` and `close`. */
static void put_row(struct strbuf *out, const struct picture_node *node, const char *open,
                    const char *text, const char *more, const char *close)
{
    strbuf_puts(out, "<TR><TD");
    if (node->nblobs > 1)
        strbuf_printf(out, " COLSPAN=\"%d\"", node->nblobs);
    strbuf_printf(out, ">&#160;%s", open);
    put_text(out, text);
    put_text(out, more);
    strbuf_printf(out, "%s&#160;&#160;</TD></TR>", close);
}

static void put_blobs(struct strbuf *out, const struct picture_graph *graph,
                      const struct picture_node *node)
{
    if (node->nblobs == 0)
        return;
    strbuf_puts(out, "<TR>");
    for (int t = 0; t < node->nblobs; t++) {
        const struct picture_blob *blob = &graph->blobs[node->first_blob + t];

        strbuf_printf(out, "<TD PORT=\"b%d\"><FONT POINT-SIZE=\"9\">&#160;", t);
        put_text(out, blob->name);
        if (*blob->shape)
            strbuf_printf(out, ":  %s", blob->shape);
        strbuf_puts(out, "&#160;&#160;</FONT></TD>");
    }
    strbuf_puts(out, "</TR>");
}

static void put_node(struct strbuf *out, const struct picture_graph *graph, int n)
{
    const struct picture_node *node = &graph->nodes[n];
    char words[128], digits[COUNT];

    strbuf_printf(out, "  n%d [tooltip=\"", n);
    put_text(out, node->name);
    strbuf_puts(out, *node->inside_names ? ", " : "");
    put_text(out, node->inside_names);
    strbuf_printf(out,
                  "\", label=<<TABLE BORDER=\"1\" CELLBORDER=\"0\" CELLSPACING=\"0\" "
                  "CELLPADDING=\"2\" STYLE=\"rounded\" COLOR=\"#666666\" BGCOLOR=\"%s\">",
                  fill_of(node->type));
    strbuf_puts(out,
                "<TR><TD HEIGHT=\"1\" CELLPADDING=\"0\"></TD></TR>"); /* below the round corners */
    put_row(out, node, "<B>", *node->name ? node->name : " ", "", "</B>");
    snprintf(words, sizeof words, "%s%s", *node->detail ? "  " : "", node->detail);
    put_row(out, node, "", *node->type ? node->type : " ", words, "");
    if (*node->inside)
        put_row(out, node, "+ ", node->inside, "", "");
    if (node->params > 0) {
        snprintf(words, sizeof words, " parameters%s%s", *node->scheme ? " by " : "", node->scheme);
        put_row(out, node, "", count_text(node->params, digits), words, "");
    }
    put_blobs(out, graph, node);
    strbuf_puts(out, "</TABLE>>];\n");
}

/* The label stands at the left, where edges seldom enter. */
static void put_block(struct strbuf *out, const struct picture_graph *graph, int first)
{
    const struct picture_node *block = &graph->nodes[first];

    strbuf_printf(out,
                  "  subgraph cluster_%d {\n    labeljust=l;\n    label=<<B>x %d</B><BR "
                  "ALIGN=\"LEFT\"/>to ",
                  first, block->times);
    put_text(out, graph->nodes[first + block->length * block->times - 1].name);
    strbuf_puts(out, "<BR ALIGN=\"LEFT\"/>>;\n");
    for (int i = 0; i < block->length; i++)
        put_node(out, graph, first + i);
    strbuf_puts(out, "  }\n");
}

/* From the foot of the blob to the head of the layer; to the top of another column from side to
 * side, without a word on how high that stands. */
static void put_edges(struct strbuf *out, const struct picture_graph *graph)
{
    for (int e = 0; e < graph->nedges; e++) {
        const struct picture_blob *shown =
            &graph->blobs[picture_shown_blob(graph, graph->edges[e].blob)];
        const struct picture_node *from = &graph->nodes[shown->node],
                                  *to = &graph->nodes[graph->edges[e].to];
        bool stays = from->column == to->column;

        if (to == &graph->nodes[to->shown])
            strbuf_printf(out, "  n%d:b%d:%s -> n%d%s;\n", shown->node,
                          (int)(shown - &graph->blobs[from->first_blob]), stays ? "s" : "e",
                          graph->edges[e].to,
                          stays ? "" : ":w [constraint=false, color=\"#1f77b4\"]");
    }
}

/* Columns begin at the same height, from left to right. */
static void put_columns(struct strbuf *out, const struct picture_graph *graph)
{
    for (int n = 1, last = 0; n < graph->nnodes; n++)
        if (graph->nodes[n].shown == n && graph->nodes[n].column > graph->nodes[last].column) {
            strbuf_printf(out, "  { rank=same; n%d -> n%d [style=invis]; }\n", last, n);
            last = n;
        }
}

static void put_head(struct strbuf *out, const struct picture_graph *graph)
{
    char digits[COUNT];

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
    if (graph->params > 0)
        strbuf_printf(out, "<BR/>%s parameters", count_text(graph->params, digits));
    strbuf_puts(out, graph->assumed ? "<BR/>the input's size is assumed" : "");
    if (graph->plan_nodes > 0)
        strbuf_printf(out, "<BR/>schemes for %d node%s", graph->plan_nodes,
                      graph->plan_nodes == 1 ? "" : "s");
    strbuf_puts(out, ">;\n");
}

static void put_graph(struct strbuf *out, const struct picture_graph *graph)
{
    put_head(out, graph);
    for (int n = 0; n < graph->nnodes; n++)
        if (graph->nodes[n].times)
            put_block(out, graph, n);
        else if (graph->nodes[n].first == n)
            put_node(out, graph, n);
    put_edges(out, graph);
    put_columns(out, graph);
    strbuf_puts(out, "}\n");
}

/* ---- files ---- */

/* As Graphviz names the format that the file's name ends in; NULL: it has none. */
static const char *format_of(const char *path)
{
    static const char *const ends[] = {".svg", ".pdf", ".png", ".eps",
                                       ".ps",  ".jpg", ".gif", ".webp"};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (path_ends(path, ends[i]))
            return ends[i] + 1;
    return NULL;
}

static bool is_dot(const char *path)
{
    return path_ends(path, ".dot") || path_ends(path, ".gv");
}

int picture_check(const char *path)
{
    if (is_dot(path))
        return 0;
    if (!format_of(path))
        return error_set("expected a file name that ends with .dot, .svg, .pdf, .png, .eps, .ps, "
                         ".jpg, .gif or .webp, found '%s'",
                         path);
#ifndef HAVE_GRAPHVIZ
    return error_set("%s cannot be drawn: this poseidon was built without Graphviz's library "
                     "(Debian: libgraphviz-dev, Spack: graphviz); or write a name that ends with "
                     ".dot, and draw it by: dot -Tsvg -O NAME.dot",
                     path);
#else
    return 0;
#endif
}

#ifdef HAVE_GRAPHVIZ
#include <gvc.h> /* declares a `path` of its own */

/* Its own words begin with "Error: " or not, and end with a line's end or not. */
static int complain(const char *file)
{
    char *said = aglasterr();
    const char *words = said ? said : "it does not say why";
    static const char prefix[] = "Error: ";

    if (!strncmp(words, prefix, sizeof prefix - 1))
        words += sizeof prefix - 1;
    error_set("%s cannot be drawn: Graphviz's library: %.*s", file, (int)strcspn(words, "\n"),
              words);
    free(said);
    return -1;
}

static int draw_picture(const char *dot, const char *file)
{
    GVC_t *context;
    Agraph_t *graph;
    char *picture = NULL;
    unsigned length = 0;
    int status = -1;

    agseterr(AGMAX); /* print nothing */
    context = gvContext();
    graph = context ? agmemread(dot) : NULL;
    if (!graph || gvLayout(context, graph, "dot") != 0) {
        complain(file);
    } else {
        if (gvRenderData(context, graph, format_of(file), &picture, &length) != 0 || !picture)
            complain(file);
        else
            status = file_write(file, picture, length);
        gvFreeLayout(context, graph);
    }
    if (picture)
        gvFreeRenderData(picture);
    if (graph)
        agclose(graph);
    if (context)
        gvFreeContext(context);
    return status;
}

#else

static int draw_picture(const char *dot, const char *path)
{
    (void)dot;
    return picture_check(path);
}

#endif

int picture_write(const struct net_def *def, const struct net *net, const struct picture_plan *plan,
                  const char *file)
{
    struct picture_graph graph;
    struct strbuf text = {0};
    int status;

    if (picture_graph_make(def, net, plan, &graph))
        return -1;
    picture_arrange(&graph);
    put_graph(&text, &graph);
    picture_graph_free(&graph);
    status = strbuf_status(&text);
    if (status == 0)
        status = is_dot(file) ? file_write(file, strbuf_text(&text), text.length)
                              : draw_picture(strbuf_text(&text), file);
    strbuf_free(&text);
    return status;
}
