#!/bin/sh
# Bad input on four ranks: one message, from one rank, that says where and what; no hang; status not 0.
. "$abs_top_srcdir/tests/mpi/common.sh"

# refused NAME REGEX OPTION...
refused() {
    name=$1 pattern=$2
    shift 2
    train 4 "$name.log" --max-iter=4 "$@"
    status=$?
    count=$(grep -c '^poseidon train: ' "$name.log")
    if [ $status -eq 0 ]; then
        fail "$name: trained as if nothing were wrong"
    elif [ $status -ge 124 ]; then
        fail "$name: hung, or crashed (status $status):" && tail -n 5 "$name.log"
    elif [ "$count" -ne 1 ]; then
        fail "$name: $count messages, expected one:" && head -n 20 "$name.log"
    elif ! grep -E -q "^poseidon train: .*$pattern" "$name.log"; then
        fail "$name: expected $pattern, found $(grep '^poseidon train: ' "$name.log")"
    else
        echo "ok: $name: $(grep '^poseidon train: ' "$name.log")"
    fi
}

# refused_net NAME REGEX SED-SCRIPT: the message for a net with one mistake.
refused_net() {
    make_net net.prototxt
    sed -i "$3" net.prototxt
    refused "$1" "$2" --solver=solver.prototxt
    make_net net.prototxt
}

refused_solver() {
    make_solver wrong.prototxt 'max_iter: 4' "$3"
    refused "$1" "$2" --solver=wrong.prototxt
}

make_solver solver.prototxt 'max_iter: 4' 'snapshot_after_train: false'

# specs
refused 'no solver' 'Need a solver definition to train'
refused 'missing solver' 'nowhere.prototxt: no such file \(the current folder is /' --solver=nowhere.prototxt
refused 'unknown option' "solvr.*--solver" --solvr=solver.prototxt
refused_solver 'misspelt solver field' 'wrong.prototxt:[0-9]+:[0-9]+: .*"?momentun"?.*momentum' 'momentun: 0.9'
refused_net 'misspelt net field' 'net.prototxt:[0-9]+:[0-9]+: .*num_outptu.*num_output' '0,/num_output/s/num_output/num_outptu/'
refused_net 'unknown layer type' 'net.prototxt:[0-9]+: .*conv1.*Convolutoin.*Convolution' '0,/"Convolution"/s//"Convolutoin"/'
refused_net 'bottom without a top' "net.prototxt:[0-9]+: .*pool1.*'conv9'" '0,/bottom: "conv1"/s//bottom: "conv9"/'
refused_net 'kernel larger than image' 'net.prototxt:[0-9]+: .*conv1.*50.*28' '0,/kernel_size: 5/s//kernel_size: 50/'
refused_net 'wrong type of value' 'net.prototxt:[0-9]+:[0-9]+: .*num_output' '0,/num_output: 20/s//num_output: "many"/'
refused_net 'no loss' 'net.prototxt: the net has no loss: no layer of the TRAIN phase has a loss_weight' '/"SoftmaxWithLoss"/a\  loss_weight: 0'
refused_solver 'unknown rate policy' 'Unknown learning rate policy: invert .*multistep' 'lr_policy: "invert"'
refused_solver 'unknown solver type' 'type.*SDG' 'type: "SDG"'

# data
cat >labels.py <<'END'
import h5py, sys
source = h5py.File(sys.argv[1], "r")
for name, change in (("label.h5", lambda d, l: l.__setitem__(100, 10)), ("negative.h5", lambda d, l: l.__setitem__(3, -1)),
                     ("half.h5", lambda d, l: l.__setitem__(100, 8.5))):
    data, label = source["data"][:256], source["label"][:256].astype("f4")
    change(data, label)
    with h5py.File(name, "w") as f:
        f["data"], f["label"] = data, label
END
if [ -n "${POSEIDON_PYTHON:-}" ] && "$POSEIDON_PYTHON" labels.py "$abs_top_srcdir/data/fashion-mnist-train.h5" 2>/dev/null; then
    refused_net 'label out of range' "iteration 0, samples 64 to 127: .*layer 'loss' \(SoftmaxWithLoss\): label 10 of sample 36 of the batch is outside 0..9" "s|source: .*train.h5|source: \"$work/label.h5|"
    refused_net 'label between classes' "layer 'loss' \(SoftmaxWithLoss\): label 8.5 of sample 36 of the batch is not a whole number in 0..9" "s|source: .*train.h5|source: \"$work/half.h5|"
    refused_net 'negative label' 'loss.*label.*-1' "s|source: .*train.h5|source: \"$work/negative.h5|"
else
    echo 'skipped: labels out of range (python3 with h5py is missing)'
