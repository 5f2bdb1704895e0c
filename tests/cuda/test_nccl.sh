#!/bin/sh
# Nodes whose emulated GPUs add up among themselves, by an emulated NCCL that adds along the fixed tree: one node trains
# to the last bit as ranks that lead themselves; several, but for the rounding of sums of sums. Streams of the
# emulated GPUs are worked off as late as can be, so what is used too early shows.
set -u
. "${abs_top_srcdir:?}/tests/cuda/common.sh"
POSEIDON_EMULATED_GPUS=4
export POSEIDON_EMULATED_GPUS

if "$emulated" device_query | grep -q 'between GPUs: not part of this build'; then
    echo 'SKIP: no nccl.h was there when this was configured'
    exit 77
fi
"$emulated" device_query | grep -q '^between GPUs: NCCL 2\.[0-9.]*$' || fail 'device_query does not tell the version of NCCL'
# files in shared memory by which this test's are known: others run beside it
POSEIDON_EMULATED_TEAM=${work##*/}
export POSEIDON_EMULATED_TEAM
mkdir shared
export OMPI_MCA_osc_sm_backing_directory="$work/shared"

# go RANKS ARGUMENTS...: every rank has a GPU
go() {
    ranks=$1; shift
    "$POSEIDON_MPIRUN" "$ranks" "$emulated" train --engine=cuda --threads=1 --set random_seed=3 --force --summary=out.json \
        --tune=ps-update=host "$@" >log 2>&1 && return
    cat log
    fail "$*"
    return 1
}

# One node. --comm says nothing then: nothing crosses a network.
one_node() { # RANKS ARGUMENTS...
    # what overlaps, and how, changes no bit of it
    case $* in *--math*) flat=$1-$2-math ;; *) flat=$1-$2 ;; esac
    if [ ! -f "$flat" ]; then
        go "$@" --comm=ps --hierarchy=off || return
        echo "$(value parameters_sha256) $(value train_loss)" >"$flat"
    fi
    go "$@" || return
    grep -q "$1 workers on 1 node add up gradients by NCCL 2\.[0-9.]*; one leader a node communicates" log ||
        fail "$*: no word of NCCL"
    [ "$(value parameters_sha256) $(value train_loss)" = "$(cat "$flat")" ] || fail "$*: other parameters than by --comm=ps"
    [ "$(value bytes_sent_per_iteration)" = 0 ] || fail "$*: $(value bytes_sent_per_iteration) bytes sent within a node"
    echo "ok: one node: $*"
}
for ranks in 2 3 4; do
    one_node $ranks --solver=plain.prototxt
    one_node $ranks --solver=clipped.prototxt
done
one_node 3 --solver=clipped.prototxt --tune=overlap=none --tune=merge=0
one_node 3 --solver=plain.prototxt --tune=overlap=backward --tune=no-graphs
one_node 3 --solver=plain.prototxt --math=bf16
{ grep -v 'base_lr\|momentum' clipped.prototxt; printf 'type: "Adam"\nbase_lr: 0.001\nmomentum: 0.9\nmomentum2: 0.999\n'; } >adam.prototxt
one_node 2 --solver=adam.prototxt
cat >cluster <<'END'
ranks = 4
ranks_per_node = 4
latency_seconds = 3e-5
message_seconds = 1e-5
link_bytes_per_second = 1.25e8
local_bytes_per_second = 4e9
gemm_flops = 2e11
copy_bytes_per_second = 8e9
sum_bytes_per_second = 1e9
served_bytes_per_second = 1e9
transport_bytes_per_second = 1e9
core_share = 0
END
one_node 4 --solver=plain.prototxt --tune=log=l.jsonl --tune=cluster-file=cluster
grep -q 'result\.c.*conv1 ' log || fail 'no account of one node'

# Several nodes: the parameters, as near as sums of sums are; what is sent is what was planned, by the leaders.
cat >compare.py <<'END'
import sys, h5py
def blobs(name):
    found = {}
    h5py.File(name, "r").visititems(lambda path, item: found.update({path: item[...]}) if hasattr(item, "shape") else None)
    return found
