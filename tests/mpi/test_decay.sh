#!/bin/sh
# Parameters that no loss depends on: below propagate_down: false, under a loss of weight 0, read by nobody. Caffe decays them, and so
# does every scheme, on any number of ranks, with the same bits; a closed form says what they become.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import h5py, numpy' 2>/dev/null || { echo 'SKIP: h5py is missing'; exit 77; }
ip='inner_product_param { num_output: 5 weight_filler { type: "xavier" } bias_filler { value: 0.5 } }'
cat >net.prototxt <<END
layer { name: "in" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 6 dim: 7 } shape { dim: 6 }
    data_filler { type: "gaussian" } data_filler { value: 1 } } }
layer { name: "below" type: "InnerProduct" bottom: "x" top: "below" param { } param { decay_mult: 3 lr_mult: 2 } $ip }
layer { name: "still" type: "InnerProduct" bottom: "x" top: "still" param { decay_mult: 0 } param { lr_mult: 0 } $ip }
layer { name: "unread" type: "InnerProduct" bottom: "x" top: "unread" $ip }
layer { name: "silence" type: "Silence" bottom: "unread" }
layer { name: "aside" type: "InnerProduct" bottom: "x" top: "aside" $ip }
layer { name: "none" type: "SoftmaxWithLoss" bottom: "aside" bottom: "y" top: "none" loss_weight: 0 }
layer { name: "sum" type: "Eltwise" bottom: "below" bottom: "still" top: "sum" }
layer { name: "top" type: "InnerProduct" bottom: "sum" top: "top" propagate_down: false $ip }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "top" bottom: "y" top: "loss" }
END
make_solver solver.prototxt 'base_lr: 0.1' 'lr_policy: "fixed"' 'weight_decay: 0.05' 'max_iter: 4' 'display: 1' "snapshot_prefix: \"$work/s\""

# run NAME RANKS OPTION...: its parameters in NAME.h5
run() {
    name=$1 ranks=$2
    shift 2
    rm -f s_iter_*
    train "$ranks" "$name.log" --solver=solver.prototxt "$@" || { fail "$name: status $?"; tail -n 3 "$name.log"; return; }
    mv s_iter_4.caffemodel.h5 "$name.h5"
}
run first 1 --set base_lr=0
run one 1
grep -q 'No loss depends on these layers, but weight_decay 0.05 shrinks.*: below, unread, aside$' one.log || fail 'nothing is said of what decays'
"$python" - <<'END' || fail 'one rank'
import h5py, numpy as np
first, one = h5py.File("first.h5")["data"], h5py.File("one.h5")["data"]
for layer in ("below", "still", "unread", "aside"):
    for p, (lr, decay) in enumerate({"below": ((1, 1), (2, 3)), "still": ((1, 0), (0, 1))}.get(layer, ((1, 1), (1, 1)))):
        w = first[layer][str(p)][()].astype("f8")
        h = 0 * w
        for _ in range(4):
            h = 0.9 * h + 0.1 * lr * 0.05 * decay * w
            w = w - h
        off = abs(one[layer][str(p)][()] - w).max()
        assert off < 1e-6, (layer, p, off)
assert abs(one["top/0"][()] - first["top/0"][()]).max() > 1e-3
END
cat >same.py <<'END'
import h5py, sys
one, other = (h5py.File(n + ".h5")["data"] for n in sys.argv[1:])
for layer in ("below", "still", "unread", "aside"):
    for p in "01":
        assert (one[layer][p][()] == other[layer][p][()]).all(), (layer, p)
END
# like NAME RANKS OPTION...: the same bits as on one rank
like() {
    run "$@"
    "$python" same.py "${one:-one}" "$1" || fail "$1"
}
like ps 2 --comm=ps --hierarchy=off
like sfb 3 --comm=sfb --hierarchy=off --set clip_gradients=0.01
like none 2 --comm=none
like nodes 4 --hierarchy=2 --comm=allreduce --set iter_size=2
like leaders 4 --hierarchy=2,2 --comm=ps --set clip_gradients=0.01
like node 2 --set clip_gradients=0.01 --on-nan=skip
like servers 3 --servers=1 --comm=ps
like stale 2 --comm=ps --hierarchy=off --tune=staleness=1
like dropped 3 --comm=ps --hierarchy=off --tune=drop-stragglers=1
like grains 2 --global-batch=16 --reproducible
# biases alone are left out
run kept 1 --set no_bias_decay=true
run kept_four 4 --set no_bias_decay=true --hierarchy=2 --comm=allreduce
"$python" - <<'END' || fail 'no_bias_decay'
import h5py
first, one, kept, four = (h5py.File(n + ".h5")["data"] for n in ("first", "one", "kept", "kept_four"))
for layer in ("below", "unread", "aside"):
    for run in (kept, four):
        assert (run[layer]["0"][()] == one[layer]["0"][()]).all(), layer
        assert (run[layer]["1"][()] == first[layer]["1"][()]).all(), layer
    assert (one[layer]["1"][()] != first[layer]["1"][()]).any(), layer
END
# Adam's history of them is in the snapshot, and comes back from it
for ranks in 1 2; do
    run whole 1 --set type=Adam --set momentum2=0.99
    rm -f s_iter_*
    train $ranks half.log --solver=solver.prototxt --set type=Adam --set momentum2=0.99 --max-iter=2 || fail "half: status $?"
    train $ranks half.log --solver=solver.prototxt --set type=Adam --set momentum2=0.99 --snapshot=s_iter_2.solverstate.h5 ||
        { fail "resumed: status $?"; tail -n 3 half.log; }
    mv s_iter_4.caffemodel.h5 resumed.h5
    "$python" same.py whole resumed || fail "resumed on $ranks"
done
# engines with memory of their own
real=$POSEIDON
POSEIDON=${abs_top_builddir:?}/tests/cuda/poseidon
[ -x "$POSEIDON" ] || { echo "without CUDA there is no emulated GPU: its cases are left out"; finish; }
like gpu 1 --engine=cuda
like gpus 2 --engine=cuda --tune=share-gpu --comm=ps --set clip_gradients=0.01
POSEIDON=$real
finish
