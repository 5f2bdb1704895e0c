/* What is left of a training besides its snapshots. */
#ifndef POSEIDON_TRAIN_OUTPUT_H
#define POSEIDON_TRAIN_OUTPUT_H

#include "timeline/clocks.h"
#include "report/curves.h"
#include "report/figures.h"
#include "exchange/exchange.h"
#include "train/compute.h"
#include "train/rates.h"
#include "train/timing.h"
#include "util/sha256.h"

struct output {
    struct trace *trace;              /* NULL: nothing is recorded. Owned */
    struct clock_offset clock_before; /* this rank's clock before training; with trace */
    struct link_meter meter;          /* of what the wire is given; with --tune=log */
    struct curves *curves;            /* rank 0, with --curves; else NULL. Owned */
    struct figures figures;           /* rank 0, after the loop; elsewhere empty. Owned */
    char hash[SHA256_HEX]; /* of the parameters; rank 0, after the loop, where they are trained */
    char learned_hash[SHA256_HEX]; /* of the learnt parameters alone: running averages depend on
                                      the iterations at which ranks averaged them */
};

/* ---- start_log.c ---- */

/* What rank 0 says before training begins: the files' notices, the net's table, where it computes,
 * what was asked for in vain, which files lie outside of the user's folder and the solver's. */
void output_log_start(const struct job *job, const struct compute *compute,
                      const struct exchange *exchange, const char *notices, const char *places);

/* ---- metrics.c ---- */

/* Opens the files of --curves; *out stays NULL where nobody asked. Rank 0. */
int metrics_open(const struct job *job, const struct compute *compute, const struct train_state *at,
                 struct curves **out);

/* How many columns the outputs of the first `ntests` test nets take. */
size_t metrics_count(const struct compute *compute, int ntests);

/* A point, without its epoch: where a loss is displayed, and where a test is over. Nothing where
 * curves is NULL. */
void metrics_put(struct curves *curves, const struct job *job, const struct train_state *at,
                 struct curves_row row);

/* The progress line after that iteration, `seconds` of training into the run. */
void metrics_show_progress(const struct job *job, const struct train_state *at, int64_t iteration,
                           double seconds, double loss);

#endif
