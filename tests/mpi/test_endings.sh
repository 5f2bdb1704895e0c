#!/bin/sh
# What no training ends with as a success: parameters that are no numbers, whether they are saved or not, a test whose
# loss is none, a last snapshot that is not there.
. "$abs_top_srcdir/tests/mpi/common.sh"
# the update of iteration 3, the fourth and last one, has a rate that no float holds
solver() { # LINE...
    make_solver solver.prototxt 'max_iter: 4' "snapshot_prefix: \"$work/run\"" 'lr_policy: "multistep"' 'gamma: 1e39' 'stepvalue: 3' \
        'test_interval: 4' 'test_iter: 1' 'test_initialization: false' "$@"
    rm -rf run_iter_* run.run
}
# ends STATUS TEXT RANKS OPTION...
ends() {
    expected=$1 text=$2 ranks=$3
    shift 3
    train "$ranks" run.log --solver=solver.prototxt --batch=8 --threads=1 "$@"
    status=$?
    [ $status -eq "$expected" ] || { fail "$*: exit status $status, expected $expected"; tail -n 3 run.log; }
    grep -q -e "$text" run.log || { fail "$*: '$text' is not said"; grep -e 'poseidon train' -e ' W ' -e Resum run.log; }
}
states() { # EXPECTED
    found=$(ls run_iter_*.solverstate.h5 2>/dev/null | sed 's/run_iter_\([0-9]*\).*/\1/' | sort -n | tr '\n' ' ')
    [ "$found" = "$1" ] || fail "snapshots of '$found' are there, expected '$1'"
}
bad="layer 'conv1', blob 0: [0-9]* of 500 values are not finite, the first of them -*\(nan\|inf\) at [0-9]*: training has diverged"

solver 'snapshot: 2'
ends 1 "after iteration 4: $bad.*; lower base_lr.*--resume continues from $work/run_iter_2.solverstate.h5" 2
grep -q 'Optimization Done' run.log && fail 'a diverged training is done'
states '2 '
ends 1 "after iteration 4: $bad" 2 --keep-best=loss
solver 'snapshot_after_train: false'
ends 1 "after iteration 4: $bad" 2
grep -q 'Test net output #1: loss = -*nan' run.log || fail 'the test shows a number'
ends 1 "after iteration 4: $bad" 1 --on-nan=skip --set test_interval=100
ends 1 "after iteration 4: $bad" 3 --servers=1 --set test_interval=100
# a snapshot between that update and the next pass; the one before is gone on from
solver 'snapshot: 2' 'max_iter: 8'
ends 1 "after iteration 4: $bad" 2
states '2 '
ends 1 "Resuming from $work/run_iter_2.solverstate.h5" 2 --resume
# finite, and yet no number comes out
solver 'gamma: 1e35'
ends 1 "after iteration 4: the test's loss is .*, and all parameters are finite" 2

# A MAX pooling swallows every NaN of the convolution before it: no loss shows it, the snapshot does.
"${POSEIDON_PYTHON:-python3}" - <<'END' && {
import h5py, numpy
r = numpy.random.RandomState(1)
images = r.rand(64, 1, 4, 4).astype("f4")
images[:, :, 0, 0] = 0 # 0 times infinity
with h5py.File("swallow.h5", "w") as f:
    f["x"] = images
    f["y"] = r.randint(0, 3, 64).astype("f4")
open("swallow.txt", "w").write("swallow.h5\n")
END
    cat >swallow.prototxt <<END
layer { name: 'in' type: 'HDF5Data' top: 'x' top: 'y' hdf5_data_param { source: '$work/swallow.txt' batch_size: 8 } }
layer { name: 'conv1' type: 'Convolution' bottom: 'x' top: 'c' param { lr_mult: 1e38 } param { lr_mult: 0 }
    convolution_param { num_output: 4 kernel_size: 4 weight_filler { type: 'xavier' } } }
layer { name: 'pool1' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { pool: MAX kernel_size: 1 } }
layer { name: 'relu1' type: 'ReLU' bottom: 'p' top: 'p' }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'p' top: 's' param { lr_mult: 0 } param { lr_mult: 0 }
    inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
    make_solver solver.prototxt "net: \"$work/swallow.prototxt\"" 'max_iter: 6' 'snapshot: 3' 'display: 1' 'base_lr: 100' 'lr_policy: "fixed"' \
        "snapshot_prefix: \"$work/swallow\""
    ends 1 "after iteration 3: layer 'conv1', blob 0: 64 of 64 values are not finite" 2
    [ "$(grep -c 'Iteration [12] .*, loss = [0-9]' run.log)" -eq 2 ] || { fail 'the loss shows it'; grep -e ', loss' run.log; }
}

