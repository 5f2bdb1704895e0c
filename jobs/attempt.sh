# shellcheck shell=sh
# Read with "." by train.slurm, train.pbs and keep_running.sh: starts a training once, hands signals on to it, and
# says whether another start would resume from there.
#
# The caller sets attempt_name (for messages) and attempt_state, a file that outlives the attempt. What happens is
# noted there line by line: "start", "begun" (training), "reached N" (iterations, each time that they have grown by a
# tenth), "snapshot N", "stopped", "memory" (a rank was killed for it). The notes are taken from the log's lines as they
# pass, so that they are there even when this host dies.

attempt_stopped='' attempt_is_late='' attempt_training=''

attempt_say() {
    # shellcheck disable=SC2154 # the caller's
    printf '%s: %s\n' "$attempt_name" "$1" >&2
}

# attempt_number TEXT OTHERWISE: TEXT where it is a number, else OTHERWISE. What a command printed goes into sums and
# comparisons through this alone: the shell ends at a text there, and with it a training that was not told to save.
attempt_number() {
    case $1 in
    '' | *[!0-9]* | 0?* | ???????????????*) printf '%s' "$2" ;;
    *) printf '%s' "$1" ;;
    esac
}

attempt_clock() { # seconds
    attempt_number "$(date +%s 2>/dev/null)" 0
}

# attempt_ask COMMAND...: what it prints, if it does so within ten seconds.
attempt_ask() {
    timeout -k 5 10 "$@" 2>/dev/null </dev/null
}

# attempt_insist SECONDS COMMAND...: a request to a scheduler, which may be starting again itself: tried until it is
# granted, SECONDS and ten minutes at most; but once where the answer is a refusal for good.
attempt_insist() {
    patience=$(attempt_number "$1" 600) waited=0 pause=5
    [ "$patience" -le 600 ] || patience=600
    shift
    until answer=$(timeout -k 5 60 "$@" 2>&1 </dev/null); do
        case $?:$answer in
        12[67]:* | *isabled* | *enied* | *nauthorized* | *llegal* | *'nvalid job'* | *'nknown queue'* | *'script file'*) patience=0 ;;
        esac
        if [ "$waited" -ge "$patience" ]; then
            printf '%s\n' "$answer" >&2
            return 1
        fi
        [ "$waited" -gt 0 ] || attempt_say "'$1' failed ($answer); trying again for up to $patience s"
        [ $((waited + pause)) -le "$patience" ] || pause=$((patience - waited))
        sleep "$pause"
        waited=$((waited + pause)) pause=$((pause < 30 ? pause * 2 : 60))
    done
    [ -z "$answer" ] || printf '%s\n' "$answer" >&2
}

# attempt_find FOLDER: sets poseidon, the program: POSEIDON, beside the scripts (FOLDER), in PATH. A container brings
# its own.
attempt_find() {
    poseidon=${POSEIDON:-poseidon}
    [ -z "${CONTAINER:-}" ] || return 0
    if [ -z "${POSEIDON:-}" ]; then
        # built beside the sources; installed with the scripts in share/poseidon/jobs
        for place in "$1" "$1/../build" "$1/../build-check" "$1/../../../bin"; do
            [ -f "$place/poseidon" ] && [ -x "$place/poseidon" ] && poseidon=$(cd "$place" && pwd)/poseidon && return
        done
    fi
    found=$(command -v -- "$poseidon") && [ -x "$found" ] && poseidon=$found && return
    attempt_say "there is no program '$poseidon', neither beside $1 nor in PATH; POSEIDON=/path/to/poseidon names it"
    return 1
}

# attempt_is_named ARGUMENT...: whether the user has named the run. Else the job names its own: every start resumes that
# run if it has snapshots, and begins it if it has none, whatever else lies there.
attempt_is_named() {
    for argument; do
        case $argument in --run=* | --resume | --resume=*) return 0 ;; esac
    done
    return 1
}

# attempt_saves ARGUMENT...: whether these say when to save, or what they ask for saves nothing. Else the scripts have a
# snapshot written as often as that costs 1 % of the time, and the last two stay.
# shellcheck disable=SC2034 # the callers'
attempt_pace='--snapshot-every=1% --keep=2'
attempt_saves() {
    for argument; do
        case $argument in
        --snapshot-every* | --keep | --keep=* | --dry-run* | --fake-data* | --engine=replay) return 0 ;;
        esac
    done
    return 1
}

