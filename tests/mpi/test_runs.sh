#!/bin/sh
# Whose snapshots --resume goes on from: a run's own and no other's, so that no job ends as a success with the
# model of another; one run at a time under a prefix; ranks that read other data.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 20' 'snapshot: 5' "snapshot_prefix: \"$work/run\""

# runs STATUS TEXT OPTION...: the training ends so, and says TEXT ("" for nothing in particular).
runs() {
    expected=$1 text=$2
    shift 2
    train 2 run.log --solver=solver.prototxt --batch=8 --threads=1 "$@"
    status=$?
    [ $status -eq "$expected" ] || { fail "$*: exit status $status, expected $expected"; tail -n 3 run.log; }
    [ -z "$text" ] || grep -q -e "$text" run.log || { fail "$*: '$text' is not said"; grep -e 'poseidon train' -e Resum run.log; }
}

figure() { # KEY
    sed -n "s/^$1	//p" run.run
}

# Yesterday's run, to its end; then a new job under the same prefix that never got to a snapshot.
runs 0 "Run '" --summary=old.json
old=$(figure run)
[ "$(figure end)" = 'done' ] && [ "$(figure iteration)" = 20 ] || fail "PREFIX.run of a finished run: $(head -n 9 run.run)"
runs 0 "Ignoring 4 snapshots of other runs (newest: .*run_iter_20.solverstate.h5 of run '$old'); this run is 'new'" \
    --run=new --resume --summary=new.json --max-iter=10
[ "$(json_value new.json first_iteration)" = 0 ] || fail 'a new run goes on from the old one'
# started again, it goes on from its own, though the old run's are newer; at its end it is at its end
runs 0 'Resuming from .*run_iter_10.solverstate.h5' --run=new --resume --max-iter=12
runs 0 'Resuming from .*run_iter_12.solverstate.h5' --run=new --resume --max-iter=12
runs 1 'run_iter_12.solverstate.h5 already belongs to a run of that name' --run=new

# The file tells which run is meant where nobody says so; a finished run is not taken for a new one's.
runs 0 "the snapshot is of iteration 12, and training ends with iteration 12. Run 'new' is finished, and no file is written. To train on, raise max_iter" --resume --max-iter=12
runs 0 'Resuming from .*run_iter_12.solverstate.h5' --resume --max-iter=14
# What it trains: another seed, rate, net, data. The first that differs is named.
runs 1 "run.run is of run 'new', which trains something else (random_seed: 1 there, 2 here)" --resume --set random_seed=2
make_solver rate.prototxt 'max_iter: 20' 'base_lr: 0.02' "snapshot_prefix: \"$work/run\""
runs 1 '(base_lr: 0.01 there, 0.02 here)' --resume --solver=rate.prototxt
cp net.prototxt kept.prototxt
sed -i 's/num_output: 500/num_output: 400/' net.prototxt
runs 1 "(net: layer 'ip1' inner_product_param.num_output: 500 there, 400 here)" --resume
sed 's|fashion-mnist-train|fashion-mnist-test|' kept.prototxt >net.prototxt
runs 1 "(data of layer '.*': records: [0-9]* there, [0-9]* here)" --resume
cp kept.prototxt net.prototxt
# what may change: how far, what is shown, tested and saved
make_solver solver.prototxt 'max_iter: 16' 'snapshot: 8' 'display: 2' "snapshot_prefix: \"$work/run\""
runs 0 'Resuming from .*run_iter_14.solverstate.h5' --resume

