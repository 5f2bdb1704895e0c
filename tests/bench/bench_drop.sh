#!/bin/sh
# bench_drop.sh [ITERATIONS [SEEDS]]
#
# LeNet on four workers and a server, one core each if there are as many: undisturbed, and with one worker three times as
# slow (stopped two thirds of the time), in turns of six seconds; every gradient waited for, and all but the slowest
# (--tune=drop-stragglers=1). A line for each run: seconds, test accuracy, iterations dropped and left out. Logs stay in
# ./bench_drop.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
iterations=${1:-2000} seeds=${2:-3}
poseidon=${POSEIDON:-$top/build/poseidon}
folder=$(pwd)/bench_drop
mkdir -p "$folder"
cd "$top" # where the paths of the solver lead

# disturb: one worker after the other, until the launcher is gone
disturb() {
    turn=0
    while kill -0 "$launcher" 2>/dev/null; do
        pid=$(cat "$folder/pid.$((turn / 20 % 4))")
        kill -STOP "$pid" 2>/dev/null || break
        sleep 0.2
        kill -CONT "$pid" 2>/dev/null || break
        sleep 0.1
        turn=$((turn + 1))
    done
}

# run NAME disturb|leave SEED OPTION...
run() {
    name=$1 how=$2 seed=$3
    shift 3
    rm -f "$folder"/pid.*
    # shellcheck disable=SC2016 # every rank expands it
    PIDS=$folder POSEIDON_MPI_TIMEOUT=3000 "$top/tests/mpirun.sh" 5 sh -c \
        'echo $$ >"$PIDS/pid.$OMPI_COMM_WORLD_RANK"; exec "$0" "$@"' "$poseidon" train --solver=models/lenet/solver.prototxt \
        --max-iter="$iterations" --set test_interval="$iterations" --set test_initialization=false --set snapshot=0 \
        --set snapshot_after_train=false \
        --batch=16 --threads=1 --comm=ps --servers=1 --hierarchy=off --set random_seed="$seed" --force --summary="$folder/$name.json" "$@" \
        >"$folder/$name.log" 2>&1 </dev/null &
    launcher=$!
    until grep -q 'Iteration 0 ' "$folder/$name.log" 2>/dev/null; do sleep 0.1; done
    [ "$how" = leave ] || disturb
    wait "$launcher"
    echo "$name: $(sed -n 's/.*"train_seconds": *\([0-9.]*\).*/\1/p' "$folder/$name.json" | head -n 1) s, accuracy" \
        "$(sed -n 's/.*Test net output .*: accuracy = //p' "$folder/$name.log" | tail -n 1)" \
        "$(sed -n 's/.*\(Dropped:.*\)/\1/p' "$folder/$name.log")"
}
for seed in $(seq 1 "$seeds"); do
    run all-$seed leave "$seed"
    run drop-$seed leave "$seed" --tune=drop-stragglers=1
    run all-disturbed-$seed disturb "$seed"
    run drop-disturbed-$seed disturb "$seed" --tune=drop-stragglers=1
done
