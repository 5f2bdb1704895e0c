#!/bin/sh
# The training scripts through nights of every kind, under strict stand-ins for Slurm, PBS and mpirun: what is
# started with which arguments, what goes back to the queue, and with which status a job ends. The real ones:
# tests/cluster/test_slurm.sh, test_pbs.sh, test_keep_running.sh.
# shellcheck disable=SC2016,SC2317 # stand-ins expand later; functions are called by name
set -u
# shellcheck source=tests/common.sh
. "${abs_top_srcdir:?}/tests/common.sh"
newline='
'

said() { # PATTERN: in what the job said
    grep -q -- "$1" said || fail "$name: expected a word about '$1', found: $(tail -n 5 said)"
}

# What srun starts without PMIx is not one job: the first of the programs says so in a line, before MPI says more.
for number in 0 1; do
    name="program $number of srun without PMIx"
    env -u OMPI_COMM_WORLD_SIZE -u PMIX_RANK -u PMI_RANK -u PMI_FD SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=$number \
        "${POSEIDON:?}" train --solver=absent >"$folder/srun.$number" 2>&1
    same "$name" 1 $?
done
same 'programs of srun without PMIx' '1 0' "$(wc -l <"$folder/srun.0" | tr -d ' ') $(wc -c <"$folder/srun.1" | tr -d ' ')"
grep -q 'srun started 4 separate programs .*srun --mpi=pmix' "$folder/srun.0" || fail "srun without PMIx: $(cat "$folder/srun.0")"

# The program lies beside the scripts, in a folder whose name shells stumble over.
home="$folder/a night's${newline}work"
mkdir -p "$home/jobs" "$home/build" "$folder/bin" "$folder/spool"
cp "${abs_top_srcdir:?}/jobs/train.slurm" "$abs_top_srcdir/jobs/train.pbs" "$abs_top_srcdir/jobs/attempt.sh" \
    "$abs_top_srcdir/jobs/keep_running.sh" "$home/jobs"
printf '#!/bin/sh\n' >"$home/build/poseidon"
chmod +x "$home/build/poseidon"
cd "$home" || exit 1
unset POSEIDON

stand_in() { # NAME, its text on standard input
    { echo '#!/bin/sh'; cat; } >"$folder/bin/$1"
    chmod +x "$folder/bin/$1"
}

# mpirun notes its words, each in <>, and plays the next line of "plays": a snapshot is a number, "until" waits for
# USR1 and "hang" does not hear it, "asked" waits until a host was asked seven times, the last word is its status. A program's log
# lines go to standard error.
stand_in mpirun <<'END'
[ "$*" != "-np 1 --host ${DEAD:-none} true" ] || exit 1
case $* in
"-np 1 --host ${BLINKS:-none} true") # every other time
    echo >>asked
    exit $((1 - $(wc -l <asked) % 2))
    ;;
"-np 1 --host ${DIES:-none} true") # but for the first time
    echo >>asked
    exit $(($(wc -l <asked) > 1))
    ;;
*' true') exit 0 ;;
esac
printf '<%s>' "$@" | sed 's/<--bind-to><none>//; s/=keep-[0-9-]*>/=keep>/' >>calls
echo >>calls
play=$(head -n 1 plays)
sed -i 1d plays
trap 'heard=1' USR1
heard=
say() { echo "I1122 06:46:26.354779 20217 loop.c:94] $*" >&2; }
for word in $play; do
    case $word in
    begin) say 'Solving LeNet' ;;
    stopped) say 'Optimization stopped early.' ;;
    until) n=0; until [ -n "$heard" ] || [ $n -eq 2400 ]; do sleep 0.05; n=$((n + 1)); done ;;
    heard) [ -n "$heard" ] || exit 1 ;;
    asked) until [ "$(wc -l <asked)" -ge 7 ]; do sleep 0.05; done ;;
    hang) n=0; while [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done ;;
    @*) say "Snapshotting solver state to HDF5 file it's${newline:-} lenet_iter_${word#@}.solverstate.h5" ;;
    *) exit "$word" ;;
    esac
done
END
PATH=$folder/bin:$PATH
export PATH

# ---- Slurm ----

