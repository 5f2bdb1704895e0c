#!/bin/sh
# Parts of the trainer are tested without MPI: programs of their tests link none of it.
set -u
failures=0

# names PROGRAM: the names of MPI in it
names() {
    nm "${abs_top_builddir:?}/$1" | grep -oE '\<(P?MPI_[A-Z]|[ou]?mpi_)[A-Za-z_]*' | sort -u
}

for part in job/test_rates keep/test_scores watch/test_signals watch/test_stragglers job/test_agree_job; do
    found=$(names "tests/$part" | tr '\n' ' ')
    [ -f "$abs_top_builddir/tests/$part" ] || found=nothing
    if [ -n "$found" ]; then
        echo "FAILED: tests/$part holds $found"
        failures=$((failures + 1))
    fi
done
if ! names poseidon | grep -q '^MPI_'; then
    echo 'FAILED: no name of MPI is found in poseidon, which calls some'
    failures=$((failures + 1))
fi
[ "$failures" -eq 0 ] && echo 'ok: the parts are tested alone'
exit $((failures > 0))
