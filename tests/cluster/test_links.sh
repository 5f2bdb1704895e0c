#!/bin/sh
# Links that are cut, hosts that stand still or run at half speed, in a cluster in a box: no run hangs, the right rank
# and host are named within the time-out, and a run whose link comes back goes on. All cases at a time, each with a box
# of its own: they wait more than they compute.
#
#     test_links.sh [CASE...]      cut_1 cut_10 cut_60 cut_200 cut_for_ever stop_75 stop_for_ever half_speed black_hole; all of them
# shellcheck disable=SC2016,SC2317 # the hosts' own shells expand; cases are called by their names
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
# shellcheck source=tests/cluster/common.sh
. "$here/common.sh"

if [ "${1:-}" != inside ]; then
    "$here/box.sh" --check || exit
    folder=$(mktemp -d) || exit 1
    trap 'rm -rf "$folder"' EXIT
    status=0
    [ $# -gt 0 ] || set -- cut_1 cut_10 cut_60 cut_200 cut_for_ever stop_75 stop_for_ever half_speed black_hole
    for name; do
        (
            "$here/box.sh" --hosts=4 --rate=1gbit -- "$here/test_links.sh" inside "$name" >"$folder/$name" 2>&1
            echo $? >"$folder/$name.status"
        ) &
    done
    wait
    for name; do
        cat "$folder/$name"
        case $(cat "$folder/$name.status") in 0 | 77) ;; *) status=1 ;; esac
    done
    exit $status
fi
case=$2 failures=0 after=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
began=$(cut -d . -f 1 /proc/uptime)

fail() {
    echo "FAIL: $case: $1"
    failures=$((failures + 1))
}

sed "s|data/fashion|$abs_top_srcdir/data/fashion|" "$abs_top_srcdir/models/lenet/train_val.prototxt" >net.prototxt
cat >solver.prototxt <<END
net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" display: 2 max_iter: 1000000 random_seed: 1
snapshot: 20 snapshot_prefix: "run"
END

# little to compute: boxes share this machine
cap=--tune=bandwidth-mbps=50

launch() { # OPTION...
    # shellcheck disable=SC2086 # one option or none
    # mpirun's own links are not what is tested: they may be silent for long
    OMPI_MCA_oob_tcp_keepalive_time=3600 mpirun -np 4 sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$0" "$@"' "$POSEIDON" train \
        --solver=solver.prototxt --comm=ps --batch=4 --threads=1 --keep=2 $cap "$@" >log 2>&1 </dev/null &
    launcher=$!
}

begin() { # OPTION...
    launch "$@"
    await 'Iteration [1-9][0-9]* ' 300
    sleep 2
}

now() {
    cut -d . -f 1 /proc/uptime
}

await() { # TEXT SECONDS
    until=$(($(now) + $2))
    until grep -q -e "$1" log; do
        if ! kill -0 "$launcher" 2>/dev/null || [ "$(now)" -ge "$until" ]; then
            fail "'$1' was not said within $2 s"
            tail -n 4 log
            return 1
        fi
        sleep 0.2
    done
}

iteration() {
    sed -n 's/.*Iteration \([0-9]*\) (.*/\1/p' log | tail -n 1
}

# goes_on SECONDS FAULT: within that time training has come further, and then stops when it is asked to, and saves
goes_on() {
    at=$(iteration)
    await "Iteration $((at + 6)) " "$1" || return
    after=$(($(now) - back))
    counted="$2 | 1 | 1 | 0 | goes on $after s after it | $(sed -n 's/.*silent for \([0-9]*\) s.*/\1/p' log | sort -n | head -n 1 | grep . || echo -)"
    kill -USR1 "$launcher"
    wait "$launcher"
    [ $? -eq 75 ] || { fail 'a run that goes on is not stopped in order'; tail -n 4 log; }
}

# lost SECONDS FAULT: within that time rank 1 on n2 is given up, once and by name, and the ranks that can be reached end
lost() {
    until=$(($(now) + $1))
    while { kill -0 "$(cat pid.0)" || kill -0 "$(cat pid.2)" || kill -0 "$(cat pid.3)"; } 2>/dev/null && [ "$(now)" -lt "$until" ]; do sleep 0.5; done
    after=$(($(now) - cut))
    for rank in 0 2 3; do
        ! kill -0 "$(cat "pid.$rank")" 2>/dev/null || { fail "rank $rank hangs $1 s after the fault"; kill -9 "$(cat "pid.$rank")"; }
    done
    [ "$(grep -c 'poseidon train: lost: rank 1 on n2 silent for [0-9]* s, last seen in iteration [0-9]*.* The run ends with status 76' log)" -eq 1 ] ||
        { fail 'the lost rank is not named once'; grep -e silent -e lost log; }
    echo "$case: ended $after s after the fault: $(grep -o 'lost: rank 1.*' log | head -n 1)"
    counted="$2, \`--stall-timeout=30s\` | 1 | the snapshots before | the work since | named, and the ranks end | $after"
    # The launcher has links of its own, and waits for its daemon on a host that it cannot reach until TCP gives up.
    for _ in $(seq 20); do kill -0 "$launcher" 2>/dev/null && sleep 0.5; done
    if kill -0 "$launcher" 2>/dev/null; then
        echo "$case: mpirun waits on for its own link"
        kill -9 "$launcher"
    else
        ! wait "$launcher" || fail 'it ends as a success'
    fi
}

