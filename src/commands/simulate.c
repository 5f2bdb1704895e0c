/* poseidon simulate */
#include "commands/commands.h"
#include "commands/plan_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/simulate.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/path.h"
#include "util/units.h"

enum { MOST_INTERVALS = 10000 };

struct request {
    struct plan_request plan;
    size_t window, headers;
    const char *order;
    /* texts that parse turns into what is below, or into the cluster's; NULL: not given */
    const char *leaf, *transport;
    double transport_Bps, link_Bps;
    int leaf_nodes;
    double oversubscription, stragglers;
    long long seed;
    int intervals;
    bool json;
};

/* One number of nodes. */
struct row {
    int nodes, workers;
    struct simulate_result result;
    double speedup, images_per_second, bytes_sent;
    double bytes_most; /* of the rank that sends most */
    double *sent; /* bytes of a node in each interval of an iteration; owned, NULL: not asked for */
};

static int parse_switch(struct request *r)
{
    char after;

    r->oversubscription = 1;
    if (!r->leaf)
        return 0;
    if (sscanf(r->leaf, "%d:%lf%c", &r->leaf_nodes, &r->oversubscription, &after) != 2 ||
        r->leaf_nodes < 1 || !(r->oversubscription >= 1 && r->oversubscription <= 1e6))
        return error_set(
            "--switch wants NODES:X, nodes on a leaf switch (at least 1) and by how much "
            "its way up is oversubscribed (at least 1), as 32:4; found '%s'",
            r->leaf);
    return 0;
}

/* Training measures its link with the thread that it has, so plans are made for the slower of
 * both. */
static int parse_rates(struct request *r, struct cost_cluster *cluster)
{
    r->link_Bps = cluster->link_Bps;
    if (r->transport && units_parse_rate("transport", r->transport, &r->transport_Bps))
        return -1;
    if (r->transport && r->transport_Bps < cluster->link_Bps)
        cluster->link_Bps = r->transport_Bps;
    return 0;
}

static int parse(struct request *r, int argc, char **argv, struct cost_cluster *cluster)
{
    const struct option options[] = {
        {"window", OPTION_BYTES, &r->window, "SIZE",
         "bytes that a rank has in flight (default: what suits the network)"},
        {"order", OPTION_TEXT, &r->order, "HOW",
         "which waiting message goes first: urgency (default) or fifo"},
        {"transport", OPTION_TEXT, &r->transport, "RATE",
         "rate at which a rank's communication thread sends, and receives as much (default: as "
         "much as "
         "the link takes)"},
        {"headers", OPTION_BYTES, &r->headers, "SIZE",
         "what headers and replies add to each message on a link (default 0)"},
        {"switch", OPTION_TEXT, &r->leaf, "NODES:X",
         "leaf switches of NODES nodes each, with uplinks that are X times oversubscribed "
         "(default: "
         "one switch)"},
        {"stragglers", OPTION_REAL, &r->stragglers, "S",
         "workers' passes differ in every iteration, log-normally: 0.05 is about 5 % (default: "
         "none)"},
        {"seed", OPTION_SEED, &r->seed, "N", "random seed of the stragglers (default 1)"},
        {"intervals", OPTION_COUNT, &r->intervals, "N",
         "with --json: the bytes a node sends in each N-th of an iteration"},
        {"dilate", OPTION_COUNT, &r->plan.options.dilate, "K",
         "divide the bytes on the network by K, and leave all else as it is, as train --dilate "
         "does"},
        {"json", OPTION_FLAG, &r->json, NULL, "print JSON instead"},
    };
    const struct command_line line = {
        .command = "simulate",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon simulate --model=models/vgg19_22k/train_val.prototxt \\\n"
                   "      --profile=models/profiles/titanx-vgg19_22k.csv --nodes=8,32",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .about =
            "Plays training message by message on a virtual clock, by the plan and the send queue "
            "that training itself has, and prints how it scales. Where plan adds up averages, "
            "simulate knows which rank waits for which. Needs no cluster and no data.",
    };
    int status;

    plan_request_init(&r->plan);
    r->plan.purpose = "simulate";
    r->plan.baselines = true;
    status = plan_request_parse(&r->plan, &line, argc, argv, cluster);
    if (!status && strcmp(r->order, "urgency") && strcmp(r->order, "fifo"))
        return error_set("--order=%s: expected urgency or fifo", r->order);
    if (!status && r->intervals > MOST_INTERVALS)
        return error_set("--intervals wants a number from 1 to %d, found %d", MOST_INTERVALS,
                         r->intervals);
    if (!status && r->intervals > 0 && !r->json)
        return error_set("--intervals adds to the rows of --json: give that too");
    return status ? status : parse_switch(r) || parse_rates(r, cluster) ? -1 : 0;
}

