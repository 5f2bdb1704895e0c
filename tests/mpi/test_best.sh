#!/bin/sh
# --keep-best: the snapshot of the best test stays besides the newest ones, also where none was due then, and after a
# restart. The judge is the log: the least loss, or the highest accuracy, that a test has shown.
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
    [ -f "run_iter_$expected.caffemodel.h5" ] || fail "$1: the best model is gone"
}

for output in accuracy loss; do
    sign=1
    [ $output != loss ] || sign=-1
    rm -f run_iter_* run.run
    train 2 run.log --solver=solver.prototxt --batch=8 --threads=1 --keep=1 --keep-best=$output --summary=run.json || { fail "$output"; tail -n 3 run.log; }
    check $output $sign run.log
    grep -q "The best $output so far: " run.log || fail "$output: it is not said"
    # the same in two parts
    rm -f run_iter_* run.run
    whole=$expected
    train 2 one.log --solver=solver.prototxt --batch=8 --threads=1 --keep=1 --keep-best=$output --max-iter=9 &&
        train 2 two.log --solver=solver.prototxt --batch=8 --threads=1 --keep=1 --keep-best=$output --resume --summary=run.json ||
        { fail "$output, in two parts"; tail -n 3 one.log two.log; }
    check $output $sign one.log two.log
    [ "$expected" = "$whole" ] || fail "$output: in two parts the best is $expected, else $whole"
done

refuse() { # TEXT OPTION...
    text=$1
    shift
    train 2 run.log --solver=solver.prototxt --batch=8 --threads=1 --run=other "$@" && fail "$* is accepted"
    grep -q -e "$text" run.log || { fail "$*: '$text' is not said"; tail -n 2 run.log; }
}
refuse "keep-best=accurate: the test net has no such output of one number; it has accuracy, loss" --keep-best=accurate
refuse "keep-best is decided by the workers' test scores: not with --servers=1" --keep-best=loss --servers=1
refuse 'keep-best=loss needs a test net, test_interval and snapshots' --keep-best=loss --set snapshot=0 --set snapshot_after_train=false
finish
