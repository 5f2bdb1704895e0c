#!/bin/sh
# The wire beside MPI alone, on 2 and 4 ranks of this machine. TURNS (11): how often each is measured.
set -u
: "${abs_top_builddir:=.}" "${POSEIDON_MPIRUN:=$(dirname "$0")/../mpirun.sh}"
for ranks in 2 4; do
    POSEIDON_MPI_TIMEOUT=900 "$POSEIDON_MPIRUN" "$ranks" "$abs_top_builddir/tests/bench/bench_wire" "${TURNS:-11}" || exit
done
