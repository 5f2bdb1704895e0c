#!/bin/sh
# What export writes, as protoc decodes it by our schema, and what it refuses. No Python: test_onnx.py runs the nets.
. "${abs_top_srcdir:?}/tests/commands/common.sh"

# net FILE LAYER...: behind data and labels that need no file, in TRAIN and TEST
net() {
    file=$1
    shift
    {
        echo 'name: "small"'
        echo 'layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {'
        echo '  shape { dim: 4 dim: 3 dim: 8 dim: 8 } shape { dim: 4 } data_filler { type: "gaussian" std: 1 }'
        echo '  data_filler { value: 1 } } }'
        echo 'layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {'
        echo '  num_output: 2 kernel_size: 3 group: 1 weight_filler { type: "xavier" } } }'
        echo 'layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }'
        printf '%s\n' "$@"
    } >"$file"
}
ip='layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 5 } }'
loss='layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }'
score='layer { name: "score" type: "Accuracy" bottom: "ip" bottom: "label" top: "score" include { phase: TEST } }'
norm='layer { name: "b" type: "BatchNorm" bottom: "conv" top: "b" include { phase: TRAIN } }'
net net.prototxt "$ip" "$loss" "$score" "$norm"
cat >solver.prototxt <<'EOF'
net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "w" snapshot_format: BINARYPROTO
EOF
"$POSEIDON" train --solver=solver.prototxt --threads=1 >/dev/null 2>&1 || fail 'no weights'
weights=w_iter_1.caffemodel

# decode FILE.onnx: its text in $text, the operators in their order in $nodes
decode() {
    text=$(protoc "-I$abs_top_srcdir/src/export" --decode=onnx.ModelProto onnx.proto <"$1") || fail "$1: protoc"
    nodes=$(printf '%s\n' "$text" | sed -n 's/^ *op_type: "\(.*\)"/\1/p' | tr '\n' ' ')
}

# export_as NODES LAYER...: the operators that the layers behind conv and its ReLU become
export_as() {
    wanted=$1
    shift
    net other.prototxt "$@"
    works '* nodes, ONNX opset 13; from data (N x 3 x 8 x 8) to *' \
        export --model=other.prototxt --weights=$weights --force other.onnx
    decode other.onnx
    same "$*" "Conv Relu $wanted " "$nodes"
}

# refuses_layer PATTERN LAYER...: and nothing is left
refuses_layer() {
    pattern=$1
    shift
    net bad.prototxt "$@"
    refuses "poseidon export: bad.prototxt:$pattern" export --model=bad.prototxt --weights=$weights bad.onnx
    same "$pattern: files left" '' "$(ls bad.onnx* 2>/dev/null)"
}

# the whole net: labels and scores are gone, the loss is a softmax, in-place layers have names of their own
works 'net.onnx: 5 nodes, ONNX opset 13; from data (N x 3 x 8 x 8) to prob (N x 5)*' \
    export --model=net.prototxt --weights=$weights net.onnx
decode net.onnx
same 'nodes' 'Conv Relu Flatten Gemm Softmax ' "$nodes"
has "$text" '*ir_version: 7*producer_name: "poseidon"*graph {*opset_import {*version: 13*' 'head'
has "$text" '*input: "data"
    input: "conv.weight"
    input: "conv.bias"
    output: "conv/conv"*input: "conv/conv"
    output: "conv"*' 'names'
has "$text" '*initializer {
    dims: 2
    dims: 3
    dims: 3
    dims: 3
    data_type: 1
    float_data:*name: "conv.weight"*' 'weights'
has "$text" '*dim_param: "N"*' 'batch'
lacks "$text" '"label' 'labels'
same 'floats' 54 "$(printf '%s\n' "$text" | sed '/name: "conv.weight"/q' | grep -c float_data)"

# a batch that was asked for, and one that the net joins
works '*from data (7 x 3 x 8 x 8) to prob (7 x 5)*' export --model=net.prototxt --weights=$weights --batch=7 --force net.onnx
net joined.prototxt 'layer { name: "r" type: "Reshape" bottom: "conv" top: "r" reshape_param { shape { dim: -1 dim: 18 } } }'
works '*from data (1 x 3 x 8 x 8) to r (4 x 18)*' export --model=joined.prototxt --weights=$weights joined.onnx

# windows that hang over become pads of the far end, and a mean over part of one a factor
pool() {
    echo "layer { name: \"pool\" type: \"Pooling\" bottom: \"conv\" top: \"pool\" pooling_param { $1 } }"
}
export_as 'MaxPool' "$(pool 'kernel_size: 3 stride: 2')"
has "$text" '*name: "pads"
      ints: 0
      ints: 0
      ints: 1
      ints: 1*' 'pads'
