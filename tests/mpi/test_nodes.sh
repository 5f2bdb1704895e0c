#!/bin/sh
# Nodes of ranks that add up in shared memory: the same training from less on the wire, the same bits every
# time, a rank of a node that fails ends all with its message, nothing is left behind.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 12' 'display: 4' 'snapshot_after_train: false' 'test_iter: 3' 'test_interval: 6' \
    'test_initialization: false'

for ranks in 2 5; do
    "$POSEIDON_MPIRUN" $ranks "$abs_top_builddir/tests/mpi/node_ranks" || fail "nodes of $ranks ranks"
done

# list FILE KEY: a list of numbers, without spaces
list() {
    tr -d '\n\r\t ' <"$1" | sed 's/.*"'"$2"'":\[\([^]]*\)\].*/\1/'
}

# What is sent is what was planned; ranks that do not lead send nothing.
mkdir shared
export OMPI_MCA_osc_sm_backing_directory="$work/shared" # others' programs have files in /dev/shm, too
trained flat 4 --comm=ps --hierarchy=off
trained nodes 4 --comm=ps --hierarchy=2
trained again 4 --comm=ps --hierarchy=2
trained auto 4 --comm=ps
[ -z "$(ls shared)" ] || fail "shared memory is left behind: $(ls shared)"
unset OMPI_MCA_osc_sm_backing_directory
trained slices 4 --comm=ps --hierarchy=2,2
for run in flat nodes slices; do
    sent=$(list $run.json bytes_sent_per_iteration_by_rank)
    planned=$(list $run.json bytes_predicted_per_iteration_by_rank)
    echo "$run: sent by rank $sent"
    [ "$sent" = "$planned" ] || fail "$run: sent $sent, planned $planned"
done
# of 4 leaders each sends 2 * 3/4 of the parameters, of 2 each 2 * 1/2: a third in all
awk "BEGIN { exit !(3 * $(json_value nodes.json bytes_sent_per_iteration) == $(json_value flat.json bytes_sent_per_iteration)) }" ||
    fail "two nodes of two send $(json_value nodes.json bytes_sent_per_iteration) bytes, not a third of the ranks alone"
list nodes.json bytes_sent_per_iteration_by_rank | grep -q '^[1-9][0-9.]*,0,[1-9][0-9.]*,0$' ||
    fail "ranks 1 and 3 do not leave the sending to 0 and 2"
[ "$(hash_of nodes.json)" = "$(hash_of again.json)" ] ||
    fail 'twice the same nodes, other parameters'
# two leaders send what one did, and change no bit
list slices.json bytes_sent_per_iteration_by_rank | grep -q '^[1-9][0-9.]*,[1-9][0-9.]*,[1-9][0-9.]*,[1-9][0-9.]*$' ||
    fail 'two leaders of two ranks: not all send'
[ "$(json_value nodes.json bytes_sent_per_iteration)" = "$(json_value slices.json bytes_sent_per_iteration)" ] ||
    fail 'two leaders do not send as much as one'
[ "$(hash_of nodes.json)" = "$(hash_of slices.json)" ] ||
    fail 'two leaders, other parameters'
grep -q '4 workers on 2 nodes .*; 2 leaders a node communicate' slices.log || fail 'the leaders are not told'
# on one machine nothing is gained, so nothing changes
[ "$(hash_of flat.json)" = "$(hash_of auto.json)" ] ||
    fail 'one machine: --hierarchy=auto is not off'
for key in train_loss accuracy; do
    awk "BEGIN { a = $(json_value flat.json $key); b = $(json_value nodes.json $key); exit !((a - b) ^ 2 <= (1e-2 * a) ^ 2) }" ||
        fail "$key: $(json_value flat.json $key) by ranks alone, $(json_value nodes.json $key) by nodes"
done

# several machines: auto adds up on each, and leaves a rank alone that is alone
box=$abs_top_srcdir/tests/cluster/box.sh
if "$box" --check >/dev/null 2>&1; then
    # boxed NAME HOSTS SLOTS RANKS OPTION...
    boxed() {
        name=$1 hosts=$2 slots=$3 ranks=$4
        shift 4
        timeout 600 "$box" --hosts="$hosts" --slots="$slots" -- mpirun --bind-to none \
            --mca mpi_yield_when_idle 1 -np "$ranks" "$POSEIDON" train --solver=solver.prototxt --batch=8 --force --summary="$name.json" "$@" >"$name.log" 2>&1 || {
            fail "$name did not train:"
            tail -n 20 "$name.log"
        }
    }
    boxed two 2 2 4 --comm=ps
    [ "$(hash_of two.json)" = "$(hash_of nodes.json)" ] ||
        fail 'two machines: --hierarchy=auto is not what nodes of 2 are on one'
    boxed uneven 3 2 5 --comm=sfb
    grep -q '5 workers on 3 nodes' uneven.log || fail 'five ranks on three machines are not three nodes'
    list uneven.json bytes_sent_per_iteration_by_rank | grep -q '^[1-9][0-9.]*,0,[1-9][0-9.]*,0,[1-9][0-9.]*$' ||
        fail "three machines: sent $(list uneven.json bytes_sent_per_iteration_by_rank)"
    boxed apart 2 1 2 --comm=ps
    grep -q 'add up' apart.log && fail 'one rank on each machine has nobody to add up with'
    boxed chosen 2 2 4 --comm=auto --tune=log=chosen.jsonl
    grep -q '4 workers on 2 nodes' chosen.log || fail 'the cost model meets no nodes'
    boxed stale-boxed 2 2 4 --comm=ps --tune=staleness=1
    grep -q 'add up' stale-boxed.log && fail '--tune=staleness does not switch --hierarchy=auto off'
