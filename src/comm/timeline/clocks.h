/* One clock for all ranks: every rank's clock is compared with rank 0's before and after training,
 * and offsets in between are interpolated linearly. */
#ifndef POSEIDON_TIMELINE_CLOCKS_H
#define POSEIDON_TIMELINE_CLOCKS_H

#include <mpi.h>

#include "trace/trace.h"

/* This rank's clock minus rank 0's, at one moment. */
struct clock_offset {
    int64_t at;    /* time of the comparison on this rank's clock, ns */
    double offset; /* this rank's clock minus rank 0's, ns */
    double error;  /* half a round trip, ns: most by which `offset` is wrong */
};

/* Compares clocks with rank 0 by 32 round trips, of which the quickest counts, since its error is
 * least. No other thread may use MPI meanwhile. Collective. */
int clock_compare(MPI_Comm comm, const struct trace *trace, struct clock_offset *out);

/* Converts a time on this rank's clock to rank 0's clock. */
int64_t clock_align(const struct clock_offset *before, const struct clock_offset *after,
                    int64_t time);

#endif
