/* What `poseidon plan` is asked, and its two ways to answer. */
#ifndef POSEIDON_COMMANDS_COMMAND_PLAN_H
#define POSEIDON_COMMANDS_COMMAND_PLAN_H

#include "commands/model.h"
#include "commands/options_rows.h"
#include "forecast/forecast.h"
#include "plan/probe.h"

struct plan_request {
    struct model_options model;
    struct forecast_options options;
    char comm_help[COMM_HELP_BYTES]; /* of --comm */
    struct probe figures;            /* the cluster's */
    const char *profile;
    char *profile_file; /* options.profile, where `profile` names a device or a file; owned */
    struct option_list figure;
    double link_Bps; /* of --bandwidth; 0: not given */
    bool json, layers, sync_bn;
};

/* For people, in 80 columns, on standard output. Fills the tables of the points that it prints. */
int plan_print(const struct plan_request *request, struct forecast *forecast);

/* The same as JSON: a row for each number of nodes. */
int plan_print_json(const struct plan_request *request, const struct forecast *forecast);

/* The names of plan's --tune, on standard output. */
void plan_print_tuning(void);

#endif
