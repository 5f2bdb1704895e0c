/* Rows of options that several commands share, and parsers of values (OPTION_CALL). */
#ifndef POSEIDON_COMMANDS_OPTIONS_ROWS_H
#define POSEIDON_COMMANDS_OPTIONS_ROWS_H

#include "commands/model.h"
#include "commands/options.h"
#include "engine/engine.h"
#include "exchange/exchange_options.h"

/* Adds the rows that `names` lists, separated by blanks: model, weights, phase, batch, stage,
 * level, input-shape. The name "parameters" requires weights only for nets with parameters. */
void options_add_model(struct option_rows *rows, const char *names, struct model_options *o);

/* Row names for commands that look at a net's shapes. */
#define ROWS_OF_SHAPES "model phase batch stage level input-shape"

/* Adds the option math, and deterministic, convolution, no-fusion, no-graphs, workspace of
 * --tune. */
void options_add_engine(struct option_rows *rows, struct engine_options *to);

/* Engine options of a command that computes on one engine. */
struct computing {
    const char *gpus, *engine; /* the given GPUs, and the engine's name */
    struct engine_options options;
};

/* Adds the options gpu, engine and threads, and those of options_add_engine. */
void options_add_computing(struct option_rows *rows, struct computing *to);

/* Adds the row of --tune, for commands with OPTION_TUNE rows. */
void options_add_tuning(struct option_rows *rows);

/* Sets *engine from --gpu and --engine, NULL if not given. Call after parsing. gpus (Caffe's -gpu)
 * is "all" or a comma list of numbers, which becomes CUDA_VISIBLE_DEVICES, so that rank k of a node
 * uses the k-th of the list. */
int options_settle_engine(const char *gpus, const char **engine);

/* Parses "3,224,224" into long long[3], in the form of OPTION_CALL. */
int shape_parse(const char *option, const char *text, void *target);

#endif
