#!/bin/sh
# train.slurm under strict stand-ins for Slurm and mpirun, through nights of every kind: what is started with which
# arguments, what goes back to the queue, and with which status it ends. The real ones: tests/cluster/test_slurm.sh.
# shellcheck disable=SC2016,SC2317 # stand-ins expand later; functions are called by name
set -u
# shellcheck source=tests/jobs/nights.sh
. "${abs_top_srcdir:?}/tests/jobs/nights.sh"

# What srun starts without PMIx is not one job: the first of the programs says so in a line, before MPI says more.
for number in 0 1; do
    name="program $number of srun without PMIx"
    env -u OMPI_COMM_WORLD_SIZE -u PMIX_RANK -u PMI_RANK -u PMI_FD SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=$number \
        "${built:?}" train --solver=absent >"$folder/srun.$number" 2>&1
    same "$name" 1 $?
done
same 'programs of srun without PMIx' '1 0' "$(wc -l <"$folder/srun.0" | tr -d ' ') $(wc -c <"$folder/srun.1" | tr -d ' ')"
grep -q 'srun started 4 separate programs .*srun --mpi=pmix' "$folder/srun.0" || fail "srun without PMIx: $(cat "$folder/srun.0")"

# squeue answers what slurm's does to the three formats, for the number of an array once for each of its tasks; scontrol
# notes, and refuses with the lines of the file "refusals"; srun reaches all nodes but DEAD
stand_in squeue <<'END'
case $* in
*%o*) answer=$COMMAND ;;
*%L*) answer=${LEFT:-UNLIMITED} ;;
*%r*) answer=${REASON:-None} ;;
esac
printf '%s\n' "$answer"
case $* in *"--jobs=${SLURM_ARRAY_JOB_ID:-none} "*) printf '%s\n' "$answer" ;; esac
END
stand_in scontrol <<'END'
case $1 in
show)
    [ "$2" != job ] || { printf 'JobId=%s\n   Requeue=1 Restarts=%s BatchFlag=1\n' "$3" "${RESTARTED:-0}"; exit; }
    echo "$3" | tr ',' '\n'
    exit
    ;;
requeue)
    [ ! -s refusals ] || { head -n 1 refusals >&2; sed -i 1d refusals; exit 1; }
    ;;
esac
echo "scontrol $*" >>calls
END
stand_in sacct <<'END'
printf '%s\n' RUNNING "${ACCOUNT:-FAILED}"
END
stand_in srun <<'END'
case $* in
--mpi=list) echo "MPI plugin types are...${PMIX:-}"; exit ;;
--overlap*)
    for node in $DEAD; do case $* in *"--nodelist=$node "*) exit 1 ;; esac done
    exit 0
    ;;
esac
printf '<%s>' srun "$@" | sed 's/<--snapshot-every=1%><--keep=2>//' >>calls
echo >>calls
echo 'I1122 06:46:26.354779 20217 loop.c:94] Solving LeNet' >&2
END
stand_in sinfo <<'END'
printf 'n1\nn2\nn3\nn4\n'
END

# slurm ARGUMENT...: a start of job 77 as slurmd does it, from a copy of the script; sets status
slurm() {
    cp jobs/train.slurm "$folder/spool/slurm_script"
    env SLURM_JOB_ID="${SLURM_ARRAY_JOB_ID:-77}" SLURM_SUBMIT_DIR="${WHERE:-$home}" SLURM_NTASKS_PER_NODE=1 SLURM_JOB_NODELIST=n1,n2,n3 SLURM_JOB_NUM_NODES=3 \
        SLURM_JOB_PARTITION=main DEAD="${DEAD:-}" COMMAND="$home/jobs/train.slurm $*" sh "$folder/spool/slurm_script" "$@" >said 2>&1 &
    script=$!
    if [ -n "${SIGNAL:-}" ]; then
        until grep -q begun .poseidon-* 2>/dev/null || ! kill -0 $script 2>/dev/null; do sleep 0.05; done
        kill "-$SIGNAL" $script
    fi
    wait $script
    status=$?
}
start="<--map-by><ppr:1:node><$program><train>"

