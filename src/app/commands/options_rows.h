/* Rows that several commands have, and parsers of rows (OPTION_CALL): each writes what it takes at
 * once. */
#ifndef POSEIDON_COMMANDS_OPTIONS_ROWS_H
#define POSEIDON_COMMANDS_OPTIONS_ROWS_H

#include "commands/model.h"
#include "commands/options.h"
#include "engine/engine.h"
#include "exchange/exchange_options.h"

/* Of model, weights, phase, batch, stage, level and input-shape those that `names` lists, with
 * blanks between them; "parameters" among the names: only a net with parameters needs weights. */
void options_add_model(struct option_rows *rows, const char *names, struct model_options *o);

/* Those of a net whose shapes are looked at. */
#define ROWS_OF_SHAPES "model phase batch stage level input-shape"

/* math, deterministic; behind --tune=convolution, no-fusion, no-graphs and workspace. */
void options_add_engine(struct option_rows *rows, struct engine_options *to);

/* Of a command that computes on the one engine it is told. */
struct computing {
    const char *gpus, *engine; /* as heard; then engine's name */
    struct engine_options options;
};

/* gpu, engine, threads and those of options_add_engine. */
void options_add_computing(struct option_rows *rows, struct computing *to);

/* The row of --tune itself, for commands that have rows with OPTION_TUNE. */
void options_add_tuning(struct option_rows *rows);

/* After parsing: the engine where --gpu (NULL: not given) and --engine (NULL: the same) were heard.
 * Caffe's -gpu is "all" or a comma list of numbers, of which the CUDA library is told, so that rank
 * k of the node takes the k-th of the list. */
int options_settle_engine(const char *gpus, const char **engine);

/* "3,224,224" into long long[3]; OPTION_CALL's form. */
int shape_parse(const char *option, const char *text, void *target);

#endif