# --snapshot=FILE goes on from any state, as a run of its own.
runs 0 'Resuming from .*run_iter_20.solverstate.h5' --snapshot="$work/run_iter_20.solverstate.h5" --set random_seed=2 --max-iter=22
[ "$(figure run)" != "$old" ] || fail "--snapshot went on with run $old"
old=$(figure run)
# Without its file a run is known by its newest snapshot.
rm run.run
runs 1 "run_iter_22.solverstate.h5 is of run '$old', which trains something else" --resume --max-iter=24
runs 0 'Resuming from .*run_iter_22.solverstate.h5' --resume --max-iter=24 --set random_seed=2
# The binary form says whose it is, too.
make_solver binary.prototxt 'max_iter: 4' 'snapshot_format: BINARYPROTO' "snapshot_prefix: \"$work/binary\""
runs 0 '' --solver=binary.prototxt --run=first
rm binary.run
runs 0 "Ignoring 1 snapshot of other runs (newest: .*binary_iter_4.solverstate of run 'first')" --solver=binary.prototxt --run=second --resume --max-iter=2
rm -f binary.run binary_iter_2.*
runs 0 "Run 'first' is finished" --solver=binary.prototxt --resume
# A model that another run has written over since does not go with its state.
cp binary_iter_4.solverstate kept.state
runs 0 '' --solver=binary.prototxt --run=third
cp kept.state binary_iter_4.solverstate
runs 1 "binary_iter_4.caffemodel: the model is from run 'third', but its state from run 'first': one file was overwritten" \
    --solver=binary.prototxt --snapshot=binary_iter_4.solverstate --max-iter=6

# A newest snapshot that is damaged: the one before it, and which it is. None that can be read: no new start.
make_solver solver.prototxt 'max_iter: 20' 'snapshot: 5' "snapshot_prefix: \"$work/run\""
rm -f run_iter_* run.run
runs 0 '' --max-iter=15
printf x | dd of=run_iter_15.solverstate.h5 bs=1 seek=3000 conv=notrunc 2>/dev/null
runs 0 'Ignoring .*run_iter_15.solverstate.h5: ' --resume --summary=fallback.json
[ "$(json_value fallback.json first_iteration)" = 10 ] || fail 'no fall back to the snapshot before the damaged one'
rm -f run_iter_20.* run_iter_5.*
for file in run_iter_*.caffemodel.h5; do
    printf x | dd of="$file" bs=1 seek=3000 conv=notrunc 2>/dev/null
done
runs 1 'none of [0-9]* snapshots of run .* can be read' --resume --max-iter=30

# Three starts that come to nothing are enough. (Each is to get no further, however long it lives.)
rm -f run_iter_* run.run
make_solver solver.prototxt 'max_iter: 1000000' "snapshot_prefix: \"$work/run\""
for start in 1 2 3; do
    [ $start -eq 1 ] || sed -i 's/^furthest.*/furthest\t900000/' run.run
    begin 2 start.log --solver=solver.prototxt --resume
    await 'Solving'
    # a second job meanwhile
    [ $start -ne 2 ] || runs 1 'run.lock: run .* writes snapshots under this prefix'
    kill -9 "$(cat pid.0)" "$(cat pid.1)"
    wait
done
[ -f run.lock ] || fail 'a killed run leaves no lock: the test tests nothing'
runs 1 "was started 3 times at iteration 0 and neither got further nor wrote a later snapshot" --resume
grep -q 'run.lock: the lock of run .* is stale: taking the lock over' run.log || fail 'a stale lock is not told of'
[ ! -f run.lock ] || fail 'a run that failed at its start keeps the prefix'
# a start that got further than those before it is no such start
sed -i 's/^last_reached.*/last_reached\t900001/; s/^last_seen.*/last_seen\t4e9/' run.run
begin 2 start.log --solver=solver.prototxt --resume
await 'Solving'
grep -q '^starts.1$' run.run && grep -q '^furthest.900001$' run.run || fail "a start that got further: $(cat run.run)"
kill -9 "$(cat pid.0)" "$(cat pid.1)"
wait
rm run.run

