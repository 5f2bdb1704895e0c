#!/bin/sh
# SIGKILL to a rank, to mpirun or to all of a 4-rank run at random moments, and the same command again, until it is
# done: the final parameters are those of the run that nobody disturbed, every time; also where gradients are rounded, and
# what they lost is in the snapshots, and ranks have unlike shares of the batch.
#
#   POSEIDON_KILLS   kills of each form of gradients (6)
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver killed.prototxt 'max_iter: 60' 'snapshot: 4' "snapshot_prefix: \"$work/killed\"" 'display: 20'

random() { # BELOW: of the seed and of how often it was asked
    asked=$((asked + 1))
    awk -v seed="$seed" -v n="$asked" -v below="$1" 'BEGIN { srand(seed * 1000 + n); print rand() * below }'
}

seed=${POSEIDON_SEED:-$$} asked=0 n=0 runs=0 survived=0 kills=0
echo "seed $seed"
for how in --tune=wire=fp32 '--tune=wire=bf16 --balance=5,1,2,8'; do
    options="--solver=killed.prototxt --batch=4 --threads=1 --comm=paper $how"
    rm -f killed_iter_* killed.run
    # shellcheck disable=SC2086
    train 4 unharmed.log $options --summary=unharmed.json || { fail 'the run that nobody disturbs'; tail -n 3 unharmed.log; }
    hash=$(hash_of unharmed.json)
    rm -f killed_iter_* killed.run
    kills=$((kills + ${POSEIDON_KILLS:-6}))
    while [ $n -lt "$kills" ] && [ $failures -eq 0 ]; do
        runs=$((runs + 1)) starts=0 finished=
        while [ -z "$finished" ] && [ $starts -lt 60 ]; do
            starts=$((starts + 1))
            # shellcheck disable=SC2086
            begin 4 killed.log $options --run=job$runs --resume --summary=run$runs.json
            if [ $n -lt "$kills" ]; then
                # once it has begun, a random moment
                until grep -q 'Solving' killed.log || ! kill -0 $launcher 2>/dev/null; do sleep 0.02; done
                sleep "$(random 0.8)"
                case $(random 6) in
                [0-3].*) victim=$(cat pid."$(random 4 | cut -c 1)") ;;
                4.*) victim=$(pgrep -P $launcher) ;;
                *) victim=$(cat pid.0 pid.1 pid.2 pid.3) ;;
                esac
                # shellcheck disable=SC2086
                kill -9 $victim 2>/dev/null && n=$((n + 1))
            fi
            wait $launcher
            status=$?
            # ranks whose launcher died end by themselves
            tries=0
            while kill -0 "$(cat pid.0)" 2>/dev/null && [ $tries -lt 2400 ]; do
                tries=$((tries + 1))
                sleep 0.05
            done
            # a launcher that is killed after the end of its ranks leaves nothing to do
            [ $status -eq 0 ] && grep -qE 'Optimization Done|Nothing is left to do' killed.log && finished=1
            if grep -q 'poseidon train: ' killed.log && ! grep -q 'another rank failed' killed.log; then
                case $(grep 'poseidon train: ' killed.log | head -n 1) in
                *'started 3 times'*) ;; # three kills before the first snapshot: no fault of the run
                *) fail "run $runs, start $starts: $(grep 'poseidon train: ' killed.log | head -n 1)" && break ;;
                esac
                rm -f killed_iter_* killed.run
            fi
        done
        [ -n "$finished" ] || { fail "run $runs: not done after $starts starts, seed $seed"; tail -n 4 killed.log; break; }
        [ "$(hash_of run$runs.json)" = "$hash" ] ||
            fail "run $runs, seed $seed: killed $((starts - 1)) times, its parameters differ"
        survived=$((survived + starts - 1))
        # the next run finds this one's snapshots beside its own
    done
done
echo "$n kills, $survived restarts, $runs runs, lost: $failures"
finish
