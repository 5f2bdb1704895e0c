/* The file: text, or a picture by Graphviz's library. The library prints to the standard error
 * stream unless it is told not to, and then has its last message for those who ask; both are state
 * of the library, of which one command a process makes use once. */
#include "commands/draw_graph.h"

#include <stdlib.h>
#include <string.h>

#include "util/choice.h"
#include "util/error.h"
#include "util/file.h"
#include "util/path.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

static const char *const formats[] = {"svg", "pdf", "png", "eps", "ps", "jpg", "gif", "webp", NULL};

static const char *format_of(const char *path)
{
    const char *dot = strrchr(path_base(path), '.');
    int format = dot ? choice_find(formats, dot + 1) : -1;

    return format < 0 ? NULL : formats[format];
}

static bool is_dot(const char *path)
{
    return path_ends(path, ".dot") || path_ends(path, ".gv");
}

int draw_check(const char *path)
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
    return draw_check(path);
}

#endif

int draw_write(struct draw_graph *graph, const char *file)
{
    struct strbuf text = {0};
    int status;

    draw_columns(graph);
    draw_dot(graph, &text);
    status = strbuf_status(&text);
    if (status == 0)
        status = is_dot(file) ? file_write(file, strbuf_text(&text), text.length)
                              : draw_picture(strbuf_text(&text), file);
    strbuf_free(&text);
    return status;
}
