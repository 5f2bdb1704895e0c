/* The command line of poseidon train. */
#ifndef POSEIDON_COMMANDS_TRAIN_OPTIONS_H
#define POSEIDON_COMMANDS_TRAIN_OPTIONS_H

#include <limits.h>

#include "commands/options_rows.h"
#include "job/trainer_options.h"

struct train_request {
    struct trainer_options options; /* texts point into argv, or into members below */
    struct option_list settings;    /* --set */
    struct option_list curves;      /* --curves */
    struct strbuf alike;            /* options that ranks must share, for command_start. Owned */
    struct strbuf run;              /* options that all starts of the run must share. Owned */
    const char *gpu, *fake_data, *reproducible; /* NULL: not given */
    char trace[PATH_MAX];                       /* file of --trace */
    bool force;
    char comm_help[COMM_HELP_BYTES]; /* help text of --comm */
};

/* Parses the command line; returns like options_parse. Do not move the request afterwards. */
int train_options_parse(int argc, char **argv, struct train_request *request);

/* Settles options that depend on others, in train_checks.c; fails if options exclude each other. */
int train_options_settle(struct train_request *request);

/* Prints the names that --tune accepts on standard output. */
void train_options_print_tuning(void);

#endif
