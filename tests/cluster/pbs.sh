#!/bin/sh
# A real OpenPBS over a cluster in a box (box.sh): each host runs a mom, this machine server and scheduler.
#
#     pbs.sh --prefix=/opt/pbs [--hosts=4] [--rate=1gbit] [--delay=50us] [--] COMMAND...
#     pbs.sh --prefix=/opt/pbs --check
#
# --prefix (or PBS_PREFIX) is where OpenPBS was installed: make install from github.com/openpbs/openpbs, for nothing else
# has it on Debian. COMMAND finds qsub, qstat, qrerun and so on ready to be used, by root, on hosts with one slot each.
# Its exit status is COMMAND's. What is missing: exit 77. Another PBS on this machine would have the same ports, so
# there may be none.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1

die() {
    echo "pbs.sh: $1" >&2
    exit "${2:-2}"
}

missing() { # exit 77: automake's "skipped"
    die "cannot run PBS here: $1" 77
}

configure() { # HOST NAME START-SERVER START-MOM
    cat >"$home/$1.conf" <<END
PBS_SERVER=$server
PBS_START_SERVER=$3
PBS_START_SCHED=$3
PBS_START_COMM=$3
PBS_START_MOM=$4
PBS_EXEC=$prefix
PBS_HOME=$home/$1
PBS_CORE_LIMIT=unlimited
PBS_LEAF_NAME=$2
PBS_MOM_NODE_NAME=$2
PBS_SCP=/bin/cp
END
}

if [ "${1:-}" = inside ]; then
    home=$2 prefix=$3 server=$(uname -n)
    shift 3
    version=$("$prefix/bin/qsub" --version 2>&1 | sed 's/.*= *//')
    unset OMPI_MCA_orte_default_hostfile
    configure server "$server" 1 0
    PBS_CONF_FILE=$home/server.conf PATH=$PATH:$prefix/bin:$prefix/sbin
    export PBS_CONF_FILE PATH
    "$prefix/libexec/pbs_postinstall" server "$version" "$prefix" "$home/server" >"$home/log" 2>&1
    tries=0 # its data base sometimes loses a race
    until "$prefix/libexec/pbs_init.d" start >>"$home/log" 2>&1 </dev/null && timeout 10 qstat -B >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 4 ] || { tail -n 5 "$home/log" >&2; missing 'its server does not start'; }
        sleep 3
    done
    {
        echo 'set server acl_roots = root@*'
        echo 'set server flatuid = true'
        echo 'set server job_history_enable = true'
        for host in $BOX_HOSTS; do
            echo "create node $host"
        done
    } | qmgr >>"$home/log" 2>&1
    for host in $BOX_HOSTS; do
        configure "$host" "$host" 0 1
        "$BOX_AGENT" "$host" env PBS_CONF_FILE="$home/$host.conf" "$prefix/libexec/pbs_postinstall" execution "$version" \
            "$prefix" "$home/$host" >>"$home/log" 2>&1
        # shellcheck disable=SC2016
        printf '$clienthost %s\n$usecp *:/ /\n' "$server" >"$home/$host/mom_priv/config"
        { echo "PATH=$PATH"; echo "PBS_CONF_FILE=$home/$host.conf"; env | grep '^OMPI_'; } >"$home/$host/pbs_environment"
        "$BOX_AGENT" "$host" env PBS_CONF_FILE="$home/$host.conf" "$prefix/sbin/pbs_mom" >>"$home/log" 2>&1
    done
    tries=0
    until [ "$(timeout 10 pbsnodes -a 2>/dev/null | grep -c 'state = free')" -eq "$(echo "$BOX_HOSTS" | wc -w)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 60 ] || { pbsnodes -a >&2; missing 'its hosts do not become free in 60 s'; }
        sleep 1
    done
    # Stopped while the links are there: later its server would wait for ever for its own data base.
    "$@"
    status=$?
    timeout -k 5 60 "$prefix/libexec/pbs_init.d" stop >>"$home/log" 2>&1 </dev/null
    exit "$status"
fi

options='' check=false prefix=${PBS_PREFIX:-/opt/pbs}
while [ $# -gt 0 ]; do
    case $1 in
    --hosts=* | --rate=* | --delay=*) options="$options $1" ;;
    --prefix=*) prefix=${1#*=} ;;
    --check) check=true ;;
    --help | -h)
        sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
        exit 0
        ;;
    --)
        shift
        break
        ;;
    -*) die "unknown option $1 (pbs.sh --help)" ;;
    *) break ;;
    esac
    shift
done
$check || [ $# -gt 0 ] || die 'no command to run (pbs.sh --help)'
! $check || set -- true

"$here/box.sh" --check >/dev/null || exit
[ -x "$prefix/sbin/pbs_mom" ] || missing "there is no OpenPBS in $prefix (--prefix=DIR)"
# PBS trusts no folder that anybody may write above its own
home=$(mktemp -d /var/spool/poseidon-pbs.XXXXXX) || missing 'no folder in /var/spool'
chmod 755 "$home"
box=

# shellcheck disable=SC2317 # called by the trap
clean() {
    trap '' INT TERM HUP
    # nothing is left to stop after an undisturbed end
    PBS_CONF_FILE=$home/server.conf timeout -k 5 60 "$prefix/libexec/pbs_init.d" stop >/dev/null 2>&1 </dev/null
    for lock in "$home"/server/server_priv/*.lock "$home"/server/sched_priv/*lock*; do
        [ -s "$lock" ] || continue
        # by now its number may be another's
        case $(cat "/proc/$(cat "$lock")/comm" 2>/dev/null) in pbs_*) kill "$(cat "$lock")" ;; esac
    done
    if [ -n "$box" ] && kill -0 "$box" 2>/dev/null; then
        kill "$box"
        wait "$box"
    fi
    rm -rf "$home"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# In the background, so that a signal to this shell is heard at once.
# shellcheck disable=SC2086
"$here/box.sh" $options -- "$here/pbs.sh" inside "$home" "$prefix" "$@" &
box=$!
wait "$box"
status=$?
box=
! $check || [ "$status" -ne 0 ] || echo 'pbs.sh: PBS runs here'
exit "$status"
