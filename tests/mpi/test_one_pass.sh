#!/bin/sh
# A test that goes through the data once counts each record once, though the batch does not divide them: in poseidon test
# and in the tests of training, at any number of ranks. poseidon test counts each label that counts once, too: its scores and
# losses are those of one batch with all records; tests of training are means over batches, as Caffe's. Tests of less than
# the data are Caffe's, of more are said. NumPy is the judge.
set -u
. "$abs_top_srcdir/tests/mpi/common.sh"
[ -n "${POSEIDON_PYTHON:-}" ] || { echo 'no python3 with h5py'; exit 77; }
cd "$work" || exit 1

# 22 records whose values are the scores of 5 classes, sorted by class
"$POSEIDON_PYTHON" - <<'PY' || exit 1
import h5py, numpy as np
rng = np.random.RandomState(7)
data, label = rng.randn(22, 5).astype('f4'), np.sort(rng.randint(0, 5, 22))
data[np.arange(22), label] += np.linspace(-1, 3, 22)
with h5py.File('scores.h5', 'w') as f:
    f['data'], f['label'] = data.reshape(22, 5, 1, 1), label.astype('i4')
# 12 records of two places each, with labels 0 to 2 and 7, which does not count: batches of 4 have 0, 7 and 2 that do
data = rng.randn(12, 3, 2).astype('f4')
label = np.full((12, 2), 7.)
label[4:8] = [[0, 1], [1, 1], [7, 2], [0, 2]]
label[9] = 1
with h5py.File('places.h5', 'w') as f:
    f['x'], f['y'] = data, label.astype('f4')
    f['target'] = np.where(rng.rand(12, 3, 2) < .3, 7, rng.randint(0, 2, (12, 3, 2))).astype('f4')
open('places', 'w').write('places.h5\n')
PY
cat >expect.py <<'PY'
"""expect.py FIRST BATCHES SIZE [labels]: what a test of so many batches from that record on puts out; of one pass, the last
batch ends with the data. labels: the mean over the labels that count, in place of the batches' mean."""
import h5py, numpy as np, sys
first, batches, size = map(int, sys.argv[1:4])
with h5py.File('scores.h5') as f:
    data, label = np.float64(f['data'][:].reshape(22, 5)), f['label'][:]
once = (batches - 1) * size < 22 < batches * size
rows = []
for b in range(batches):
    at = np.arange(first + b * size, first + (b + 1) * size)
    at = (at[at < first + 22] if once else at) % 22
    x, y = data[at], label[at]
    nll = np.log(np.exp(x).sum(1)) - x[np.arange(len(y)), y]
    counts = y != 4
    row = {'accuracy': (x.argmax(1) == y).mean(), 'all': nll.mean(), 'euclid': (x ** 2).sum() / 2 / len(y),
           'ignoring': nll[counts].sum() / max(1, counts.sum()), 'sum': nll.sum() * (size / len(y))}
    rows.append((row, len(y), counts.sum() if sys.argv[4:] else len(y)))
for key in sorted(rows[0][0]):
    row = [(row[key], m if key == 'ignoring' else n) for row, n, m in rows]
    print('%s %.6g' % (key, sum(value * n for value, n in row) / sum(n for value, n in row)))
PY
cat >net.prototxt <<'NET'
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "scores.h5" batch_size: 6 } }
layer { name: "same" type: "Scale" bottom: "data" top: "same" scale_param { filler { value: 1 } } }
layer { name: "flat" type: "Flatten" bottom: "same" top: "flat" }
layer { name: "zero" type: "Power" bottom: "flat" top: "zero" power_param { scale: 0 } }
layer { name: "accuracy" type: "Accuracy" bottom: "flat" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "all" type: "SoftmaxWithLoss" bottom: "flat" bottom: "label" top: "all" }
layer { name: "ignoring" type: "SoftmaxWithLoss" bottom: "flat" bottom: "label" top: "ignoring" loss_param { ignore_label: 4 } include { phase: TEST } }
layer { name: "sum" type: "SoftmaxWithLoss" bottom: "flat" bottom: "label" top: "sum" loss_param { normalization: NONE } loss_weight: 0.5 include { phase: TEST } }
layer { name: "euclid" type: "EuclideanLoss" bottom: "flat" bottom: "zero" top: "euclid" include { phase: TEST } }
NET
cat >solver.prototxt <<'END'
net: "net.prototxt"
base_lr: 0
lr_policy: "fixed"
max_iter: 3
snapshot_prefix: "w"
END
timeout 100 "$POSEIDON" train --solver=solver.prototxt >train.log 2>&1 || { cat train.log; exit 1; }

