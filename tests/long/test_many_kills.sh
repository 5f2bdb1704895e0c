#!/bin/sh
# Kills at random moments of a training on 4 hosts in a box: a rank, a daemon of mpirun's, mpirun itself, everything on a host,
# a host with its link. keep_running.sh starts again each time, and at the end stand the parameters of the run that
# nobody disturbed. Several boxes at a time, for they wait more than they compute. Skipped where a box cannot be built.
#
#   POSEIDON_KILLS   in all (200)
#   POSEIDON_BOXES   at a time (5)
#   POSEIDON_SEED    of what is killed, and when
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
: "${abs_top_srcdir:=$(cd "$here/../.." && pwd)}" "${POSEIDON:=$abs_top_srcdir/build/poseidon}"
export abs_top_srcdir POSEIDON
box=$abs_top_srcdir/tests/cluster/box.sh
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

if [ "${1:-}" != inside ]; then
    "$box" --check || exit
    kills=${POSEIDON_KILLS:-200} boxes=${POSEIDON_BOXES:-5} seed=${POSEIDON_SEED:-$$} status=0
    echo "seed $seed"
    [ "$boxes" -le "$kills" ] || boxes=$kills
    for i in $(seq "$boxes"); do
        "$box" --hosts=4 -- "$here/test_many_kills.sh" inside $(((kills + i - 1) / boxes)) $((seed + i)) >"$folder/$i" 2>&1 &
        pids="${pids:-} $!"
    done
    for pid in $pids; do
        wait "$pid" || status=1
    done
    cat "$folder"/*
    # what the boxes saw, together
    cat "$folder"/* | awk -F ' [|] ' '/^struck: / { what = substr($1, 9); n[what] += $2; lost[what] += $3; all += $2; gone += $3 }
        /^runs: / { runs += substr($0, 7) }
        END { for (what in n) printf "counted: SIGKILL to %s, then keep_running.sh | %d | %d | %d\n", what, n[what], n[what] - lost[what], lost[what]
            printf "%d kills, %d runs, lost: %d\n", all, runs, gone; exit all < '"$kills"' }' || status=1
    exit $status
fi

kills=$2 seed=$3
# shellcheck source=tests/cluster/common.sh
. "$abs_top_srcdir/tests/cluster/common.sh"
cd "$folder" || exit 1
sed "s|data/fashion|$abs_top_srcdir/data/fashion|" "$abs_top_srcdir/models/lenet/train_val.prototxt" >net.prototxt
printf 'n1\nn2\nn3\nn4\n' >hosts

# random BELOW: a whole number, of the seed and of how often it was asked
asked=0
random() {
    asked=$((asked + 1))
    drawn=$(awk -v seed="$seed" -v n="$asked" -v below="$1" 'BEGIN { srand(seed * 10000 + n); print int(rand() * below) }')
}

said() { # PATTERN: in how many lines of the log
    grep -c -e "$1" kept.log
}

# until_more PATTERN N: more than N lines of the log have it; 1 where the run is over before
until_more() {
    while [ "$(said "$1")" -le "$2" ]; do
        kill -0 "$keeper" 2>/dev/null || return
        sleep 0.05
    done
}

# those of a host's processes that go by this name; '' for all
on_host() { # NUMBER NAME
    for pid in $(ip netns pids "$BOX_NAME-$1"); do
        [ -z "$2" ] || [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && echo "$pid"
    done
}

power_off() { # NUMBER
    while pids=$(on_host "$1" '') && [ -n "$pids" ]; do
        # shellcheck disable=SC2086
        kill -9 $pids 2>/dev/null
    done
}

# Kills something, and sets what; 1 where it is not there any more.
strike() {
    random 4
    host=$((drawn + 1)) victims=''
    random 10
    case $drawn in
    [0-3]) what='a rank' victims=$(on_host $host poseidon) ;;
    [45]) what="a daemon of mpirun's" victims=$(on_host $host orted) ;;
    [67]) what='mpirun' victims=$(pgrep -P "$keeper" -x mpirun) ;;
    8)
        what='all of a host'
        power_off $host
        return
        ;;
    9)
        what='a host and its link, which is back after 1 to 4 s'
        ip link set "$BOX_NAME-$host" down
        power_off $host
        random 4
        sleep $((drawn + 1))
        ip link set "$BOX_NAME-$host" up
        return
        ;;
    esac
    # shellcheck disable=SC2086
    [ -n "$victims" ] && kill -9 $victims 2>/dev/null
}

options='--comm=paper --batch=4 --threads=1 --keep=3'
solver plain 200 10
# shellcheck disable=SC2086
timeout 300 mpirun -np 4 "$POSEIDON" train --solver=plain.prototxt --summary=plain.json $options >plain.log 2>&1 </dev/null ||
    { fail 'the undisturbed run'; tail -n 5 plain.log; }
hash=$(sha256 plain.json)
[ -n "$hash" ] || fail 'the undisturbed run has no figures'

solver kept 200 10
count=0 runs=0
while [ "$count" -lt "$kills" ] && [ "$failures" -eq 0 ]; do
    runs=$((runs + 1)) before=$count idle=0
    : >kept.log
    : >struck
    # shellcheck disable=SC2086
    timeout 900 sh "$abs_top_srcdir/jobs/keep_running.sh" --hostfile=hosts -- --solver=kept.prototxt --summary=kept.json \
        --stall-timeout=60s $options >kept.log 2>&1 </dev/null &
    limit=$!
    until keeper=$(pgrep -P $limit); do kill -0 $limit || break; done
    # ten at most: it is to come to its end, too
    while [ "$count" -lt "$kills" ] && [ $((count - before)) -lt 10 ]; do
        starts=$(said 'keep_running.sh: starting')
        until_more '] Solving ' "$((count - before))" || break
        snapshots=$(said 'Snapshotting solver state')
        # three starts without a newer snapshot are the end of a run, as they should be; who begins a second one has the first
        [ $idle -lt 2 ] || until_more 'Snapshotting solver state' $((snapshots + 1)) || break
        random 1000
        sleep "$(printf '0.%03d' "$drawn")"
        strike || break
        until_more 'keep_running.sh: starting' "$starts" || break # it was done before
        if [ "$(said 'Snapshotting solver state')" -gt $((snapshots + 1)) ]; then idle=0; else idle=$((idle + 1)); fi
        echo "$what" >>struck
        count=$((count + 1))
    done
    wait $limit
    status=$?
    lost=0
    if [ $status -ne 0 ]; then
        fail "run $runs: keep_running.sh ended with $status"
    elif [ "$(sha256 kept.json)" != "$hash" ]; then
        fail "run $runs: other parameters than undisturbed"
    fi
    # nobody is left behind
    for _ in $(seq 100); do
        left=$(for host in 1 2 3 4; do on_host $host poseidon; done)
        [ -n "$left" ] || break
        sleep 0.3
    done
    [ -z "$left" ] || fail "run $runs: ranks are left: $left"
    [ "$failures" -eq 0 ] || { lost=1; grep -v 'Snapshotting\|Iteration' kept.log | tail -n 40; }
    sort struck | uniq -c | while read -r n what; do
        echo "struck: $what | $n | $((n * lost))"
    done
done
echo "runs: $runs"
exit $((failures > 0))
