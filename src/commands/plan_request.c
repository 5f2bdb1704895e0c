/* The words of `poseidon plan` and `poseidon simulate`. */
#include "commands/plan_request.h"

#include "commands/options_rows.h"
#include "forecast/profiles.h"
#include "plan/probe.h"
#include "sync/sync.h"
#include "util/error.h"
#include "util/units.h"

#include <stdlib.h>
#include <string.h>

/* What stands where nothing is said: a node of a 10 GbE cluster with a few cores. */
static const struct cost_cluster defaults = {.latency_seconds = 30e-6,
                                             .message_seconds = 5e-6,
                                             .link_Bps = 1.25e9,
                                             .local_Bps = 5e9,
                                             .gemm_flops = 100e9,
                                             .copy_Bps = 10e9,
                                             .sum_Bps = 10e9,
                                             .transport_Bps = 2.5e9};

enum { SLOWEST_LINK_BPS = 125 };

void plan_request_init(struct plan_request *request)
{
    *request = (struct plan_request){
        .model = {.phase = "TRAIN", .look_only = true},
        .options = {.ranks_per_node = 1,
                    .registry = sync_schemes,
                    .iter_size = 1,
                    .chunk_bytes = COST_SIZE_CHOSEN,
                    .merge_bytes = COST_SIZE_CHOSEN},
        .nodes = "1,2,4,8,16,32",
        .comm = "auto",
        .wire = "fp32",
        .hierarchy = "auto",
    };
    request->options.overlap = COST_OVERLAP_WFBP;
}

/* The rows of both commands, then the command's own. */
static int parse_words(struct plan_request *r, const struct command_line *line, int argc,
                       char **argv)
{
    char comm_words[COMM_HELP_BYTES];
    int nwords;
    struct forecast_options *o = &r->options;
    const struct option shared[] = {
        {"model", OPTION_TEXT, &r->model.model, "FILE", "the net (Caffe's prototxt); required"},
        {"nodes", OPTION_TEXT, &r->nodes, "LIST", "numbers of nodes (default 1,2,4,8,16,32)"},
        {"ranks-per-node", OPTION_COUNT, &o->ranks_per_node, "N",
         "ranks that share a node's link (default 1)"},
        {"hierarchy", OPTION_TEXT, &r->hierarchy, "HOW",
         "auto (default): a node's ranks add up in shared memory and one sends for all (on one "
         "node: with --comm=auto); off: all send"},
        {"leaders", OPTION_COUNT, &o->leaders, "N",
         "N ranks of a node lead it, each for its share of the parameters (default 1; all, where "
         "no other node is there)"},
        {"batch", OPTION_COUNT, &r->model.batch, "N",
         "images per rank and pass, instead of the net's"},
        {"input-shape", OPTION_CALL, r->model.input_chw, "C,H,W",
         "input size, where neither the net nor its data gives it", .parse = shape_parse},
        {"stage", OPTION_TEXT, &r->model.stages, "LIST", "stages of the net's state (comma list)"},
        {"iter-size", OPTION_COUNT, &o->iter_size, "N",
         "passes per iteration, as the solver's iter_size (default 1)"},
        {"bandwidth", OPTION_TEXT, &r->bandwidth, "RATE",
         "rate of a node's link in one direction: 10Gb, 1.25GB (default 10Gb). TCP reaches 0.94 of "
         "a link"},
        {"bandwidth-mbps", OPTION_REAL, &r->mbps, "X",
         "as for train: a rank sends no more than X Mbit/s"},
        {"latency", OPTION_TEXT, &r->latency, "TIME",
         "time of a small message between nodes (default 30us)"},
        {"message", OPTION_TEXT, &r->message, "TIME",
         "time that each further message costs its sender (default 5us)"},
        {"gflops", OPTION_TEXT, &r->gflops, "N", "GFLOP/s of a rank in products (default 100)"},
        {"images-per-second", OPTION_TEXT, &r->images, "N",
         "what one rank alone trains (default: estimated from --gflops)"},
        {"profile", OPTION_TEXT, &r->profile, "WHAT",
         "the layers' times: a device (" PROFILES_DEVICES ") whose profile of the model is "
         "installed, or a file of poseidon time --profile=FILE"},
        {"memory", OPTION_TEXT, &r->memory, "RATE",
         "rate at which a rank copies and sums (default 10GB)"},
        {"host-copy", OPTION_TEXT, &r->device, "RATE",
         "rate of copies between a rank's host and its device, each way (default: the profile's, "
         "else none "
         "needed)"},
        {"cluster-file", OPTION_TEXT, &o->cluster_file, "FILE",
         "measured figures; options above override them"},
        {"comm", OPTION_TEXT, &r->comm, "HOW", comm_words},
        {"overlap", OPTION_TEXT, &r->overlap, "HOW",
         "as for train: wfbp (default), backward or none"},
        {"wire", OPTION_TEXT, &r->wire, "FORM",
         "fp32 (default), or bf16: PS and allreduce send half the bytes"},
        {"servers", OPTION_INT, &o->servers, "K",
         "K dedicated server ranks among all (default: all ranks serve)"},
        {"chunk", OPTION_BYTES, &o->chunk_bytes, "SIZE",
         "bytes of parameters, or of factors, per message (default: what suits the network)"},
        {"merge", OPTION_BYTES, &o->merge_bytes, "SIZE",
         "send small neighbouring layers together, up to this size; 0: each alone "
         "(default: what suits the network)"},
        {"shared-core", OPTION_FLAG, &r->shared_core, NULL,
         "ranks have no core to spare for the communication thread"},
    };
    struct option_rows rows = {.n = 0};
    struct command_line all = *line;

    options_add(&rows, shared, (int)(sizeof shared / sizeof *shared));
    options_add(&rows, line->options, line->noptions);
    all.options = rows.row;
    all.noptions = rows.n;
    comm_help(o->registry, OPTIONS_INDENT, comm_words);
    if (r->baselines)
        systems_help(OPTIONS_INDENT, comm_words);
    return options_parse(&all, argc, argv, &nwords);
}