# squeue answers what slurm's does to the three formats; scontrol notes; srun reaches all nodes but DEAD
stand_in squeue <<'END'
case $* in
*%o*) printf '%s\n' "$COMMAND" ;;
*%L*) echo "${LEFT:-UNLIMITED}" ;;
*%r*) echo "${REASON:-None}" ;;
esac
END
stand_in scontrol <<'END'
case $1 in
show) echo "$3" | tr ',' '\n'; exit ;;
requeue) [ -z "${NO_REQUEUE:-}" ] || { echo 'Requested operation is presently disabled' >&2; exit 1; } ;;
esac
echo "scontrol $*" >>calls
END
stand_in srun <<'END'
case $* in
--mpi=list) echo "MPI plugin types are...${PMIX:-}"; exit ;;
--overlap*)
    for node in $DEAD; do case $* in *"--nodelist=$node "*) exit 1 ;; esac done
    exit 0
    ;;
esac
printf '<%s>' srun "$@" >>calls
echo >>calls
echo 'I1122 06:46:26.354779 20217 loop.c:94] Solving LeNet' >&2
END
stand_in sinfo <<'END'
printf 'n1\nn2\nn3\nn4\n'
END

# slurm ARGUMENT...: a start of job 77 as slurmd does it, from a copy of the script; sets status
slurm() {
    cp jobs/train.slurm "$folder/spool/slurm_script"
    env SLURM_JOB_ID=77 SLURM_SUBMIT_DIR="$home" SLURM_NTASKS_PER_NODE=1 SLURM_JOB_NODELIST=n1,n2,n3 SLURM_JOB_NUM_NODES=3 \
        SLURM_JOB_PARTITION=main DEAD="${DEAD:-}" COMMAND="$home/jobs/train.slurm $*" sh "$folder/spool/slurm_script" "$@" >said 2>&1 &
    script=$!
    if [ -n "${SIGNAL:-}" ]; then
        until grep -q begun .poseidon-77 2>/dev/null || ! kill -0 $script 2>/dev/null; do sleep 0.05; done
        kill "-$SIGNAL" $script
    fi
    wait $script
    status=$?
}
plays() { # LINE...
    rm -f calls
    : >calls
    printf '%s\n' "$@" >plays
}
called() { # N: the Nth line of calls
    sed -n "$1p" calls
}
program="$home/build/poseidon"
start="<--map-by><ppr:1:node><$program><train>"
# calls are compared in one line
flat() {
    tr '\n' '~'
}

name='Slurm: everything is passed on as it was given'
plays 'begin @100 0'
slurm --solver='my solver.prototxt' "--weights=it's \"x\" \$y *" "a${newline}b"
same "$name" "$(printf '%s' "$start<--solver=my solver.prototxt><--weights=it's \"x\" \$y *><a${newline}b><--run=slurm-77><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
same "$name" 0 "$status"

name='Slurm: stopped and saved by its warning, the job goes back and on'
plays 'begin until @250 stopped 75' 'begin 0'
SIGNAL=USR1 slurm --solver=a
same "$name" 75 "$status"
same "$name" 'scontrol requeue 77' "$(tail -n 1 calls)"
SLURM_RESTART_COUNT=1 slurm --solver=a
same "$name" 0 "$status"
same "$name" "$(printf '%s' "$start<--solver=a><--run=slurm-77><--resume>" | flat)" "$(tail -n 2 calls | flat | sed 's/~$//')"
[ ! -e .poseidon-77 ] || fail "$name: notes are left"

name='Slurm: a run that the user named'
plays 'begin @10 76' 'begin 0'
slurm --solver=a --run=mine
SLURM_RESTART_COUNT=1 slurm --solver=a --run=mine
same "$name" "$(printf '%s' "$start<--solver=a><--run=mine>~scontrol requeue 77~$start<--solver=a><--run=mine><--resume>~" | flat)" "$(flat <calls)"

name='Slurm: a stop that came too late for a finished training is none'
plays 'begin until @250 0'
SIGNAL=USR1 slurm --solver=a
same "$name" "0 0" "$status $(grep -c requeue calls)"

