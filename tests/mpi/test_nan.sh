#!/bin/sh
# --on-nan=skip: an update whose gradient is not finite is left out on all ranks or on none, under every scheme, and is
# counted; so many in a row end training with the place where the NaN arose. The judge: a run whose last update is left
# out ends with the parameters, to the bit, of the run that is one iteration shorter.
. "$abs_top_srcdir/tests/mpi/common.sh"
"${POSEIDON_PYTHON:-python3}" - <<'END' || { echo 'SKIP: h5py is missing'; exit 77; }
import h5py, numpy
for name, bad, what in (("good", [], 0), ("one", [77], numpy.inf), ("all", range(96), numpy.nan), ("huge", [75, 77, 79], 3e38)):
    r = numpy.random.RandomState(1)
    data = r.randn(96, 6).astype("f4")
    data[list(bad), 2] = what
    labels = r.randint(0, 3, 96).astype("f4")
    if len(bad) == 3:
        labels[bad] = 0, 1, 2
    with h5py.File(name + ".h5", "w") as f:
        f["x"] = data
        f["y"] = labels
    open(name + ".txt", "w").write(name + ".h5\n")
END

net() { # FILE DATA BATCH: with running averages where the name says so
    bn=
    hidden=h
    case $1 in bn*) bn="layer { name: 'bn' type: 'BatchNorm' bottom: 'h' top: 'b' }" hidden=b ;; esac
    cat >"$1.prototxt" <<END
name: 'nan'
layer { name: 'in' type: 'HDF5Data' top: 'x' top: 'y' include { phase: TRAIN }
    hdf5_data_param { source: '$work/$2.txt' batch_size: $3 } }
layer { name: 'in' type: 'HDF5Data' top: 'x' top: 'y' include { phase: TEST }
    hdf5_data_param { source: '$work/good.txt' batch_size: $3 } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'h' inner_product_param { num_output: 40 weight_filler { type: 'xavier' } } }
$bn
layer { name: 'ip2' type: 'InnerProduct' bottom: '$hidden' top: 's' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
    cat >"$1.solver" <<END
net: '$work/$1.prototxt' base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 random_seed: 3 display: 4
max_iter: 7 test_iter: 4 test_interval: 100 test_initialization: false snapshot_after_train: false
END
}

# 12 samples an iteration: the bad one is of iteration 6, then 14, 22, ...
net one3 one 4
net one4 one 3
net one1 one 12
net bn3 one 4
net all3 all 4
run() { # RANKS NET OPTION...
    ranks=$1 net=$2
    shift 2
    train "$ranks" run.log --solver="$net.solver" --threads=1 --summary=run.json "$@"
}

cases=0
while read -r ranks name options; do
    [ -n "$ranks" ] || continue
    cases=$((cases + 1))
    # shellcheck disable=SC2086
    run "$ranks" "$name" --max-iter=6 $options || { fail "$options: six iterations"; tail -n 2 run.log; }
    six=$(hash_of run.json)
    # shellcheck disable=SC2086
    run "$ranks" "$name" --on-nan=skip --max-iter=7 $options || { fail "$options: seven iterations"; tail -n 2 run.log; }
    [ "$(hash_of run.json)" = "$six" ] || fail "$ranks ranks $options: the update that is left out changes parameters"
    [ "$(json_value run.json updates_left_out)" = 1 ] || fail "$ranks ranks $options: $(json_value run.json updates_left_out) updates are left out, expected 1"
    grep -q "The update of iteration 6 is left out: the gradient of layer '\(ip1 .. \)*ip2' is not finite (1 in a row, 1 in all; 10 in a row end training)" run.log ||
        { fail "$ranks ranks $options: it is not said"; grep -e 'left out' run.log; }
    # it goes on, with the same parameters everywhere
    check=--tune=check-sync=1
    [ "$ranks" -gt 1 ] || check=
    # shellcheck disable=SC2086
    run "$ranks" "$name" --on-nan=skip --max-iter=20 $check $options || { fail "$options: 20 iterations"; tail -n 2 run.log; }
    [ "$(json_value run.json updates_left_out)" = 2 ] || fail "$ranks ranks $options: of 20 iterations $(json_value run.json updates_left_out) are left out"
    case $(json_value run.json train_loss) in *[0-9]) ;; *) fail "$ranks ranks $options: the loss at the end is $(json_value run.json train_loss)" ;; esac
