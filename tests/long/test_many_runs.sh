#!/bin/sh
# tests/fuzz/random_runs.py with 200 combinations that are new each time.
POSEIDON_RUNS=${POSEIDON_RUNS:-200} POSEIDON_SEED=${POSEIDON_SEED:-$(date +%s)}
export POSEIDON_RUNS POSEIDON_SEED
exec sh "${abs_top_srcdir:?}/tests/fuzz/test_random_runs.sh"
