#!/bin/sh
# train --dry-run on one and two ranks: it says what would be trained, and whether it can be; nothing is trained, nothing
# is written.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_net net.prototxt
make_solver solver.prototxt 'max_iter: 250' 'snapshot: 100' 'snapshot_prefix: "run/s"' 'test_iter: 2' 'test_interval: 100'
mkdir run

# dry RANKS STATUS NAME OPTION...: standard output in dry.out, the log in dry.err
dry() {
    ranks=$1 expected=$2 name=$3
    shift 3
    "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" train --dry-run --solver=solver.prototxt "$@" >dry.out 2>dry.err </dev/null
    status=$?
    [ $status -eq "$expected" ] || fail "$name: status $status, expected $expected: $(tail -n 3 dry.err)"
    [ -z "$(ls run)" ] || fail "$name: left $(ls run)"
    grep -q 'Iteration 0' dry.err && fail "$name: trained"
}

# says REGEX, at the beginning of a line of dry.out
says() {
    grep -E -q "^$1" dry.out || fail "$name: expected '$1', found: $(cat dry.out)"
}

# refuses REGEX, in the message
refuses() {
    [ "$(grep -c '^poseidon train: ' dry.err)" -eq 1 ] || fail "$name: not one message: $(cat dry.err)"
    grep -E -q "^poseidon train: .*$1" dry.err || fail "$name: expected '$1', found $(grep '^poseidon train' dry.err)"
    grep -q '^verdict' dry.out && fail "$name: ready to train after all"
}

dry 1 0 'one rank'
says 'training +solver.prototxt: iterations 0 to 250 of 64 samples \(1 worker x 64\)'
says ' +250 iterations of 64 = 1.333 epochs of 12000 records'
says "net +.*net.prototxt: 9 layers, 431080 parameters"
says "train data +layer 'fashion': .*fashion-mnist-train.h5, 12000 records of 1 x 28 x 28 bytes"
says "test data +layer 'fashion': .*fashion-mnist-test.h5, 2000 records of 1 x 28 x 28 bytes"
says ' +labels 0 to 9; first 9, last 2'
says "weights +by the net's fillers, seed 1"
says 'snapshots +run/s_iter_\*: 3 of 3.45 MB each; .* free'
says 'plan +one worker, nothing is sent'
says 'memory +rank 0 holds [0-9.]+ MB: net [0-9.]+ MB, communication 0 B'
says 'host +[^ ]+: 1 rank from rank 0 on, .* on cores .*; [0-9.]+ MB of memory held, .* left'
says 'verdict +ready to train'
grep 'num_output is' dry.err && fail 'the images of data/ have other classes than LeNet has outputs'

sed 's/num_output: 10/num_output: 1000/' net.prototxt >wide.prototxt
sed 's/net.prototxt/wide.prototxt/' solver.prototxt >wide.solver
dry 1 0 'more scores than labels' --solver=wide.solver
says " +layer '[a-z]*' has 1000 scores for 10 labels"

first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
last=$(taskset -cp $$ | sed 's/.*[-, ]//')
if [ "$first" != "$last" ]; then # each bound to a core of its own
    # shellcheck disable=SC2016 # for the inner shell
    "$POSEIDON_MPIRUN" 2 sh -c 'core=$1; [ "$OMPI_COMM_WORLD_RANK" = 0 ] || core=$2
        shift 2; exec taskset -c "$core" "$@"' sh "$first" "$last" \
        "$POSEIDON" train --dry-run --solver=solver.prototxt >dry.out 2>dry.err </dev/null || fail "bound ranks: $(tail -n 3 dry.err)"
    says "host +[^ ]+: 2 ranks from rank 0 on, 1 compute thread each on cores $first,$last; "
fi

dry 2 0 'two ranks' --comm=paper --batch=32 --keep=1
says 'training .* of 64 samples \(2 workers x 32\)'
says 'snapshots .*: 1 of'
says 'plan +3 layers by PS, 1 layer by SFB, [0-9]+ kB sent by rank 0 an iteration'
says 'host +[^ ]+: 2 ranks from rank 0 on'
says 'verdict +ready to train'

# weights and states
train 2 train.log --solver=solver.prototxt --max-iter=2 --batch=8 --snapshot-prefix="$work/w"
dry 2 0 'weights' --weights="$work/w_iter_2.caffemodel.h5"
says 'weights +.*w_iter_2.caffemodel.h5'
dry 2 0 'a state' --snapshot="$work/w_iter_2.solverstate.h5"
says 'training .*iterations 2 to 250'
says 'weights +of run .* after iteration 2'
dry 2 1 'a finished run' --snapshot="$work/w_iter_2.solverstate.h5" --max-iter=2
refuses "not ready to train: nothing is left to do: the snapshot has reached max_iter"

