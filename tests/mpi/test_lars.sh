#!/bin/sh
# LARS beside numpy, under every scheme, on 1, 2 and 3 ranks, with clipping, several passes an iteration and chunks
# that cut parameters.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
check="$abs_top_srcdir/tests/mpi/check_lars.py"
"$python" -c 'import h5py, numpy' 2>/dev/null || { echo 'no Python with h5py and numpy'; exit 77; }
"$python" "$check" make "$work" || exit 99

lars_solver() { # FILE LINE...
    file=$1
    shift
    make_solver "$file" 'base_lr: 0.5' 'weight_decay: 0.01' 'lr_policy: "fixed"' 'max_iter: 8' \
        'local_gw_ratio: 0.02' "snapshot_prefix: \"$work/lars\"" "$@"
}

# agrees NAME RANKS CLIP ITER_SIZE OPTION...
agrees() {
    name=$1 ranks=$2 clip=$3 passes=$4
    shift 4
    lars_solver lars.prototxt 'local_lr_auto: true' "clip_gradients: $clip" "iter_size: $passes"
    rm -f lars_iter_*
    train "$ranks" "$name.log" --solver=lars.prototxt --global-batch=24 "$@" ||
        { fail "$name: status $?"; tail -n 5 "$name.log"; return; }
    "$python" "$check" check "$work" lars_iter_8.caffemodel.h5 8 "$clip" "$passes" >"$name.out" 2>&1 ||
        fail "$name: $(cat "$name.out")"
    echo "$name: $(cat "$name.out")"
}

agrees alone 1 -1 1
grep -q 'LARS: every parameter.s rate follows its norm' alone.log || fail 'the log does not say that LARS is at work'
agrees clipped 1 0.2 2
for comm in ps sfb allreduce adam paper; do
    agrees $comm-2 2 -1 1 --comm=$comm
    agrees $comm-3 3 0.2 1 --comm=$comm
done
agrees cut 3 -1 2 --comm=ps --tune=chunk=64 --tune=merge=0
agrees cut-allreduce 2 0.2 1 --comm=allreduce --tune=chunk=64
agrees merged 2 -1 1 --comm=ps --tune=merge=64k
agrees servers 3 -1 1 --comm=ps --servers=1
agrees nodes 3 -1 1 --comm=paper --hierarchy=2
agrees late 2 -1 1 --comm=paper --tune=overlap=none

# --set local_lr_auto=true is the field; without it the parameters are others
lars_solver option.prototxt
train 1 option.log --solver=option.prototxt --global-batch=24 --set local_lr_auto=true &&
    "$python" "$check" check "$work" lars_iter_8.caffemodel.h5 8 -1 1 || { fail 'the option'; tail option.log; }
train 1 option.log --solver=option.prototxt --global-batch=24 || fail 'without it'
"$python" "$check" check "$work" lars_iter_8.caffemodel.h5 8 -1 1 2>/dev/null && fail 'SGD passes for LARS'
train 2 lossy.log --solver=option.prototxt --global-batch=24 --set local_lr_auto=true --comm=onebit || { fail onebit; tail lossy.log; }

# refusals
refused() { # WORDS OPTION...
    words=$1
    shift
    train 2 refused.log --solver=option.prototxt --batch=4 --set local_lr_auto=true "$@" && fail "trained in spite of: $words"
    grep -q -e "$words" refused.log || { fail "expected: $words"; tail -n 3 refused.log; }
}
refused 'option.prototxt: local_lr_auto makes every update wait for all ranks.*--tune=staleness' --tune=staleness=1
refused 'local_lr_auto measures parameters on the host.*--tune=ps-update=device' --tune=ps-update=device
refused 'local_gw_ratio must be above 0, found 0' --set local_gw_ratio=0
refused 'local_lr_auto is for the types SGD and Nesterov, found Adam' --set type=Adam --set momentum=0.9
refused 'local_lr_auto is for the types SGD and Nesterov, found AdamW' --set type=AdamW --set momentum=0.9
refused '--set type=AdamW: AdamW takes weight_decay off the parameters: regularization_type "L1" does not apply' --set local_lr_auto=false --set type=AdamW --set momentum=0.9 --set regularization_type=L1
finish
