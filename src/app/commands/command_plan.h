/* The request of poseidon plan, and its two output formats: a table and JSON. */
#ifndef POSEIDON_COMMANDS_COMMAND_PLAN_H
#define POSEIDON_COMMANDS_COMMAND_PLAN_H

#include "commands/model.h"
#include "commands/options_rows.h"
#include "forecast/forecast.h"
#include "plan/probe.h"

struct plan_request {
    struct model_options model;
    struct forecast_options options;
    char comm_help[COMM_HELP_BYTES]; /* help text of --comm */
    struct probe figures;            /* figures of the cluster */
    const char *profile;
    char *profile_file; /* owned; file behind options.profile, if `profile` is given */
    struct option_list figure;
    double link_Bps; /* --bandwidth; 0: not given */
    bool json, layers, sync_bn;
};

/* Prints the plan in 80 columns on standard output; fills the cost tables of the points shown. */
int plan_print(const struct plan_request *request, struct forecast *forecast);

/* Prints the plan as JSON: one row for each number of nodes. */
int plan_print_json(const struct plan_request *request, const struct forecast *forecast);

/* Prints the names that plan's --tune accepts on standard output. */
void plan_print_tuning(void);

#endif
