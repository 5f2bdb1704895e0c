/* What `poseidon plan` and `poseidon simulate` can both be asked: the net, the cluster, how to
 * communicate. */
#ifndef POSEIDON_COMMANDS_PLAN_REQUEST_H
#define POSEIDON_COMMANDS_PLAN_REQUEST_H

#include <stdio.h>

#include "commands/model.h"
#include "commands/options.h"
#include "forecast/forecast.h"
#include "forecast/systems.h"
#include "util/json.h"

struct plan_request {
    struct model_options model;
    struct forecast_options options;
    const char *purpose; /* "plan for": what the net is needed for, in a message */
    /* texts that plan_request_parse turns into options and cluster; NULL: not given */
    const char *profile;           /* as given; options.profile is `profile_file` */
    char *profile_file;            /* owned */
    bool baselines;                /* --comm may name one (forecast/systems.h) */
    const struct system *baseline; /* that it named, or NULL */
    const char *nodes, *bandwidth, *latency, *message, *memory, *device, *gflops, *images, *comm,
        *overlap, *wire, *hierarchy;
    bool shared_core;
    double mbps; /* most that a rank sends; 0: no limit */
};

/* What stands where nothing is said; the purpose is left to the caller. */
void plan_request_init(struct plan_request *request);

/* Parses the command line: the rows that both commands have, then line->options. Returns as
 * options_parse does: 0, 1 if --help was asked for, -1 with a message. */
int plan_request_parse(struct plan_request *request, const struct command_line *line, int argc,
                       char **argv, struct cost_cluster *cluster);

/* Whatever plan_request_parse returned. */
void plan_request_free(struct plan_request *request);

/* A plan for people, and as JSON. */
int plan_print(const struct forecast *forecast, FILE *to);
void plan_json(const struct forecast *forecast, struct json *json);

#endif
