#!/bin/sh
# A real Slurm over a cluster in a box (box.sh): each host runs a slurmd, this machine the controller.
#
#     slurm.sh [--hosts=4] [--rate=1gbit] [--delay=50us] [--] COMMAND...
#     slurm.sh --check
#
# COMMAND finds sbatch, squeue, scontrol and so on ready to be used: two partitions on the same hosts, "main"
# and "urgent", whose jobs put those of main back into the queue after 8 s of grace. A dead host is noticed after
# 20 s, and jobs that are killed have 30 s to end (KillWait). Its exit status is COMMAND's.
#
#     tests/cluster/slurm.sh -- sh -c 'sbatch --wait --wrap="srun hostname"; sinfo'
#
# "$SLURM_BOX" kill n3     ends everything on a host, as a power cut does: its link first, so that nobody is told
# "$SLURM_BOX" crash n3    the same with its link up: the others' connections break at once
# "$SLURM_BOX" revive n3   its link and its slurmd
# "$SLURM_BOX" pids n3     what runs there
#
# Needs what box.sh needs, and Slurm with munge (Debian: slurm-wlm, munge); --check says what is missing and
# exits 77. Its folders and ports are its own: another Slurm on this machine is not touched.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1

usage() {
    sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
}

die() {
    echo "slurm.sh: $1" >&2
    exit "${2:-2}"
}

missing() { # exit 77: automake's "skipped"
    die "cannot run Slurm here: $1" 77
}

# ---- inside the box ----

start_slurmd() { # HOST
    mkdir -p "$SLURM_BOX_FOLDER/spool.$1"
    # Open MPI starts its daemons through Slurm here, not through the box's agent
    "$BOX_AGENT" "$1" slurmd -N "$1" -f "$SLURM_CONF" >>"$SLURM_BOX_FOLDER/slurmd.$1.out" 2>&1
}

host_kill() { # HOST
    while pids=$(ip netns pids "$BOX_NAME-${1#n}") && [ -n "$pids" ]; do
        # shellcheck disable=SC2086
        kill -9 $pids 2>/dev/null
        sleep 0.1
    done
}

case ${1:-} in
kill | crash | revive | pids)
    verb=$1 host=${2:-}
    [ -n "${SLURM_BOX_FOLDER:-}" ] || die "$verb is for commands inside: slurm.sh -- COMMAND"
    case " $BOX_HOSTS " in *" $host "*) ;; *) die "$verb wants one of $BOX_HOSTS, found '$host'" ;; esac
    case $verb in
    pids) ip netns pids "$BOX_NAME-${host#n}" ;;
    crash) host_kill "$host" ;;
    kill)
        ip link set "$BOX_NAME-${host#n}" down
        host_kill "$host"
        ;;
    revive)
        ip link set "$BOX_NAME-${host#n}" up
        start_slurmd "$host"
        ;;
    esac
    exit
    ;;
inside)
    shift
    SLURM_BOX_FOLDER=$1 SLURM_CONF=$1/slurm.conf SLURM_BOX=$here/slurm.sh
    shift
    export SLURM_BOX_FOLDER SLURM_CONF SLURM_BOX
    unset OMPI_MCA_plm OMPI_MCA_plm_rsh_agent OMPI_MCA_orte_default_hostfile
    head=${BOX_NET%.0/24}.254
    # ports of this box's own, below those the kernel gives away
    port=$((20000 + $$ % 400 * 20))
    cat >"$SLURM_CONF" <<END
