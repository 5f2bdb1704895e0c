#!/bin/sh
# Caffe's own words for options that have other names here: they train as today's do, without a warning, and neither --help
# nor the manual page lists them; nor names of --tune, which are refused without it by the name that they have behind it.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 2' 'snapshot_after_train: false' 'display: 1'

# alike NEW-OPTIONS CAFFE-OPTIONS: two ranks, the same parameters
alike() {
    # shellcheck disable=SC2086 # words
    { trained new 2 $1; trained old 2 $2; }
    same "$2: parameters" "$(hash_of new.json)" "$(hash_of old.json)"
    same "$2: warnings" 0 "$(grep -c '^warning: ' old.log)"
}
alike '' -phase=TRAIN
alike '--tune=level=1 --tune=stage=x' '-level 1 -stage x'
for scheme in ps sfb paper; do
    alike "--comm=$scheme --tune=wire=bf16" "--comm=$scheme --lossy=bf16"
    same "$scheme: what travels" '"wire":"bf16"' "$(tr -d ' \n' <old.json | grep -o '"wire":"[a-z0-9]*"')"
done
[ "$(hash_of new.json)" != "$(trained exact 2 --comm=paper && hash_of exact.json)" ] || fail '--lossy=bf16 rounds nothing'

# ignored BITS OPTION...: of /proc/PID/status, the signals that a run ignores; 24 (XCPU), 15 (TERM), 10 (USR1), 2 (INT), 1 (HUP)
make_solver endless.prototxt 'max_iter: 100000000' 'snapshot_after_train: false' 'display: 1'
ignored() {
    bits=$1
    shift
    begin 1 signals.log --solver=endless.prototxt "$@"
    await 'Iteration 0'
    same "$*: signals without effect" "$bits" $((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' "/proc/$(cat pid.0)/status") & 0x804203))
    kill -KILL "$(cat pid.0)"
    wait "$launcher"
    same "$*: warnings" 0 "$(grep -c '^warning: ' signals.log)"
}
ignored $((0x804203)) --on-signal=TERM=none,SIGUSR1=none,XCPU=none,INT=none,HUP=none
ignored 3 -sigint_effect=none --sighup-effect none
ignored 0

"$POSEIDON" help tuning | sed -n '/^the same for plan/q; s/^  \([a-z][a-z-]*\).*/\1/p' >names
"$POSEIDON" train --help >page
for word in $(cat names) phase sigint-effect sighup-effect; do
    grep -q -e "^  --$word\>" page && fail "--help lists --$word"
done
for word in $(grep -vx 'stage\|level' names); do
    "$POSEIDON" train --solver=solver.prototxt "--$word=1" >said 2>&1 && fail "--$word is taken without --tune"
    grep -q "unknown option --$word; did you mean --tune=$word?" said || fail "--$word: $(cat said)"
done
# options that are gone: each is answered by what takes its place
while IFS='|' read -r old text; do
    # shellcheck disable=SC2086 # words
    "$POSEIDON" train --solver=solver.prototxt $old >said 2>&1 && fail "$old is taken"
    same "$old" "poseidon train: unknown option ${old%%[= ]*}: $text" "$(cat said)"
done <<'END'
--json|--summary=- prints the summary as JSON
--csv=x.csv|--curves=FILE.csv, or --curves=FOLDER for TensorBoard
--tensorboard x|--curves=FILE.csv, or --curves=FOLDER for TensorBoard
--seed=3|--set random_seed=N
END
listed=$(grep '^  --' page | grep -vc '^  --help ')
[ "$listed" -le 38 ] || fail "--help lists $listed options besides itself"

# --summary=-: the summary, and nothing else, on standard output
"$POSEIDON" train --solver=solver.prototxt --summary=- >said 2>log || fail "--summary=-: $(tail -n 1 log)"
"$POSEIDON_PYTHON" -c 'import json; assert json.load(open("said"))["iterations"] == 2' || fail "--summary=-: $(head -n 3 said)"
[ ! -e ./- ] || fail '--summary=- writes a file'
finish
