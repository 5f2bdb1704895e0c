#!/bin/sh
# tests/mpi/test_resume.sh with 100 kills in the midst of snapshots.
POSEIDON_KILLS=${POSEIDON_KILLS:-100}
export POSEIDON_KILLS
exec sh "${abs_top_srcdir:?}/tests/mpi/test_resume.sh"