done <<'TABLE'
1 one1 --comm=ps
3 one3 --comm=ps --hierarchy=off
3 one3 --comm=sfb --hierarchy=off
3 one3 --comm=allreduce --hierarchy=off
3 one3 --comm=adam --hierarchy=off
3 one3 --comm=lowrank:1 --hierarchy=off --tune=lowrank-warmup=0
3 one3 --comm=paper
3 one3
3 one3 --tune=overlap=none --hierarchy=auto,2
4 one4 --comm=paper --hierarchy=2 --tune=overlap=none
4 one3 --comm=ps --servers=1 --hierarchy=off
TABLE
[ $cases -eq 11 ] || fail "$cases cases"

# A layer whose own gradient is finite, if large, owes nothing of what is left out.
net huge3 huge 4
sed -i "/'ip1'/s/'xavier'/'gaussian' std: 0.001/; s/'xavier'/'gaussian' std: 1/; s/'SoftmaxWithLoss'/& loss_weight: 40/" huge3.prototxt
set -- --on-nan=skip --hierarchy=off --set momentum=0 --set base_lr=0.0005 --set display=1 --max-iter=10
run 3 huge3 "$@" --comm=lowrank:1 --tune=lowrank-warmup=0 || { fail 'a large gradient'; tail -n 2 run.log; }
[ "$(json_value run.json updates_left_out)" = 1 ] || fail "a large gradient: $(json_value run.json updates_left_out) updates are left out"
grep -q "iteration 6 is left out: the gradient of layer 'ip1' is" run.log || fail "not ip1 alone: $(grep 'left out' run.log)"
all_losses run.log | awk '$1 >= 7 { n++; if (!($2 < 200)) exit 1 } END { exit n < 3 }' || fail "a large gradient: $(all_losses run.log | tail -n 4)"

# A clipping net decides the same, and without the option nothing changes.
run 3 one3 --on-nan=skip --set clip_gradients=0.5 || { fail 'with clipping'; tail -n 2 run.log; }
[ "$(json_value run.json updates_left_out)" = 1 ] || fail 'with clipping the update is not left out'
run 3 one3 && fail 'without --on-nan=skip a NaN does not end training'
grep -q "iteration 6: loss = .*it arose in layer 'in', blob 'x': -*inf at [0-9]* of 24, in record 77 of .*one.txt: fix the data, or let --on-nan=skip" run.log || fail "without --on-nan=skip: $(tail -n 1 run.log)"

# Running averages stay finite: the test at the end says so.
run 3 bn3 --on-nan=skip --max-iter=20 --set test_interval=20 || { fail 'BatchNorm'; tail -n 2 run.log; }
grep -q 'Test net output #0: loss = [0-9.]* ' run.log || fail "BatchNorm: $(grep 'Test net output' run.log)"

# Behind a BatchNorm, whose statistics the pass itself has spoilt, the record is named all the same, whichever rank has it; a
# value that one rank alone makes behind statistics of all ends all of them with its place.
net bn1 one 12
for case in '1 bn1' '3 bn3 --sync-bn' '3 bn3 --sync-bn --tune=overlap=none'; do
    # shellcheck disable=SC2086
    run $case && fail "$case: a NaN does not end training"
    grep -q "iteration 6: loss = .*it arose in layer 'in', blob 'x': -*inf at [0-9]* of [0-9]*, in record 77 of .*one.txt: fix the data" run.log ||
        fail "$case: $(grep '^poseidon train' run.log)"
done
sed "/'in'.*TEST/,+1d; s/top: 'y' include/top: 'y' top: 'a' include/; s/one.txt/large.txt/; s/bottom: 's' bottom/bottom: 'e' bottom/
/'loss' type/i\\
layer { name: 'pw' type: 'Power' bottom: 'a' top: 'p' power_param { scale: 10 } }\\
layer { name: 'e' type: 'Eltwise' bottom: 's' bottom: 'p' top: 'e' eltwise_param { operation: PROD } }" bn3.prototxt >alone.prototxt
sed 's/bn3/alone/; s/test_i[^ ]*: [^ ]* *//g' bn3.solver >alone.solver
"${POSEIDON_PYTHON:-python3}" -c '
import h5py, numpy
with h5py.File("good.h5") as good, h5py.File("large.h5", "w") as f:
    f["x"], f["y"], f["a"] = good["x"][()], good["y"][()], numpy.ones((96, 3), "f4")
    f["a"][77, 1] = 3e38'
echo large.h5 >large.txt
for option in --sync-bn '--sync-bn --tune=overlap=none'; do
    # shellcheck disable=SC2086
    POSEIDON_MPI_TIMEOUT=60 run 3 alone $option && fail "$option: an overflow on one rank does not end training"
    grep -q "poseidon train: rank 1 .*iteration 6: loss = .*; it arose in layer 'pw', blob 'p': inf at 4 of 12" run.log ||
        fail "$option: $(grep '^poseidon train' run.log)"
done

