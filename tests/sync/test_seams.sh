#!/bin/sh
# A scheme and a gathering that only this folder knows train a net to the serial run's bits.
set -u
failed=0
for ranks in 1 2 3 4; do
    "${POSEIDON_MPIRUN:?}" "$ranks" "${abs_top_builddir:?}/tests/sync/seams" || {
        echo "FAILED: on $ranks ranks"
        failed=1
    }
done
exit $failed
