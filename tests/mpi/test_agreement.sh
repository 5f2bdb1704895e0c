#!/bin/sh
# Ranks that were given different solvers, nets or options: refused before training by one message, which
# says what differs and who has what; no hang. What each rank may have for itself is let through.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 4' 'snapshot_after_train: false' 'clip_gradients: 10' 'display: 1'

# apart LOG WORDS OTHERS: ranks 0 and 2 of three train with the options WORDS, rank 1 with OTHERS.
apart() {
    # word splitting is meant
    # shellcheck disable=SC2086
    "$POSEIDON_MPIRUN" 1 "$POSEIDON" train --batch=4 $2 : -n 1 "$POSEIDON" train --batch=4 $3 \
        : -n 1 "$POSEIDON" train --batch=4 $2 >"$1" 2>&1 </dev/null
}

# refused NAME TEXT WORDS OTHERS
refused() {
    apart refused.log "$3" "$4"
    status=$?
    count=$(grep -c '^poseidon train: ' refused.log)
    if [ $status -eq 0 ]; then
        fail "$1: trained as if nothing were wrong"
    elif [ $status -ge 124 ]; then
        fail "$1: hung, or crashed (status $status):" && tail -n 5 refused.log
    elif [ "$count" -ne 1 ]; then
        fail "$1: $count messages, expected one:" && head -n 20 refused.log
    elif ! grep -qF "poseidon train: $2; start all ranks with the same files" refused.log; then
        fail "$1: expected '$2', found $(grep '^poseidon train: ' refused.log)"
    else
        echo "ok: $1"
    fi
}

# solver NAME FIELD A B: a solver field is A on ranks 0 and 2, and B on rank 1; '-' stands for none.
solver() {
    cp solver.prototxt other.prototxt
    for file in solver.prototxt other.prototxt; do
        sed -i "/^$1:/d" $file
    done
    [ "$2" = - ] || echo "$1: $2" >>solver.prototxt
    [ "$3" = - ] || echo "$1: $3" >>other.prototxt
    left=$2 right=$3
    [ "$2" = - ] && left='not set'
    [ "$3" = - ] && right='not set'
    refused "$1" "$1 differs: $left on ranks 0, 2; $right on rank 1" --solver=solver.prototxt --solver=other.prototxt
    make_solver solver.prototxt 'max_iter: 4' 'snapshot_after_train: false' 'clip_gradients: 10' 'display: 1'
}

solver base_lr 0.01 0.1
solver momentum 0.9 0.5
solver weight_decay 0.0005 -
solver clip_gradients 10 -
solver clip_gradients - 1
solver lr_policy '"inv"' '"fixed"'
solver gamma 0.0001 0.001
solver max_iter 4 5
solver random_seed 1 2
solver iter_size - 2
solver regularization_type '"L2"' '"L1"'
solver average_loss - 20
solver type '"SGD"' '"Nesterov"'
cat solver.prototxt - >steps.prototxt <<'END'
stepvalue: 10
stepvalue: 20
END
sed 's/stepvalue: 20/stepvalue: 30/' steps.prototxt >other.prototxt
refused 'one of several values' 'stepvalue differs: 10, 20 on ranks 0, 2; 10, 30 on rank 1' \
    --solver=steps.prototxt --solver=other.prototxt

# net NAME TEXT SED-SCRIPT: rank 1's net is changed.
net() {
    mkdir -p other
    sed "$3" net.prototxt >other/net.prototxt
    sed "s|$work/net|$work/other/net|" solver.prototxt >other/solver.prototxt
    refused "$1" "$2" --solver=solver.prototxt --solver=other/solver.prototxt
}

net num_output "net: layer 'ip1' inner_product_param.num_output differs: 500 on ranks 0, 2; 400 on rank 1" \
    's/num_output: 500/num_output: 400/'
net lr_mult "net: layer 'conv1' param[1].lr_mult differs: 2 on ranks 0, 2; 3 on rank 1" '0,/lr_mult: 2/s//lr_mult: 3/'
net 'layer that others lack' "net: layer[7] differs: layer 'relu1' on ranks 0, 2; layer 'ip2' on rank 1" \
    "$(awk '/^layer/ { from = NR } /name: "relu1"/ { print from; exit }' net.prototxt),/^}/d"
net 'batch of a test net' "net: layer 'fashion' data_param.batch_size differs: 100 on ranks 0, 2; 50 on rank 1" \
    's/batch_size: 100/batch_size: 50/'

options() {
    refused "$1" "$2" "--solver=solver.prototxt $3" "--solver=solver.prototxt $4"
}
make_solver solver.prototxt 'max_iter: 4' 'snapshot_after_train: false' 'display: 1'
options chunk '--tune=chunk differs: 1000 on ranks 0, 2; not given on rank 1' '--tune=chunk=1000' ''
options merge '--tune=merge differs: 0 on ranks 0, 2; 64k on rank 1' '--tune=merge=0' '--tune=merge=64k'
options 'words of one option' '--on-signal differs: TERM=none on ranks 0, 2; not given on rank 1' '--on-signal=TERM=none' ''
options 'a choice that is the default' '--tune=wire differs: bf16 on ranks 0, 2; fp32 on rank 1' '--tune=wire=bf16' '--tune=wire=fp32'
options trace '--trace differs: not given on ranks 0, 2; trace.json on rank 1' '' '--trace=trace.json'
options set '--set differs: gamma=0.1, power=0.5 on ranks 0, 2; gamma=0.1 on rank 1' \
    '--set gamma=0.1 --set power=0.5' '--set gamma=0.1'