# named LEAST MOST: rank 1 on n2 is named, after 60, 120, 240 s, if it was silent so long: it was for LEAST to MOST seconds.
# Seen from the host that is cut off it is rank 0 that is silent.
named() {
    said=$(grep -c 'rank 1 on n2 silent for [0-9]* s, .*waits\{0,1\} for it' log)
    [ "$said" -le 3 ] || fail 'who is silent is said too often'
    [ "$1" -lt 65 ] || [ "$said" -ge 1 ] || fail 'who is silent is not said'
    [ "$2" -gt 55 ] || [ "$said" -eq 0 ] || fail "somebody is accused after $2 s"
    [ "$(grep -c 'silent for' log)" -eq "$(grep -c -e 'rank 1 on n2 silent for' -e 'rank 0 on n1 silent for .* (as rank 1 on n2 sees it)' log)" ] ||
        fail 'another rank is accused'
    [ "$failures" -eq 0 ] || grep silent log
}

cut_for() { # SECONDS
    begin
    ip link set "$BOX_NAME-2" down && sleep "$1" && ip link set "$BOX_NAME-2" up
    back=$(now)
    # TCP tries again after twice the time that it has waited before
    goes_on $((100 + 2 * $1)) "a host's link is cut for $1 s"
    named "$1" $(($1 + after))
}

cut_1() { cut_for 1; }
cut_10() { cut_for 10; }
cut_60() { cut_for 60; }
cut_200() { cut_for 200; }

cut_for_ever() {
    begin --stall-timeout=30s
    cut=$(now)
    ip link set "$BOX_NAME-2" down
    lost 100 "a host's link is cut for ever"
    # the rank on the host that is cut off hears nothing of rank 0
    for _ in $(seq 120); do kill -0 "$(cat pid.1)" 2>/dev/null && sleep 0.5; done
    ! kill -0 "$(cat pid.1)" 2>/dev/null || fail 'rank 1 stays behind on the host that is cut off'
}

stop_75() {
    begin
    kill -STOP "$(cat pid.1)" && sleep 75 && kill -CONT "$(cat pid.1)"
    back=$(now)
    goes_on 100 'SIGSTOP to a rank for 75 s'
    named 75 $((75 + after))
}

stop_for_ever() {
    begin --stall-timeout=30s
    cut=$(now)
    kill -STOP "$(cat pid.1)"
    lost 100 'SIGSTOP to a rank for ever'
    kill -9 "$(cat pid.1)" 2>/dev/null
}

# A switch that drops all packets above 1300 bytes without a word: what is small comes through, the first parameters do not.
black_hole() {
    command -v ethtool >/dev/null || { echo "$case: ethtool is not installed"; exit 77; }
    for host in 1 2 3 4; do # packets are to be as long as the links say
        ethtool -K "$BOX_NAME-$host" tso off gso off && "$BOX_AGENT" "n$host" ethtool -K e0 tso off gso off
    done
    ip link set "$BOX_NAME-2" mtu 1300
    cut=$(now)
    launch --stall-timeout=30s
    wait "$launcher"
    status=$? after=$(($(now) - cut))
    [ "$status" -eq 76 ] || fail "exit status $status, expected 76"
    grep -q 'poseidon train: lost: rank [0-9] on n[0-9] has waited [0-9]* s for .* while .*compare the MTU of hosts and switches.* The run ends with status 76' log ||
        fail 'what is lost is not said'
    [ "$after" -lt 120 ] || fail "it ends only after $after s"
    grep 'has waited .* while' log
    counted="packets of more than 1300 bytes are lost, \`--stall-timeout=30s\` | 1 | the snapshots before | the work since | said, with the MTU, and the ranks end | $after"
}

half_speed() {
    cap=''
    sed -i 's/max_iter: 1000000/max_iter: 300/; s/display: 2/display: 10/' solver.prototxt
    begin --batch=32 --summary=figures.json
    while kill -STOP "$(cat pid.2)" 2>/dev/null; do
        sleep 0.1
        kill -CONT "$(cat pid.2)" 2>/dev/null
        sleep 0.1
    done
    wait "$launcher" || { fail 'it does not come to its end'; tail -n 4 log; }
    grep 'was late at' log
    grep -q 'What would help most: .*host n3: rank 2 there' log || { fail "the advice: $(grep 'What would help' log)"; }
    counted='one host at half speed | 1 | 1 | 0 | named with its rank by the advice | at the end'
}

$case
echo "$case: $failures failures, $(($(now) - began)) s"
[ "$failures" -gt 0 ] || echo "counted: $counted"
kill "$launcher" 2>/dev/null
exit $((failures > 0))
