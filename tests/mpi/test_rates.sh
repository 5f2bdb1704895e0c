#!/bin/sh
# Learning rates that follow the loss (plateau), and runs that end when tests find no gain: the same on any number of
# ranks, and a run that stopped goes on as one that did not.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_small_net net.prototxt
python=${POSEIDON_PYTHON:-python3}

rates() { # LOG...: the lines of rates, in order
    cat "$@" | sed -n 's/.*\(Iteration [0-9]*, lr = .*\)/\1/p'
}

# Small batches: minima are rare.
plateau_solver() { # FILE LINE...
    file=$1
    shift
    make_solver "$file" 'lr_policy: "plateau"' 'gamma: 0.5' 'base_lr: 0.02' 'plateau_winsize: [3, 5, 2]' \
        'max_iter: 40' 'display: 1' "snapshot_prefix: \"$work/${file%.*}\"" "$@"
}

plateau_solver each.prototxt
plateau_solver smooth.prototxt 'average_loss: 4'
for solver in each smooth; do
    window=1
    [ $solver = smooth ] && window=4
    for ranks in 1 2 3; do
        train $ranks $solver-$ranks.log --solver=$solver.prototxt --global-batch=24 --summary=$solver-$ranks.json ||
            { fail "$solver on $ranks ranks"; tail $solver-$ranks.log; continue; }
        "$python" "$abs_top_srcdir/tests/mpi/check_rates.py" $solver-$ranks.log 0.02 0.5 $window 3 5 2 ||
            fail "$solver on $ranks ranks: rates"
        grep -q 'Plateau Status: Iteration .*step = 1' $solver-$ranks.log || fail "$solver on $ranks ranks: no word"
    done
done

# Caffe's words for a step of multistep, on one rank of two and in a run that goes on
make_solver steps.prototxt 'lr_policy: "multistep"' 'gamma: 0.5' 'stepvalue: [2, 2, 5]' 'max_iter: 7' 'snapshot: 3' \
    "snapshot_prefix: \"$work/steps\""
printf 'Iteration %s\n' '2, step = 1' '3, step = 2' '5, step = 3' >expected
steps() { # LOG: what is said of steps
    sed -n 's/.*MultiStep Status: //p' "$1"
}
train 2 steps.log --solver=steps.prototxt --global-batch=16 && train 2 half.log --solver=steps.prototxt --global-batch=16 \
    --snapshot="$work/steps_iter_3.solverstate.h5" || { fail 'multistep'; tail steps.log half.log; }
steps steps.log | diff expected - || fail 'multistep: words'
sed 1d expected >rest
steps half.log | diff rest - || fail 'multistep, resumed: words'

# a snapshot within a window of losses, and one of Caffe's binary form
for form in HDF5 BINARYPROTO; do
    suffix=.h5
    [ $form = HDF5 ] || suffix=
    plateau_solver whole.prototxt 'average_loss: 4' 'snapshot: 14' "snapshot_format: $form"
    for ranks in 1 2; do
        train $ranks whole.log --solver=whole.prototxt --global-batch=24 --summary=a.json &&
            train $ranks half.log --solver=whole.prototxt --global-batch=24 --summary=b.json \
                --snapshot="$work/whole_iter_14.solverstate$suffix" ||
            { fail "$form, $ranks ranks"; tail whole.log half.log; continue; }
        rates whole.log | sed -n '15,$p' >expected
        rates half.log | cmp - expected || { fail "$form, $ranks ranks: resumed rates"; rates half.log | diff - expected; }
        [ "$(hash_of a.json)" = "$(hash_of b.json)" ] ||
            fail "$form, $ranks ranks: resumed, the parameters differ"
    done
done

