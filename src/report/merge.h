/* All ranks' events on one clock, and what only all of them together can tell. Private to
 * src/trace. */
#ifndef POSEIDON_TRACE_MERGE_H
#define POSEIDON_TRACE_MERGE_H

#include "report/timeline.h"

/* One rank's part. Sorted by start, longer first, so that what lies within comes after. */
struct trace_rank {
    char host[64];
    bool worker, server;
    uint64_t dropped;
    double error; /* of its clock, ns */
    size_t nevents;
    struct trace_event *events; /* on rank 0's clock; owned */
    int *lane; /* per event: 0, 1, ... for reads and transfers, apart for each direction; owned */
    int lanes[TRACE_KINDS]; /* how many */
};

/* Rank 0 gets an array of all, elsewhere NULL. Collective. */
int trace_gather(MPI_Comm comm, const struct trace *trace, const struct trace_about *about,
                 struct trace_rank **out);

/* Finds the send of every receive: its iteration is the receive's, and its start the moment before
 * which the receive only lay in wait. Drops what is not of iterations first to last. */
int trace_pair(struct trace_rank *ranks, int nranks, int64_t first, int64_t last);

/* Sorts, and gives reads and transfers that overlap different lanes. */
int trace_lay_out(struct trace_rank *rank);

void trace_ranks_free(struct trace_rank *ranks, int nranks);

#endif