# What starts took, and what was done twice, in the summary and the log. The lock has a killed start's pulse.
rm -f run_iter_* run.run
make_solver solver.prototxt 'max_iter: 1000000' 'snapshot: 100' "snapshot_prefix: \"$work/run\""
begun=$(date +%s)
begin 2 start.log --solver=solver.prototxt --keep=2
await_file() { # COMMAND...: until it succeeds
    n=0
    until "$@" || [ $n -eq 1200 ]; do n=$((n + 1)) && sleep 0.05; done
}
pulse_is_past() { [ "$(awk '$1 == "pulse" { print $3 % 100 > 0 && $3 > 100 }' run.lock 2>/dev/null)" = 1 ]; }
await_file pulse_is_past
kill -9 "$(cat pid.0)" "$(cat pid.1)"
wait
reached=$(awk '$1 == "pulse" { print $3 }' run.lock)
last=$(sed -n 's/^iteration.//p' run.run)
runs 0 'All 2 starts of this run took .* % training (goodput), .* % training again' --resume --max-iter=$((last + 200)) --summary=twice.json
last=$(json_value twice.json first_iteration)
again=$(json_value twice.json repeated_iterations)
took=$(($(date +%s) - begun))
same 'number of starts' 2 "$(json_value twice.json starts)"
[ "$again" = $((reached > last ? reached - last : 0)) ] || fail "$again iterations done twice, of $reached with a snapshot at $last"
for figure in goodput training_seconds starting_seconds waiting_seconds saving_seconds repeated_seconds; do
    printf '%s %s\n' $figure "$(json_value twice.json $figure)"
done | awk -v took="$took" -v again="$again" '{ v[$1] = $2 }
    END { all = v["training_seconds"] + v["starting_seconds"] + v["waiting_seconds"] + v["saving_seconds"] + v["repeated_seconds"]
        d = v["goodput"] - v["training_seconds"] / all
        exit !(all > 0 && all < took + 2 && d * d < 1e-6 && v["starting_seconds"] > 0 && (v["repeated_seconds"] > 0) == (again > 0)) }' ||
    fail "the parts of $took s: $(tr -d '\n' <twice.json | sed 's/.*"all_starts"//; s/}.*//')"
rm -f run_iter_* run.run
runs 0 '' --resume --max-iter=2

# On another number of ranks: the same samples in the same order. 4 ranks, then 2, then 5: but for the order of
# sums the parameters of 4 ranks throughout, so the losses agree to many digits.
make_solver ranks.prototxt 'max_iter: 18' 'snapshot: 6' 'display: 1' "snapshot_prefix: \"$work/ranks\""
sed -i 's/batch_size: [0-9]*/batch_size: 6/' net.prototxt
losses() { # LOG
    sed -n 's/.*Iteration \([0-9]*\) (.*, loss = \([0-9.e+-]*\).*/\1 \2/p' "$1"
}
train 4 whole.log --solver=ranks.prototxt --threads=1 || fail '4 ranks throughout'
losses whole.log >whole.txt
[ "$(wc -l <whole.txt)" -eq 18 ] || fail "the run of 4 ranks shows $(wc -l <whole.txt) losses"
rm -f ranks_iter_* ranks.run
: >parts.txt
for part in '4 6' '2 12' '5 18'; do
    train "${part% *}" part.log --solver=ranks.prototxt --threads=1 --resume --max-iter="${part#* }" || { fail "$part"; tail -n 3 part.log; }
    grep -q 'Effective batch = .* = 24 samples' part.log || fail "$part: $(grep 'Effective batch' part.log)"
    losses part.log >>parts.txt
done
awk 'NR == FNR { loss[$1] = $2; next }
    { n++; d = $2 - loss[$1]; if (d < 0) d = -d; if (!($1 in loss) || d > 1e-4 * loss[$1]) { print "iteration", $1, loss[$1], $2; bad = 1 } }
    END { exit bad || n != 18 }' whole.txt parts.txt || fail 'on 4, 2 and 5 ranks the losses are not those of 4 ranks'
train 4 part.log --solver=ranks.prototxt --threads=1 --resume --max-iter=20 --batch=7 || fail 'another batch'
grep -q 'The run took 24 samples an iteration, from here on 28; --global-batch=24 keeps the old number' part.log || fail 'a changed batch is not told of'
train 3 part.log --solver=ranks.prototxt --threads=1 --resume --max-iter=22 --comm=none && fail '28 samples are shared by 3 ranks'
grep -q "the run's batch of 28 cannot be shared: 3 workers times iter_size 1 makes 3 shares; .* --global-batch=27" part.log || { fail 'samples that cannot be shared'; tail -n 2 part.log; }

