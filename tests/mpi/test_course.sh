#!/bin/sh
# A run that is told to stop in a test, or killed there, and goes on ends as the run that never stopped: the best net
# is the best test's, and --stop-after counts each test once. A test that is to be interrupted never ends by itself.
# Then what a resume refuses, passes over or says: pairs of files that are none, histories of other solvers, ends.
. "$abs_top_srcdir/tests/mpi/common.sh"

data_layer() { # PHASE SET BATCH
    echo "layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: $1 } transform_param { scale: 0.00390625 }
        data_param { source: '$abs_top_srcdir/data/fashion-mnist-$2.h5' batch_size: $3 backend: LMDB } }"
}

make_small_net() {
    {
        data_layer TRAIN train 8
        data_layer TEST test 100
        echo "layer { name: 'o' type: 'InnerProduct' bottom: 'data' top: 'o' inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }"
        echo "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'o' bottom: 'label' top: 'l' }"
        echo "layer { name: 'acc' type: 'Accuracy' bottom: 'o' bottom: 'label' top: 'acc' include { phase: TEST } }"
    } >net.prototxt
}

# the rate is ruin after iteration 30, so that the test there is the best
solver() { # LINE...
    make_solver solver.prototxt 'base_lr: 0.02' 'momentum: 0' 'lr_policy: "multistep"' 'gamma: 40' 'stepvalue: 30' 'max_iter: 60' \
        'test_interval: 10' 'test_iter: 4' 'test_initialization: false' 'random_seed: 3' "snapshot_prefix: \"$work/x\"" "$@"
}

# ends STATUS TEXT RANKS OPTION...: the training ends so, and says TEXT ("": nothing in particular).
ends() {
    expected=$1 text=$2 ranks=$3
    shift 3
    train "$ranks" run.log --solver=solver.prototxt --threads=1 "$@"
    status=$?
    [ $status -eq "$expected" ] || { fail "$*: exit status $status, expected $expected"; grep 'poseidon train' run.log; }
    [ -z "$text" ] || grep -q -e "$text" run.log || { fail "$*: '$text' is not said"; grep -e 'poseidon train' -e ' W ' run.log; }
}

# interrupted SIGNAL TEXT RANKS OPTION...: all ranks get the signal when the run says TEXT, in a test that has no end.
interrupted() {
    signal=$1 text=$2 ranks=$3
    shift 3
    log=stop.log
    rm -f pid.*
    : >$log
    # shellcheck disable=SC2016 # every rank expands it
    "$POSEIDON_MPIRUN" "$ranks" sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$0" "$@"' "$POSEIDON" train \
        --solver=solver.prototxt --threads=1 --set test_iter=1000000 "$@" >$log 2>&1 </dev/null &
    launcher=$!
    # shellcheck disable=SC2046 # one word a rank
    await "$text" && kill "-$signal" $(cat pid.*)
    wait $launcher
    status=$?
}

best() { # WHAT: the best is iteration 30's, by all that names it
    [ "$(sed -n 's/^best	//p' x.run)" = 30 ] || fail "$1: PREFIX.run says $(grep '^best' x.run)"
    [ "$(json_value run.json best_iteration)" = 30 ] || fail "$1: the summary says $(json_value run.json best_iteration)"
    for kind in caffemodel solverstate; do
        cmp "x_best.$kind.h5" "x_iter_30.$kind.h5" || fail "$1: x_best.$kind.h5 is not iteration 30's"
    done
}

anew() {
    rm -f x_iter_* x_best* x.run
}

make_small_net
keep='--keep-best --stop-after=3 --resume'
for ranks in 1 2; do
    anew
    solver 'max_iter: 200'
    # shellcheck disable=SC2086 # options
    ends 0 '3 tests in a row found no better acc than [0-9.]* of iteration 30' $ranks --summary=run.json $keep
    best 'never stopped'
    whole=$(hash_of run.json)
    same 'never stopped: iterations' 60 "$(json_value run.json iterations)"
    # shellcheck disable=SC2086 # why it ends at once is said again
    ends 0 '3 tests in a row found no better acc than [0-9.]* of iteration 30: --stop-after=3 ends training' $ranks $keep
    for how in TERM KILL after; do
        [ $how = TERM ] || [ $ranks = 1 ] || continue
        anew
        solver 'max_iter: 29'
        # shellcheck disable=SC2086
        ends 0 '' $ranks $keep
        solver 'max_iter: 200' 'snapshot: 30'
        case $how in
        TERM)
            # shellcheck disable=SC2086
            interrupted TERM 'Iteration 30, Testing' $ranks $keep
            [ $status -eq 75 ] || fail "SIGTERM in a test: exit status $status"
            ;;
        KILL) # the test begins when the snapshot of its iteration is on its way
            # shellcheck disable=SC2086
            interrupted KILL 'Snapshotting solver state to .*iter_30' $ranks $keep
            ;;
        after) # the snapshot of the best is written behind its test, and has the count of it
            solver 'max_iter: 30' 'snapshot: 1000' 'snapshot_after_train: false'
            # shellcheck disable=SC2086
            ends 0 'The best acc so far' $ranks $keep
            ;;
        esac
        [ -f x_iter_30.solverstate.h5 ] || fail "$how: no snapshot of iteration 30"
        solver 'max_iter: 200'
        # shellcheck disable=SC2086
        ends 0 '3 tests in a row found no better acc than [0-9.]* of iteration 30' $ranks --summary=run.json $keep
        best "$how, $ranks ranks"
        same "$how, $ranks ranks: iterations" 60 "$(json_value run.json iterations)"
        same "$how, $ranks ranks: parameters" "$whole" "$(hash_of run.json)"
    done
