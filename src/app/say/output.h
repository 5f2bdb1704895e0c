/* Output of training besides snapshots: log lines, curves, figures, report, summary. */
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
    /* sources of the output; borrowed */
    const struct job *job;
    const struct compute *compute;
    struct exchange *exchange;
    const struct rates *rates;
    const struct scores *scores;
    struct timing *timing;
    struct monitor *monitor;
    const struct train_state *at; /* start of training */

    double *sums;                     /* numbers of a display, summed over workers (display.c) */
    struct trace *trace;              /* NULL: no --trace. Owned */
    struct clock_offset clock_before; /* offset of this rank's clock before training; with trace */
    struct link_meter meter;          /* meter of messages given to the wire; with --tune=log */
    struct curves *curves;            /* rank 0, with --curves; else NULL. Owned */
    struct figures figures;           /* rank 0, after the loop; elsewhere empty. Owned */
    char hash[SHA256_HEX]; /* digest of the parameters, on rank 0 after the loop; none with a blank
                              engine */
    char learned_hash[SHA256_HEX]; /* digest without running averages, which depend on when ranks
                                      averaged them */
};

/* ---- start_log.c ---- */

/* Logs before training, on rank 0: files' notices, the net's table, the places of computation,
 * settings without effect. */
void output_log_start(const struct output *output, const char *notices, const char *places);

/* ---- display.c ---- */

/* Averages loss and outputs over the workers. In training shows both; after it, keeps the loss
 * only. seconds: training time so far, without pauses. Collective over the workers. */
int output_display(struct output *output, int64_t iteration, double seconds, bool training);

/* ---- metrics.c ---- */

/* Opens the files of --curves; output->curves stays NULL if no file is asked for. Rank 0. */
int metrics_open(struct output *output);

/* Returns the number of columns for the outputs of the first `ntests` test nets. */
size_t metrics_count(const struct compute *compute, int ntests);

/* Adds a point to the curves, after a display or a test; sets its epoch. Does nothing without
 * curves. */
void metrics_put(const struct output *output, struct curves_row row);

/* Shows the progress line after `iteration`. seconds: training time so far. */
void metrics_show_progress(const struct output *output, int64_t iteration, double seconds,
                           double loss);

/* ---- result.c ---- */

/* Creates the trace recorder, if asked for; before the nets are made. */
int result_open_trace(const struct job *job, struct trace **out);

/* Compares the ranks' clocks; before sync_start. Collective. */
int result_start_clock(struct output *output);

/* Gathers every rank's figures on rank 0; after sync_close. */
int output_gather_figures(struct output *output);

/* Writes the trace, and logs where the time went; after sync_destroy of training's sync.
 * Collective. */
int output_report(struct output *output, const struct sync_model *model);

/* Writes the summary as a JSON object. Rank 0, after output_report; not collective. */
void output_summary(const struct output *output, struct json *json);

#endif