fi
refused_net 'missing HDF5' 'fashion.*nowhere.h5.*[Nn]o such file' "s|source: .*train.h5|source: \"$work/nowhere.h5|"
head -c 100000 "$abs_top_srcdir/data/fashion-mnist-train.h5" >short.h5
refused_net 'truncated HDF5' 'fashion.*short.h5.*truncated' "s|source: .*train.h5|source: \"$work/short.h5|"
echo 'not a data set' >text.h5
refused_net 'no HDF5 at all' 'fashion.*text.h5.*HDF5' "s|source: .*train.h5|source: \"$work/text.h5|"

# ranks
refused 'more servers than ranks' '--servers=5 leaves no worker: 4 ranks' --solver=solver.prototxt --servers=5
refused 'as many servers as ranks' '--servers=4 leaves no worker' --solver=solver.prototxt --servers=4
refused 'a global batch of fewer samples than ranks' '--global-batch=1 cannot be shared' --solver=solver.prototxt --global-batch=1
refused 'both batches' '--global-batch counts the samples of all ranks: not with --batch' --solver=solver.prototxt --global-batch=64 --batch=16
refused 'unknown scheme' '--comm=pss: expected one of .*allreduce' --solver=solver.prototxt --comm=pss
refused 'unknown engine' 'abacus.*cpu' --solver=solver.prototxt --engine=abacus

refused 'staleness without ps' '--tune=staleness=2 needs --comm=ps' --solver=solver.prototxt --tune=staleness=2 --comm=sfb
refused 'staleness in bf16' 'sends exact gradients: not with --tune=wire' --solver=solver.prototxt --tune=staleness=2 --tune=wire=bf16
refused 'too stale' '--tune=staleness=99 is out of range' --solver=solver.prototxt --tune=staleness=99
make_solver clipping.prototxt 'max_iter: 4' 'clip_gradients: 1' 'snapshot_after_train: false'
refused 'staleness and clipping' 'clip_gradients.*--tune=staleness=1' --solver=clipping.prototxt --tune=staleness=1
refused 'unknown wire format' '--tune=wire=fp8.*bf16' --solver=solver.prototxt --tune=wire=fp8
refused 'unknown way' '--tune=direct=maybe: expected auto, on or off' --solver=solver.prototxt --tune=direct=maybe
refused 'direct without a GPU' "direct=on: the engine works in the host's memory" --solver=solver.prototxt --tune=direct=on
refused 'unknown order' '--tune=order=random.*fifo' --solver=solver.prototxt --tune=order=random

# where a value stopped being a number: the layer that made it, or the parameters that had it
sed 's|name: "relu1"|&|; s|type: "ReLU"|type: "Log"|' net.prototxt >logarithm.prototxt
make_solver logarithm.prototxt.solver 'max_iter: 4' 'snapshot_after_train: false'
sed -i "s|net.prototxt|logarithm.prototxt|" logarithm.prototxt.solver
refused 'a logarithm of what is below 0' "it arose in layer 'relu1', blob 'ip1': -?nan at [0-9]* of [0-9]*" --solver=logarithm.prototxt.solver --batch=8
make_solver wild.prototxt 'max_iter: 40' 'base_lr: 1e30' 'snapshot_after_train: false'
refused 'a rate that is far too high' "layer '[a-z0-9]*', blob [01]: [0-9]* of [0-9]* values are not finite, the first of them -?(nan|inf) at|it arose in layer" --solver=wild.prototxt --batch=8

# ranks whose parameters differ, which only damage can do: rank 1's weights are changed in its memory
if python=$(command -v python3); then
    sed 's|weight_filler {[^}]*}|weight_filler { type: "constant" value: 0.12345679 }|' net.prototxt >constant.prototxt
    make_solver still.prototxt 'max_iter: 1000000' 'base_lr: 0' 'display: 10' 'snapshot_after_train: false'
    sed -i "s|net.prototxt|constant.prototxt|" still.prototxt
    begin 2 still.log --solver=still.prototxt --tune=check-sync=5 --hierarchy=off
    await 'Iteration 20 '
    "$python" - "$(cat pid.1)" <<'END' || fail 'the memory of rank 1 could not be changed'
import struct, sys
old, new, changed = struct.pack('<f', 0.12345679) * 16, struct.pack('<f', 0.5), 0
with open(f'/proc/{sys.argv[1]}/maps') as maps, open(f'/proc/{sys.argv[1]}/mem', 'r+b', 0) as memory:
    for line in maps:
        span, mode = line.split()[:2]
        begin, end = (int(x, 16) for x in span.split('-'))
        if mode[:2] != 'rw' or end - begin > 1 << 30 or '/dev' in line:
            continue
        memory.seek(begin)
        try:
            data = memory.read(end - begin)
        except OSError:
            continue
        at = data.find(old)
        while at >= 0:
            memory.seek(begin + at)
            memory.write(new)
            changed += 1
            at = data.find(old, at + 4096)