# Every option that --help lists, and every name of --tune, to one of two ranks alone: they train, where each may have its
# own; else one message names the option. Nothing hangs, however an option makes a rank go another way.
make_solver one.prototxt 'max_iter: 1' 'snapshot_after_train: false'

# alone OPTION: to rank 1; into alone.NAME
alone() {
    "$POSEIDON_MPIRUN" 1 "$POSEIDON" train --solver=one.prototxt --batch=4 : \
        -n 1 "$POSEIDON" train --solver=one.prototxt --batch=4 "$2" >"alone.$1" 2>&1 </dev/null
    echo "status $?" >>"alone.$1"
}
"$POSEIDON" train --help | sed -n 's/^  --\([a-z0-9-]*\)\(\[*=*\).*/\1 \2/p' >listed
"$POSEIDON" help tuning | sed -n '/^the same for plan/q; s/^  \([a-z][a-z-]*\)\(=*\).*/tune=\1 \2/p' >>listed
echo "gpu =" >>listed # Caffe's word
[ "$(wc -l <listed)" -gt 60 ] || fail "--help lists $(wc -l <listed) options"
under_way=0
while read -r name value; do
    case $name$value in
    tune=bandwidth-mbps=) value=--$name=900 ;;
    *=) value=--$name=3 ;;
    *) value=--$name ;;
    esac
    alone "$name" "$value" &
    under_way=$(((under_way + 1) % 8))
    [ $under_way -gt 0 ] || wait
done <listed
wait
while read -r name value; do
    status=$(sed -n 's/^status //p' "alone.$name")
    case $name in
    threads | tune=window | tune=bandwidth-mbps) expected=0 text='.*' ;;
    solver) expected=1 text='rank 1 (.*): .*3' ;;
    gpu) expected=1 text='--engine differs: cpu on rank 0; cuda on rank 1' ;;
    *) expected=1 text=".*--$name" ;;
    esac
    [ "$status" = "$expected" ] || { fail "--$name on rank 1 alone: status $status"; tail -n 3 "alone.$name"; }
    [ "$status" = 0 ] || [ "$(grep -c '^poseidon train: ' "alone.$name")" -eq 1 ] ||
        { fail "--$name on rank 1 alone: not one message"; head -n 20 "alone.$name"; }
    [ "$status" = 0 ] || grep -q "^poseidon train: $text" "alone.$name" ||
        fail "--$name on rank 1 alone: $(grep '^poseidon' "alone.$name")"
done <listed
echo "ok: $(wc -l <listed) options on one rank"

# What one rank alone was given by mistake is said whole, whichever rank it is; so in a test.
for wrong in --nonsense=3 --tune=wire=foo --tune=dilate=2; do
    alone mistake $wrong
    grep -q "^poseidon train: rank 1 (.*): .*$wrong\|^poseidon train: rank 1 (.*): .*${wrong%=*} " alone.mistake ||
        fail "$wrong on rank 1 alone: $(grep '^poseidon' alone.mistake)"
done
for option in --iterations=3 --json --help --math=foo; do
    "$POSEIDON_MPIRUN" 1 "$POSEIDON" test --model=net.prototxt --weights=none : \
        -n 1 "$POSEIDON" test --model=net.prototxt --weights=none $option >mistake.log 2>&1 </dev/null
    grep -q "^poseidon test: .*${option%=*}" mistake.log ||
        fail "test $option on rank 1 alone: $(grep '^poseidon' mistake.log)"
done

# The same by other means, and what is each rank's own: its place in the file tree, links to its data,
# what its node is good for.
mkdir -p other
ln -s "$abs_top_srcdir/data" other/data
sed "s|$abs_top_srcdir/data|$work/other/data|; s/^/ /" net.prototxt >other/net.prototxt
grep -q other/data other/net.prototxt || fail 'the other net has the same paths'
make_solver other/solver.prototxt "net: \"$work/other/net.prototxt\"" 'max_iter: 4' 'snapshot_after_train: false' \
    'display: 1' 'solver_mode: CPU' "snapshot_prefix: \"$work/other/run\""
if apart own.log '--solver=solver.prototxt --comm=ps' \
    '--solver=other/solver.prototxt --threads=1 --tune=window=1m --tune=bandwidth-mbps=900 --comm=ps'; then
    grep -q 'Optimization Done' own.log || fail 'training with own paths did not end'
    echo 'ok: own paths, threads and window'
else
    fail 'own paths, threads or window are refused:'
    tail -n 5 own.log
fi

# What no file says: other data
if [ -n "${POSEIDON_PYTHON:-}" ] && "$POSEIDON_PYTHON" - "$abs_top_srcdir/data/fashion-mnist-train.h5" <<'END'; then
import h5py, sys
source = h5py.File(sys.argv[1], "r")
with h5py.File("narrow.h5", "w") as f:
    f["data"], f["label"] = source["data"][:64, :, :24, :24], source["label"][:64]
END
    sed "s|source: .*train.h5|source: \"$work/narrow.h5|" net.prototxt >other/net.prototxt
    apart shapes.log '--solver=solver.prototxt --comm=ps' '--solver=other/solver.prototxt --comm=ps'
    status=$?
    [ $status -gt 0 ] && [ $status -lt 124 ] || fail "other data: status $status"
    grep -q "^poseidon train: data of layer 'fashion': records differs: 12000 on ranks 0, 2; 64 on rank 1;" shapes.log || {
        fail 'other data is not told of:'
        grep '^poseidon' shapes.log
    }
    echo 'ok: other data'
else
    echo 'skipped: other data (python3 with h5py is missing)'
fi
finish
