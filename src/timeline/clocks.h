/* One clock for all ranks: every rank's clock is compared with rank 0's before and after training,
 * and times in between are moved by the offset on the straight line between the two. */
#ifndef POSEIDON_TIMELINE_CLOCKS_H
#define POSEIDON_TIMELINE_CLOCKS_H

#include <mpi.h>

#include "trace/trace.h"

/* This rank's clock minus rank 0's, at one moment. */
struct clock_offset {
    int64_t at;    /* this rank's clock, ns */
    double offset; /* ns */
    double error;  /* half a round trip, ns: the offset is off by no more than that */
};

/* Ping-pong with rank 0, the quickest of 32 round trips counts (it has the least room for
 * error). No other thread may use MPI meanwhile. Collective. */
int clock_compare(MPI_Comm comm, const struct trace *trace, struct clock_offset *out);

/* A time of this rank's clock on rank 0's. */
int64_t clock_align(const struct clock_offset *before, const struct clock_offset *after,
                    int64_t time);

#endif
