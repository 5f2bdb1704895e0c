#!/bin/sh
# --balance: workers with unlike shares of a batch train as one rank does with the whole batch: the same losses, scores and norms
# of clipping while they train, and the same weights within rounding, by every scheme. Equal parts are what is there without it.
# A smooth net keeps rounding small: test_invariance.sh says why.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import h5py, numpy' 2>/dev/null || { echo 'SKIP: h5py is missing'; exit 77; }
sed -i 's/pool: MAX/pool: AVE/; /name: "accuracy"/,/^}/s/^ *include.*//' net.prototxt
awk '/^layer/ { text = $0; next } text { text = text "\n" $0 } !text { print }
    /^}/ { if (text !~ /"ReLU"/) print text; text = "" }' net.prototxt >smooth && mv smooth net.prototxt
make_solver solver.prototxt 'display: 1' 'max_iter: 8' 'clip_gradients: 1.5' "snapshot_prefix: \"$work/s\""
cat >compare.py <<'END'
"""compare.py ONE OTHER BOUND: what is shown and the parameters at the end."""
import re, sys
import h5py, numpy
def shown(name):
    return [float(x) for x in re.findall(r"(?:, loss|accuracy|L2 norm|Test loss:) [=]? ?([-.e\d]+)", open(name + ".log").read())]
def parameters(name):
    found = []
    h5py.File(name + ".h5", "r").visititems(lambda _, d: found.append(d[()].ravel()) if isinstance(d, h5py.Dataset) else None)
    return numpy.concatenate(found)
one, other, bound = *sys.argv[1:3], float(sys.argv[3])
for what in shown, parameters:
    a, b = numpy.array(what(one)), numpy.array(what(other))
    if a.shape != b.shape or len(a) < 16:
        sys.exit("%s: %d and %d %s" % (other, len(a), len(b), what.__name__))
    worst = abs(a - b).max() / abs(a).max()
    print("%s: %d %s, %g apart" % (other, len(a), what.__name__, worst))
    if not worst <= bound:
        sys.exit("%s differ by more than %g" % (what.__name__, bound))
END

bound=2e-5
# run NAME RANKS OPTION...: beside $one
run() {
    name=$1 ranks=$2
    shift 2
    rm -f s_iter_*
    solved "$name" "$ranks" --threads=1 --global-batch=$batch "$@" || return
    mv s_iter_8.caffemodel.h5 "$name.h5"
    [ "$name" = "$one" ] || "$python" compare.py "$one" "$name" $bound || fail "$name"
}
one=one batch=24
run one 1
run ps 3 --comm=ps --balance=4,1,3 --hierarchy=off
grep -q 'Effective batch = workers of (12 + 3 + 9) x iter_size 1 = 24 samples' ps.log || fail "ps: $(grep Effective ps.log)"
same 'shares in the summary' '[12,3,9]' "$(tr -d ' \n' <ps.json | sed 's/.*"samples_by_worker":\([^]]*]\).*/\1/')"
same 'the batch in the summary' 24 "$(json_value ps.json global_batch)"
run machine 3 --balance=1,4,3
run sfb 3 --comm=sfb --balance=1,4,3 --hierarchy=off
run sfb-nodes 3 --comm=sfb --balance=2,1,1 --hierarchy=2
run adam 3 --comm=adam --balance=2,1,1 --hierarchy=off
run paper-server 4 --comm=paper --balance=2,1,1 --servers=1 --tune=overlap=none
run allreduce-nodes 3 --comm=allreduce --balance=6,1,1 --hierarchy=2
sed 's/^ranks = 4/ranks = 2/' "$abs_top_srcdir/tests/plan/box_slow.cluster" >slow.cluster
run auto 2 --comm=auto --balance=23,1 --hierarchy=off --tune=cluster-file=slow.cluster
grep -q 'Simulated time of an iteration' auto.log || fail 'auto: nothing is played'
# what is rounded on the way
bound=5e-3
run bf16 3 --comm=paper --tune=wire=bf16 --balance=4,1,3 --hierarchy=off
bound=2e-5 one=passes batch=48
run passes 1 --set iter_size=2
run passes-3 3 --set iter_size=2 --comm=sfb --balance=4,1,3 --hierarchy=off