a, b = blobs(sys.argv[1]), blobs(sys.argv[2])
# a bias before a batch normalisation is all rounding
worst = max(abs(a[k] - b[k]).max() / max(abs(a[k]).max(), 0.01) for k in a)
sys.exit(0 if a.keys() == b.keys() and worst <= 1e-5 else "parameters differ by %g" % worst)
END
near() { # FILE: is like snap_iter_6.caffemodel.h5
    "${POSEIDON_PYTHON:-python3}" -c 'import h5py' 2>/dev/null || { echo 'skipped: parameters (no h5py)'; return 0; }
    "$POSEIDON_PYTHON" compare.py "$1" snap_iter_6.caffemodel.h5
}
for file in plain clipped; do
    { grep -v snapshot $file.prototxt; printf 'snapshot_prefix: "snap"\nsnapshot_format: HDF5\n'; } >$file-saved.prototxt
done
nodes() { # RANKS ARGUMENTS...: against one run without nodes for each solver and number of workers
    flat=flat-$1-${2#*=}.h5
    case $* in *--servers*) flat=server-$flat ;; esac
    if [ ! -f "$flat" ]; then
        go "$@" --hierarchy=off || return
        mv snap_iter_6.caffemodel.h5 "$flat"
    fi
    two_nodes "$@" || return
    near "$flat" || fail "$*: not the parameters of --hierarchy=off"
}
two_nodes() {
    go "$@" --hierarchy=2 || return
    grep -q "workers on 2 nodes add up gradients by NCCL" log || fail "$*: no word of NCCL"
    [ "$(value bytes_sent_per_iteration_by_rank)" = "$(value bytes_predicted_per_iteration_by_rank)" ] ||
        fail "$*: sent $(value bytes_sent_per_iteration_by_rank), planned $(value bytes_predicted_per_iteration_by_rank)"
    echo "ok: two nodes: $*"
}
# What rounds gradients away: the loss of nodes that share memory, on the CPU.
lossy() {
    two_nodes "$@" || return
    found=$(value train_loss) ranks=$1; shift
    "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" train --threads=1 --set random_seed=3 --force --summary=out.json "$@" --hierarchy=2 >log 2>&1 ||
        { cat log; fail "$* on the CPU"; return; }
    awk -v a="$found" -v b="$(value train_loss)" 'BEGIN { d = a - b; exit !(d * d <= 1e-6 * a * a) }' ||
        fail "$*: a loss of $found, and of $(value train_loss) on the CPU"
}
for file in plain clipped; do
    nodes 4 --solver=$file-saved.prototxt --comm=ps
    nodes 4 --solver=$file-saved.prototxt --comm=allreduce
    nodes 4 --solver=$file-saved.prototxt --comm=auto --tune=cluster-file=cluster
    nodes 4 --solver=$file-saved.prototxt --comm=ps --tune=chunk=1k --tune=ps-update=device --tune=overlap=none
    nodes 4 --solver=$file-saved.prototxt --comm=allreduce --tune=merge=0 --tune=no-graphs
    nodes 4 --solver=$file-saved.prototxt --comm=ps --servers=1 # nodes of 2 and of 1, and a server
    lossy 4 --solver=$file.prototxt --comm=ps --tune=wire=bf16
    lossy 4 --solver=$file.prototxt --comm=allreduce --tune=wire=bf16
    lossy 4 --solver=$file.prototxt --comm=onebit
done
nodes 4 --solver=plain-saved.prototxt --comm=paper
POSEIDON_EMULATED_AWARE=1
export POSEIDON_EMULATED_AWARE
nodes 4 --solver=plain-saved.prototxt --comm=ps --tune=chunk=1k --tune=direct=on
nodes 3 --solver=plain-saved.prototxt --comm=ps --tune=chunk=1k --tune=direct=on --tune=ps-update=device
POSEIDON_EMULATED_AWARE=0

# a snapshot goes on, in one node and in two
{ cat plain-saved.prototxt; echo 'snapshot: 3'; } >half.prototxt
for how in '2 --hierarchy=auto' '4 --hierarchy=2'; do
    # shellcheck disable=SC2086
    go $how --solver=half.prototxt --comm=ps && expected=$(value parameters_sha256)
    # shellcheck disable=SC2086
    go $how --solver=half.prototxt --comm=ps --snapshot=snap_iter_3.solverstate.h5 || continue
    [ "$(value parameters_sha256)" = "$expected" ] || fail "$how: resumed to other parameters"
done
# tests between iterations
{ cat plain.prototxt; printf 'test_iter: 2\ntest_interval: 2\n'; } >tested.prototxt
go 2 --solver=tested.prototxt --comm=ps --hierarchy=off && expected=$(value test)$(value parameters_sha256)
go 2 --solver=tested.prototxt --comm=ps && [ "$(value test)$(value parameters_sha256)" = "$expected" ] || fail 'tests: other scores'

