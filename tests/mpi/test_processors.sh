#!/bin/sh
# --reproducible and the processors: the log says of which processor and oneDNN the bits are. No setting of the
# environment makes float products others.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 2' 'snapshot: 1' "snapshot_prefix: \"$work/at\""
options='--solver=solver.prototxt --global-batch=16 --reproducible --threads=1'

# start RANKS LOG SCRIPT OPTION...: each rank is set up by the lines of SCRIPT
start() {
    ranks=$1 log=$2 script=$3
    shift 3
    # shellcheck disable=SC2086
    "$POSEIDON_MPIRUN" "$ranks" sh -c "$script"'
        exec "$0" "$@"' "$POSEIDON" train $options "$@" >"$log" 2>&1 </dev/null
}

start 2 alike '' --force --summary=plain.json || fail "alike: $(tail -n 3 alike)"
grep -Eq 'Reproducible: .* on the same processors and oneDNN \(.*, caches of [0-9]+ and [0-9]+ KB, oneDNN [0-9.]+\)' alike ||
    fail "the kind: $(grep Reproducible alike)"

# oneDNN 3 would then take bfloat16 where the processor has it, 2.6 on Arm alone
for mode in BF16 ANY nonsense; do
    start 2 math "export ONEDNN_DEFAULT_FPMATH_MODE=$mode DNNL_DEFAULT_FPMATH_MODE=$mode" --force --summary=math.json ||
        fail "$mode: $(tail -n 3 math)"
    same "with ONEDNN_DEFAULT_FPMATH_MODE=$mode" "$(hash_of plain.json)" "$(hash_of math.json)"
done

finish
