#!/bin/sh
# keep_running.sh in a cluster in a box, with ranks, daemons and whole hosts killed: the parameters at the end are those of
# the run that nothing happened to. Skipped where a box cannot be built.
#
#     test_keep_running.sh [KILLS]     of ranks and daemons at random moments (2), besides a host
# shellcheck disable=SC2016 # the box's own shell expands what stands in quotes
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
# shellcheck source=tests/cluster/common.sh
. "$here/common.sh"

if [ "${1:-}" != inside ]; then
    "$here/box.sh" --check || exit
    # The links keep the run from being over before anything can happen to it: 60 iterations a second at most.
    exec "$here/box.sh" --hosts=4 --rate=1gbit -- "$here/test_keep_running.sh" inside "${1:-2}"
fi
kills=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
cp "$abs_top_srcdir/models/lenet/train_val.prototxt" net.prototxt
ln -s "$abs_top_srcdir/data" data
iterations=$((600 + 200 * kills))

# until_running N: until the Nth start, no other, has left two snapshots, within five minutes
until_running() {
    for _ in $(seq 1500); do
        awk -v n="$1" '/keep_running.sh: starting/ { starts++; snapshots = 0 } /solver state/ { snapshots++ }
            END { exit !(starts == n && snapshots >= 2) }' kept.log && return
        sleep 0.2
    done
    fail "start $1 left no snapshot within five minutes"
}

set -- --comm=ps --batch=8 --threads=1
solver plain "$iterations" 25
timeout 600 mpirun -np 3 "$POSEIDON" train --solver=plain.prototxt --summary=plain.json "$@" >plain.log 2>&1 </dev/null ||
    { tail plain.log; fail 'the undisturbed run'; }

solver kept "$iterations" 25
printf 'n1\nn2\nn3\nn4\n' >hosts
: >kept.log
timeout 900 sh "$abs_top_srcdir/jobs/keep_running.sh" --hostfile=hosts --hosts=3 -- --solver=kept.prototxt \
    --summary=kept.json "$@" >kept.log 2>&1 </dev/null &
keeper=$!
n=0
while [ "$n" -lt "$kills" ]; do
    until_running $((n + 1))
    sleep "0.$((($$ + n * 37) % 90 + 10))"
    # a daemon with its rank, or a rank alone
    host=$((n % 2 + 2))
    pids=$(ip netns pids "$BOX_NAME-$host")
    victims=
    for pid in $pids; do
        case $n/$(cat "/proc/$pid/comm" 2>/dev/null) in
        *[02468]/poseidon | *[13579]/orted) victims="$victims $pid" ;;
        esac
    done
    # shellcheck disable=SC2086
    kill -9 $victims
    n=$((n + 1))
done
until_running $((n + 1))
ip link set "$BOX_NAME-2" down # as the power goes: nobody is told
# shellcheck disable=SC2046
kill -9 $(ip netns pids "$BOX_NAME-2")
wait "$keeper"
status=$?
[ "$status" -eq 0 ] || fail "keep_running.sh ended with $status"
[ -n "$(sha256 plain.json)" ] || fail 'no figures'
[ "$(sha256 plain.json)" = "$(sha256 kept.json)" ] || fail 'other parameters than undisturbed'
[ "$(grep -c 'keep_running.sh: starting' kept.log)" -eq $((kills + 2)) ] || fail "not $((kills + 2)) starts"
grep 'keep_running.sh: starting' kept.log | tail -n 1 | grep -q 'n1 n3 n4' ||
    fail 'n4 does not stand in for n2'
grep 'keep_running.sh:' kept.log
[ "$failures" -eq 0 ] || tail -n 30 kept.log
[ "$failures" -gt 0 ] || echo "counted: a host goes out for good, a spare one stands in for it, by keep_running.sh | 1 | 1 | 0"
exit $((failures > 0))
