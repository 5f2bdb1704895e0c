#!/bin/sh
# Faults injected, survived and lost, as the table of tests/RELIABILITY.md on standard output. From a build folder after
# "make check" (ten minutes, most of them waiting; more with more kills; the links want root):
#
#     abs_top_srcdir=.. sh ../tests/long/reliability.sh [KILLS [FOLDER]] >../tests/RELIABILITY.md
#
# LINKS=no leaves the links out. What faults, clock, kills and links said before is taken from FOLDER/faults.out and so on, where that is there.
set -eu
kills=${1:-200} folder=${2:-}
abs_top_srcdir=$(cd "${abs_top_srcdir:?}" && pwd)
POSEIDON=$PWD/poseidon POSEIDON_MPIRUN=$abs_top_srcdir/tests/mpirun.sh POSEIDON_KILLS=$kills abs_top_builddir=$PWD
export abs_top_srcdir abs_top_builddir POSEIDON POSEIDON_MPIRUN POSEIDON_KILLS
# part NAME COMMAND...: what it said, or what it said before where FOLDER/NAME.out has that
part() {
    name=$1
    shift
    if [ -s "${folder:-/nowhere}/$name.out" ]; then cat "$folder/$name.out"; else "$@"; fi
}
calls=$(CK_VERBOSITY=minimal part faults tests/snapshot/test_faults)
clock=$(part clock sh "$abs_top_srcdir/tests/mpi/test_clock.sh")
killed=$(part kills sh "$abs_top_srcdir/tests/mpi/test_kills.sh" 2>/dev/null)
links=
[ "${LINKS:-yes}" = no ] || links=$(part links sh "$abs_top_srcdir/tests/cluster/test_links.sh")
for said in "$calls" "$clock" "$killed" "$links"; do
    ! echo "$said" | grep 'FAIL' >&2 || exit 1
done
cat <<END
# Reliability

Faults injected into a training and its snapshots, counted by \`tests/long/reliability.sh\` on $(date +%Y-%m-%d); $(uname -sm),
$(getconf _NPROCESSORS_ONLN) cores, $(${MPIRUN:-mpirun} --version | head -n 1), poseidon $("$POSEIDON" --version | sed -n '1s/poseidon //p; s/^sources  */sources /p' | tr '\n' ' ' | sed 's/ $//; s/ sources/, sources/').

| fault | injected | survived | lost | shown by |
|---|---|---|---|---|
END
echo "$calls" | sed -n 's/^\([a-z]*\), \(.*\): \([0-9]*\) faults, \([0-9]*\) snapshots not written$/\1 \2 \3 \4/p' |
    awk '{ printf "| %s fails once while a snapshot is written (%s): ENOSPC, EIO, EINTR, ESTALE%s | %d | %d, %d of them by the next try | 0 | `tests/snapshot/test_faults` |\n", $1, $2, $1 == "write" ? ", a short write" : "", $3, $3, $4 }'
echo "$killed" | sed -n 's/^\([0-9]*\) kills, \([0-9]*\) restarts, \([0-9]*\) runs, lost: \([0-9]*\)$/| SIGKILL to a rank, mpirun or all of 4 ranks, then the same command (\3 runs) | \1 | \1 | \4 | `POSEIDON_KILLS=\1 tests\/mpi\/test_kills.sh` |/p'
echo "$clock" | grep -q FAIL || echo "| the clock jumps an hour, ahead or back, on one rank or on all, in the middle of a run | 4 | 4 | 0 | \`tests/mpi/test_clock.sh\` |"
for case in cut_1 cut_10 cut_60 cut_200 stop_75; do
    echo "$links" | sed -n "s/^$case: training goes on \([0-9]*\) s after the end of the fault\$/\1/p" | while read -r seconds; do
        case $case in
        cut_*) what="a host's link is cut for ${case#cut_} s" ;;
        *) what="SIGSTOP to a rank for ${case#stop_} s" ;;
        esac
        echo "| $what (training went on $seconds s after it) | 1 | 1 | 0 | \`tests/cluster/test_links.sh $case\` |"
    done
done
for case in cut_for_ever stop_for_ever; do
    echo "$links" | sed -n "s/^$case: ended \([0-9]*\) s after the fault: lost: rank 1 on n2 .*\$/\1/p" | while read -r seconds; do
        case $case in
        cut_*) what="a host's link is cut for ever" ;;
        *) what='SIGSTOP to a rank for ever' ;;
        esac
        echo "| $what, \`--stall-timeout=30s\`: named, and the ranks end after $seconds s | 1 | the snapshots before | the work since | \`tests/cluster/test_links.sh $case\` |"
    done
done
! echo "$links" | grep -q '^half_speed: 0 failures' ||
    echo "| one host at half speed: named with its rank by the advice | 1 | 1 | 0 | \`tests/cluster/test_links.sh half_speed\` |"
cat <<END

Survived: the snapshots before stay whole and the next one is good; a run that was killed ends with the parameters of the run that
nobody disturbed, bit for bit; a run that is held up goes on, and the right rank and host are named where that takes a minute or
more (links and hosts: \`tests/cluster/test_links.sh\`). A suite that fails ends this script before it prints a table. Schedulers (a node that dies, preemption, time limits, under
Slurm and OpenPBS) are in \`make check-faults\`: tests/cluster/test_slurm.sh, test_pbs.sh, test_keep_running.sh.
END
