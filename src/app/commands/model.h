/* What commands that take a net instead of a solver share: one phase of a net file. */
#ifndef POSEIDON_COMMANDS_MODEL_H
#define POSEIDON_COMMANDS_MODEL_H

#include "net/net.h"
#include "util/log.h"
#include "util/option.h"

struct model_options {
    const char *model;   /* net file */
    const char *weights; /* weight files, a comma list; for commands that load them */
    const char *phase;   /* "TRAIN" or "TEST" */
    const char *stages;  /* comma list or NULL */
    int level;
    int batch;                 /* > 0: replaces the training data's batch size */
    struct option_list inputs; /* of --input-shape: "3,224,224" and "label:1,41,41" */
    bool look_only;
    int rank, nranks;
    const struct op_ranks *ranks; /* as in layer_env */
};

struct model {
    struct text_doc *doc;
    struct net_def *def;
    struct net *net;
    struct engine engine; /* .i NULL: not built */
    char *notices;        /* things to say aloud; owned */
};

/* What layers are told of their surroundings; notices go to the model. */
struct layer_env model_env(const struct model_options *options, struct model *model);

/* Shapes alone. */
int model_open(const struct model_options *options, struct model *out);

/* The definition alone, without shapes: what model_open does up to net_create. */
int model_define(const struct model_options *options, struct model *out);

/* Fails where one of the blobs (n 0: any that the net computes) is made of an input that nobody
 * fills, so that it would be zeros. given: the input that the command fills itself, or NULL. */
int model_check_inputs(const struct model *model, const struct model_options *options,
                       const struct blob *given, int n, const struct blob *const *blobs);

/* Opens the engine and builds the net. */
int model_build(struct model *model, const char *engine, const struct engine_options *options,
                uint64_t seed);

/* Into a net that is built: files, a comma list; NULL fails where the net has parameters. all: as
 * in checkpoint_load_weights. */
int model_load_weights(struct model *model, const char *weights, bool all, struct log *log);

/* Prints what there is to say aloud, if anything, on the standard error stream. */
void model_print_notices(const struct model *model);

void model_close(struct model *model);

#endif
