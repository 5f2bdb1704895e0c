#!/bin/sh
# bench_schemes.sh OUT.svg DATA [RANKS]
#
# Trains cifar10_quick for 1000 iterations by schemes that change the result (bf16, Adam's way, 1-bit,
# staleness) beside those that do not, and draws the losses over one another. DATA is the folder of
# cifar10-{train,test,mean}.h5 ("poseidon convert cifar10"). Logs stay in ./bench_schemes.
set -eu
[ $# -ge 2 ] || { sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$1 data=$2 ranks=${3:-2}
poseidon=${POSEIDON:-$top/build/poseidon}
folder=bench_schemes
mkdir -p $folder
sed "s|\"data/|\"$data/|" "$top/models/cifar10_quick/train_val.prototxt" >$folder/net.prototxt
cat >$folder/solver.prototxt <<END
net: "$folder/net.prototxt"
test_iter: 20
test_interval: 250
base_lr: 0.001
momentum: 0.9
weight_decay: 0.004
lr_policy: "fixed"
display: 20
average_loss: 20
max_iter: 1000
snapshot_after_train: false
random_seed: 1
END
run() {
    name=$1
    shift
    POSEIDON_MPI_TIMEOUT=3000 "$top/tests/mpirun.sh" "$ranks" "$poseidon" train --solver=$folder/solver.prototxt \
        --global-batch=100 "$@" >"$folder/$name.log" 2>&1
    echo "$name: $(sed -n 's/.*accuracy = //p' "$folder/$name.log" | tail -n 1)"
}
run synchronous --comm=ps
run bf16 --comm=allreduce --wire=bf16
run adam --comm=adam
run 1-bit --comm=onebit
run staleness-1 --comm=ps --tune=staleness=1
run staleness-3 --comm=ps --tune=staleness=3
"$top/jobs/report.py" --curves="$out" --force $folder/synchronous.log $folder/bf16.log $folder/adam.log $folder/1-bit.log \
    $folder/staleness-1.log $folder/staleness-3.log