# figures of the cluster are measured, or taken from their file, which stays as it is
dry 2 0 'a new file of figures' --tune=cluster-file=figures
[ ! -e figures ] || fail 'a dry run wrote its figures of the cluster'
train 2 figures.log --solver=solver.prototxt --max-iter=1 --batch=8 --tune=cluster-file=figures --snapshot-prefix="$work/w"
cp figures before || fail "a run keeps no figures of the cluster: $(tail -n 3 figures.log)"
dry 2 0 'known figures' --tune=cluster-file=figures
grep -q 'Measured this cluster' dry.err && fail 'a dry run measures what is known'
dry 2 0 'measured anew' --tune=cluster-file=figures --tune=measure
dry 3 0 'figures of other ranks' --tune=cluster-file=figures --batch=8
grep -q 'Measured this cluster' dry.err || fail 'a dry run takes the figures of other ranks'
cmp -s figures before || fail 'a dry run changed the figures of the cluster'

# not fit, for one reason and for two
sed '/"ip2"/,/^}/s/num_output: 10/num_output: 5/' net.prototxt >small.prototxt
dry 1 1 'classes beyond the scores' --set "net='small.prototxt'"
refuses "num_output is 5, but .*train.h5 has 10 classes \('T-shirt/top' to 'Ankle boot'\); expected num_output: 10 here"
LC_ALL=C sed 's/classes/nothing/' "$abs_top_srcdir/data/fashion-mnist-train.h5" >train.h5 # the same without names
sed -i "s|source: .*h5|source: \"$work/train.h5|" small.prototxt
dry 2 1 'labels beyond the scores' --set "net='small.prototxt'"
says 'host '
refuses 'labels of .*train.h5 are 0 to 9, but layer .loss. has 5 scores: expected whole numbers from 0 to 4'
sed 's/param { lr_mult: [12]\(.*\)}/param { lr_mult: 0\1}/; s/lr_mult: [12]/lr_mult: 0/' net.prototxt >still.prototxt
dry 1 1 'nothing trains' --set "net='still.prototxt'" --set snapshot=1 --max-iter=20000000
refuses 'nothing trains: every lr_mult of the net is 0.*; the disk of snapshot_prefix has .* left, too little for 20000000 snapshots of 3.45 MB'
sed '/"SoftmaxWithLoss"/a\  loss_weight: 0' net.prototxt >aimless.prototxt
dry 1 1 'no loss' --set "net='aimless.prototxt'"
refuses 'aimless.prototxt: the net has no loss: no layer of the TRAIN phase has a loss_weight'
sed 's/name: "conv2"/name: "conv1"/' net.prototxt >twins.prototxt
sed '/^test_/d; s/net.prototxt/twins.prototxt/' solver.prototxt >twins.solver # a test net could not tell them apart
for dry in '' --dry-run; do
    name="two layers of one name $dry"
    # shellcheck disable=SC2086 # none or one
    "$POSEIDON_MPIRUN" 2 "$POSEIDON" train --solver=twins.solver $dry >dry.out 2>dry.err </dev/null && fail "$name: taken"
    refuses "twins.prototxt:[0-9]+: layer 'conv1': another layer of this name \(line [0-9]+\) has parameters too, and a snapshot holds one layer of a name"
