#!/bin/sh
# average_decay: the moving average of the weights, by every scheme, on any number of ranks and on engines with memory of their own,
# is that of the weights in the snapshots, in double precision; it is tested, saved, resumed to the bit, and taken by --weights.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import h5py, numpy' 2>/dev/null || { echo 'SKIP: h5py is missing'; exit 77; }
cat >net.prototxt <<'END'
layer { name: "in" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 6 dim: 3 dim: 4 dim: 4 } shape { dim: 6 }
    data_filler { type: "gaussian" } data_filler { value: 1 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 5 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" batch_norm_param { moving_average_fraction: 0.5 } }
layer { name: "still" type: "InnerProduct" bottom: "c" top: "s" param { lr_mult: 0 } param { lr_mult: 0 } inner_product_param { num_output: 9 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "s" top: "ip" inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }
END
make_solver solver.prototxt 'base_lr: 0.1' 'lr_policy: "fixed"' 'max_iter: 5' 'display: 1' 'snapshot: 1' "snapshot_prefix: \"$work/s\"" \
    'average_decay: 0.7' 'test_iter: 2' 'test_interval: 5'
# run NAME RANKS OPTION...: its snapshots in the folder NAME
run() {
    name=$1 ranks=$2
    shift 2
    rm -f s_iter_* s.run
    train "$ranks" "$name.log" --solver=solver.prototxt --summary="$name.json" "$@" || { fail "$name: status $?"; tail -n 3 "$name.log"; return; }
    mkdir -p "$name" && mv s_iter_* "$name"
}
run one 1
run ps 2 --comm=ps --hierarchy=off --set iter_size=2
run sfb 3 --comm=sfb --hierarchy=off
run nodes 4 --hierarchy=2 --comm=allreduce
run servers 3 --servers=1 --comm=ps
run grains 2 --global-batch=16 --reproducible
run grains_one 1 --global-batch=16 --reproducible
run halves 2 --tune=wire=bf16
runs='one ps sfb nodes servers grains grains_one halves'
# engines with memory of their own
real=$POSEIDON
POSEIDON=${abs_top_builddir:?}/tests/cuda/poseidon
if [ -x "$POSEIDON" ]; then
    run gpu 1 --engine=cuda
    run gpus 2 --engine=cuda --tune=share-gpu --comm=ps
    runs="$runs gpu gpus"
else
    echo 'without CUDA there is no emulated GPU: its cases are left out'
fi
POSEIDON=$real
# shellcheck disable=SC2086 # a list
"$python" - $runs <<'END' || fail 'the averages'
import h5py, numpy as np, sys
def read(path):
    out = {}
    h5py.File(path, "r")["data"].visititems(lambda name, x: out.__setitem__(name, x[()].astype("f8")) if isinstance(x, h5py.Dataset) else None)
    return out
decay = float(np.float32(0.7))
for run in sys.argv[1:]:
    average = None
    for i in range(1, 6):
        now = read("%s/s_iter_%d.caffemodel.h5" % (run, i))
        average = average or now
        average = {name: now[name] if name.startswith("bn/") else decay * average[name] + (1 - decay) * now[name] for name in now}
        found = read("%s/s_iter_%d.average.caffemodel.h5" % (run, i))
        assert found.keys() == now.keys() and len(now) == 9, (run, now.keys())
        for name in now:
            assert abs(found[name] - average[name]).max() < 1e-6, (run, i, name, abs(found[name] - average[name]).max())
            assert (found[name] == now[name]).all() == (i == 1 or name[:2] in ("bn", "st")), (run, i, name)
        with h5py.File("%s/s_iter_%d.solverstate.h5" % (run, i), "r") as f:
            assert len(f["history"]) == 18 and (f["history/9"][()] == found["conv/0"]).all(), run
same = [read("grains%s/s_iter_5.average.caffemodel.h5" % which) for which in ("", "_one")]
assert all((same[0][name] == same[1][name]).all() for name in same[0])
END
# tested beside the weights, and what --weights takes is what was tested
outputs() {
    sed -n "s/.*$1 net output #0: loss = \([0-9.e-]*\).*/\1/p" "$2" | tail -n 1
}
[ "$(grep -c 'Iteration 5, Testing net (#0) with the average of the weights$' one.log)" -eq 1 ] || fail 'the average is not tested'
"$POSEIDON" test --model=net.prototxt --weights=one/s_iter_5.average.caffemodel.h5 --iterations=2 >tested.log 2>&1 || fail 'test'
said=$(outputs Average one.log)
[ -n "$said" ] && [ "$said" != "$(outputs Test one.log)" ] || fail "the average's loss: '$said'"
tr -d '\n\r\t ' <one.json | grep -q "\"test_average\":{\"loss\":$(printf '%s' "$said" | cut -c1-5)" || fail 'the summary lacks it'
run tuned 2 --weights=one/s_iter_5.average.caffemodel.h5 --max-iter=1
# resumed: the same bits, on other ranks, too; in Caffe's binary form, where --keep removes it with its snapshot
"$python" - >same.py <<'END'
print('''import h5py, sys
one, other = (h5py.File(n, "r")["data"] for n in sys.argv[1:])
for name in ("conv/0", "conv/1", "bn/0", "ip/0", "ip/1"):
    assert (one[name][()] == other[name][()]).all(), name''')
END
resumed() {
    name=$1 ranks=$2
    shift 2
    rm -f s_iter_* s.run
    cp "$name"/s_iter_2.* .
    train "$ranks" resumed.log --solver=solver.prototxt --snapshot=s_iter_2.solverstate.h5 "$@" || { fail "$name resumed"; tail -n 3 resumed.log; return; }
    "$python" same.py "$name/s_iter_5.average.caffemodel.h5" s_iter_5.average.caffemodel.h5 || fail "$name differs when it is resumed"
}
resumed one 1
resumed servers 3 --servers=1 --comm=ps
resumed nodes 4 --hierarchy=2 --comm=allreduce
resumed grains 1 --global-batch=16 --reproducible
rm -f s_iter_* s.run
train 1 kept.log --solver=solver.prototxt --keep=1 --set snapshot_format=BINARYPROTO || fail 'binary'
[ "$(echo s_iter_*)" = 's_iter_5.average.caffemodel s_iter_5.caffemodel s_iter_5.solverstate' ] || fail "kept: $(echo s_iter_*)"
# refused MESSAGE OPTION...
refused() {
    message=$1
    shift
    train 2 log --solver=solver.prototxt "$@" && fail "$* trains"
    [ "$(grep -c '^poseidon train: ' log)" -eq 1 ] && grep -q -e "$message" log || { fail "expected '$message'"; cat log; }
}
refused 'solver.prototxt: average_decay is 1; expected 0 to below 1' --set average_decay=1
refused 'solver.prototxt: average_decay is -0.1; expected 0 to below 1' --set average_decay=-0.1
for apart in --tune=staleness --tune=drop-stragglers --comm=none; do
    case $apart in
    --comm=none) option=$apart ;;
    *) option="$apart=1 --comm=ps --hierarchy=off" ;;
    esac
    # shellcheck disable=SC2086 # options
    refused "solver.prototxt: average_decay needs .* it cannot be combined with $apart" $option
