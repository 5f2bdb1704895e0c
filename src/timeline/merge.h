/* All ranks' events on one clock, and what only all of them together can tell. Private to
 * src/timeline. */
#ifndef POSEIDON_TIMELINE_MERGE_H
#define POSEIDON_TIMELINE_MERGE_H

#include "timeline/timeline.h"

/* One rank's part. Sorted by start, longer first, so that what lies within comes after. */
struct timeline_rank {
    char host[TOPOLOGY_HOST_BYTES];
    bool worker, server;
    uint64_t dropped;
    double error; /* of its clock, ns */
    size_t nevents;
    struct trace_event *events; /* on rank 0's clock; owned */
    int *lane; /* per event: 0, 1, ... for reads and transfers, apart for each direction; owned */
    int lanes[TRACE_KINDS]; /* how many */
};

/* Rank 0 gets an array of all, elsewhere NULL. Collective. */
int timeline_gather(MPI_Comm comm, const struct trace *trace, const struct timeline_about *about,
                    struct timeline_rank **out);

/* Finds the send of every receive: its iteration is the receive's, and its start the moment before
 * which the receive only lay in wait. Drops what is not of iterations first to last. */
int timeline_pair(struct timeline_rank *ranks, int nranks, int64_t first, int64_t last);

/* Sorts, and gives reads and transfers that overlap different lanes. */
int timeline_lay_out(struct timeline_rank *rank);

/* ---- arrows: a gradient from backward to its send, its receive and the update that it goes into;
 * parameters (or the sum) from there to their send, their receive and the wait or the forward pass
 * that wants them ---- */

/* A point within a span: rank `rank`, event `event` of it, at its end or its start. */
struct flow_point {
    int rank;
    size_t event;
    bool at_end;
};

/* Whether a transfer brings back what a home has made of gradients. */
bool flow_is_back(const struct trace_event *transfer);

typedef void flow_put_fn(void *context, bool back, const struct flow_point *points, int n);

/* Calls `put` for every message whose send and receive are there, with two to four points in the
 * order of time. After timeline_pair and timeline_lay_out. Fails for want of memory. */
int flows_put(const struct timeline_rank *ranks, int nranks, flow_put_fn *put, void *context);

void timeline_ranks_free(struct timeline_rank *ranks, int nranks);

#endif
