# What the scripts of this folder share beyond tests/mpi/common.sh: a small net of many kinds of layers, and training
# on the emulated GPU.
# shellcheck shell=sh
. "${abs_top_srcdir:?}/tests/mpi/common.sh"
emulated=${abs_top_builddir:?}/tests/cuda/poseidon
ln -s "$abs_top_srcdir/data" data
cp "$abs_top_srcdir/tests/cuda/mixed.prototxt" net.prototxt
POSEIDON_CACHE=$work/cache
export POSEIDON_CACHE

cat >plain.prototxt <<END
net: "net.prototxt"
base_lr: 0.05
momentum: 0.9
weight_decay: 0.0005
lr_policy: "fixed"
max_iter: 6
snapshot_after_train: false
END
{ cat plain.prototxt; printf 'clip_gradients: 0.5\niter_size: 2\n'; } >clipped.prototxt

value() { # KEY of out.json: the value, or the list
    tr -d '\n\r\t ' <out.json | sed 's/.*"'"$1"'":\(\[[^]]*\]\|[^,}]*\).*/\1/'
}

# Where parameter servers update is given: measuring it takes every rank longer than the training does.
run() { # RANKS ARGUMENTS...
    ranks=$1; shift
    "$POSEIDON_MPIRUN" "$ranks" "$emulated" train --engine=cuda --tune=share-gpu --threads=1 --set random_seed=3 \
        --force --summary=out.json --tune=ps-update=host "$@" >log 2>&1 || { cat log; fail "$*"; return 1; }
}
