#!/bin/sh
# A clock that jumps an hour, ahead or back, in the middle of a run: nobody is silent, no time limit is over, and the
# parameters are those of the run whose clock goes on. tests/mpi/jumping_clock.c is the clock; the run's own first
# snapshot makes it jump.
. "$abs_top_srcdir/tests/mpi/common.sh"
jumping=$abs_top_builddir/tests/mpi/jumping_poseidon
make_solver solver.prototxt 'max_iter: 80' 'snapshot: 20' "snapshot_prefix: \"$work/run\"" 'display: 10'
POSEIDON=$jumping
# a run of some seconds, most of which are waited for its messages
options='--solver=solver.prototxt --batch=8 --threads=1 --comm=ps --tune=bandwidth-mbps=500 --snapshot-every=10min --stall-timeout=20s'
# shellcheck disable=SC2086
train 3 even.log $options --summary=even.json || { fail 'the run whose clock goes on'; tail -n 3 even.log; }
hash=$(hash_of even.json)
for jump in 3600 -3600; do
    for ranks in all one; do
        rm -f run_iter_* run.run
        # shellcheck disable=SC2016,SC2086 # every rank expands it
        POSEIDON_JUMP_FILE="$work/run_iter_20.solverstate.h5" POSEIDON_JUMP=$jump \
            "$POSEIDON_MPIRUN" 3 sh -c '[ '$ranks' = all ] || [ $OMPI_COMM_WORLD_RANK = 1 ] || unset POSEIDON_JUMP; exec "$0" "$@"' \
            "$jumping" train $options --force --time-limit=40min --summary=jump.json >jump.log 2>&1 </dev/null ||
            { fail "$jump on $ranks: exit status $?"; tail -n 3 jump.log; }
        [ "$(hash_of jump.json)" = "$hash" ] || fail "$jump on $ranks: the parameters differ"
        grep -e silent -e 'has waited' -e 'stopping after' jump.log && fail "$jump on $ranks: somebody is accused, or stopped"
        hours=$(sed -n 's/^[IWE][0-9]* \([0-9][0-9]\):.*/\1/p' jump.log | sort -u | wc -l)
        [ $ranks = one ] || [ "$hours" -ge 2 ] || fail "$jump on $ranks: the clock did not jump within the run"
        [ $failures -gt 0 ] || echo "counted: the clock jumps by $jump s on $ranks of the ranks in the middle of a run | 1 | 1 | 0"
    done
done
finish
