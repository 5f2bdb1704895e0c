/* Writes the ranks' buffers to one file in Chrome's trace-event format, for chrome://tracing and
 * ui.perfetto.dev. Each rank is a process, with one thread each for computation, input and the wire
 * thread's own work, and as many lanes for transfers as there were at once. */
#ifndef POSEIDON_TIMELINE_TIMELINE_H
#define POSEIDON_TIMELINE_TIMELINE_H

#include "plan/plan.h"
#include "timeline/clocks.h"
#include "util/topology.h"

/* Facts of the run for the file. */
struct timeline_about {
    const char *net; /* name of the net */
    const void *context;
    /* Returns the name of layer `layer`, or NULL. Without this function: the plan's groups. */
    const char *(*layer)(const void *context, int layer);
    const struct plan *plan;         /* roles of the ranks: worker, server */
    const struct topology *topology; /* hosts of the ranks */
    struct clock_offset before;      /* offset of this rank's clock before training */
    struct clock_offset after; /* offset of this rank's clock afterwards; set by timeline_write */
};

/* Result of timeline_write, on rank 0. */
struct timeline_written {
    uint64_t events;
    uint64_t dropped;   /* events of all ranks that found their buffer full */
    double clock_error; /* seconds by which two ranks' times may differ */
};

/* Ends recording, compares the ranks' clocks again, gathers all events on rank 0 and writes `path`
 * there, whole or not at all. No other thread may use MPI meanwhile. Collective. */
int timeline_write(MPI_Comm comm, struct trace *trace, struct timeline_about *about,
                   const char *path, struct timeline_written *out);

#endif
