#!/bin/sh
# A cluster in a box: hosts as network namespaces on one machine, joined by links of a chosen rate.
#
#     box.sh [--hosts=4] [--slots=1] [--cores=N] [--quotas=50,25] [--rate=1gbit] [--burst=256k] [--delay=50us] [--] COMMAND...
#     box.sh --check
#
# COMMAND runs outside the hosts with everything set for mpirun to start ranks on them, SLOTS on each:
#
#     tests/cluster/box.sh --hosts=4 --rate=1gbit -- mpirun -np 4 build/poseidon train --solver=...
#
# Its exit status is COMMAND's. It finds BOX_HOSTS (names), BOX_NAME (host n2 is the namespace BOX_NAME-2, and
# so is its link's outer end), BOX_NET (10.77.x.0/24), BOX_RATE, BOX_DELAY and BOX_AGENT: "$BOX_AGENT n2 PROGRAM"
# runs a program on host n2. Rates and delays are tc's (man tc-tbf, tc-netem) and hold in each direction of each
# host; without --rate links are as fast as the machine. What an idle link has saved up, at most --burst, leaves at
# once. Without --cores every host has all cores of this machine, and programs that bind threads choose the same ones,
# as they do not know of each other: where hosts compute, deal N cores to each, in turn. --quotas makes hosts unlike:
# percents of one core that all processes of host 1, 2, ... may use together, in turn; what else runs on this machine
# comes after them. "$BOX_CGROUP-2" is the control group of host n2, where its quota can be changed.
#
# Needs root, iproute2 with tc, util-linux, and a kernel with network namespaces, bridges, veth, tbf and,
# for --delay, netem; --check says what is missing and exits 77. Nothing outside is changed: names are resolved by a
# bind mount that only COMMAND sees, and namespaces and links carry this process's number and go with it.
set -u

hosts=4 slots=1 cores='' quotas='' rate='' burst=256k delay='' check=false

usage() {
    sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
}

die() {
    echo "box.sh: $1" >&2
    exit "${2:-2}"
}

number() { # NAME VALUE MOST
    case $2 in
    '' | *[!0-9]* | 0*) die "--$1 wants a number from 1 to $3, found '$2'" ;;
    esac
    [ "$2" -le "$3" ] || die "--$1 wants a number from 1 to $3, found '$2'"
}

while [ $# -gt 0 ]; do
    case $1 in
    --hosts=*) hosts=${1#*=} ;;
    --slots=*) slots=${1#*=} ;;
    --cores=*) cores=${1#*=} ;;
    --quotas=*) quotas=${1#*=} ;;
    --rate=*) rate=${1#*=} ;;
    --burst=*) burst=${1#*=} ;;
    --delay=*) delay=${1#*=} ;;
    --check) check=true ;;
    --help | -h)
        usage
        exit 0
        ;;
    --)
        shift
        break
        ;;
    -*) die "unknown option $1 (box.sh --help)" ;;
    *) break ;;
    esac
    shift
done
number hosts "$hosts" 64
number slots "$slots" 256
total=$(getconf _NPROCESSORS_ONLN)
number cores "${cores:-$total}" "$total"
for quota in $(echo "$quotas" | tr , ' '); do
    number quotas "$quota" 10000
done
$check || [ $# -gt 0 ] || die 'no command to run (box.sh --help)'

missing() { # exit 77: automake's "skipped"
    die "cannot build a cluster here: $1" 77
}

[ "$(uname -s)" = Linux ] || missing 'this is not Linux'
[ "$(id -u)" -eq 0 ] || missing 'only root can make network namespaces'
for tool in ip tc unshare nsenter mount flock; do
    command -v "$tool" >/dev/null || missing "$tool is not installed (Debian: iproute2, util-linux)"
done
if $check; then
    case $("${MPIRUN:-mpirun}" --version 2>&1) in
    *'Open MPI'*) ;;
    *) missing "only Open MPI's mpirun can be told how to start ranks on its hosts" ;;
    esac
fi

name=pbox$$ # short: interface names have 15 characters
folder=$(mktemp -d /tmp/poseidon-box.XXXXXX) || missing 'no folder in /tmp'
command_pid=

