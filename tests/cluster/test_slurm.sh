#!/bin/sh
# Nights under a real Slurm (slurm.sh): each job is struck by something, and ends COMPLETED with the parameters of the
# run that nothing happened to. Skipped where Slurm cannot run.
#
#     test_slurm.sh [CASE...]        the names of the functions case_* below; all of them
# shellcheck disable=SC2317 # cases are called by their names
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
# shellcheck source=tests/cluster/common.sh
. "$here/common.sh"

if [ "${1:-}" != inside ]; then
    "$here/slurm.sh" --check || exit
    traces=$(mktemp) || exit 1
    # The links keep runs from being over before anything can happen to them: 50 iterations a second at most.
    TRACES=$traces "$here/slurm.sh" --rate=1gbit -- "$here/test_slurm.sh" inside "$@"
    status=$?
    read -r box slurm <"$traces" || box=none slurm=none
    rm -f "$traces"
    if ip netns list | grep -q "^$box-" || ip -o link | grep -q "$box" || [ -e "$slurm" ] || pgrep -f "$slurm" >/dev/null; then
        echo "FAIL: something of $box or $slurm is left"
        status=1
    fi
    exit "$status"
fi
shift
# shellcheck disable=SC2153 # from the call above
echo "$BOX_NAME $SLURM_BOX_FOLDER" >"$TRACES"

folder=$(mktemp -d) || exit 1
trap 'scancel --user=root >/dev/null 2>&1; rm -rf "$folder"' EXIT
job=
# A name that shells stumble over; the program lies beside the scripts.
home="$folder/a night's
work"
mkdir -p "$home/jobs" "$home/build"
cp "$abs_top_srcdir/jobs/train.slurm" "$abs_top_srcdir/jobs/attempt.sh" "$home/jobs"
cp "$POSEIDON" "$home/build/poseidon"
cp "$abs_top_srcdir/models/lenet/train_val.prototxt" "$home/net.prototxt"
ln -s "$abs_top_srcdir/data" "$home/data"
# a Slurm without PMIx
mkdir "$folder/bin"
cat >"$folder/bin/srun" <<END
#!/bin/sh
[ "\$*" != --mpi=list ] || { echo 'MPI plugin types are... none, pmi2'; exit; }
exec $(command -v srun) "\$@"
END
chmod +x "$folder/bin/srun"
unset POSEIDON
cd "$home" || exit 1
export OMPI_MCA_btl_tcp_if_include="$BOX_NET" OMPI_MCA_oob_tcp_if_include="$BOX_NET"

# What the script is given besides the solver, and its place.
fixed='--comm=ps --batch=8 --threads=1 --hierarchy=off' script=jobs/train.slurm

# submit NODES PREFIX ARGUMENT-OF-SBATCH...: sets job
submit() {
    nodes=$1 prefix=$2
    shift 2
    # shellcheck disable=SC2086 # words
    job=$(timeout 20 sbatch --parsable --nodes="$nodes" --output="$prefix.log" "$@" "$script" \
        --solver="$prefix.prototxt" --summary="$prefix's
figures.json" $fixed) || fail "$prefix: sbatch"
}

state() {
    timeout 10 scontrol show job "$job" 2>/dev/null | sed -n 's/^ *JobState=\([A-Z_]*\).*/\1/p'
}

# until_said PREFIX PATTERN [TIMES]: in the log, within five minutes
until_said() {
    for _ in $(seq 1500); do
        ! [ -e "$1.log" ] || [ "$(grep -c -- "$2" "$1.log")" -lt "${3:-1}" ] || return 0
        case $(state) in COMPLETED | FAILED) break ;; esac
        sleep 0.2
    done
    fail "$1: the log does not say '$2' ${3:-1} times"
    return 1
}

# ended PREFIX STATE: waits for it, at most ten minutes; what Slurm holds back for two minutes after a requeue starts at once
ended() {
    for _ in $(seq 1200); do
        now=$(state)
        case $now in
        PENDING) scontrol update "JobId=$job" StartTime=now >/dev/null 2>&1 ;;
        COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | PREEMPTED) break ;;
        esac
        sleep 0.5
    done
    [ "$now" = "$2" ] || fail "$1: expected $2, found $now"
}

