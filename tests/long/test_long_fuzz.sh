#!/bin/sh
# tests/fuzz/test_fuzz.sh with a hundred times the inputs; tests/fuzz/fuzz.sh looks for new ones with libFuzzer.
POSEIDON_FUZZ_RUNS=${POSEIDON_FUZZ_RUNS:-100000} POSEIDON_FUZZ_LIMIT=${POSEIDON_FUZZ_LIMIT:-1800}
export POSEIDON_FUZZ_RUNS POSEIDON_FUZZ_LIMIT
exec sh "${abs_top_srcdir:?}/tests/fuzz/test_fuzz.sh"
