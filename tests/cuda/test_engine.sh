#!/bin/sh
# The CUDA engine's operators against plain loops, on the emulated GPU; and the real program, which says
# what is missing here instead of failing to start. Then nets in shared memory.
set -u
build=${abs_top_builddir:?}/tests

timeout 600 "$build/cuda/engine_conformance" --engine=cuda || exit 1
POSEIDON_TEST_ENGINE=cuda timeout 600 "$build/cuda/test_memory" || exit 1
POSEIDON_TEST_ENGINE=cuda timeout 600 "$build/cuda/test_copies" || exit 1
POSEIDON_TEST_ENGINE=cuda timeout 600 "$build/cuda/test_fusion" || exit 1
timeout 600 "$build/cuda/engine_conformance" --engine=cuda --math=bf16 || exit 1
# Convolutions by the emulated cuDNN instead of the kernels that follow the definition.
POSEIDON_EMULATED_CUDNN=30
POSEIDON_CACHE=$(mktemp -d) || exit 1
export POSEIDON_EMULATED_CUDNN POSEIDON_CACHE
trap 'rm -rf "$POSEIDON_CACHE"' EXIT
for math in fp32 tf32 bf16; do
    timeout 600 "$build/cuda/engine_conformance" --engine=cuda --math=$math --cases=25 || exit 1
done
[ -s "$POSEIDON_CACHE/convolutions" ] || { echo 'FAIL: no choice was kept'; exit 1; }
unset POSEIDON_EMULATED_CUDNN
timeout 600 "$build/cuda/layer_values" --engine=cuda "${abs_top_srcdir:?}/tests/data/layers/values.txt" || exit 1
timeout 600 "$build/engine/engine_conformance" --engine=cuda --cases=3
case $? in
0 | 77) ;;
*) echo 'FAIL: engine_conformance --engine=cuda neither ran nor skipped'; exit 1 ;;
esac