name='Slurm: everything is passed on as it was given'
plays 'begin @100 0'
slurm --solver='my solver.prototxt' "--weights=it's \"x\" \$y *" "a${newline}b"
same "$name" "$(printf '%s' "$start<--solver=my solver.prototxt><--weights=it's \"x\" \$y *><a${newline}b><--run=slurm-77><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
same "$name" 0 "$status"
paced "$name" 1

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
said '3 starts in a row got no further'
name='Slurm: a start that trains further than those before is progress, a snapshot or not'
for furthest in 40 60 50 60 61 61 20; do
    plays "begin +0 +$((furthest / 2)) +$furthest 76"
    slurm --solver=a
    same "$name: $furthest" "75 1" "$status $(grep -c requeue calls)"
done
plays 'begin 76'
slurm --solver=a
same "$name: the end" "76 0" "$status $(grep -c requeue calls)"
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
yes 'Requested operation is presently disabled' | head -n 9 >refusals
SIGNAL=USR1 slurm --solver=a
same "$name" '75 8' "$status $(wc -l <refusals | tr -d ' ')"
said 'cannot go back to the queue'
rm -f .poseidon-77 refusals

name='Slurm: its controller is away when a job goes back'
plays 'begin @10 137'
yes 'Unable to contact slurm controller (connect failure)' | head -n 4 >refusals
slurm --solver=a
same "$name" '75 scontrol requeue 77' "$status $(tail -n 1 calls)"
same "$name: said" 1 "$(grep -c 'trying again' said)"
rm -f .poseidon-77
plays 'begin @10 137'
yes 'Socket timed out on send/recv operation' | head -n 99 >refusals
slurm --solver=a
same "$name for good" '75 0' "$status $(grep -c requeue calls)"
said 'cannot go back to the queue'
rm -f .poseidon-77 refusals

name='Slurm: a preempted job goes on by itself'
plays 'begin until @250 stopped 75'
RESTARTED=2 SLURM_RESTART_COUNT=1 SIGNAL=TERM slurm --solver=a
same "$name" '75 0' "$status $(grep -c requeue calls)"
said 'Slurm has put the job back'
! grep -q 'train --resume' said || fail "$name: told to resume by hand"

name='Slurm: no memory'
plays 'begin 137'
ACCOUNT=OUT_OF_MEMORY slurm --solver=a
same "$name for one iteration" '137 0' "$status $(grep -c requeue calls)"
said 'killed for want of memory (status 137) before its first iteration: ask for more'
plays 'begin oom 137'
slurm --solver=a
same "$name, as the log says" '137 0' "$status $(grep -c requeue calls)"
said 'want of memory'
plays 'begin +0 oom 137'
slurm --solver=a
same "$name later" '75 1' "$status $(grep -c requeue calls)"
said 'killed for want of memory (status 137); back to the queue'
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
same "$name" "$(printf '%s' "$start<--summary=cmp-70/sfb.json><--curves=cmp-70/sfb.csv><--solver=a><--comm=sfb><--snapshot-prefix=cmp-70-sfb><--batch=8><--run=slurm-70_1><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
plays 'begin 0'
SLURM_ARRAY_TASK_ID=2 slurm --solver=a --comm=ps,sfb
same "$name" 1 "$status"
said 'has no value for task 2'

name='Slurm: arrays of rates, in all forms that options have'
for form in '--set <base_lr=0.03>' '--set= <--set=base_lr=0.03>'; do
    plays 'begin 0'
    case $form in
    '--set '*) set -- --set base_lr=0.1,0.03 ;;
    *) set -- --set=base_lr=0.1,0.03 ;;
    esac
    SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_JOB_ID=70 SLURM_JOB_NAME=cmp slurm "$@" --set gamma=0.5 --weights=a,b
    same "$name" "<--snapshot-prefix=cmp-70-base_lr-0.03><--set><gamma=0.5><--weights=a,b>" "$(grep -o '<--snap.*a,b>' calls)"
    same "$name: $form" "${form#* }" "$(grep -o '<[^<]*base_lr=0.03>' calls)"
    [ -d cmp-70 ] || fail "$name: no folder for the summaries"
