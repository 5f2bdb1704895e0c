/* poseidon summary */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"

#include <stdio.h>

#include "report/net_table.h"
#include "util/error.h"

int command_summary(int argc, char **argv)
{
    struct model_options o = {.phase = "TRAIN", .look_only = true};
    struct model model;
    bool as_json = false;
    int nwords, status;
    struct option_rows rows = {.n = 0};
    const struct option own = {"json", OPTION_FLAG, &as_json, NULL, "print JSON instead"};
    struct command_line line = {
        .command = "summary",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon summary --model=models/lenet/train_val.prototxt",
        .options = rows.row,
        .about =
            "Prints the net's table: layers, shapes, parameters, operations. The input's size is "
            "--input-shape, or what the data has where it is there, or what crop_size and the "
            "like say; else it is assumed to be 3,224,224, and every line says so.",
    };

    options_add_model(&rows, &o);
    options_add(&rows, &own, 1);
    line.noptions = rows.n;
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
