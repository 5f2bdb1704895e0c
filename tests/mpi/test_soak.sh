#!/bin/sh
# Many iterations of a tiny net on 4 ranks, with tests and snapshots: what a rank has resident stays what it is, nor does the
# number of its open files grow, and nothing is left in /dev/shm. The first quarter is warming up. From 100,000 iterations
# on it may not grow by more than 16 kB, 0.2 bytes an iteration; before, some 100 kB are on their way to what they will be.
#
# The data are not compressed: HDF5 unpacks into memory that it asks for and gives back chunk by chunk, whose sizes differ,
# so that malloc's arenas go on moving by some 100 kB (gdb, "catch syscall mprotect": each time H5Z_pipeline in H5Dread).
#
#   POSEIDON_SOAK   iterations at least (4000): it goes on until it was looked at often enough, and is stopped
. "$abs_top_srcdir/tests/mpi/common.sh"
iterations=${POSEIDON_SOAK:-4000}
POSEIDON_MPI_TIMEOUT=$((600 + iterations / 10))
export POSEIDON_MPI_TIMEOUT
# 256 images and labels of no meaning
{ printf '\0\0\010\003\0\0\001\0\0\0\0\034\0\0\0\034' && head -c $((256 * 784)) "$abs_top_srcdir/data/fashion-mnist-test.h5"; } >train-images-idx3-ubyte
{ printf '\0\0\010\001\0\0\001\0' && for n in $(seq 256); do printf '%b' "\\00$((n % 8))"; done; } >train-labels-idx1-ubyte
[ -n "$POSEIDON_PYTHON" ] || { echo 'SKIP: no Python with h5py'; exit 77; }
"$POSEIDON_PYTHON" "$abs_top_srcdir/tools/make_sets.py" mnist . plain.h5 >convert.log 2>&1 || { fail 'the data'; cat convert.log; finish; }
cat >tiny.prototxt <<END
name: 'tiny'
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$work/plain.h5' batch_size: 1 }
    transform_param { scale: 0.00390625 crop_size: 6 } include { phase: TRAIN } }
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$work/plain.h5' batch_size: 4 }
    transform_param { scale: 0.00390625 crop_size: 6 } include { phase: TEST } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'h' inner_product_param { num_output: 16 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'h' top: 'h' }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'h' top: 's' inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
every=$((iterations / 400))
[ $every -ge 100 ] || every=100
make_solver tiny.solver "net: \"$work/tiny.prototxt\"" "max_iter: $((1000000 + 10 * iterations))" "display: $every" \
    "snapshot: $every" "test_interval: $every" 'test_iter: 4' 'test_initialization: false' "snapshot_prefix: \"$work/run\""
begin 4 soak.log --solver=tiny.solver --batch=1 --comm=paper --keep=2 --snapshot-every=1h

# smaps_rollup counts pages; the kernel's running sums in status may be some behind
resident() { # PID
    sed -n 's/^Rss:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/smaps_rollup" 2>/dev/null | grep . ||
        sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

look() { # FILE: rank, resident kB, open files
    for rank in 0 1 2 3; do
        pid=$(cat pid.$rank 2>/dev/null) && [ -r "/proc/$pid/status" ] || return 1
        grep -o '/dev/shm/[^ ]*' "/proc/$pid/maps" >>shm.txt
        # shellcheck disable=SC2012 # names of numbers
        echo "$rank $(resident "$pid") $(ls "/proc/$pid/fd" 2>/dev/null | wc -l)" >>"$1"
    done
}

# A look at every display, if there is time.
seen=0 looks=0 stopped=
: >warm.txt
: >shm.txt
: >later.txt
while kill -0 $launcher 2>/dev/null; do
    at=$(grep -c 'Iteration [0-9]* (' soak.log)
    if [ "$at" -gt "$seen" ]; then
        seen=$at
        if [ "$at" -le $((iterations / every / 4)) ]; then look warm.txt; else look later.txt && looks=$((looks + 1)); fi
        [ -n "$stopped" ] || [ "$at" -le $((iterations / every)) ] || [ $looks -lt 8 ] || { kill -USR1 "$(cat pid.0)" && stopped=yes; }
    fi
    sleep 0.05
done
wait $launcher
[ $? -eq 75 ] && [ -n "$stopped" ] || { fail "the run of $iterations iterations or more"; tail -n 3 soak.log; }
grep -q 'Optimization stopped early' soak.log || fail 'it did not come to its end'
may=512
[ "$iterations" -lt 100000 ] || may=16
for rank in 0 1 2 3; do
    # the middle one of all looks of a half; a look within a snapshot may see more
    for half in 0 1; do
        awk -v rank=$rank '$1 == rank { print $2 }' later.txt |
            awk -v half=$half '{ kb[NR] = $1 } END { for (i = 1; i <= NR; i++) if ((i > NR / 2) == half) print kb[i] }' | sort -n |
            awk '{ kb[NR] = $1 } END { print kb[1], kb[int((NR + 1) / 2)], kb[NR] }'
    done | tr '\n' ' ' >halves.txt
    read -r least middle most least2 middle2 most2 <halves.txt
    echo "rank $rank: resident $middle kB ($least to $most), in the second half $middle2 kB ($least2 to $most2)"
    if [ "$middle2" -gt $((middle + may)) ] || [ "$most2" -gt $((most + 512)) ]; then
        # it keeps freed memory for a while
        sanitized || fail "rank $rank grows"
    fi
    awk -v rank=$rank '$1 == rank { if (!n++) files = $3; if ($3 > most) most = $3 } END { exit most > files + 4 }' later.txt ||
        fail "rank $rank has more and more files open"
    grew="${grew:-} $((middle2 - middle))"
done
[ "$(ls run_iter_*.solverstate.h5 | wc -l)" -eq 2 ] || fail "--keep=2 leaves $(ls run_iter_*)"
[ -s shm.txt ] || fail 'no rank has anything in /dev/shm: the test tests nothing'
sort -u shm.txt | while read -r file; do [ ! -e "$file" ] || echo "$file"; done >left.txt
[ ! -s left.txt ] || fail "left behind: $(cat left.txt)"
[ $failures -gt 0 ] ||
    echo "soaked: $iterations iterations on 4 ranks, a test and a snapshot every $every: after a quarter of them the ranks' resident memory grew by$grew kB in $looks looks; no file stayed open, nothing was left in /dev/shm."
finish