done
dry 1 0 'two layers of one name, and no snapshots' --solver=twins.solver --set snapshot=0 --set snapshot_after_train=false
# labels of DummyData: whole numbers are made of them, as Caffe's losses do, and constants are compared with the scores
made_up() { # FILLER
    cat >made_up.prototxt <<END
layer { name: "d" type: "DummyData" top: "data" top: "label" dummy_data_param { shape { dim: 4 dim: 6 } shape { dim: 4 } $1 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TRAIN } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
END
    echo "net: 'made_up.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 display: 1 snapshot_after_train: false random_seed: 3" >made_up.solver
    train 2 made_up.log --solver=made_up.solver --summary=made_up.json
}
for value in 0.01 4.9; do
    made_up "data_filler { type: 'constant' value: $value }" || { fail "labels of $value"; tail -n 2 made_up.log; }
    cut=$(hash_of made_up.json)
    grep -q "layer 'd': 'label' is read as labels, so the filler's values are cut to whole numbers" made_up.log || fail "labels of $value are cut without a word"
    dry 1 0 "labels of $value" --solver=made_up.solver
    made_up "data_filler { type: 'constant' value: $value } data_filler { type: 'constant' value: ${value%.*} }"
    grep -q "is read as labels" made_up.log && fail "whole labels are cut"
    [ "$(hash_of made_up.json)" = "$cut" ] || fail "labels of $value train as others than ${value%.*}"
done
made_up "data_filler { type: 'uniform' min: 0 max: 5 }" || { fail 'random labels'; tail -n 2 made_up.log; }
for value in 5 -1; do
    made_up "data_filler { type: 'constant' value: 1 } data_filler { type: 'constant' value: $value }" && fail "labels of $value train"
    dry 1 1 "labels of $value" --solver=made_up.solver
    refuses "layer 'd' .DummyData.: data_filler value: label $value of 'label' is outside 0..4 .the scores have 5 classes."
done
# a blob that several layers read has its own name in messages, not that of a copy
made_up "data_filler { type: 'constant' value: 1 }"
sed -i 's/"SoftmaxWithLoss"/"EuclideanLoss"/' made_up.prototxt
dry 1 1 'a blob with several readers' --solver=made_up.solver
refuses "layer 'loss' .EuclideanLoss.: expected two bottoms of equally many samples and elements: 'ip' is 4 5 .20., 'label' is 4"
# little KB NAME: a dry run where so much memory is left
little() {
    name=$2
    printf 'MemTotal:       24000000 kB\nMemAvailable:    %s kB\n' "$1" >little
    # shellcheck disable=SC2016 # for the inner shell
    unshare -m sh -c 'mount --bind little /proc/meminfo && exec "$0" "$@"' \
        "$POSEIDON_MPIRUN" 1 "$POSEIDON" train --dry-run --solver=solver.prototxt >dry.out 2>dry.err </dev/null
}
echo >little
if unshare -m mount --bind little /proc/meminfo 2>/dev/null; then
    little 30000 'little memory'
    refuses 'host .* has 30.7 MB of memory left beside the [0-9.]+ MB that its 1 rank holds .start fewer ranks there, or make the batch smaller'
    little 1024 'less memory'
    refuses "not ready to train: the net's 431080 parameters, their gradients and the solver's history take at least 5.17 MB on host .* with its 1 rank, but only 1.05 MB of memory is left"
    little 8000 'no memory for blobs'
    refuses "not ready to train: the net's blobs need [0-9.]+ MiB at batch 64, and [0-9.]+ MiB are free: about batch [0-9]+ would fit: nothing was allocated"
else
    echo 'left out: a machine with little memory (needs the right to mount)'
fi

# Limits of a process and of a job: a dry run and a training refuse a net before they allocate it, and name what is free.
cat >limited.prototxt <<END
layer { name: 'data' type: 'DummyData' top: 'data' include { phase: TRAIN }
  dummy_data_param { shape { dim: [1, 1] } } }
layer { name: 'data' type: 'DummyData' top: 'data' include { phase: TEST }
  dummy_data_param { shape { dim: [3000, 1] } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 480000 } }
layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 }
END
echo "net: 'limited.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1
snapshot_after_train: false" >limited.solver
# limited MIB SHELL-COMMAND: the command sets that limit
limited() {
    for how in --dry-run --force; do
        name="$2, $how"
        sh -c "$2"' && exec "$@"' sh "$POSEIDON" train --solver=limited.solver --threads=1 $how >dry.out 2>dry.err </dev/null
        status=$?
        [ $status -eq 1 ] || fail "$name: status $status: $(tail -n 3 dry.err)"
        refuses "the net's blobs need [0-9.]+ MiB at batch 3000, and [0-9.]+ MiB are free: about batch [0-9]+ would fit: nothing was allocated"
        free=$(sed -n 's/.* and \([0-9]*\)[0-9.]* MiB are free.*/\1/p' dry.err)
        [ "${free:-0}" -gt 50 ] && [ "${free:-0}" -lt "$1" ] || fail "$name: $free MiB are free of $1"
    done
}
# The commands that run a net without a solver refuse parameters, what operators keep, and blobs.
cat >wide.prototxt <<END
layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: [1, 270000] } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 1000 } }
END
cat >deep.prototxt <<END
layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: [1, 3400, 20, 20] } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 4000 kernel_size: 3 } }
END
cat >photo.prototxt <<END
input: 'data' input_shape { dim: [1, 3, 3000, 3000] }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 32 kernel_size: 3 } }
layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool' pooling_param { pool: AVE global_pooling: true } }
layer { name: 'p' type: 'Softmax' bottom: 'pool' top: 'p' }
END
# refused PATTERN COMMAND...: on $ranks ranks within the limit that the shell command $limit sets
refused() {
    pattern=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    if [ $ranks -eq 1 ]; then
        sh -c "$limit"' && exec "$@"' sh "$POSEIDON" "$@" --threads=1 >dry.out 2>dry.err </dev/null
    else
        "$POSEIDON_MPIRUN" $ranks sh -c "$limit"' && exec "$@"' sh "$POSEIDON" "$@" --threads=1 >dry.out 2>dry.err
    fi
    status=$?
    [ $status -eq 1 ] || fail "$limit, $1: status $status: $(tail -n 3 dry.err)"
    grep -E -q "^poseidon $1: (rank [0-9]+ .*: )?$pattern" dry.err || fail "$limit, $1: expected '$pattern', found $(tail -n 3 dry.err)"
}
blobs='out of memory: [0-9]+ bytes for the arena of blobs'
limited_commands() {
    limit=$1 ranks=1
    blobs_of_3000="the net's blobs need [0-9.]+ MiB at batch 3000, and [0-9.]+ MiB are free: about batch [0-9]+ would fit: $blobs"
    refused "$blobs_of_3000" test --model=limited.prototxt --iterations=1 --weights="$work/w_iter_2.caffemodel.h5"
    refused "$blobs_of_3000" time --model=limited.prototxt --phase=TEST
}
limited_group() { # of 900 MB
    limited_commands "$1"
    refused "$blobs_of_3000" extract --model=limited.prototxt --blobs=ip --weights="$work/w_iter_2.caffemodel.h5" features.h5
    # two ranks, each of which would fit alone: the kernel would end one of them
    sed 's/3000, 1/260, 1/' limited.prototxt >shared.prototxt
    ranks=2
    refused "the net's blobs need [0-9.]+ MiB at batch 260, and [0-9.]+ MiB are free: .* would fit: nothing was allocated" \
        test --model=shared.prototxt --iterations=2 --weights="$work/w_iter_2.caffemodel.h5"
    ranks=1
    refused "out of memory: [0-9]+ bytes for the parameters, and the limits of this process and its job leave [0-9.]+ MB" \
        time --model=wide.prototxt --phase=TEST
    refused "deep.prototxt:2: layer 'conv' .Convolution.: out of memory: [0-9]+ bytes for a copy of weights, and the limits" \
        time --model=deep.prototxt --phase=TEST
    refused "the net's blobs need [0-9.]+ MiB at batch 1, and [0-9.]+ MiB are free: not even batch 1 would fit: $blobs" \
        classify --model=photo.prototxt --weights="$work/w_iter_2.caffemodel.h5" "$abs_top_srcdir/tests/data/input/images/color.png"
}
if sanitized; then
    echo 'left out: limits of a process (the sanitizer takes terabytes of addresses)'