# attempt_pick TASK ARGUMENT: sets picked: the argument, or where it is a list of --comm or --set (--comm=ps,sfb, --set
# base_lr=0.1,0.01), the same with the element of an array's task. Called for one argument after the other; swept says
# by what this task differs from the others, for names of files.
attempt_before='' swept=''
attempt_pick() {
    picked=$2 before=$attempt_before attempt_before=$2
    case $2 in
    --comm=*,*) field='--comm=' ;;
    --set=*=*,*) field=${2#--set=} && field=--set=${field%%=*}= ;;
    *=*,*) [ "$before" = --set ] || return 0; field=${2%%=*}= ;;
    *,*) [ "$before" = --comm ] || return 0; field='' ;;
    *) return 0 ;;
    esac
    element=$(printf '%s\n' "${2#"$field"}" | cut -d, -f $(($1 + 1)))
    if [ -z "$element" ]; then
        attempt_say "$2 has no value for task $1 of the array; the first is task 0"
        return 1
    fi
    picked=$field$element
    swept=$swept-$(printf '%s' "${picked#--*=}" | tr -c 'A-Za-z0-9._-' -)
}

# Passes the log on line by line, and notes what it says. (Not awk: some read by the block, and would be late.) TERM ends
# the training, not what it says meanwhile.
attempt_watch() {
    trap '' TERM INT HUP USR1 USR2 XCPU
    reached=
    # shellcheck disable=SC2154 # the caller's
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line" >&2
        case $line in
        *'] Solving '*) echo begun ;;
        *'] Iteration '*', loss = '*)
            line=${line##*'] Iteration '}
            line=${line%%[!0-9]*}
            if [ -z "$reached" ] || [ "$line" -gt $((reached + reached / 10)) ]; then
                reached=$line
                echo "reached $line"
            fi
            ;;
        *'] Snapshotting solver state to '*_iter_*.solverstate*)
            line=${line##*_iter_}
            echo "snapshot ${line%%.*}"
            ;;
        *'] Optimization stopped early'*) echo stopped ;;
        # srun's and slurmstepd's
        *': Out Of Memory'* | *' oom_kill event'* | *' oom-kill event'*) echo memory ;;
        esac
    done >>"$attempt_state"
}

# attempt_stop SIGNAL: all ranks agree on a stop with a snapshot. mpirun and srun hand USR1 on to them, but not before
# they are there: earlier it would end mpirun, or be lost.
attempt_stop() {
    attempt_stopped=${attempt_stopped:-$1}
    [ -n "$attempt_training" ] || return 0
    if attempt_noted begun; then
        kill -USR1 "$attempt_training" 2>/dev/null
    else
        (until attempt_noted begun; do sleep 0.5; done; kill -USR1 "$attempt_training") 2>/dev/null &
        attempt_timers="$attempt_timers $!"
    fi
}

# What does not stop is not waited for.
attempt_late() {
    attempt_is_late=1
}

# attempt_alarm SECONDS SIGNAL: to this shell, unless the attempt is over before.
attempt_timers=
attempt_alarm() {
    (trap 'kill "$nap"' TERM; sleep "$1" & nap=$!; wait "$nap" && kill "-$2" $$) 2>/dev/null &
    attempt_timers="$attempt_timers $!"
}

# How many processes of this shell's control group were killed for want of memory: of version 2 (no name), and 1.
attempt_killed_for_memory() {
    kills=0
    while IFS=: read -r _ kind path; do
        case ,$kind, in
        ,,) events=/sys/fs/cgroup$path/memory.events ;;
        *,memory,*) events=/sys/fs/cgroup/memory$path/memory.oom_control ;;
        *) continue ;;
        esac
        [ ! -r "$events" ] || kills=$((kills + $(attempt_number "$(sed -n 's/^oom_kill //p' "$events")" 0)))
    done </proc/self/cgroup
    echo "$kills"
} 2>/dev/null

