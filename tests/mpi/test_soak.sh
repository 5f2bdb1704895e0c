#!/bin/sh
# Many iterations of a tiny net on 4 ranks, with tests and snapshots: after a quarter of them the most that a rank has
# resident grows no more (tests and snapshots come and go by some 300 kB; a leak of 6 bytes an iteration is seen in
# 200,000, one of 300 bytes in 4,000), nor does the number of its open files, and nothing is left in /dev/shm.
#
#   POSEIDON_SOAK   iterations at least (4000): it goes on until it was looked at often enough, and is stopped
. "$abs_top_srcdir/tests/mpi/common.sh"
iterations=${POSEIDON_SOAK:-4000}
POSEIDON_MPI_TIMEOUT=$((600 + iterations / 10))
export POSEIDON_MPI_TIMEOUT
cat >tiny.prototxt <<END
name: 'tiny'
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$abs_top_srcdir/data/fashion-mnist-test.h5' batch_size: 1 }
    transform_param { scale: 0.00390625 crop_size: 6 } include { phase: TRAIN } }
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$abs_top_srcdir/data/fashion-mnist-test.h5' batch_size: 4 }
    transform_param { scale: 0.00390625 crop_size: 6 } include { phase: TEST } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'h' inner_product_param { num_output: 16 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'h' top: 'h' }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'h' top: 's' inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
make_solver tiny.solver "net: \"$work/tiny.prototxt\"" "max_iter: $((1000000 + 10 * iterations))" "display: $((iterations / 40))" \
    "snapshot: $((iterations / 40))" "test_interval: $((iterations / 40))" 'test_iter: 4' 'test_initialization: false' \
    "snapshot_prefix: \"$work/run\""
begin 4 soak.log --solver=tiny.solver --batch=1 --comm=paper --keep=2 --snapshot-every=1h

look() { # FILE: rank, resident kB, open files
    for rank in 0 1 2 3; do
        pid=$(cat pid.$rank 2>/dev/null) && [ -r "/proc/$pid/status" ] || return 1
        grep -o '/dev/shm/[^ ]*' "/proc/$pid/maps" >>shm.txt
        # shellcheck disable=SC2012 # names of numbers
        echo "$rank $(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status") $(ls "/proc/$pid/fd" 2>/dev/null | wc -l)" >>"$1"
    done
}

# A look at every display; what is seen in the first quarter is warming up.
seen=0 looks=0 stopped=
: >warm.txt
: >shm.txt
: >later.txt
while kill -0 $launcher 2>/dev/null; do
    at=$(grep -c 'Iteration [0-9]* (' soak.log)
    if [ "$at" -gt "$seen" ]; then
        seen=$at
        if [ "$at" -le 11 ]; then look warm.txt; else look later.txt && looks=$((looks + 1)); fi
        [ -n "$stopped" ] || [ "$at" -le 40 ] || [ $looks -lt 8 ] || { kill -USR1 "$(cat pid.0)" && stopped=yes; }
    fi
    sleep 0.05
done
wait $launcher
[ $? -eq 75 ] && [ -n "$stopped" ] || { fail "the run of $iterations iterations or more"; tail -n 3 soak.log; }
grep -q 'Optimization stopped early' soak.log || fail 'it did not come to its end'
for rank in 0 1 2 3; do
    awk -v rank=$rank '$1 == rank { kb[++n] = $2; if (n == 1) files = $3; if ($3 > most) most = $3 }
        END { for (i = 1; i <= n; i++) { half = i > n / 2; if (kb[i] > peak[half]) peak[half] = kb[i] }
            printf "rank %d: %d looks, resident %d kB at first, %d at last, at most %d in the first half and %d in the second; open files %d, at most %d\n", rank, n, kb[1], kb[n], peak[0], peak[1], files, most
            exit peak[1] > peak[0] + 512 || most > files + 4 }' later.txt || fail "rank $rank grows"
done
[ "$(ls run_iter_*.solverstate.h5 | wc -l)" -eq 2 ] || fail "--keep=2 leaves $(ls run_iter_*)"
[ -s shm.txt ] || fail 'no rank has anything in /dev/shm: the test tests nothing'
sort -u shm.txt | while read -r file; do [ ! -e "$file" ] || echo "$file"; done >left.txt
[ ! -s left.txt ] || fail "left behind: $(cat left.txt)"
finish
