#!/bin/sh
# Options of former builds are refused, each with today's word for it; what --tune takes is no option by itself; neither
# --help nor the manual page lists any of them. Caffe's words for signals do what they say.
. "$abs_top_srcdir/tests/mpi/common.sh"

# refused OPTION POINTER
refused() {
    "$POSEIDON" train --solver=none "--$1=1" >refused.log 2>&1 && fail "--$1 is taken"
    grep -qF "unknown option --$1: $2" refused.log || fail "--$1: $(cat refused.log)"
}
"$POSEIDON" help tuning | sed -n 's/^  \([a-z][^ ]*\).*/\1/p' >tuning
for name in check-sync share-gpu direct ps-update convolution no-fusion no-graphs workspace order window chunk merge measure \
    rank-log staleness dilate input-shape; do
    grep -q "^$name\(=\|$\)" tuning || fail "help tuning does not list $name"
done
while read -r shown; do
    refused "${shown%%=*}" "--tune $shown"
done <tuning
refused lars '--set local_lr_auto=true'
refused leaders --hierarchy=HOW,L
refused phase 'leave it out: training is of phase TRAIN'
refused trace-iterations --trace=FILE,A-B
refused account --log=FILE
for signal in term usr1 xcpu; do
    refused sig$signal-effect --on-signal=NAME=EFFECT
done

# ignored BITS OPTION...: of /proc/PID/status, the signals that a run ignores; 24 (XCPU), 15 (TERM), 10 (USR1), 2 (INT), 1 (HUP)
make_solver endless.prototxt 'max_iter: 100000000' 'snapshot_after_train: false' 'display: 1'
ignored() {
    bits=$1
    shift
    begin 1 signals.log --solver=endless.prototxt "$@"
    await 'Iteration 0'
    same "$*: signals without effect" "$bits" $((0x$(sed -n 's/^SigIgn:[[:space:]]*//p' "/proc/$(cat pid.0)/status") & 0x804203))
    kill -KILL "$(cat pid.0)"
    wait "$launcher"
}
ignored $((0x804203)) --on-signal=TERM=none,SIGUSR1=none,XCPU=none,INT=none,HUP=none
ignored $((0x3)) -sigint_effect=none --sighup-effect=none
ignored 0

# Nobody reads of them: names of --tune stand under that heading alone.
"$POSEIDON" train --help >page
for word in $(sed 's/=.*//' tuning) sigint-effect sighup-effect; do
    grep -q -e "^  --$word\>" page && fail "--help lists --$word"
done
listed=$(grep '^  --' page | grep -vc '^  --help ')
[ "$listed" -le 45 ] || fail "--help lists $listed options besides itself"
finish