# of equal parts the same bits, by schemes that round, too; a share is what counts, not the rank that has it
for how in onebit lowrank:1 'ps --tune=staleness=1 --set clip_gradients=-1'; do
    # shellcheck disable=SC2086 # words
    solved even 2 --threads=1 --hierarchy=off --batch=8 --comm=$how
    # shellcheck disable=SC2086
    solved parts 2 --threads=1 --hierarchy=off --batch=8 --comm=$how --balance=5,5
    case $how in
    *staleness*) continue ;; # whose numbers depend on timing
    esac
    same "$how: equal parts" "$(hash_of even.json)" "$(hash_of parts.json)"
done
for comm in onebit lowrank:1; do
    solved unlike 2 --threads=1 --hierarchy=off --global-batch=24 --comm=$comm --balance=5,1 || continue
    awk -v a="$(json_value one.json train_loss)" -v b="$(json_value unlike.json train_loss)" \
        'BEGIN { exit !(b > 0.9 * a && b < 1.1 * a) }' || fail "$comm with unlike shares: loss $(json_value unlike.json train_loss)"
done
# made-up data have one order, too
sed -i 's/^snapshot_prefix.*/snapshot_after_train: false/' solver.prototxt
for fake in '1' '3 --balance=4,1,3 --hierarchy=off'; do
    # shellcheck disable=SC2086
    set -- $fake
    ranks=$1
    shift
    solved "fake-$ranks" "$ranks" --fake-data --global-batch=24 "$@"
    sed -n 's/.*, loss = //p' "fake-$ranks.log" >"fake-$ranks.loss"
done
paste -d ' ' fake-1.loss fake-3.loss | awk '{ if (($1 - $2) ^ 2 > 1e-9 * $1 ^ 2) bad = 1 } END { exit bad || NR < 8 }' ||
    fail "made-up data: $(paste -d ' ' fake-1.loss fake-3.loss)"

