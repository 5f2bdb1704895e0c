#!/bin/sh
# tests/mpi/test_soak.sh with 200,000 iterations.
POSEIDON_SOAK=${POSEIDON_SOAK:-200000}
export POSEIDON_SOAK
exec sh "${abs_top_srcdir:?}/tests/mpi/test_soak.sh"
