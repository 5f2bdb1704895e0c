#!/bin/sh
# tests/mpi/test_reproducible.sh with every combination of ranks, exchange, servers, nodes and threads; many random nets at
# ranks x threads; and many random layers at other numbers of threads. POSEIDON_SEED draws others.
POSEIDON_ALL=yes
export POSEIDON_ALL
POSEIDON_NETS=60 sh "${abs_top_srcdir:?}/tests/mpi/test_random_nets.sh"
nets=$?
POSEIDON_DRAWS=1000 "${abs_top_builddir:?}/tests/engine/test_any_threads"
layers=$?
sh "$abs_top_srcdir/tests/mpi/test_reproducible.sh" && [ $nets -eq 0 ] && [ $layers -eq 0 ]
