#!/bin/sh
# --reproducible: one hash of the parameters, and the same losses, outputs, norms and test scores to all digits that
# are printed, at any number of ranks, threads and nodes, with any exchange of whole gradients, and through a resume at
# another number of ranks; for LeNet, a net with BatchNorm, and one with dropout. Without it the same runs differ.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 4' 'display: 1' 'clip_gradients: 0.1' 'test_iter: 2' 'test_interval: 2' \
    'average_loss: 3' 'snapshot: 2' "snapshot_prefix: \"$work/at\""

# behind LAYER TEXT: the layer of that name is followed by another one
behind() {
    awk -v name="name: \"$1\"" -v more="$2" '{ print } index($0, name) { here = 1 }
        /^}/ && here { print more; here = 0 }' net.prototxt >longer && mv longer net.prototxt
}

grain= math=
# run NAME RANKS OPTION...: all that is said of numbers into NAME.said
run() {
    name=$1 ranks=$2
    shift 2
    train "$ranks" "$name.log" --solver=solver.prototxt --global-batch=24 "--reproducible$grain" \
        --summary="$name.json" $math "$@" || {
        fail "$net: $name did not train: $(tail -n 3 "$name.log")"
        return
    }
    grep -E 'loss = |accuracy = |L2 norm' "$name.log" | sed 's/^[^]]*\] //; s/ (.* iters)//' >"$name.said"
    hash_of "$name.json" >>"$name.said"
}

# equal NAME RANKS OPTION...: as one rank
equal() {
    run "$@"
    cmp -s one.said "$1.said" || fail "$net: $* is not as one rank: $(diff one.said "$1.said" | head -n 4)"
}

# a few layouts of each net, which differ in all that may
layouts() {
    run one 1 --threads=1
    [ "$(wc -l <one.said)" -ge 19 ] || fail "$net: little is said: $(cat one.said)"
    "$@"
    if [ -n "${POSEIDON_ALL:-}" ]; then
        equal threads 1 --threads=2
        for many in 2 3 4 7 8; do
            for comm in ps allreduce auto; do
                for threads in 1 2; do
                    equal "$comm-$many-$threads" "$many" --comm=$comm --threads=$threads
                    equal "$comm-$many-$threads-servers" $((many + 2)) --comm=$comm --threads=$threads --servers=2
                    equal "$comm-$many-$threads-nodes" "$many" --comm=$comm --threads=$threads --hierarchy=2
                    equal "$comm-$many-$threads-four" "$many" --comm=$comm --threads=$threads --hierarchy=4
                done
            done
        done
    fi
    # two iterations on four ranks, two more on three, whose shares differ
    train 4 half.log --solver=solver.prototxt --global-batch=24 --reproducible --run=half --max-iter=2 --threads=1 ||
        fail "$net: two iterations: $(tail -n 3 half.log)"
    train 3 rest.log --solver=solver.prototxt --reproducible --run=half --resume --summary=rest.json --threads=1 || fail "$net: resumed: $(tail -n 3 rest.log)"
    same "$net: resumed" "$(hash_of one.json)" "$(hash_of rest.json)"
}

lenet() {
    equal ps-2 2 --threads=2 --comm=ps --tune=chunk=40k
    equal auto-4 4 --threads=1
    equal unlike-3-1 2 --threads=2 --comm=ps --balance=3,1 --tune=chunk=40k
    equal unlike-2-1-1 3 --threads=1 --balance=2,1,1
    equal unlike-5-3 3 --threads=1 --comm=ps --balance=5,3 --servers=1
    equal allreduce-8-nodes 8 --threads=1 --comm=allreduce --hierarchy=2
}
net=LeNet
layouts lenet
# six grains
grain='=4'
run one 1 --threads=1
equal ps-3 3 --threads=1 --comm=ps
equal allreduce-6 6 --threads=1 --comm=allreduce
equal unlike-5-1 2 --threads=1 --comm=allreduce --balance=5,1
equal unlike-1-3-2 3 --threads=1 --balance=1,3,2
grain=
for many in 1 2; do
    train "$many" plain.log --solver=solver.prototxt --global-batch=24 --summary="plain-$many.json" --threads=1
done
[ "$(hash_of plain-1.json)" != "$(hash_of plain-2.json)" ] || fail 'without the option there is nothing to mend'

batch_norm() {
    equal threads 1 --threads=2
    equal ps-2-servers 4 --threads=1 --comm=ps --servers=2
    equal auto-8 8 --threads=1
    equal unlike-1-5-2 3 --threads=1 --comm=allreduce --balance=1,5,2
    equal nodes-4 4 --threads=1 --comm=ps --hierarchy=2
    equal often-2 2 --threads=1 --set snapshot=1
}
net=BatchNorm
# a convolution whose weights' gradient oneDNN sums by threads
sed -i '/name: "conv2"/,/top/s/"pool1"/"thin"/' net.prototxt
behind pool1 'layer { name: "thin" type: "Convolution" bottom: "pool1" top: "thin" convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }'
behind conv1 'layer { name: "norm" type: "BatchNorm" bottom: "conv1" top: "conv1" batch_norm_param { moving_average_fraction: 0.9 } }
layer { name: "scale" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }'
layouts batch_norm
# blobs of bfloat16
floats=$(hash_of one.json) math=--math=bf16
run one 1 --threads=1
[ "$(hash_of one.json)" != "$floats" ] || fail 'bfloat16 gives the bits of floats'
batch_norm
math=

dropout() {
    equal allreduce-4 4 --threads=1 --comm=allreduce
    equal unlike-3-5 2 --threads=1 --balance=3,5
    equal ps-8-server 9 --threads=1 --comm=ps --servers=1
}
net=dropout
make_net net.prototxt
behind relu1 'layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 0.4 } }'
sed -i 's/scale: 0.00390625/mirror: true &/' net.prototxt
layouts dropout

# what such a rank sends is what is planned
bytes() { tr -d ' \n' <unlike-3-5.json | sed "s/.*\"bytes_$1_per_iteration_by_rank\":\[\([^]]*\)\].*/\1/"; }
same 'bytes of unlike shares' "$(bytes predicted)" "$(bytes sent)"
train 2 unlike.log --solver=solver.prototxt --global-batch=24 --reproducible --balance=3,1 --hierarchy=2 && fail 'nodes of unlike shares'
grep -q '^poseidon train: .*--hierarchy=2: .*: unlike shares with --reproducible give every rank sums' unlike.log ||
    fail "nodes of unlike shares: $(tail -n 1 unlike.log)"
train 4 uneven.log --solver=solver.prototxt --global-batch=24 --reproducible --hierarchy=3 && fail 'nodes of 3 and 1'
grep -q '^poseidon train: .*--hierarchy=3: with --reproducible every node must have the same number of consecutive ranks' uneven.log ||
    fail "nodes of 3 and 1: $(tail -n 1 uneven.log)"
finish