name='Slurm: an older program says 0 after a stop'
plays 'begin until @250 stopped 0'
SIGNAL=USR1 slurm --solver=a
same "$name" "75 1" "$status $(grep -c requeue calls)"
rm -f .poseidon-77

name='Slurm: a mistake is not tried again'
plays 1
slurm --solver=a
same "$name" "1 0" "$status $(grep -c requeue calls)"
said 'training failed with status 1'

name='Slurm: a launcher that fails before training is a mistake, too'
plays 134
slurm --solver=a
same "$name" "134 0" "$status $(grep -c requeue calls)"

name='Slurm: a lost node'
for status in 1 205 137; do
    plays "begin @10 $status"
    DEAD=n2 slurm --solver=a
    same "$name" "75 scontrol requeue 77~scontrol update JobId=77 ExcNodeList=n2~" "$status $(tail -n 2 calls | flat)"
    said 'lost n2'
    rm -f .poseidon-77
done

name='Slurm: nodes are not left out where too few are left'
plays "begin @10 205"
DEAD='n2 n3' slurm --solver=a
same "$name" "75 scontrol requeue 77" "$status $(tail -n 1 calls)"
rm -f .poseidon-77

name='Slurm: where no node answers, the question fails, not the nodes'
plays 1
DEAD='n1 n2 n3' slurm --solver=a
same "$name" "1 0" "$status $(grep -c requeue calls)"

name="Slurm: what is the launcher's own, and what is not"
for status in 9 205; do # a daemon that died early, and later
    plays "begin $status"
    slurm --solver=a
    same "$name" "75 1" "$status $(grep -c requeue calls)"
    rm -f .poseidon-77
done
for status in 1 130; do
    plays "begin @10 $status"
    expected=$status
    slurm --solver=a
    same "$name" "$expected 0" "$status $(grep -c requeue calls)"
done

name='Slurm: a rank that died under all nodes alive'
plays 'begin @10 137'
slurm --solver=a
same "$name" "75 1" "$status $(grep -c requeue calls)"
plays 'begin 76'
slurm --solver=a
same "$name" "75 1" "$status $(grep -c requeue calls)"

name='Slurm: three starts without progress are enough'
plays 'begin @10 76' 'begin @10 76'
slurm --solver=a
same "$name" "75 1" "$status $(grep -c requeue calls)"
plays 'begin 76'
slurm --solver=a
same "$name" "76 0" "$status $(grep -c requeue calls)"
said '3 starts in a row brought no newer snapshot'
[ ! -e .poseidon-77 ] || fail "$name: notes are left"
plays 'begin @0 stopped 75' 'begin @0 stopped 75' 'begin @0 stopped 75'
slurm --solver=a
slurm --solver=a
slurm --solver=a
same "$name, at iteration 0" "75 2" "$status $(grep -c requeue calls)"

name='Slurm: scancel saves and is final'
plays 'begin until @250 stopped 75'
SIGNAL=TERM slurm --solver=a
same "$name" "75 0" "$status $(grep -c requeue calls)"
said 'poseidon train --resume'
plays 'begin until @250 stopped 75'
REASON=TimeLimit SIGNAL=TERM slurm --solver=a
same 'Slurm: a time limit without a warning' "75 1" "$status $(grep -c requeue calls)"
rm -f .poseidon-77

name='Slurm: a job that may not go back'
plays 'begin until @250 stopped 75'
NO_REQUEUE=1 SIGNAL=USR1 slurm --solver=a
same "$name" 75 "$status"
said 'cannot go back to the queue'
rm -f .poseidon-77

name='Slurm: a limit shorter than its warning leaves half of it'
plays 'begin until @250 stopped 75'
begin=$(date +%s)
LEFT=0:06 SIGNAL=USR1 slurm --solver=a
[ $(($(date +%s) - begin)) -ge 3 ] || fail "$name: stopped at once"
same "$name" "75 1" "$status $(grep -c requeue calls)"
said 'shorter than its warning'
rm -f .poseidon-77

name='Slurm: a warning that comes before training begins'
plays
echo 'kill -USR1 $$' >"set up"
SETUP='./set up' slurm --solver=a
same "$name" '75 scontrol requeue 77~' "$status $(flat <calls)"
rm -f .poseidon-77

