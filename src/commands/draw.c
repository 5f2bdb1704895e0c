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

/* Draws without shapes what can be wired and not built, such as layers of types unknown here. */
static int open_graph(const struct model_options *o, struct model *model, struct draw_graph *graph)
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
    return draw_graph_make(model->def, model->net, graph);
}

static int draw(const struct model_options *o, const char *path, bool force)
{
    struct draw_graph graph = {0};
    struct strbuf text = {0};
    struct model model;
    bool dot = path_ends(path, ".dot") || path_ends(path, ".gv");
    int status;

    if (!dot && !path_ends(path, ".svg"))
        return error_set("expected a file name that ends with .svg or .dot, found '%s'", path);
    if (output_check(path, force, 1, &o->model))
        return -1;
    status = open_graph(o, &model, &graph);
    if (status == 0 && dot)
        draw_dot(&graph, &text);
    else if (status == 0)
        status = draw_svg(&graph, &text);
    if (status == 0)
        status = strbuf_status(&text);
    if (status == 0)
        status = file_write(path, strbuf_text(&text), text.length);
    strbuf_free(&text);
    draw_graph_free(&graph);
    model_close(&model);
    return status;
}

int command_draw(int argc, char **argv)
{
    struct model_options o = {.phase = "TRAIN", .look_only = true};
    bool force = false;
    int nwords, status;
    const struct option options[] = {
        {"model", OPTION_TEXT, &o.model, "FILE",
         "the net (prototxt, or a .caffemodel that has it); required"},
        {"phase", OPTION_TEXT, &o.phase, "PHASE", "TRAIN (default) or TEST"},
        {"stage", OPTION_TEXT, &o.stages, "LIST", "stages of the net's state (comma list)"},
        {"level", OPTION_INT, &o.level, "N", "level of the net's state"},
        {"batch", OPTION_COUNT, &o.batch, "N", "samples per pass, instead of the net's"},
        {"input-shape", OPTION_TEXT, &o.input_shape, "C,H,W",
         "input size if neither the net nor its data says"},
        {"force", OPTION_FLAG, &force, NULL, "replace the picture where it exists"},
    };
    const struct command_line line = {
        .command = "draw",
        .synopsis = "--model=FILE OUT.svg|OUT.dot",
        .example = "  poseidon draw --model=models/googlenet/train_val.prototxt net.svg",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .max_words = 2,
        .about = "Draws a net: layers as boxes, blobs as arrows with their shapes. OUT.svg is a "
                 "picture\n"
                 "with a plain layout, made without other programs; OUT.dot is text for Graphviz's "
                 "dot,\n"
                 "which lays out better. Opens no data.",
    };

    status = options_parse(&line, argc, argv, &nwords);
    if (status)
        return status > 0 ? 0 : command_fail("draw");
    if (!o.model && nwords == 2) { /* as Caffe's draw_net.py */
        o.model = argv[1];
        argv[1] = argv[2];
        nwords = 1;
    }
    if (!o.model || nwords != 1) {
        error_set(!o.model ? "Need a model definition: --model=FILE"
                           : "expected one file to write, OUT.svg or OUT.dot");
        return command_fail("draw");
    }
    return draw(&o, argv[1], force) ? command_fail("draw") : 0;
}