/* Draws differ: more iterations of them. */
enum { DRAWN_ITERATIONS = 20 };

static void dilate(struct cost_cluster *cluster, double by)
{
    cluster->gemm_flops /= by * by;
    cluster->update_Bps /= by;
}

/* How plans that are dilated so much are played; cluster: filled in, to be kept as long as what is
 * returned. */
static struct simulate_options options_of(const struct request *r, const struct forecast *f,
                                          int dilated, struct cost_cluster *cluster)
{
    *cluster = f->cluster;
    cluster->link_Bps = r->link_Bps;
    if (dilated > 1) /* the plan's sizes are; products and updates take as long */
        dilate(cluster, dilated);
    return (struct simulate_options){.cluster = cluster,
                                     .work = &f->work,
                                     .overlap = r->plan.options.overlap,
                                     .ranks_per_node = r->plan.options.ranks_per_node,
                                     .window = r->window,
                                     .fifo = !strcmp(r->order, "fifo"),
                                     .bytes_per_second = r->plan.options.bytes_per_second,
                                     .transport_Bps = r->transport_Bps,
                                     .header_bytes = (double)r->headers,
                                     .leaf_nodes = r->leaf_nodes,
                                     .oversubscription = r->oversubscription,
                                     .seed = (uint64_t)r->seed};
}

/* window: where the user gave none. */
static int run_plan(const struct request *r, const struct forecast *f, const struct plan *plan,
                    size_t window, bool alone, const struct simulate_watch *watch,
                    struct simulate_result *out, struct simulate_rank *ranks)
{
    struct cost_cluster cluster;
    struct simulate_options options = options_of(r, f, plan->options.dilate, &cluster);

    options.plan = plan;
    if (r->window == COST_SIZE_CHOSEN)
        options.window = window;
    options.watch = watch;
    options.stragglers = r->stragglers;
    options.iterations = watch ? out->iterations : r->stragglers > 0 ? DRAWN_ITERATIONS : 0;
    if (r->plan.baseline && !alone)
        options.manner = r->plan.baseline->manner;
    return simulate_run(&options, out, ranks);
}

/* The same once more, watched. */
static int run_watched(const struct request *r, const struct forecast *f, const struct plan *plan,
                       size_t window, struct row *out)
{
    struct simulate_watch watch = {
        .begin = out->result.begin, .seconds = out->result.seconds, .intervals = r->intervals};

    out->sent = watch.bytes = alloc_array((size_t)r->intervals, sizeof *out->sent, "intervals");
    if (!out->sent || run_plan(r, f, plan, window, false, &watch, &out->result, NULL))
        return -1;
    for (int i = 0; i < r->intervals; i++)
        out->sent[i] /= (double)out->result.iterations * out->nodes;
    return 0;
}

static int run_point(const struct request *r, struct forecast *f, int point, struct row *out)
{
    struct forecast_point *p = &f->points[point];
    struct simulate_rank *ranks;
    struct plan *plan;
    int status;

    if (forecast_set_up(f, r->plan.options.nodes[point], p) || forecast_plan(f, p, &plan))
        return -1;
    out->nodes = p->nodes;
    out->workers = p->workers;
    ranks = alloc_array((size_t)plan->nleaders, sizeof *ranks, "leaders");
    status = ranks ? run_plan(r, f, plan, p->window, false, NULL, &out->result, ranks) : -1;
    for (int i = 0; i < plan->nleaders && !status; i++)
        out->bytes_most = ranks[i].sent > out->bytes_most ? ranks[i].sent : out->bytes_most;
    free(ranks);
    if (!status && r->intervals > 0)
        status = run_watched(r, f, plan, p->window, out);
    plan_destroy(plan);
    if (status)
        return -1;
    out->speedup = p->workers * f->alone_seconds / out->result.seconds;
    out->images_per_second = (double)f->batch * p->workers / out->result.seconds;
    out->bytes_sent = (double)out->result.sent / p->nodes;
    return 0;
}

static double update_bytes(const struct forecast *f)
{
    double elems = 0;

    for (int g = 0; g < f->work.ngroups; g++)
        elems += f->groups[g].trains ? (double)f->groups[g].elems : 0;
    return elems * sizeof(float);
}

/* What is beside the speed-up's 1: a rank that trains for itself, played as all else is; where the
 * profile has the update's time, that is the passes' and its. */