/* Measured figures, then what the options say. */
static int parse_cluster(struct plan_request *r, struct cost_cluster *out)
{
    struct probe probe;
    double value;

    *out = defaults;
    if (r->options.cluster_file) {
        if (probe_read(r->options.cluster_file, &probe))
            return -1;
        *out = probe.cluster;
    }
    if (r->bandwidth && units_parse_rate("bandwidth", r->bandwidth, &out->link_Bps))
        return -1;
    if (out->link_Bps < SLOWEST_LINK_BPS)
        return error_set(
            "--bandwidth=%s is less than 1 kbit/s, at which nothing trains; expected a "
            "rate such as 10Gb or 1.25GB",
            r->bandwidth);
    if (r->latency && units_parse_time("latency", r->latency, &out->latency_seconds))
        return -1;
    if (r->message && units_parse_time("message", r->message, &out->message_seconds))
        return -1;
    if (r->memory) {
        if (units_parse_rate("memory", r->memory, &out->copy_Bps))
            return -1;
        out->sum_Bps = out->copy_Bps;
        out->local_Bps = out->copy_Bps / 2;     /* into the shared segment and out of it */
        out->transport_Bps = out->copy_Bps / 4; /* into the kernel and out of it, on both sides */
    }
    if (r->device && units_parse_rate("host-copy", r->device, &out->device_Bps))
        return -1;
    if (r->shared_core)
        out->core_share = 1;
    if (r->gflops) {
        if (units_parse_positive("gflops", r->gflops, &value))
            return -1;
        out->gemm_flops = value * 1e9;
    }
    r->options.products_measured = r->gflops || r->options.cluster_file;
    return 0;
}

/* A baseline settles what is not given. */
static int parse_comm(struct plan_request *r)
{
    struct forecast_options *o = &r->options;

    r->baseline = r->baselines ? systems_find(r->comm) : NULL;
    if (!r->baseline)
        return comm_parse(o->registry, r->comm, &o->comm);
    o->comm = r->baseline->comm;
    if (o->comm.policy == COMM_SCHEME && !o->comm.scheme)
        o->comm.scheme = o->registry[0];
    o->overlap = r->baseline->overlap;
    if (o->chunk_bytes == COST_SIZE_CHOSEN)
        o->chunk_bytes = r->baseline->chunk_bytes;
    if (o->merge_bytes == COST_SIZE_CHOSEN)
        o->merge_bytes = r->baseline->merge_bytes;
    return 0;
}

int plan_request_parse(struct plan_request *r, const struct command_line *line, int argc,
                       char **argv, struct cost_cluster *cluster)
{
    struct forecast_options *o = &r->options;
    int status = parse_words(r, line, argc, argv);

    if (status)
        return status;
    if (!r->model.model)
        return error_set("Need a model definition to %s: --model=FILE", r->purpose);
    if (o->chunk_bytes < sizeof(float))
        return error_set("--chunk=%zu: a chunk holds at least one parameter, %zu bytes",
                         o->chunk_bytes, sizeof(float));
    if (strcmp(r->hierarchy, "auto") && strcmp(r->hierarchy, "off"))
        return error_set("--hierarchy=%s: expected auto or off", r->hierarchy);
    o->flat = !strcmp(r->hierarchy, "off");
    o->npoints =
        units_parse_counts("nodes", r->nodes, FORECAST_MAX_NODES, FORECAST_MAX_POINTS, o->nodes);
    for (int i = 0; i < o->npoints; i++)
        if ((long long)o->nodes[i] * o->ranks_per_node > FORECAST_MAX_RANKS)
            return error_set("--ranks-per-node=%d makes too many ranks of %d nodes (at most %d)",
                             o->ranks_per_node, o->nodes[i], FORECAST_MAX_RANKS);
    if (o->npoints < 0 || parse_comm(r) ||
        (r->overlap && cost_overlap_parse(r->overlap, &o->overlap)) ||
        wire_parse(r->wire, &o->wire))
        return -1;
    if (r->profile && profiles_find(r->profile, r->model.model, &r->profile_file, &r->model.batch))
        return -1;
    o->profile = r->profile_file;
    o->bytes_per_second = r->mbps * 1e6 / 8;
    if (r->images && units_parse_positive("images-per-second", r->images, &o->images_per_second))
        return -1;
    return parse_cluster(r, cluster);
}

void plan_request_free(struct plan_request *request)
{
    free(request->profile_file);
}
