/* Figures of a training run: each rank's, gathered once on rank 0 when training is over. The table,
 * the sentences, the lines of the log (report/report.h) and the summary are all made from figures.
 *
 * Times are in seconds and sizes in bytes, both per iteration unless said otherwise. */
#ifndef POSEIDON_REPORT_FIGURES_H
#define POSEIDON_REPORT_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/net.h"
#include "sync/sync.h"
#include "util/topology.h"

/* Figures of one bucket: a layer, or several, that communicates. */
struct figures_layer {
    const char *name, *scheme;   /* borrowed from the plan, or constant */
    int bucket;                  /* number of the bucket in the plan */
    double predicted_sent, sent; /* bytes, sum over all ranks; sent equals received */
    double predicted_received, received;
    double predicted_seconds; /* simulated time of the transfer; negative: not predicted */
    double alone_seconds; /* time of the transfer with nothing else going on, on the slowest worker;
                             negative: not measured */
    double stall_seconds; /* training's wait for this bucket, mean over the workers */
    double stall_most;    /* training's wait on the worker that waited longest */
    int stall_rank;       /* worker that waited longest; -1: none */
};

/* Causes of a rank's lateness. */
enum late_cause { LATE_COMPUTING, LATE_INPUT, LATE_NETWORK, LATE_CAUSES };

/* Lateness of a rank: how often the others waited for this rank, among figures.looks looks (one per
 * display), and how long in all. */
struct figures_late {
    int times;
    double seconds[LATE_CAUSES];
};

struct figures_rank {
    char host[TOPOLOGY_HOST_BYTES];
    bool worker;            /* true: computes; false: a dedicated server */
    double compute_seconds; /* workers: iteration time without stall and input */
    double stall_seconds; /* wait for the network; alone: for the rank's own update of parameters */
    double other_stall_seconds;  /* part of stall_seconds: for sums (losses) and norms */
    double input_seconds;        /* wait for input */
    double input_total_seconds;  /* wait for input, all iterations together */
    double input_waits;          /* number of waits for input, all iterations together */
    double bad_records;          /* damaged records that were left out, counted by each rank */
    double progress_seconds;     /* processor time of the wire thread */
    double progress_share;       /* wire thread's share of one core, over its whole life: 0 to 1 */
    double predicted_sent, sent; /* bytes of gradients, parameters and factors */
    double control_sent;         /* bytes of everything else, over the whole run */
    double full_seconds;         /* time with the link full (wire/link_meter.h) */
    double longest_full_seconds; /* longest stretch with the link full */
    double most_queued; /* most bytes that waited or were on their way. The three link figures are 0
                           if nothing was sent or asked */
    struct figures_late late;
    double left_out; /* iterations that ended before this rank began them */
    double unused;   /* unused work in iterations: left_out, and dropped gradients */
};

/* Figures of all ranks. All zero: nothing was gathered. */
struct figures {
    const char *net;      /* the net's name; borrowed */
    int64_t iterations;   /* count in this run; 0: none, and figures per iteration are totals */
    double seconds;       /* time of one iteration */
    bool overlap;         /* communication ran under computation */
    bool local;           /* several ranks on one machine, which sends nothing */
    int batch;            /* samples per worker and iteration */
    int nranks, nworkers; /* nworkers: ranks that compute */
    int looks;            /* number of looks for late ranks */
    int threads, cores;   /* compute threads and cores, from rank 0's source */
    struct figures_rank *ranks; /* figures of nranks ranks; owned */
    int nlayers;
    struct figures_layer *layers; /* layers in the order of the plan's buckets; owned */
};

/* Figures of one rank, to be gathered. All pointers are borrowed. */
struct figures_source {
    const struct net *net;
    const struct plan *plan;
    const struct topology *topology;
    const struct sync_stats *stats; /* statistics taken after sync_close */
    const struct link_meter *meter; /* meter of the rank's wire; all zero: none */
    int64_t iterations;             /* iterations done in this run */
    double train_seconds; /* training time of all iterations, without tests and snapshots */
    double train_stall;   /* part of train_seconds: wait for the network */
    double input_seconds; /* wait for input, all iterations */
    uint64_t input_waits;
    int bad_records; /* damaged records that this rank left out */
    bool overlap;
    int batch; /* samples per worker and iteration */
    int threads,
        cores; /* compute threads and cores of all ranks that share this rank's cores; 0: unknown */
};

/* Gathers the figures in *out on rank 0, except predicted_seconds and alone_seconds, which stay
 * unknown; on other ranks *out is all zero. The plan and the net must outlive *out. Collective over
 * `world`; fails on all ranks together, and then *out need not be freed. */
int figures_gather(MPI_Comm world, const struct figures_source *source, struct figures *out);
void figures_free(struct figures *figures);

/* ---- arithmetic on figures ---- */

/* Leaves out waits outside of iterations: while rank 0 saves a snapshot, which is not in `seconds`,
 * other ranks' clocks run on. Scales all waits alike. figures_gather calls this function. */
void figures_leave_out_pauses(struct figures *figures);

/* Names a figure of ranks, a double: FIGURE(stall_seconds). */
#define FIGURE(member) offsetof(struct figures_rank, member)

double figures_of_rank(const struct figures *figures, int rank, size_t figure);

/* Mean, least and most over the workers, and the ranks with least and most; -1: no workers. */
struct figures_spread {
    double mean, least, most;
    int least_rank, most_rank;
};
struct figures_spread figures_spread(const struct figures *figures, size_t figure);

/* Returns the sum over all ranks, servers included. */
double figures_sum(const struct figures *figures, size_t figure);

/* Returns how long training waited for the layer's transfer itself, at most the time alone. The
 * rest of the wait was for ranks that came later. For layers whose alone_seconds is known. */
double figures_exposed(const struct figures_layer *layer);

#endif