ClusterName=box
SlurmctldHost=$(uname -n)($head)
SlurmUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SrunPortRange=$((port + 2))-$((port + 19))
AuthType=auth/munge
AuthInfo=socket=$SLURM_BOX_FOLDER/munge.socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$SLURM_BOX_FOLDER/jobs
ReturnToService=2
StateSaveLocation=$SLURM_BOX_FOLDER/state
SlurmctldPidFile=$SLURM_BOX_FOLDER/slurmctld.pid
SlurmctldLogFile=$SLURM_BOX_FOLDER/slurmctld.log
SlurmdPidFile=$SLURM_BOX_FOLDER/slurmd.%n.pid
SlurmdSpoolDir=$SLURM_BOX_FOLDER/spool.%n
TmpFS=$SLURM_BOX_FOLDER/spool.%n
SlurmdLogFile=$SLURM_BOX_FOLDER/slurmd.%n.log
SlurmdTimeout=20
KillWait=30
MinJobAge=3600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
${SLURM_BOX_CONF:-}
NodeName=n[1-$(echo "$BOX_HOSTS" | wc -w)] CPUs=2 RealMemory=100 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=8
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
END
    printf 'CgroupPlugin=cgroup/v1\n%s\n' "${SLURM_BOX_CGROUP:-}" >"$SLURM_BOX_FOLDER/cgroup.conf"
    mkdir -p "$SLURM_BOX_FOLDER/state"
    # slurmd asks for a cgroup file system even where it uses none; this view of mounts is the box's own
    [ -n "$(ls /sys/fs/cgroup)" ] || mount -t cgroup2 none /sys/fs/cgroup || missing 'no cgroup file system'
    munged --force --key-file="$SLURM_BOX_FOLDER/key" --socket="$SLURM_BOX_FOLDER/munge.socket" \
        --pid-file="$SLURM_BOX_FOLDER/munged.pid" --log-file="$SLURM_BOX_FOLDER/munged.log" \
        --seed-file="$SLURM_BOX_FOLDER/seed" || missing 'munged does not start'
    slurmctld -f "$SLURM_CONF" || missing 'slurmctld does not start'
    for host in $BOX_HOSTS; do
        start_slurmd "$host"
    done
    tries=0
    until timeout 10 sinfo --noheader --format='%t %D' 2>/dev/null | grep -qx "idle $(echo "$BOX_HOSTS" | wc -w)"; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || { tail -n 5 "$SLURM_BOX_FOLDER"/slurm*.log >&2; missing 'its hosts do not become idle in 30 s'; }
        sleep 0.5
    done
    exec "$@"
    ;;
esac

# ---- outside ----

options='' check=false
while [ $# -gt 0 ]; do
    case $1 in
    --hosts=* | --rate=* | --delay=*) options="$options $1" ;;
    --check) check=true ;;
    --help | -h)
        usage
        exit 0
        ;;
    --)
        shift
        break
        ;;
    -*) die "unknown option $1 (slurm.sh --help)" ;;
    *) break ;;
    esac
    shift
done
$check || [ $# -gt 0 ] || die 'no command to run (slurm.sh --help)'
! $check || set -- true

"$here/box.sh" --check >/dev/null || exit
PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd sbatch munged; do
    command -v "$tool" >/dev/null || missing "$tool is not installed (Debian: slurm-wlm, munge)"
done

folder=$(mktemp -d /tmp/poseidon-slurm.XXXXXX) || missing 'no folder in /tmp'
box=

# shellcheck disable=SC2317 # called by the trap
# The hosts' daemons end with the box; the controller and munged run outside of them.
clean() {
    trap '' INT TERM HUP
    if [ -n "$box" ] && kill -0 "$box" 2>/dev/null; then
        kill "$box"
        wait "$box"
    fi
    for daemon in slurmctld munged; do
        pid=$(cat "$folder/$daemon.pid" 2>/dev/null) || continue
        kill "$pid" 2>/dev/null
        tries=0
        while kill -0 "$pid" 2>/dev/null; do
            tries=$((tries + 1))
            [ "$tries" -lt 50 ] || kill -9 "$pid" 2>/dev/null
            sleep 0.1
        done
    done
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

chmod 755 "$folder"
(umask 077 && head -c 1024 /dev/urandom >"$folder/key")
# In the background, so that a signal to this shell is heard at once.
# shellcheck disable=SC2086
"$here/box.sh" $options -- "$here/slurm.sh" inside "$folder" "$@" &
box=$!
wait "$box"
status=$?
box=
! $check || [ "$status" -ne 0 ] || echo 'slurm.sh: Slurm runs here'
exit "$status"
