/* All ranks' events on rank 0's clock, and results that need the events of all ranks. Private to
 * src/comm/timeline. */
#ifndef POSEIDON_TIMELINE_MERGE_H
#define POSEIDON_TIMELINE_MERGE_H

#include "timeline/timeline.h"

/* One rank's events, sorted by start, longer first, so that inner spans follow the outer span. */
struct timeline_rank {
    char host[TOPOLOGY_HOST_BYTES];
    bool worker, server;
    uint64_t dropped;
    double error; /* error of the rank's clock, ns */
    size_t nevents;
    struct trace_event *events; /* times on rank 0's clock; owned */
    int *lane; /* per event: lane 0, 1, ... of reads and transfers, separate for each kind; owned */
    int lanes[TRACE_KINDS]; /* number of lanes per kind */
};

/* Gathers all ranks' events into an array on rank 0; *out is NULL elsewhere. Collective. */
int timeline_gather(MPI_Comm comm, const struct trace *trace, const struct timeline_about *about,
                    struct timeline_rank **out);

/* Finds the send of every receive. The receive gets the send's iteration, and starts when the send
 * starts, since the receive only waited before. Drops events outside iterations first to last. */
int timeline_pair(struct timeline_rank *ranks, int nranks, int64_t first, int64_t last);

/* Sorts the events, and puts reads and transfers that overlap on different lanes. */
int timeline_lay_out(struct timeline_rank *rank);

/* ---- arrows: a gradient's leads from the backward pass to its send, its receive and the update;
 * the parameters' (or the sum's) leads from the update to their send, their receive and the wait or
 * forward pass that needs them ---- */

/* A point within a span: the start or the end of event `event` of rank `rank`. */
struct flow_point {
    int rank;
    size_t event;
    bool at_end;
};

/* Returns true if a transfer brings back what a home computed from gradients. */
bool flow_is_back(const struct trace_event *transfer);

typedef void flow_put_fn(void *context, bool back, const struct flow_point *points, int n);

/* Calls `put` for every message whose send and receive were recorded, with two to four points in
 * order of time. After timeline_pair and timeline_lay_out. Fails if out of memory. */
int flows_put(const struct timeline_rank *ranks, int nranks, flow_put_fn *put, void *context);

void timeline_ranks_free(struct timeline_rank *ranks, int nranks);

#endif
