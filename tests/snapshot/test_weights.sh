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

# the binary form comes back whole: definitions, run and seal with it
to b.caffemodel $binary
cmp b.caffemodel $binary || fail 'binary, binary: not the same file'
# HDF5 has no definitions: its layers come back in HDF5's order, then always the same
to c.caffemodel.h5 $hdf5
h5diff $hdf5 c.caffemodel.h5 || fail 'HDF5, HDF5: not the same'
to d.caffemodel c.caffemodel.h5
to e.caffemodel.h5 $binary
h5diff $hdf5 e.caffemodel.h5 data data || fail 'binary, HDF5: not the same'
to f.caffemodel $hdf5
cmp d.caffemodel f.caffemodel || fail 'HDF5, HDF5, binary: not the same file'
to f.caffemodel.h5 f.caffemodel
h5diff $hdf5 f.caffemodel.h5 || fail 'HDF5, binary, HDF5: not the same'
# parameters that another layer owns, one of two or both: other forms get copies, and every form trains and tests
for shared in shared both; do
    to s.caffemodel ${shared}_iter_2.caffemodel.h5
    to s.caffemodel.h5 s.caffemodel
    h5diff s.caffemodel.h5 ${shared}_iter_2.caffemodel.h5 /data/first /data/first || fail "$shared: not the same"
    h5diff s.caffemodel.h5 ${shared}_iter_2.caffemodel.h5 /data/second/0 /data/first/0 || fail "$shared: no copy"
    for weights in s.caffemodel s.caffemodel.h5; do
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
for weights in b.caffemodel e.caffemodel.h5 f.caffemodel; do
    works '*"loss": *' test --model=net.prototxt --weights=$weights --iterations=1 --json
done
# files from before blobs had shapes
works '*legacy.caffemodel.h5: *' convert weights "$abs_top_srcdir/tests/data/spec/v1.caffemodel" legacy.caffemodel.h5
works '*legacy.caffemodel: *' convert weights legacy.caffemodel.h5 legacy.caffemodel

head -c 800 $binary >cut.caffemodel
refuses 'poseidon convert: cut.caffemodel: damaged or truncated at byte *' convert weights cut.caffemodel out.caffemodel.h5
printf 'PK\003\004....................000000archive/data.pkl' >w.pth
refuses "poseidon convert: w.pth: expected a binary model (.caffemodel), found a PyTorch file (.pth): save its state_dict as .safetensors, which tools/weights.py converts to a model*" \
    convert weights w.pth out.caffemodel
same 'files left' '' "$(ls out.* ./*.tmp 2>/dev/null)"

# what is asked for wrongly
printf '\002\0\0\0\0\0\0\0{}' >a.safetensors
refuses "*a.safetensors: expected .caffemodel or .caffemodel.h5: 'python3 tools/weights.py a.safetensors a.caffemodel.h5' makes*" \
    test --model=net.prototxt --weights=a.safetensors
mv a.safetensors a.caffemodel
refuses "*a.caffemodel: expected a binary model (.caffemodel), found a safetensors file: convert it with 'python3 tools/weights.py IN*" \
    test --model=net.prototxt --weights=a.caffemodel
refuses '*b.caffemodel exists already; --force replaces it*' convert weights c.caffemodel.h5 b.caffemodel
refuses '*b.caffemodel is one of the inputs*' convert weights b.caffemodel b.caffemodel --force
refuses "*'out.safetensors': expected a name that ends in .caffemodel or .caffemodel.h5*" convert weights b.caffemodel out.safetensors
refuses '*absent.caffemodel*' convert weights absent.caffemodel out.caffemodel.h5
refuses '*expected two files, IN and OUT, found 1*' convert weights b.caffemodel
finish