done

# A summary that cannot be written: the run is not over yet, and --resume writes it.
anew
solver 'max_iter: 12'
mkdir run.json.tmp
ends 1 'run.json' 2 --summary=run.json
rmdir run.json.tmp
ends 0 'Optimization Done' 2 --summary=run.json --resume
[ -n "$(hash_of run.json)" ] || fail 'a summary that could not be written: the resume has none'

# The last test: who is stopped in it has not finished; the resume runs that test alone.
anew
solver 'max_iter: 29'
ends 0 '' 2 --keep-best --resume
solver 'max_iter: 30'
interrupted TERM 'Iteration 30, Testing' 2 --keep-best --resume
[ $status -eq 75 ] || fail "SIGTERM in the last test: exit status $status"
grep -q '^end	stopped' x.run || fail "SIGTERM in the last test: $(grep '^end' x.run)"
cp x_iter_30.solverstate.h5 before.h5
ends 0 'Optimization Done' 2 --summary=run.json --keep-best --resume
best 'the last test'
cmp before.h5 x_iter_30.solverstate.h5 || fail 'the last test: its snapshot was written again'
grep -q 'Trained iterations' run.log && fail 'the last test: iterations were trained'
ends 0 "is finished, and no file is written. To train on, raise max_iter; to start again" 2 --keep-best --resume

# A kill between the two names of the best: they differ, and the next start makes them one pair.
ln -f x_iter_29.solverstate.h5 x_best.solverstate.h5
solver 'max_iter: 35'
ends 0 '' 1 --summary=run.json --keep-best --resume
best 'unlike names'

# Without --keep-best, too, a resumed run knows the best test.
anew
solver 'max_iter: 40'
ends 0 '' 1
solver
ends 0 'best test acc [0-9.]* at iteration 30$' 1 --resume

# Nothing is left to do: no file is touched.
listed() {
    ls --full-time x*
}
listed >before
for options in "--snapshot=$work/x_iter_40.solverstate.h5 --max-iter=30" "--snapshot=$work/x_iter_60.solverstate.h5 --max-iter=60" \
    "--resume --run=$(sed -n 's/^run	//p' x.run)"; do
    # shellcheck disable=SC2086
    ends 0 'Nothing is left to do: the snapshot is of iteration [46]0, and training ends with iteration [356]0' 2 $options
    listed >now
    cmp before now || { fail "$options: files were touched"; diff before now; }
done

# A model and a state that are not of one iteration: passed over, or refused; whatever their form.
for form in HDF5:.h5 BINARYPROTO:; do
    anew
    end=${form#*:}
    solver "snapshot_format: ${form%:*}" 'snapshot: 10' 'max_iter: 30'
    ends 0 '' 1
    cp "x_iter_20.caffemodel$end" "x_iter_30.caffemodel$end"
    pair="x_iter_30.caffemodel$end: the model has the parameters of iteration 20, CRC-32C [0-9a-f]*, but its state belongs to iteration 30"
    ends 1 "$pair" 1 --snapshot="x_iter_30.solverstate$end" --max-iter=40
    ends 0 "Ignoring .*x_iter_30.solverstate$end: .*$pair" 1 --resume --max-iter=40 --summary=run.json
    same "$form: first iteration" 20 "$(json_value run.json first_iteration)"
done
# where a model says nothing of itself its values do
anew
solver 'snapshot: 10' 'max_iter: 20'
ends 0 '' 1
"${POSEIDON_PYTHON:-python3}" - <<'END' && ends 1 'has the parameters of an unknown iteration, but its state belongs to iteration 20' 1 --snapshot=x_iter_20.solverstate.h5 --max-iter=30
import h5py
with h5py.File("x_iter_10.caffemodel.h5", "r") as old, h5py.File("x_iter_20.caffemodel.h5", "w") as new:
    old.copy("data", new)
END

# Histories of another type of solver: the same meaning is said, another is refused; Caffe's files do not say.
for pair in SGD:Nesterov:0 Nesterov:SGD:0 Adam:AdamW:0 AdamW:Adam:0 SGD:RMSProp:1 SGD:AdaGrad:1 AdaGrad:RMSProp:1 RMSProp:SGD:1 \
    Adam:AdaDelta:1 AdaDelta:Adam:1 SGD:Adam:1 Adam:SGD:1; do
    from=${pair%%:*} to=${pair#*:} wanted=${pair##*:}
    to=${to%:*}
    momentum='momentum: 0.9'
    case $from in AdaGrad | RMSProp) momentum='momentum: 0' ;; esac
    if [ ! -f "$from.solverstate.h5" ]; then
        anew
        solver "type: \"$from\"" "$momentum" 'max_iter: 2' 'test_interval: 100'
        ends 0 '' 1
        mv x_iter_2.solverstate.h5 "$from.solverstate.h5"
        mv x_iter_2.caffemodel.h5 "$from.caffemodel.h5"
    fi
    cp "$from.caffemodel.h5" x_iter_2.caffemodel.h5
    momentum='momentum: 0.9'
    case $to in AdaGrad | RMSProp) momentum='momentum: 0' ;; esac
    solver "type: \"$to\"" "$momentum" 'max_iter: 3' 'test_interval: 100'
    text="its history is of type \"$from\" and means nothing to the solver's type \"$to\""
    [ "$wanted" = 1 ] || text="its history is of type \"$from\"; type \"$to\" continues with that history"
    ends "$wanted" "$text" 1 --snapshot="$from.solverstate.h5"
