#!/bin/sh
# train.pbs under strict stand-ins for PBS and mpirun, through nights of every kind: what is started with which
# arguments, what is submitted again, and with which status it ends. The real ones: tests/cluster/test_pbs.sh.
# shellcheck disable=SC2016,SC2317 # stand-ins expand later; functions are called by name
set -u
# shellcheck source=tests/jobs/nights.sh
. "${abs_top_srcdir:?}/tests/jobs/nights.sh"

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
[ ! -s refusals ] || { head -n 1 refusals >&2; sed -i 1d refusals; exit 1; }
[ -r "$1" ] || { echo "qsub: script file:: No such file or directory $1" >&2; exit 1; }
cp "$1" "$SPOOL/job.SC"
echo "qsub" >>calls
END
stand_in qstat <<'END'
[ -z "$(cat "$SPOOL/silent" 2>/dev/null)" ] || exit 255
printf 'Job Id: %s\n    Job_Name = poseidon\n    Resource_List.walltime = %s\n    substate = %s\n    Variable_List = PBS_O_HOME=/root\n' \
    "$2" "$(cat "$SPOOL/wall")" "$(cat "$SPOOL/substate" 2>/dev/null || echo 42)"
END
SPOOL=$folder/spool
export SPOOL
echo 04:00:00 >"$SPOOL/wall"
printf 'n1\nn1\nn2\n' >"$SPOOL/nodes"
# pbs_run JOBID: what was submitted last, in the environment PBS gives a job; sets status
pbs_run() {
    xargs -0 env -i PATH="$PATH" HOME=/root SPOOL="$SPOOL" PBS_O_WORKDIR="$home" PBS_JOBID="$1" PBS_NODEFILE="$SPOOL/nodes" \
        PBS_ENVIRONMENT=PBS_BATCH PBS_O_PATH="$PATH" ${INDEX:+PBS_ARRAY_INDEX="$INDEX"} sh -c '
            for variable; do export "$variable"; done
            sh "$SPOOL/job.SC" &
            until [ ! -e "$SPOOL/signal" ] || grep -q begun .poseidon-* 2>/dev/null; do sleep 0.05; done
            [ ! -e "$SPOOL/signal" ] || kill -"$(cat "$SPOOL/signal")" $!
            wait $!
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
paced "$name" 1

name='PBS: qrerun, a dead node, preemption: the same job goes on'
plays 'begin until @40 stopped 75' 'begin 0'
ARGUMENTS=--solver=a qsub -v ARGUMENTS jobs/train.pbs
echo 4 >"$SPOOL/wall"
pbs_run 5.head
same "$name: without RESUBMIT" 75 "$status"
said '"poseidon train --resume" continues it'
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

name='PBS: its server is away when a job submits itself again'
plays 'begin @5 137'
ARGUMENTS=--solver=a RESUBMIT=qsub qsub -v ARGUMENTS,RESUBMIT jobs/train.pbs
echo 04:00:00 >"$SPOOL/wall"
yes 'qsub: cannot connect to server head (errno=15010)' | head -n 3 >refusals
pbs_run 5.head
same "$name" '137 2 1' "$status $(grep -c qsub calls) $(grep -c 'trying again' said)"
plays 'begin @5 137'
yes 'qsub: Unauthorized Request' | head -n 3 >refusals
pbs_run 5.head
same "$name, or refuses" '2 1' "$(wc -l <refusals | tr -d ' ') $(grep -c 'could not be submitted' said)"
rm -f refusals .poseidon-*

# A task's identifier has brackets, its index is in the environment alone, and the array's options are not its own.
name="PBS: a task of an array goes on as a job with the task's index"
plays 'begin @5 137' 'begin 0'
ARGUMENTS='--solver=$PBS_ARRAY_INDEX' RESUBMIT='qsub -J 0-2 -l select=3' qsub -v ARGUMENTS,RESUBMIT jobs/train.pbs
INDEX=2 pbs_run '123[2].head'
same "$name" '137 2' "$status $(grep -c qsub calls)"
tr '\0' '\n' <"$SPOOL/job.env" | grep -qxF 'RESUBMIT=qsub -l select=3' || fail "$name: the array's option is handed on"
pbs_run 124.head
same "$name" "$(printf '%s' "$pbs_start<--solver=2><--run=pbs-123_2_.head><--resume>" | flat)" "$(tail -n 2 calls | flat | sed 's/~$//')"
! ls .poseidon-* >/dev/null 2>&1 || fail "$name: notes are left"

name='PBS: arrays of rates: a task and the job that it submits take the same one'
plays 'begin @5 137' 'begin 0'
ARGUMENTS='--solver=a --set base_lr=0.1,0.03' RESUBMIT='qsub -J 0-1' qsub -v ARGUMENTS,RESUBMIT jobs/train.pbs
INDEX=1 pbs_run '123[1].head'
pbs_run 124.head
same "$name" '<--set><base_lr=0.03><--snapshot-prefix=poseidon-123-base_lr-0.03> 2' \
    "$(grep -o '<--set><.*-0.03>' calls | sort -u) $(grep -c 'base_lr=0.03' calls)"
name='PBS: more tasks than rates'
plays 'begin 0'
ARGUMENTS='--solver=a --set base_lr=0.1,0.03' qsub -v ARGUMENTS jobs/train.pbs
INDEX=2 pbs_run '125[2].head'
said 'base_lr=0.1,0.03 has no value for task 2 of the array; the first is task 0'

name='PBS: outside PBS this machine trains'
plays 'begin 0'
(unset PBS_NODEFILE PBS_JOBID && ARGUMENTS=--solver=a WALLTIME=100 sh jobs/train.pbs) >said 2>&1
same "$name" '0 <--map-by><ppr:1:node>' "$? $(grep -o '^<--map-by><ppr:1:node>' calls)"

name='PBS: told to end, by qrerun and by qdel'
plays 'begin until @40 stopped 75' 'begin until @40 stopped 75'
ARGUMENTS=--solver=a qsub -v ARGUMENTS jobs/train.pbs
echo TERM >"$SPOOL/signal"
echo 60 >"$SPOOL/substate"
pbs_run 5.head
said 'PBS has put the job back'
! grep -q 'train --resume' said || fail "$name: told to resume by hand"
rm -f "$SPOOL/substate" .poseidon-*
pbs_run 5.head
said '"poseidon train --resume" continues it, if PBS does not start'
rm -f "$SPOOL/signal" .poseidon-*

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
name='PBS: the script outside of PBS trains here'
plays 'begin 0'
env -u PBS_JOBID -u PBS_NODEFILE ARGUMENTS=--solver=here sh jobs/train.pbs >said 2>&1
same "$name" 0 $?
said 'this is no job of PBS: training runs here'
same "$name" "$(printf '%s' "<--map-by><ppr:1:node><$program><train><--solver=here>" | flat)" "$(flat <calls | sed 's/<--run=.*//')"
name='PBS: options given to the script outside of PBS are train'"'"'s'
plays 'begin 0'
env -u PBS_JOBID -u PBS_NODEFILE -u ARGUMENTS sh jobs/train.pbs --solver='a b' --comm=ps >said 2>&1
same "$name" 0 $?
same "$name" "$(printf '%s' "<--map-by><ppr:1:node><$program><train><--solver=a b><--comm=ps>" | flat)" "$(flat <calls | sed 's/<--run=.*//')"
finish
