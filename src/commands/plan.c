/* poseidon plan */
#include "commands/commands.h"
#include "commands/draw_graph.h"
#include "commands/output_guard.h"
#include "commands/plan_request.h"

#include <stdio.h>

#include "util/error.h"

struct request {
    struct plan_request plan;
    const char *draw; /* a picture to write, or NULL */
    bool json, force;
};

static int parse(struct request *r, int argc, char **argv, struct cost_cluster *cluster)
{
    const struct option options[] = {
        {"layers", OPTION_FLAG, &r->plan.options.all_tables, NULL,
         "print the layer table for every number of nodes, not for the last alone"},
        {"json", OPTION_FLAG, &r->json, NULL, "print JSON instead, with all tables"},
        {"draw", OPTION_TEXT, &r->draw, "OUT.svg",
         "draw the net as 'poseidon draw' does, with each layer's scheme for the last number of "
         "nodes"},
        {"force", OPTION_FLAG, &r->force, NULL, "replace the picture where it exists"},
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
            "--comm=auto "
            "would take and why, and how training would scale. Needs no cluster.",
    };

    plan_request_init(&r->plan);
    r->plan.purpose = "plan for";
    return plan_request_parse(&r->plan, &line, argc, argv, cluster);
}

static int check_picture(const struct request *r)
{
    const struct forecast_options *o = &r->plan.options;
    const char *inputs[] = {r->plan.model.model, o->profile, o->cluster_file};

    if (!r->draw)
        return r->force ? error_set("--force has no effect without --draw") : 0;
    return draw_check(r->draw) ? -1 : output_check(r->draw, r->force, 3, inputs);
}

static int draw(const char *path, const struct model *model, const struct forecast *forecast)
{
    const struct forecast_point *last = &forecast->points[forecast->options->npoints - 1];
    const struct draw_plan plan = {.chosen = last->chosen, .nodes = last->nodes};
    struct draw_graph graph;
    int status;

    if (draw_graph_make(model->def, model->net, &plan, &graph))
        return -1;
    draw_fold(&graph);
    status = draw_write(&graph, path);
    draw_graph_free(&graph);
    return status;
}

static int show(const struct request *r, const struct model *model, const struct forecast *forecast)
{
    struct json json = {.depth = 0};
    int status;

    model_print_notices(model);
    if (r->draw && draw(r->draw, model, forecast))
        return -1;
    if (!r->json)
        return plan_print(forecast, stdout);
    plan_json(forecast, &json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}

int command_plan(int argc, char **argv)
{
    struct request request = {.json = false};
    struct cost_cluster cluster;
    struct model model;
    struct forecast forecast;
    int status = parse(&request, argc, argv, &cluster);

    if (!status)
        status = check_picture(&request);
    if (!status && !(status = model_open(&request.plan.model, &model))) {
        status = forecast_create(&request.plan.options, &cluster, model.net, &forecast);
        if (!status) {
            status = show(&request, &model, &forecast);
            forecast_free(&forecast);
        }
        model_close(&model);
    }
    plan_request_free(&request.plan);
    return status < 0 ? command_fail("plan") : 0;
}