else
    limited 4000 'ulimit -v 4096000'
    limited_commands 'ulimit -v 4096000'
fi
group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/poseidon-$$ file=memory.limit_in_bytes
[ -d "${group%/*}" ] || group=/sys/fs/cgroup/poseidon-$$ file=memory.max
if mkdir "$group" 2>/dev/null && echo 900M >"$group/$file"; then
    mkdir "$group/step" # of the job: its own limit is none
    limited 900 "echo \$\$ >$group/step/cgroup.procs"
    limited_group "echo \$\$ >$group/step/cgroup.procs"
    left=100 # tries: the kernel lets go of a process after its end is known
    until rmdir "$group/step" 2>/dev/null || [ $((left -= 1)) -eq 0 ]; do sleep 0.05; done
else
    echo 'left out: limits of a job (needs the right to make a control group of memory)'
fi
[ ! -d "$group" ] || rmdir "$group"

# nets that fit no machine end with a verdict, and take none of its memory: 400 layers of 8 GB, or of as much input
giant() { # SIDE BATCH OUTPUTS [WEIGHT]: all layers share a weight of that name
    for i in $(seq 400); do
        echo "layer { name: 'data$i' type: 'DummyData' top: 'data$i' top: 'label$i' dummy_data_param {
  shape { dim: [$2, 3, $1, $1] } shape { dim: $2 } } }
layer { name: 'ip$i' type: 'InnerProduct' bottom: 'data$i' top: 'ip$i' param { name: '${4:-weight$i}' } inner_product_param { num_output: $3 } }
layer { name: 'loss$i' type: 'SoftmaxWithLoss' bottom: 'ip$i' bottom: 'label$i' }"
    done >giant.prototxt
}
echo "net: 'giant.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'run/s'" >giant_solver.prototxt
sanitized && echo 'left out: nets that fit no machine (the sanitizer describes their memory, which takes it)'
for ranks in 1 2; do
    sanitized && break
    giant 512 1 2500
    dry $ranks 1 'giant parameters' --solver=giant_solver.prototxt
    refuses "not ready to train: the net's 786433000000 parameters, .* take at least [0-9.]+ TB on host .* with its $ranks rank.*, but only .* of memory is left"
    giant 1000 700 2 weight
    dry $ranks 1 'a giant batch' --solver=giant_solver.prototxt
    refuses "not ready to train: the net's blobs need [0-9.]+ MiB at batch 700, and .* are free: (about|not even) batch [0-9]+ would fit: nothing was allocated"
