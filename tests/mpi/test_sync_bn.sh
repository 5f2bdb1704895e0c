#!/bin/sh
# --sync-bn: BatchNorm by the statistics of all ranks' samples, forward and backward. Any number of ranks then trains as one rank does
# with the whole batch, and as numpy does in float64; two runs have the same bits; without the option ranks differ.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import h5py, numpy' 2>/dev/null || { echo 'SKIP: h5py is missing'; exit 77; }
"$python" - <<'END'
import h5py, numpy
draw = numpy.random.default_rng(3)
x = draw.normal(size=(12, 3, 5, 4)) * numpy.array([1, 0.1, 4]).reshape(3, 1, 1) + numpy.array([0, 300, -2]).reshape(3, 1, 1)
x += draw.normal(size=(12, 3, 1, 1))  # samples differ, so that a part of the batch has other statistics
with h5py.File("data.h5", "w") as f:
    f["x"], f["y"] = x.astype("f4"), draw.normal(size=(12, 4)).astype("f4")
END
echo data.h5 >list.txt
# Below, above and between products; of images and of rows; the first one has no gradient to give, one has no Scale, a ReLU is fused.
cat >net.prototxt <<'END'
layer { name: "in" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "list.txt" batch_size: 12 } }
layer { name: "bn1" type: "BatchNorm" bottom: "x" top: "bn1" }
layer { name: "sc1" type: "Scale" bottom: "bn1" top: "bn1" scale_param { bias_term: true } }
layer { name: "conv" type: "Convolution" bottom: "bn1" top: "conv" convolution_param { num_output: 5 kernel_size: 1 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "bn2" type: "BatchNorm" bottom: "conv" top: "bn2" batch_norm_param { moving_average_fraction: 0.9 eps: 0.001 } }
layer { name: "sc2" type: "Scale" bottom: "bn2" top: "bn2" scale_param { bias_term: true } }
layer { name: "tanh" type: "TanH" bottom: "bn2" top: "bn2" }
layer { name: "ip1" type: "InnerProduct" bottom: "bn2" top: "ip1" inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "bn3" type: "BatchNorm" bottom: "ip1" top: "bn3" }
layer { name: "ip2" type: "InnerProduct" bottom: "bn3" top: "ip2" inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip2" bottom: "y" top: "loss" }
END
make_solver solver.prototxt 'base_lr: 0.05' 'lr_policy: "fixed"' 'momentum: 0' 'weight_decay: 0' 'max_iter: 20' 'display: 1' \
    'average_loss: 1' "snapshot_prefix: \"$work/s\"" 'snapshot: 20'

# run NAME RANKS OPTION...: its losses in NAME.csv, its parameters in NAME.h5
run() {
    name=$1 ranks=$2
    shift 2
    rm -f s_iter_*
    train "$ranks" "$name.log" --solver=solver.prototxt --global-batch=12 --curves="$name.csv" "$@" ||
        { fail "$name: status $?"; tail -n 3 "$name.log"; return; }
    mv s_iter_20.caffemodel.h5 "$name.h5"
}
# losses NAME: iteration and loss, without the columns of times
losses() { "$python" -c 'import csv, sys; [print(r["iteration"], r["loss"]) for r in csv.DictReader(open(sys.argv[1]))]' "$1.csv"; }
cat >judge.py <<'END'
"""judge.py NAME...: numpy's training from the same weights, in float64, beside each run's losses and statistics."""
import csv, sys
import h5py, numpy as np

def net(p, x, y, eps=(1e-5, 1e-3, 1e-5)):
    def bn(v, e):
        axes = (0, 2, 3) if v.ndim == 4 else (0,)
        m, s = v.mean(axes, keepdims=True), v.var(axes, keepdims=True)
        return (v - m) / np.sqrt(s + e), m, s, axes
    def back(dy, h, s, e, axes):
        return (dy - dy.mean(axes, keepdims=True) - h * (dy * h).mean(axes, keepdims=True)) / np.sqrt(s + e)
    c = lambda v: v.reshape(1, -1, 1, 1)
    h1, *one = bn(x, eps[0])
    a1 = h1 * c(p["sc1/0"]) + c(p["sc1/1"])
    w = p["conv/0"][:, :, 0, 0]
    v = np.einsum("oc,nchw->nohw", w, a1)
    h2, *two = bn(v, eps[1])
    t = np.tanh(h2 * c(p["sc2/0"]) + c(p["sc2/1"]))
    f = t.reshape(len(t), -1)
    u = f @ p["ip1/0"].T + p["ip1/1"]
    h3, *three = bn(u, eps[2])
    out = h3 @ p["ip2/0"].T + p["ip2/1"]
    d = (out - y) / len(x)
    g = {"ip2/0": d.T @ h3, "ip2/1": d.sum(0)}
    d = back(d @ p["ip2/0"], h3, three[1], eps[2], three[2])
    g |= {"ip1/0": d.T @ f, "ip1/1": d.sum(0)}
    d = (d @ p["ip1/0"]).reshape(t.shape) * (1 - t * t)
    g |= {"sc2/0": (d * h2).sum((0, 2, 3)), "sc2/1": d.sum((0, 2, 3))}
    d = back(d * c(p["sc2/0"]), h2, two[1], eps[1], two[2])
    g["conv/0"] = np.einsum("nohw,nchw->oc", d, a1)[:, :, None, None]
    d = np.einsum("oc,nohw->nchw", w, d)
    g |= {"sc1/0": (d * h1).sum((0, 2, 3)), "sc1/1": d.sum((0, 2, 3))}
    counts = [x.size / x.shape[1], v.size / v.shape[1], len(u)]
    stats = [(m.ravel(), s.ravel() * n / (n - 1)) for (m, s, _), n in zip((one, two, three), counts)]
    return ((out - y) ** 2).sum() / 2 / len(x), g, stats

with h5py.File("data.h5") as f:
    x, y = f["x"][()].astype("f8"), f["y"][()].astype("f8")
layers = ("sc1/0", "sc1/1", "conv/0", "sc2/0", "sc2/1", "ip1/0", "ip1/1", "ip2/0", "ip2/1")
with h5py.File("start.h5") as f:
    p = {l: f["data"][l][()].astype("f8") for l in layers}
losses, running = [], [[0, 0, 0] for _ in range(3)]
for _ in range(20):
    loss, g, stats = net(p, x, y)
    losses.append(loss)
    for r, (m, s), fraction in zip(running, stats, (0.999, 0.9, 0.999)):
        r[:] = [fraction * r[0] + m, fraction * r[1] + s, fraction * r[2] + 1]
    p = {l: p[l] - 0.05 * g[l] for l in layers}
for name in sys.argv[1:]:
    rows = [float(r["loss"]) for r in csv.DictReader(open(name + ".csv")) if r.get("loss")]
    off = np.abs(np.array(rows) / np.array(losses) - 1).max()
    assert len(rows) == 20 and off < 1e-5, (name, len(rows), off)
    with h5py.File(name + ".h5") as f:
        for l in layers:
            off = np.abs(f["data"][l][()] - p[l]).max() / max(np.abs(p[l]).max(), 0.1)  # a bias below BatchNorm stays near 0
            assert off < 1e-4, (name, l, off)
        for b, r in zip(("bn1", "bn2", "bn3"), running):
            for i in range(3):
                off = np.abs(f["data"][b][str(i)][()] - r[i]).max() / max(np.abs(r[i]).max(), 1)
                # a GPU subtracts a mean of float: 300 within 2e-5, where the deviation is 0.1
                assert off < (1e-3 if name.startswith("gpu") else 1e-5), (name, b, i, off)
END
train 1 start.log --solver=solver.prototxt --max-iter=1 --set base_lr=0 --set snapshot=1 || fail 'start'
mv s_iter_1.caffemodel.h5 start.h5
run one 1 --sync-bn
run plain 1
losses one >one.losses && losses plain | cmp - one.losses || fail 'on one rank the option changes numbers'
run two 2 --sync-bn --hierarchy=off
run three 3 --sync-bn --comm=allreduce
run four 4 --sync-bn --hierarchy=2 --comm=sfb
run again 4 --sync-bn --hierarchy=2 --comm=sfb
run servers 4 --sync-bn --servers=1 --comm=ps
run unlike 3 --sync-bn --balance=1,3,2 --comm=sfb
run passes 2 --sync-bn --set iter_size=1 --on-nan=skip
"$python" judge.py one two three four servers unlike passes || fail 'not what the whole batch gives'
losses four >four.losses && losses again | cmp - four.losses && "$python" - <<'END' || fail 'two runs differ'
import h5py
one, other = h5py.File("four.h5")["data"], h5py.File("again.h5")["data"]
one.visititems(lambda name, v: None if isinstance(v, h5py.Group) else exec("assert (v[()] == other[name][()]).all(), name"))
END
run apart 2 --hierarchy=off
"$python" judge.py apart 2>/dev/null && fail 'ranks that normalise alone look like the whole batch'
grep -q 'BatchNorm over 2 workers: in each pass, 3 layers add up statistics, 13 values at most' two.log || fail 'nothing is said of it'

# it needs workers in step
refuses() {
    text=$1
    shift
    train 2 no.log --solver=solver.prototxt --sync-bn "$@" && fail "taken: $*"
    grep -q "^poseidon train: .*$text" no.log && [ "$(grep -c '^poseidon train: ' no.log)" = 1 ] || { fail "$*"; tail -n 3 no.log; }
}
refuses 'not with --sync-bn' --reproducible --global-batch=12
refuses 'sync-bn .* not with --tune=drop-stragglers' --comm=ps --tune=drop-stragglers=1
refuses 'sync-bn .* not with --tune=staleness' --comm=ps --tune=staleness=1
refuses 'sync-bn .* not with --comm=none' --comm=none
sed '/BatchNorm/d; s/"bn1"/"x"/; s/bottom: "bn2"/bottom: "conv"/; s/bottom: "bn3"/bottom: "ip1"/' net.prototxt | grep -v '"sc' >bare.prototxt
sed 's/net.prototxt/bare.prototxt/' solver.prototxt >bare_solver.prototxt
train 2 bare.log --solver=bare_solver.prototxt --sync-bn --max-iter=1 || { fail 'without BatchNorm'; tail -n 3 bare.log; }
grep -q 'sync-bn: no BatchNorm of the net' bare.log || fail 'nothing is said of a net without BatchNorm'
# The last test is of the statistics that the last snapshot has, though the last loss that is shown takes a pass in between.
make_solver last.prototxt 'lr_policy: "fixed"' 'max_iter: 10' 'display: 5' 'test_iter: 1' 'test_interval: 10' \
    'test_initialization: false' "snapshot_prefix: \"$work/last\""
last() { # RANKS OPTION...
    ranks=$1
    shift
    rm -f last_iter_* last.run
    train "$ranks" last.log --solver=last.prototxt "$@" || { fail "last test: $ranks $*"; tail -n 3 last.log; return; }
    "$POSEIDON" test --model=net.prototxt --weights=last_iter_10.caffemodel.h5 --iterations=1 >test.log 2>&1
    same "last test, $ranks $*" "$(sed -n 's/.* Loss: //p' test.log)" "$(sed -n 's/.*Test net output #0: loss = \([^ ]*\).*/\1/p' last.log)"
}
last 1
last 2 --sync-bn --global-batch=12
last 1 --reproducible=3 --global-batch=12
# Without it ranks differ, which is said once; not of one rank, nor of statistics that are fixed.
own='BatchNorm: each of 2 workers normalises by its own samples; --sync-bn normalises over all workers'
train 2 own.log --solver=solver.prototxt --max-iter=1
same 'statistics of each rank are told of' 1 "$(grep -c -e "$own" own.log)"
train 2 own.log --solver=solver.prototxt --max-iter=1 --sync-bn
train 1 one.log --solver=solver.prototxt --max-iter=1
grep -e 'normalises by its own samples' own.log one.log && fail 'statistics of all, or of one rank, are told of'

# an engine with memory of its own
POSEIDON=${abs_top_builddir:?}/tests/cuda/poseidon
[ -x "$POSEIDON" ] || { echo "without CUDA there is no emulated GPU: its cases are left out"; finish; }
run gpu 1 --engine=cuda --math=fp32 --sync-bn
run gpus 3 --engine=cuda --math=fp32 --tune=share-gpu --sync-bn --comm=ps
"$python" judge.py gpu gpus || fail 'GPUs: not what the whole batch gives'
finish
