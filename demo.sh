#!/bin/sh
# demo.sh [CONFIGURE-OPTION...]
#
# From a fresh machine to a trained network: installs what is missing, builds into build, and
# trains LeNet on two ranks on the Fashion-MNIST images of data/. The exit status is 0 when the
# network then recognises at least 85 % of images it has never seen.
set -eu
cd "$(dirname "$0")"
. ./scripts/setup.sh

case ${1:-} in
-h | --help)
    sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0"
    exit 0
    ;;
esac
setup_arguments="$*"
ranks=2
wanted=0.85
solver=models/lenet/solver.prototxt
log=lenet.log
summary=lenet.json

# summary_value NAME: a number of the summary, "test" values by their own names.
summary_value() {
    tr -d '\n\r\t ' <"$summary" | grep -o "\"$1\":[-+.0-9eE]*" | head -n 1 | sed 's/.*://'
}

setup_say '== 1 of 3: what is needed'
setup_dependencies "$setup_required"

setup_say '== 2 of 3: build'
setup_build build "$@"

train="build/poseidon train --solver=$solver --comm=paper --tune=overlap=wfbp --summary=$summary"
setup_say "== 3 of 3: train LeNet on $ranks ranks"
setup_say "mpirun -np $ranks $train"
begin=$(date +%s)
rm -f "$summary" build/demo-status
# Word splitting is meant: $train is a command without spaces in its words.
# shellcheck disable=SC2086
{
    status=0
    POSEIDON_MPI_TIMEOUT=1800 tests/mpirun.sh "$ranks" $train 2>&1 || status=$?
    echo "$status" >build/demo-status
} | tee "$log"
status=$(cat build/demo-status)
seconds=$(($(date +%s) - begin))
[ "$status" -eq 0 ] || setup_fail "training ended with status $status; see $log"
[ -s "$summary" ] || setup_fail "training left no summary in $summary; see $log"

accuracy=$(summary_value accuracy)
[ -n "$accuracy" ] || setup_fail "$summary holds no test accuracy; see $log"
# The name is the solver's: lenet_iter_N, of which the newest is this run's.
# shellcheck disable=SC2012
weights=$(ls -t lenet_iter_*.caffemodel.h5 2>/dev/null | head -n 1)
[ -n "$weights" ] || setup_fail "training left no weights (lenet_iter_*.caffemodel.h5); see $log"

launch="mpirun -np"
[ "$(id -u)" -ne 0 ] || launch="mpirun --allow-run-as-root --oversubscribe -np"
awk -v accuracy="$accuracy" -v wanted="$wanted" -v ranks="$ranks" -v seconds="$seconds" \
    -v iterations="$(summary_value iterations)" -v batch="$(summary_value global_batch)" \
    -v rate="$(summary_value images_per_second)" -v sent="$(summary_value bytes_sent_per_iteration)" '
BEGIN {
    printf "\nLeNet was trained on %d ranks in %d s: %d iterations of %d images, %.0f images/s,\n",
        ranks, seconds, iterations, batch, rate
    printf "%.2f MB sent per iteration. It recognises %.1f %% of 2,000 images it never saw.\n",
        sent / 1e6, 100 * accuracy
    if (accuracy < wanted)
        printf "That is too few: %.0f %% were expected.\n", 100 * wanted
    exit accuracy < wanted
}' || status=1
cat <<END

    weights   $weights
    log       $log
    summary   $summary
    network   models/lenet/train_val.prototxt, its settings $solver

Try next

    $launch 4 build/poseidon train --solver=$solver --global-batch=128
        the same training on four ranks: the same images, the same losses
    $launch 2 build/poseidon train --solver=$solver --comm=ps --tune=overlap=none
        a plain parameter server that waits, for comparison
    build/poseidon help
        what else there is
    ./check.sh
        every test
END
exit "$status"