# attempt_run COMMAND...: sets status. Returns when the training has ended, or after attempt_late.
attempt_run() {
    # mpirun answers TERM and INT by killing its ranks in a second, and so do its daemons: they do not get to see them.
    # What mpirun then kills are ranks whose others are lost: at once, not after two seconds. Where env cannot do that, the
    # ranks get 20 seconds to save.
    if env --block-signal=TERM true 2>/dev/null; then
        export OMPI_MCA_odls_base_sigkill_timeout="${OMPI_MCA_odls_base_sigkill_timeout:-0}"
        export OMPI_MCA_orte_launch_agent="${OMPI_MCA_orte_launch_agent:-env --block-signal=TERM --block-signal=INT orted}"
        attempt_shield='env --block-signal=TERM --block-signal=INT'
    else
        export OMPI_MCA_odls_base_sigkill_timeout="${OMPI_MCA_odls_base_sigkill_timeout:-20}"
        attempt_shield=
    fi
    attempt_folder=$(mktemp -d) && mkfifo "$attempt_folder/log" || return 1
    if ! echo start >>"$attempt_state"; then
        attempt_say "$attempt_state must be writable: it counts the starts"
        rm -rf "$attempt_folder"
        return 1
    fi
    if [ -n "$attempt_stopped" ]; then # before there was anybody to hear
        status=75
        rm -rf "$attempt_folder"
        return
    fi
    kills_before=$(attempt_killed_for_memory)
    attempt_watch <"$attempt_folder/log" &
    attempt_watcher=$!
    # shellcheck disable=SC2086 # words
    $attempt_shield "$@" 2>"$attempt_folder/log" &
    attempt_training=$!
    # a signal interrupts the wait, too
    while wait "$attempt_training"; status=$?; kill -0 "$attempt_training" 2>/dev/null; do
        # mpirun's daemons end their ranks when it is gone
        [ -z "$attempt_is_late" ] || { kill -KILL "$attempt_training"; break; }
    done
    attempt_training=
    # shellcheck disable=SC2086 # numbers
    [ -z "$attempt_timers" ] || kill $attempt_timers 2>/dev/null
    attempt_timers=
    # the log's last lines; a process that was left behind may hold its end open
    for nap in 0 0.1 0.2 0.3 0.5 1 1; do
        kill -0 "$attempt_watcher" 2>/dev/null || break
        sleep "$nap"
    done
    rm -rf "$attempt_folder"
    [ "$(attempt_killed_for_memory)" = "$kills_before" ] || echo memory >>"$attempt_state"
}

# Starts in a row, the last one among them, that brought no newer snapshot and trained no further than those before.
attempt_idle() {
    awk '$1 == "start" { idle++ }
        ($1 == "snapshot" || $1 == "reached") && $2 > best[$1] + 0 { best[$1] = $2; idle = 0 }
        END { print idle + 0 }' "$attempt_state"
}

# Whether the last start noted this. (Not by awk: a stop waits for it.)
attempt_noted() {
    noted=1
    while read -r word _; do
        case $word in
        start) noted=1 ;;
        "$1") noted=0 ;;
        esac
    done <"$attempt_state"
    return "$noted"
}

# attempt_judge DEAD-HOSTS: sets verdict (done, again, fail) and why. Statuses of "poseidon train": 0 done, 75 stopped and
# saved, 76 a rank was lost, 1 a mistake that another start would repeat, 130 its user's interrupt. All others are the
# launcher's, of a signal or of its own daemons (mpirun has 9, 205 and more for these): before training had begun it
# is told about a mistake, later it has lost something. Where hosts died, nothing is a mistake. What had not memory enough
# for one iteration has not either the next time.
attempt_judge() {
    verdict=again
    if [ -n "$attempt_is_late" ]; then
        why='it did not stop in time'
    elif [ "$status" -eq 75 ] || { [ "$status" -eq 0 ] && attempt_noted stopped; }; then
        why='stopped and saved'
    elif [ "$status" -eq 0 ]; then
        verdict='done'
    elif [ -n "$1" ]; then
        why="lost $1 (status $status)"
    elif attempt_noted memory; then
        why="a rank was killed for want of memory (status $status)"
        if ! attempt_noted reached && ! attempt_noted snapshot; then
            verdict=fail
            why="$why before its first iteration: ask for more memory, or give a smaller --batch"
        fi
    else
        case $status in
        76) why="lost a rank (status 76)" ;;
        1 | 130) verdict=fail ;;
        *) if attempt_noted begun; then why="lost a rank (status $status)"; else verdict=fail; fi ;;
        esac
        [ "$verdict" = again ] || why="training failed with status $status"
    fi
    idle=$(attempt_number "$(attempt_idle)" 0)
    if [ "$verdict" = again ] && [ "$idle" -ge "$(attempt_number "${RESTARTS:-3}" 3)" ]; then
        verdict=fail
        why="$why; $idle starts in a row got no further, so there is not another one"
    fi
}