lacks "$text" 'ceil_mode' 'rounding'
export_as 'AveragePool Mul' "$(pool 'pool: AVE kernel_size: 3 stride: 2')"
export_as 'AveragePool' "$(pool 'pool: AVE kernel_size: 3 pad: 1')"
export_as 'GlobalAveragePool' "$(pool 'pool: AVE global_pooling: true')"
export_as 'Dropout Concat' 'layer { name: "d" type: "Dropout" bottom: "conv" top: "d" }' \
    'layer { name: "c" type: "Concat" bottom: "conv" bottom: "d" top: "c" }'
export_as 'LRN' 'layer { name: "n" type: "LRN" bottom: "conv" top: "n" lrn_param { alpha: 0.5 } }'
export_as 'Split' 'layer { name: "s" type: "Slice" bottom: "conv" top: "a" top: "b" }'
export_as 'Mul Add' 'layer { name: "p" type: "Power" bottom: "conv" top: "p" power_param { scale: 2 shift: 1 } }'
export_as 'Sigmoid' 'layer { name: "s" type: "SigmoidCrossEntropyLoss" bottom: "conv" bottom: "conv" top: "s" }'

# layers in place on the data: the input has the blob's name, and what they make has names of its own
sed '/name: "conv"/i layer { name: "r" type: "ReLU" bottom: "data" top: "data" }\
layer { name: "t" type: "TanH" bottom: "data" top: "data" }' net.prototxt >place.prototxt
works '*: 7 nodes*; from data (N x 3 x 8 x 8) to prob (N x 5)*' export --model=place.prototxt --weights=$weights place.onnx
decode place.onnx
has "$text" '*input: "data"
    output: "data/r"*input: "data/r"
    output: "data/t"*input: "data/t"
    input: "conv.weight"*input {*name: "data"*' 'names in place on the data'

# mean and scale in front, from a data layer whose file is not there
sed 's/^layer { name: "data".*/layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.5 crop_size: 8/
     s/^  shape .*/mean_value: 104 mean_value: 117 mean_value: 123 }/
     s/^  data_filler .*/data_param { source: "absent" batch_size: 4 } }/' net.prototxt >photos.prototxt
works '*from data (N x 3 x 8 x 8) to prob (N x 5)*' \
    export --model=photos.prototxt --weights=$weights --preprocess photos.onnx
decode photos.onnx
same 'preprocessing' 'Mul Add Conv Relu Flatten Gemm Softmax ' "$nodes"
has "$text" '*float_data: -52
    float_data: -58.5
    float_data: -61.5*' 'means'

# what ONNX cannot say
refuses_layer "8: layer 'pool' (Pooling): ONNX has no pooling that is stochastic" "$(pool 'pool: STOCHASTIC kernel_size: 2')"
refuses_layer "8: layer 'pool' (Pooling): ONNX has no pooling that is followed by *a second top" \
    'layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" top: "at" pooling_param { kernel_size: 2 } }'
refuses_layer "8: layer 'pool' (Pooling): its last window begins behind the image, at 8 of 6 pixels*FLOOR*" \
    "$(pool 'kernel_size: 1 stride: 4')"
refuses_layer "8: layer 'b' (BatchNorm): it normalises by each batch's own statistics*" \
    'layer { name: "b" type: "BatchNorm" bottom: "conv" top: "b" batch_norm_param { use_global_stats: false } }'
refuses_layer "8: layer 'm' (MVN): poseidon has no ONNX form for it*" 'layer { name: "m" type: "MVN" bottom: "conv" top: "m" }'

# what is asked for wrongly
refuses '*other.onnx exists already; --force replaces it*' export --model=net.prototxt --weights=$weights other.onnx
refuses "*'net.pb': expected a name that ends in .onnx*" export --model=net.prototxt --weights=$weights net.pb
refuses '*Need model weights*' export --model=net.prototxt a.onnx
refuses '*expected one file to write, OUT.onnx*' export --model=net.prototxt --weights=$weights
net wider.prototxt "$(echo "$ip" | sed 's/: 5/: 6/')" "$loss"
refuses "*w_iter_1.caffemodel: Cannot copy param 0 weights from layer 'ip'*" \
    export --model=wider.prototxt --weights=$weights wider.onnx
net more.prototxt "$(echo "$ip" | sed 's/"ip"/"other"/g')"
refuses '*other*' export --model=more.prototxt --weights=$weights more.onnx
(
    trap '' XFSZ
    ulimit -f 1
    "$POSEIDON" export --model=net.prototxt --weights=$weights full.onnx >full.out 2>&1
    [ $? -eq 1 ]
) || fail 'a full disk went unnoticed'
has "$(cat full.out)" '*poseidon export: *full.onnx*' 'a full disk'
same 'files left' '' "$(ls ./*.tmp full.onnx more.onnx wider.onnx 2>/dev/null)"
finish