done
cp RMSProp.caffemodel.h5 x_iter_2.caffemodel.h5
solver 'type: "SGD"' 'max_iter: 3' 'test_interval: 100'
"${POSEIDON_PYTHON:-python3}" - <<'END' && ends 0 'restoring history' 1 --snapshot=caffes.solverstate.h5
import h5py
with h5py.File("RMSProp.solverstate.h5", "r") as ours, h5py.File("caffes.solverstate.h5", "w") as caffes:
    for name in "iter", "learned_net", "current_step", "history":
        ours.copy(name, caffes)
END

# An end that the command line sets has a last test; Caffe's has not, nor has a solver that does not test.
tested() { # WHAT ITERATIONS
    same "$1: tests" "$2" "$(sed -n 's/.*Iteration \([0-9]*\), Testing.*/\1/p' run.log | tr '\n' ' ')"
}
anew
solver 'max_iter: 15' 'snapshot_after_train: false'
ends 0 '' 2
tested "the solver's max_iter" '10 '
ends 0 '' 2 --max-iter=15
tested '--max-iter between tests' '10 15 '
ends 0 '' 3 --max-iter=5 --servers=1
tested '--max-iter before the first test' '5 '
ends 0 '' 1 --epochs=0.01
tested '--epochs' '10 15 '
ends 0 '' 1 --max-iter=20
tested '--max-iter at a test' '10 20 '
ends 0 '' 1 --max-iter=5 --fake-data=1,28,28
tested '--fake-data' ''

# Running averages are averaged wherever a snapshot comes; what is learnt does not depend on it.
sed -i "s/^layer { name: 'l'/layer { name: 'b' type: 'BatchNorm' bottom: 'o' top: 'o' }\n&/" net.prototxt
solver 'max_iter: 20' 'test_interval: 100'
ends 0 "Without running averages, SHA-256 [0-9a-f]*" 2 --summary=a.json
ends 0 '' 2 --summary=b.json --set snapshot=1
[ "$(hash_of a.json)" != "$(hash_of b.json)" ] || fail 'running averages do not depend on snapshots: the test tests nothing'
same 'what is learnt' "$(json_value a.json learned_parameters_sha256)" "$(json_value b.json learned_parameters_sha256)"
[ -n "$(json_value a.json learned_parameters_sha256)" ] || fail 'the summary has no learned_parameters_sha256'

# Snapshots of another run in the way of this one's: said, how many; not where they are out of it.
make_small_net
anew
solver 'snapshot: 4' 'max_iter: 8' 'test_interval: 100'
ends 0 '' 1
grep -q overwrites run.log && fail 'an empty folder: overwrites'
ends 0 "This run overwrites 2 snapshots of other runs (newest: $work/x_iter_8.solverstate.h5 of run '$(sed -n 's/^run	//p' x.run)')" 1
ends 0 '' 1 --max-iter=3
grep -q overwrites run.log && fail 'other iterations: overwrites'
# with rates that follow max_iter the end says how to train on
solver 'lr_policy: "poly"' 'power: 1' 'max_iter: 9' 'test_interval: 100'
ends 0 '' 1
ends 0 'To train on, raise max_iter and give --snapshot=FILE, since the rates of lr_policy "poly" follow max_iter' 1 --resume
ends 0 'Resuming from .*iter_9' 1 --snapshot="$(ls -t x_iter_9.solverstate*)" --max-iter=10
finish
