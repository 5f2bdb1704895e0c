#!/bin/sh
# Nights under a real OpenPBS (pbs.sh): each job is struck by something, and ends with the parameters of the run that
# nothing happened to. Skipped where PBS cannot run; PBS_PREFIX says where it is (/opt/pbs). tests/jobs/test_pbs.sh
# has a strict stand-in for it.
#
#     test_pbs.sh [CASE...]        the names of the functions case_* below; all of them
# shellcheck disable=SC2317 # cases are called by their names
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
# shellcheck source=tests/cluster/common.sh
. "$here/common.sh"

if [ "${1:-}" != inside ]; then
    "$here/pbs.sh" --check || exit
    # The links keep runs from being over before anything can happen to them: 60 iterations a second at most.
    exec "$here/pbs.sh" --hosts=3 --rate=1gbit -- "$here/test_pbs.sh" inside "$@"
fi
shift

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
job='' prefix=''
mkdir -p "$folder/a night/jobs" "$folder/a night/build"
cd "$folder/a night" || exit 1
cp "$abs_top_srcdir/jobs/train.pbs" "$abs_top_srcdir/jobs/attempt.sh" jobs
cp "$POSEIDON" build/poseidon
cp "$abs_top_srcdir/models/lenet/train_val.prototxt" net.prototxt
ln -s "$abs_top_srcdir/data" data
unset POSEIDON
iterations=1500

# submit PREFIX OPTION-OF-QSUB...: sets job. Arguments hold commas.
submit() {
    prefix=$1
    shift
    ARGUMENTS="--solver=$prefix.prototxt --summary=$prefix,json --comm=ps --batch=8 --threads=1"
    export ARGUMENTS
    job=$(timeout 20 qsub -l select=3:ncpus=1:mpiprocs=1 -l place=scatter "$@" jobs/train.pbs) || fail "$prefix: qsub"
}

figure() { # NAME: of the job
    timeout 10 qstat -xf "$job" 2>/dev/null | sed -n "s/^ *$1 = //p"
}

until_there() { # FILE, within five minutes
    for _ in $(seq 1500); do
        [ ! -e "$1" ] || return 0
        sleep 0.2
    done
    fail "$prefix: there is no $1"
    return 1
}

# ended STATUS: the job's, within ten minutes
ended() {
    for _ in $(seq 1200); do
        [ "$(figure job_state)" != F ] || break
        sleep 0.5
    done
    [ "$(figure Exit_status)" = "$1" ] || fail "$prefix: expected status $1, found $(figure Exit_status) in state $(figure job_state)"
}

as_undisturbed() {
    if [ ! -e judge,json ]; then
        solver judge "$iterations" 50
        timeout 900 mpirun --bind-to none -np 3 --host n1,n2,n3 build/poseidon train --solver=judge.prototxt \
            --summary=judge,json --comm=ps --batch=8 --threads=1 >judge.log 2>&1 </dev/null || { tail judge.log; rm -f judge,json; }
    fi
    [ -n "$(sha256 judge,json)" ] || fail 'no undisturbed run'
    [ "$(sha256 judge,json)" = "$(sha256 "$prefix,json")" ] || fail "$prefix: the parameters are not the undisturbed run's"
    ! ls .poseidon-* >/dev/null 2>&1 || fail "$prefix: notes are left"
}

# 5. PBS puts the job back: it goes on.
case_requeued() {
    fault='qrerun'
    solver requeued "$iterations" 50
    submit requeued -v ARGUMENTS -j oe -o "$folder/requeued.log"
    until_there requeued_iter_200.solverstate || return
    qrerun "$job" || fail 'requeued: qrerun'
    ended 0
    as_undisturbed
    [ "$(figure run_count)" -ge 2 ] || fail 'requeued: it was not'
    grep -q 'Resuming from' "$folder/requeued.log" || fail 'requeued: it began anew'
}

# 5. Its wall time is over before training is, at 60 iterations a second: the job submits itself again, until it is done.
case_resubmitted() {
    fault='the wall time is over, and the job submits itself again'
    solver again "$iterations" 50
    mkdir "$folder/again"
    limits="-l walltime=44 -j oe -o $folder/again/"
    # shellcheck disable=SC2086 # words
    WARN_SECONDS=22 RESUBMIT="qsub -l select=3:ncpus=1:mpiprocs=1 -l place=scatter $limits" \
        submit again -v ARGUMENTS,RESUBMIT,WARN_SECONDS $limits
    ended 75
    for _ in $(seq 1200); do
        [ -n "$(qselect)" ] || break
        sleep 0.5
    done
    as_undisturbed
    grep -q 'submitted again' "$folder/again"/* || fail 'resubmitted: no word about it'
    grep -q 'Resuming from' "$folder/again"/* || fail 'resubmitted: it began anew'
    cat "$folder/again"/* >"$folder/again.log"
}

# qdel leaves a snapshot and is final.
case_deleted() {
    fault='qdel: a snapshot is left'
    solver deleted "$iterations" 50
    submit deleted -v ARGUMENTS -j oe -o "$folder/deleted.log"
    until_there deleted_iter_100.solverstate || return
    qdel "$job"
    for _ in $(seq 1200); do
        [ "$(figure job_state)" != F ] || break
        sleep 0.5
    done
    grep -q 'Optimization stopped early' "$folder/deleted.log" || fail 'deleted: no snapshot'
    rm -f .poseidon-*
}

# A mistake of the user's own is not submitted again.
case_mistake() {
    solver mistake "$iterations" 50
    sed -i 's/momentum/momentun/' mistake.prototxt
    RESUBMIT='qsub' submit mistake -v ARGUMENTS,RESUBMIT
    ended 1
    sleep 2
    [ -z "$(qselect)" ] || fail "mistake: submitted again: $(qselect)"
}

# shellcheck disable=SC2046 # names
[ $# -gt 0 ] || set -- $(sed -n 's/^\(case_[a-z_]*\)() {$/\1/p' "$here/test_pbs.sh")
for name; do
    before=$failures begin=$(date +%s) fault=''
    "$name"
    echo "$name: $((failures - before)) failures, $(($(date +%s) - begin)) s"
    [ -z "$fault" ] || [ "$failures" -ne "$before" ] || echo "counted: OpenPBS: $fault | 1 | 1 | 0"
    [ "$failures" -eq "$before" ] || tail -n 30 "$folder/$prefix.log" ./*.o[0-9]* 2>/dev/null
done
exit $((failures > 0))
