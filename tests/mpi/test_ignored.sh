#!/bin/sh
# Losses divided by how many of their labels count, where each rank's batch has another number of them: 6 samples on one
# rank, 2 x 3 and 3 x 2 train alike, and show the same losses, by every scheme. One rank may have no such label at all.
# So do parts of a --global-batch with losses that are sums over samples, and accuracies that pass over a label.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" - <<'END' || { echo 'SKIP: h5py is missing'; exit 77; }
import h5py, numpy
r = numpy.random.RandomState(5)
n = 12
with h5py.File("pixels.h5", "w") as f:
    f["x"] = r.randn(n, 3, 4, 4).astype("f4")
    y = r.randint(0, 5, (n, 1, 4, 4)).astype("f4")
    for i in range(n):
        y[i].reshape(16)[:(0, 16, 9, 3, 14, 16)[i % 6]] = 255
    f["y"] = y
    t = r.randint(0, 2, (n, 2, 4, 4)).astype("f4")
    t[r.rand(*t.shape) < numpy.arange(n).reshape(n, 1, 1, 1) / n] = -1
    f["t"] = t
    c = r.randint(0, 4, n).astype("f4")
    c[[0, 1, 2, 7]] = 9
    f["c"] = c
open("pixels.txt", "w").write("pixels.h5\n")
END
filler='weight_filler { type: "xavier" }'
cat >net.prototxt <<END
name: "pixels"
layer { name: "in" type: "HDF5Data" top: "x" top: "y" top: "t" top: "c" hdf5_data_param { source: "$work/pixels.txt" batch_size: 6 } }
layer { name: "h" type: "DummyData" top: "samples" top: "h" dummy_data_param { shape { dim: 6 } shape { dim: [1, 1, 4, 4] }
    data_filler { type: "constant" value: 0.3 } } }
layer { name: "silence" type: "Silence" bottom: "samples" }
layer { name: "c1" type: "Convolution" bottom: "x" top: "c1" convolution_param { num_output: 4 kernel_size: 3 pad: 1 $filler } }
layer { name: "tanh" type: "TanH" bottom: "c1" top: "c1" }
layer { name: "c2" type: "Convolution" bottom: "c1" top: "c2" convolution_param { num_output: 5 kernel_size: 1 $filler } }
layer { name: "one" type: "SoftmaxWithLoss" bottom: "c2" bottom: "y" top: "one" loss_param { ignore_label: 255 } }
layer { name: "c3" type: "Convolution" bottom: "c1" top: "c3" convolution_param { num_output: 2 kernel_size: 1 $filler } }
layer { name: "two" type: "SigmoidCrossEntropyLoss" bottom: "c3" bottom: "t" top: "two" loss_weight: 0.3
    loss_param { ignore_label: -1 normalization: VALID } }
layer { name: "f1" type: "InnerProduct" bottom: "c1" top: "f1" inner_product_param { num_output: 20 $filler } }
layer { name: "f2" type: "InnerProduct" bottom: "f1" top: "f2" inner_product_param { num_output: 4 $filler } }
layer { name: "three" type: "InfogainLoss" bottom: "f2" bottom: "c" bottom: "h" top: "three" loss_param { ignore_label: 9 normalize: true } }
END
make_solver solver.prototxt 'base_lr: 0.1' 'lr_policy: "fixed"' 'max_iter: 30' 'display: 1' "snapshot_prefix: \"$work/s\""

cat >compare.py <<'END'
import re, sys
import h5py, numpy
def losses(name):
    return numpy.array([float(x) for x in re.findall(r"(?:, loss|one|two|three) = ([-.e\d]+)", open(name + ".log").read())])
def parameters(name):
    found = []
    h5py.File(name + ".h5", "r").visititems(lambda _, d: found.append(d[()]) if isinstance(d, h5py.Dataset) else None)
    return numpy.concatenate([d.ravel() for d in found])
one, other = sys.argv[1:]
for what in losses, parameters:
    a, b = what(one), what(other)
    if a.shape != b.shape or not len(a) > 100:
        sys.exit("%d and %d %s" % (len(a), len(b), what.__name__))
    # displays have six digits
    worst = abs(a - b).max() / abs(a).max()
    if not worst < 1e-5:
        sys.exit("%s differ by %g, relative" % (what.__name__, worst))
    print("%s: %d %s, %g apart" % (other, len(a), what.__name__, worst))
END

# run NAME RANKS OPTION...: beside $one
run() {
    name=$1 ranks=$2
    shift 2
    rm -f s_iter_*
    train "$ranks" "$name.log" --solver=solver.prototxt "$@" || { fail "$name: status $?"; grep '^poseidon train' "$name.log"; return; }
    mv s_iter_30.caffemodel.h5 "$name.h5"
    [ "$name" = "$one" ] || "$python" compare.py "$one" "$name" || fail "$name"
}

