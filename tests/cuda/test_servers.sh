#!/bin/sh
# Parameter servers that update in the emulated GPU's memory: the same parameters and history to the last bit as those
# that update on the host. Streams of the emulated GPU are worked off as late as can be, so what is used too early shows.
set -u
. "${abs_top_srcdir:?}/tests/cuda/common.sh"

both() { # RANKS ARGUMENTS...
    run "$@" --tune=ps-update=host || return
    expected=$(value parameters_sha256)
    run "$@" --tune=ps-update=device || return
    [ "$(value parameters_sha256)" = "$expected" ] || fail "$*: other parameters than by updates on the host"
    echo "$*: $expected"
}

for ranks in 2 3; do
    for file in plain clipped; do
        both $ranks --solver=$file.prototxt --comm=ps --tune=chunk=1k
    done
done
both 3 --solver=plain.prototxt --comm=ps --servers=1
both 3 --solver=plain.prototxt --comm=ps --tune=chunk=1k --tune=overlap=none --tune=no-graphs
both 2 --solver=clipped.prototxt --comm=ps --tune=wire=bf16
both 3 --solver=plain.prototxt --comm=adam
for rule in 'Nesterov|base_lr: 0.05|momentum: 0.9' 'AdaGrad|base_lr: 0.01' 'RMSProp|base_lr: 0.001|rms_decay: 0.98' \
    'AdaDelta|base_lr: 1|momentum: 0.95|delta: 1e-6' 'Adam|base_lr: 0.001|momentum2: 0.999' \
    'AdamW|base_lr: 0.001|momentum2: 0.999'; do
    { grep -v 'base_lr\|momentum' plain.prototxt; echo "type: \"${rule%%|*}\""; echo "${rule#*|}" | tr '|' '\n'; } >rule.prototxt
    both 2 --solver=rule.prototxt --comm=ps --tune=chunk=1k
done
POSEIDON_EMULATED_AWARE=1
export POSEIDON_EMULATED_AWARE
both 3 --solver=plain.prototxt --comm=ps --tune=chunk=1k --tune=direct=on
POSEIDON_EMULATED_AWARE=0

# history goes into snapshots and comes out of them
{ grep -v snapshot plain.prototxt; printf 'snapshot: 3\nsnapshot_prefix: "snap"\nsnapshot_format: HDF5\n'; } >snap.prototxt
run 3 --solver=snap.prototxt --comm=ps --tune=chunk=1k --tune=ps-update=host
expected=$(value parameters_sha256)
rm -f snap_*
run 3 --solver=snap.prototxt --comm=ps --tune=chunk=1k --tune=ps-update=device --max-iter=3
for place in host device; do
    run 3 --solver=snap.prototxt --comm=ps --tune=chunk=1k --tune=ps-update=$place --snapshot=snap_iter_3.solverstate.h5
    [ "$(value parameters_sha256)" = "$expected" ] || fail "resumed with updates on the $place: other parameters"
done

# by itself it says what it measured
run 2 --solver=plain.prototxt --comm=ps --tune=ps-update=auto &&
    grep -q 'Parameter servers update \(on the host\|in the device.s memory\): [0-9.]* [kMGT]*B/s there, [0-9.]* [kMGT]*B/s on' log ||
    { cat log; fail 'the log does not say where servers update'; }
run 2 --solver=plain.prototxt --comm=sfb --tune=ps-update=device

refused() { # PATTERN PROGRAM ARGUMENTS...
    pattern=$1; shift
    if "$POSEIDON_MPIRUN" 2 "$@" --solver=plain.prototxt >log 2>&1 || ! grep -q -e "$pattern" log; then
        cat log
        fail "not refused: $*"
    fi
}
refused '--tune=ps-update=gpu: expected auto, host or device' "$emulated" train --tune=ps-update=gpu
refused "--tune=ps-update=device: the engine 'cpu' computes in the host's memory" "$emulated" train --tune=ps-update=device
refused '--tune=ps-update updates parameters that all workers share: not with --tune=staleness' "$emulated" train --engine=cuda --tune=share-gpu \
    --tune=ps-update=device --tune=staleness=2
finish
