/* From the ranks' buffers to one file in Chrome's trace-event form, which chrome://tracing and
 * ui.perfetto.dev show: a process per rank, in it a thread each for computation, input, the
 * progress thread's own work, and as many lanes for transfers as there were ever at once. */
#ifndef POSEIDON_TRACE_WRITE_H
#define POSEIDON_TRACE_WRITE_H

#include "net/net.h"
#include "plan/plan.h"
#include "report/clocks.h"

/* What the file says of the run. */
struct trace_about {
    const struct net *net;             /* for names; any rank's */
    const struct plan *plan;           /* who is worker and who server */
    struct clock_offset before, after; /* this rank's clock around training */
};

/* What became of it; rank 0. */
struct trace_written {
    uint64_t events;
    uint64_t dropped;   /* over all ranks, for want of room */
    double clock_error; /* seconds: what two ranks' times may differ by */
};

/* Gathers all ranks' events on rank 0 and writes `path` there, whole or not at all. The threads
 * that record must have ended. Collective. */
int trace_write(MPI_Comm comm, const struct trace *trace, const struct trace_about *about,
                const char *path, struct trace_written *out);

#endif
