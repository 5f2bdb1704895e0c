/* The figures of a training run: what every rank knows when training is over, gathered on rank 0
 * once. The table, the sentences, the lines of the log (report/report.h) and the summary are all
 * made from them.
 *
 * Times are seconds and sizes bytes, both per iteration where nothing else is said. */
#ifndef POSEIDON_REPORT_FIGURES_H
#define POSEIDON_REPORT_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/net.h"
#include "sync/sync.h"
#include "util/topology.h"

/* One bucket: a layer, or several, that communicates. */
struct figures_layer {
    const char *name, *scheme;   /* borrowed: of the plan, and constant */
    int bucket;                  /* its number in the plan */
    double predicted_sent, sent; /* bytes, the sum over all ranks; what is sent is received */
    double predicted_received, received;
    double predicted_seconds; /* of its transfer, as it is played; negative: not predicted */
    double alone_seconds;     /* of its transfer with nothing else going on, on the slowest worker;
                                 negative: not measured */
    double stall_seconds;     /* training waited for it, mean over the workers */
    double stall_most;        /* the same on the worker that waited longest */
    int stall_rank;           /* that worker; -1: there is none */
};

/* Why a rank was late. */
enum late_cause { LATE_COMPUTING, LATE_INPUT, LATE_NETWORK, LATE_CAUSES };

/* How often the others waited for a rank, of figures.looks times that it was looked at (at every
 * display), and how long in all. */
struct figures_late {
    int times;
    double seconds[LATE_CAUSES];
};

struct figures_rank {
    char host[TOPOLOGY_HOST_BYTES];
    bool worker;                 /* computes; else it is a dedicated server */
    double compute_seconds;      /* workers: what is neither waiting nor input */
    double stall_seconds;        /* waited for the network; on a rank alone, for its own update of
                                    parameters */
    double other_stall_seconds;  /* of these: for sums (losses) and norms, not for a layer */
    double input_seconds;        /* waited for input */
    double input_total_seconds;  /* waited for input, all iterations together */
    double input_waits;          /* how often, all iterations together */
    double input_turned;         /* images turned upright, as often as they were read */
    double progress_seconds;     /* processor time of the wire thread */
    double progress_share;       /* of one core, over the thread's whole life: 0 to 1 */
    double predicted_sent, sent; /* bytes of gradients, parameters and factors */
    double control_sent;         /* bytes of everything else, the whole run */
    double full_seconds;         /* its link was full (wire/link_meter.h), per iteration; */
    double longest_full_seconds; /* the longest such stretch; */
    double most_queued;          /* and bytes that waited or were on their way, at worst. All 0:
                                    nothing was sent, or nobody asked */
    struct figures_late late;
    double left_out; /* iterations that others ended before it began them */
    double unused;   /* these, and those of its gradients that nobody waited for, in iterations */
};

/* All zero: nothing was gathered. */
struct figures {
    const char *net;            /* its name, borrowed */
    int64_t iterations;         /* of this run; 0: none, and then what is per iteration is in all */
    double seconds;             /* of one iteration */
    bool overlap;               /* communication ran under computation */
    bool local;                 /* several ranks of one machine, which sends nothing */
    int batch;                  /* samples per worker and iteration */
    int nranks, nworkers;       /* nworkers: that compute */
    int looks;                  /* how often late ranks were looked for */
    int threads, cores;         /* those of rank 0's source */
    struct figures_rank *ranks; /* nranks, owned */
    int nlayers;
    struct figures_layer *layers; /* in the order of the plan's buckets, owned */
};

/* What one rank knows. All pointers are borrowed. */
struct figures_source {
    const struct net *net;
    const struct plan *plan;
    const struct topology *topology;
    const struct sync_stats *stats; /* after sync_close */
    const struct link_meter *meter; /* of its wire; all zero: none */
    int64_t iterations;             /* done in this run */
    double train_seconds;           /* all iterations, without tests and snapshots */
    double train_stall;             /* of these: waited for the network */
    double input_seconds;           /* waited for input, all iterations */
    uint64_t input_waits, input_turned;
    bool overlap;
    int batch; /* samples per worker and iteration */
    int threads,
        cores; /* of all ranks that share this one's cores: compute threads; cores; 0: not known */
};

/* Fills *out on rank 0, but for predicted_seconds and alone_seconds, which stay unknown; on other
 * ranks *out is all zero. The plan and the net must live as long as *out does. Collective over
 * `world`; fails on all ranks together, and then *out need not be freed. */
int figures_gather(MPI_Comm world, const struct figures_source *source, struct figures *out);
void figures_free(struct figures *figures);

/* ---- what follows from figures: plain arithmetic ---- */

/* Leaves out what workers waited outside of iterations: while rank 0 saves a snapshot, which is not
 * in `seconds`, the clocks of the others run on. In proportion, of ranks and layers alike. Done by
 * figures_gather. */
void figures_leave_out_pauses(struct figures *figures);

/* Names a figure of ranks, a double: FIGURE(stall_seconds). */
#define FIGURE(member) offsetof(struct figures_rank, member)

double figures_of_rank(const struct figures *figures, int rank, size_t figure);

/* Mean, least and most over the workers, and the workers that have least and most; -1: there are
 * none. */
struct figures_spread {
    double mean, least, most;
    int least_rank, most_rank;
};
struct figures_spread figures_spread(const struct figures *figures, size_t figure);

/* The sum over all ranks, servers included. */
double figures_sum(const struct figures *figures, size_t figure);

/* How long training waited for the layer's transfer itself, at most what it takes alone; the rest
 * of the wait was for ranks that came later. For layers whose alone_seconds is known. */
double figures_exposed(const struct figures_layer *layer);

/* The wire thread's share of a core, mean over all ranks, and the rank where it is largest. */
double figures_progress_share(const struct figures *figures, int *most_rank);

#endif
