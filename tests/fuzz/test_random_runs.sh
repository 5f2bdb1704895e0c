#!/bin/sh
# A few random trainings, the same each time; tests/long/test_many_runs.sh has 200 others.
[ -n "${POSEIDON_PYTHON:-}" ] || { echo 'SKIP: h5py is missing'; exit 77; }
exec "$POSEIDON_PYTHON" "${abs_top_srcdir:?}/tests/fuzz/random_runs.py" --count="${POSEIDON_RUNS:-6}" --seed="${POSEIDON_SEED:-201}"
