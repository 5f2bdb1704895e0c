/* The figures of a training run told in three ways: a table of layers, sentences with advice, and
 * JSON lines. Text only: nothing here is collective, and nothing is measured. */
#ifndef POSEIDON_REPORT_REPORT_H
#define POSEIDON_REPORT_REPORT_H

#include "report/figures.h"
#include "util/json.h"
#include "util/strbuf.h"

/* What would help, and by how much at most. */
enum report_change {
    CHANGE_NOTHING,  /* computation is all there is */
    CHANGE_OVERLAP,  /* let communication run under computation */
    CHANGE_TRAFFIC,  /* more to send than computation can hide: larger batches, faster network */
    CHANGE_LAYER,    /* one layer's transfer comes too late to be hidden */
    CHANGE_SKEW,     /* waits are longer than transfers: ranks wait for each other, and it is not
                        always the same one that is late */
    CHANGE_INPUT,    /* input comes too late */
    CHANGE_STRAGGLER /* one rank computes longer than the others */
};

struct report_advice {
    enum report_change change;
    int which;    /* layer or rank that the change concerns (skew: the rank that came last most
                     often), else -1 */
    double saves; /* seconds per iteration, at most */
    char text[512];
};

/* Weighs every loss by what it costs an iteration and names the largest. figures->iterations must
 * be above 0, here and in the three functions that follow. */
void report_advise(const struct figures *figures, struct report_advice *out);

/* Appends where an iteration's time goes, how much of the traffic was hidden, whose gradients were
 * dropped, and the advice. Everything else is in the summary (--summary). */
void report_words(const struct figures *figures, struct strbuf *text);

/* Appends the layers' table: bytes and times, predicted and measured; times that no layer has are
 * left out, and the whole table where nothing travels and no transfer was timed. Of many layers the
 * REPORT_ROWS that cost most (waited, else alone, else bytes) appear, in the net's order, and one
 * row has the sums of the rest. */
enum { REPORT_ROWS = 10 };
void report_table(const struct figures *figures, struct strbuf *text);

/* Appends one JSON object per line: the run, each rank, each layer, the advice. Fails where memory
 * is lacking. */
int report_lines(const struct figures *figures, struct strbuf *text);

/* Writes one rank's figures into an open JSON object. */
void report_rank(const struct figures *figures, int rank, struct json *json);

#endif
