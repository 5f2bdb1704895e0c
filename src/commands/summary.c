/* poseidon summary */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"

#include <stdio.h>

#include "report/net_table.h"

int command_summary(int argc, char **argv)
{
    struct model_options o = {.phase = "TRAIN", .look_only = true};
    struct model model;
    bool as_json = false;
    int status;
    const struct option own = {"json", OPTION_FLAG, &as_json, NULL, "print JSON instead"};
    const struct command_line line = {
        .command = "summary",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon summary --model=models/lenet/train_val.prototxt",
        .options = &own,
        .noptions = 1,
        .net_rows = ROWS_OF_SHAPES,
        .net = &o,
        .about = "Prints the net's table: layers, shapes, parameters, operations. The input's size "
                 "comes from --input-shape, from the data if it is there, or from crop_size and "
                 "similar fields; else 3,224,224 is assumed, and every line says so.",
    };

    status = options_parse(&line, argc, argv, NULL);
    if (status || model_open(&o, &model))
        return status ? status : -1;
    model_print_notices(&model);
    if (as_json) {
        struct json json = {.depth = 0};
        net_table_json(model.net, &json);
        status = json_print(&json, stdout);
    } else {
        status = net_table_print(model.net, NULL, stdout);
    }
    model_close(&model);
    return status;
}