# Before the first update base_lr is not to blame.
sed "s/bottom: 's' bottom/bottom: 'g' bottom/; /'loss' type/i\\
layer { name: 'log' type: 'Log' bottom: 's' top: 'g' }" one1.prototxt >log.prototxt
sed 's/one1/log/' one1.solver >log.solver
run 1 log && fail 'logarithms of negative scores train'
grep -q "iteration 0: loss = nan, before any update: check data, fillers and weights; it arose in layer 'log', blob 'g': -*nan at" run.log ||
    fail "the first pass: $(grep '^poseidon train' run.log)"
# The same net tested and looked into.
run 1 one1 --max-iter=1 --set snapshot_after_train=true --snapshot-prefix=w || fail 'no weights to test'
"$POSEIDON" test --model=log.prototxt --weights=w_iter_1.caffemodel >run.log 2>&1 && fail 'test: a loss that is NaN is a success'
grep -q "test batch 0: blob 'loss': nan at 0 of 1; it arose in layer 'log', blob 'g': -*nan at" run.log || fail "test: $(tail -n 1 run.log)"
"$POSEIDON" extract --model=log.prototxt --weights=w_iter_1.caffemodel --blobs=g g.h5 >run.log 2>&1 || fail "extract: $(tail -n 1 run.log)"
grep -q "batch 0: blob 'g': -*nan at .*; it arose in layer 'log', blob 'g'" run.log || fail "extract says nothing: $(cat run.log)"

# Caffe's loss of a right class without any probability is explained once, whatever multiple of it is shown.
cat >sure.prototxt <<END
layer { name: 'x' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: 4 dim: 1 } shape { dim: 4 }
    data_filler { value: 1000 } data_filler { value: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'i' param { lr_mult: 0 } param { lr_mult: 1 } inner_product_param { num_output: 1 } }
layer { name: 's' type: 'Concat' bottom: 'x' bottom: 'i' top: 's' }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' loss_weight: 2 }
END
echo "net: '$work/sure.prototxt' base_lr: 1e-9 lr_policy: 'fixed' display: 1" >sure.solver
run 1 sure --max-iter=3 || fail 'a net that is sure'
grep -q 'The loss 174.673 is 2 times 87.3365, the -log of the smallest float: .*probability 0' run.log && [ "$(grep -c 'times 87.3365' run.log)" = 1 ] ||
    fail "87.3365: $(grep -e 87 -e 174 run.log | head -n 3)"
grep -q 'Effective batch = 1 worker x 4 x iter_size 1 = 4 samples' run.log || fail "$(grep Effective run.log)"

# So many in a row.
run 3 all3 --on-nan=skip,3 --max-iter=20 && fail 'a training without a single update is a success'
grep -q "iteration 2: loss = .*it arose in layer 'in', blob 'x': -*nan at" run.log || { fail 'the place is not named'; tail -n 3 run.log; }
grep -q "2: loss = .*3 updates in a row were to be left out (--on-nan=skip): it" run.log || fail "why it ends is not said: $(tail -n 1 run.log)"
grep -q ': fix the data$' run.log || fail "what is given is offered: $(tail -n 1 run.log)"
[ "$(grep -c 'is left out' run.log)" -ge 1 ] || fail 'what is left out is not said'

# An iteration counts once, however many of its passes a NaN of the first has spoilt.
net pass1 one 12
set -- --on-nan=skip,3 --set iter_size=5 --max-iter=3
run 1 pass1 "$@" || { fail 'iter_size'; tail -n 2 run.log; }
[ "$(json_value run.json updates_left_out)" = 2 ] || fail "iter_size: $(json_value run.json updates_left_out) updates are left out, expected 2"

# refusals
refuse() { # TEXT OPTION...
    text=$1
    shift
    run 2 one3 "$@" && fail "$* is accepted"
    grep -q -e "$text" run.log || { fail "$*: '$text' is not said"; tail -n 2 run.log; }
}
refuse "on-nan expects stop, skip, or skip,N .*found 'maybe'" --on-nan=maybe
refuse "on-nan expects stop, skip, or skip,N .*found 'skip,0'" --on-nan=skip,0
refuse 'on-nan decides for all ranks before any update: not with --tune=staleness' --on-nan=skip --tune=staleness=1
refuse 'on-nan decides for all ranks before any update: not with --comm=none' --on-nan=skip --comm=none
refuse "on-nan=skip: layer '.*' travels with error feedback" --on-nan=skip --comm=onebit
refuse "on-nan=skip: layer '.*' travels with error feedback" --on-nan=skip --tune=wire=bf16
refuse 'drop-stragglers=1 with --servers=1: no rank could count the updates that --on-nan=skip leaves out' --on-nan=skip --tune=drop-stragglers=1 --servers=1
finish