# compare WHAT FIRST BATCHES SIZE: the lines "NAME VALUE" of found.txt with NumPy's, to 5 digits
compare() {
    what=$1
    shift
    "$POSEIDON_PYTHON" expect.py "$@" >expected.txt || exit 1
    sort found.txt | paste -d ' ' - expected.txt |
        awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 1e-9 * $4 ^ 2 { bad = 1 } END { exit bad || NR != 5 }' ||
        fail "$what: found $(tr '\n' ' ' <found.txt), expected $(tr '\n' ' ' <expected.txt)"
}

# ---- poseidon test ----
# scores RANKS OPTION...
scores() {
    ranks=$1
    shift
    timeout 100 "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" test --model=net.prototxt --weights=w_iter_3.caffemodel --json "$@" >out.json 2>test.log ||
        { fail "test, $ranks ranks $*"; cat test.log; }
    "$POSEIDON_PYTHON" -c 'import json
for item in json.load(open("out.json"))["test"].items():
    print("%s %.6g" % item)' >found.txt
}
for ranks in 1 2 3; do
    scores $ranks
    compare "test, $ranks ranks" 0 4 6 labels
    grep -q 'Running for 4 iterations of 6, the last one of 4: 22 records, 1 pass\.' test.log || { fail "$ranks ranks: the last batch is not said"; cat test.log; }
done
weighted=$(awk '$1 == "sum" { s += 0.5 * $2 } $1 ~ /^(all|ignoring|euclid)$/ { s += $2 } END { printf "%.4f", s }' expected.txt)
same 'the loss is of the same records' "$weighted" "$(json_value out.json loss | awk '{ printf "%.4f", $1 }')"
scores 2 --batch=64
compare 'a batch larger than the data' 0 1 64 labels
scores 1 --iterations=5
compare 'more than a pass' 0 5 6 labels
grep -q '1.364 passes over 22 records' test.log || fail 'more than a pass is not said'
scores 1 --iterations=3
compare 'less than a pass' 0 3 6 labels

# ---- labels that do not count ----
cat >places.prototxt <<'NET'
layer { name: "d" type: "HDF5Data" top: "x" top: "y" top: "target" hdf5_data_param { source: "places" batch_size: 4 } }
layer { name: "power" type: "Power" bottom: "x" top: "same" }
layer { name: "score" type: "Accuracy" bottom: "same" bottom: "y" top: "score" top: "class" accuracy_param { ignore_label: 7 } }
layer { name: "two" type: "Accuracy" bottom: "same" bottom: "y" top: "two" accuracy_param { ignore_label: 7 top_k: 2 } }
NET
for kind in SoftmaxWithLoss:y SigmoidCrossEntropyLoss:target; do
    for mode in VALID FULL BATCH_SIZE NONE; do
        echo "layer { name: '$kind$mode' type: '${kind%:*}' bottom: 'same' bottom: '${kind#*:}' top: '${kind#*:}$mode' loss_weight: 0.5
            loss_param { ignore_label: 7 normalization: $mode } }"
    done
done >>places.prototxt
# a loss without a top is no output
echo "layer { name: 'hidden' type: 'SoftmaxWithLoss' bottom: 'same' bottom: 'y' loss_param { ignore_label: 7 } }" >>places.prototxt
cat >places.py <<'PY'
"""places.py SIZE: the outputs and the loss of out.json are those of one batch with all 12 records; sums are of SIZE records."""
import h5py, json, numpy as np, sys
with h5py.File('places.h5') as f:
    x, y, t = (np.float64(f[name][:]) for name in ('x', 'y', 'target'))
