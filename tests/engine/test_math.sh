#!/bin/sh
# The CPU's --math=bf16: random cases of all operators on bfloat16, with products of floats everywhere and of bfloat16 where
# the processor has them; losses beside those of floats; and what it cannot be, refused in one message.
. "${abs_top_srcdir:?}/tests/mpi/common.sh"
conformance=${abs_top_builddir:?}/tests/engine/engine_conformance
for op in convolution deconvolution 'inner product'; do
    "$conformance" --math=bf16 --float-products --cases=60 --op="$op" >log 2>&1 || { cat log; fail "products of floats: $op"; }
done
"$conformance" --math=bf16 --cases=40 >log 2>&1 || { cat log; fail 'bfloat16'; }
make_net net.prototxt

# one net, 60 iterations on two ranks: each loss within 3 % of floats', and the same weights tested both ways
losses() {
    sed -n 's/.*Iteration [0-9]* (.*, loss = //p' "$1"
}
make_solver solver.prototxt 'max_iter: 60' 'display: 10' "snapshot_prefix: \"$work/run\""
train 2 fp32.log --solver=solver.prototxt --math=fp32
train 2 bf16.log --solver=solver.prototxt --math=bf16
losses fp32.log >fp32
losses bf16.log >bf16
paste fp32 bf16 | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.03 * $1) bad = 1 } END { exit bad || NR < 6 }' ||
    { fail 'losses of bfloat16'; paste fp32 bf16; }
cmp -s fp32 bf16 && fail 'bfloat16 gives the losses of floats to the last digit'
for math in fp32 bf16; do
    "$abs_top_builddir/poseidon" test --model=net.prototxt --weights=run_iter_60.caffemodel.h5 --iterations=5 --math=$math >$math.log 2>&1 ||
        fail "test --math=$math"
    sed -n 's/.*Loss: //p' $math.log >$math
done
"$abs_top_builddir/poseidon" time --model=net.prototxt --batch=4 --iterations=1 --math=bf16 >time.log 2>&1 || fail 'time'
grep -q 'ip1.*algorithm: .*floats from bf16' time.log || { fail 'time does not name the layer that takes floats'; grep ip1 time.log; }
grep -q 'conv2.*algorithm: bf16' time.log || { fail 'time does not name bfloat16'; grep conv2 time.log; }
paste fp32 bf16 | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.01 * $1) bad = 1 } END { exit bad || NR != 1 }' ||
    { fail 'test with bfloat16'; paste fp32 bf16; }
make_solver solver.prototxt 'max_iter: 2'
# refuses TEXT OPTION...
refuses() {
    text=$1
    shift
    train 2 no.log --solver=solver.prototxt "$@" && fail "taken: $*"
    [ "$(grep -c '^poseidon train: ' no.log)" = 1 ] && grep -q "^poseidon train: .*$text" no.log || { fail "$*"; tail -n 3 no.log; }
}
refuses 'math=tf32 is for GPUs; the CPU has fp32 and bf16' --math=tf32
refuses 'math.*fp16' --math=fp16
finish