done
name='Slurm: an array of rates and schemes takes both by its number'
plays 'begin 0'
SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_JOB_ID=70 SLURM_JOB_NAME=cmp slurm --comm ps,sfb --set base_lr=0.1,0.03
same "$name" '<--comm><ps> <--set><base_lr=0.1><--snapshot-prefix=cmp-70-ps-base_lr-0.1>' \
    "$(grep -o '<--comm><ps>' calls) $(grep -o '<--set><base_lr=0.1><--snap[^>]*>' calls)"
name='Slurm: no array, no lists'
plays 'begin 0'
slurm --set base_lr=0.1,0.03
same "$name" '<--set><base_lr=0.1,0.03>' "$(grep -o '<--set><[^>]*>' calls)"

# The last task has the array's own number, of which squeue tells once for each task, and scontrol would strike all.
last() {
    SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_JOB_ID=70 slurm --solver=a --comm=ps,sfb
    rm -f .poseidon-*
}
name="Slurm: the warning of the time limit in an array's last task"
plays 'begin until @250 stopped 75'
LEFT=3:24 SIGNAL=USR1 last
same "$name" '75 scontrol requeue 70_1' "$status $(tail -n 1 calls)"
same "$name: the run" '<--run=slurm-70_1>' "$(grep -o '<--run=[^>]*>' calls)"
name="Slurm: a lost rank, and node, of an array's last task"
plays 'begin @10 205'
DEAD=n2 last
same "$name" '75 scontrol requeue 70_1~scontrol update JobId=70_1 ExcNodeList=n2~' "$status $(tail -n 2 calls | flat)"
name="Slurm: an array's last task, submitted from a folder without jobs"
plays 'begin 0'
mkdir -p "$folder/elsewhere"
cp plays "$folder/elsewhere"
WHERE=$folder/elsewhere last
same "$name" 0 "$status"

# A helper that lies, is silent, fails or hangs does not keep a stop from the ranks. misled HELPER ANSWER: from training on
misled() {
    name="Slurm: $1 that does '$2' when the time is over"
    plays 'begin until heard @250 stopped 75'
    [ ! -e "$folder/bin/$1" ] || cp "$folder/bin/$1" "$folder/good"
    echo "$2" | stand_in bad
    echo "mv '$folder/bin/bad' '$folder/bin/$1'" >"set up"
    SETUP='./set up' POSEIDON_JOBS=$home/jobs SIGNAL=USR1 slurm --solver=a
    same "$name" '75 scontrol requeue 77' "$status $(tail -n 1 calls)"
    rm -f .poseidon-77 "$folder/bin/$1"
    [ ! -e "$folder/good" ] || mv "$folder/good" "$folder/bin/$1"
}
for helper in squeue date awk; do
    for answer in 'echo 204; echo 204' : 'echo a b c; echo 08; echo -1' 'exit 1'; do
        misled "$helper" "$answer"
    done
done
stand_in timeout <<'END' # of seconds that are short
shift 3
exec /usr/bin/timeout 0.2 "$@"
END
misled squeue 'exec /bin/sleep 300'
rm "$folder/bin/timeout"

name='Slurm: squeue is late when the job starts'
plays 'begin 0'
cp plays "$folder/elsewhere"
mv "$folder/bin/squeue" "$folder/good"
printf '[ -e "%s/asked" ] || { : >"%s/asked"; exit 1; }\nexec "%s/good" "$@"\n' "$folder" "$folder" "$folder" | stand_in squeue
WHERE=$folder/elsewhere slurm --solver=a
same "$name" 0 "$status"
mv "$folder/good" "$folder/bin/squeue"

name='Slurm: srun'
plays
LAUNCH='srun --cpu-bind=none' slurm --solver=a
same "$name without PMIx" '1 1' "$status $(wc -l <said | tr -d ' ')"
said 'has no PMIx'
plays
PMIX=pmix_v4 LAUNCH='srun --cpu-bind=none' slurm --solver=a
same "$name" "$(printf '%s' "<srun><--kill-on-bad-exit=1><--mpi=pmix><--cpu-bind=none><$program><train><--solver=a><--run=slurm-77><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
plays
PMIX=pmix_v4 LAUNCH='srun --mpi=pmix_v4 -K0' slurm --solver=a
same "$name as the user says" "$(printf '%s' "<srun><--mpi=pmix_v4><-K0><$program><train>" | flat)" "$(flat <calls | sed 's/<--solver.*//')"

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
finish
