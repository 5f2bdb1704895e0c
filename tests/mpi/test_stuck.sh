#!/bin/sh
# Ranks that live and yet keep all others waiting: in a file system that does not answer, before the first iteration,
# at the end. They are named with what they are at, and the run ends after --stall-timeout. All at once, since each waits.
. "$abs_top_srcdir/tests/mpi/common.sh"
library=$abs_top_builddir/tests/mpi/stuck.so program=$POSEIDON cases=
file=$abs_top_srcdir/data/fashion-mnist-train.h5
printf "#!/bin/sh\nLD_PRELOAD='%s' exec '%s' \"\$@\"\n" "$library" "$program" >run.sh
chmod +x run.sh
POSEIDON=$work/run.sh

# start CASE RANKS SOLVER_LINE OPTION...: in the folder of that name
start() {
    name=$1 ranks=$2 line=$3
    shift 3
    cd "$work/$name" || exit 99
    make_solver solver.prototxt 'display: 1' "snapshot_prefix: \"$work/$name/run\"" "$line"
    begin "$ranks" run.log --solver=solver.prototxt --stall-timeout=10s "$@"
    echo "$launcher" >launcher
}

# over CASE STATUS: waits for its end
over() {
    cd "$work/$1" || exit 99
    log=run.log
    wait "$(cat launcher)"
    status=$?
    [ $status -eq "$2" ] || { fail "$1: exit status $status, expected $2"; tail -n 20 run.log; }
}

# says TEXT: in the run that is over
says() {
    grep -q -e "$1" run.log || { fail "$(basename "$PWD"): not said: $1"; grep 'on [^ ]* ' run.log | tail -n 5; }
}

# The 19th read of the data brings records that all ranks want in the same iteration.
mkdir mute ending failing one two slow
: >mute/mute.1
: >ending/late.1
: >failing/late.1
echo 19 | tee one/stuck.1 two/stuck.0 two/stuck.2 >slow/slow.1
start mute 3 'max_iter: 20' --hierarchy=off
start ending 2 'max_iter: 2'
start failing 2 'max_iter: 2' --weights=nowhere.caffemodel
start one 3 'max_iter: 1000000'
start two 3 'max_iter: 1000000' --hierarchy=off
start slow 2 'max_iter: 1000000'

input="in iteration [0-9]* (waiting for input of layer 'fashion' from $file)"
over one 76
says "rank 1 on [^ ]* has made no progress for [0-9]* s $input; ranks 0, 2 wait for it\$"
says "lost: rank 1 on [^ ]* has made no progress for [0-9]* s $input; ranks 0, 2 wait for it. The run ends with status 76"
over two 76
says "lost: rank 0 on [^ ]* has made no progress for [0-9]* s $input, rank 2 on [^ ]* has made no progress for [0-9]* s $input; rank 1 waits for them. The run"
over mute 76
says 'rank 0 on [^ ]* has waited [0-9]* s for rank 1 on [^ ,]* while sharing the first parameters'
says 'lost: rank 0 on [^ ]* has waited [0-9]* s for rank 1 on [^ ,]* while sharing the first parameters'
grep 'rank [12] on [^ ]* has waited' run.log && fail 'mute: not rank 0 alone speaks'
over ending 76
says 'lost: rank 0 on [^ ]* has waited [0-9]* s for other ranks while ending (in MPI_Finalize)'
over failing 1
says 'nowhere.caffemodel'
says 'lost: rank 0 on [^ ]* has waited [0-9]* s for other ranks while ending'

# It still reads: what all wait for is progress, however slow.
cd "$work/slow" || exit 99
rm slow.1
kill -USR1 "$(cat pid.0)"
over slow 75
grep -e 'no progress' -e lost: run.log && fail 'slow: somebody is accused'
finish