# where it does not go, auto leaves it out and says why; who asks for it is refused
left_out() { # REASON ARGUMENTS...
    reason=$1; shift
    go 2 --solver=plain.prototxt "$@" || return
    grep -q 'add up gradients' log && fail "$*: NCCL is used"
    grep -q "NCCL disabled: .*$reason" log || { cat log; fail "$*: no word of '$reason'"; }
    go_wrong "--hierarchy=2: the ranks of a node cannot be grouped: .*$reason" 2 --solver=plain.prototxt --hierarchy=2 "$@"
}
go_wrong() { # PATTERN RANKS ARGUMENTS...
    pattern=$1 ranks=$2; shift 2
    "$POSEIDON_MPIRUN" "$ranks" "$emulated" train --engine=cuda --threads=1 --set random_seed=3 --tune=ps-update=host "$@" >log 2>&1
    status=$?
    if [ $status -eq 0 ] || [ $status -ge 124 ] || ! grep -q -e "$pattern" log; then
        tail -n 20 log
        fail "$*: status $status, or no '$pattern'"
    else
        echo "ok: refused: $*"
    fi
}
left_out '--tune=share-gpu lets ranks share a GPU, but NCCL needs a GPU for each rank' --tune=share-gpu
left_out '--comm=sfb sends factors' --comm=sfb
left_out '--comm=adam sends factors' --comm=adam
left_out '--comm=none every rank trains its own net' --comm=none
left_out '--tune=staleness gives every rank' --comm=ps --tune=staleness=1
POSEIDON_EMULATED_NCCL=missing
export POSEIDON_EMULATED_NCCL
left_out 'libnccl.so.2 is missing'
"$emulated" device_query | grep -q '^between GPUs: .*libnccl.so.2 is missing' || fail 'device_query does not miss NCCL'

# what breaks ends all ranks with a message, also those that wait on the device
POSEIDON_EMULATED_NCCL='broken 9'
for hierarchy in auto 2; do
    go_wrong 'rank [13] .*NCCL: an emulated status from an operation under way' 4 --solver=plain.prototxt --hierarchy=$hierarchy
done
unset POSEIDON_EMULATED_NCCL
{ cat plain.prototxt; echo 'base_lr: 1e30' ; } | sed '0,/^base_lr: 0/{/^base_lr: 0/d}' >diverging.prototxt
go_wrong 'training has diverged' 4 --solver=diverging.prototxt
go_wrong 'training has diverged' 4 --solver=diverging.prototxt --hierarchy=2
# one rank's label is wrong while the others wait on their devices; at 4 samples a rank and 4 ranks, sample 33 + 4 r is
# rank r's in iteration 2
cat >labels.py <<'END'
import h5py, sys
source = h5py.File("data/fashion-mnist-test.h5", "r")
data, label = source["data"][:512], source["label"][:512].astype("i4")
label[int(sys.argv[1])] = 10
with h5py.File("label.h5", "w") as f:
    f["data"], f["label"] = data, label
END
sed -i 's|data/fashion-mnist-test.h5|label.h5|' net.prototxt
for rank in 0 1 2; do
    "${POSEIDON_PYTHON:-python3}" labels.py $((33 + 4 * rank)) 2>/dev/null || { echo 'skipped: one rank fails (no h5py)'; break; }
    for hierarchy in auto 2; do
        go_wrong "rank $rank .*iteration 2.*label 10" 4 --solver=plain.prototxt --hierarchy=$hierarchy
    done
done
cp "$abs_top_srcdir/tests/cuda/mixed.prototxt" net.prototxt
# one is killed; its log line tells its number
"$POSEIDON_MPIRUN" 4 "$emulated" train --engine=cuda --threads=1 --solver=plain.prototxt --max-iter=100000000 >log 2>&1 &
waiter=$!
pid=
while [ -z "$pid" ] && kill -0 $waiter; do
    sleep 0.1
    pid=$(sed -n 's/^I[0-9]* [0-9:.]* *\([0-9]*\) .*Solving.*/\1/p' log)
done
kill -9 "$pid"
wait $waiter
[ $? -ne 124 ] || fail 'a rank was killed and the others hang'

left=$(find shared /dev/shm/"$POSEIDON_EMULATED_TEAM"* -type f 2>/dev/null)
[ -z "$left" ] || fail "shared memory is left behind: $left"
finish
