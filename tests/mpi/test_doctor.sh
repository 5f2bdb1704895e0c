#!/bin/sh
# poseidon doctor on one rank, on several, and on hosts in a box: the facts, and each thing that can be wrong. Machines
# with too little of something are made of mount name spaces, which need root; what is left out is said.
. "$abs_top_srcdir/tests/mpi/common.sh"

# says STATUS NAME REGEX...: what was run last, in doctor.log
says() {
    expected=$1 name=$2
    shift 2
    [ "$status" -eq "$expected" ] || fail "$name: status $status, expected $expected: $(cat doctor.log)"
    for pattern; do
        grep -E -q "^$pattern" doctor.log || fail "$name: expected '$pattern', found: $(cat doctor.log)"
    done
}

# doctor RANKS OPTION...
doctor() {
    ranks=$1
    shift
    "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" doctor "$@" >doctor.log 2>&1
    status=$?
}

# changed SHELL-COMMANDS PROGRAM...: with mounts of its own that the commands make
changed() {
    commands=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    unshare -m sh -c "$commands"' && exec "$0" "$@"' "$@" >doctor.log 2>&1
    status=$?
}

timeout 600 "$POSEIDON" doctor >doctor.log 2>&1
status=$?
says 0 'alone' 'poseidon +[0-9]' 'MPI +[A-Z]' 'HDF5 ' 'oneDNN ' 'started by +no launcher: one rank; threads of MPI: (serialized|multiple)' \
    'host +[^ ]+: 1 rank from rank 0 on, cores .* of memory left, .* of /dev/shm' ' +network: ' ' +GPUs: ' \
    'network +one rank: start under mpirun' 'computing +products [0-9.e+]+ GFLOP/s' 'disk +poseidon: [0-9.]+ .B' 'nothing is wrong here'
[ -z "$(find . -name 'poseidon*')" ] || fail "alone: left $(ls)"
cores=$(getconf _NPROCESSORS_ONLN)
if [ "$cores" -gt 1 ]; then
    OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo doctor 2 --prefix="$work/s"
    says 0 'two ranks' 'started by +mpirun' 'transports +pml ob1, btl tcp,self' 'host +[^ ]+: 2 ranks from rank 0 on, cores .* shared by 2' \
        'network +one host: latency [0-9.]+ .?s, [0-9.]+ .B/s through memory' 'nothing is wrong here'
    if taskset -c 0,1 true 2>/dev/null; then
        cat >apart.sh <<'END'
exec taskset -c "$OMPI_COMM_WORLD_RANK" "$@"
END
        "$POSEIDON_MPIRUN" 2 sh apart.sh "$POSEIDON" doctor >doctor.log 2>&1
        status=$?
        says "$status" 'two ranks on a core each' 'host +[^ ]+: 2 ranks from rank 0 on, cores 0,1;'
    fi
    [ "$(grep -c '^host ' doctor.log)" -eq 1 ] || fail 'two ranks: one host is shown more than once'
else
    echo 'left out: two ranks with a core each (one core)'
fi

# what is wrong
doctor 2 --prefix=nowhere/s
says 1 'no folder' 'disk +nowhere/s: cannot be written' "WRONG: Cannot write to snapshot prefix 'nowhere/s'" \
    '1 problem to fix before training, shown above'
doctor $((cores + 1))
says 1 'more ranks than cores' "WRONG: [^ ]+: $((cores + 1)) ranks share $cores cores?: start at most one rank a core"
if [ "$cores" -gt 1 ] && command -v taskset >/dev/null; then
    timeout 600 taskset -c 0 "$POSEIDON" doctor >doctor.log 2>&1
    status=$?
    says 1 'bound' 'WRONG: [^ ]+: rank 0 is bound to core 0 alone, while [0-9]+ cores? (is|are) idle: start with mpirun --bind-to none'
else
    echo 'left out: a rank bound to one core (one core, or no taskset)'
fi
(ulimit -n 200 && timeout 600 "$POSEIDON" doctor >doctor.log 2>&1)
status=$?
says 1 'few files' 'WRONG: [^ ]+: a process may open only 200 files: set ulimit -n 1024'
POSEIDON_CACHE=/proc/nowhere timeout 600 "$POSEIDON" doctor >doctor.log 2>&1
status=$?
says 0 'no cache' 'note: +[^ ]+: no cache folder: every run measures the cluster again; set POSEIDON_CACHE=FOLDER' 'nothing is wrong here'
echo 'const char *protobuf_c_version(void) { return "9.9"; }' >other.c
if ${CC:-cc} -shared -fPIC -o other.so other.c 2>/dev/null; then
    # shellcheck disable=SC2086 # MPIRUN may carry options
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 600 ${MPIRUN:-mpirun} --oversubscribe \
        -n 1 "$POSEIDON" doctor : -n 1 -x LD_PRELOAD=./other.so "$POSEIDON" doctor >doctor.log 2>&1
    status=$?
    says 1 'another library on one rank' 'poseidon doctor: .*protobuf-c differs: [0-9.]+ on rank 0; 9.9 on rank 1'
