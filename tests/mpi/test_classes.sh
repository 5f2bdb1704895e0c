#!/bin/sh
# poseidon test makes one pass over the data, says so, and counts how well each class is known: the same on any number
# of ranks, and what NumPy counts.
set -u
. "$abs_top_srcdir/tests/mpi/common.sh"
[ -n "${POSEIDON_PYTHON:-}" ] || { echo 'no python3 with h5py'; exit 77; }
cd "$work" || exit 1

# 22 records whose values are the scores of 7 classes; one class never comes, names need quoting
"$POSEIDON_PYTHON" - <<'PY' || exit 1
import h5py, numpy as np
rng = np.random.RandomState(3)
data, label = rng.rand(22, 7).astype('f4'), rng.randint(0, 6, 22)
data[np.arange(22), label] += 0.35
data[5, :] = 0.5  # ties are no hits
with h5py.File('scores.h5', 'w') as f:
    f['data'], f['label'] = data.reshape(22, 7, 1, 1), label.astype('i4')
    f.attrs['classes'] = np.array([b'ash', b'oak, red', b'the "elm"', b'fir', b'yew', b'box', b'none'])
confusion = np.zeros((7, 7), int)
five = np.zeros(7, int)
for row, true in zip(data, label):
    better = [k for k in range(7) if k != true and row[k] >= row[true]]
    confusion[true, max(better, key=lambda k: (row[k], -k)) if better else true] += 1
    five[true] += len(better) < 5
np.savetxt('expected.csv', confusion, '%d', ',')
with open('expected.txt', 'w') as f:
    for k, name in enumerate(['ash', 'oak, red', 'the "elm"', 'fir', 'yew', 'box']):
        n = confusion[k].sum()
        f.write('%-24s %8d %7.1f %% %7.1f %%\n' % (name, n, 100. * confusion[k, k] / n, 100. * five[k] / n))
    f.write('%-24s %8d %7.1f %% %7.1f %%\n' % ('all', 22, 100. * confusion.trace() / 22, 100. * five.sum() / 22))
    print(round(confusion.trace() / 22., 6), file=open('accuracy', 'w'))
PY
cat >net.prototxt <<'NET'
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "scores.h5" batch_size: 4 } }
layer { name: "same" type: "Scale" bottom: "data" top: "same" scale_param { filler { value: 1 } } }
layer { name: "accuracy" type: "Accuracy" bottom: "same" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "same" bottom: "label" top: "loss" }
NET
printf 'net: "net.prototxt"\nbase_lr: 0\nlr_policy: "fixed"\nmax_iter: 1\nsnapshot_prefix: "w"\n' >solver.prototxt
timeout 100 "$POSEIDON" train --solver=solver.prototxt >train.log 2>&1 || { cat train.log; exit 1; }

# scores RANKS OPTION...
scores() {
    ranks=$1
    shift
    timeout 100 "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" test --model=net.prototxt --weights=w_iter_1.caffemodel "$@" >out.json 2>test.log
}
for ranks in 1 2 3; do
    scores $ranks --classes --confusion=c$ranks.csv --json || { fail "$ranks ranks"; cat test.log; }
    grep -q 'Running for 6 iterations of 4, the last one of 2: 22 records, 1 pass\.' test.log || fail "$ranks ranks: the pass is not said"
    grep -q 'Loading weights from w_iter_1.caffemodel' test.log && ! grep -q Finetuning test.log || fail "$ranks ranks: whose weights"
    sed -n '/^class  *samples/,/^all /p' test.log | tail -n +2 | cmp - expected.txt || { fail "$ranks ranks: another table"; cat test.log; }
    head -n 1 c$ranks.csv | grep -qx 'label,ash,"oak, red","the ""elm""",fir,yew,box,none' || fail "$ranks ranks: names: $(head -n 1 c$ranks.csv)"
    "$POSEIDON_PYTHON" -c '
import csv, json, sys
rows = list(csv.reader(open(sys.argv[1])))[1:]
expected = list(csv.reader(open("expected.csv")))
assert [row[1:] for row in rows] == expected, rows
out = json.load(open("out.json"))
assert abs(out["test"]["accuracy"] - float(open("accuracy").read())) < 1e-5
assert [[str(n) for n in row] for row in out["confusion"]] == expected, out["confusion"]
assert [one["number"] for one in out["classes"]] == list(range(7))
assert [one["label"] for one in out["classes"]] == [one["class"] for one in out["classes"]] == ["ash", "oak, red", "the \"elm\"", "fir", "yew", "box", "none"]
said = ["%-24s %8d %7.1f %% %7.1f %%\n" % (one["label"], one["samples"], 100 * one["accuracy"], 100 * one["top_5"])
        for one in out["classes"] if one["samples"]]
