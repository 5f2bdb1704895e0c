#!/bin/sh
# bench_schemes.sh OUT.svg SOLVER BATCH RANKS NAME=OPTIONS...
#
# Trains SOLVER's whole schedule on RANKS ranks with batches of BATCH, once for each NAME with its OPTIONS of "poseidon
# train", and draws the curves over one another: what schemes that change the result cost in accuracy. Run it where
# the solver's paths hold. Logs go beside OUT.svg, as NAME.log; a run whose log is complete is not repeated. Example:
#
#     bench_schemes.sh quick/2.svg models/cifar10_quick/solver.prototxt 100 2 exact-1='--comm=ps --set random_seed=1' \
#         lowrank-4='--comm=lowrank:4 --set random_seed=1' bf16='--comm=sfb --tune=wire=bf16 --set random_seed=1'
set -eu
[ $# -ge 5 ] || { sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$1 solver=$2 batch=$3 ranks=$4
shift 4
folder=$(dirname "$out")
mkdir -p "$folder"
logs=
for run; do
    name=${run%%=*} log=$folder/${run%%=*}.log
    # shellcheck disable=SC2086 # options are words
    grep -qs 'Optimization Done' "$log" ||
        POSEIDON_MPI_TIMEOUT=${POSEIDON_MPI_TIMEOUT:-36000} "$top/tests/mpirun.sh" "$ranks" "${POSEIDON:-$top/build/poseidon}" \
            train --solver="$solver" --global-batch="$batch" --threads=1 --snapshot-prefix="$folder/$name" --force ${run#*=} >"$log" 2>&1
    echo "$name: $(sed -n 's/.*Test net output.*accuracy = \([0-9.]*\).*/\1/p' "$log" | tail -n 1)"
    logs="$logs $log"
done
# shellcheck disable=SC2086 # names of logs are words
"$top/tools/report.py" --curves="$out" --force $logs
