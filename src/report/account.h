/* The figures of a report, gathered from all ranks. */
#ifndef POSEIDON_TRACE_ACCOUNT_H
#define POSEIDON_TRACE_ACCOUNT_H

#include "sync/sync.h"
#include "report/report.h"

/* What one rank knows when training is over. */
struct account {
    const struct net *net;
    const struct plan *plan;
    const struct sync_stats *stats; /* after sync_close */
    const double *predicted;        /* per group: seconds by the cost model; NULL: not predicted */
    int64_t iterations;             /* > 0 */
    double train_seconds;           /* all iterations, without tests and snapshots */
    double train_stall;             /* of these: waited for the network */
    double input_seconds;           /* waited for input; all iterations */
    bool overlap;
    int batch; /* samples per rank and iteration */
};

/* Fills *out on rank 0, but for alone_seconds; elsewhere it stays empty. Collective. */
int account_collect(MPI_Comm world, const struct account *account, struct report *out);

/* Moves every group by itself once more, as training did (`like`: its options) but with nothing
 * else going on: seconds until its transfers are over, on the slowest worker; rank 0 puts them into
 * the report. Nothing is changed by it: the rule applied is none; but the net's gradients are
 * overwritten. Training's own sync must be closed, and better be destroyed, which makes room.
 * Collective. */
int account_alone(MPI_Comm world, const struct plan *plan, struct net *net,
                  const struct sync_options *like, struct report *report);

#endif