else
    echo 'skipped: several machines (tests/cluster/box.sh --check says why)'
fi

# the report, which replays every layer by itself, and the trace
trained reported 3 --comm=paper --hierarchy=2 --servers=0 --tune=log=nodes.jsonl --trace=nodes.trace
grep -q '"layer"' nodes.jsonl || fail 'no report on layers'
trained led 4 --comm=paper --hierarchy=2,2 --tune=log=led.jsonl --trace=led.trace
grep -q '"layer"' led.jsonl || fail 'no report on layers with two leaders'

# one number of a rank that shares its parameters with another: the first that fails has the message
# refused NAME REGEX OPTION...
refused() {
    name=$1 pattern=$2
    shift 2
    train 4 "$name.log" --max-iter=12 "$@"
    status=$?
    count=$(grep -c '^poseidon train: ' "$name.log")
    if [ $status -eq 0 ] || [ $status -ge 124 ]; then
        fail "$name: status $status:" && tail -n 5 "$name.log"
    elif [ "$count" -ne 1 ] || ! grep -E -q "^poseidon train: .*$pattern" "$name.log"; then
        fail "$name: expected one message with $pattern, found" && head -n 20 "$name.log"
    else
        echo "ok: $name: $(grep '^poseidon train: ' "$name.log")"
    fi
}
refused 'no such hierarchy' '--hierarchy=often: expected auto, off, or a number of ranks per node' --solver=solver.prototxt --hierarchy=often
refused 'nodes of none' '--hierarchy=0: expected' --solver=solver.prototxt --hierarchy=0
refused 'nodes of half' '--hierarchy=2.5: expected' --solver=solver.prototxt --hierarchy=2.5
refused 'leaders of nobody' '--hierarchy: 2 leaders per node need ranks that add up together; found none' --solver=solver.prototxt --hierarchy=1,2
refused 'leaders of others' '--hierarchy: 3 leaders per node: the largest node has 2 ranks' --solver=solver.prototxt --hierarchy=2,3
refused 'stale nodes' '--hierarchy=2.*--tune=staleness' --solver=solver.prototxt --hierarchy=2 --comm=ps --tune=staleness=1
refused 'nodes alone' '--hierarchy=2.*--comm=none' --solver=solver.prototxt --hierarchy=2 --comm=none
train 4 stale.log --solver=solver.prototxt --batch=8 --comm=ps --tune=staleness=1 || fail '--tune=staleness alone'

# a net that has nothing to train is no team of devices
cat >nothing.prototxt <<'END'
layer { name: "data" type: "DummyData" top: "x" top: "y"
    dummy_data_param { shape { dim: 4 dim: 10 } shape { dim: 4 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "y" top: "loss" }
END
printf 'net: "nothing.prototxt"\nbase_lr: 0.1\nlr_policy: "fixed"\nmax_iter: 3\nsnapshot_after_train: false\n' >untrained.prototxt
train 2 nothing.log --solver=untrained.prototxt --hierarchy=2 || { tail nothing.log; fail 'a net without parameters'; }

cat >labels.py <<'END'
import h5py, sys
source = h5py.File(sys.argv[1], "r")
data, label = source["data"][:1024], source["label"][:1024].astype("i4")
label[int(sys.argv[2])] = 10
with h5py.File("label.h5", "w") as f:
    f["data"], f["label"] = data, label
END
# at 64 samples a rank and 4 ranks, sample 612 is rank 1's in iteration 2, and 676 rank 2's
if [ -n "${POSEIDON_PYTHON:-}" ] && "$POSEIDON_PYTHON" -c 'import h5py' 2>/dev/null; then
    sed -i "s|source: .*train.h5|source: \"$work/label.h5|" net.prototxt
    make_solver failing.prototxt 'max_iter: 12' 'snapshot_after_train: false'
    for comm in ps sfb allreduce; do
        "$POSEIDON_PYTHON" labels.py "$abs_top_srcdir/data/fashion-mnist-train.h5" 612
        refused "a rank that is spoken for fails, $comm" 'rank 1 .*iteration 2.*label' --solver=failing.prototxt \
            --hierarchy=2 --comm=$comm --batch=64
    done
    for comm in ps allreduce; do
        "$POSEIDON_PYTHON" labels.py "$abs_top_srcdir/data/fashion-mnist-train.h5" 612
        refused "one of two leaders fails, $comm" 'rank 1 .*iteration 2.*label' --solver=failing.prototxt \
            --hierarchy=2,2 --comm=$comm --batch=64
    done
    "$POSEIDON_PYTHON" labels.py "$abs_top_srcdir/data/fashion-mnist-train.h5" 676
    refused 'a rank that leads fails' 'rank 2 .*iteration 2.*label' --solver=failing.prototxt --hierarchy=2 --batch=64
else
    echo 'skipped: ranks that fail (python3 with h5py is missing)'
fi
finish
