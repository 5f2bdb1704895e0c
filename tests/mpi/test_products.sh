#!/bin/sh
# Inner products: what was measured is followed by all ranks and said, whatever --tune convolution is; ranks choose alike.
. "$abs_top_srcdir/tests/mpi/common.sh"
cat >net.prototxt <<'END'
name: "wide"
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 20 dim: 1616 } shape { dim: 20 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "narrow" type: "InnerProduct" bottom: "data" top: "narrow"
  inner_product_param { num_output: 1616 weight_filler { type: "xavier" } } }
layer { name: "wide" type: "InnerProduct" bottom: "narrow" top: "wide"
  inner_product_param { num_output: 1000 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "wide" bottom: "label" top: "loss" }
END
make_solver solver.prototxt 'max_iter: 3' 'snapshot_after_train: false' 'display: 1' 'lr_policy: "fixed"'

# choices FOLDER WAY: all six products go that way, without the machine, for any
choices() {
    mkdir -p "$1"
    for product in forward,v1 backward_data,v1 backward_weights,v1; do
        for outputs in 1616 1000; do
            bias=0
            [ $product = forward,v1 ] && bias=1
            echo "inner_product_$product,n20,k1616,o$outputs,t0,b$bias $2"
        done
    done >"$1/convolutions"
}

POSEIDON_CACHE=$work/sgemm
export POSEIDON_CACHE
choices "$POSEIDON_CACHE" 0
train 1 sgemm.log --solver=solver.prototxt --comm=none || fail "sgemm: $(tail -n 3 sgemm.log)"
grep 'Algorithms chosen' sgemm.log && fail 'not by sgemm though the file says so'
all_losses sgemm.log >losses.sgemm

# a rank with an empty folder, and another thing in its own file, follow what rank 0's file says
mkdir -p empty
choices matmul 1
for others in empty sgemm; do
    before=$(cat "$others/convolutions" 2>/dev/null)
    for how in auto direct; do
        "$POSEIDON_MPIRUN" 1 env POSEIDON_CACHE="$work/matmul" "$POSEIDON" train --solver=solver.prototxt --threads=1 \
            --tune=convolution=$how --tune=check-sync=1 : -n 1 env POSEIDON_CACHE="$work/$others" "$POSEIDON" train --threads=1 \
            --solver=solver.prototxt --tune=convolution=$how --tune=check-sync=1 >log 2>&1 </dev/null || fail "$others, $how: $(tail -n 3 log)"
        [ "$(cat "$others/convolutions" 2>/dev/null)" = "$before" ] || fail "the rank with $others measured for itself"
        [ "$(wc -l <matmul/convolutions)" -eq 6 ] || fail "measured though known: $(cat matmul/convolutions)"
    done
done
if grep -q 'Algorithms chosen' log; then
    grep -q 'Algorithms chosen: narrow (matmul forward weights), wide (matmul forward data weights)' log ||
        fail "not by matmul though the file says so: $(grep Algorithms log)"
    POSEIDON_CACHE=$work/matmul
    train 1 matmul.log --solver=solver.prototxt --comm=none || fail "matmul: $(tail -n 3 matmul.log)"
    all_losses matmul.log >losses.matmul
    close_losses losses.sgemm losses.matmul || fail 'matmul is another training'
    "$POSEIDON" time --model=net.prototxt --iterations=1 2>&1 |
        grep -q 'wide.*algorithm: matmul forward data weights' || fail 'time does not say so'
else
    echo 'oneDNN has no matmul of its own here'
fi

# what one run measured, where it was sure, the next one follows; where it was sure of all, with the same bits
POSEIDON_CACHE=$work/measured
for run in 1 2; do
    train 2 measured.$run --solver=solver.prototxt --threads=1 || fail "measuring: $(tail -n 3 measured.$run)"
    all_losses measured.$run >losses.$run
    [ $run -gt 1 ] || sure=$(wc -l <measured/convolutions 2>/dev/null || echo 0)
done
[ "$(sed 's/ [0-9]*$//' measured/convolutions 2>/dev/null | sort | uniq -d | wc -l)" -eq 0 ] ||
    fail "measured again though known: $(cat measured/convolutions)"
if [ "$sure" -eq 5 ]; then
    cmp -s losses.1 losses.2 || fail 'other bits though all choices were kept'
else
    echo "of five products, $sure were measured undisturbed"
fi
finish
