#!/bin/sh
# The CPU's --math=bf16: random convolutions, deconvolutions and inner products, by the processor's products of bfloat16 where
# it has them, and by rounded floats everywhere; refused in one message where there are none, by all ranks, and with what it
# cannot go with.
. "${abs_top_srcdir:?}/tests/mpi/common.sh"
conformance=${abs_top_builddir:?}/tests/engine/engine_conformance
for op in convolution deconvolution 'inner product'; do
    "$conformance" --math=bf16 --float-products --cases=60 --op="$op" >log 2>&1 || { cat log; fail "rounded floats: $op"; }
    "$conformance" --math=bf16 --cases=60 --op="$op" >log 2>&1 && continue
    grep -q 'needs products of bfloat16' log || { cat log; fail "bfloat16: $op"; }
done
make_net net.prototxt
make_solver solver.prototxt 'max_iter: 2'
# refuses TEXT OPTION...
refuses() {
    text=$1
    shift
    train 2 no.log --solver=solver.prototxt "$@" && fail "taken: $*"
    [ "$(grep -c '^poseidon train: ' no.log)" = 1 ] && grep -q "^poseidon train: .*$text" no.log || { fail "$*"; tail -n 3 no.log; }
}
refuses 'not with --math=bf16' --math=bf16 --reproducible --global-batch=8
refuses 'math=tf32 is for GPUs; the CPU has fp32 and bf16' --math=tf32
refuses 'math.*fp16' --math=fp16
if [ "$(uname -m)" = x86_64 ]; then
    export ONEDNN_MAX_CPU_ISA=AVX2
    refuses 'math=bf16 needs products of bfloat16 (AMX or AVX512_BF16), and .* has none; --math=fp32' --math=bf16
fi
finish
