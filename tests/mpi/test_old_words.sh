#!/bin/sh
# Options of former releases: they train as today's words do, rank 0 warns once of each and names the new one, and
# neither --help nor the manual page lists them.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 2' 'snapshot_after_train: false' 'display: 1'
"$POSEIDON" time --model=net.prototxt --batch=4 --iterations=1 --profile=profile.csv >time.log 2>&1 || fail 'poseidon time'

# warns NAME NEW LOG: just once, of --NAME, for NEW
warns() {
    same "--$1: warnings" 1 "$(grep -c "^warning: --$1 is an old option" "$3")"
    grep -qF "warning: --$1 is an old option, which the next release refuses: use $2" "$3" ||
        fail "--$1: $(grep "^warning: --$1 " "$3")"
}

# agrees OPTIONS NAME[=VALUE]...: ranks 0 and 1 are given old words, rank 2 has --tune's. They train only where all three
# ranks take the same from them.
agrees() {
    options=$1 old='' new=''
    shift
    for word; do
        old="$old --$word" new="$new --tune=$word"
        echo "${word%%=*}" >>tried
    done
    # shellcheck disable=SC2086 # words
    "$POSEIDON_MPIRUN" 2 "$POSEIDON" train --solver=solver.prototxt --batch=4 $options $old : \
        -n 1 "$POSEIDON" train --solver=solver.prototxt --batch=4 $options $new >agrees.log 2>&1 </dev/null ||
        [ "$options" = --engine=cuda ] || { fail "$old"; tail -n 3 agrees.log; }
    same "warnings of $old" $# "$(grep -c '^warning: ' agrees.log)"
    for word; do
        shown=$("$POSEIDON" help tuning | sed -n "/^the same for plan/q; s/^  \(${word%%=*}\)\(=[^ ]*\)\{0,1\}\( .*\)\{0,1\}$/\1\2/p")
        warns "${word%%=*}" "--tune=$shown" agrees.log
    done
}
agrees '' check-sync=1 direct=off ps-update=host convolution=direct no-fusion order=fifo \
    window=1m chunk=1k merge=0 measure rank-log=log level=1 stage=x deterministic
agrees --engine=cuda share-gpu no-graphs workspace=1m # trains where there is a GPU
agrees --comm=ps staleness=1
agrees --comm=lowrank lowrank-warmup=2
agrees '--engine=replay --profile=profile.csv --comm=ps' dilate=2 bandwidth-mbps=900
"$POSEIDON" help tuning | sed -n '/^the same for plan/q; s/^  \([a-z][a-z-]*\).*/\1/p' | sort >names
sort tried | cmp -s - names || fail "tried $(tr '\n' ' ' <tried), not $(tr '\n' ' ' <names)"

# alike NAME NEW-OPTIONS OLD-OPTIONS NEW: two ranks, the same parameters
alike() {
    # shellcheck disable=SC2086 # words
    { trained new 2 $2; trained old 2 $3; }
    same "--$1: parameters" "$(hash_of new.json)" "$(hash_of old.json)"
    same "--$1 of today: warnings" 0 "$(grep -c '^warning: ' new.log)"
    warns "$1" "$4" old.log
}
alike lars '--set local_lr_auto=true' --lars '--set local_lr_auto=true'
trained plain 2
[ "$(hash_of plain.json)" != "$(hash_of old.json)" ] || fail '--lars changes nothing'
alike leaders --hierarchy=auto,1 --leaders=1 --hierarchy=HOW,L
for run in new old; do
    grep -q 'one of them updates the parameters' $run.log || fail "$run: not one leader"
done
alike phase '' --phase=TRAIN 'nothing, training is of phase TRAIN'
"$POSEIDON" time --model=net.prototxt --batch=8 --iterations=1 --profile=profile8.csv >time.log 2>&1 || fail 'poseidon time'
sizes='--engine=replay --profile=profile8.csv'
alike input-shape "$sizes --fake-data=1,28,28" "$sizes --input-shape=1,28,28" --fake-data=C,H,W
alike trace-iterations --trace=new.trace,1-1 '--trace=old.trace --trace-iterations=1-1' --trace=FILE,A-B
for run in new old; do
    same "$run: iterations in the trace" 1 "$(grep -o '"iteration 1"' $run.trace | sort -u | wc -l)"
    same "$run: other iterations in the trace" 0 "$(grep -c '"iteration 0"' $run.trace)"
done
alike account --log=new.jsonl --account '--log=FILE, which implies it'
for run in new old; do
    grep -q 'predicted time time alone time waited  exposed' $run.log || fail "$run: no transfer was timed alone"
done

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
}
all=$((0x804203))
ignored $all --on-signal=TERM=none,SIGUSR1=none,XCPU=none,INT=none,HUP=none
same 'warnings of --on-signal' 0 "$(grep -c '^warning: ' signals.log)"
ignored $all --sigterm-effect=none --sigusr1_effect=none -sigxcpu_effect none -sigint_effect=none --sighup-effect=none
same 'warnings of words for signals' 3 "$(grep -c '^warning: ' signals.log)"
for signal in TERM USR1 XCPU; do
    warns "sig$(echo $signal | tr A-Z a-z)-effect" "--on-signal=$signal=EFFECT" signals.log
done
ignored 0

# Nobody reads of them: names of --tune stand under that heading alone.
"$POSEIDON" train --help >page
for word in $(cat names) lars leaders phase trace-iterations account sigint-effect sighup-effect sigterm-effect \
    sigusr1-effect sigxcpu-effect input-shape; do
    grep -q -e "^  --$word\>" page && fail "--help lists --$word"
done
listed=$(grep '^  --' page | grep -vc '^  --help ')
[ "$listed" -le 45 ] || fail "--help lists $listed options besides itself"
finish
