/* poseidon plan */
#include "commands/commands.h"
#include "commands/plan_request.h"

#include <stdio.h>

struct request {
    struct plan_request plan;
    bool json;
};

static int parse(struct request *r, int argc, char **argv, struct cost_cluster *cluster)
{
    const struct option options[] = {
        {"layers", OPTION_FLAG, &r->plan.options.all_tables, NULL,
         "print the layer table for every number of nodes, not for the last alone"},
        {"json", OPTION_FLAG, &r->json, NULL, "print JSON instead, with all tables"},
    };
    const struct command_line line = {
        .command = "plan",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon plan --model=models/vgg19_22k/train_val.prototxt \\\n"
                   "      --nodes=1,8,32 --bandwidth=10Gb --images-per-second=30",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .about =
            "Estimates what every layer's synchronisation would cost by every scheme, which one "
            "--comm=auto\n"
            "would take and why, and how training would scale. Needs no cluster.",
    };

    plan_request_init(&r->plan);
    r->plan.purpose = "plan for";
    return plan_request_parse(&r->plan, &line, argc, argv, cluster);
}

static int show(const struct request *r, const struct forecast *forecast)
{
    struct json json = {.depth = 0};
    int status;

    model_print_notices(&forecast->model);
    if (!r->json)
        return forecast_print(forecast, stdout);
    forecast_json(forecast, &json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}

int command_plan(int argc, char **argv)
{
    struct request request = {.json = false};
    struct cost_cluster cluster;
    struct forecast forecast;
    int status = parse(&request, argc, argv, &cluster);

    if (!status && !(status = forecast_create(&request.plan.options, &cluster, &forecast))) {
        status = show(&request, &forecast);
        forecast_free(&forecast);
    }
    plan_request_free(&request.plan);
    return status < 0 ? command_fail("plan") : 0;
}
