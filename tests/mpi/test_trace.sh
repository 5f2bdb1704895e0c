#!/bin/sh
# The trace of real and replayed training: its form, its bytes, its order of events, and the times that are printed.
# test_trace_options.sh has what no clock decides.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import json' 2>/dev/null || { echo "no Python to read JSON with"; exit 77; }
make_solver solver.prototxt 'max_iter: 8' 'display: 4' "snapshot_prefix: \"$work/traced\""
make_solver stepped.prototxt 'max_iter: 4' 'iter_size: 2' 'clip_gradients: 0.5'

# A machine that takes 0.2 s for the pass back through conv1 leaves time enough for any transfer to
# begin meanwhile, however busy this one is.
cat >profile.csv <<END
# not measured
layer,type,forward_s,backward_s
conv1,Convolution,0.001,0.2
pool1,Pooling,0.0005,0.0005
conv2,Convolution,0.002,0.004
pool2,Pooling,0,0
ip1,InnerProduct,0.001,0.002
relu1,ReLU,0,0
ip2,InnerProduct,0,0.0001
loss,SoftmaxWithLoss,0,0
*,GEMM,0.001,0
END
replay="--engine=replay --tune=profile=profile.csv --fake-data=1,28,28"

# traced NAME RANKS OPTION...: trains and holds the trace against the rest.
traced() {
    name=$1 ranks=$2
    shift 2
    train "$ranks" "$name.log" --trace="$name.json" --tune=log="$name.jsonl" --summary="$name-summary.json" "$@" ||
        { fail "$name"; grep -m 3 "poseidon:" "$name.log" || tail "$name.log"; return; }
    # shellcheck disable=SC2086
    "$python" "$abs_top_srcdir/tests/mpi/check_trace.py" "$name.json" "$name-summary.json" "$name.jsonl" \
        $order || fail "$name: $*"
}

order=
"$POSEIDON_MPIRUN" 4 "$abs_top_builddir/tests/mpi/test_trace_clock" ||
    fail "clocks shifted on purpose"
traced ps 2 --solver=solver.prototxt --batch=8 --comm=ps --tune=chunk=100k
traced clip 2 --solver=stepped.prototxt --batch=4
traced servers 3 --solver=solver.prototxt --batch=8 --servers=1 --comm=sfb
traced nodes 3 --solver=stepped.prototxt --batch=4 --hierarchy=2
grep -q '"sum' nodes.json || fail "the adding up of a node is not in the trace"
grep -q 'rank 2 (server,' servers.json || fail "a dedicated server is not named as one"

# Replayed: wait-free backprop begins with the last layer while the first one is still at work, and
# without overlap nothing begins before all is computed.
rm -f -- *_iter_*
order='wfbp conv1 ip2'
# shellcheck disable=SC2086
traced wfbp 2 --solver=solver.prototxt --comm=ps --tune=merge=0 $replay
# shellcheck disable=SC2086
traced dilated 4 --solver=solver.prototxt --comm=sfb $replay --tune=dilate=4 --max-iter=2
order=
for comm in allreduce adam onebit none auto; do
    # shellcheck disable=SC2086
    traced "$comm" 3 --solver=solver.prototxt --comm=$comm $replay --max-iter=2
done
# shellcheck disable=SC2086
traced bf16 2 --solver=solver.prototxt --comm=sfb --tune=wire=bf16 $replay --max-iter=2
order='none conv1 ip2'
# shellcheck disable=SC2086
traced none 2 --solver=solver.prototxt --comm=ps --tune=merge=0 $replay --tune=overlap=none
grep -q 'What would help most' wfbp.log || fail "no advice"
grep -q 'loss = 0 (replayed, not computed)' wfbp.log || fail "a loss that nobody computed looks like one"
ls -- *_iter_* >/dev/null 2>&1 && fail "a replay left a snapshot"

# Updates on the computing side are slept, too: 400 s for 10^9 parameters are 160 ms for ip1's 400500.
sed 's/^loss.*/&\n*update,SGD,400,0/' profile.csv >updates.csv
for comm in sfb none; do
    # shellcheck disable=SC2086
    train 2 updates.log --solver=solver.prototxt --comm=$comm $replay --tune=profile=updates.csv --max-iter=2 \
        --trace=updates.json || fail "updates, $comm"
    "$python" - <<'END' || fail "$comm: the update of ip1 is not slept"
import json
spans = [e for e in json.load(open("updates.json"))["traceEvents"]
         if e["ph"] == "X" and e["cat"] == "update" and e["args"].get("layer") == "ip1"]
assert spans and all(e["dur"] >= 160e3 for e in spans), [e["dur"] for e in spans]
END
done

finish
