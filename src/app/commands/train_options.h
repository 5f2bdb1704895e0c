/* The command line of poseidon train. */
#ifndef POSEIDON_COMMANDS_TRAIN_OPTIONS_H
#define POSEIDON_COMMANDS_TRAIN_OPTIONS_H

#include <limits.h>

#include "commands/options_rows.h"
#include "job/trainer_options.h"

struct train_request {
    struct trainer_options options; /* its texts are borrowed from argv, its settings from below */
    struct option_list settings;    /* --set */
    struct option_list curves;      /* --curves */
    struct strbuf alike; /* what all ranks must have been given, for command_start. Owned */
    struct strbuf run;   /* the options that all starts of the run must have alike. Owned */
    const char *gpu, *rank_log, *fake_data, *reproducible; /* NULL: not given */
    char trace[PATH_MAX];                                  /* the file of --trace */
    bool force;
    char comm_help[COMM_HELP_BYTES]; /* of --comm */
};

/* Returns as options_parse does. The request is not to be moved afterwards. */
int train_options_parse(int argc, char **argv, struct train_request *request);

/* The end of train_options_parse: fails where options do not go together (train_checks.c). */
int train_options_settle(struct train_request *request);

/* What --tune takes, on standard output. */
void train_options_print_tuning(void);

#endif