# shellcheck disable=SC2317 # called by the trap
# Ends what runs in this box's hosts, then takes them down. Links go with their namespaces.
clean() {
    trap '' INT TERM HUP
    [ -z "$command_pid" ] || kill "$command_pid" 2>/dev/null
    for i in $(seq "$hosts"); do
        # shellcheck disable=SC2046
        kill $(ip netns pids "$name-$i" 2>/dev/null) 2>/dev/null
    done
    for i in $(seq "$hosts"); do
        # shellcheck disable=SC2046
        [ -z "$(ip netns pids "$name-$i" 2>/dev/null)" ] || { sleep 1; kill -9 $(ip netns pids "$name-$i") 2>/dev/null; }
        ip link del "$name-$i" 2>/dev/null # its namespace would take it along, but later
        ip netns del "$name-$i" 2>/dev/null
        [ -z "$quotas" ] || rmdir "$cgroup-$i" 2>/dev/null
    done
    ip link del "$name" 2>/dev/null
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

must() { # what it is for, then the command
    what=$1
    shift
    "$@" >"$folder/said" 2>&1 || missing "$what: $(head -n 1 "$folder/said") ($*)"
}

# Packets wait for their turn in tbf; a delay comes before it. $1...: what to put before "tc qdisc add".
shape() {
    device=$1
    shift
    parent=root
    if [ -n "$delay" ]; then
        must 'delaying a link' "$@" tc qdisc add dev "$device" root handle 1: netem delay "$delay" limit 100000
        parent='parent 1:1'
    fi
    if [ -n "$rate" ]; then
        # shellcheck disable=SC2086
        must 'limiting a link' "$@" tc qdisc add dev "$device" $parent handle 2: tbf rate "$rate" burst "$burst" latency 50ms
    fi
}

# Quotas are of 10 ms: a thread that is out of its quota sleeps for no longer.
# shellcheck disable=SC2016 # the inner shell expands it
limit_host() { # NUMBER PERCENT
    must 'a control group of processors' mkdir "$cgroup-$1"
    if [ -f "$cgroup-$1/cpu.max" ]; then
        must 'a quota of a core' sh -c 'echo "$2 10000" >"$1/cpu.max" && echo 10000 >"$1/cpu.weight"' sh "$cgroup-$1" "$(($2 * 100))"
    else
        must 'a quota of a core' sh -c 'echo 10000 >"$1/cpu.cfs_period_us" && echo "$2" >"$1/cpu.cfs_quota_us" && echo 262144 >"$1/cpu.shares"' \
            sh "$cgroup-$1" "$(($2 * 100))"
    fi
}

# shellcheck disable=SC2016 # the inner shell expands it
limit_hosts() {
    cgroup=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { print $2; exit }' /proc/mounts)
    [ -n "$cgroup" ] || cgroup=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$cgroup" ] || missing 'no file system of control groups is mounted'
    [ ! -f "$cgroup/cgroup.subtree_control" ] || must 'control groups of processors' sh -c 'echo +cpu >"$1"' sh "$cgroup/cgroup.subtree_control"
    cgroup=$cgroup/$name
    # shellcheck disable=SC2046
    set -- $(echo "$quotas" | tr , ' ')
    for i in $(seq "$hosts"); do
        limit_host "$i" "$1"
        set -- "$@" "$1"
        shift
    done
}

free_net() {
    for candidate in $(seq $(($$ % 200 + 1)) 254) $(seq 1 200); do
        ip -o addr | grep -q "inet 10\.77\.$candidate\." || {
            echo "10.77.$candidate"
            return
        }
    done
}

add_host() { # NUMBER
    must 'a network namespace' ip netns add "$name-$1"
    must 'a pair of veth interfaces' ip link add "$name-$1" type veth peer name e0 netns "$name-$1"
    must 'joining the bridge' ip link set "$name-$1" master "$name" up
    must 'an address' ip -n "$name-$1" addr add "$net.$1/24" dev e0
    must 'an interface' ip -n "$name-$1" link set e0 up
    must 'loopback' ip -n "$name-$1" link set lo up
    # the bridge's end is outside, the host's end inside
    shape "$name-$1"
    shape e0 ip netns exec "$name-$1"
    echo "$net.$1 n$1" >>"$folder/hosts"
    echo "n$1 slots=$slots" >>"$folder/hostfile"
}

if $check; then
    hosts=1
    rate=${rate:-1gbit}
fi
# until the bridge has its address: several boxes may begin at once
exec 9</etc/hosts
flock 9
net=$(free_net)
[ -n "$net" ] || missing 'all networks 10.77.x.0/24 are taken'
# This machine's name is the bridge's address for all: many a machine has it at 127.0.0.1, too, which in a host is the host.
awk -v own="$(uname -n)" '{ names = 0
    for (i = 2; i <= NF && $i !~ /^#/; i++) { if ($i == own || $i ~ /^n[0-9]+$/) $i = ""; else names++ } }
    names' /etc/hosts >"$folder/hosts"
echo "$net.254 $(uname -n)" >>"$folder/hosts"
must 'a bridge' ip link add "$name" type bridge
must 'an address' ip addr add "$net.254/24" dev "$name"
exec 9<&-
must 'the bridge' ip link set "$name" up
for i in $(seq "$hosts"); do
    add_host "$i"
done

cgroup='' enter=
[ -z "$quotas" ] || limit_hosts
# shellcheck disable=SC2016 # the agent's shell expands it
[ -z "$quotas" ] || enter='echo $$ >'$cgroup'-${host#n}/cgroup.procs'

# Stands in for ssh: host, then the words of a command. A hostname of its own keeps Open MPI from taking
# all hosts for one.
deal=
# shellcheck disable=SC2016 # the agent's shell expands it
[ -z "$cores" ] ||
    deal='taskset -c "$(for c in $(seq '$cores'); do echo $(((${host#n} * '$cores' - c) % '$total')); done | paste -s -d,)"'
cat >"$folder/agent" <<END
#!/bin/sh
host=\$1
shift
case \$host in
n[0-9]*) ;;
*) echo "there is no host '\$host' in this box" >&2; exit 1 ;;
esac
$enter
exec $deal nsenter --net="/run/netns/$name-\${host#n}" unshare --uts sh -c 'hostname "\$0"; exec sh -c "\$*"' "\$host" "\$@"
END
chmod +x "$folder/agent"
must 'names of their own for hosts' "$folder/agent" n1 true
must 'a file system view of its own' unshare --mount mount --bind "$folder/hosts" /etc/hosts
if $check; then
    echo 'box.sh: a cluster can be built here'
    exit 0
