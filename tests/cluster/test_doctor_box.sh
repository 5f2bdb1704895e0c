#!/bin/sh
# Faults of a network that poseidon doctor names, and sound networks that it leaves in peace, on hosts in a box. One case
# at a time: what is measured is measured beside little else.
#
#     test_doctor_box.sh [CASE...]      sound slow_of_3 slow_of_6 loss black_hole stopped mtu two_switches one_address others_address; all of them
# shellcheck disable=SC2016,SC2317 # names of commands stand in backquotes; cases are called by their names
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
# shellcheck source=tests/cluster/common.sh
. "$here/common.sh"

if [ "${1:-}" != inside ]; then
    "$here/box.sh" --check || exit
    status=0
    [ $# -gt 0 ] || set -- sound slow_of_3 slow_of_6 loss black_hole stopped mtu two_switches one_address others_address
    for name; do
        hosts=3
        [ "$name" != slow_of_6 ] || hosts=6
        [ "$name" != two_switches ] || hosts=4
        [ "$name" != one_address ] || hosts=2
        timeout 300 "$here/box.sh" --hosts=$hosts --rate=100mbit -- "$here/test_doctor_box.sh" inside "$name" || status=1
    done
    exit $status
fi
case=$2 failures=0
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

fail() {
    echo "FAIL: $case: $1"
    failures=$((failures + 1))
}

now() {
    cut -d . -f 1 /proc/uptime
}

# examine STATUS NUMBER [OPTION...]: of lines that name something wrong; mpirun's options
examine() {
    expected=$1 wrong=$2 ranks=$(echo "$BOX_HOSTS" | wc -w) began=$(now)
    shift 2
    timeout 250 mpirun "$@" -np "$ranks" unshare -m sh -c 'mount -t sysfs none /sys && exec "$@"' sh "$POSEIDON" doctor >log 2>errors </dev/null
    status=$?
    took=$(($(now) - began))
    [ "$status" -eq "$expected" ] || fail "status $status, expected $expected"
    [ "$(grep -c '^WRONG' log)" -eq "$wrong" ] || fail "$(grep -c '^WRONG' log) things are wrong, expected $wrong"
    [ "$wrong" -eq 0 ] || [ "$(tail -n 1 log)" = "$wrong problem$([ "$wrong" -eq 1 ] || echo s) to fix before training, shown above" ] ||
        fail 'the verdict is not the last line'
    [ "$expected$wrong" -ne 0 ] || [ "$(tail -n 1 log)" = 'nothing is wrong here' ] || fail 'it is not said that nothing is wrong'
}

says() { # FILE REGEX
    grep -E -q "$2" "$1" || fail "expected '$2'"
}

no_hint() {
    ! grep -q 'sbatch --switches' log || fail 'switches are suspected'
}

# both ends of a host's link
limit() { # HOST RATE
    tc qdisc replace dev "$BOX_NAME-$1" root tbf rate "$2" burst 64k latency 50ms &&
        ip netns exec "$BOX_NAME-$1" tc qdisc replace dev e0 root tbf rate "$2" burst 64k latency 50ms && return
    fail "the link of host $1 cannot be limited"
}

sound() {
    examine 0 0
    no_hint
}

slow_of_3() {
    limit 2 5mbit
    examine 1 1
    says log '^WRONG: n2: this host sends at [0-9.]+ .B/s, .*receives at [0-9.]+ .B/s.*, where other links carry [0-9.]+ MB/s: look at'
    no_hint
    fault='one slow host of 3: named by `doctor`'
}

slow_of_6() {
    limit 2 5mbit
    examine 1 1
    says log '^WRONG: n2: this host sends at [0-9.]+ .B/s, .*receives at [0-9.]+ .B/s.*, where other links carry [0-9.]+ MB/s: look at'
    no_hint
    fault='one slow host of 6: named by `doctor`'
}

loss() {
    command -v iptables >/dev/null || { echo "$case: left out (no iptables)"; return; }
    ip netns exec "$BOX_NAME-2" iptables -A INPUT -m statistic --mode random --probability 0.05 -j DROP || fail 'no packet can be dropped'
    examine 1 1
    says log '^WRONG: n2: this host .*loses [0-9.]+ % of the packets that are sent to it'
    no_hint
    fault='5 % of the packets to a host are lost: named by `doctor`'
}

black_hole() {
    for i in 1 2 3; do # large packets that are cut in pieces behind the switch would slip through
        { ip link set "$BOX_NAME-$i" gso_max_segs 1 && ip -n "$BOX_NAME-$i" link set e0 gso_max_segs 1; } || fail 'segments are not cut early'
    done
    ip link set "$BOX_NAME-2" mtu 1300
    examine 1 0
    says errors '^poseidon doctor: n(2: within 12 s a message of 65536 bytes from n[13]|[13]: within 12 s a message of 65536 bytes to n2) did not come through; 4 bytes did, so large packets are lost on the way: compare the MTU'
    [ "$took" -lt 60 ] || fail "it took $took s"
    says log '^transports ' # what is known before is printed before
    fault='packets of more than 1300 bytes are lost: the hosts are named by `doctor`, which ends'
}

stopped() {
    (
        until pid=$(of_host_2) && [ -n "$pid" ] && grep -q '^transports ' log 2>/dev/null; do sleep 0.05; done
        kill -STOP "$pid"
        sleep 110
        kill -9 "$pid"
    ) &
    stopper=$!
    examine 1 0
    says errors '^poseidon doctor: (n[13]: within [0-9]+ s a message of [0-9]+ bytes (from|to) n2 did not come|rank 0 on n1 has waited [0-9]+ s .*; doctor gives up)'
    [ "$took" -lt 110 ] || fail "it took $took s"
    kill "$stopper" 2>/dev/null
    fault='a rank of `doctor` is stopped: the wait for it is given up'
}

of_host_2() { # the process of the rank there
    for p in $(ip netns pids "$BOX_NAME-2"); do
        [ "$(readlink "/proc/$p/exe")" != "$POSEIDON" ] || echo "$p"
    done
}

mtu() {
    ip link set "$BOX_NAME-2" mtu 9000
    ip -n "$BOX_NAME-2" link set e0 mtu 9000
    examine 0 0
    says log '^note:  n2: the card'\''s MTU is 9000, but 1500 on other hosts'
    [ "$(grep -c "the card's MTU is" log)" -eq 1 ] || fail 'other hosts are named'
    no_hint
    fault='another MTU on a host: noted by `doctor`'
}

# hosts 3 and 4 behind a switch of their own, and a narrow link between the two
two_switches() {
    {
        ip link add "$BOX_NAME-b" type bridge && ip link set "$BOX_NAME-b" up &&
            ip link add "$BOX_NAME-x" type veth peer name "$BOX_NAME-y" && ip link set "$BOX_NAME-x" master "$BOX_NAME" up &&
            ip link set "$BOX_NAME-y" master "$BOX_NAME-b" up && ip link set "$BOX_NAME-3" master "$BOX_NAME-b" &&
            ip link set "$BOX_NAME-4" master "$BOX_NAME-b"
    } || fail 'there is no second switch'
    for end in x y; do
        tc qdisc replace dev "$BOX_NAME-$end" root tbf rate 20mbit burst 64k latency 50ms
    done
    examine 0 0
    says log '^note:  hosts far apart in the list get [0-9.]+ .B/s from each other, and neighbours [0-9.]+ MB/s: .*sbatch --switches=1'
    ip link del "$BOX_NAME-x"
    ip link del "$BOX_NAME-b"
    fault='a narrow link between two switches: noted by `doctor`'
}

# Docker's bridge has one address on every host, and MPI sends there what is for another host
bridge() { # HOST...
    unset OMPI_MCA_btl_tcp_if_include
    for i; do
        { ip -n "$BOX_NAME-$i" link add docker0 type bridge && ip -n "$BOX_NAME-$i" addr add 172.17.0.1/16 dev docker0 &&
            ip -n "$BOX_NAME-$i" link set docker0 up; } || fail "host $i gets no bridge"
    done
}

one_address() {
    bridge 1 2
    examine 1 0
    advice="this host has e0 ${BOX_NET%.0/24}.1/24.*docker0 172.17.0.1/16.*; 'mpirun --mca btl_tcp_if_include $BOX_NET' uses this network alone \(all hosts must be in it\), or '--mca btl_tcp_if_exclude lo,docker0' leaves out"
    says log "^interfaces  $advice"
    says errors "^poseidon doctor: rank 0 on n1 had no answer within 30 s from rank 1: .*, or messages do not arrive: $advice"
    [ "$took" -lt 60 ] || fail "it took $took s"
    lasted=$took
    examine 0 0 --mca btl_tcp_if_include "$BOX_NET"
    examine 0 0 --mca btl_tcp_if_exclude lo,docker0
    took=$lasted
    fault='one address of a bridge on two hosts: `doctor` names interfaces and the options of `mpirun`'
}

others_address() {
    bridge 2 3
    examine 1 0
    says log "^interfaces  this host has e0 ${BOX_NET%.0/24}.1/24.*; 'mpirun --mca btl_tcp_if_include $BOX_NET' uses this network alone"
    says errors '^poseidon doctor: rank 0 on n1 has waited 40 s .*look at the host of the silent rank, and at the interfaces shown first'
    [ "$took" -lt 90 ] || fail "it took $took s"
    fault='one address of a bridge on two other hosts: `doctor` points to the interfaces, and ends'
}

fault=''
$case
[ "$failures" -eq 0 ] || sed -n '/^transports/,$p' log errors
echo "$case: $failures failures, ${took:-0} s"
[ "$failures" -gt 0 ] || [ -z "$fault" ] || echo "counted: $fault | 1 | 1 | 0 |  | $took"
exit $((failures > 0))
