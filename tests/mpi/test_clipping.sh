#!/bin/sh
# Clipping by the global norm beside dedicated servers that hold nothing, since factors and allreduce go
# past them, or since there are more servers than chunks: training ends, pauses for snapshots on its way,
# and shows the norms of one rank.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 3' 'clip_gradients: 0.1' 'snapshot: 1' 'display: 1' \
    "snapshot_prefix: \"$work/clip\""

norms() {
    sed -n 's/.*scaling down gradients (L2 norm \([^ ]*\) > 0.1).*/\1/p' "$1"
}

# clipped NAME RANKS OPTION...
clipped() {
    name=$1 ranks=$2
    shift 2
    train "$ranks" "$name.log" --solver=solver.prototxt --global-batch=24 "$@" || {
        fail "$name: status $?, the last lines:"
        tail -n 5 "$name.log"
        return
    }
    norms "$name.log" >"$name.norms"
    [ "$name" = one ] && return
    paste -d ' ' one.norms "$name.norms" | awk '
        NF != 2 { print "not the same number of norms: " $0; exit wrong = 1 }
        { d = ($1 - $2) / $1; if (d * d > 1e-8) { print "norm " $2 " instead of " $1; exit wrong = 1 } }
        END { exit wrong || NR != 3 }' || {
        fail "$name: norms differ from those of one rank"
        return
    }
    echo "ok: $name"
}

clipped one 1
clipped allreduce-1-server 3 --comm=allreduce --servers=1
clipped sfb-1-server 3 --comm=sfb --servers=1
clipped more-servers-than-chunks 7 --comm=sfb --servers=5 --tune=chunk=8m --tune=merge=8m

# Nothing trains, so there is no norm, and nobody waits for one.
sed -i 's/lr_mult: [0-9]*/lr_mult: 0/' net.prototxt
frozen() { # RANKS OPTION...
    ranks=$1
    shift
    train "$ranks" frozen.log --solver=solver.prototxt --global-batch=24 "$@" || fail "nothing trains, $ranks ranks $*: $(tail -n 1 frozen.log)"
}
frozen 1
frozen 2 --comm=ps --hierarchy=off --set local_lr_auto=true
frozen 3 --comm=sfb --servers=1 --on-nan=skip
finish
