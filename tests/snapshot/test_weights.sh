#!/bin/sh
# convert weights: there and back without a bit's difference, and what it refuses.
. "${abs_top_srcdir:?}/tests/commands/common.sh"

# a net with a parameter pair, three statistics, a layer without parameters, a slash and a dot in names, shared weights
cat >net.prototxt <<'EOF'
name: "small"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 3 dim: 6 dim: 6 } shape { dim: 4 } data_filler { type: "gaussian" std: 1 } data_filler { value: 1 } } }
layer { name: "block/conv.1" type: "Convolution" bottom: "data" top: "c" convolution_param {
  num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "c" top: "n" }
layer { name: "scale" type: "Scale" bottom: "n" top: "n" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "n" top: "n" }
layer { name: "ip" type: "InnerProduct" bottom: "n" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
EOF
sed 's/"block.conv.1"/"first"/; s/convolution_param {/param { name: "w" } &/
     /"relu"/a\
layer { name: "second" type: "Convolution" bottom: "data" top: "s" param { name: "w" } convolution_param { num_output: 2 kernel_size: 3 } }' \
    net.prototxt >shared.prototxt
sed 's/param { name: "w" }/& param { name: "b" }/' shared.prototxt >both.prototxt
train() {
    printf 'net: "%s.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 2 snapshot_prefix: "%s" snapshot_format: %s\n' "$1" "$1" \
        "$2" >"$1.solver"
    "$POSEIDON" train --solver="$1.solver" --threads=1 >train.log 2>&1 || fail "no weights: $(cat train.log)"
}
train net BINARYPROTO
train net HDF5
train shared HDF5
train both HDF5
binary=net_iter_2.caffemodel
hdf5=net_iter_2.caffemodel.h5

# to FILE FROM: a file of the same model
to() {
    works "$1: * parameter* of * layer*" convert weights --force "$2" "$1"
}

# the binary form comes back whole, by any way that keeps the net: definitions, run and seal with it
to a.safetensors $binary
to a.caffemodel a.safetensors
cmp a.caffemodel $binary || fail 'binary, safetensors, binary: not the same file'
to b.caffemodel a.caffemodel
cmp b.caffemodel $binary || fail 'binary, binary: not the same file'
# HDF5 has no definitions: its layers come back in HDF5's order, then always the same
to c.safetensors $hdf5
to c.caffemodel.h5 c.safetensors
to d.safetensors c.caffemodel.h5
cmp c.safetensors d.safetensors || fail 'HDF5, safetensors, HDF5, safetensors: not the same file'
h5diff $hdf5 c.caffemodel.h5 || fail 'HDF5, safetensors, HDF5: not the same'
to e.caffemodel.h5 a.safetensors
h5diff $hdf5 e.caffemodel.h5 data data || fail 'binary, safetensors, HDF5: not the same'
to f.caffemodel c.safetensors
to f.caffemodel.h5 f.caffemodel
h5diff $hdf5 f.caffemodel.h5 || fail 'HDF5, safetensors, binary, HDF5: not the same'
# parameters that another layer owns, one of two or both: other forms get copies, and every form trains and tests
for shared in shared both; do
    to s.safetensors ${shared}_iter_2.caffemodel.h5
    has "$(head -c 4000 s.safetensors)" '*"second.weight"*"second.bias"*' "$shared"
    to s.caffemodel ${shared}_iter_2.caffemodel.h5
    to s.caffemodel.h5 s.caffemodel
    h5diff s.caffemodel.h5 ${shared}_iter_2.caffemodel.h5 /data/first /data/first || fail "$shared: not the same"
    h5diff s.caffemodel.h5 ${shared}_iter_2.caffemodel.h5 /data/second/0 /data/first/0 || fail "$shared: no copy"
    for weights in s.safetensors s.caffemodel s.caffemodel.h5; do
        works '*"loss": *' test --model=$shared.prototxt --weights=$weights --iterations=1 --json
        works '*' train --solver=$shared.solver --weights=$weights --threads=1
    done
done
# a file without what layers share, as Caffe writes HDF5: their owner has it
python3 -c 'import h5py' 2>/dev/null && {
    python3 -c 'import h5py, sys
with h5py.File(sys.argv[1], "a") as f: del f["data/second"].attrs["shared"]' both_iter_2.caffemodel.h5 || fail 'no attribute'
    to s.caffemodel both_iter_2.caffemodel.h5
    works '*' train --solver=both.solver --weights=s.caffemodel --threads=1
}
# a parameter that another layer uses under another shape
cat >views.prototxt <<'EOF'
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 9 } shape { dim: 4 } data_filler { type: "gaussian" std: 1 } data_filler { value: 1 } } }
layer { name: "one" type: "InnerProduct" bottom: "data" top: "one" param { name: "w" } inner_product_param {
  num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "image" type: "Reshape" bottom: "data" top: "image" reshape_param { shape { dim: 0 dim: 9 dim: 1 dim: 1 } } }
layer { name: "other" type: "Convolution" bottom: "image" top: "other" param { name: "w" share_mode: PERMISSIVE }
  convolution_param { num_output: 6 kernel_size: 1 } }
layer { name: "flat" type: "Flatten" bottom: "other" top: "flat" }
layer { name: "sum" type: "Eltwise" bottom: "one" bottom: "flat" top: "sum" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "sum" bottom: "label" top: "loss" }
EOF
train views HDF5
mv views_iter_2.caffemodel.h5 first.caffemodel.h5
works '*"loss": *' test --model=views.prototxt --weights=first.caffemodel.h5 --iterations=1 --json
works '*' train --solver=views.solver --weights=first.caffemodel.h5 --max-iter=1 --set base_lr=0 --snapshot-prefix=again
h5diff first.caffemodel.h5 again_iter_1.caffemodel.h5 data data || fail 'views: other weights than were loaded'
# nets take them
for weights in a.safetensors a.caffemodel e.caffemodel.h5 f.caffemodel; do
    works '*"loss": *' test --model=net.prototxt --weights=$weights --iterations=1 --json
done
# names
has "$(head -c 4000 a.safetensors)" '*"block/conv.1.weight"*"block/conv.1.bias"*"norm.0"*"norm.1"*"norm.2"*"scale.bias"*' 'names'
# files from before blobs had shapes
works '*legacy.safetensors: *' convert weights "$abs_top_srcdir/tests/data/spec/v1.caffemodel" legacy.safetensors
works '*legacy.caffemodel: *' convert weights legacy.safetensors legacy.caffemodel

# tensors NAME:SHAPE:BEGIN:END... as x.safetensors, with 16 bytes of values
tensors() {
    header={
    comma=
    for tensor; do
        old=$IFS
        IFS=:
        # shellcheck disable=SC2086 # fields
        set -- $tensor
        IFS=$old
        header="$header$comma\"$1\":{\"dtype\":\"${5-F32}\",\"shape\":[$2],\"data_offsets\":[$3,$4]}"
        comma=,
    done
    raw "$header}"
}

# raw HEADER
raw() {
    # shellcheck disable=SC2059 # the length's bytes
    printf "\\$(printf %o $((${#1} % 256)))\\$(printf %o $((${#1} / 256)))\0\0\0\0\0\0" >x.safetensors
    printf '%s0123456789abcdef' "$1" >>x.safetensors
}
bad() {
    refuses "poseidon convert: x.safetensors: $1" convert weights x.safetensors out.caffemodel.h5
    same "$1: files left" '' "$(ls out.* 2>/dev/null)"
}
tensors fc.weight:2,1:0:8 fc.1:2:8:16
works 'x.caffemodel.h5: 2 parameters of 1 layer*' convert weights x.safetensors x.caffemodel.h5
tensors fc.weight:2,1:0:8 fc.0:2:8:16
bad "parameter 0 of layer 'fc' is there twice*"
tensors fc.weight:2,1:0:8 bn.running_mean:2:8:16
bad "tensor 'bn.running_mean': expected a name that ends in .weight, .bias or a number*"
tensors fc.weight:4:0:8:I16
bad "tensor 'fc.weight' is of type I16; expected F32*"
tensors fc.weight:4:0:16:F16
bad "tensor 'fc.weight' of 8 bytes has no such place in the file's 16"
tensors fc.bias:4:0:16
refuses "*out.caffemodel: layer 'fc' has a parameter 1, but no parameter 0: it is missing, or*" convert weights x.safetensors out.caffemodel
tensors fc.weight:4:8:24
bad "tensor 'fc.weight' of 16 bytes has no such place in the file's 16"
tensors fc.weight:4:0:12
bad "tensor 'fc.weight' of 16 bytes has no such place*"
tensors fc.weight:99999,99999:0:16
bad "parameter 0 of layer 'fc'*"
tensors fc.7:4:0:16
bad "layer 'fc' has a parameter 7; expected at most 4"
raw '{"fc.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}'
bad "damaged header at byte 70: expected '}'"
raw '{"fc.weight":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}'
bad 'damaged header at byte 45: expected a whole number'
raw '{"fc.weight":{"dtype":"F32","form":[4]}}'
bad 'damaged header at byte *: expected dtype, shape or data_offsets'
raw '{"fc.weight'
bad 'damaged header at byte *: expected the end of a string'
raw '{"__metadata__":{"net":"layer { name: 3 }"}}'
bad 'the net in its metadata: x.safetensors:1:*'
raw '{"__metadata__":{"net":"layer { name: \"a\\u00e9\" }"},"b.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
bad "layer 'b' has parameters, and is not in the net that comes with it"
raw '{"__metadata__":{"net":"layer { name: \"\u00e9\ud83d\ude00\" }"}}'
works '*0 parameters of 1 layer' convert weights x.safetensors u.caffemodel.h5
raw '{"a\/b.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
works '*1 parameter of 1 layer' convert weights x.safetensors slash.caffemodel.h5
printf '\377\377\0\0\0\0\0\0{}' >x.safetensors
bad 'damaged: its header would take 65535 bytes of 10'
head -c 60 a.safetensors >x.safetensors
bad 'damaged: its header would take *'
head -c 800 a.caffemodel >cut.caffemodel
refuses 'poseidon convert: cut.caffemodel: damaged or truncated at byte *' convert weights cut.caffemodel out.safetensors
: >x.safetensors
bad 'expected a safetensors file, found an empty file'
rm x.safetensors
bad 'No such file or directory'
printf 'PK\003\004....................000000archive/data.pkl' >w.pth
refuses "poseidon convert: w.pth: expected a binary model (.caffemodel), found a PyTorch file (.pth): save its state_dict as .safetensors*" \
    convert weights w.pth out.safetensors
same 'files left' '' "$(ls out.* ./*.tmp 2>/dev/null)"

# what is asked for wrongly
refuses '*a.caffemodel exists already; --force replaces it*' convert weights a.safetensors a.caffemodel
refuses '*a.safetensors is one of the inputs*' convert weights a.safetensors a.safetensors --force
refuses "*'out.npz': expected a name that ends in .caffemodel, .caffemodel.h5 or .safetensors*" convert weights a.safetensors out.npz
refuses '*absent.caffemodel*' convert weights absent.caffemodel out.safetensors
refuses '*expected two files, IN and OUT, found 1*' convert weights a.safetensors
finish
