#!/bin/sh
# tests/mpi/test_invariance.sh with every combination of scheme, overlap and servers.
POSEIDON_ALL=yes
export POSEIDON_ALL
exec sh "${abs_top_srcdir:?}/tests/mpi/test_invariance.sh"