# Files of other programs, with a NaN in one weight.
solver 'max_iter: 6' 'snapshot: 2' 'gamma: 1'
ends 0 'Optimization Done' 2
"${POSEIDON_PYTHON:-python3}" - <<'END' && {
import h5py
def spoil(path, name):
    with h5py.File(path, "r+") as f:
        f[name][0] = float("nan")
        for group in (f, f[name]):
            for key in list(group.attrs):
                if "crc" in key or "sum" in key:
                    del group.attrs[key]
spoil("run_iter_6.caffemodel.h5", "data/ip2/1")
spoil("run_iter_4.solverstate.h5", "history/3")
END
    ends 1 "run_iter_6.caffemodel.h5: training had diverged; .*layer 'ip2', blob 1" 1 --weights=run_iter_6.caffemodel.h5
    ends 1 "run_iter_6.caffemodel.h5: training had diverged; .*layer 'ip2', blob 1" 1 --snapshot=run_iter_6.solverstate.h5
    ends 0 "Resuming from $work/run_iter_2.solverstate.h5" 2 --resume --max-iter=8
    grep -q "Ignoring $work/run_iter_6.solverstate.h5: $work/run_iter_6.caffemodel.h5: training had diverged; use an earlier snapshot: layer 'ip2', blob 1: 1 of 10 values is not finite, the first of them nan at 0" run.log ||
        { fail 'a model with a NaN is gone on from'; grep -e Passing run.log; }
    grep -q "Ignoring $work/run_iter_4.solverstate.h5: .*: layer 'conv2', history of blob 1: 1 of " run.log || fail 'a state with a NaN is gone on from'
}

# The folder of snapshots is gone, or no file can be made there, when training is over: it is tried as long as the run
# may last, or until it is told to stop once more.
mkdir out
make_solver solver.prototxt 'max_iter: 1000000' 'snapshot: 5' "snapshot_prefix: \"$work/out/run\""
interrupt() { # WHAT: begins, and stops the training when WHAT was done to the folder
    begin 2 stop.log --solver=solver.prototxt
    await 'Snapshotting solver state'
    # a second one: the first is the run's newest then, in its memory and in its file
    until [ "$(grep -c 'Snapshotting solver state' "$log")" -ge 2 ] || ! kill -0 "$launcher"; do
        sleep 0.05
    done
    eval "$1"
    kill -USR1 "$(cat pid.0)"
}
ended() { # STATUS
    wait $launcher
    status=$?
    [ $status -eq "$1" ] || { fail "exit status $status, expected $1"; tail -n 3 stop.log; }
}
block() { # by one step, since snapshots go on being written: a file is where the folder was
    : >blocker
    mv out away
    until mv -T blocker out 2>/dev/null; do
        rm -rf out
    done
}
interrupt 'mv out away'
ended 75
rm -rf away
grep -q "The folder '$work/out' is gone; it is made again" stop.log || { fail 'it is not said that the folder is made again'; grep ' W ' stop.log; }
[ -f "$(ls out/run_iter_*.solverstate.h5 | tail -n 1)" ] || fail 'the last snapshot is not there'
waits='Training is over, and the snapshot of iteration [0-9]* could not be written: .*Not a directory. Tries go on for [56][0-9][0-9] s'
interrupt block
await "$waits"
sleep 3 # two more tries, after 1 s and after 3 s, which show in nothing else: the seconds are what is tested
[ "$(grep -c "$waits" stop.log)" -eq 1 ] || fail "it is told $(grep -c "$waits" stop.log) times"
rm out && mv away out
ended 75
rm -rf away
interrupt block
await "$waits" && kill -USR1 "$(cat pid.0)"
ended 1
grep -q "Not a directory; no time is left for another try. --resume continues from $work/out/run_iter_[0-9]*.solverstate.h5" stop.log ||
    { fail 'the state to go on from is not named'; tail -n 3 stop.log; }
rm out && mv away out
finish
