#!/bin/sh
# JAX over libposeidon: a function that is jitted trains on two and three ranks as one process does with the whole batch.
. "${abs_top_srcdir:?}/tests/common.sh"
POSEIDON_LIBRARY=${abs_top_builddir:?}/libposeidon.so.1
export POSEIDON_LIBRARY
[ -f "$POSEIDON_LIBRARY" ] || { echo 'skipped: no libposeidon.so (configure --enable-library)'; exit 77; }
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import jax' 2>/dev/null || { echo "skipped: $python has no JAX"; exit 77; }
! sanitized || { echo 'skipped: a sanitizer would have to come before Python'; exit 77; }
JAX_PLATFORMS=cpu
export JAX_PLATFORMS

# ranks NUMBER CASE...
ranks() {
    number=$1
    shift
    "$POSEIDON_MPIRUN" "$number" "$python" "$abs_top_srcdir/tests/library/check_jax.py" "$@" >jax.log 2>&1 ||
        { cat jax.log; fail "$number ranks, $*"; }
}
ranks 1 auto
ranks 2 auto
ranks 3 ps hierarchy=off merge=0
ranks 2 allreduce hierarchy=off
ranks 2 state
ranks 2 types
[ "$(grep -c 'expected float32, found int32' jax.log)" = 2 ] || { cat jax.log; fail 'a type that is not float32'; }
[ "$(wc -l <jax.log)" = 2 ] || { cat jax.log; fail 'more lines'; }
POSEIDON_MPI_TIMEOUT=100 "$POSEIDON_MPIRUN" 2 "$python" "$abs_top_srcdir/tests/library/check_jax.py" types uneven >jax.log 2>&1 &&
    fail 'unequal numbers of batches'
grep -q 'ends in iteration 2 (in poseidon_destroy), which rank 1 .* has begun: give all ranks as many batches' jax.log ||
    { cat jax.log; fail 'unequal numbers of batches'; }
finish
