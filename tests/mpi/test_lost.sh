#!/bin/sh
# A rank that gives no sign: named with its host and place, once, by one rank; given up after --stall-timeout with
# status 76 and no process left. One that comes back is waited for.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 1000000' 'display: 10' 'snapshot: 50' "snapshot_prefix: \"$work/run\""

# start RANKS LOG OPTION...: from nothing
start() {
    rm -f run_iter_* run.run
    ranks=$1 log=$2
    shift 2
    begin "$ranks" "$log" --solver=solver.prototxt "$@"
}

# lost WHAT RANK TEXT: the run ends so, for that rank.
lost() {
    wait "$launcher"
    status=$?
    [ $status -eq 76 ] || { fail "$1: exit status $status, expected 76"; tail -n 5 "$log"; }
    grep -q "rank $2 on [^ ]* silent for [0-9]* s, last seen in iteration [0-9]*$3" "$log" || { fail "$1: who is lost is not said"; grep -e silent -e lost "$log"; }
    [ "$(grep -c 'poseidon train: lost: ' "$log")" = 1 ] || fail "$1: not said once that it is lost: $(grep lost: "$log")"
    tries=0
    for rank in 0 1 2; do
        while kill -0 "$(cat pid.$rank)" 2>/dev/null && [ $tries -lt 600 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
        kill -0 "$(cat pid.$rank)" 2>/dev/null && { fail "$1: rank $rank stays behind"; kill -9 "$(cat pid.$rank)"; }
    done
}

# in shared memory, and by messages
for how in auto off; do
    start 3 stopped.log --stall-timeout=10s --hierarchy=$how
    await 'Iteration 60 ' && kill -STOP "$(cat pid.2)" # behind the snapshot of iteration 50
    await 'rank 2 on [^ ]* silent for [0-9]* s'
    grep -q 'silent for [0-9]* s, .*; ranks 0, 1 wait for it' stopped.log || fail "$how: who waits is not said: $(grep silent stopped.log)"
    lost "SIGSTOP for ever, $how" 2 ' ([^)]*); ranks 0, 1 wait for it'
    [ -f run_iter_50.solverstate.h5 ] || fail "$how: the snapshot before is not there: $(ls)"
done

start 3 zero.log --stall-timeout=10s --hierarchy=off
await 'Iteration 60 ' && kill -STOP "$(cat pid.0)"
lost 'rank 0 stopped for ever' 0 ''

# What rank 0 has gathered and could not write yet is still saved: the folder is there again before the end.
make_solver away.prototxt 'max_iter: 1000000' 'display: 10' 'snapshot: 50' "snapshot_prefix: \"$work/away/run\""
mkdir away
begin 3 away.log --solver=away.prototxt --stall-timeout=10s
await 'Iteration 20 ' && mv away hidden && await 'The snapshot of iteration [0-9]* could not be written'
at=$(sed -n 's/.*The snapshot of iteration \([0-9]*\) could not be written.*/\1/p' away.log | head -n 1)
await "Iteration $((at + 20)) " && kill -STOP "$(cat pid.2)"
await 'rank 2 on [^ ]* silent for [0-9]* s' && mv hidden away
lost 'a snapshot that waits for its folder' 2 ''
newest=$(find away -name 'run_iter_*.solverstate.h5' | sed 's/.*iter_\([0-9]*\).*/\1/' | sort -n | tail -n 1)
[ "${newest:-0}" -ge "${at:-1}" ] || fail "the snapshot of iteration $at is lost: $(ls away)"

# It comes back in time: told of, waited for, and the run goes on.
start 3 back.log --stall-timeout=24s
await 'Iteration 20 ' && kill -STOP "$(cat pid.1)" && await 'rank 1 on [^ ]* silent for' && kill -CONT "$(cat pid.1)"
at=$(sed -n 's/.*Iteration \([0-9]*\) .*/\1/p' back.log | tail -n 1)
await "Iteration $((at + 40)) " && kill -USR1 "$(cat pid.1)"
wait "$launcher"
[ $? -eq 75 ] || { fail 'a rank that came back'; tail -n 3 back.log; }
[ "$(grep -c 'silent for' back.log)" = 1 ] || fail "said more than once: $(grep 'silent for' back.log)"
finish
