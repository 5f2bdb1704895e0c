#!/bin/sh
# Schemes that lose something keep it in snapshots: a run that stopped and went on is the one that never stopped, bit for
# bit, and so is what it still owes at its end. At another number of ranks, by another scheme, from a damaged file and
# without one it says what becomes of it.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_small_net net.prototxt
make_solver whole.prototxt 'max_iter: 10' 'snapshot: 5' "snapshot_prefix: \"$work/whole\"" 'display: 5'

# goes FILE RANKS OPTION...: to the end, into FILE.log and FILE.json
goes() {
    file=$1 ranks=$2
    shift 2
    train "$ranks" "$file.log" --solver=whole.prototxt --batch=8 --threads=1 --summary="$file.json" "$@" && return
    fail "$file: $*"
    tail -n 5 "$file.log"
    return 1
}

# says REGEX: in the log of the last run
says() {
    grep -q -e "$1" "$file.log" || { fail "expected '$1'"; tail -n 20 "$file.log"; }
}

# starts FOLDER RANKS OPTION...: a whole run; its snapshot of iteration 5 goes into FOLDER, what it owes after 10 into owed
starts() {
    half=$1
    shift
    rm -rf whole_iter_* whole.run owed "$half"
    mkdir owed "$half"
    goes a "$@" --run=r && mv whole_iter_5.* "$half" && mv whole_iter_10.residuals.* owed && rm -f whole_iter_* whole.run
}

# went_on ENDING RANKS OPTION...: from the snapshot in the middle to the end; ENDING: of the files of states
went_on() {
    ending=$1
    shift
    starts half "$@" && goes b "$@" --run=r --snapshot="$work/half/whole_iter_5.solverstate$ending" || return
    [ "$(hash_of a.json)" = "$(hash_of b.json)" ] || fail "$*: resumed at 5, the parameters after 10 iterations differ"
    for arena in owed/*; do
        cmp "$arena" "${arena#owed/}" || fail "$*: another residual"
    done
}

went_on .h5 2 --comm=onebit
went_on .h5 3 --comm=allreduce --tune=wire=bf16
went_on .h5 2 --comm=paper --tune=wire=bf16
went_on .h5 3 --comm=lowrank:2 --tune=lowrank-warmup=2
went_on .h5 3 --comm=lowrank --tune=lowrank-warmup=7
went_on .h5 3 --comm=ps --tune=wire=bf16 --servers=1
went_on .h5 3 --comm=onebit --hierarchy=2
went_on .h5 4 --comm=lowrank --tune=lowrank-warmup=2 --hierarchy=2
went_on .h5 4 --comm=allreduce --tune=wire=bf16 --hierarchy=2,2
went_on '' 2 --comm=onebit --set snapshot_format=BINARYPROTO

# --dry-run's size is the files'; from 4 ranks to 2, from 2 to 3, to a scheme that loses nothing
starts of-4 4 --comm=allreduce --tune=wire=bf16
"$POSEIDON_MPIRUN" 4 "$POSEIDON" train --dry-run --solver=whole.prototxt --batch=8 --comm=allreduce --tune=wire=bf16 >dry.out 2>dry.err
size=$(cat of-4/*.residuals.* | wc -c | awk '{ printf "%.3g MB", $1 / 1e6 }')
grep -q "^snapshots .*, $size of it residuals" dry.out || fail "--dry-run: expected $size of residuals: $(cat dry.out dry.err)"
goes b 2 --comm=allreduce --tune=wire=bf16 --snapshot="$work/of-4/whole_iter_5.solverstate.h5"
says 'The residuals of 4 ranks are dealt evenly to 2'
starts of-2 2 --comm=onebit
cp a.json unharmed.json
goes b 3 --comm=onebit --snapshot="$work/of-2/whole_iter_5.solverstate.h5"
says 'The residuals of 2 ranks are dealt evenly to 3'
rm -f whole_iter_*
goes b 2 --comm=ps --snapshot="$work/of-2/whole_iter_5.solverstate.h5"
says ' residuals are dropped: their parameters are sent in another way'
ls whole_iter_10.residuals* 2>/dev/null && fail 'residuals of a scheme that has none'
rm -f whole_iter_*
goes c 2 --comm=lowrank --tune=lowrank-warmup=20 --snapshot="$work/of-2/whole_iter_5.solverstate.h5"
[ "$(hash_of b.json)" != "$(hash_of c.json)" ] || fail 'an iteration that travels exact has lost the residuals'

# damaged, cut short, of another snapshot, gone: one message; --resume takes the state before it
# refuses WORDS NAME
refuses() {
    train 2 bad.log --solver=whole.prototxt --batch=8 --threads=1 --comm=onebit --max-iter=20 --snapshot="$work/whole_iter_10.solverstate.h5" &&
        fail "$2: went on"
    [ "$(grep -c "poseidon train: .*whole_iter_10.residuals.1: *$1" bad.log)" = 1 ] || { fail "$2"; tail -n 5 bad.log; }
}
rm -f whole_iter_* whole.run
goes a 2 --comm=onebit
cp whole_iter_10.residuals.1 good
printf 'X' | dd of=whole_iter_10.residuals.1 bs=1 seek=5000 conv=notrunc 2>/dev/null
refuses 'damaged' damaged
head -c 5000 good >whole_iter_10.residuals.1
refuses 'damaged or truncated at byte ' 'cut short'
goes b 2 --comm=onebit --max-iter=12 --resume
says 'Ignoring .*whole_iter_10.solverstate.h5: .*whole_iter_10.residuals.1: damaged'
says 'Resuming from .*whole_iter_5.solverstate.h5'
rm -f whole_iter_12.*
cp whole_iter_5.residuals.1 whole_iter_10.residuals.1
refuses "found iteration 5 of run '.*'; expected iteration 10 of run '" 'of another snapshot'
rm whole_iter_10.residuals.1
refuses 'no such file' gone

# where they cannot be written the snapshot is without them, and says so; what goes on from it is another run
rm -f whole_iter_* whole.run
mkdir whole_iter_5.residuals.1.tmp
goes a 2 --comm=onebit
says "The residuals of iteration 5 could not be written: .*cannot write .* A run that resumes from its snapshot differs in the last bits"
ls whole_iter_5.residuals.[0-9] 2>/dev/null && fail 'some of them stay'
[ "$(hash_of a.json)" = "$(hash_of unharmed.json)" ] || fail 'a snapshot without residuals changed the run'
rmdir whole_iter_5.residuals.1.tmp
goes b 2 --comm=onebit --snapshot="$work/whole_iter_5.solverstate.h5"
says 'The snapshot has no residuals: if its run encoded gradients, their unsent rest is lost'
[ "$(hash_of b.json)" != "$(hash_of unharmed.json)" ] || fail 'without its residuals the run is the same: nothing was tested'
ls ./*.tmp 2>/dev/null && fail 'something half written stays'
finish
