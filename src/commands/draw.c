/* poseidon draw */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"
#include "commands/output_guard.h"

#include <stdio.h>

#include "export/picture.h"
#include "util/error.h"

struct request {
    struct model_options model;
    const char *path;
    bool force;
};

/* Draws without shapes what can be wired and not built, such as layers of types unknown here. */
static int open_net(const struct model_options *o, struct model *model)
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
    return 0;
}

static int draw(const struct request *r)
{
    struct model model = {.doc = NULL};
    int status = error_any(
        picture_check(r->path) || output_check(r->path, r->force, 1, &r->model.model) ||
        open_net(&r->model, &model) || picture_write(model.def, model.net, NULL, r->path));

    model_close(&model);
    return status;
}

static int parse(struct request *r, int argc, char **argv)
{
    struct model_options *o = &r->model;
    struct option_rows rows = {.n = 0};
    const struct option own = {"force", OPTION_FLAG, &r->force, NULL,
                               "replace the picture if it exists"};
    struct command_line line = {
        .command = "draw",
        .synopsis = "--model=FILE OUT.svg|OUT.pdf|OUT.png|OUT.dot",
        .example = "  poseidon draw --model=models/googlenet/train_val.prototxt net.dot",
        .options = rows.row,
        .max_words = 2,
        .about =
            "Draws a net: layers as boxes, with their parameters and the blobs that they make. An "
            "in-place layer is drawn in the box whose blob it changes, repeated blocks are drawn "
            "once, and a long net is laid out in columns. OUT.dot is text for Graphviz's dot; the "
            "other formats (.eps, .ps, .jpg, .gif and .webp too) need Graphviz's library in the "
            "build. Opens no data. 'poseidon plan --draw' shows each layer's scheme, too.",
    };
    int nwords, status;

    options_add_model(&rows, ROWS_OF_SHAPES, o);
    rows.row[0].need = NULL; /* the net may be a word */
    options_add(&rows, &own, 1);
    line.noptions = rows.n;
    status = options_parse(&line, argc, argv, &nwords);
    if (status)
        return status;
    if (!o->model && nwords == 2) { /* as Caffe's draw_net.py */
        o->model = argv[1];
        argv[1] = argv[2];
        nwords = 1;
    }
    if (!o->model)
        return error_set("Need " NEED_MODEL);
    if (nwords != 1)
        return error_set("expected one file to write, such as OUT.svg or OUT.dot");
    r->path = argv[1];
    return 0;
}

int command_draw(int argc, char **argv)
{
    struct request request = {.model = {.phase = "TRAIN", .look_only = true}};
    int status = parse(&request, argc, argv);

    return status ? status : draw(&request);
}
