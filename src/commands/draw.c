/* poseidon draw */
#include "commands/commands.h"
#include "commands/draw_graph.h"
#include "commands/model.h"
#include "commands/options.h"
#include "commands/output.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/file.h"
#include "util/path.h"

struct request {
    struct model_options model;
    const char *plan, *path;
    int nodes, columns;
    bool unfold, force;
};

/* Draws without shapes what can be wired and not built, such as layers of types unknown here. */
static int open_graph(const struct model_options *o, const struct draw_plan *plan,
                      struct model *model, struct draw_graph *graph)
{
    if (model_open(o, model)) {
        char reason[2048];

        snprintf(reason, sizeof reason, "%s", error_text());
        if (model_define(o, model))
            return error_set("%s", reason);
        fprintf(stderr, "drawn without shapes: %s\n", reason);
    } else {
        model_print_notices(model);
    }
    return draw_graph_make(model->def, model->net, plan, graph);
}

static bool is_dot(const char *path)
{
    return path_ends(path, ".dot") || path_ends(path, ".gv");
}

static int write_graph(const struct draw_graph *graph, const char *path)
{
    struct strbuf text = {0};
    int status;

    draw_dot(graph, &text);
    status = strbuf_status(&text);
    if (status == 0)
        status = is_dot(path) ? file_write(path, strbuf_text(&text), text.length)
                              : draw_picture(strbuf_text(&text), path);
    strbuf_free(&text);
    return status;
}

static int draw(const struct request *r)
{
    const char *inputs[] = {r->model.model, r->plan};
    struct draw_graph graph = {0};
    struct draw_plan plan = {.count = 0};
    struct model model = {.doc = NULL};
    int status;

    if ((!is_dot(r->path) && draw_picture_check(r->path)) ||
        output_check(r->path, r->force, 2, inputs) ||
        (r->plan && draw_plan_read(r->plan, r->nodes, &plan)))
        return -1;
    status = open_graph(&r->model, &plan, &model, &graph);
    if (status == 0 && !r->unfold)
        draw_fold(&graph);
    if (status == 0)
        status = draw_columns(&graph, r->columns);
    if (status == 0)
        status = write_graph(&graph, r->path);
    draw_graph_free(&graph);
    model_close(&model);
    draw_plan_free(&plan);
    return status;
}

static int parse(struct request *r, int argc, char **argv)
{
    struct model_options *o = &r->model;
    const struct option options[] = {
        {"model", OPTION_TEXT, &o->model, "FILE",
         "the net (prototxt, or a .caffemodel that has it); required"},
        {"phase", OPTION_TEXT, &o->phase, "PHASE", "TRAIN (default) or TEST"},
        {"stage", OPTION_TEXT, &o->stages, "LIST", "stages of the net's state (comma list)"},
        {"level", OPTION_INT, &o->level, "N", "level of the net's state"},
        {"batch", OPTION_COUNT, &o->batch, "N", "samples per pass, instead of the net's"},
        {"input-shape", OPTION_TEXT, &o->input_shape, "C,H,W",
         "input size, where neither the net nor its data gives it"},
        {"plan", OPTION_TEXT, &r->plan, "FILE",
         "show each layer's scheme: of 'poseidon plan --json', or of 'train --summary'"},
        {"nodes", OPTION_COUNT, &r->nodes, "N", "which nodes of the plan (default: the last)"},
        {"unfold", OPTION_FLAG, &r->unfold, NULL, "draw blocks that repeat each time they come"},
        {"columns", OPTION_COUNT, &r->columns, "N",
         "columns side by side (default: what fills a page best)"},
        {"force", OPTION_FLAG, &r->force, NULL, "replace the picture where it exists"},
    };
    const struct command_line line = {
        .command = "draw",
        .synopsis = "--model=FILE OUT.svg|OUT.pdf|OUT.png|OUT.dot",
        .example = "  poseidon draw --model=models/googlenet/train_val.prototxt net.dot",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .max_words = 2,
        .about = "Draws a net: layers as boxes, with their parameters and the blobs that they "
                 "make. A layer\n"
                 "that works in place stands in the box whose blob it changes; blocks that repeat "
                 "are\n"
                 "drawn once. OUT.dot is text for Graphviz's dot; the other kinds (.eps, .ps, "
                 ".jpg, .gif\n"
                 "and .webp too) need Graphviz's library in the build. Opens no data.",
    };
    int nwords, status = options_parse(&line, argc, argv, &nwords);

    if (status)
        return status;
    if (!o->model && nwords == 2) { /* as Caffe's draw_net.py */
        o->model = argv[1];
        argv[1] = argv[2];
        nwords = 1;
    }
    if (!o->model)
        return error_set("Need a model definition: --model=FILE");
    if (nwords != 1)
        return error_set("expected one file to write, such as OUT.svg or OUT.dot");
    if (r->nodes && !r->plan)
        return error_set("--nodes=%d: of which plan? expected --plan=FILE, too", r->nodes);
    r->path = argv[1];
    return 0;
}

int command_draw(int argc, char **argv)
{
    struct request request = {.model = {.phase = "TRAIN", .look_only = true}};
    int status = parse(&request, argc, argv);

    if (status > 0)
        return 0;
    return status || draw(&request) ? command_fail("draw") : 0;
}
