/* From the ranks' buffers to one file in Chrome's trace-event form, which chrome://tracing and
 * ui.perfetto.dev show: a process per rank, in it a thread each for computation, input, the
 * wire thread's own work, and as many lanes for transfers as there were ever at once. */
#ifndef POSEIDON_TIMELINE_TIMELINE_H
#define POSEIDON_TIMELINE_TIMELINE_H

#include "plan/plan.h"
#include "timeline/clocks.h"
#include "util/topology.h"

/* What the file says of the run. */
struct timeline_about {
    const char *net; /* its name */
    const void *context;
    /* The name of the layer with that index; NULL: there is none. Without it, the plan's groups. */
    const char *(*layer)(const void *context, int layer);
    const struct plan *plan;         /* who is worker and who server */
    const struct topology *topology; /* where they run */
    struct clock_offset before;      /* this rank's clock before training; afterwards: */
    struct clock_offset after;       /* timeline_write's own affair */
};

/* What became of it; rank 0. */
struct timeline_written {
    uint64_t events;
    uint64_t dropped;   /* over all ranks, for want of room */
    double clock_error; /* seconds: what two ranks' times may differ by */
};

/* Ends the recording, compares the ranks' clocks once more, gathers all events on rank 0 and writes
 * `path` there, whole or not at all. No other thread may use MPI. Collective. */
int timeline_write(MPI_Comm comm, struct trace *trace, struct timeline_about *about,
                   const char *path, struct timeline_written *out);

#endif