s, y = x.transpose(0, 2, 1).reshape(24, 3), np.int64(y.reshape(24))
valid = y != 7
true = np.where(valid, y, 0)
ahead = (s > s[np.arange(24), true][:, None]).sum(1)
nll = (np.log(np.exp(s).sum(1)) - s[np.arange(24), true])[valid].sum()
bce = (np.log1p(np.exp(x)) - x * t)[t != 7].sum()
expected = {'score': (ahead == 0)[valid].mean(), 'two': (ahead < 2)[valid].mean(),
            'class': [(ahead == 0)[y == k].mean() for k in range(3)]}
for name, sum, count, places in (('y', nll, valid.sum(), 24), ('target', bce, (t != 7).sum(), 72)):
    for mode, divisor in ('VALID', count), ('FULL', places), ('BATCH_SIZE', 12), ('NONE', 12. / int(sys.argv[1])):
        expected[name + mode] = sum / divisor
out = json.load(open('out.json'))
assert out['test'].keys() == expected.keys(), out
for key, value in expected.items():
    assert np.abs(np.array(out['test'][key]) - value).max() < 1e-5, (key, out['test'][key], value)
loss = nll / valid.sum() + np.sum([.5 * value for key, value in expected.items() if key[0] in 'yt' and key != 'two'])
assert abs(out['loss'] - loss) < 1e-4, (out['loss'], loss)
PY
for size in 4 5; do
    for ranks in 1 2; do
        timeout 100 "$POSEIDON_MPIRUN" $ranks "$POSEIDON" test --model=places.prototxt --weights=w_iter_3.caffemodel --json --batch=$size >out.json 2>test.log ||
            { fail "labels that do not count, $ranks ranks"; cat test.log; }
        "$POSEIDON_PYTHON" places.py $size || fail "labels that do not count, batch $size, $ranks ranks"
    done
done

# ---- tests of training ----
# tested LOG ITERATION: that test's lines into found.txt
tested() {
    awk -v i="$2" '/Testing net/ { on = $0 ~ "Iteration " i "," } on && /Test net output/ { sub(/.*#[0-9]*: /, ""); print $1, $3 }' "$1" >found.txt
}
# trains NAME RANKS LINE...: the solver with these lines
trains() {
    name=$1 ranks=$2
    shift 2
    { cat solver.prototxt; printf '%s\n' "$@"; } >tests.solver
    timeout 100 "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" train --solver=tests.solver --force --snapshot-prefix=t >"$name.log" 2>&1 ||
        { fail "$name"; cat "$name.log"; }
}
for ranks in 1 2 3; do
    trains once $ranks 'test_iter: 4' 'test_interval: 1'
    for i in 0 1 2 3; do
        tested once.log $i
        compare "$ranks ranks, the test at $i" 0 4 6
    done
    grep -q 'Test net #0: a test is one pass over 22 records; its last batch has 4 samples' once.log || fail "$ranks ranks: the pass is not said"
done
# as Caffe: every test goes on where the one before ended, and the first reads the first records
trains part 2 'test_iter: 3' 'test_interval: 1'
for i in 0 1 2 3; do
    tested part.log $i
    compare "part of the data, the test at $i" $((18 * i)) 3 6
done
trains later 1 'test_iter: 3' 'test_interval: 1' 'test_initialization: false'
tested later.log 0
[ -s found.txt ] && fail 'there is a test at 0'
for i in 1 2 3; do
    tested later.log $i
    compare "test_initialization: false, the test at $i" $((18 * (i - 1))) 3 6
done
grep -q 'passes\|a test is' part.log later.log && fail 'a word about tests of less than the data'

