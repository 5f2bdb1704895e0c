#!/bin/sh
# --comm=lowrank: the gradient of a fully connected layer over two samples has rank 2, and by factors of rank 4 nothing of
# it is lost: the losses are those of --comm=ps within rounding. By rank 1 they differ, and what is lost comes later, so that
# training ends as well. While it warms up it is exact to the bit.
. "$abs_top_srcdir/tests/mpi/common.sh"
cat >net.prototxt <<END
name: 'rows'
layer { name: 'in' type: 'Data' top: 'x' top: 'y' include { phase: TRAIN } transform_param { scale: 0.00390625 }
    data_param { source: '$abs_top_srcdir/data/fashion-mnist-train.h5' batch_size: 8 } }
layer { name: 'in' type: 'Data' top: 'x' top: 'y' include { phase: TEST } transform_param { scale: 0.00390625 }
    data_param { source: '$abs_top_srcdir/data/fashion-mnist-test.h5' batch_size: 100 } }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'x' top: 'h' inner_product_param { num_output: 64 weight_filler { type: 'xavier' } } }
layer { name: 'ip2' type: 'InnerProduct' bottom: 'h' top: 's' inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' include { phase: TRAIN } }
layer { name: 'score' type: 'Accuracy' bottom: 's' bottom: 'y' top: 'accuracy' include { phase: TEST } }
END
make_solver solver.prototxt 'max_iter: 40' 'display: 1' 'snapshot_after_train: false' 'lr_policy: "fixed"' 'momentum: 0' \
    'test_iter: 20' 'test_interval: 300' 'test_initialization: false'

# The furthest that the losses of two runs are apart, of 1.
apart() {
    all_losses "$1.log" >one
    all_losses "$2.log" >other
    paste one other | awk '{ d = ($2 - $4) / $4; d = d < 0 ? -d : d; if (d > most) most = d } END { print (NR > 30 ? most + 0 : 1) }'
}

below() { # NUMBER NUMBER
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'
}

solved ps 2 --threads=1 --batch=1 --comm=ps --hierarchy=off
solved full 2 --threads=1 --batch=1 --comm=lowrank:4 --tune=lowrank-warmup=0 --hierarchy=off
solved half 2 --threads=1 --batch=1 --comm=lowrank:1 --tune=lowrank-warmup=0 --hierarchy=off
echo "losses of 2 samples: by rank 4 $(apart full ps), by rank 1 $(apart half ps) from those of ps"
below "$(apart full ps)" 1e-4 || fail 'by rank 4 the losses are not those of ps'
below 1e-2 "$(apart half ps)" || fail 'by rank 1 nothing is lost'

# All is exact until it begins: the parameters are those of ps, by the same sums and the same rule.
solved ps 3 --threads=1 --batch=8 --comm=ps --hierarchy=off
solved warm 3 --threads=1 --batch=8 --comm=lowrank:1 --tune=lowrank-warmup=40 --hierarchy=off
solved cold 3 --threads=1 --batch=8 --comm=lowrank:1 --tune=lowrank-warmup=39 --hierarchy=off
[ "$(hash_of warm.json)" = "$(hash_of ps.json)" ] || fail 'while it warms up the parameters are not those of ps'
[ "$(hash_of cold.json)" != "$(hash_of ps.json)" ] || fail 'it does not begin when its warm-up is over'

# In the end it has learnt as much: what it lost came later.
solved ps 2 --threads=1 --batch=16 --max-iter=300 --comm=ps --hierarchy=off
solved low 2 --threads=1 --batch=16 --max-iter=300 --comm=lowrank:1 --hierarchy=off
exact=$(sed -n 's/.*: accuracy = //p' ps.log | tail -n 1) low=$(sed -n 's/.*: accuracy = //p' low.log | tail -n 1)
echo "test accuracy: ps $exact, rank 1 $low"
below 0.5 "$exact" || fail "ps has learnt nothing: '$exact'"
below "$(awk -v a="$exact" 'BEGIN { print a - 0.03 }')" "$low" || fail "by rank 1 the accuracy is '$low'"

# By two nodes of two ranks, and again in another order: the same bits, on all ranks.
solved node 4 --threads=1 --batch=4 --comm=lowrank --tune=lowrank-warmup=3 --hierarchy=2 --tune=check-sync=5
solved again 4 --threads=1 --batch=4 --comm=lowrank --tune=lowrank-warmup=3 --hierarchy=2 --tune=overlap=none
[ "$(hash_of node.json)" = "$(hash_of again.json)" ] || fail 'two runs of two nodes differ'
finish
