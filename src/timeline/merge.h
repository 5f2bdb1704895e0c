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

/* The sends of all ranks, to be found by their receives. */
struct timeline_sends {
    struct timeline_sent {
        int from, to, tag;
        int64_t start;
        size_t event; /* of rank `from` */
    } * sent;         /* in the order in which they are looked for. Owned */
    size_t n;
};

/* Fails for want of memory; free(out->sent) in any case. */
int timeline_list_sends(const struct timeline_rank *ranks, int nranks, struct timeline_sends *out);

/* The send of that receive of the rank's; NULL: it was not recorded. */
const struct timeline_sent *timeline_find_send(const struct timeline_sends *sends,
                                               const struct timeline_rank *ranks, int rank,
                                               const struct trace_event *receive);

/* Finds the send of every receive: its iteration is the receive's, and its start the moment before
 * which the receive only lay in wait. Drops what is not of iterations first to last. */
int timeline_pair(struct timeline_rank *ranks, int nranks, int64_t first, int64_t last);

/* Sorts, and gives reads and transfers that overlap different lanes. */
int timeline_lay_out(struct timeline_rank *rank);

void timeline_ranks_free(struct timeline_rank *ranks, int nranks);

#endif
