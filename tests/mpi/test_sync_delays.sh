#!/bin/sh
# Transfers delayed, seen late and in random order, 200 times another way: the result does not change.
set -u
program=$abs_top_builddir/tests/mpi/sync_conformance
seeds=${POSEIDON_SEEDS:-200}
failures=0
while read -r ranks staleness node arguments; do
    # shellcheck disable=SC2086
    if POSEIDON_MPI_TIMEOUT=240 "$POSEIDON_MPIRUN" "$ranks" "$program" $arguments "$seeds" "$staleness" 0 "$node"; then
        echo "ok: $seeds seeds, $ranks ranks, $arguments, nodes of $node"
    else
        echo "FAILED: $ranks ranks, $arguments, nodes of $node"
        failures=$((failures + 1))
    fi
done <<LIST
3 0 0 paper     0 512  1 0.3 2 fp32 2000 urgency
4 0 0 allreduce 0 300  1 0   1 bf16 1000 urgency
3 0 0 adam      1 300  1 0.1 1 fp32 1000 urgency
3 0 0 onebit    0 512  1 0   1 fp32 0    fifo
3 2 0 ps        0 512  1 0   1 fp32 1000 urgency
4 0 2 paper     0 16384 1 0.3 1 fp32 2000 urgency
3 0 2 sfb       0 16384 1 0   1 fp32 0    urgency
3 0 0 sfb       0 16384 1 0   43 fp32 500 urgency
4 0 2 ps        1 16384 1 0   1 fp32 9000 urgency
LIST
exit $((failures > 0))
