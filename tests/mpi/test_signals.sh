#!/bin/sh
# Signals to a run: to one rank, to the launcher, twice, in a test, between iterations; what each does, that
# all ranks do it together, and that what goes on afterwards is the run that nobody disturbed, bit for bit.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 1000000' 'display: 10' "snapshot_prefix: \"$work/run\""

begin 2 one.log --solver=solver.prototxt
await 'Iteration 20 ' && kill -USR1 "$(cat pid.1)"
stopped 'SIGUSR1 to one rank' 1
grep -q 'SIGUSR1 to rank 1: stopping' one.log || fail "who was told is not said: $(grep SIGUSR1 one.log)"

# What mpirun itself forwards, with a dedicated server among the ranks.
begin 3 all.log --solver=solver.prototxt --servers=1 --summary=all.json
await 'Iteration 20 ' && kill -USR1 "$(pgrep -P $launcher)"
stopped 'SIGUSR1 to mpirun' 1
at=$(sed -n 's/.*stopping after \([0-9]*\) iterations.*/\1/p' all.log)
[ "$(json_value all.json stopped_early)" = true ] || fail 'the summary does not say that it stopped'
[ "$(json_value all.json iterations)" = "$at" ] || fail "the summary's iterations are not the $at done"

# The server alone, under bounded staleness.
make_solver slow.prototxt 'max_iter: 1000000' 'display: 10' "snapshot_prefix: \"$work/run\"" 'base_lr: 0.0001'
begin 3 server.log --solver=slow.prototxt --servers=1 --comm=ps --tune=staleness=2
await 'Iteration 20 ' && kill -TERM "$(cat pid.2)"
stopped 'SIGTERM to a server' 1

begin 2 twice.log --solver=solver.prototxt
await 'Iteration 20 ' && kill -TERM "$(cat pid.0)" && kill -TERM "$(cat pid.0)" "$(cat pid.1)" &&
    kill -INT "$(cat pid.1)"
stopped 'three signals at once' 1

# SIGHUP: a snapshot, and on; SIGINT: the end, as after training (Caffe's).
begin 2 hup.log --solver=solver.prototxt
await 'Iteration 20 ' && kill -HUP "$(cat pid.1)"
await 'SIGHUP to rank 1: a snapshot after' && await 'Snapshotting solver state' && kill -INT "$(cat pid.0)"
stopped 'SIGHUP, then SIGINT' 2
make_solver bare.prototxt 'max_iter: 1000000' 'display: 10' "snapshot_prefix: \"$work/run\"" \
    'snapshot_after_train: false'
begin 2 bare.log --solver=bare.prototxt
await 'Iteration 20 ' && kill -INT "$(cat pid.0)"
stopped 'SIGINT where no snapshot is wanted after training' 0 130
begin 2 term.log --solver=bare.prototxt
await 'Iteration 20 ' && kill -TERM "$(cat pid.0)"
stopped 'SIGTERM where no snapshot is wanted after training' 1

# Other effects, by Caffe's names of the options where it has them.
begin 2 none.log --solver=solver.prototxt --on-signal=TERM=none --sigint_effect snapshot -sighup_effect=stop
await 'Iteration 20 ' && kill -TERM "$(cat pid.0)" "$(cat pid.1)" && kill -INT "$(cat pid.0)"
await 'SIGINT to rank 0: a snapshot after' && kill -HUP "$(cat pid.0)"
stopped 'effects by option' 2
grep -q SIGTERM none.log && fail 'SIGTERM is to be ignored'

# How long a start, a few iterations and the end take here: limits that are meant to strike a run are set by it.
begun=$(date +%s)
train 2 none.log --solver=solver.prototxt --batch=8 --max-iter=3 --time-limit=none || fail '--time-limit=none'
took=$(($(date +%s) - begun + 1))
rm -f run_iter_* run.run

# Asked to end, Open MPI's mpirun lets its ranks go on for odls_base_sigkill_timeout seconds (1), ends them
# with SIGTERM, waits as long again, and kills them; its own exit status is 1 then.
case $(${MPIRUN:-mpirun} --version) in
*'Open MPI'*)
    # too short a time is told of as soon as an iteration was timed
    long='--solver=solver.prototxt --batch=8 --max-iter=2 --comm=ps --tune=bandwidth-mbps=10'
    # shellcheck disable=SC2086 # words
    train 2 soon.log $long
    grep -q 'mpirun kills its ranks 2 s after Ctrl-C: send mpirun SIGUSR1 instead' soon.log || fail 'nothing is said of Ctrl-C in two iterations'
    rm -f run_iter_* run.run
    export OMPI_MCA_odls_base_sigkill_timeout=0 # as job scripts do, whose mpirun sees no signal
    # shellcheck disable=SC2086
    train 2 soon.log $long
    grep 'after Ctrl-C' soon.log && fail 'something is said of Ctrl-C where mpirun sees none'
    rm -f run_iter_* run.run
    export OMPI_MCA_odls_base_sigkill_timeout=$((2 + took))
    # mpirun reads nothing meanwhile: a run that says much fills the pipe, and stands still before SIGTERM comes
    make_solver quiet.prototxt 'max_iter: 1000000' 'display: 200' "snapshot_prefix: \"$work/run\""
    begin 2 mpirun.log --solver=quiet.prototxt
    await 'Iteration 200 ' && kill -TERM "$(pgrep -P $launcher)"
    unset OMPI_MCA_odls_base_sigkill_timeout
    wait $launcher
    [ "$(states)" = 1 ] || fail "SIGTERM to mpirun: $(states) snapshots, expected 1"
    rm -f run_iter_*
    ;;
