# What the scripts of this folder and of tests/cuda share: what tests/common.sh has, solvers made to order, trainings.
# shellcheck shell=sh
: "${POSEIDON:?}" "${POSEIDON_MPIRUN:?}" "${abs_top_srcdir:?}"
. "$abs_top_srcdir/tests/common.sh"
work=$folder

# make_net FILE: LeNet on the images of data/, by absolute path.
make_net() {
    sed "s|\"data/|\"$abs_top_srcdir/data/|" "$abs_top_srcdir/models/lenet/train_val.prototxt" >"$1"
}

# make_small_net FILE: the same with a fifth of the parameters, for tests in which they are only kept, sent and compared
make_small_net() {
    make_net "$1"
    sed -i 's/num_output: 500/num_output: 100/' "$1"
}

# make_solver FILE LINE...: a solver for net.prototxt in this folder; a LINE replaces that of its field.
make_solver() {
    solver=$1
    shift
    cat >"$solver" <<END
net: "$work/net.prototxt"
base_lr: 0.01
momentum: 0.9
weight_decay: 0.0005
lr_policy: "inv"
gamma: 0.0001
power: 0.75
random_seed: 1
snapshot_format: HDF5
END
    for line; do
        sed -i "/^${line%%:*}:/d" "$solver"
        printf '%s\n' "$line" >>"$solver"
    done
}

# train RANKS LOG OPTION...: runs to the end or says so.
train() {
    ranks=$1 log=$2
    shift 2
    "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" train --force "$@" >"$log" 2>&1 </dev/null
}

# solved NAME RANKS OPTION...: solver.prototxt, into NAME.log and NAME.json
solved() {
    name=$1 ranks=$2
    shift 2
    train "$ranks" "$name.log" --solver=solver.prototxt --summary="$name.json" "$@" && return
    fail "$name did not train:"
    tail -n 20 "$name.log"
}

# trained NAME RANKS OPTION...: the same by batches of 8
trained() {
    name=$1 ranks=$2
    shift 2
    solved "$name" "$ranks" --batch=8 "$@"
}

# begin RANKS LOG OPTION...: a training in the background, of small batches. Its launcher is process $launcher, its ranks
# are in pid.RANK. A test that does something to it meanwhile gives it no end of its own (a max_iter out of reach): on
# some machine every other run is over before.
begin() {
    ranks=$1 log=$2
    shift 2
    rm -f pid.*
    : >"$log" # else the run before is what is seen
    # shellcheck disable=SC2016 # every rank expands it
    "$POSEIDON_MPIRUN" "$ranks" sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$0" "$@"' "$POSEIDON" train \
        --batch=8 --threads=1 "$@" >"$log" 2>&1 </dev/null &
    launcher=$!
}

# await TEXT: until the run of process $launcher says it in $log. A run that hangs is tests/mpirun.sh's to end.
await() {
    until grep -q -e "$1" "$log"; do
        kill -0 "$launcher" 2>/dev/null || grep -q -e "$1" "$log" ||
            { fail "$log: '$1' was never said"; tail -n 5 "$log"; return 1; }
        sleep 0.05
    done
}

# json_value FILE KEY
json_value() {
    tr -d '\n\r\t ' <"$1" | grep -o "\"$2\":[^,}]*" | head -n 1 | sed 's/^[^:]*://; s/"//g'
}

# all_losses LOG: of all iterations, with all digits that are printed
all_losses() {
    sed -n 's/.*Iteration \([0-9]*\).*, loss = /\1 /p' "$1"
}

# close_losses A B: the same numbers to 1e-4
close_losses() {
    paste -d ' ' "$1" "$2" | awk 'NF != 4 || $1 != $3 || ($2 - $4) ^ 2 > 1e-8 * $4 ^ 2 { bad = 1 }
        END { exit bad || NR < 3 }'
}

# hash_of SUMMARY: of the parameters at the end
hash_of() {
    json_value "$1" parameters_sha256
}

make_net net.prototxt

# ---- runs that end early, begun by `begin` ----

# ended WHAT STATUS: the run is over, with that status.
ended() {
    wait "$launcher"
    status=$?
    [ "$status" -eq "$2" ] || { fail "$1: exit status $status, expected $2"; tail -n 5 "$log"; }
}

count() { # TEXT [LOG]
    grep -c -e "$1" "${2:-$log}"
}

states() {
    ls run_iter_*.solverstate.h5 2>/dev/null | wc -l | tr -d ' '
}

# stopped WHAT SNAPSHOTS [STATUS]: orderly, with so many snapshots in all, and one word on it; status 75, or that.
stopped() {
    ended "$1" "${3:-75}"
    [ "$(count 'Optimization stopped early')" = 1 ] || fail "$1: 'Optimization stopped early.' is not said once"
    [ "$(count ': stopping after [0-9]* iterations')" = 1 ] || fail "$1: the reason is not said once"
    [ "$(states)" = "$2" ] || fail "$1: $(states) snapshots, expected $2"
    rm -f run_iter_*
}