# ---- many passes ----
many='tests.solver: test net #0: test_iter 40 x batch 6 are 10.91 passes over 22 records in every test; test_iter: 4 makes one pass'
trains many 2 'test_iter: 40' 'test_interval: 3'
same 'many passes are said once' 1 "$(grep -c "$many" many.log)"
timeout 100 "$POSEIDON" train --solver=tests.solver --dry-run >dry.log 2>&1 || { fail 'the dry run'; cat dry.log; }
same 'many passes are said by the dry run' 1 "$(grep -c "$many" dry.log)"
trains whole 1 'test_iter: 11' 'test_interval: 3' 'test_state { stage: "two" }'
grep -q 'passes' whole.log || fail 'three passes are not said'

# ---- nets that take no other batch ----
sed 's/^layer { name: "flat".*/layer { name: "flat" type: "Reshape" bottom: "same" top: "flat" reshape_param { shape { dim: 6 dim: 5 } } }/' net.prototxt >fixed.prototxt
sed -i 's/net.prototxt/fixed.prototxt/' solver.prototxt
trains fixed 2 'test_iter: 4' 'test_interval: 3'
twice='reaches over the end of the data and counts records twice; the net cannot run a smaller batch: fixed.prototxt:3: '
same 'a net of one batch is said once' 1 "$(grep -c "$twice" fixed.log)"
tested fixed.log 0
[ "$(wc -l <found.txt)" -eq 5 ] || { fail 'a net of one batch is not tested'; cat fixed.log; }
timeout 100 "$POSEIDON" test --model=fixed.prototxt --weights=w_iter_3.caffemodel >test.log 2>&1 || { fail 'test of a net of one batch'; cat test.log; }
same 'test says that records count twice' 1 "$(grep -c "$twice" test.log)"
# twice MESSAGE LAYER: the net with that layer more, too
twice() {
    { cat net.prototxt; echo "$2"; } >more.prototxt
    timeout 100 "$POSEIDON" test --model=more.prototxt --weights=w_iter_3.caffemodel >test.log 2>&1 || { fail "$1"; cat test.log; }
    same "$1" 1 "$(grep -c "counts records twice; the net cannot run a smaller batch: $1" test.log)"
}
twice 'its data layers differ in their records or batches' \
    'layer { name: "e" type: "Data" top: "x" top: "y" data_param { source: "scores.h5" batch_size: 5 } }'
twice 'its HDF5Output writes whole batches' \
    'layer { name: "o" type: "HDF5Output" bottom: "flat" bottom: "label" hdf5_output_param { file_name: "o.h5" } }'
# data that are all 0
sed 's/batch_size: 6 }/& transform_param { scale: 0 }/' net.prototxt >zeros.prototxt
timeout 100 "$POSEIDON" test --model=zeros.prototxt --weights=w_iter_3.caffemodel >test.log 2>&1 || { fail 'scale: 0'; cat test.log; }
same 'scale: 0 is said' 1 "$(grep -c "layer 'd'.*transform_param scale is 0: all values are 0" test.log)"
# an output for each sample: the mean of the batches that have it
cat >rows.prototxt <<'NET'
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "scores.h5" batch_size: 15 } }
layer { name: "one" type: "Reduction" bottom: "data" top: "one" reduction_param { axis: 1 } }
layer { name: "silent" type: "Silence" bottom: "label" }
NET
timeout 100 "$POSEIDON_MPIRUN" 2 "$POSEIDON" test --model=rows.prototxt --weights=w_iter_3.caffemodel --json >out.json 2>test.log ||
    { fail 'outputs for each sample'; cat test.log; }
"$POSEIDON_PYTHON" -c 'import h5py, json, numpy as np
sums = np.float64(h5py.File("scores.h5")["data"][:].reshape(22, 5)).sum(1)
part = 7. / 15
expected = np.append((sums[:7] + part * sums[15:]) / (1 + part), sums[7:15])
found = np.array(json.load(open("out.json"))["test"]["one"])
assert found.shape == (15,) and abs(found - expected).max() < 1e-5, (found, expected)' || fail 'the means of outputs for each sample'
same 'only what there is is printed' 22 "$(grep -c 'Batch [01], one = ' test.log)"
finish