fi

BOX_HOSTS=$(seq -f 'n%.0f' -s ' ' "$hosts")
BOX_NAME=$name BOX_NET=$net.0/24 BOX_RATE=$rate BOX_DELAY=$delay BOX_AGENT=$folder/agent
BOX_CGROUP=$cgroup BOX_QUOTAS=$quotas
export BOX_HOSTS BOX_NAME BOX_NET BOX_RATE BOX_DELAY BOX_AGENT BOX_CGROUP BOX_QUOTAS
# Open MPI: start through the agent, talk over the box's links alone (within a host through memory), and
# bind nothing, since every host would bind to the same first core.
btl=tcp,self
[ "$slots" -eq 1 ] || btl=tcp,vader,self
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$folder/agent" OMPI_MCA_orte_default_hostfile="$folder/hostfile"
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=$btl OMPI_MCA_btl_tcp_if_include="$BOX_NET"
export OMPI_MCA_oob_tcp_if_include="$BOX_NET" OMPI_MCA_hwloc_base_binding_policy=none
: "${OMPI_MCA_mpi_yield_when_idle=1}" "${HWLOC_HIDE_ERRORS=2}"
export OMPI_MCA_mpi_yield_when_idle HWLOC_HIDE_ERRORS

# In the background, so that a signal to this shell is heard at once.
# shellcheck disable=SC2016
unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$folder/hosts" "$@" &
command_pid=$!
wait "$command_pid"
status=$?
command_pid=
exit "$status"
