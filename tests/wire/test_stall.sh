#!/bin/sh
# Who has waited for three seconds says what for and where the silent rank is; a rank that gives signs of life every second is
# not accused, which a machine without time for these would be (wire_ranks.c, stall).
set -u
for ranks in 2 3; do
    "${POSEIDON_MPIRUN:?}" "$ranks" "${abs_top_builddir:?}/tests/wire/wire_ranks" stall || { echo "FAILED ($?): $ranks ranks"; exit 1; }
done