one=one
run one 1 --batch=6
run ps 2 --batch=3 --comm=ps --hierarchy=off
run sfb 3 --batch=2 --comm=sfb --hierarchy=off
run auto 3 --batch=2
run servers 3 --batch=3 --comm=ps --servers=1
run nodes 3 --batch=2 --comm=allreduce --hierarchy=2
run unlike 3 --batch=2 --balance=3,1,2 --comm=ps --hierarchy=off
run unlike-sfb 3 --global-batch=6 --balance=1,3,2 --comm=sfb --hierarchy=off
# the labels are counted in the engine's memory, and passes recorded
real=$POSEIDON
POSEIDON=${abs_top_builddir:?}/tests/cuda/poseidon
[ -x "$POSEIDON" ] || { echo "without CUDA there is no emulated GPU: its cases are left out"; finish; }
run gpus 2 --batch=3 --engine=cuda --tune=share-gpu
POSEIDON=$real
# each pass of an iteration is divided by its own labels, as in Caffe
one=passes
run passes 1 --batch=6 --set iter_size=2
run passes-2 2 --batch=3 --set iter_size=2 --comm=adam

# a loss of every sort that is a sum over the batch: without a divisor, of a top that is no loss, of a reduced one; and, beside
# them, means: of a reduced top, and what is computed with that; of parameters alone
sed -e '/"one"/,$d' -e 's/bottom: "samples"/& bottom: "h" bottom: "t" bottom: "c"/' net.prototxt >sums.prototxt
cat >>sums.prototxt <<END
layer { name: "one" type: "SoftmaxWithLoss" bottom: "c2" bottom: "y" top: "one" loss_weight: 0.05
    loss_param { ignore_label: 255 normalization: NONE } }
layer { name: "f" type: "InnerProduct" bottom: "c1" top: "f" inner_product_param { num_output: 10 $filler } }
layer { name: "act" type: "TanH" bottom: "f" top: "act" loss_weight: 0.03 }
layer { name: "sum" type: "Reduction" bottom: "f" top: "sum" reduction_param { operation: SUMSQ } }
layer { name: "two" type: "Power" bottom: "sum" top: "two" power_param { scale: 0.5 shift: 0 } loss_weight: 0.02 }
layer { name: "mean" type: "Reduction" bottom: "f" top: "mean" reduction_param { operation: MEAN } }
layer { name: "half" type: "Power" bottom: "mean" top: "half" power_param { scale: 0.5 } loss_weight: 1 }
layer { name: "free" type: "Parameter" top: "free" parameter_param { shape { dim: 5 } } }
layer { name: "least" type: "Reduction" bottom: "free" top: "least" reduction_param { operation: SUMSQ } loss_weight: 0.1 }
layer { name: "three" type: "Accuracy" bottom: "c2" bottom: "y" top: "three" accuracy_param { ignore_label: 255 } }
END
mv sums.prototxt net.prototxt
sed -i 's/^base_lr.*/base_lr: 0.01/' solver.prototxt
one=whole
run whole 1 --global-batch=6
lacks_sums() {
    ! grep -q 'These losses are sums' "$1.log" || fail "$1: warns of sums"
}
lacks_sums whole
run half 2 --global-batch=6 --comm=ps --hierarchy=off
lacks_sums half
run third 3 --global-batch=6 --comm=sfb
run served 3 --global-batch=6 --comm=ps --servers=1
run grains 1 --global-batch=6 --reproducible=3
run grains-2 2 --global-batch=6 --reproducible=3
run grains-6 1 --global-batch=6 --reproducible=1
# resumed by other ranks, with the batch that the run has
train 1 begun.log --solver=solver.prototxt --global-batch=6 --reproducible=3 --max-iter=15 || fail 'begun'
"$POSEIDON_MPIRUN" 2 "$POSEIDON" train --solver=solver.prototxt --reproducible=3 --resume >resumed.log 2>&1 || fail 'resumed'
"$python" -c '
import h5py
a, b = h5py.File("grains.h5"), h5py.File("s_iter_30.caffemodel.h5")
a["data"].visititems(lambda n, d: isinstance(d, h5py.Dataset) and (d[()] != b["data"][n][()]).any() and exit(n))' || fail 'resumed: other bits'
one=twice
run twice 1 --global-batch=12 --set iter_size=2
run twice-3 3 --global-batch=12 --set iter_size=2
# no mean over workers of unlike numbers of samples
train 2 places.log --solver=solver.prototxt --global-batch=6 --balance=2,1 && fail 'a top with a place for each sample is shown'
grep -q "^poseidon train: .*net.prototxt: output 'act' has values for each sample, .* let a Silence layer" places.log ||
    fail "places: $(tail -n 1 places.log)"
sed -i '/"act"/s/.*/layer { name: "act" type: "Reduction" bottom: "f" top: "act" loss_weight: 0.03 }/' net.prototxt
one=reduced
run reduced 1 --global-batch=12 --set iter_size=2
run unlike-sums 3 --global-batch=12 --set iter_size=2 --balance=1,2,3
# batches of a rank's own: the mean over ranks, as Caffe's GPUs, which is said
one=own
run own 2 --batch=3
grep -q "These losses are sums .*; --global-batch=6 makes them .*: one, act, two\$" own.log || fail 'own: nothing is said of sums'
"$python" compare.py whole own >own.cmp 2>&1 && fail 'own: trains like one rank'
finish
