/* poseidon summary */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options.h"

#include <stdio.h>

#include "report/net_table.h"
#include "util/error.h"

int command_summary(int argc, char **argv)
{
    struct model_options o = {.phase = "TRAIN", .look_only = true};
    struct model model;
    bool as_json = false;
    int nwords, status;
    const struct option options[] = {
        {"model", OPTION_TEXT, &o.model, "FILE", "the net (Caffe's prototxt); required"},
        {"phase", OPTION_TEXT, &o.phase, "PHASE", "TRAIN (default) or TEST"},
        {"stage", OPTION_TEXT, &o.stages, "LIST", "stages of the net's state (comma list)"},
        {"level", OPTION_INT, &o.level, "N", "level of the net's state"},
        {"batch", OPTION_COUNT, &o.batch, "N", "samples per pass, instead of the net's"},
        {"input-shape", OPTION_TEXT, &o.input_shape, "C,H,W",
         "input size, where neither the net nor its data gives it"},
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON instead"},
    };
    const struct command_line line = {
        .command = "summary",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon summary --model=models/lenet/train_val.prototxt",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .about =
            "Prints the net's table: layers, shapes, parameters, operations. The input's size is\n"
            "--input-shape, or what the data has where it is there, or what crop_size and the\n"
            "like say; else it is assumed to be 3,224,224, and every line says so.",
    };

    status = options_parse(&line, argc, argv, &nwords);
    if (status)
        return status > 0 ? 0 : command_fail("summary");
    if (!o.model) {
        error_set("Need a model definition: --model=FILE");
        return command_fail("summary");
    }
    if (model_open(&o, &model))
        return command_fail("summary");
    if (model.notices && *model.notices)
        fputs(model.notices, stderr);
    if (as_json) {
        struct json json = {.depth = 0};
        net_table_json(model.net, NULL, &json);
        status = json_print(&json, stdout);
        json_free(&json);
    } else {
        status = net_table_print(model.net, NULL, stdout);
    }
    model_close(&model);
    return status ? command_fail("summary") : 0;
}
