#!/bin/sh
# Trains on hosts without a scheduler, and starts again on those that still answer when one is lost:
#
#     jobs/keep_running.sh --hostfile=hosts --hosts=4 -- --solver=models/lenet/solver.prototxt [OPTIONS]
#
#   --hostfile=FILE        the hosts, one per line, as mpirun reads them: NAME, or NAME slots=N
#   --hosts=N              train on N of them; the others replace hosts that die (default: all)
#   --ranks-per-host=N     (the host's slots, else 1)
#   --wait=SECONDS         how long to wait for hosts to come back if fewer than N answer (600)
#   -- OPTION...           for "poseidon train"
#
# With --global-batch among the options, training goes on with fewer hosts than N instead of waiting: the batch of an
# iteration stays what it was. Without it the batch depends on the number of ranks, so N hosts are needed.
#
# Without --snapshot-every and --keep it adds --snapshot-every=1% --keep=2: a snapshot as often as that costs 1 % of the time,
# of which two stay.
#
# TERM, INT and USR1 end it with a snapshot; the same command with --resume continues. Its status: 0 the training is
# done, 75 stopped and saved, others: training failed by a mistake, or after three starts in a row (RESTARTS) that got no
# further. POSEIDON, POSEIDON_JOBS, SETUP, CONTAINER and RESTARTS as in train.slurm; LAUNCH: mpirun and its options, but
# for hosts and their number. Hosts are asked twice a minute, by LAUNCH and mpirun's own way of starting (ssh).
set -u
files='' wanted='' per='' patience=600
attempt_name=keep_running.sh

die() {
    echo "keep_running.sh: $1" >&2
    exit 1
}

number() { # OPTION VALUE
    case $2 in
    '' | *[!0-9]* | 0*) die "$1 wants a number of at least 1, found '$2'" ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --hostfile=*) files=${1#*=} ;;
    --hosts=*) wanted=${1#*=} ;;
    --ranks-per-host=*) per=${1#*=} ;;
    --wait=*) patience=${1#*=} ;;
    --help | -h)
        sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
        exit 0
        ;;
    --)
        shift
        break
        ;;
    *) die "unknown argument '$1' (keep_running.sh --help)" ;;
    esac
    shift
done
[ -n "$files" ] || die 'which hosts? --hostfile=FILE'
[ -r "$files" ] || die "$files cannot be read"
all=$(sed 's/#.*//; s/^[[:space:]]*//; s/[[:space:]].*//' "$files" | awk 'NF && !seen[$0]++')
[ -n "$all" ] || die "$files names no host"
wanted=${wanted:-$(echo "$all" | wc -l | tr -d ' ')}
number --hosts "$wanted"
number --ranks-per-host "${per:-1}"
number --wait "$patience"
[ "$wanted" -le "$(echo "$all" | wc -l)" ] || die "--hosts=$wanted, but $files names $(echo "$all" | wc -l | tr -d ' ')"
elastic=
for argument; do
    case $argument in --global-batch=*) elastic=1 ;; esac
done

if [ -n "${SETUP:-}" ]; then
    # shellcheck disable=SC1090 # the user's
    . "$SETUP" || exit 1
fi
jobs=${POSEIDON_JOBS:-$(cd "$(dirname -- "$0")" && pwd)}
folder=$(mktemp -d) || exit 1
# beside the snapshots' usual place, but for nobody else: this process outlives all its attempts
attempt_state=$folder/state
# shellcheck source=jobs/attempt.sh
. "$jobs/attempt.sh" || exit 1
attempt_find "$jobs" || exit 1
attempt_is_named "$@" || set -- "$@" "--run=keep-$(date +%s)-$$" --resume
# shellcheck disable=SC2086,SC2154 # words of attempt.sh
attempt_saves "$@" || set -- "$@" $attempt_pace
trap 'rm -rf "$folder"' EXIT
trap 'attempt_stop INT' INT
trap 'attempt_stop TERM' TERM HUP
trap 'attempt_stop USR1' USR1
trap attempt_late USR2
set -f # LAUNCH and CONTAINER are words
launch=${LAUNCH:-mpirun --bind-to none}

# As mpirun counts: what a host's lines say, 1 where they say nothing.
slots() { # HOST
    sed 's/#.*//' "$files" | awk -v host="$1" '$1 == host {
        n = 1
        for (i = 2; i <= NF; i++) if ($i ~ /^slots=[0-9]+$/) n = substr($i, 7)
        sum += n
    } END { print sum }'
}