done
rm -f s_iter_* s.run
cp one/s_iter_2.* .
refused 'Incorrect length of history blobs. The file has 18, the solver needs 9' --set average_decay=0 --snapshot=s_iter_2.solverstate.h5

# A state with an average is of no solver without one, and the other way round.
sed '/average_decay/d' solver.prototxt >plain.prototxt
rm -f s_iter_* s.run
train 1 plain.log --solver=plain.prototxt || { fail 'without an average'; tail -n 3 plain.log; }
cp s_iter_5.solverstate.h5 plain.solverstate.h5
cp s_iter_5.caffemodel.h5 one
train 1 no.log --solver=plain.prototxt --max-iter=9 --snapshot=one/s_iter_5.solverstate.h5 && fail 'a state with an average is taken without'
grep -q 'The file has 18, the solver needs 9: .* one with average_decay where the other has none' no.log || fail "with an average: $(grep '^poseidon train' no.log)"
train 1 no.log --solver=solver.prototxt --max-iter=9 --snapshot=plain.solverstate.h5 && fail 'a state without an average is taken with one'
grep -q 'The file has 9, the solver needs 18: .* one with average_decay where the other has none' no.log || fail "without: $(grep '^poseidon train' no.log)"

# The best snapshot's average has the name of the best, too; what an earlier run left by that name goes.
rm -f s_iter_* s.run
train 1 best.log --solver=solver.prototxt --set test_interval=2 --max-iter=8 --keep=1 --keep-best=loss || { fail 'the best'; tail -n 3 best.log; }
best=$(sed -n 's/^best	//p' s.run)
cmp s_best.average.caffemodel.h5 "s_iter_$best.average.caffemodel.h5" || fail "the average of the best, iteration $best"
rm -f s_iter_* s.run
train 1 best.log --solver=plain.prototxt --set test_interval=2 --max-iter=8 --keep=1 --keep-best=loss || { fail 'the best of another run'; tail -n 3 best.log; }
[ ! -e s_best.average.caffemodel.h5 ] || fail 'an average of another run is beside the best'
finish