# The plan stays the run's, whatever the cluster is measured as later; so do the bits.
make_solver planned.prototxt 'max_iter: 12' "snapshot_prefix: \"$work/planned\""
train 3 plan.log --solver=planned.prototxt --batch=8 --comm=auto --tune=cluster-file=fast --summary=planned-a.json || { fail 'a planned run'; tail -n 3 plan.log; }
sed 's/^latency_seconds = [^ ]*/latency_seconds = 0.02/; s/^link_bytes_per_second = [^ ]*/link_bytes_per_second = 1e6/' fast >slow
cmp -s fast slow && fail 'the figures of the cluster did not change'
rm -f planned_iter_* planned.run
train 3 plan.log --solver=planned.prototxt --batch=8 --comm=auto --tune=cluster-file=fast --max-iter=6 &&
    train 3 plan.log --solver=planned.prototxt --batch=8 --comm=auto --tune=cluster-file=slow --resume --summary=planned-b.json ||
    { fail 'a planned run goes on'; tail -n 3 plan.log; }
grep -q "Using the resumed run's schemes" plan.log || fail 'it is not said that the plan is kept'
[ "$(hash_of planned-a.json)" = "$(hash_of planned-b.json)" ] ||
    fail 'a resume by another cluster file ends in other bits'
train 3 plan.log --solver=planned.prototxt --batch=8 --comm=auto --tune=cluster-file=slow --resume --tune=measure --max-iter=14 || { fail '--tune=measure'; tail -n 3 plan.log; }
grep -q 'Measured this cluster' plan.log && ! grep -q "are those of the run that goes on" plan.log || fail '--tune=measure does not measure'

# Sizes that are given win over the plan's.
rm -f planned_iter_* planned.run
set -- --solver=planned.prototxt --batch=8 --comm=auto --tune=cluster-file=fast --hierarchy=off
train 3 plan.log "$@" --max-iter=3 && train 3 plan.log "$@" --max-iter=6 --resume --tune=chunk=1k --tune=merge=0 ||
    { fail 'a resumed run with given sizes'; tail -n 3 plan.log; }
grep -q "Using the resumed run's schemes" plan.log && grep -aq ' chunk 1024 merge 0 ' planned_iter_6.solverstate.h5 ||
    fail "given sizes: $(grep -ao ' chunk [0-9]* merge [0-9]*' planned_iter_6.solverstate.h5)"

# What a kill has left half written goes at the next start; files of other names stay.
: >planned_iter_9.solverstate.h5.tmp
: >unplanned_iter_9.solverstate.h5.tmp
train 1 plan.log --solver=planned.prototxt --batch=8 --max-iter=2 || { fail 'beside half a state'; tail -n 3 plan.log; }
[ ! -e planned_iter_9.solverstate.h5.tmp ] && [ -e unplanned_iter_9.solverstate.h5.tmp ] || fail "half a state: $(ls ./*.tmp)"

# A rank with another data set, of which the files say nothing.
make_solver other.prototxt 'max_iter: 2' 'snapshot_after_train: false'
mkdir elsewhere && sed 's|fashion-mnist-train|fashion-mnist-test|' net.prototxt >elsewhere/net.prototxt
sed "s|net: .*|net: \"$work/elsewhere/net.prototxt\"|" other.prototxt >elsewhere/other.prototxt
# shellcheck disable=SC2016 # every rank expands it
"$POSEIDON_MPIRUN" 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || cd elsewhere; exec "$0" "$@"' "$POSEIDON" train \
    --solver=other.prototxt --batch=8 >data.log 2>&1 </dev/null && fail 'ranks with other data are accepted'
grep -q "data of layer '.*': records differs: [0-9]* on rank 0; [0-9]* on rank 1" data.log || { fail 'ranks with other data are not told so'; tail -n 3 data.log; }
finish