# What the log calls a loss: its last line "Iteration N, loss" is Caffe's, smoothed with the loss of one more pass; the
# line behind it, and the summary, have the mean of the last iterations. Of single losses both are found by awk.
for options in 1 2 '2 --reproducible'; do
    for window in 1 3; do
        make_solver window.prototxt "average_loss: $window" 'max_iter: 6' 'display: 1' "snapshot_prefix: \"$work/window\""
        # shellcheck disable=SC2086 # two words
        train ${options%% *} window$window.log --solver=window.prototxt --global-batch=16 --summary=window$window.json ${options#[12]} ||
            { fail "average_loss: $window, $options"; tail window$window.log; }
    done
    all_losses window1.log | awk '{ loss[$1] = $2 } END { for (i = 2; i < 7; i++) print i, (loss[i - 2] + loss[i - 1] + loss[i]) / 3 }' >expected
    all_losses window3.log | awk '$1 >= 2' >found
    close_losses found expected || { fail "$options: smoothed losses"; paste found expected; }
    said=$(sed -n 's/.*Mean loss of the last 3 iterations \([0-9.]*\).*/5 \1/p' window3.log)
    for last in "$said" "5 $(json_value window3.json train_loss)"; do
        awk '$1 == 5' expected | awk -v last="$last" '{ split(last, a, " "); exit !(a[1] == $1 && (a[2] - $2) ^ 2 < 1e-8) }' ||
            fail "$options: the mean of the last iterations is '$last', expected $(awk '$1 == 5' expected)"
    done
    same "$options: iterations of the mean" 3 "$(json_value window3.json train_loss_iterations)"
    grep -q "Loss of the last iteration $(all_losses window1.log | sed -n 's/^5 //p')" window1.log || fail "$options: the last loss"
done

# However many iterations are to come, their rates take no memory before the first one.
peak() { # MAX_ITER: kB that a run needs to its fifth iteration
    make_solver long.prototxt 'lr_policy: "multistep"' 'stepvalue: [2, 1000000]' 'snapshot_after_train: false' 'display: 5' \
        "max_iter: $1" "snapshot_prefix: \"$work/long\""
    begin 1 long.log --solver=long.prototxt
    await 'Iteration 5, lr = 1e-06' && sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(cat pid.0)/status"
    kill -TERM "$(cat pid.0)"
    wait "$launcher"
}
few=$(peak 1000000) many=$(peak 1000000000)
[ "$((many))" -gt 0 ] && [ "$((many))" -lt $((few + 50000)) ] ||
    fail "a run of 1,000,000,000 iterations needs $many kB before its sixth, one of 1,000,000 $few kB"

# what cannot follow the loss in time says so
for option in '--tune=staleness' --servers; do
    # shellcheck disable=SC2086 # two words
    train 2 refused.log --solver=each.prototxt --batch=8 $option=1 && fail "plateau with $option trained"
    grep -q 'lr_policy "plateau" needs the loss of all workers.* cannot be combined with '"$option" refused.log ||
        { fail "plateau with $option"; tail refused.log; }
done

# Early stop: with a rate of 0 no test, each of all 2,000 images, finds a gain over the first.
make_solver still.prototxt 'base_lr: 0' 'lr_policy: "fixed"' 'max_iter: 50' 'test_iter: 20' 'test_interval: 4' \
    'display: 4' "snapshot_prefix: \"$work/still\""
for options in '1 --comm=ps' '2 --comm=ps' '3 --servers=1' '2 --comm=sfb'; do
    train "${options% *}" still.log --solver=still.prototxt --batch=8 --stop-after=3 --summary=still.json \
        "${options#* }" || { fail "early stop, $options ranks: not status 0"; tail still.log; }
    grep -q '3 tests in a row found no better accuracy than .* of iteration 0: --stop-after=3 ends training' still.log ||
        { fail "early stop, $options: no word"; tail still.log; }
    [ "$(json_value still.json iterations)" = 12 ] && [ "$(json_value still.json stopped_early)" = true ] ||
        { fail "early stop, $options"; cat still.json; }
    [ -e still_iter_12.solverstate.h5 ] || { fail "early stop, $options: no snapshot"; ls; }
    rm -f still_iter_*
done
# what came before a snapshot counts
train 1 first.log --solver=still.prototxt --batch=8 --stop-after=3 --max-iter=7 &&
    train 1 second.log --solver=still.prototxt --batch=8 --stop-after=3 --summary=still.json \
        --snapshot="$work/still_iter_7.solverstate.h5" || { fail 'early stop, resumed'; tail second.log; }
grep -q '3 tests in a row .* of iteration 0: ' second.log || { fail 'early stop, resumed: the count'; tail second.log; }
make_solver untested.prototxt 'max_iter: 1'
train 1 untested.log --solver=untested.prototxt --batch=8 --stop-after=3 && fail '--stop-after without tests trained'
grep -q -- '--stop-after=3 counts tests, and untested.prototxt asks for none' untested.log || { fail 'no tests'; cat untested.log; }
finish