name='Slurm: arrays of schemes'
plays 'begin 0'
SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_JOB_ID=70 SLURM_JOB_NAME=cmp slurm --solver=a --comm=ps,sfb --batch=8
same "$name" "$(printf '%s' "$start<--solver=a><--comm=sfb><--snapshot-prefix=cmp-70-sfb><--batch=8><--run=slurm-77><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
plays 'begin 0'
SLURM_ARRAY_TASK_ID=2 slurm --solver=a --comm=ps,sfb
same "$name" 1 "$status"
said 'has no scheme for task 2'

name='Slurm: srun'
plays
LAUNCH='srun --cpu-bind=none' slurm --solver=a
same "$name without PMIx" '1 1' "$status $(wc -l <said | tr -d ' ')"
said 'has no PMIx'
plays
PMIX=pmix_v4 LAUNCH='srun --cpu-bind=none' slurm --solver=a
same "$name" "$(printf '%s' "<srun><--mpi=pmix><--cpu-bind=none><$program><train><--solver=a><--run=slurm-77><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"

name='Slurm: modules, containers, another program'
plays 'begin 0'
echo 'MODULE=loaded; export MODULE; echo "set up" >>calls' >"set up"
SETUP="./set up" CONTAINER='apptainer exec my.sif' slurm --solver=a
same "$name" 'set up~<--map-by><ppr:1:node><apptainer><exec><my.sif><poseidon><train><--solver=a><--run=slurm-77><--resume>' "$(flat <calls | sed 's/~$//')"
plays 'begin 0'
POSEIDON=/bin/true slurm --solver=a
same "$name" '<--map-by><ppr:1:node></bin/true><train><--solver=a><--run=slurm-77><--resume>' "$(cat calls)"
mv build/poseidon build/away
plays
slurm --solver=a
same "$name" '1' "$status"
said "there is no program 'poseidon'"
cp build/away "$folder/bin/poseidon"
plays 'begin 0'
slurm --solver=a
same "$name, in PATH" "<--map-by><ppr:1:node><$folder/bin/poseidon><train><--solver=a><--run=slurm-77><--resume>" "$(cat calls)"
rm "$folder/bin/poseidon"
mv build/away build/poseidon

# ---- PBS ----

# qsub as OpenPBS reads it: "-v NAME,NAME" takes values from the environment; values with quotes do not
# arrive (23.06 crashes or loses them). A job: a copy of the script and its variables, which pbs_run starts with these and PBS's own alone.
stand_in qsub <<'END'
: >"$SPOOL/job.env"
while [ $# -gt 1 ]; do
    case $1 in
    -v)
        shift
        for name in $(printf '%s' "$1" | tr ',' ' '); do
            case $name in
            *=*) ;;
            *[!A-Za-z0-9_]*) echo 'qsub: cannot send environment with the job' >&2; exit 1 ;;
            esac
            case $(printenv "$name") in *[\'\"]*) echo 'qsub: cannot send environment with the job' >&2; exit 1 ;; esac
            printf '%s\0' "$name=$(printenv "$name")" >>"$SPOOL/job.env"
        done
        ;;
    -l) shift ;;
    *) echo "qsub: illegal option $1" >&2; exit 1 ;;
    esac
    shift