esac

# A test that would take minutes does not keep a scheduler waiting.
make_solver test.prototxt 'max_iter: 1000000' 'display: 10' 'test_interval: 20' 'test_iter: 1000000' \
    'test_initialization: false' "snapshot_prefix: \"$work/run\""
begin 2 test.log --solver=test.prototxt
await 'Iteration 20, Testing' && kill -USR1 "$(pgrep -P $launcher)"
stopped 'SIGUSR1 in a test' 1
[ "$(count 'Test interrupted')" = 1 ] || fail "'Test interrupted.' is not said once"

# What takes its time does so waiting for its messages, not computing.
slowly='--comm=ps --tune=bandwidth-mbps=100'
# Snapshots by the clock, of which two stay.
# shellcheck disable=SC2086
begin 2 every.log --solver=solver.prototxt $slowly --snapshot-every=1s --keep=2
until [ "$(count 'Snapshotting solver state')" -ge 4 ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.2; done
kill -USR1 "$(cat pid.1)"
[ "$(ls run_iter_*.solverstate.h5 | wc -l)" -le 3 ] || fail '--keep=2 keeps more'
ended '--snapshot-every' 75
[ "$(count 'Snapshotting solver state')" -ge 4 ] || fail "--snapshot-every=1s: $(count 'Snapshotting solver state') snapshots"
[ "$(states)" = 2 ] && [ "$(ls run_iter_*.caffemodel.h5 | wc -l)" = 2 ] || fail "--keep=2: $(ls run_iter_*)"
# one each time, not a second one an iteration later
sed -n 's/.*Snapshotting solver state.*_iter_\([0-9]*\)\..*/\1/p' every.log |
    awk 'NR > 1 { n[$1 - last > 1]++ } { last = $1 } END { exit n[0] > n[1] / 2 }' || fail '--snapshot-every saves twice'
grep -q '[0-9]* snapshots paused training for .* s in total' every.log || fail 'nothing is said of the stall by snapshots'
rm -f run_iter_* run.run

# As often as they cost no more than a part of the time; three come within seconds.
# shellcheck disable=SC2086
begin 2 share.log --solver=solver.prototxt $slowly --snapshot-every=1% --keep=2
until [ "$(count 'Snapshotting solver state')" -ge 3 ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.2; done
kill -USR1 "$(cat pid.1)"
ended '--snapshot-every=1%' 75
[ "$(count 'Snapshotting solver state')" -ge 3 ] || fail "--snapshot-every=1%: $(count 'Snapshotting solver state') snapshots"
[ "$(count 'No snapshot is written before the end')" = 0 ] && [ "$(count 'No snapshot is written before the end' one.log)" = 1 ] ||
    fail 'a start that saves nothing does not say so once'
rm -f run_iter_* run.run

# Sooner where starts have been many: a snapshot of some milliseconds comes after minutes by 0.0001 %, which is said once,
# and at once after a thousand starts.
# shellcheck disable=SC2086
begin 2 rare.log --solver=solver.prototxt $slowly --snapshot-every=0.0001% --keep=2 --run=rare
until [ "$(count 'Snapshotting solver state')" -ge 1 ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.2; done
sleep 2
kill -USR1 "$(cat pid.1)"
ended '--snapshot-every=0.0001%' 75
[ "$(count 'Snapshotting solver state')" = 2 ] || fail "--snapshot-every=0.0001%: $(count 'Snapshotting solver state') snapshots"
[ "$(count 'Snapshots are at least .* apart: one costs training .* and --snapshot-every allows 0.0001% of the time')" = 1 ] || fail 'rare snapshots are not said once'
sed -i 's/^\(launches\t\).*/\11000/' run.run
# shellcheck disable=SC2086
begin 2 often.log --solver=solver.prototxt $slowly --snapshot-every=0.0001% --keep=2 --run=rare --resume
for _ in $(seq 150); do [ "$(count 'Snapshotting solver state')" -ge 4 ] || sleep 0.2; done
kill -USR1 "$(cat pid.1)"
ended '--snapshot-every=0.0001% after a thousand starts' 75
[ "$(count 'Snapshotting solver state')" -ge 5 ] || fail "after a thousand starts: $(count 'Snapshotting solver state') snapshots"
rm -f run_iter_* run.run

# Stopped at different moments and started again by the same command line: the run that never stopped. It has no end
# until it was stopped five times; only then it is known how long it, and the run that it is held against, are to be.
# whole NAME RANKS OPTION...
whole() {
    name=$1 n=$2
    shift 2
    make_solver "$name.prototxt" 'max_iter: 1000000' 'display: 10' "snapshot_prefix: \"$work/$name\"" 'average_loss: 5'
    for part in 1 2 3 4 5; do
        begin "$n" "$name-$part.log" --solver="$name.prototxt" --resume "$@"
        await 'Iteration [0-9]* ' && sleep "0.$((part % 4))" && kill -USR1 "$(pgrep -P $launcher)"
        ended "$name, part $part" 75
    done
    length=$(sed -n 's/.*stopping after \([0-9]*\) iterations.*/\1/p' "$log")
    length=$((length + 10))
    train "$n" "$name-last.log" --solver="$name.prototxt" --batch=8 --threads=1 --resume --max-iter=$length \
        --summary="$name-b.json" "$@" || { fail "$name: the last part"; tail -n 5 "$name-last.log"; }
    train "$n" "$name.log" --solver="$name.prototxt" --batch=8 --threads=1 --max-iter=$length --summary="$name-a.json" \
        --snapshot-prefix="$work/undisturbed-$name" "$@" || { fail "$name"; tail -n 5 "$name.log"; }
    [ "$(hash_of "$name-a.json")" = "$(hash_of "$name-b.json")" ] ||
        fail "$name: stopped five times, the parameters after $length iterations differ"
    echo "$name: stopped at $(sed -n 's/.*stopping after \([0-9]*\) iterations.*/\1/p' "$name"-[1-5].log | tr '\n' ' ')of $length"
}
whole ps 2 --comm=ps
ps_length=$length
whole servers 4 --comm=paper --servers=1
grep -q "No snapshot .*ps_iter_\* of run '.*' yet: starting as without --resume" ps-1.log || fail '--resume does not say that there is nothing'
grep -q 'Resuming from .*/ps_iter_' ps-2.log || fail '--resume does not say what from'

# What --resume finds goes before what a first run is to start from; what is no state is no snapshot.
touch ps_iter_999999.solverstate.h5.tmp ps_iter_x.solverstate.h5 ps_iter_999998.caffemodel.h5 psx_iter_999999.solverstate.h5
train 2 resume.log --solver=ps.prototxt --batch=8 --resume --max-iter=$((ps_length + 2)) --weights=/nowhere ||
    { fail '--resume with --weights'; tail -n 3 resume.log; }
grep -q "Resuming from .*/ps_iter_$ps_length.solverstate.h5" resume.log || fail 'the newest is not found by its number'

# says TEXT OPTION...: refused before training, with that text.
says() {
    text=$1
    shift
    train 2 refused.log --solver=solver.prototxt "$@" && fail "accepted: $*"
    grep -qF -e "$text" refused.log || { fail "'$text' is not said for $*"; tail -n 3 refused.log; }
}
says '--snapshot-every=1% may write a snapshot every few seconds: expected --keep=N, at least 1' --snapshot-every=1%
for share in 0% 51% 200% -1% nan% %; do
    says "found '$share'" --snapshot-every=$share --keep=2
done
says '--time-limit expects a duration with its unit such as 90s, 30min, 4h or 1:30:00, found' --time-limit=30
SLURM_JOB_END_TIME=soon says 'SLURM_JOB_END_TIME=soon: expected a number of seconds; --time-limit=none' --max-iter=2
says 'Invalid signal effect "die" was specified: --sigint-effect expects none, snapshot or stop' --sigint_effect=die
make_solver nowhere.prototxt 'max_iter: 10' 'snapshot_after_train: false' 'snapshot_prefix: "/nowhere/run"'
says "cannot look for snapshots in '/nowhere/'" --solver=nowhere.prototxt --resume
# shellcheck disable=SC2016
"$POSEIDON_MPIRUN" 2 sh -c 'exec "$0" "$@" --on-signal=TERM=$([ $OMPI_COMM_WORLD_RANK = 1 ] && echo none || echo stop)' \
    "$POSEIDON" train --solver=solver.prototxt --max-iter=2 >refused.log 2>&1 </dev/null && fail 'ranks that differ are accepted'
grep -q -e '--on-signal differs: TERM=stop on rank 0; TERM=none on rank 1;' refused.log || fail 'ranks that differ are not told so'
finish