assert said == open("expected.txt").readlines()[:-1], said
assert out["classes"][6] == {"class": "none", "number": 6, "label": "none", "samples": 0, "accuracy": None, "top_5": None}
' c$ranks.csv || fail "$ranks ranks: another confusion"
done
# a batch of one's own; without --json the table is what is printed
scores 2 --classes --batch=11 || fail 'batch of 11'
grep -q 'Running for 2 iterations of 11: 22 records, 1 pass\.' test.log || { fail 'a pass of whole batches is not said'; cat test.log; }
tail -n +2 out.json | cmp - expected.txt || fail 'samples are counted twice'
grep -q '^class  *samples' test.log && fail 'the table is not on standard output alone'
scores 1 --iterations=3 || fail '3 iterations'
grep -q 'Running for 3 iterations of 4: 0.5455 passes over 22 records\.' test.log || fail 'part of a pass is not said'
scores 1 --confusion=c1.csv && fail 'a file is replaced'
grep -q 'c1.csv exists already; --force replaces it' test.log || fail 'the file that exists is not named'
# a label that Accuracy passes over is in no table, though the loss behind it counts the label: table and line are one number
sed 's/type: "Accuracy"/& accuracy_param { ignore_label: 2 }/' net.prototxt >ignore.prototxt
for ranks in 1 2; do
    timeout 100 "$POSEIDON_MPIRUN" $ranks "$POSEIDON" test --model=ignore.prototxt --weights=w_iter_1.caffemodel --classes --json >out.json 2>test.log || { fail 'a label that does not count'; cat test.log; }
    "$POSEIDON_PYTHON" -c '
import json, numpy as np
count = np.loadtxt("expected.csv", int, delimiter=",")
count[2] = 0
out = json.load(open("out.json"))
assert abs(out["test"]["accuracy"] - count.trace() / float(count.sum())) < 1e-6, out
assert out["confusion"] == count.tolist(), out
assert "all %29d %7.1f %%" % (count.sum(), 100. * count.trace() / count.sum()) in open("test.log").read()' || { fail 'a label that does not count is in the table'; cat test.log; }
done
# names of variable length, as h5py writes a list of them
"$POSEIDON_PYTHON" -c 'import h5py
with h5py.File("scores.h5", "a") as f:
    f.attrs["classes"] = [name.decode() for name in f.attrs["classes"]]
    assert h5py.h5a.open(f.id, b"classes").get_type().is_variable_str()' || exit 1
scores 1 --confusion=long.csv || { fail 'names of variable length'; cat test.log; }
cmp -s c1.csv long.csv || fail "names of variable length are not read: $(head -n 1 long.csv)"
# ---- as many outputs as the data have classes: fewer are refused, more are said once ----
# wide N: the net with N outputs in outN.prototxt, its solver in outN.solver
wide() {
    sed "s/^layer { name: \"same\".*/layer { name: \"last\" type: \"InnerProduct\" bottom: \"data\" top: \"same\"\n  inner_product_param { num_output: $1 weight_filler { type: \"xavier\" } } }/" \
        net.prototxt >"out$1.prototxt"
    sed "s/net.prototxt/out$1.prototxt/; s/\"w\"/\"out$1\"/" solver.prototxt >"out$1.solver"
    printf 'test_iter: 1\ntest_interval: 1\n' >>"out$1.solver"
}
wide 5; wide 7; wide 9
few="out5.prototxt:2: layer 'last' (InnerProduct): num_output is 5, but scores.h5 has 7 classes ('ash' to 'none'); expected num_output: 7 here"
many="layer 'last': num_output is 9, but scores.h5 has 7 classes: .*(num_output: 7 at out9.prototxt:2 fits)"
for ranks in 1 2; do
    for dry in '' --dry-run; do
        # shellcheck disable=SC2086 # none or one
        timeout 100 "$POSEIDON_MPIRUN" $ranks "$POSEIDON" train --solver=out5.solver $dry >train.log 2>&1 && fail "train $dry takes 5 outputs"
        [ "$(grep -c -F "poseidon train: $few" train.log)" -eq 1 ] || { fail "train $dry, $ranks ranks: not one message"; cat train.log; }
        # shellcheck disable=SC2086
        timeout 100 "$POSEIDON_MPIRUN" $ranks "$POSEIDON" train --solver=out9.solver --force $dry >train.log 2>&1 || { fail "train $dry refuses 9 outputs"; cat train.log; }
        [ "$(grep -c "$many" train.log)" -eq 1 ] || { fail "train $dry, $ranks ranks: 9 outputs are not said once"; cat train.log; }
    done
done
timeout 100 "$POSEIDON" train --solver=out7.solver >train.log 2>&1 || { fail '7 outputs'; cat train.log; }
grep -q 'num_output' train.log && { fail '7 outputs for 7 classes: a word'; cat train.log; }
for command in test classify; do
    timeout 100 "$POSEIDON" $command --model=out5.prototxt --weights=out7_iter_1.caffemodel $([ $command = test ] || echo some.jpg) >test.log 2>&1 && fail "$command takes 5 outputs"
    [ "$(grep -c -F "poseidon $command: $few" test.log)" -eq 1 ] || { fail "$command: not one message"; cat test.log; }
done
timeout 100 "$POSEIDON" test --model=out9.prototxt --weights=out9_iter_1.caffemodel >test.log 2>&1 || { fail 'test refuses 9 outputs'; cat test.log; }
[ "$(grep -c "$many" test.log)" -eq 1 ] || { fail 'test: 9 outputs are not said once'; cat test.log; }
sed -i 's/type: "SoftmaxWithLoss"/& loss_param { ignore_label: 6 }/; /Accuracy/d' out5.prototxt
timeout 100 "$POSEIDON" train --solver=out5.solver --dry-run >train.log 2>&1
grep -q 'num_output is' train.log && { fail 'a label that is ignored needs no output'; cat train.log; }
sed -i '/Accuracy\|SoftmaxWithLoss/d' net.prototxt
scores 1 --classes && fail 'a net without labels'
grep -q -e '--classes and --confusion: the TEST phase has no layer that compares scores with labels, such as Accuracy' test.log || { fail 'what is missing'; cat test.log; }
finish
