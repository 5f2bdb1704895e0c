#!/bin/sh
# The end of the time, by option or by the scheduler: a run is stopped and saved before it, in a test, too. By itself on the
# machine: a rank that waits for a core is late.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 1000000' 'display: 10' "snapshot_prefix: \"$work/run\""
make_solver test.prototxt 'max_iter: 1000000' 'display: 10' 'test_interval: 20' 'test_iter: 1000000' \
    'test_initialization: false' "snapshot_prefix: \"$work/run\""

# How long a start, a few iterations and the end take here: limits that are meant to strike a run are set by it.
begun=$(date +%s)
train 2 none.log --solver=solver.prototxt --batch=8 --max-iter=3 --time-limit=none || fail '--time-limit=none'
took=$(($(date +%s) - begun + 1))
rm -f run_iter_* run.run

# The end of the time, by option or by the scheduler: stopped and saved before it; also in a test. Two starts lie
# between our clock and the program's, and on a busy machine some seconds; who did not heed the limit would never end.
# What takes its time does so waiting for its messages, not computing.
slowly='--comm=ps --tune=bandwidth-mbps=100'
limit=$((4 + 2 * took))
# within WHAT: begun so long ago at most, and told in time; where starting takes seconds, that may be as much later.
within() {
    [ $(($(date +%s) - begun)) -le $((limit + 2 * took + 20)) ] || fail "$1: ended $(($(date +%s) - begun)) s after its start, the limit is $limit s"
    left=$(sed -n "s/.*$1 ends in \(-*[0-9]*\) s: stopping after [0-9]* iterations.*/\1/p" "$log")
    [ "${left:--1000}" -ge 0 ] || [ $((${left:--1000} + took)) -ge 2 ] || fail "$1: it is not told of in time: $(grep -e 'ends in' "$log")"
}
begun=$(date +%s)
# shellcheck disable=SC2086 # words
begin 2 limit.log --solver=solver.prototxt $slowly --time-limit=${limit}s
stopped '--time-limit' 1
within '--time-limit'
begun=$(date +%s)
# shellcheck disable=SC2086
SLURM_JOB_END_TIME=$((begun + limit)) begin 2 slurm.log --solver=solver.prototxt $slowly
stopped 'SLURM_JOB_END_TIME' 1
within 'SLURM_JOB_END_TIME'
begun=$(date +%s)
PBS_WALLTIME=$limit begin 2 wall.log --solver=test.prototxt
stopped 'PBS_WALLTIME' 1
within 'PBS_WALLTIME'
rm -f run_iter_* run.run
# nothing left: the job says so after three starts
for start in 1 2 3; do
    POSEIDON_END_TIME=1 train 2 over.log --solver=solver.prototxt --batch=8 --resume
    [ $? -eq 75 ] || { fail "start $start without time"; tail -n 3 over.log; }
done
POSEIDON_END_TIME=1 train 2 over.log --solver=solver.prototxt --batch=8 --resume
[ $? -eq 1 ] && grep -q 'started 3 times at iteration 0' over.log || { fail 'starts without time go on for ever'; tail -n 3 over.log; }
rm -f run_iter_* run.run
finish
