#!/bin/sh
# --keep-best: the snapshot of the best test stays besides the newest ones, also where none was due then, and after a
# restart, and as PREFIX_best; former ones do not pile up. The judge is the log: the least loss, or the highest accuracy,
# that a test has shown.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 16' 'snapshot: 5' 'test_interval: 2' 'test_iter: 2' "snapshot_prefix: \"$work/run\"" \
    'base_lr: 0.05'

best_of_log() { # OUTPUT SIGN LOG...
    output=$1 sign=$2
    shift 2
    cat "$@" | awk -v output="$output" -v sign="$sign" '
        /Testing net/ { for (i = 1; i < NF; i++) if ($i == "Iteration") at = $(i + 1) + 0 }
        /Test net output/ && at > 0 { for (i = 1; i < NF; i++) if ($i == output && $(i + 1) == "=" && (!n++ || sign * $(i + 2) > sign * best)) { best = $(i + 2); where = at } }
        END { print where }'
}

states() {
    ls run_iter_*.solverstate.h5 | sed 's/run_iter_\([0-9]*\).*/\1/' | sort -n | tr '\n' ' '
}

check() { # OUTPUT SIGN LOG...
    expected=$(best_of_log "$@")
    [ "$(json_value run.json best_iteration)" = "$expected" ] || fail "$1: the best is $(json_value run.json best_iteration), of the log $expected"
    [ "$(sed -n 's/^best	//p' run.run)" = "$expected" ] || fail "$1: PREFIX.run says $(grep '^best' run.run)"
    wanted=$(printf '%s\n' "$expected" 16 | sort -nu | tr '\n' ' ')
    [ "$(states)" = "$wanted" ] || fail "$1: snapshots of $(states)are there, expected $wanted"
    for kind in caffemodel solverstate; do
        cmp run_best.$kind.h5 "run_iter_$expected.$kind.h5" || fail "$1: run_best.$kind.h5 is not iteration $expected"
    done
    [ ! -f run_best.caffemodel.h5.tmp ] && [ ! -f run_best.solverstate.h5.tmp ] || fail "$1: $(ls run_best*) are there"
}

for output in accuracy loss; do
    sign=1
    [ $output != loss ] || sign=-1
    rm -f run_iter_* run.run
    train 2 run.log --solver=solver.prototxt --batch=8 --threads=1 --keep=1 --keep-best=$output --summary=run.json || { fail "$output"; tail -n 3 run.log; }
    check $output $sign run.log
    grep -q "The best $output so far: " run.log || fail "$output: it is not said"
    # what the end says is what the summary has
    grep -q 'Trained iterations 0 to 16 in [0-9.e-]* s: [0-9.]* images/s, 0\.02133 epochs of 12000 records$' run.log &&
        grep -q "Loss of the last iteration [0-9.]*, best test $output [0-9.]* at iteration $expected, kept as $work/run_best\.caffemodel\.h5\$" run.log &&
        grep -q "Parameters' SHA-256 $(json_value run.json parameters_sha256)\$" run.log ||
        { fail "$output: the end"; grep 'result.c' run.log; }
    # the same in two parts
    rm -f run_iter_* run.run
    whole=$expected
    train 2 one.log --solver=solver.prototxt --batch=8 --threads=1 --keep=1 --keep-best=$output --max-iter=9 &&
        train 2 two.log --solver=solver.prototxt --batch=8 --threads=1 --keep=1 --keep-best=$output --resume --summary=run.json ||
        { fail "$output, in two parts"; tail -n 3 one.log two.log; }
    check $output $sign one.log two.log
    [ "$expected" = "$whole" ] || fail "$output: in two parts the best is $expected, else $whole"
done

# without --keep-best the summary knows the best accuracy as well, and nothing of it is kept
rm -f run_iter_* run_best* run.run
train 2 run.log --solver=solver.prototxt --batch=8 --threads=1 --summary=run.json --set display=4 || { fail "no --keep-best"; tail -n 3 run.log; }
expected=$(best_of_log accuracy 1 run.log)
[ "$(json_value run.json best_iteration)" = "$expected" ] && grep -q '"best_output": *"accuracy"' run.json || fail "no --keep-best: $(grep best run.json)"
grep -q ' images/s (median of displays [0-9.]*, [0-9.]* to [0-9.]*), 0\.02133 epochs' run.log || fail "displays: $(grep 'Trained' run.log)"
grep -q 'kept as' run.log && fail "no --keep-best: $(grep 'kept as' run.log)"
case $(json_value run.json epochs) in 0.02133*) ;; *) fail "epochs are $(json_value run.json epochs)" ;; esac
[ "$(states)" = '5 10 15 16 ' ] && ! ls run_best* 2>/dev/null || fail "no --keep-best: $(ls run*)"
! grep -q 'The best' run.log && grep -q "best test accuracy [0-9.]* at iteration $expected\$" run.log || fail "no --keep-best: $(grep -i best run.log)"

# without --keep and a value: by the accuracy, and the only files that are there besides those that were due are the best's
rm -f run_iter_* run_best* run.run
train 2 run.log --solver=solver.prototxt --batch=8 --threads=1 --keep-best --summary=run.json || { fail "no value"; tail -n 3 run.log; }
expected=$(best_of_log accuracy 1 run.log)
[ "$(states)" = "$(printf '%s\n' 5 10 15 16 "$expected" | sort -nu | tr '\n' ' ')" ] || fail "no value: $(states)are there, the best is $expected"
[ "$(sed -n 's/^best_of	//p' run.run)" = accuracy ] || fail "no value: $(grep '^best' run.run)"
cmp run_best.caffemodel.h5 "run_iter_$expected.caffemodel.h5" || fail "no value: run_best is not iteration $expected"
# the name is no snapshot of its own to --resume, and one to --snapshot
train 2 two.log --solver=solver.prototxt --batch=8 --threads=1 --keep-best accuracy --resume --max-iter=18 || { fail "--resume"; tail -n 3 two.log; }
grep -q 'Resuming from .*run_iter_16.solverstate.h5' two.log && ! grep -q 'Ignoring.*snapshot' two.log || fail "--resume: $(grep -e Resuming -e Ignoring two.log)"
train 2 two.log --solver=solver.prototxt --batch=8 --threads=1 --snapshot=run_best.solverstate.h5 --set snapshot_prefix=\"other\" ||
    { fail "--snapshot"; tail -n 3 two.log; }

refuse() { # TEXT OPTION...
    text=$1
    shift
    train 2 run.log --solver=solver.prototxt --batch=8 --threads=1 --run=other "$@" && fail "$* is accepted"
    grep -q -e "$text" run.log || { fail "$*: '$text' is not said"; tail -n 2 run.log; }
}
refuse "keep-best=accurate: the test net has no such output of one number; it has accuracy, loss" --keep-best=accurate
refuse "keep-best is decided by the workers' test scores: not with --servers" --keep-best=loss --servers=1
refuse 'keep-best=loss needs a test net, test_interval and snapshots' --keep-best=loss --set snapshot=0 --set snapshot_after_train=false
finish
