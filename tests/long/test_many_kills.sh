#!/bin/sh
# tests/mpi/test_kills.sh with 200 kills.
POSEIDON_KILLS=${POSEIDON_KILLS:-200}
export POSEIDON_KILLS
exec sh "$abs_top_srcdir/tests/mpi/test_kills.sh"
