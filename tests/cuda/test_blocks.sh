#!/bin/sh
# Every kernel of cuda/ in blocks of all its threads, which take turns from one barrier or vote to the next in three
# orders (emulated_blocks.cpp): what holds for blocks of one thread, as the other tests run them, holds for a GPU's.
# The limits end what hangs; each program takes some seconds.
set -u
programs=${abs_top_builddir:?}/tests/cuda
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
POSEIDON_EMULATED_KERNELS=$folder/kernels
POSEIDON_CACHE=$folder/cache
POSEIDON_TEST_ENGINE=cuda
export POSEIDON_EMULATED_KERNELS POSEIDON_EMULATED_BLOCKS POSEIDON_CACHE POSEIDON_TEST_ENGINE

run() {
    timeout 600 "$@" >"$folder/log" 2>&1 && return
    cat "$folder/log"
    echo "FAIL: turns $POSEIDON_EMULATED_BLOCKS: $*"
    exit 1
}
for POSEIDON_EMULATED_BLOCKS in up down mixed; do
    run "$programs/test_blocks"
    run "$programs/engine_conformance" --engine=cuda --cases=3
    run "$programs/layer_values" --engine=cuda "${abs_top_srcdir:?}/tests/data/layers_more/values.txt"
    run "$programs/test_encode"
    run "$programs/test_copies"
    run "$programs/test_images"
    echo "ok: turns $POSEIDON_EMULATED_BLOCKS"
done
run "$programs/engine_conformance" --engine=cuda --cases=2 --math=bf16

sort -u "$POSEIDON_EMULATED_KERNELS" | grep -v '^fault\|^kernels' >"$folder/ran"
grep -oh 'KERNEL void [a-z_0-9]*' "$abs_top_srcdir"/cuda/*.cu | sed 's/.* //' | sort -u >"$folder/all"
[ "$(grep -c . "$folder/all")" -gt 60 ] || { echo 'FAIL: the kernels of cuda/ are not found by their names'; exit 1; }
missing=$(comm -23 "$folder/all" "$folder/ran")
[ -z "$missing" ] || { echo "FAIL: never run in whole blocks:" $missing; exit 1; }
echo "$(grep -c . "$folder/all") kernels ran"