else
    echo 'left out: another library on one rank (no compiler)'
fi

if unshare -m true 2>/dev/null; then
    changed 'mount -t tmpfs -o size=50m none /dev/shm' timeout 600 "$POSEIDON" doctor
    says 1 'little shared memory' 'WRONG: [^ ]+: /dev/shm has 52.4 MB left for .*--shm-size=8g.*--hierarchy=off'
    printf 'MemTotal: 24000000 kB\nMemAvailable: 500000 kB\n' >little
    changed 'mount --bind little /proc/meminfo' timeout 600 "$POSEIDON" doctor
    says 1 'little memory' 'WRONG: [^ ]+: 512 MB of memory left: end other programs there'
    mkdir full
    changed 'mount -t tmpfs -o size=1m none full' timeout 600 "$POSEIDON" doctor --prefix=full/s
    says 1 'little disk' 'WRONG: 1.05 MB of disk left under full/s: clear it, or give'
    card='mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/mlx5_0/ports/1 &&
        echo "200 Gb/sec (4X HDR)" >/sys/class/infiniband/mlx5_0/ports/1/rate && ulimit -l 64'
    changed "$card" timeout 600 "$POSEIDON" doctor
    says 1 'memory that cannot be locked' ' +network: .*InfiniBand mlx5_0 .200 Gb/sec .4X HDR.' \
        'WRONG: [^ ]+: InfiniBand needs locked memory, but a process may lock only 65.5 kB: set ulimit -l unlimited'
else
    echo 'left out: machines with little of something, InfiniBand (need the right to mount)'
fi

# hosts in a box: the third behind a link of a twentieth, which stays the slowest however busy this machine is
box=$abs_top_srcdir/tests/cluster/box.sh
if "$box" --check >/dev/null 2>&1; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    # where this machine has other work, a sound link may look slow once
    for _ in 1 2 3; do
        # shellcheck disable=SC2016 # for the shell in the box
        timeout 600 "$box" --hosts=4 --rate=200mbit -- sh -c '
            tc qdisc replace dev "$BOX_NAME-3" root tbf rate 10mbit burst 64k latency 50ms &&
            mpirun --bind-to none -np 4 "$0" doctor' "$POSEIDON" >doctor.log 2>&1
        status=$?
        [ "$(grep -c '^WRONG' doctor.log)" -gt 1 ] || break
    done
    says 1 'a slow link' ' +all to all: latency [0-9.]+ .s, [0-9.]+ .B/s per host and direction' \
        'network +host to host: usually [0-9.]+ .B/s, least [0-9.]+ .B/s, most [0-9.]+ .B/s' \
        ' +network: e0 .*; messages go by TCP over e0 .MTU 1500.' \
        'WRONG: n3: this host .*receives at [0-9.]+ .B/s.*, where other links carry [0-9.]+ MB/s: look at its card'
    [ "$(grep -c '^WRONG' doctor.log)" -eq 1 ] || fail "a slow link: more is wrong: $(grep '^WRONG' doctor.log)"
    [ "$(grep -c '^host ' doctor.log)" -eq 4 ] || fail 'a slow link: not every host is shown'
    # shellcheck disable=SC2016
    timeout 600 "$box" --hosts=3 --rate=200mbit -- sh -c '
        for host in 1 2 3; do
            tc qdisc replace dev "$BOX_NAME-$host" root tbf rate 200mbit burst 64k latency 50ms || exit 99
        done
        mpirun --bind-to none -np 3 unshare -m sh -c '"'$card"' && exec "$0" doctor'"'"' "$0"' "$POSEIDON" >doctor.log 2>&1
    status=$?
    says 1 'InfiniBand that is not used' 'WRONG: InfiniBand found .mlx5_0 .*., but messages use TCP over e0 .MTU 1500. at [0-9.]+ .B/s: use an Open MPI with UCX'
else
    echo 'left out: several hosts (no box: tests/cluster/box.sh --check)'
fi
finish
