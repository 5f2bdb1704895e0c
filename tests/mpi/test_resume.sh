#!/bin/sh
# A run that stopped and went on is the run that never stopped, bit for bit, also after SIGKILL at a
# random moment of a snapshot; weights start a new run by layer name.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_small_net net.prototxt
make_solver whole.prototxt 'max_iter: 24' 'snapshot: 12' "snapshot_prefix: \"$work/whole\"" \
    'display: 10' 'average_loss: 3'

# went_on NAME RANKS OPTION...: from the snapshot in the middle to the end.
went_on() {
    name=$1 ranks=$2
    shift 2
    train "$ranks" "$name.log" --solver=whole.prototxt --batch=32 --summary="$name-a.json" "$@" &&
        train "$ranks" "$name.log" --solver=whole.prototxt --batch=32 --summary="$name-b.json" "$@" \
            --snapshot="$work/whole_iter_12.solverstate.h5" || { fail "$name"; tail "$name.log"; return; }
    [ "$(hash_of "$name-a.json")" = "$(hash_of "$name-b.json")" ] ||
        fail "$name: resumed at 12, the parameters after 24 iterations differ"
}

# a max_iter of 0, as in Caffe: no iteration, but what stands behind the last one, all at iteration 0; without any: refused
make_solver none.prototxt 'test_iter: 2' 'test_interval: 5'
for option in --dry-run --summary=none.json; do
    train 2 none.log --solver=none.prototxt $option && fail "max_iter unset, $option: status 0"
    grep -q '^poseidon train: none.prototxt: the solver has no max_iter; add it, or give --max-iter=N or --epochs=N' none.log ||
        { fail "max_iter unset, $option"; tail none.log; }
done
make_solver none.prototxt 'max_iter: 0' 'test_interval: 5' 'test_iter: 2' 'display: 5' 'lr_policy: "poly"'
for ranks in 1 2; do
    log=none-$ranks.log
    train $ranks $log --solver=none.prototxt --batch=32 --summary=none.json || { fail "max_iter 0"; tail $log; }
    for line in 'Iteration 0, Testing net' 'Test net output' 'Iteration 0, loss = ' 'Optimization Done' \
        'none.prototxt: max_iter is 0: no iteration is run'; do
        grep -q "$line" $log || { fail "max_iter 0, $ranks ranks: expected '$line'"; cat $log; }
    done
    [ "$(json_value none.json iterations)" = 0 ] && [ "$(json_value none.json train_loss)" = null ] ||
        fail "max_iter 0: $(cat none.json)"
    mv none_iter_0.solverstate.h5 none-$ranks.solverstate.h5 || fail "max_iter 0: no snapshot"
    hash_of none.json >none-$ranks.hash
done
cmp none-1.hash none-2.hash || fail 'max_iter 0: one rank and two have other parameters'
train 1 elsewhere.log --solver=none.prototxt --batch=32 --snapshot-prefix="$work/else where" || fail '--snapshot-prefix'
[ -e "$work/else where_iter_0.solverstate.h5" ] || fail "--snapshot-prefix: $(ls)"
# that snapshot is where a run from scratch begins
make_solver few.prototxt 'max_iter: 3' 'snapshot_after_train: false'
train 2 few.log --solver=few.prototxt --batch=32 --summary=few-a.json &&
    train 2 few.log --solver=few.prototxt --batch=32 --summary=few-b.json --snapshot=none-2.solverstate.h5 ||
    { fail 'from iteration 0'; tail few.log; }
[ "$(hash_of few-a.json)" = "$(hash_of few-b.json)" ] || fail 'resumed at 0, the parameters after 3 iterations differ'
rm none_iter_0.caffemodel.h5
make_solver none.prototxt 'max_iter: 0' 'snapshot_after_train: false' 'test_interval: 5' 'test_iter: 2'
train 1 none.log --solver=none.prototxt --batch=32 || { fail 'max_iter 0'; tail none.log; }
if ls none_iter_* 2>/dev/null; then fail 'max_iter 0: a snapshot in spite of snapshot_after_train: false'; fi
make_solver none.prototxt 'max_iter: -4'
train 1 none.log --solver=none.prototxt --batch=32 && fail 'max_iter -4: trained as if nothing were wrong'
grep -q 'none.prototxt: max_iter must be at least 0, found -4' none.log || { fail 'max_iter -4'; tail none.log; }

