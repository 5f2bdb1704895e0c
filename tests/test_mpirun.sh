#!/bin/sh
# tests/mpirun.sh starts as many ranks as it is told, passes on what they say and how they end,
# and ends those that hang.
set -u
run=${POSEIDON_MPIRUN:?}
failures=0

expect() {
    [ "$2" = "$3" ] && return
    echo "FAIL: $1: expected '$2', found '$3'"
    failures=$((failures + 1))
}

said=$("$run" 3 sh -c 'echo rank; echo noise >&2' 2>/dev/null | sort | uniq -c | tr -s ' ')
expect 'three ranks each write one line' ' 3 rank' "$said"

said=$("$run" 2 true 2>&1)
expect 'a run without output is silent' '' "$said"

"$run" 2 sh -c 'exit 3' >/dev/null 2>&1
expect 'the exit status of a rank is passed on' 3 $?

POSEIDON_MPI_TIMEOUT=1 "$run" 2 sleep 30 >/dev/null 2>&1
expect 'a run that hangs is ended with 124' 124 $?

"$run" two true >/dev/null 2>&1
expect 'a number of ranks that is none is refused' 2 $?

exit "$failures"
