#!/bin/sh
# train --fake-data: nets train on made-up samples where their data is not, by their own shapes; labels are classes of
# the net; nothing is tested, saved or read.
. "$abs_top_srcdir/tests/mpi/common.sh"

# net LAYERS: a net that learns 3 classes of what these give, into net.prototxt
net() {
    printf '%s\n' "$1" >net.prototxt
    cat >>net.prototxt <<'END'
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
END
}

# learns NAME RANKS SHAPE: the made-up samples by heart, from a loss of 3 classes or more; leaves nothing behind
learns() {
    name=$1
    train "$2" "$name.log" --solver=solver.prototxt --fake-data --summary="$name.json" || fail "$name: $(tail -n 3 "$name.log")"
    all_losses "$name.log" >losses
    awk 'NR == 1 { first = $2 } { last = $2 } END { exit !(NR == 5 && last < 0.1 && first > 0.5) }' losses ||
        fail "$name: losses $(cat losses)"
    same "$name: made up" true "$(json_value "$name.json" fake_data)"
    grep -q 'made-up samples; no data is read' "$name.log" || fail "$name: not said"
    grep -q 'Test net output\|Snapshotting' "$name.log" && fail "$name: tests or snapshots"
    [ -z "$(ls run)" ] || fail "$name: left $(ls run)"
    "$POSEIDON" train --solver=solver.prototxt --fake-data --dry-run >dry.out 2>&1 || fail "$name: $(tail -n 1 dry.out)"
    grep -q "^train data  layer 'data': made up, $3, the same" dry.out || fail "$name: $(cat dry.out)"
    grep -q '^verdict     ready to train' dry.out || fail "$name: $(cat dry.out)"
}

mkdir run
make_solver solver.prototxt 'max_iter: 80' 'display: 20' 'test_iter: 2' 'test_interval: 10' 'snapshot: 20' \
    'snapshot_prefix: "run/s"' 'lr_policy: "fixed"' 'weights: "absent.caffemodel"'
net 'layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.0078125 crop_size: 6
  mean_file: "absent.h5" } data_param { source: "absent" batch_size: 6 } }'
learns crop 1 '6 x 3 x 6 x 6'
learns crop-2 2 '6 x 3 x 6 x 6'
net 'layer { name: "data" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 6 dim: 2 dim: 5 dim: 5 } shape { dim: 6 } } }'
learns input 1 '6 x 2 x 5 x 5'
net 'layer { name: "data" type: "ImageData" top: "data" top: "unused" transform_param { scale: 0.0078125 }
  image_data_param { source: "absent" batch_size: 6 new_height: 7 new_width: 5 } }
layer { name: "more" type: "HDF5Data" top: "label" hdf5_data_param { source: "absent" batch_size: 6 } include { phase: TEST } }
layer { name: "other" type: "MemoryData" top: "second" top: "label"
  memory_data_param { batch_size: 6 channels: 1 height: 2 width: 2 } include { phase: TRAIN } }
layer { name: "silence" type: "Silence" bottom: "unused" bottom: "second" }'
learns two 1 '6 x 3 x 7 x 5'

# A shape that nothing tells is assumed and said, or given; the data's own is taken where it is there.
net 'layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "absent" batch_size: 6 } }'
"$POSEIDON" train --solver=solver.prototxt --fake-data --dry-run >dry.out 2>&1 || fail "assumed: $(tail -n 1 dry.out)"
grep -q 'assuming images of 3 channels, 224 x 224 pixels; --fake-data=C,H,W says otherwise' dry.out || fail "$(cat dry.out)"
"$POSEIDON" train --solver=solver.prototxt --fake-data=1,9,8 --dry-run >dry.out 2>&1 || fail "given: $(tail -n 1 dry.out)"
grep -q 'made up, 6 x 1 x 9 x 8' dry.out || fail "given: $(cat dry.out)"
grep -q 'assuming' dry.out && fail "given: $(cat dry.out)"
make_net net.prototxt
"$POSEIDON" train --solver=solver.prototxt --fake-data --dry-run --batch=7 >dry.out 2>&1 || fail "$(tail -n 1 dry.out)"
grep -q "made up, 7 x 1 x 28 x 28" dry.out || fail "of the data: $(cat dry.out)"

# nets that are shipped, without their data
cd "$abs_top_srcdir" || exit 1
for model in cifar10_full mobilenet_v1 squeezenet_v1.1; do
    "$POSEIDON" train --solver=models/$model/solver.prototxt --fake-data --batch=1 --max-iter=1 --threads=1 \
        >"$work/shipped.log" 2>&1 || fail "$model: $(tail -n 2 "$work/shipped.log")"
done
cd "$work" || exit 1
# a shape that was assumed, and that is not the one that the layers expect
cat >net.prototxt <<'END'
layer { name: "data" type: "Data" top: "data" data_param { source: "absent" batch_size: 2 } }
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 784 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "flat" top: "loss" }
END
train 1 assumed.log --solver=solver.prototxt --fake-data --max-iter=1 && fail 'another shape is accepted'
tr '\n' ' ' <assumed.log | grep -q "layer 'data': assuming images of 3 channels, 224 x 224 .*--fake-data=C,H,W.* layer 'loss' (EuclideanLoss): " ||
    fail "assumed: $(cat assumed.log)"
train 1 given.log --solver=solver.prototxt --fake-data=1,28,28 --max-iter=1 || fail "given: $(tail -n 3 given.log)"
finish