went_on ps 2 --comm=ps
# Weights: layers by name; the first loss is that of the trained net.
train 2 tuned.log --solver=whole.prototxt --batch=32 --max-iter=1 \
    --weights="$work/whole_iter_24.caffemodel.h5" || { fail "--weights"; tail tuned.log; }
sed -n 's/.*Iteration 0 .*loss = //p' tuned.log | awk '{ exit !($1 < 1.5) }' ||
    fail "started from weights, the loss is that of a new net: $(grep 'Iteration 0' tuned.log)"

went_on sfb 3 --comm=sfb
went_on nodes 3 --comm=paper --hierarchy=2
went_on nodes-and-server 4 --comm=ps --hierarchy=2 --servers=1
went_on dedicated 4 --comm=paper --servers=2
echo 'iter_size: 2' >>whole.prototxt
echo 'clip_gradients: 1' >>whole.prototxt
went_on clipped 2 --comm=paper
sed -i 's/^momentum: .*/type: "Adam"/; /^momentum/d' whole.prototxt
went_on adam 2 --comm=paper
sed -i "s/Adam/AdamW/" whole.prototxt
went_on adamw 2 --comm=ps

# BatchNorm's running sums are every worker's own between snapshots, and averaged in them.
at=$(($(grep -n '"conv2"' net.prototxt | head -n 1 | cut -d: -f1) - 2))
{
    head -n $at net.prototxt
    echo 'layer { name: "bn1" type: "BatchNorm" bottom: "pool1" top: "pool1" }'
    tail -n +$((at + 1)) net.prototxt
} >normed && mv normed net.prototxt
went_on batch-norm 3 --comm=paper
went_on batch-norm-in-nodes 3 --comm=paper --hierarchy=2
make_small_net net.prototxt

# The state says where the data stood, whatever the number of ranks.
train 2 again.log --solver=whole.prototxt --batch=32 || fail 'the run to be resumed'
train 4 more.log --solver=whole.prototxt --batch=16 --summary=more.json \
    --snapshot="$work/whole_iter_12.solverstate.h5" || { fail "another number of ranks"; tail more.log; }

# SIGKILL, again and again, in a run that does little but write snapshots, and has no end before the last kill.
kills=${POSEIDON_KILLS:-8}
make_solver killed.prototxt 'max_iter: 1000000' 'snapshot: 1' "snapshot_prefix: \"$work/killed\"" 'display: 20'
newest() { # by number: the clock may not tell two snapshots apart; 0: there is none
    ls killed_iter_*.solverstate.h5 2>/dev/null | sed 's/.*_iter_\([0-9]*\)\..*/\1/' | sort -n | tail -n 1 | grep . || echo 0
}
last=0 resume='' mid=0 n=0
while [ $n -lt "$kills" ]; do
    n=$((n + 1))
    # shellcheck disable=SC2086 # none, or one word
    begin 2 killed.log --solver=killed.prototxt $resume
    # once this run has written a snapshot more, a random moment
    until [ "$(newest)" -gt "$last" ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.02; done
    sleep "$(awk -v seed="$n$$" 'BEGIN { srand(seed); printf "%.3f", rand() * 0.12 }')"
    # not through mpirun, which would be one more
    kill -9 "$(cat pid.0)" "$(cat pid.1)" 2>/dev/null || { fail "kill $n: it ended by itself"; tail -n 5 killed.log; break; }
    wait $launcher 2>/dev/null
    ls killed_iter_*.tmp >/dev/null 2>&1 && mid=$((mid + 1))
    last=$(newest)
    resume=--snapshot=$work/killed_iter_$last.solverstate.h5
    mkdir kept && mv killed_iter_"$last".* kept && rm -f killed_iter_* && mv kept/* . && rmdir kept
done
end=$((last + 5))
train 2 end.log --solver=killed.prototxt --batch=8 --threads=1 --max-iter=$end --summary=end.json "$resume" &&
    train 2 unharmed.log --solver=killed.prototxt --batch=8 --threads=1 --max-iter=$end --summary=unharmed.json \
        --set snapshot=0 --snapshot-prefix="$work/unharmed" || { fail 'after the kills'; tail -n 5 end.log unharmed.log; }
[ "$(hash_of end.json)" = "$(hash_of unharmed.json)" ] || fail "after $kills kills iteration $end has other parameters"
echo "$kills kills on the way to iteration $end, $mid of them with a file half written"
finish
