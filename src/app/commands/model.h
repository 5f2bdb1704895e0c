/* One phase of a net file, opened for a command that takes a net, not a solver. */
#ifndef POSEIDON_COMMANDS_MODEL_H
#define POSEIDON_COMMANDS_MODEL_H

#include "net/net.h"
#include "util/log.h"
#include "util/option.h"

struct model_options {
    const char *model;   /* net file */
    const char *weights; /* weight files, a comma list, for commands that load weights */
    const char *phase;   /* "TRAIN" or "TEST" */
    const char *stages;  /* comma list or NULL */
    int level;
    int batch;                 /* > 0: replaces the training data's batch size */
    struct option_list inputs; /* --input-shape: "3,224,224" and "label:1,41,41" */
    bool look_only;
    int rank, nranks;
    const struct op_ranks *ranks; /* see layer_env */
};

struct model {
    struct text_doc *doc;
    struct net_def *def;
    struct net *net;
    struct engine engine; /* .i NULL: not built */
    char *notices;        /* notices to print; owned */
};

/* Returns the layers' environment; notices go to the model. */
struct layer_env model_env(const struct model_options *options, struct model *model);

/* Reads a net file and creates its net: shapes alone, no memory or engine. */
int model_open(const struct model_options *options, struct model *out);

/* Reads the definition alone, without shapes, for nets that cannot be created. */
int model_define(const struct model_options *options, struct model *out);

/* Fails if a blob depends on an input that nothing fills, which would be zeros. n 0: any blob of
 * the net. given: input that the command fills, or NULL. */
int model_check_inputs(const struct model *model, const struct model_options *options,
                       const struct blob *given, int n, const struct blob *const *blobs);

/* Opens the engine and builds the net. */
int model_build(struct model *model, const char *engine, const struct engine_options *options,
                uint64_t seed);

/* Loads weights into a built net. weights: comma list of files; NULL fails if the net has
 * parameters. all: see checkpoint_load_weights. */
int model_load_weights(struct model *model, const char *weights, bool all, struct log *log);

/* Prints the model's notices, if any, on standard error. */
void model_print_notices(const struct model *model);

void model_close(struct model *model);

#endif
