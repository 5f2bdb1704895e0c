/* What a training says and leaves besides its snapshots. */
#ifndef POSEIDON_SAY_OUTPUT_H
#define POSEIDON_SAY_OUTPUT_H

#include "exchange/exchange.h"
#include "job/rates.h"
#include "keep/scores.h"
#include "report/curves.h"
#include "report/figures.h"
#include "say/timing.h"
#include "timeline/clocks.h"
#include "util/json.h"
#include "util/sha256.h"
#include "watch/monitor.h"

struct output {
    /* what it tells of; borrowed */
    const struct job *job;
    const struct compute *compute;
    struct exchange *exchange;
    const struct rates *rates;
    const struct scores *scores;
    struct timing *timing;
    struct monitor *monitor;
    const struct train_state *at; /* where training starts */

    double *sums;        /* what workers add up for a display: loss, outputs, times. The owner's */
    struct trace *trace; /* NULL: nothing is recorded. Owned */
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
void output_log_start(const struct output *output, const char *notices, const char *places);

/* ---- display.c ---- */

/* Averages loss and outputs over the workers and, in training, shows them; at its end only keeps
 * the loss. seconds: of training so far, without pauses. Every worker calls it at the same
 * iterations. */
int output_display(struct output *output, int64_t iteration, double seconds, bool training);

/* ---- metrics.c ---- */

/* Opens the files of --curves; output->curves stays NULL where nobody asked. Rank 0. */
int metrics_open(struct output *output);

/* How many columns the outputs of the first `ntests` test nets take. */
size_t metrics_count(const struct compute *compute, int ntests);

/* A point, without its epoch: where a loss is displayed, and where a test is over. Nothing without
 * curves. */
void metrics_put(const struct output *output, struct curves_row row);

/* The progress line after that iteration, `seconds` of training into the run. */
void metrics_show_progress(const struct output *output, int64_t iteration, double seconds,
                           double loss);

/* ---- result.c ---- */

/* Before the nets are made: makes the recorder where one is asked for. */
int result_open_trace(const struct job *job, struct trace **out);

/* Before sync_start: compares clocks. Collective. */
int result_start_clock(struct output *output);

/* After sync_close: gathers every rank's figures on rank 0. */
int output_gather_figures(struct output *output);

/* After training's synchronisation was destroyed: writes the trace, says where the time went.
 * Collective. */
int output_report(struct output *output, const struct sync_model *model);

/* The summary as a JSON object. Rank 0, after output_report; not collective. */
void output_summary(const struct output *output, struct json *json);

#endif
