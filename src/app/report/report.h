/* Reports the figures of a training run in three ways: a table of layers, sentences with advice,
 * and JSON lines. Text only: nothing here is collective, and nothing is measured. */
#ifndef POSEIDON_REPORT_REPORT_H
#define POSEIDON_REPORT_REPORT_H

#include "report/figures.h"
#include "util/json.h"
#include "util/strbuf.h"

/* Causes of lost time, each with the change that helps most. */
enum report_change {
    CHANGE_NOTHING, /* nothing but computation takes time */
    CHANGE_OVERLAP, /* communication should run under computation */
    CHANGE_TRAFFIC, /* more to send than computation can hide: larger batches, faster network */
    CHANGE_LAYER,   /* one layer's transfer comes too late to be hidden */
    CHANGE_SKEW,  /* waits are longer than transfers: ranks wait for each other, and not always for
                     the same rank */
    CHANGE_INPUT, /* input comes too late */
    CHANGE_STRAGGLER /* one rank computes longer than the others */
};

struct report_advice {
    enum report_change change;
    int which; /* layer or rank that the change concerns (skew: the rank that came last most often),
                  else -1 */
    double saves; /* seconds per iteration, at most */
    char text[512];
};

/* Weighs every loss by its cost per iteration and names the largest. figures->iterations must be
 * above 0, here and in report_words, report_table and report_lines. */
void report_advise(const struct figures *figures, struct report_advice *out);

/* Appends where an iteration's time goes, how much of the traffic was hidden, whose gradients were
 * dropped, and the advice. The summary (--summary) has everything else. */
void report_words(const struct figures *figures, struct strbuf *text);

/* Appends the layers' table: bytes and times, predicted and measured. Leaves out times that no
 * layer has, and the whole table if nothing travels and no transfer was timed. Of many layers,
 * shows the REPORT_ROWS that cost most (wait, else time alone, else bytes), in the net's order, and
 * sums the rest in one row. */
enum { REPORT_ROWS = 10 };
void report_table(const struct figures *figures, struct strbuf *text);

/* Appends one JSON object per line: the run, each rank, each layer, the advice. Fails without
 * memory. */
int report_lines(const struct figures *figures, struct strbuf *text);

/* Writes one rank's figures into an open JSON object. */
void report_rank(const struct figures *figures, int rank, struct json *json);

#endif
