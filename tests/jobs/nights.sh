# What the tests of the training scripts share: a folder with the scripts and a program, stand-ins that are found
# first, and what they were called with. Read with "." after "set -u".
# shellcheck shell=sh
# shellcheck disable=SC2016,SC2034,SC2123,SC2154 # stand-ins expand later; the tests' own
# shellcheck source=tests/common.sh
. "${abs_top_srcdir:?}/tests/common.sh"
newline='
'

said() { # PATTERN: in what the job said
    grep -q -- "$1" said || fail "$name: expected a word about '$1', found: $(tail -n 5 said)"
}

# The program lies beside the scripts, in a folder whose name shells stumble over.
home="$folder/a night's${newline}work"
mkdir -p "$home/jobs" "$home/build" "$folder/bin" "$folder/spool"
cp "${abs_top_srcdir:?}/jobs/train.slurm" "$abs_top_srcdir/jobs/train.pbs" "$abs_top_srcdir/jobs/attempt.sh" \
    "$abs_top_srcdir/jobs/keep_running.sh" "$home/jobs"
printf '#!/bin/sh\n' >"$home/build/poseidon"
chmod +x "$home/build/poseidon"
cd "$home" || exit 1
built=${POSEIDON:-}
unset POSEIDON

stand_in() { # NAME, its text on standard input
    { echo '#!/bin/sh'; cat; } >"$folder/bin/$1"
    chmod +x "$folder/bin/$1"
}

# mpirun wants NEEDS among its words, notes them, each in <>, and plays the next line of "plays": @N is a snapshot, +N an
# iteration, "until" waits for USR1 and "hang" does not hear it, "asked" waits until a host was asked seven times, the last
# word is its status. A program's log lines go to standard error.
stand_in mpirun <<'END'
case "$* " in *"${NEEDS:-} "*) ;; *) echo "mpirun without $NEEDS" >&2; exit 1 ;; esac
for host in ${DEAD:-}; do
    case "$*" in *"-np 1 --host $host true") echo "${REASON:-}" >&2; exit 1 ;; esac
done
case $* in
*"-np 1 --host ${BLINKS:-none} true") # twice in a row, every other time that it is asked
    echo >>asked
    exit $(($(wc -l <asked) % 3 != 1))
    ;;
*"-np 1 --host ${STUMBLES:-none} true") # every other time
    echo >>asked
    exit $(($(wc -l <asked) % 2))
    ;;
*"-np 1 --host ${RESTS:-none} true") # not between trainings
    [ ! -s calls ] || [ -e training ]
    exit
    ;;
*"-np 1 --host ${DIES:-none} true") # but for the first time
    echo >>asked
    exit $(($(wc -l <asked) > 1))
    ;;
*' true') exit 0 ;;
esac
printf '<%s>' "$@" | tee last | sed 's/<--bind-to><none>//; s/=keep-[0-9-]*>/=keep>/; s/<--snapshot-every=1%><--keep=2>//' >>calls
echo >>calls
play=$(head -n 1 plays)
: >training
sed -i 1d plays
trap 'heard=1' USR1
heard=
say() { echo "I1122 06:46:26.354779 20217 loop.c:94] $*" >&2; }
for word in $play; do
    case $word in
    begin) say 'Solving LeNet' ;;
    +*) say "Iteration ${word#+} (0 iter/s, 0.1s/50 iters), loss = 2.3" ;;
    oom) echo 'slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.' >&2 ;;
    stopped) say 'Optimization stopped early.' ;;
    until) n=0; until [ -n "$heard" ] || [ $n -eq 2400 ]; do sleep 0.05; n=$((n + 1)); done ;;
    heard) [ -n "$heard" ] || exit 1 ;;
    asked) until [ "$(wc -l <asked)" -ge 7 ]; do sleep 0.05; done ;;
    hang) n=0; while [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done ;;
    @*) say "Snapshotting solver state to HDF5 file it's${newline:-} lenet_iter_${word#@}.solverstate.h5" ;;
    *) rm training; exit "$word" ;;
    esac
done
END
# An installed poseidon is none of these tests': where there is one, PATH is a folder of links to all other programs.
if command -v poseidon >/dev/null; then
    mkdir "$folder/others"
    # an earlier folder's links stay
    echo "$PATH" | tr : '\n' | while IFS= read -r place; do
        (cd "$place" 2>/dev/null && find "$PWD" -maxdepth 1 ! -type d -exec ln -s -t "$folder/others" {} + 2>/dev/null)
    done
    rm -f "$folder/others/poseidon"
    PATH=$folder/others
fi
PATH=$folder/bin:$PATH
export PATH

# pauses are short, but for alarms
stand_in sleep <<'END'
case $1 in 5 | 45 | [1-6]0) exec /bin/sleep 0.1 ;; esac
exec /bin/sleep "$1"
END

plays() { # LINE...
    rm -f calls
    : >calls
    printf '%s\n' "$@" >plays
}
called() { # N: the Nth line of calls
    sed -n "$1p" calls
}
program="$home/build/poseidon"
# calls are compared in one line
flat() {
    tr '\n' '~'
}

# The pace of snapshots that the scripts add, by the last start's arguments: once where the user says nothing of it.
paced() { # NAME TIMES
    same "$1: --snapshot-every=1% --keep=2" "$2" "$(grep -o '<--snapshot-every=1%><--keep=2>' last | wc -l | tr -d ' ')"
}