ask() { # HOST
    # shellcheck disable=SC2086
    timeout 20 $launch -np 1 --host "$1" true </dev/null >"$folder/said.$1" 2>&1
}

# Which of these hosts answer, one a line, in their order. A host that refuses is asked twice: of several mpirun that start at
# once, one may fail to make the folder that they share. mpirun's own environment may name other hosts.
answering() {
    for host; do
        { { ask "$host" || { [ $? -ne 124 ] && sleep 1 && ask "$host"; }; } && : >"$folder/answers.$host"; } &
        asking="${asking:-} $!"
    done
    # shellcheck disable=SC2086 # not for the training or what else runs beside
    wait $asking
    asking=
    for host; do
        [ ! -e "$folder/answers.$host" ] || echo "$host"
        rm -f "$folder/answers.$host"
    done
}

# What was said where a host did not answer: ssh's own words, else the first line that has any.
reason() { # HOST
    grep -v '^[-[:space:]]*$' "$folder/said.$1" 2>/dev/null |
        awk '/^ssh: |Permission denied|Host key|[Cc]onnection|No route|not known/ { found = $0; exit } !first { first = $0 }
            END { print found != "" ? found : first != "" ? first : "nothing within 20 s" }'
}

# The hosts that do not answer, and why: each reason once, and again when it is another.
say_silent() {
    silent=
    for host in $all; do
        echo "$here" | grep -qxF "$host" && continue
        silent="$silent $host"
        why=$(reason "$host")
        [ "$why" = "$(cat "$folder/why.$host" 2>/dev/null)" ] || attempt_say "$host: $why"
        printf '%s\n' "$why" >"$folder/why.$host"
    done
    attempt_say "$count of $wanted hosts answer; waiting for$silent"
}

# While training runs: a host that is silent twice in a row is lost, whether its connections broke or not.
watch() {
    suspects=
    while sleep 30; do
        # shellcheck disable=SC2086
        here=$(answering $1)
        silent=
        for host in $1; do
            echo "$here" | grep -qxF "$host" && continue
            case " $suspects " in
            *" $host "*)
                attempt_say "$host answers no more"
                kill -USR2 $$
                return
                ;;
            esac
            silent="$silent $host"
        done
        suspects=$silent
    done
}

# shellcheck disable=SC2086
here=$(answering $all)
while :; do
    hosts=$(echo "$here" | head -n "$wanted")
    count=$(echo "$hosts" | grep -c .)
    if [ "$count" -eq 0 ] || { [ "$count" -lt "$wanted" ] && [ -z "$elastic" ]; }; then
        [ -n "${until:-}" ] || until=$(($(attempt_clock) + patience))
        [ -z "$attempt_stopped" ] || exit 75
        [ "$(attempt_clock)" -lt "$until" ] ||
            die "$count of $wanted hosts answer: give more in $files, or --global-batch=N to train with fewer of them"
        say_silent
        sleep 10
        # shellcheck disable=SC2086
        here=$(answering $all)
        continue
    fi
    until=
    attempt_say "starting on $(echo "$hosts" | tr '\n' ' ')"
    places='' ranks=0
    for host in $hosts; do
        here_run=${per:-$(slots "$host")}
        places=$places,$host:$here_run
        ranks=$((ranks + here_run))
    done
    attempt_is_late=
    watch "$hosts" &
    attempt_timers=$!
    # shellcheck disable=SC2086
    attempt_run $launch -np "$ranks" --host "${places#,}" ${CONTAINER:-} "$poseidon" train "$@" || exit 1
    dead=
    case $attempt_is_late$status/$count in
    0/* | 75/*) ;;
    129/"$wanted" | 13?/"$wanted" | 14?/"$wanted") ;; # a signal ended a rank, and its host's daemon says so: all are there
    *)
        # shellcheck disable=SC2086
        here=$(answering $all)
        dead=$(echo "$hosts" | grep -vxF "${here:-none}" | tr '\n' ' ' | sed 's/ $//')
        ;;
    esac
    attempt_judge "$dead"
    [ "$verdict" != 'done' ] || exit 0
    if [ "$verdict" = again ] && [ -z "$attempt_stopped" ] && [ "$status" -ne 75 ] && [ "$status" -ne 0 ]; then
        attempt_say "$why"
        set -- "$@" --resume
        continue
    fi
    attempt_say "$why; the same command with --resume continues"
    [ "$status" -ne 0 ] || status=75
    exit "$status"
done
