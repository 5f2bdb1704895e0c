#!/bin/sh
# Every kernel of cuda/ in blocks of all its threads, which take turns from one barrier or vote to the next in three
# orders (emulated_blocks.cpp): what holds for blocks of one thread, as the other tests run them, holds for a GPU's.
# The limits end what hangs; each program takes some seconds.
set -u
. "${abs_top_srcdir:?}/tests/common.sh"
programs=${abs_top_builddir:?}/tests/cuda
if sanitized; then
    echo 'SKIP: a sanitizer does not follow threads that leave their stack for another'
    exit 77
fi
POSEIDON_EMULATED_KERNELS=$folder/kernels
POSEIDON_CACHE=$folder/cache
POSEIDON_TEST_ENGINE=cuda
export POSEIDON_EMULATED_KERNELS POSEIDON_EMULATED_BLOCKS POSEIDON_CACHE POSEIDON_TEST_ENGINE

run() {
    timeout 600 "$@" >"$folder/log" 2>&1 && return
    cat "$folder/log"
    echo "FAIL: turns ${POSEIDON_EMULATED_BLOCKS:-of one thread}: $*"
    exit 1
}
for POSEIDON_EMULATED_BLOCKS in up down mixed; do
    run "$programs/test_blocks"
    run "$programs/engine_conformance" --engine=cuda --cases=3
    run "$programs/test_encode"
    run "$programs/test_copies"
    run "$programs/test_images"
    echo "ok: turns $POSEIDON_EMULATED_BLOCKS"
done
run "$programs/engine_conformance" --engine=cuda --cases=2 --math=bf16
for op in pooling eltwise concat; do # cheap, and of many kinds
    run "$programs/engine_conformance" --engine=cuda --cases=25 --op=$op
done

# What engine_conformance leaves to layer_values, which takes long so: a net that trains to the same loss, and is tested.
ln -s "$abs_top_srcdir/data" data
cp "$abs_top_srcdir/tests/cuda/mixed.prototxt" net.prototxt
printf 'net: "net.prototxt"\nbase_lr: 0.05\nlr_policy: "fixed"\nmax_iter: 1\nsnapshot_after_train: false\n' >solver.prototxt
printf 'test_iter: 1\ntest_interval: 1\n' >>solver.prototxt
train_loss() {
    run "$programs/poseidon" train --solver=solver.prototxt --engine=cuda --threads=1 --set random_seed=3 --batch=2 --force --summary=out.json
    sed -n 's/.*"train_loss": *\([^,}]*\).*/\1/p' out.json
}
found=$(train_loss) || { echo "$found"; exit 1; }
expected=$(unset POSEIDON_EMULATED_BLOCKS POSEIDON_EMULATED_KERNELS; train_loss) || { echo "$expected"; exit 1; }
awk -v a="$expected" -v b="$found" 'BEGIN { d = a - b; exit !(a > 0 && d * d <= 1e-10 * a * a) }' ||
    { echo "FAIL: a loss of $found, and of $expected in blocks of one thread"; exit 1; }

sort -u "$POSEIDON_EMULATED_KERNELS" | grep -v '^fault\|^kernels' >"$folder/ran"
grep -oh 'KERNEL void [a-z_0-9]*' "$abs_top_srcdir"/cuda/*.cu | sed 's/.* //' | sort -u >"$folder/all"
[ "$(grep -c . "$folder/all")" -gt 60 ] || { echo 'FAIL: the kernels of cuda/ are not found by their names'; exit 1; }
missing=$(comm -23 "$folder/all" "$folder/ran")
[ -z "$missing" ] || { echo "FAIL: never run in whole blocks:" $missing; exit 1; }
echo "$(grep -c . "$folder/all") kernels ran"
