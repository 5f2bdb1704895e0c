/* poseidon plan: parses the command line and runs the forecast. */
#include "commands/command_plan.h"

#include "commands/commands.h"
#include "forecast/profiles.h"
#include "util/error.h"
#include "util/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Default figures: a node of a 10 GbE cluster with a few cores. */
static const struct cost_cluster defaults = {.latency_seconds = 30e-6,
                                             .message_seconds = 5e-6,
                                             .link_Bps = 1.25e9,
                                             .local_Bps = 5e9,
                                             .copy_Bps = 10e9,
                                             .sum_Bps = 10e9,
                                             .transport_Bps = 2.5e9};

#define USUAL_FLOPS 100e9 /* default speed of a rank's products */

enum { SLOWEST_LINK_BPS = 125 };

/* ---- the command line ---- */

static int parse_nodes(const char *option, const char *text, void *target)
{
    struct forecast_options *o = target;

    o->npoints =
        units_parse_counts(option, text, FORECAST_MAX_NODES, FORECAST_MAX_POINTS, o->nodes);
    return o->npoints < 0 ? -1 : 0;
}

static int parse_speeds(const char *option, const char *text, void *target)
{
    struct forecast_options *o = target;
    const char *at = text;

    for (o->nspeeds = 0; o->nspeeds == 0 || *at == ','; o->nspeeds++) {
        char *end;
        double speed = strtod(at + (o->nspeeds > 0), &end);
        if (!(speed >= 1e-3 && speed <= 1e3) || (*end && *end != ','))
            return error_set("%s expects numbers from 0.001 to 1000 such as 1,1,0.5, found '%s'",
                             option, text);
        if (o->nspeeds == FORECAST_MAX_SPEEDS)
            return error_set("%s: at most %d numbers", option, FORECAST_MAX_SPEEDS);
        o->speeds[o->nspeeds] = speed;
        at = end;
    }
    return 0;
}

static int parse_switch(const char *option, const char *text, void *target)
{
    struct simulate_options *play = target;
    char after;

    if (sscanf(text, "%d:%lf%c", &play->leaf_nodes, &play->oversubscription, &after) != 2 ||
        play->leaf_nodes < 1 || !(play->oversubscription >= 1 && play->oversubscription <= 1e6))
        return error_set("%s expects NODES:X such as 32:4, the nodes of a leaf switch and its "
                         "uplink's oversubscription, each at least 1, found '%s'",
                         option, text);
    return 0;
}

