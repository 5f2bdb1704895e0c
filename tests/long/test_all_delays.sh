#!/bin/sh
# tests/mpi/test_sync_delays.sh with 200 seeds.
POSEIDON_SEEDS=${POSEIDON_SEEDS:-200}
export POSEIDON_SEEDS
exec sh "${abs_top_srcdir:?}/tests/mpi/test_sync_delays.sh"