done

# a model that other programs' protobuf would refuse is told of before training; replayed, its parameters take no memory
large() { # OUTPUTS: parameters of 33001 each
    echo "layer { name: 'data' type: 'DummyData' top: 'data' top: 'label' dummy_data_param { shape { dim: [1, 33000] } shape { dim: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: $1 } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }" >large.prototxt
}
echo "net: 'large.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'run/s'" >large.solver
printf 'layer,type,forward_s,backward_s\ndata,DummyData,0,0\nip,InnerProduct,0.001,0.001\nloss,SoftmaxWithLoss,0,0\n' >large.csv
exceeds='large.solver: a .caffemodel of this net exceeds 2 GB, more than Caffe and other programs take; snapshot_format: HDF5 has no such limit'
large 16268
dry 1 0 'the largest binary model' --solver=large.solver --engine=replay --tune=profile=large.csv
grep -q 'exceeds 2 GB' dry.err && fail "$name: exceeds 2 GB"
large 16269
dry 1 0 'a larger one' --solver=large.solver --engine=replay --tune=profile=large.csv
grep -q "$exceeds" dry.err || fail "$name: nothing is said of 2 GB: $(cat dry.err)"
dry 1 0 'a larger one in HDF5' --solver=large.solver --engine=replay --tune=profile=large.csv --set snapshot_format=HDF5
grep -q 'exceeds 2 GB' dry.err && fail "$name: exceeds 2 GB"

# a rate at which nothing arrives, whether anything is trained or not
dry 2 1 'a slow trickle' --comm=ps --tune=bandwidth-mbps=0.001
refuses '--tune=bandwidth-mbps=0.001: rank 0 sends 1.72 MB an iteration, which takes 13795 s at that rate; expected at least 0.023, at which it takes 10 minutes'

# schemes are chosen for the rate that is left, not for that of the links
cat >fast.cluster <<END
ranks = 2
ranks_per_node = 2
latency_seconds = 2.7e-05
message_seconds = 1.3e-05
link_bytes_per_second = 1e9
local_bytes_per_second = 1e9
gemm_flops = 17e9
copy_bytes_per_second = 1e9
sum_bytes_per_second = 1.3e9
served_bytes_per_second = 0
transport_bytes_per_second = 1.1e9
core_share = 0
END
dry 2 0 'fast links' --batch=32 --tune=cluster-file=fast.cluster
says 'plan +4 layers by PS, 1.72 MB sent by rank 0 an iteration'
dry 2 0 'slow ones by order' --batch=32 --tune=cluster-file=fast.cluster --tune=bandwidth-mbps=200
says 'plan +3 layers by PS, 1 layer by SFB, [0-9]+ kB sent by rank 0 an iteration'

# --epochs: so many iterations that the last one begins before the passes are over, also with a rank that only serves
dry 2 0 'epochs' --epochs=1.5 --batch=50 --set max_iter=7
says 'training +solver.prototxt: iterations 0 to 180 of 100 samples'
says ' +180 iterations of 100 = 1.5 epochs of 12000 records'
dry 2 0 'epochs with a server' --epochs=0.1 --servers=1 --batch=7
says ' +172 iterations of 7 = 0.1003 epochs of 12000 records'
dry 1 1 'too many epochs' --epochs=1e9
refuses '--epochs=1e\+09 of 12000 records are 1.875e\+11 iterations of 64; at most 2147483647 can be counted'
dry 1 1 'epochs without records' --epochs=1 --engine=replay
refuses '--epochs=1: the number of training records is not known; give --max-iter=N'

# what set-up refuses stays refused, and what a dry run cannot give is said
dry 2 1 'no folder' --snapshot-prefix=nowhere/s
refuses "Cannot write to snapshot prefix 'nowhere/s'"
for given in --summary=- --summary=s.json --trace=t.json --tune=log=l.jsonl --curves=c.csv --curves=events; do
    dry 1 1 "$given" "$given"
    refuses "--dry-run trains nothing: not with ${given%=*}\$"
done
for left in s.json t.json l.jsonl c.csv events; do
    [ ! -e $left ] || fail "a dry run wrote $left"
done
finish
