#!/bin/sh
# Ranks that do not run the same program: one message of one rank names them, their hosts and what each runs, and
# nothing hangs. A second link of the program with another build_info stands for another commit.
. "$abs_top_srcdir/tests/mpi/common.sh"
other=$abs_top_builddir/tests/mpi/other_poseidon
silent=$abs_top_builddir/tests/mpi/silent_rank
make_solver solver.prototxt 'max_iter: 2' 'snapshot_after_train: false'
set -- train --solver=solver.prototxt --batch=4 --threads=1
host=$(uname -n)

# once TEXT LOG: said once, by one rank
once() {
    [ "$(grep -c -e "$1" "$2")" = 1 ] || { fail "$2: '$1' is said $(grep -c -e "$1" "$2") times"; head -n 8 "$2"; }
    [ "$(grep -c '^poseidon ' "$2")" = 1 ] || { fail "$2: more than one message"; grep '^poseidon ' "$2"; }
}

"$POSEIDON" --version >own.txt && "$other" --version >other.txt || fail '--version'
for line in poseidon commit sources; do
    [ "$(grep "^$line " own.txt)" != "$(grep "^$line " other.txt)" ] || fail "--version: the same '$line' in both"
done
sources=$(sed -n 's/^sources  *//p' own.txt)
case $sources in
*[!0-9a-f]* | '') fail "--version: sources '$sources'" ;;
esac

# two at a time wait for a silent rank
"$POSEIDON_MPIRUN" 2 "$POSEIDON" "$@" : -n 1 "$silent" >silent.log 2>&1 </dev/null &
first=$!
"$POSEIDON_MPIRUN" 1 "$silent" : -n 2 "$POSEIDON" "$@" >root.log 2>&1 </dev/null &
second=$!

# the same where ranks are on several hosts, by the launcher's word, and Docker's bridge is on this one
third=
# shellcheck disable=SC2016 # for the inner shells
if unshare -n -m true 2>/dev/null && command -v ip >/dev/null; then
    unshare -n -m sh -c 'mount -t sysfs none /sys && ip link set lo up && ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 &&
        ip link set docker0 up && ip link add e9 type veth peer name e8 && ip addr add 10.9.8.7/20 dev e9 && ip link set e9 up &&
        exec "$@"' sh "$POSEIDON_MPIRUN" 1 sh -c 'OMPI_COMM_WORLD_LOCAL_SIZE=1 exec "$@"' sh "$POSEIDON" "$@" : -n 1 "$silent" >bridge.log 2>&1 </dev/null &
    third=$!
else
    echo 'left out: a bridge of containers (needs network name spaces and iproute2)'
fi

"$POSEIDON_MPIRUN" 2 "$POSEIDON" "$@" : -n 2 "$other" "$@" >other.log 2>&1 </dev/null
[ $? -eq 1 ] || fail 'two builds in one run do not end with status 1'
once "the ranks do not run the same program: rank 0 on $host, 1 on $host: poseidon [0-9.]* of commit .* (sources $sources), 'train' with Open MPI .*; rank 2 on $host, 3 on $host: poseidon 0.0.9 of commit 0123456789ab (sources ba9876543210), 'train' with .*; start the same program on every host" other.log
grep -q 'MPI_ABORT' other.log && fail 'ranks that know each other apart do not end in an orderly way'

"$POSEIDON_MPIRUN" 1 "$POSEIDON" "$@" : -n 1 "$POSEIDON" test --model=net.prototxt --weights=none >command.log 2>&1 </dev/null
[ $? -eq 1 ] || fail 'two commands in one run do not end with status 1'
once "rank 0 on $host: .*'train' with .*; rank 1 on $host: .*'test' with " command.log

"$POSEIDON_MPIRUN" 2 "$other" "$@" >alike.log 2>&1 </dev/null || { fail 'two of the other build'; tail -n 3 alike.log; }

wait $first
[ $? -eq 1 ] || fail 'a silent rank: the status is not 1'
program="an older poseidon or another program may run ('poseidon --version' shows which; here it is poseidon [0-9.]* of commit .*)"
once "rank 0 on $host had no answer within 30 s from rank 2, where $program\$" silent.log
wait $second
[ $? -eq 1 ] || fail 'a silent rank 0: the status is not 1'
once "rank 1 on $host had no answer within 30 s from rank 0, where $program\$" root.log
if [ -n "$third" ]; then
    wait $third
    [ $? -eq 1 ] || fail 'a silent rank elsewhere: the status is not 1'
    once "from rank 1, where $program, or messages do not arrive: this host has docker0 172.17.0.1/16, e9 10.9.8.7/20.*; 'mpirun --mca btl_tcp_if_include 10.9.0.0/20' uses this network alone (all hosts must be in it), or '--mca btl_tcp_if_exclude lo,docker0' leaves out" bridge.log
fi
finish
