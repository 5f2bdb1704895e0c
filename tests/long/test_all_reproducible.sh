#!/bin/sh
# tests/mpi/test_reproducible.sh with every combination of ranks, exchange, servers, nodes and threads.
POSEIDON_ALL=yes
export POSEIDON_ALL
exec sh "${abs_top_srcdir:?}/tests/mpi/test_reproducible.sh"
