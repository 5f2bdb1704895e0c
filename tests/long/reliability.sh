#!/bin/sh
# Faults injected, survived and lost, as the table of tests/RELIABILITY.md on standard output. From a build folder after
# "make check":  abs_top_srcdir=.. sh ../tests/long/reliability.sh [KILLS] >../tests/RELIABILITY.md
set -eu
kills=${1:-200}
abs_top_srcdir=$(cd "${abs_top_srcdir:?}" && pwd)
POSEIDON=$PWD/poseidon POSEIDON_MPIRUN=$abs_top_srcdir/tests/mpirun.sh POSEIDON_KILLS=$kills
export abs_top_srcdir POSEIDON POSEIDON_MPIRUN POSEIDON_KILLS
calls=$(CK_VERBOSITY=minimal tests/snapshot/test_faults)
killed=$(sh "$abs_top_srcdir/tests/mpi/test_kills.sh")
cat <<END
# Reliability

Faults injected into a training and its snapshots, by \`tests/long/reliability.sh $kills\` on $(date +%Y-%m-%d); $(uname -sm),
$(getconf _NPROCESSORS_ONLN) cores, $(${MPIRUN:-mpirun} --version | head -n 1), poseidon $("$POSEIDON" --version | cut -d' ' -f2).

| fault | injected | survived | lost |
|---|---|---|---|
END
echo "$calls" | sed -n 's/^\([a-z]*\), \(.*\): \([0-9]*\) faults, \([0-9]*\) snapshots not written$/\1 \2 \3 \4/p' |
    awk '{ printf "| %s fails once while a snapshot is written (%s) | %d | %d, %d of them by the next try | 0 |\n", $1, $2, $3, $3, $4 }'
echo "$killed" | sed -n 's/^\([0-9]*\) kills, \([0-9]*\) restarts, \([0-9]*\) runs, lost: \([0-9]*\)$/| SIGKILL to a rank, mpirun or all of 4 ranks, then the same command (\3 runs) | \1 | \1 | \4 |/p'
cat <<END

Survived: the snapshots before stay whole and the next one is good; a run that was killed ends with the parameters of the run that
nobody disturbed, bit for bit. A suite that fails ends this script before it prints a table.
END
