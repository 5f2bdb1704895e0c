/* poseidon simulate */
#include "commands/commands.h"
#include "commands/plan_request.h"

#include <stdio.h>
#include <string.h>

#include "simulate/simulate.h"
#include "util/error.h"

struct request {
    struct plan_request plan;
    size_t window;
    const char *order;
    bool json;
};

/* One number of nodes. */
struct row {
    int nodes, workers;
    struct simulate_result result;
    double speedup, images_per_second, bytes_sent;
};

static int parse(struct request *r, int argc, char **argv, struct cost_cluster *cluster)
{
    const struct option options[] = {
        {"window", OPTION_BYTES, &r->window, "SIZE",
         "a rank's bytes on the network at a time (default: what suits the network)"},
        {"order", OPTION_TEXT, &r->order, "HOW",
         "which waiting message goes first: urgency (default) or fifo"},
        {"json", OPTION_FLAG, &r->json, NULL, "print JSON instead"},
    };
    const struct command_line line = {
        .command = "simulate",
        .synopsis = "--model=FILE [OPTIONS]",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .about =
            "Plays training message by message on a virtual clock, by the plan and the send queue\n"
            "that training itself has, and prints how it scales. Where plan adds up averages, "
            "this\n"
            "has who waits for whom. Needs no cluster and no data.",
    };
    int status;

    plan_request_init(&r->plan);
    r->plan.purpose = "simulate";
    status = plan_request_parse(&r->plan, &line, argc, argv, cluster);
    if (!status && strcmp(r->order, "urgency") && strcmp(r->order, "fifo"))
        return error_set("--order=%s is not known (urgency or fifo)", r->order);
    return status;
}

static int run_plan(const struct request *r, const struct forecast *f, const struct plan *plan,
                    struct simulate_result *out)
{
    const struct simulate_options options = {.cluster = &f->cluster,
                                             .work = &f->work,
                                             .plan = plan,
                                             .overlap = r->plan.options.overlap,
                                             .ranks_per_node = r->plan.options.ranks_per_node,
                                             .window = r->window,
                                             .fifo = !strcmp(r->order, "fifo")};

    return simulate_run(&options, out, NULL);
}

static int run_point(const struct request *r, struct forecast *f, int point, struct row *out)
{
    struct forecast_point *p = &f->points[point];
    struct plan *plan;
    int status;

    if (forecast_set_up(f, r->plan.options.nodes[point], p) || forecast_plan(f, p, &plan))
        return -1;
    status = run_plan(r, f, plan, &out->result);
    plan_destroy(plan);
    if (status)
        return -1;
    out->nodes = p->nodes;
    out->workers = p->workers;
    out->speedup = p->workers * f->alone_seconds / out->result.seconds;
    out->images_per_second = (double)f->batch * p->workers / out->result.seconds;
    out->bytes_sent = (double)out->result.sent / p->nodes;
    return 0;
}

/* What is beside the speed-up's 1: a rank that trains for itself, played as all else is. */
static int run_alone(const struct request *r, struct forecast *f)
{
    const struct plan_options one = {.comm = {.policy = COMM_NONE},
                                     .nranks = 1,
                                     .chunk_bytes = PLAN_LARGEST_MESSAGE,
                                     .iter_size = r->plan.options.iter_size};
    struct simulate_result result;
    struct plan *plan;
    int status;

    if (plan_create(&one, f->work.ngroups, f->groups, &plan))
        return -1;
    status = run_plan(r, f, plan, &result);
    plan_destroy(plan);
    if (!status)
        f->alone_seconds = result.seconds;
    return status;
}

static void print_table(const struct forecast *f, const struct row *rows, FILE *to)
{
    char cell[COST_CELL];

    cost_print_seconds(f->alone_seconds, cell);
    fprintf(to, "%s, --comm=%s, --overlap=%s; one rank alone: %s an iteration of %d images\n\n",
            f->model.net->def->name, comm_name(f->options->comm),
            cost_overlap_name(f->options->overlap), cell, f->batch);
    fprintf(to, "nodes   iteration  speed-up    images/s  MB sent  stalled\n");
    for (int i = 0; i < f->options->npoints; i++) {
        cost_print_seconds(rows[i].result.seconds, cell);
        fprintf(to, "%5d  %10s  %8.2f  %10.1f  %7.1f  %6.1f%%\n", rows[i].nodes, cell,
                rows[i].speedup, rows[i].images_per_second, rows[i].bytes_sent / 1e6,
                100 * rows[i].result.stall_share);
    }
    fprintf(to,
            "\nMB sent: by the ranks of one node in one iteration, mean over the nodes. Stalled: "
            "the passes\nwait for parameters, mean over the workers.\n");
    for (int i = 0; i < f->options->npoints; i++)
        if (rows[i].result.members > 1)
            fprintf(to, "%d nodes are played in blocks of up to %d leaders that do the same.\n",
                    rows[i].nodes, rows[i].result.members);
}

static void put_rows(const struct forecast *f, const struct row *rows, struct json *json)
{
    json_array_begin(json);
    for (int i = 0; i < f->options->npoints; i++) {
        json_object_begin(json);
        json_put_string(json, "comm", comm_name(f->options->comm));
        json_put_int(json, "nodes", rows[i].nodes);
        json_put_double(json, "seconds", rows[i].result.seconds);
        json_put_double(json, "speedup", rows[i].speedup);
        json_put_double(json, "images_per_second", rows[i].images_per_second);
        json_put_double(json, "bytes_sent", rows[i].bytes_sent);
        json_put_double(json, "stall_share", rows[i].result.stall_share);
        json_object_end(json);
    }
    json_array_end(json);
}

static int show(const struct request *r, const struct forecast *f, const struct row *rows)
{
    struct json json = {.depth = 0};
    int status;

    model_print_notices(&f->model);
    if (!r->json) {
        print_table(f, rows, stdout);
        return fflush(stdout) || ferror(stdout) ? error_set("the table could not be written") : 0;
    }
    put_rows(f, rows, &json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}

int command_simulate(int argc, char **argv)
{
    struct request request = {.window = COST_SIZE_CHOSEN, .order = "urgency"};
    struct row rows[FORECAST_MAX_POINTS];
    struct cost_cluster cluster;
    struct forecast f;
    int status = parse(&request, argc, argv, &cluster);

    if (status)
        return status > 0 ? 0 : command_fail("simulate");
    if (forecast_open(&request.plan.options, &cluster, &f))
        return command_fail("simulate");
    status = run_alone(&request, &f);
    for (int i = 0; i < request.plan.options.npoints && !status; i++)
        status = run_point(&request, &f, i, &rows[i]);
    if (!status)
        status = show(&request, &f, rows);
    forecast_free(&f);
    return status ? command_fail("simulate") : 0;
}