# as_undisturbed PREFIX RANKS [ITERATIONS]: COMPLETED with the parameters of the undisturbed run
as_undisturbed() {
    ended "$1" COMPLETED
    found=$(sha256 "$1's
figures.json")
    [ "$found" = "$(undisturbed "$2" "${3:-$iterations}")" ] || fail "$1: the parameters are not the undisturbed run's"
    [ -n "$found" ] || fail "$1: no figures"
    ! ls .poseidon-* >/dev/null 2>&1 || fail "$1: .poseidon-* is left"
}

restarts() { # AT-LEAST
    found=$(scontrol show job "$job" | sed -n 's/^.*Restarts=\([0-9]*\).*/\1/p')
    [ "$found" -ge "$1" ] || fail "$prefix: expected $1 restarts, found $found"
}

iterations=600 long=2500

# The judge: mpirun by hand in the same box, without jobs and their scripts. RANKS ITERATIONS
undisturbed() {
    judge=judge.$1.$2
    if [ ! -e "$judge.json" ]; then
        solver "$judge" "$2" 50
        # shellcheck disable=SC2086 # words
        OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent=$BOX_AGENT timeout 900 mpirun --bind-to none -np "$1" \
            --host "$(echo "$BOX_HOSTS" | cut -d ' ' -f "1-$1" | tr ' ' ,)" build/poseidon train \
            --solver="$judge.prototxt" --summary="$judge.json" $fixed >"$judge.log" 2>&1 </dev/null ||
            { echo 'FAIL: the undisturbed run does not end' >&2; tail -n 20 "$judge.log" >&2; rm -f "$judge.json"; }
    fi
    sha256 "$judge.json"
}

# 1. A host of the job dies while training; another one stands in for it.
case_crash() {
    fault="a host of the job dies, another stands in for it"
    solver crash "$iterations" 50
    submit 3 crash
    until_said crash 'solver state.*_iter_100' || return
    "$SLURM_BOX" crash n2
    as_undisturbed crash 3
    restarts 1
    grep -q 'lost n2' crash.log || fail 'crash: it does not name n2'
    scontrol show job "$job" | grep -q 'ExcNodeList=n2' || fail 'crash: n2 is not left out'
    "$SLURM_BOX" revive n2
}

# 1. The host of the script itself; Slurm notices after its own time and starts the job again.
case_crash_first() {
    fault="the host of the job's script dies"
    solver first "$iterations" 50
    submit 4 first
    until_said first 'solver state.*_iter_100' || return
    "$SLURM_BOX" kill n1
    sleep 30
    "$SLURM_BOX" revive n1
    as_undisturbed first 4
    restarts 1
}

# 2. Somebody more urgent wants the hosts.
case_preempted() {
    fault="the job is preempted"
    solver preempted "$long" 50
    submit 4 preempted
    until_said preempted 'solver state.*_iter_100' || return
    timeout 20 sbatch --partition=urgent --nodes=4 --exclusive --output=/dev/null --wrap='sleep 3' >/dev/null
    as_undisturbed preempted 4 "$long"
    restarts 1
    grep -q 'Slurm has put the job back' preempted.log || fail 'preempted: no word that it goes on by itself'
    ! grep -q 'train --resume' preempted.log || fail 'preempted: told to resume by hand'
}

# 2. scancel is final, but what was done is not lost: the same command with --resume goes on.
case_cancelled() {
    fault="scancel, and the same command with --resume"
    solver cancelled "$iterations" 50
    submit 4 cancelled
    until_said cancelled 'Iteration 50 ' || return
    scancel "$job"
    ended cancelled CANCELLED
    until_said cancelled 'Optimization stopped early' || return
    fixed="$fixed --resume"
    submit 4 cancelled
    as_undisturbed cancelled 4
    fixed=${fixed% --resume}
    grep -q 'Resuming from' cancelled.log || fail 'cancelled: it began anew'
}

# 3. A run of yesterday under the same prefix: it was longer, and is not taken for this one's.
case_yesterday() {
    fault="a requeue, beside snapshots of another run under the same prefix"
    solver yesterday 700 50
    submit 4 yesterday
    ended yesterday COMPLETED
    solver yesterday "$iterations" 50
    submit 4 yesterday
    until_said yesterday 'solver state.*_iter_100' 2 || return
    scancel --batch --signal=USR1 "$job"
    as_undisturbed yesterday 4
    restarts 1
}

# 4. A time limit that is shorter than its warning, which comes within 30 s, when Slurm looks at limits.
case_short() {
    fault="time limits, shorter than their warning"
    solver short "$long" 50
    submit 4 short --time=1
    as_undisturbed short 4 "$long"
    restarts 1
}

# Saved and put back by hand.
case_by_hand() {
    fault="stopped and put back by hand"
    solver hand "$iterations" 50
    submit 4 hand
    until_said hand 'solver state.*_iter_100' || return
    scancel --batch --signal=USR1 "$job"
    as_undisturbed hand 4
    restarts 1
}

# Schemes side by side, with snapshots of their own.
case_array() {
    solver array "$iterations" 50
    fixed="${fixed#--comm=ps} --comm=ps,allreduce"
    submit 2 array --array=0-1 --job-name=both
    first=$job
    for job in "${first}_0" "${first}_1"; do
        ended array COMPLETED
    done
    fixed="--comm=ps ${fixed% --comm=*}"
    for scheme in ps allreduce; do
        [ -e "both-$first-${scheme}_iter_$iterations.solverstate" ] || fail "array: $scheme has no snapshots: $(ls)"
    done
}

# live_array PREFIX OPTION-OF-SBATCH...: sets first, of two tasks in training, and job, the last of them, which has the
# array's own number. They are submitted from a folder without jobs.
live_array() {
    mkdir -p "$folder/elsewhere" && cd "$folder/elsewhere" || return
    ln -sf "$home/net.prototxt" "$home/data" "$home/build" .
    solver "$1" "$long" 50
    script=$home/jobs/train.slurm fixed="--comm=allreduce,ps ${fixed#--comm=ps}"
    # shellcheck disable=SC2016 # figures of their own, by the job's shell
    echo 'set -- "$@" "--summary=$SLURM_JOB_NAME.$SLURM_ARRAY_TASK_ID.json"' >figures
    SETUP=./figures submit 2 "$@" --array=0-1 --job-name="$1" --output="$1.%a.log"
    script=jobs/train.slurm fixed="--comm=ps ${fixed#--comm=*,ps }" first=$job
    for job in "${first}_0" "${first}_1"; do
        until_said "$prefix.${job#*_}" 'solver state.*_iter_100' || return
    done
}

# array_ended RESTARTS: both tasks, the first of them after so many restarts, the last with the undisturbed parameters
array_ended() {
    job=${first}_0
    ended "$prefix.0" COMPLETED
    [ -z "$1" ] || scontrol show job "$job" | grep -q "Restarts=$1" || fail "$prefix: task 0 was disturbed"
    job=${first}_1
    ended "$prefix.1" COMPLETED
    restarts 1
    found=$(sha256 "$prefix.1.json")
    [ -n "$found" ] || fail "$prefix: no figures"
    [ "$found" = "$(undisturbed 2 "$long")" ] || fail "$prefix: the parameters are not the undisturbed run's"
    ! ls .poseidon-* >/dev/null 2>&1 || fail "$prefix: .poseidon-* is left"
    cp "$prefix.1.log" "$home/$prefix.log"
    cd "$home" || exit 1
}

# kill_rank COMMAND-LINE: the last rank that has it; then the job goes back, for which there is a word in LOG.
kill_rank() {
    for pid in $(pgrep -f "$1"); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != poseidon ] || victim=$pid
    done
    kill -9 "$victim"
    killed=$(date +%s)
}
gone_back() { # LOG
    until_said "$1" 'back to the queue' || return
    echo "noticed within $(($(date +%s) - killed)) s: $(grep 'train.slurm: lost' "$1.log")"
}