# By speed: a rank that is thirty times as slow has the smaller share. The run keeps its shares when it is resumed there, and then
# ends in the bits of one that was given them; on other ranks they are dealt anew.
shares() { tr -d ' \n' <"$1" | sed 's/.*"samples_by_worker":\[\([^]]*\)\].*/\1/'; }
# slowed NAME RANKS OPTION...: rank 1 is slow while the file `slow` is there
slowed() {
    name=$1 ranks=$2
    shift 2
    # shellcheck disable=SC2016 # every rank expands it
    SLOW=$work/slow "$POSEIDON_MPIRUN" "$ranks" sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export LD_PRELOAD="$0"; exec "$@"' \
        "${abs_top_builddir:?}/tests/mpi/slow.so" "$POSEIDON" train --solver=solver.prototxt --threads=1 --summary="$name.json" "$@" \
        >"$name.log" 2>&1 </dev/null || { fail "$name: $(tail -n 3 "$name.log")"; return 1; }
}
if sanitized; then finish; fi # whose libraries come first
make_solver solver.prototxt 'max_iter: 6' 'display: 3' 'snapshot: 2' "snapshot_prefix: \"$work/kept\""
: >slow
slowed dealt 2 --global-batch=64 --balance --run=kept --max-iter=3
found=$(shares dealt.json) mine=${found%,*} other=${found#*,}
[ $((mine + other)) = 64 ] && [ "$other" -lt "$mine" ] || fail "by speed: shares $found"
grep -q "Balance: 64 samples a pass: .*rank 1) $other at .* images/s; compute time .*, with equal shares" dealt.log ||
    fail "by speed: $(grep Balance dealt.log)"
# what rebuilding gradients takes a slow worker is dealt by, too, where the player sees it; auto then chooses by these shares
sed 's/^gemm_flops.*/gemm_flops = 1e9/; s/^ranks_per_node.*/ranks_per_node = 2/; s/^\(link\|local\)_bytes.*/\1_bytes_per_second = 1e7/' \
    slow.cluster >weak.cluster
export SLOW_TIMES=10 # at thirty there is nothing to gain
slowed anew 2 --global-batch=64 --balance --hierarchy=off --tune=cluster-file=weak.cluster --max-iter=1 --snapshot-prefix="$work/anew"
plain=$(sed -n 's/.*Balance: 64 samples a pass: .*(rank 1) \([0-9]*\) at .*/\1/p' anew.log)
with=$(sed -n 's/.*Balance: with the schemes'\'' compute time, workers of ([0-9]* + \([0-9]*\));.*/\1/p' anew.log)
after=$(sed -n 's/.*; predicted iteration \(.*\) instead of .*/\1/p' anew.log)
# how much slower the rank is found to be decides whether there is 1 % to gain; test_plan_command.sh has fixed speeds
if ! grep -q "Balance: with the schemes' compute time" anew.log; then
    echo "by the schemes: nothing to gain: $(grep Balance anew.log)"
elif [ "${with:-64}" -ge "${plain:-0}" ] || ! grep -q "Simulated time of an iteration by --comm: .* $after (taken)" anew.log; then
    fail "by the schemes: $(grep 'Balance\|Simulated' anew.log)"
fi
unset SLOW_TIMES
# grains by speed: a worker may have more of them than an equal share, and the bits are those of one rank
slowed grains 3 --set random_seed=3 --reproducible --global-batch=64 --balance --max-iter=2 --snapshot-prefix="$work/grains"
slowed whole 1 --set random_seed=3 --reproducible --global-batch=64 --max-iter=2 --snapshot-prefix="$work/whole"
same 'dealt grains: the bits' "$(hash_of whole.json)" "$(hash_of grains.json)"
rm slow
slowed resumed 2 --balance --run=kept --resume
same 'resumed: shares' "$found" "$(shares resumed.json)"
grep -q 'Balance: the shares of the resumed run are kept' resumed.log || fail "resumed: $(grep Balance resumed.log)"
rm -f kept_iter* kept.run
slowed given 2 --global-batch=64 --balance="$found" --run=given
same 'resumed: the bits' "$(hash_of given.json)" "$(hash_of resumed.json)"
slowed measured 2 --balance --run=given --resume --max-iter=7 --tune=measure
grep -q 'Balance: 64 samples a pass:' measured.log || fail "measured again: $(grep Balance measured.log)"
slowed others 3 --balance --run=given --resume --max-iter=8
grep -q 'Balance: the run had other hosts or another batch: shares are dealt again' others.log || fail "others: $(grep Balance others.log)"

# Two layers of unlike batches keep their proportion, whoever says how large the batch is; only dealing by samples is refused.
"$python" - <<'END'
import h5py, numpy
r = numpy.random.RandomState(1)
with h5py.File("unlike.h5", "w") as f:
    for name in "a", "b":
        f[name] = r.randn(60, 6).astype("f4")
        f["label_" + name] = r.randint(0, 3, 60).astype("f4")
open("unlike.txt", "w").write("unlike.h5\n")
with open("net.prototxt", "w") as f:
    for name, batch in ("a", 8), ("b", 4):
        f.write("""layer { name: '%s' type: 'HDF5Data' top: '%s' top: 'label_%s' hdf5_data_param { source: 'unlike.txt' batch_size: %d } }
layer { name: 'i%s' type: 'InnerProduct' bottom: '%s' top: 'i%s' param { name: 'w' } param { name: 'b' }
    inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'l%s' type: 'SoftmaxWithLoss' bottom: 'i%s' bottom: 'label_%s' top: 'l%s' }
""" % (name, name, name, batch, *[name] * 7))
END
make_solver solver.prototxt 'display: 1' 'max_iter: 9' 'base_lr: 0.1' 'snapshot: 5' "snapshot_prefix: \"$work/u\""
solved own 1
all_losses own.log >own
solved part 1 --max-iter=5
solved resumed 1 --resume
all_losses resumed.log >resumed
same 'a resumed run of unlike batches' "$(tail -n 4 own)" "$(tail -n 4 resumed)"
solved given 2 --global-batch=8 --max-iter=9 --threads=1
all_losses given.log >given
close_losses own given || fail "unlike batches of two ranks: $(paste own given)"
while IFS='|' read -r option text; do
    train 1 refused.log --solver=solver.prototxt "$option" && fail "unlike batches: $option is accepted"
    grep -q -e "$text" refused.log || fail "unlike batches: $option: $(tail -n 1 refused.log)"
done <<'TABLE'
--balance|layer 'b' (HDF5Data): the batch is 4 here and 8 in the first data layer: with 8 there, expected a whole number here (where workers' shares differ, the same number)
--batch=3|layer 'b' (HDF5Data): the batch is 4 here and 8 in the first data layer: with 3 there, expected a whole number here
TABLE
finish
