#!/bin/sh
# --reproducible and the processors: the log says of which processor and oneDNN the bits are, ranks on unlike ones are
# named with their hosts, and a run is not resumed on another kind without a word. No setting of the environment makes
# float products others.
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
grep 'not of one kind' alike && fail 'ranks of one machine are unlike'
grep -Eq 'Reproducible: .* on the same processors and oneDNN \(.*, caches of [0-9]+ and [0-9]+ KB, oneDNN [0-9.]+\)' alike ||
    fail "the kind: $(grep Reproducible alike)"

# oneDNN 3 would then take bfloat16 where the processor has it, 2.6 on Arm alone
for mode in BF16 ANY nonsense; do
    start 2 math "export ONEDNN_DEFAULT_FPMATH_MODE=$mode DNNL_DEFAULT_FPMATH_MODE=$mode" --force --summary=math.json ||
        fail "$mode: $(tail -n 3 math)"
    same "with ONEDNN_DEFAULT_FPMATH_MODE=$mode" "$(hash_of plain.json)" "$(hash_of math.json)"
done

case $(uname -m) in
x86_64) ;;
*) finish ;;
esac
older='export ONEDNN_MAX_CPU_ISA=SSE41 DNNL_MAX_CPU_ISA=SSE41'
# shellcheck disable=SC2016
start 2 unlike "[ \"\$OMPI_COMM_WORLD_RANK\" = 0 ] || $older" --force || fail "unlike: $(tail -n 3 unlike)"
host=$(uname -n)
same 'warnings' 1 "$(grep -c 'not of one kind' unlike)"
grep -q "^  rank 0 on ${host%%.*}.*: .*, oneDNN" unlike || fail "rank 0 is not named: $(grep -A 2 'of one kind' unlike)"
grep -q "^  rank 1 on ${host%%.*}.*: .*SSE4.1 (0x1)" unlike || fail "rank 1 is not named: $(grep -A 2 'of one kind' unlike)"

# one iteration there, the other one here
start 1 begun "$older" --force --run=moved --max-iter=1 || fail "begun: $(tail -n 3 begun)"
start 2 moved '' --run=moved --resume && fail 'a run was resumed on another processor without a word'
grep -q 'train: .*--resume: .* (processors: .*SSE4.1 .* there, .* here): .* --resume=any' moved || fail "moved: $(tail -n 3 moved)"
start 2 moved '' --run=moved --resume=any || fail "--resume=any: $(tail -n 3 moved)"
grep -q 'Resuming from' moved || fail "--resume=any did not resume: $(tail -n 3 moved)"
# without --reproducible nobody asked for bits
options='--solver=solver.prototxt --global-batch=16 --threads=1'
start 1 begun "$older" --force --run=free --max-iter=1 || fail "free, begun: $(tail -n 3 begun)"
start 1 free '' --run=free --resume || fail "free: $(tail -n 3 free)"
finish