case_array_rank() {
    fault="a rank of an array's last task dies; its neighbour goes on undisturbed"
    live_array rank || return
    kill_rank "snapshot-prefix=rank-$first-ps"
    gone_back rank.1
    array_ended 0
}

case_array_limit() {
    fault="time limits of an array's tasks, shorter than their warning"
    live_array limit --time=1 || return
    array_ended ''
}

# Slurm's controller is away while a job has to go back.
case_controller() {
    fault="a rank dies while slurmctld is away for a minute"
    solver controller "$long" 50
    submit 2 controller
    until_said controller 'solver state.*_iter_100' || return
    kill "$(cat "$SLURM_BOX_FOLDER/slurmctld.pid")"
    kill_rank solver=controller.prototxt
    until_said controller 'trying again'
    sleep 20
    slurmctld -f "$SLURM_CONF"
    as_undisturbed controller 2 "$long"
    restarts 1
}

# Under srun nothing but Slurm ends the others.
case_srun() {
    fault="a rank dies under LAUNCH='srun ...'"
    srun --mpi=list 2>&1 | grep -q pmix || return 0
    solver srun "$long" 50
    LAUNCH='srun --cpu-bind=none' submit 2 srun
    until_said srun 'solver state.*_iter_100' || return
    kill_rank solver=srun.prototxt
    gone_back srun
    as_undisturbed srun 2 "$long"
    restarts 1
}

