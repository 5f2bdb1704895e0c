/* From the ranks' buffers to one file in Chrome's trace-event form, which chrome://tracing and
 * ui.perfetto.dev show: a process per rank, in it a thread each for computation, input, the
 * wire thread's own work, and as many lanes for transfers as there were ever at once. */
#ifndef POSEIDON_REPORT_TIMELINE_H
#define POSEIDON_REPORT_TIMELINE_H

#include "net/net.h"
#include "plan/plan.h"
#include "report/clocks.h"
#include "util/topology.h"

/* What the file says of the run. */
struct timeline_about {
    const struct net *net;             /* for names; any rank's */
    const struct plan *plan;           /* who is worker and who server */
    const struct topology *topology;   /* where they run */
    struct clock_offset before, after; /* this rank's clock around training */
};

/* What became of it; rank 0. */
struct timeline_written {
    uint64_t events;
    uint64_t dropped;   /* over all ranks, for want of room */
    double clock_error; /* seconds: what two ranks' times may differ by */
};

/* Gathers all ranks' events on rank 0 and writes `path` there, whole or not at all. The threads
 * that record must have ended. Collective. */
int timeline_write(MPI_Comm comm, const struct trace *trace, const struct timeline_about *about,
                   const char *path, struct timeline_written *out);

#endif
