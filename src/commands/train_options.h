/* The command line of poseidon train. */
#ifndef POSEIDON_COMMANDS_TRAIN_OPTIONS_H
#define POSEIDON_COMMANDS_TRAIN_OPTIONS_H

#include "commands/options.h"
#include "solver/trainer.h"

/* What options say in words, before it is understood. */
struct train_words {
    const char *gpu, *phase, *input_shape, *math, *convolution, *direct, *ps_update;
    const char *comm, *wire, *overlap, *order, *hierarchy;
    const char *resume, *time_limit, *every, *stall, *on_nan, *iterations;
    const char *effect[SIGNALS];
    const char *rank_log;
    bool lars;
};

struct train_request {
    struct trainer_options options; /* its texts are borrowed from argv, its settings from below */
    struct train_words words;
    struct option_list settings; /* --set */
    bool force;
};

/* Returns as options_parse does. The request is not to be moved afterwards. */
int train_options_parse(int argc, char **argv, struct train_request *request);

#endif
