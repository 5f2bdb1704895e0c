/* Where the time of a training run went: figures, and the same in words and as JSON lines. Pure
 * arithmetic and text; all times are seconds per iteration. */
#ifndef POSEIDON_TRACE_REPORT_H
#define POSEIDON_TRACE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "util/strbuf.h"

/* One group of parameters: a layer that communicates. */
struct report_layer {
    const char *name, *scheme;   /* borrowed */
    int group;                   /* its number in the plan */
    double predicted_sent, sent; /* bytes over all ranks; sent = received */
    double predicted_received, received;
    double predicted_seconds; /* transfer by the cost model; negative: not predicted */
    double alone_seconds;     /* transfer with nothing else going on, slowest worker; negative:
                                 not measured */
    double stall_seconds;     /* waited for it in training, mean over the workers */
    double stall_most;        /* the worker that waited longest, and how long */
    int stall_rank;
};

struct report_rank {
    char host[64];
    bool worker;
    double compute_seconds;     /* workers: what is neither waiting nor input */
    double stall_seconds;       /* waiting for the network; on a rank alone, for its own update of
                                   parameters */
    double other_stall_seconds; /* of these: for sums (losses), norms; not for a layer */
    double input_seconds;       /* waiting for input */
    double progress_seconds;    /* processor time of the progress thread */
    double progress_share;      /* of one core, over the thread's whole life: 0 to 1 */
};

struct report {
    const char *net; /* borrowed */
    int64_t iterations;
    double seconds; /* of one iteration */
    bool overlap;
    int batch; /* samples per rank and iteration */
    int nranks, nworkers;
    struct report_rank *ranks; /* owned */
    int nlayers;
    struct report_layer *layers; /* owned */
};

/* What would help, and by how much at most. */
enum report_change {
    CHANGE_NOTHING, /* computation is all there is */
    CHANGE_OVERLAP, /* let traffic run under computation */
    CHANGE_TRAFFIC, /* more to send than computation can hide: larger batches, faster network */
    CHANGE_LAYER,   /* one layer's transfer comes too late to be hidden */
    CHANGE_SKEW, /* waits are longer than transfers: ranks wait for each other, now this one late,
                    now that one */
    CHANGE_INPUT,
    CHANGE_STRAGGLER /* one rank computes longer than the others */
};

struct report_advice {
    enum report_change change;
    int which;    /* layer or rank, -1 */
    double saves; /* seconds per iteration, at most */
    char text[512];
};

/* Means, minima and maxima over the workers. */
struct report_spread {
    double mean, least, most;
    int most_rank;
};
struct report_spread report_spread_of(const struct report *report,
                                      double (*figure)(const struct report_rank *rank));

/* What is left to see of a layer's transfer; the rest of its wait is for ranks that came later. */
double report_exposed(const struct report_layer *layer);

void report_advise(const struct report *report, struct report_advice *out);

/* Several lines, the first without a headline. */
void report_words(const struct report *report, struct strbuf *text);
/* How much of a core the progress thread took, mean over all ranks, and where it took most. */
double report_progress_share(const struct report *report, int *most_rank);

/* The layers' table: bytes and times, predicted and measured; times that no layer has are left out.
 * Of many layers the REPORT_ROWS that cost most (waited, else alone, else bytes) in the net's
 * order, and one row for the sums of the rest. */
enum { REPORT_ROWS = 10 };
void report_table(const struct report *report, struct strbuf *text);
/* One JSON object per line: run, ranks, layers, advice. Fails where memory does. */
int report_lines(const struct report *report, struct strbuf *text);

void report_free(struct report *report);

#endif