done
[ -r "$1" ] || { echo "qsub: script file:: No such file or directory $1" >&2; exit 1; }
cp "$1" "$SPOOL/job.SC"
echo "qsub" >>calls
END
stand_in qstat <<'END'
[ -z "$(cat "$SPOOL/silent" 2>/dev/null)" ] || exit 255
printf 'Job Id: 5.head\n    Job_Name = poseidon\n    Resource_List.walltime = %s\n    Variable_List = PBS_O_HOME=/root\n' "$(cat "$SPOOL/wall")"
END
stand_in sleep <<'END'
case $1 in 5 | 10 | 30) exec /bin/sleep 0.1 ;; esac
exec /bin/sleep "$1"
END
SPOOL=$folder/spool
export SPOOL
echo 04:00:00 >"$SPOOL/wall"
printf 'n1\nn1\nn2\n' >"$SPOOL/nodes"
# pbs_run JOBID: what was submitted last, in the environment PBS gives a job; sets status
pbs_run() {
    xargs -0 env -i PATH="$PATH" HOME=/root SPOOL="$SPOOL" PBS_O_WORKDIR="$home" PBS_JOBID="$1" PBS_NODEFILE="$SPOOL/nodes" \
        PBS_ENVIRONMENT=PBS_BATCH PBS_O_PATH="$PATH" sh -c '
            for variable; do export "$variable"; done
            sh "$SPOOL/job.SC"
            echo $? >"$SPOOL/status"' sh <"$SPOOL/job.env" >said 2>&1
    status=$(cat "$SPOOL/status")
}
pbs_start="<--hostfile><$SPOOL/nodes><--map-by><ppr:1:node><$program><train>"

name='PBS: arguments with commas and blanks'
plays 'begin 0'
ARGUMENTS='--solver=my\ solver --comm=ps,sfb' qsub -v ARGUMENTS jobs/train.pbs
pbs_run 5.head
same "$name" "$(printf '%s' "qsub~$pbs_start<--solver=my solver><--comm=ps,sfb><--run=pbs-5.head><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
same "$name" 0 "$status"

name='PBS: qrerun, a dead node, preemption: the same job goes on'
plays 'begin until @40 stopped 75' 'begin 0'
ARGUMENTS=--solver=a qsub -v ARGUMENTS jobs/train.pbs
echo 4 >"$SPOOL/wall"
pbs_run 5.head
same "$name: without RESUBMIT" 75 "$status"
said '"poseidon train --resume" goes on'
printf 'start\nbegun\nsnapshot 40\n' >.poseidon-6.head
pbs_run 6.head
same "$name" "$(printf '%s' "$pbs_start<--solver=a><--run=pbs-6.head><--resume>" | flat)" "$(tail -n 2 calls | flat | sed 's/~$//')"
same "$name" 0 "$status"

name='PBS: its own clock, and a resubmission that loses nothing'
plays 'begin until @40 stopped 75' 'begin 0'
cp "$program" "$folder/bin/other program"
ARGUMENTS='--comm=ps,sfb' RESUBMIT='qsub -l select=8' POSEIDON="$folder/bin/other program" WARN_SECONDS=1 RANKS_PER_NODE=2 \
    RESTARTS=5 OMPI_MCA_btl=tcp,self qsub -v ARGUMENTS,RESUBMIT,POSEIDON,WARN_SECONDS,RANKS_PER_NODE,RESTARTS,OMPI_MCA_btl jobs/train.pbs
pbs_run 5.head
same "$name" 75 "$status"
said 'submitted again'
for variable in CHAIN=5.head ARGUMENTS=--comm=ps,sfb 'RESUBMIT=qsub -l select=8' "POSEIDON=$folder/bin/other program" \
    WARN_SECONDS=1 RANKS_PER_NODE=2 RESTARTS=5 OMPI_MCA_btl=tcp,self; do
    tr '\0' '\n' <"$SPOOL/job.env" | grep -qxF "$variable" || fail "$name: $variable is lost"
done
pbs_run 8.head
same "$name" "<--hostfile><$SPOOL/nodes><--map-by><ppr:2:node><$folder/bin/other program><train><--comm=ps,sfb><--run=pbs-5.head><--resume>" "$(tail -n 1 calls)"
same "$name" 0 "$status"
! ls .poseidon-* >/dev/null 2>&1 || fail "$name: notes are left"

name='PBS: a lost rank is submitted again, a mistake is not'
plays 'begin @5 205' 1
ARGUMENTS=--solver=a RESUBMIT=qsub qsub -v ARGUMENTS,RESUBMIT jobs/train.pbs
pbs_run 5.head
same "$name" "205 2" "$status $(grep -c qsub calls)"
pbs_run 6.head
same "$name" "1 2" "$status $(grep -c qsub calls)"

