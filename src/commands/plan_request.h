/* What `poseidon plan` and `poseidon simulate` can both be asked: the net, the cluster, how to
 * communicate. */
#ifndef POSEIDON_COMMANDS_PLAN_REQUEST_H
#define POSEIDON_COMMANDS_PLAN_REQUEST_H

#include "commands/options.h"
#include "commands/plan_forecast.h"
#include "simulate/baseline.h"

struct plan_request {
    struct forecast_options options;
    const char *purpose; /* "plan for": what the net is needed for, in a message */
    /* texts that plan_request_parse turns into options and cluster; NULL: not given */
    const char *profile;             /* as given; options.profile is `profile_file` */
    char *profile_file;              /* owned */
    bool baselines;                  /* --comm may name one (simulate/baseline.h) */
    const struct baseline *baseline; /* that it named, or NULL */
    const char *nodes, *bandwidth, *latency, *message, *memory, *device, *gflops, *images, *comm,
        *overlap, *wire, *hierarchy;
    bool shared_core;
};

/* What stands where nothing is said; the purpose is left to the caller. */
void plan_request_init(struct plan_request *request);

/* Parses the command line: the rows that both commands have, then line->options. Returns as
 * options_parse does: 0, 1 if --help was asked for, -1 with a message. */
int plan_request_parse(struct plan_request *request, const struct command_line *line, int argc,
                       char **argv, struct cost_cluster *cluster);

/* Whatever plan_request_parse returned. */
void plan_request_free(struct plan_request *request);

#endif
