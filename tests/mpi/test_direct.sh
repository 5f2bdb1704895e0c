#!/bin/sh
# Messages straight from and to the memory of an engine that has its own: on which ranks' word, after which
# trial, with which refusals; and that nothing is copied to the host which it does not need.
. "$abs_top_srcdir/tests/mpi/common.sh"

# goes RANKS ARGUMENTS PATTERN
goes() {
    # shellcheck disable=SC2086
    if ! "$POSEIDON_MPIRUN" "$1" "$abs_top_builddir/tests/mpi/direct_way" $2 >log 2>&1 || ! grep -q -e "$3" log; then
        cat log
        fail "$1 ranks, $2: expected '$3'"
    else
        echo "ok: $1 ranks, $2: $(grep -e "$3" log)"
    fi
}

trial="rank 1 (.*): MPI claims to reach the engine's memory, but number 63 of 64 from worker 0 arrived"
for wanted in auto on; do
    goes 2 "$wanted 11 0" "way: straight from and to the engine's memory"
    goes 3 "$wanted 111 0" 'way: straight'
    goes 3 "$wanted 110 1" 'way: straight' # what a server's MPI says does not matter
done
goes 2 'off 11 0' "way: by way of the host's memory: direct=off"
goes 3 'auto 000 0' "way: by way of the host's memory: this MPI was built without CUDA"
goes 3 'auto 101 0' "way: by way of the host's memory: another worker's MPI does not reach the engine's"
goes 3 'auto 111 0 1' "way: by way of the host's memory: $trial"
goes 3 'on 111 0 1' "refused: direct=on: $trial"
goes 2 'on 10 0' 'refused: rank 1 (.*): direct=on: this MPI was built without CUDA (MPIX_Query_cuda_support says so)'
goes 2 'auto - 0' 'way: none'
# the same numbers along trees, which the home's answers leave from the engine's memory
for ranks in 11 111 11111; do
    for how in 0t 0te; do
        goes ${#ranks} "auto $ranks $how" 'way: straight'
        goes ${#ranks} "off $ranks $how" "way: by way of the host's memory"
    done
done
goes 2 'on - 0' "refused: direct=on: the engine works in the host's memory"
finish