static int run_alone(const struct request *r, struct forecast *f)
{
    const struct plan_options one = {.registry = r->plan.options.registry,
                                     .comm = {.policy = COMM_NONE},
                                     .nranks = 1,
                                     .chunk_bytes = PLAN_LARGEST_MESSAGE,
                                     .iter_size = r->plan.options.iter_size};
    struct simulate_result result;
    struct plan *plan;
    int status;

    if (plan_create(&one, f->work.ngroups, f->groups, &plan))
        return -1;
    status = run_plan(r, f, plan, COST_SIZE_CHOSEN, true, NULL, &result, NULL);
    plan_destroy(plan);
    if (!status)
        f->alone_seconds = f->cluster.update_Bps > 0 ? cost_work_seconds(&f->work) +
                                                           update_bytes(f) / f->cluster.update_Bps
                                                     : result.seconds;
    return status;
}

static const char *comm_of(const struct request *r)
{
    return r->plan.baseline ? r->plan.baseline->name : comm_name(r->plan.options.comm);
}

static void print_table(const struct request *r, const struct forecast *f, const struct row *rows,
                        FILE *to)
{
    char cell[COST_CELL];

    cost_print_seconds(f->alone_seconds, cell);
    fprintf(to, "%s, --comm=%s, --overlap=%s; alone: %s an iteration of %d images%s\n\n",
            f->net->def->name, comm_of(r), cost_overlap_name(f->options->overlap), cell, f->batch,
            net_is_assumed(f->net) ? " (assumed input)" : "");
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

static void put_sent(const struct row *row, int intervals, struct json *json)
{
    json_key(json, "bytes_sent_by_interval");
    json_array_begin(json);
    for (int i = 0; i < intervals; i++)
        json_double(json, row->sent[i]);
    json_array_end(json);
}

static void put_rows(const struct request *r, const struct forecast *f, const struct row *rows,
                     struct json *json)
{
    json_array_begin(json);
    for (int i = 0; i < f->options->npoints; i++) {
        json_object_begin(json);
        json_put_string(json, "comm", comm_of(r));
        json_put_int(json, "nodes", rows[i].nodes);
        json_put_double(json, "seconds", rows[i].result.seconds);
        json_put_double(json, "speedup", rows[i].speedup);
        json_put_double(json, "images_per_second", rows[i].images_per_second);
        json_put_double(json, "bytes_sent", rows[i].bytes_sent);
        json_put_double(json, "stall_share", rows[i].result.stall_share);
        json_put_string(json, "model", f->net->def->name);
        json_put_string(json, "profile", r->plan.profile ? path_base(r->plan.profile) : NULL);
        json_put_double(json, "bandwidth", r->link_Bps);
        json_put_double(json, "latency", f->cluster.latency_seconds);
        json_put_int(json, "ranks_per_node", f->options->ranks_per_node);
        json_put_int(json, "batch", f->batch);
        json_put_uint(json, "parameters", f->net->nlearnable);
        json_put_int(json, "workers", rows[i].workers);
        json_put_double(json, "bytes_sent_most", rows[i].bytes_most);
        if (rows[i].sent)
            put_sent(&rows[i], r->intervals, json);
        json_object_end(json);
    }
    json_array_end(json);
}

static int show(const struct request *r, const struct forecast *f, const struct row *rows)
{
    struct json json = {.depth = 0};
    int status;

    if (!r->json) {
        print_table(r, f, rows, stdout);
        return fflush(stdout) || ferror(stdout) ? error_set("the table could not be written") : 0;
    }
    put_rows(r, f, rows, &json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}

static int run_all(const struct request *r, struct forecast *f, struct row *rows)
{
    int points = f->options->npoints, status = run_alone(r, f);

    for (int i = 0; i < points && !status; i++)
        status = run_point(r, f, i, &rows[i]);
    if (!status)
        status = show(r, f, rows);
    for (int i = 0; i < points; i++)
        free(rows[i].sent);
    return status;
}

int command_simulate(int argc, char **argv)
{
    struct request request = {.window = COST_SIZE_CHOSEN, .order = "urgency", .seed = 1};
    struct row rows[FORECAST_MAX_POINTS] = {{.nodes = 0}};
    struct cost_cluster cluster, played;
    struct simulate_options play;
    struct model model;
    struct forecast f;
    int status = parse(&request, argc, argv, &cluster);

    if (!status && !(status = model_open(&request.plan.model, &model))) {
        status = forecast_open(&request.plan.options, &cluster, model.net, &f);
        if (!status) {
            model_print_notices(&model);
            play = options_of(&request, &f, request.plan.options.dilate, &played);
            request.plan.options.play = &play;
            status = run_all(&request, &f, rows);
            forecast_free(&f);
        }
        model_close(&model);
    }
    plan_request_free(&request.plan);
    return status < 0 ? command_fail("simulate") : 0;
}