# 6. srun without PMIx is one line.
case_no_pmix() {
    solver nopmix 10 50
    LAUNCH='srun --cpu-bind=none' PATH="$folder/bin:$PATH" submit 2 nopmix
    ended nopmix FAILED
    [ "$(wc -l <nopmix.log)" -eq 1 ] || fail "no_pmix: expected one line, found $(wc -l <nopmix.log)"
    grep -q 'has no PMIx' nopmix.log || fail 'no_pmix: no word about it'
}

# 6. and so it is by hand
case_bare_srun() {
    solver bare 10 50
    timeout 60 srun --nodes=2 --ntasks=2 --mpi=none build/poseidon train --solver=bare.prototxt >bare.log 2>&1
    [ "$(grep -vc '^srun: ' bare.log)" -eq 1 ] || fail "bare_srun: expected one line, found: $(cat bare.log)"
    grep -q 'srun started 2 separate programs' bare.log || fail 'bare_srun: no word about it'
}

# 10. Ctrl-C reaches mpirun and its ranks at once; iterations take seconds, and yet there is a snapshot.
case_interrupted() {
    fault="mpirun and its daemons are interrupted, then scancel, in iterations of seconds"
    solver interrupted "$iterations" 50
    fixed="$fixed --batch=2048"
    submit 4 interrupted
    until_said interrupted 'Iteration 0 ' || return
    # shellcheck disable=SC2046 # numbers
    kill -INT $(pgrep -f 'mpirun.*solver=interrupted') $(pgrep -f 'orted.*slurm')
    fixed=${fixed% --batch=2048}
    sleep 3
    [ "$(state)" = RUNNING ] || fail "interrupted: $(state) after an interrupt of mpirun, which is for the script to hand on"
    scancel "$job"
    ended interrupted CANCELLED
    until_said interrupted 'Optimization stopped early'
    ls interrupted_iter_*.solverstate >/dev/null || fail 'interrupted: no snapshot'
}

# A mistake of the user's own is not tried again.
case_mistake() {
    solver mistake "$iterations" 50
    sed -i 's/momentum/momentun/' mistake.prototxt
    submit 4 mistake
    ended mistake FAILED
    grep -q 'did you mean "momentum"' mistake.log || fail 'mistake: no word about it'
    [ "$(grep -c 'has no field' mistake.log)" -eq 1 ] || fail 'mistake: tried again'
}

# shellcheck disable=SC2046 # names
[ $# -gt 0 ] || set -- $(sed -n 's/^\(case_[a-z_]*\)() {$/\1/p' "$here/test_slurm.sh")
for name; do
    before=$failures begin=$(date +%s) fault=''
    "$name"
    echo "$name: $((failures - before)) failures, $(($(date +%s) - begin)) s"
    [ -z "$fault" ] || [ "$failures" -ne "$before" ] || echo "counted: Slurm: $fault | 1 | 1 | 0"
    if [ "$failures" -ne "$before" ]; then
        cp "$prefix.log" "${TMPDIR:-/tmp}/failed-$name.log"
        tail -n 25 "$prefix.log"
        scontrol show job "$job" | grep -E "State|Restarts|NodeList|Time="
        scancel "$job" 2>/dev/null
    fi
done
exit $((failures > 0))