name='PBS: no clock'
plays 'begin 0'
ARGUMENTS=--solver=a qsub -v ARGUMENTS jobs/train.pbs
echo silent >"$SPOOL/silent"
pbs_run 5.head
said 'qstat does not show the wall time'
same "$name" 0 "$status"
plays 'begin until @40 stopped 75'
ARGUMENTS=--solver=a WALLTIME=0:04 WARN_SECONDS=1 qsub -v ARGUMENTS,WALLTIME,WARN_SECONDS jobs/train.pbs
pbs_run 5.head
same "$name but WALLTIME" 75 "$status"
rm "$SPOOL/silent"
name='PBS: the clock counts from the start of the job'
plays 'begin until heard @40 stopped 75'
stand_in date <<'END'
[ "$*" != +%s ] || [ ! -e later ] || exec expr "$(/bin/date +%s)" + 1000
exec /bin/date "$@"
END
echo ': >later # a thousand seconds of modules' >"set up"
ARGUMENTS=--solver=a SETUP='./set up' WALLTIME=1004 WARN_SECONDS=1 qsub -v ARGUMENTS,SETUP,WALLTIME,WARN_SECONDS jobs/train.pbs
pbs_run 5.head
same "$name" 75 "$status"
rm "$folder/bin/date" later

# ---- hosts without a scheduler ----

printf 'n1 slots=2\n# n9\nn2\n\nn3\n' >hosts
keep() {
    sh jobs/keep_running.sh --hostfile=hosts "$@" >said 2>&1
    status=$?
}
name='keep_running.sh: another host stands in for a dead one'
plays 'begin @10 205' 'begin 0'
DEAD=n1 keep --hosts=2 -- --solver='my solver'
same "$name" "$(printf '%s' "<-np><2><--host><n2:1,n3:1><$program><train><--solver=my solver><--run=keep><--resume>" | flat)" "$(head -n 2 calls | flat | sed 's/~$//')"
same "$name" "$(printf '%s' "<-np><2><--host><n2:1,n3:1><$program><train><--solver=my solver><--run=keep><--resume><--resume>" | flat)" "$(tail -n 2 calls | flat | sed 's/~$//')"
same "$name" 0 "$status"
name='keep_running.sh: fewer hosts'
plays 'begin 0'
DEAD=n1 keep --ranks-per-host=2 -- --global-batch=32
same "$name" "$(printf '%s' "<-np><4><--host><n2:2,n3:2><$program><train><--global-batch=32><--run=keep><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
plays
DEAD=n1 keep --wait=1 -- --batch=32
same "$name" 1 "$status"
said '2 of 3 hosts answer: give more in hosts, or --global-batch=N'
name='keep_running.sh: mistakes and starts without progress'
plays 'begin 1'
keep -- --solver=a
same "$name" '1 2' "$status $(wc -l <calls | tr -d ' ')"
plays 'begin 137' 'begin 137' 'begin 137' 'begin 137'
keep -- --solver=a
same "$name" '137 6' "$status $(wc -l <calls | tr -d ' ')"
plays 'begin @5 stopped 75'
keep -- --solver=a
same "$name" '75 2' "$status $(wc -l <calls | tr -d ' ')"
name='keep_running.sh: a host that is silent now and then is not lost, one that stays silent is'
plays 'begin @10 asked 0'
BLINKS=n2 keep -- --solver=a
same "$name" '0 2' "$status $(wc -l <calls | tr -d ' ')"
plays 'begin @10 hang 0' 'begin @10 0'
rm -f asked
DIES=n2 keep --hosts=2 -- --solver=a
same "$name" '0 4' "$status $(wc -l <calls | tr -d ' ')"
said 'n2 answers no more'
said 'starting on n1 n3'
rm -f asked
refuses() { # PATTERN ARGUMENT...
    name="keep_running.sh $2"
    pattern=$1
    shift
    sh jobs/keep_running.sh "$@" >said 2>&1 && fail "$name: accepted"
    said "$pattern"
}
refuses 'which hosts?' --
refuses 'absent cannot be read' --hostfile=absent
refuses "--hosts wants a number of at least 1, found '0'" --hostfile=hosts --hosts=0
refuses -- '--hosts=4, but hosts names 3' --hostfile=hosts --hosts=4
refuses "unknown argument '--fast'" --fast
finish
