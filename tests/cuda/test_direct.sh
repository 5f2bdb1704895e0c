#!/bin/sh
# Messages straight from and to the emulated GPU's memory, which its MPI is told to reach: the same parameters to
# the last bit and the same bytes on the wire as by way of the host, for every scheme. What arrives or leaves too
# early shows, as streams of the emulated GPU are worked off as late as can be.
set -u
. "${abs_top_srcdir:?}/tests/cuda/common.sh"
POSEIDON_EMULATED_AWARE=1
export POSEIDON_EMULATED_AWARE
sed 's/base_lr.*/base_lr: 0.005/' plain.prototxt >slow.prototxt

straight() { # RANKS ARGUMENTS...
    run "$@" --tune=direct=off || return
    expected=$(value parameters_sha256)
    bytes=$(value bytes_sent_per_iteration_by_rank)
    grep -q "Messages go by way of the host's memory: direct=off" log || fail "the log does not say which way"
    run "$@" --tune=direct=on || return
    grep -q "Messages go straight from and to the engine's memory" log || fail "the log does not say which way"
    [ "$(value parameters_sha256)" = "$expected" ] || fail "$*: other parameters than by way of the host"
    [ "$(value bytes_sent_per_iteration_by_rank)" = "$bytes" ] || fail "$*: other bytes than by way of the host"
    [ "$(value bytes_predicted_per_iteration_by_rank)" = "$bytes" ] || fail "$*: other bytes than predicted"
    echo "$*: $expected, bytes $bytes"
}

for ranks in 2 3; do
    for file in plain clipped; do
        straight $ranks --solver=$file.prototxt --comm=ps --tune=chunk=1k
        straight $ranks --solver=$file.prototxt --comm=sfb
    done
done
straight 3 --solver=plain.prototxt --comm=ps --servers=1
straight 3 --solver=plain.prototxt --comm=ps --tune=chunk=1k --tune=overlap=none --tune=no-graphs
straight 2 --solver=plain.prototxt --comm=ps --tune=wire=bf16
straight 3 --solver=clipped.prototxt --comm=allreduce --tune=chunk=1k
straight 2 --solver=plain.prototxt --comm=onebit
straight 3 --solver=plain.prototxt --comm=adam

# gradients and parameters that wait for others do so on the host, all the same
run 2 --solver=slow.prototxt --comm=ps --tune=direct=off && expected=$(value train_loss) &&
    run 2 --solver=slow.prototxt --comm=ps --tune=staleness=2 --tune=direct=on && found=$(value train_loss) &&
    awk -v a="$expected" -v b="$found" 'BEGIN { exit !(a > 0 && b > 0 && (a - b)^2 < (0.05 * a)^2) }' ||
    fail "staleness: loss $found, not about $expected"
run 2 --solver=plain.prototxt --comm=sfb && grep -q 'Messages go straight' log || fail 'not straight by itself'
# the real engine writes down the cluster's figures: measuring the emulated GPU's products takes long
"$POSEIDON_MPIRUN" 2 "$abs_top_builddir/poseidon" train --solver=plain.prototxt --tune=log=l.jsonl --threads=1 \
    --tune=cluster-file=cluster >log 2>&1 || { cat log; fail 'the cluster was not measured'; }
run 2 --solver=plain.prototxt --comm=sfb --tune=log=l.jsonl --tune=cluster-file=cluster --tune=direct=on &&
    grep -q 'Communication alone' log || fail 'no transfers alone'

POSEIDON_EMULATED_AWARE=0
run 2 --solver=plain.prototxt && grep -q "by way of the host's memory: this MPI was built without CUDA" log ||
    fail 'straight where MPI does not reach the GPU'
if "$POSEIDON_MPIRUN" 2 "$emulated" train --engine=cuda --tune=share-gpu --solver=plain.prototxt \
    --tune=direct=on >log 2>&1 || ! grep -q -e 'direct=on: this MPI was built without CUDA' log; then
    cat log
    fail '--tune=direct=on without an MPI that reaches the GPU was not refused'
fi
finish
