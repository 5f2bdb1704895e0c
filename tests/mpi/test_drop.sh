#!/bin/sh
# --tune=drop-stragglers=K: a rank that computes ten times as long as the others holds nobody up, leaves out what it cannot
# do, and the report counts that; every iteration ends without exactly K workers; parameters are equal on all ranks at
# every test, snapshot and comparison, and at the end, with clipping, with dedicated servers, after a resume, when ranks
# are stopped in turns, and when a signal ends the run. (Which gradients are added: sync_conformance --drop.)
. "$abs_top_srcdir/tests/mpi/common.sh"
host=$(uname -n)

# of_rank FILE KEY RANK: that figure of the summary
of_rank() {
    tr -d '\n\t ' <"$1" | grep -o "\"$2\":[^,}]*" | sed 's/.*://' | sed -n "$(($3 + 1))p"
}

# dropped NAME WORKERS ITERATIONS: that many gradients were dropped in all, by parts of an iteration
dropped() {
    for worker in $(seq 0 $(($2 - 1))); do of_rank "$1.json" iterations_unused "$worker"; done |
        awk -v expected="$3" '{ sum += $1 } END { exit !((sum - expected) ^ 2 < 1e-4) }' ||
        fail "$1: not $3 iterations dropped: $(grep Dropped: "$1.log")"
}

# ---- a slow rank; all replay times, so that it is as slow on any machine ----
make_solver solver.prototxt 'max_iter: 60' 'display: 30' 'snapshot_after_train: false'
for rank in 0 1 2 3; do
    printf '%s,-,0,0\n' pool1 conv2 pool2 ip1 relu1 ip2 loss >profile.$rank
    sed -i '1i layer,type,forward_s,backward_s\nconv1,Convolution,0,0.04' profile.$rank
done
sed -i 's/0.04/0.4/' profile.2

# replayed NAME OPTION...
replayed() {
    name=$1
    shift
    # shellcheck disable=SC2016 # every rank expands it
    "$POSEIDON_MPIRUN" 4 sh -c 'exec "$0" "$@" --tune=profile=profile.$OMPI_COMM_WORLD_RANK' "$POSEIDON" train --solver=solver.prototxt \
        --engine=replay --fake-data=1,28,28 --summary="$name.json" "$@" >"$name.log" 2>&1 </dev/null ||
        { fail "$name"; tail -n 3 "$name.log"; }
}
replayed all --comm=ps --hierarchy=off --max-iter=10
grep -q Dropped: all.log && fail "nothing is to be dropped: $(grep Dropped: all.log)"
same 'iterations left out of all' 0 "$(of_rank all.json iterations_left_out 2)"
replayed most --tune=drop-stragglers=1
grep -e Dropped: -e 'No iteration waits' most.log
grep -q "Dropped:.* rank 2 on $host [0-9.]* of 60 iterations ([0-9]* not computed)" most.log || fail 'the report does not name rank 2'
dropped most 4 60
left=$(of_rank most.json iterations_left_out 2)
[ "$left" -ge 10 ] || fail "rank 2 left out $left iterations of 60, and computes ten times as long as the others"

# ---- ranks that compute, stopped in turns; a server of its own, clipping, tests, snapshots ----
make_solver solver.prototxt 'max_iter: 240' 'display: 60' 'test_interval: 120' 'test_iter: 20' 'snapshot: 80' \
    "snapshot_prefix: \"$work/turns\"" 'clip_gradients: 2'
begin 4 turns.log --solver=solver.prototxt --servers=1 --tune=drop-stragglers=1 --tune=check-sync=60 --summary=turns.json
await 'Iteration 0 '
while kill -0 $launcher 2>/dev/null; do
    for rank in 0 1 2; do
        kill -STOP "$(cat pid.$rank)" 2>/dev/null && sleep 0.2
        kill -CONT "$(cat pid.$rank)" 2>/dev/null
    done
done
wait $launcher || { fail 'stopped in turns'; tail -n 5 turns.log; }
grep -q 'Parameters were equal on all ranks, 3 times' turns.log || fail 'parameters are not equal'
dropped turns 3 240
accuracy=$(sed -n 's/.*Test net output #0: accuracy = //p' turns.log | tail -n 1)
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.6) }' || fail "accuracy $accuracy after 240 iterations"
trained again 4 --servers=1 --tune=drop-stragglers=1 --tune=check-sync=40 --snapshot=turns_iter_160.solverstate.h5
grep -q 'Parameters were equal on all ranks, 1 time' again.log || fail 'after a resume parameters are not equal'
same 'iterations of the resumed run' 160 "$(json_value again.json first_iteration)"
dropped again 3 80

# ---- all ranks serve; a signal ends it ----
make_solver solver.prototxt 'max_iter: 1000000' 'display: 20' "snapshot_prefix: \"$work/ended\""
begin 3 ended.log --solver=solver.prototxt --tune=drop-stragglers=2 --on-nan=skip --tune=check-sync=10 --summary=ended.json
await 'Iteration 40 ' && kill -USR1 "$(cat pid.1)"
wait $launcher
same 'status after SIGUSR1' 75 $?
at=$(json_value ended.json iterations)
[ -f "ended_iter_$at.solverstate.h5" ] || fail "no snapshot at iteration $at"
dropped ended 3 $((2 * at))

# ---- norms of parameters and averages set the rates ----
make_solver solver.prototxt 'max_iter: 200' 'display: 50' 'test_interval: 200' 'test_iter: 20' 'snapshot_after_train: false' \
    'local_lr_auto: true' 'local_gw_ratio: 0.01' 'base_lr: 1'
trained lars 3 --batch=16 --tune=drop-stragglers=1 --tune=check-sync=50
grep -q 'Parameters were equal on all ranks, 3 times' lars.log || fail 'by LARS parameters are not equal'
dropped lars 3 200
accuracy=$(sed -n 's/.*Test net output #0: accuracy = //p' lars.log | tail -n 1)
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.5) }' || fail "accuracy $accuracy after 200 iterations by LARS"

# ---- what it takes of memory ----
make_solver solver.prototxt 'max_iter: 2' 'snapshot_after_train: false'
for drop in 1 2; do
    "$POSEIDON_MPIRUN" 3 "$POSEIDON" train --solver=solver.prototxt --batch=8 --tune=drop-stragglers=$drop --dry-run >dry.$drop 2>&1 </dev/null ||
        { fail "dry run with $drop"; tail -n 3 dry.$drop; }
    grep memory dry.$drop
done
cmp -s dry.1 dry.2 && fail 'a home keeps as many copies for one as for two'
finish