static void add_net(struct plan_request *r, struct option_rows *rows)
{
    const struct option heading = {.kind = OPTION_GROUP, .help = "the net"};
    const struct option group[] = {
        {"iter-size", OPTION_COUNT, &r->options.iter_size, "N",
         "passes per iteration, the solver's iter_size (default 1)"},
        {.kind = OPTION_GROUP, .help = "how fast one rank computes"},
        {"images-per-second", OPTION_REAL, &r->options.images_per_second, "N",
         "rate of one rank that trains alone (default: its operations at gemm_flops)"},
        {"profile", OPTION_TEXT, &r->profile, "WHAT",
         "layer times: a device (" PROFILES_DEVICES
         ") with an installed profile of the model, or a file of poseidon time --profile=FILE"},
    };

    options_add(rows, &heading, 1);
    options_add_model(rows, "model batch stage input-shape", &r->model);
    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static void add_cluster(struct plan_request *r, struct option_rows *rows, const char *figures)
{
    struct forecast_options *o = &r->options;
    const struct option group[] = {
        {.kind = OPTION_GROUP, .help = "the cluster"},
        {"nodes", OPTION_CALL, o, "LIST", "numbers of nodes (default 1,2,4,8,16,32)",
         .parse = parse_nodes},
        {"ranks-per-node", OPTION_COUNT, &o->ranks_per_node, "N",
         "ranks that share a node's link (default 1)"},
        {"speeds", OPTION_CALL, o, "LIST",
         "speed of each node's ranks, relative to the rank above, such as 1,1,0.5; a shorter list "
         "repeats (default: all 1)",
         .parse = parse_speeds},
        {"balance", OPTION_FLAG, &o->balance, NULL,
         "deal the batch by --speeds, as train --balance does (default: equal shares)"},
        {"bandwidth", OPTION_CALL, &r->link_Bps, "RATE",
         "rate of a node's link in one direction: 10Gb, 1.25GB (default 10Gb). TCP reaches 0.94 of "
         "a link",
         .parse = units_parse_rate},
        {"bandwidth-mbps", OPTION_REAL, &o->exchange.mbps, "X",
         "a rank sends no more than X Mbit/s, as in train", .flags = OPTION_TUNE},
        {"cluster-file", OPTION_TEXT, &o->exchange.cluster_file, "FILE",
         "figures that train --tune=cluster-file measured; other options override them"},
        {"figure", OPTION_LIST, &r->figure, "KEY=VALUE", figures},
        {"switch", OPTION_CALL, &o->play, "NODES:X",
         "leaf switches of NODES nodes each, with uplinks oversubscribed X times (default: one "
         "switch)",
         .parse = parse_switch},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static int parse_comm(const char *option, const char *text, void *target)
{
    struct forecast_options *o = target;

    return systems_parse(sync_schemes, option, text, &o->exchange.comm, &o->system);
}

static void add_communication(struct plan_request *r, struct option_rows *rows)
{
    struct forecast_options *o = &r->options;
    const struct option group[] = {
        {.kind = OPTION_GROUP, .help = "communication"},
        {"comm", OPTION_CALL, o, "HOW", r->comm_help, .parse = parse_comm},
        {"sync-bn", OPTION_FLAG, &r->sync_bn, NULL,
         "BatchNorm adds up its statistics over all ranks, as train --sync-bn does",
         .not_with = "comm=none", .why = "adds up the statistics of all ranks in every pass"},
    };
    const struct option tuning[] = {
        {"dilate", OPTION_COUNT, &o->exchange.dilate, "K",
         "divide the bytes on the network by K, and nothing else, as train does",
         .flags = OPTION_TUNE},
    };

    comm_help(sync_schemes, OPTIONS_INDENT, r->comm_help);
    systems_help(OPTIONS_INDENT, r->comm_help);
    options_add(rows, group, (int)(sizeof group / sizeof *group));
    exchange_add_rows(rows, &o->exchange, NULL);
    options_add(rows, tuning, 1);
    options_add_tuning(rows);
}

static void add_output(struct plan_request *r, struct option_rows *rows)
{
    const struct option group[] = {
        {.kind = OPTION_GROUP, .help = "output"},
        {"layers", OPTION_FLAG, &r->layers, NULL,
         "print the table of layers for every number of nodes, not only the last"},
        {"json", OPTION_FLAG, &r->json, NULL, "print JSON instead, a row for each number of nodes"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

/* Sets the defaults and adds the rows of options. figures: help text of --figure. */
static void start(struct plan_request *r, struct option_rows *rows, const char *figures)
{
    *r = (struct plan_request){
        .model = {.phase = "TRAIN", .look_only = true},
        .options = {.nodes = {1, 2, 4, 8, 16, 32},
                    .npoints = 6,
                    .ranks_per_node = 1,
                    .iter_size = 1,
                    .exchange = exchange_options_usual(EXCHANGE_PLAN),
                    .play = {.oversubscription = 1}},
        .figures = {.cluster = defaults},
    };
    r->options.exchange.overlap = COST_OVERLAPS; /* not given */
    rows->n = 0;
    add_net(r, rows);
    add_cluster(r, rows, figures);
    add_communication(r, rows);
    add_output(r, rows);
}

void plan_print_tuning(void)
{
    struct plan_request request;
    struct option_rows rows;

    start(&request, &rows, "");
    printf("\nthe same for plan:\n\n");
    options_print_tuning(&rows);
}

/* Sets the cluster's figures: those of --cluster-file, then those of options. */
static int settle_cluster(struct plan_request *r)
{
    struct cost_cluster *cluster = &r->figures.cluster;

    if (r->options.exchange.cluster_file &&
        probe_read(r->options.exchange.cluster_file, &r->figures))
        return -1;
    if (r->link_Bps > 0)
        cluster->link_Bps = r->link_Bps;
    for (int i = 0; i < r->figure.n; i++)
        if (probe_set("--figure", r->figure.item[i], &r->figures))
            return -1;
    if (cluster->link_Bps < SLOWEST_LINK_BPS)
        return error_set("--bandwidth: a link of %g bytes/s is below 1 kbit/s; expected a rate "
                         "such as 10Gb or 1.25GB",
                         cluster->link_Bps);
    r->options.products_measured = cluster->gemm_flops > 0;
    if (!r->options.products_measured)
        cluster->gemm_flops = USUAL_FLOPS;
    return 0;
}

/* Sets the defaults of another system (--comm) for options that were not given. */
static void settle_system(struct forecast_options *o)
{
    const struct system *system = o->system;

    if (o->exchange.overlap == COST_OVERLAPS)
        o->exchange.overlap = system ? system->overlap : COST_OVERLAP_WFBP;
    if (system && o->exchange.sizes.chunk == COST_SIZE_CHOSEN)
        o->exchange.sizes.chunk = system->chunk_bytes;
    if (system && o->exchange.sizes.merge == COST_SIZE_CHOSEN)
        o->exchange.sizes.merge = 0;
}

static int check_speeds(const struct forecast_options *o)
{
    int most = 0;

    if (o->balance && o->nspeeds == 0)
        return error_set("--balance needs --speeds=LIST, such as 1,1,0.5");
    for (int i = 0; i < o->npoints; i++) {
        most = o->nodes[i] > most ? o->nodes[i] : most;
        if (o->nspeeds > 0 && o->nodes[i] > o->nspeeds && o->nodes[i] % o->nspeeds != 0)
            return error_set("--speeds: %d speeds do not repeat over %d nodes: expected --nodes in "
                             "multiples of %d, or a speed for each node",
                             o->nspeeds, o->nodes[i], o->nspeeds);
    }
    if (o->nspeeds > most)
        return error_set("--speeds: %d speeds, but --nodes has %d nodes at most", o->nspeeds, most);
    return 0;
}

static int check(const struct plan_request *r)
{
    const struct forecast_options *o = &r->options;

    if (o->exchange.hierarchy > 0)
        return error_set("--hierarchy=%d: expected auto or off; --ranks-per-node says how many "
                         "ranks a node has",
                         o->exchange.hierarchy);
    for (int i = 0; i < o->npoints; i++)
        if ((long long)o->nodes[i] * o->ranks_per_node > FORECAST_MAX_RANKS)
            return error_set("--ranks-per-node=%d makes too many ranks of %d nodes (at most %d)",
                             o->ranks_per_node, o->nodes[i], FORECAST_MAX_RANKS);
    return check_speeds(o);
}

/* Appends the help text of --figure, with its keys. */
static void describe_figures(struct strbuf *out)
{
    const struct probe none = {.nranks = 0};
    const char *key, *about;
    double value;

    strbuf_puts(out, "a figure of the cluster, in the cluster file's unit or with its own "
                     "(latency_seconds=30us, sum_bytes_per_second=8GB); may be repeated. Keys:");
    for (int i = 0; (key = probe_figure(&none, i, &about, &value)) != NULL; i++)
        if (strncmp(key, "ranks", 5) != 0)
            strbuf_printf(out, "\n%s: %s", key, about);
}

/* Parses the command line. Returns 0, OPTIONS_HELPED if --help was given, or -1 with a message. */
static int parse(struct plan_request *r, int argc, char **argv)
{
    struct strbuf figures = {.data = NULL};
    struct option_rows rows;
    struct command_line line = {
        .command = "plan",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon plan --model=models/vgg19_22k/train_val.prototxt \\\n"
                   "      --nodes=1,8,32 --bandwidth=10Gb --images-per-second=30",
        .options = rows.row,
        .about = "Predicts how training scales: the scheme that --comm=auto chooses for each "
                 "layer, the time of an iteration, and the time that training waits for the "
                 "network. Simulates every message with training's own plan and send queue, for "
                 "each number of nodes. Needs no cluster and no data.",
    };
    int nwords, status;

    describe_figures(&figures);
    start(r, &rows, strbuf_text(&figures));
    line.noptions = rows.n;
    status = options_parse(&line, argc, argv, &nwords);
    strbuf_free(&figures);
    if (status)
        return status;
    if (r->profile && profiles_find(r->profile, r->model.model, &r->profile_file, &r->model.batch))
        return -1;
    r->options.profile = r->profile_file;
    settle_system(&r->options);
    return error_status(
        settle_cluster(r) ||
        exchange_settle(&r->options.exchange, r->options.system ? r->options.system->name : NULL) ||
        check(r));
}

int command_plan(int argc, char **argv)
{
    struct plan_request request;
    struct model model;
    struct forecast forecast;
    int status = parse(&request, argc, argv);
    const struct op_ranks played = {.sum = NULL}; /* only simulated: no sums */

    if (request.sync_bn)
        request.model.ranks = &played;
    if (!status && !(status = model_open(&request.model, &model))) {
        status = forecast_create(&request.options, &request.figures.cluster, model.net, &forecast);
        if (!status) {
            model_print_notices(&model);
            status = request.json ? plan_print_json(&request, &forecast)
                                  : plan_print(&request, &forecast);
            forecast_free(&forecast);
        }
        model_close(&model);
    }
    free(request.profile_file);
    return status;
}