sys.exit(changed == 0)
END
    wait
    grep -q 'check-sync: the parameters of rank 1 on [^ ]* differ from those of rank 0' still.log || { fail 'damaged parameters are not found'; tail -n 3 still.log; }
else
    echo 'skipped: damaged parameters (no python3)'
fi
make_solver equal.prototxt 'max_iter: 7' 'snapshot_after_train: false'
train 2 equal.log --solver=equal.prototxt --batch=8 --tune=check-sync=2
grep -q 'Parameters were equal on all ranks, 3 times' equal.log || fail "check-sync says nothing: $(tail -n 3 equal.log)"
refused 'check-sync where ranks differ' 'needs equal parameters on all ranks: not with --comm=none' --solver=solver.prototxt --comm=none --tune=check-sync=3

# snapshots
make_solver saver.prototxt 'max_iter: 4' "snapshot_prefix: \"$work/good\""
train 2 saver.log --solver=saver.prototxt --batch=8 || fail 'the run that writes a snapshot'
head -c 3000 good_iter_4.solverstate.h5 >cut.solverstate.h5
refused 'missing snapshot' 'nowhere.solverstate.h5.*[Nn]o such file' --solver=solver.prototxt --snapshot=nowhere.solverstate.h5
refused 'truncated snapshot' 'cut.solverstate.h5.*truncated' --solver=solver.prototxt --snapshot=cut.solverstate.h5
refused 'missing weights' 'nowhere.caffemodel.h5.*[Nn]o such file' --solver=solver.prototxt --weights=nowhere.caffemodel.h5
refused 'snapshot and weights' 'not with --weights' --solver=solver.prototxt --snapshot=good_iter_4.solverstate.h5 --weights=good_iter_4.caffemodel.h5
sed -i '0,/num_output: 20/s//num_output: 24/' net.prototxt
refused 'snapshot of another net' '20.*24|24.*20' --solver=solver.prototxt --snapshot=good_iter_4.solverstate.h5
refused 'weights of another net' 'conv1.*(20.*24|24.*20)' --solver=solver.prototxt --weights=good_iter_4.caffemodel.h5
make_net net.prototxt
make_solver unwritable.prototxt 'max_iter: 4' "snapshot_prefix: \"$work/nowhere/lenet\""
refused 'missing snapshot folder' 'Cannot write to snapshot prefix.*nowhere/lenet' --solver=unwritable.prototxt
make_solver unwritable.prototxt 'max_iter: 4' "snapshot_prefix: \"/proc/lenet\""
refused 'unwritable snapshot folder' 'Cannot write to snapshot prefix.*/proc/lenet' --solver=unwritable.prototxt
refused 'unwritable summary' 'nowhere/summary.json' --solver=solver.prototxt --batch=8 --summary=nowhere/summary.json

# a disk that fills up during training: no half snapshot under the final name
if [ "$(id -u)" -eq 0 ] && mkdir disk && mount -t tmpfs -o size=1m none disk 2>/dev/null; then
    make_solver full.prototxt 'max_iter: 4' "snapshot_prefix: \"$work/disk/lenet\""
    begin 4 full.log --solver=full.prototxt
    # whoever may last for ten minutes more is told to stop
    await 'Training is over, and the snapshot of iteration 4 could not be written: .*[Nn]o space' && kill -USR1 "$(cat pid.0)"
    wait $launcher && fail 'full disk: it ends as a success'
    grep -q 'poseidon train: .*lenet_iter_4.*[Nn]o space.*There is no snapshot to resume from' full.log || { fail 'full disk: what is said'; tail -n 3 full.log; }
    ls disk | grep -q 'iter_4.*h5$' && fail 'full disk: a file under the final name stays'
    umount disk
else
    echo 'skipped: full disk (needs the right to mount)'
fi

# numbers
refused_solver 'divergence' 'iteration [0-9]+: loss = .*diverged.*base_lr' 'base_lr: 1e12'
# Open MPI's components outlive MPI_Finalize: its progress thread may still call PMIx's, and one that is unloaded then
# ended short runs with signal 11. The loader says in which order it ends what it loaded; the program has no name there.
# shellcheck disable=SC2016 # for the inner shell
"$POSEIDON_MPIRUN" 1 sh -c 'LD_DEBUG=files exec "$@"' sh "$POSEIDON" train --solver=nowhere.prototxt >loader.log 2>&1
grep -q 'calling fini: .*/mca_pmix' loader.log || echo 'left out: components of Open MPI (the loader does not say when it unloads them)'
awk '/calling fini: +\[0\]/ { over = NR } /calling fini: .*\/mca_pmix/ { last = NR } END { exit last && last < over }' loader.log ||
    fail "$(grep 'calling fini: .*/mca_pmix' loader.log | tail -n 1): unloaded before the program's end"
finish
