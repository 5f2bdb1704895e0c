#!/bin/sh
# --curves of both kinds: what the log shows, row by row; a run that goes on has no row twice; a file that
# cannot be written costs a message, not the run. The judges are the log and a reader of event files of the tests' own.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import struct' 2>/dev/null || { echo 'no Python'; exit 77; }
make_solver solver.prototxt 'max_iter: 12' 'display: 2' 'test_iter: 2' 'test_interval: 4' 'snapshot: 5' \
    "snapshot_prefix: \"$work/curves\""

# compare LOG CSV FOLDER: all values of the log, to six digits.
compare() {
    "$python" - "$@" "$abs_top_srcdir/tests/report" <<'END'
import csv, re, sys
sys.path.insert(0, sys.argv[4])
import read_events
shown = {}
for line in open(sys.argv[1]):
    m = re.search(r'Iteration (\d+) \(.*loss = (\S+)', line)
    if m:
        shown[int(m[1]), 'loss'] = m[2]
    m = re.search(r'Iteration (\d+), lr = (\S+)', line)
    if m:
        shown[int(m[1]), 'lr'] = m[2]
    m = re.search(r'Iteration (\d+), Testing', line)
    if m:
        test = int(m[1])
    m = re.search(r'Test net output #\d+: (\S+) = (\S+)', line)
    if m:
        shown[test, 'test/' + m[1]] = m[2]
table, rows = {}, list(csv.DictReader(open(sys.argv[2])))
for row in rows:
    i = int(row['iteration'])
    for name in row:
        if row[name] != '' and (name in ('loss', 'lr') or name.startswith('test/')):
            assert (i, name) not in table, 'iteration %d has %s twice' % (i, name)
            table[i, name] = '%g' % float(row[name])
assert [int(r['iteration']) for r in rows] == sorted(int(r['iteration']) for r in rows), 'not in order'
seconds = [float(r['seconds']) for r in rows]
assert seconds == sorted(seconds), 'time goes back'
events = {}
for step, tag, value in read_events.read(sys.argv[3]):
    name = tag[6:] if tag in ('train/loss', 'train/lr') else tag
    if not name.startswith('train/'):
        assert (step, name) not in events, 'step %d has %s twice' % (step, name)
        events[step, name] = '%g' % value
for found, where in ((table, 'the CSV file'), (events, 'the event files')):
    for key in sorted(set(shown) | set(found)):
        assert key in shown and key in found and abs(float(shown[key]) - float(found[key])) <= 1e-5 * abs(
            float(shown[key])), '%s of iteration %d: the log has %s, %s %s' % (
            key[1], key[0], shown.get(key), where, found.get(key))
assert len(shown) == 2 * 6 + 2 * 4, 'the log has %d values' % len(shown)
END
}

for ranks in 1 2; do
    rm -rf curves.csv events curves_iter_* curves.run
    train $ranks whole.log --solver=solver.prototxt --global-batch=24 --curves=curves.csv --curves=events || { fail "$ranks ranks"; tail whole.log; }
    compare whole.log curves.csv events || { fail "$ranks ranks: the values"; cat curves.csv; }
    head -n 1 curves.csv | grep -qx 'iteration,epoch,seconds,images_per_second,loss,lr,test/accuracy,test/loss' ||
        fail "$ranks ranks: $(head -n 1 curves.csv)"
    # 24 of the training images an iteration
    sed -n '/^10,/p' curves.csv | awk -F, -v n="$("$python" -c "
import h5py; print(len(h5py.File('$abs_top_srcdir/data/fashion-mnist-train.h5')['label']))")" '
        { d = $2 - 240 / n; if (d * d > 1e-12) { print "epoch " $2; exit 1 } }' || fail "$ranks ranks: epoch"
    # from the snapshot at 5: rows from there on are written anew, and the rest stays
    rm curves_iter_10.* curves_iter_12.*
    sleep 1 # event files are told apart by the second
    train $ranks rest.log --solver=solver.prototxt --global-batch=24 --curves=curves.csv --curves=events --resume ||
        { fail "$ranks ranks, resumed"; tail rest.log; }
    compare whole.log curves.csv events || { fail "$ranks ranks, resumed: the values"; cat curves.csv; }
done
[ "$(ls events | wc -l)" = 2 ] || fail "event files: $(ls events)"
# a folder with event files is another run's; --force replaces them
set -- --solver=solver.prototxt --batch=8 --max-iter=1 --snapshot-prefix=other
"$POSEIDON_MPIRUN" 1 "$POSEIDON" train "$@" --curves=events >refused.log 2>&1 </dev/null && fail 'two runs in one folder'
grep -q -e '--curves=events holds events.out.tfevents.* of another run already: expected another folder; --force' refused.log ||
    { fail 'two runs in one folder'; tail refused.log; }
[ "$(ls events | wc -l)" = 2 ] || fail "event files, refused: $(ls events)"
train 1 forced.log "$@" --curves=events || { fail 'a folder by --force'; tail forced.log; }
[ "$(ls events | wc -l)" = 1 ] || fail "event files, --force: $(ls events)"

# refused before training
train 1 refused.log --solver=solver.prototxt --batch=8 --curves=nowhere/c.csv && fail 'a folder that is not there'
grep -q "nowhere/c.csv" refused.log || { fail 'a folder that is not there'; tail refused.log; }
train 1 refused.log --solver=solver.prototxt --batch=8 --curves=nowhere/events && fail 'a parent that is not there'
grep -q "cannot write 'nowhere/events/events.out" refused.log || { fail 'a parent'; tail refused.log; }
echo 'iteration,other' >curves.csv
train 1 refused.log --solver=solver.prototxt --global-batch=24 --curves=curves.csv \
    --snapshot="$work/curves_iter_5.solverstate.h5" && fail 'other columns'
grep -q 'curves.csv has other columns than this run (iteration,other): give --curves another name' refused.log ||
    { fail 'other columns'; tail refused.log; }
"$POSEIDON_MPIRUN" 1 "$POSEIDON" train --solver=solver.prototxt --batch=8 --curves=curves.csv >refused.log 2>&1 </dev/null &&
    fail 'a file that is there was replaced'
grep -q 'curves.csv.*--force' refused.log || { fail 'a file that is there'; tail refused.log; }
finish
