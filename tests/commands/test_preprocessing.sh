#!/bin/sh
# A net classifies photographs as it was trained and tested on them: size, crop, mean, scale and names of classes come
# from its data layer, whether that reads HDF5, LMDB or photographs themselves.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
[ -n "${POSEIDON_PYTHON:-}" ] || { echo 'no python3 with h5py'; exit 77; }
"$POSEIDON" --version | grep -q PNG || { echo 'built without PNG'; exit 77; }
cd "$folder" || exit 1

# Photographs of 3 classes, of many sizes
"$POSEIDON_PYTHON" - <<'PY' || exit 1
import os, struct, zlib
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
for c, name in enumerate(['ash', 'birch', 'cedar']):
    os.makedirs('photos/' + name)
    for k in range(4):
        w, h = 20 + 5 * k, 30 - 2 * c
        rows = b''.join(b'\0' + bytes((x * (3 + c) + y * (1 + k) + 40 * p) % 256 for x in range(w) for p in range(3)) for y in range(h))
        with open('photos/%s/%d.png' % (name, k), 'wb') as f:
            f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', w, h, 8, 2, 0, 0, 0)) +
                    chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
PY
works '*12 images of 3x16x18 of 3 classes*' convert images photos trees.h5 --no-shuffle --resize=18x16
works '*mean.h5: the mean of 12 images*' mean trees.h5 mean.h5
"$POSEIDON" --version | grep -q LMDB && works '*12 images*' convert images photos trees_lmdb --no-shuffle --resize=18x16
for class in 0/ash 1/birch 2/cedar; do
    for k in 0 1 2 3; do echo "photos/${class#*/}/$k.png ${class%/*}"; done
done >list

# net NAME DATA-LAYER: scores of 12 photographs, as the net's own data layer reads them and as classify does, are the
# same to the last digit
net() {
    name=$1
    cat >"$name.prototxt" <<NET
layer { name: "trees" type: "$2" top: "data" top: "label" $3 }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
NET
    [ -f weights.caffemodel.h5 ] || {
        printf 'net: "%s"\nbase_lr: 0.0001\nlr_policy: "fixed"\nmax_iter: 3\ndisplay: 0\nsnapshot_prefix: "weights"\nsnapshot_format: HDF5\n' "$name.prototxt" >solver.prototxt
        works '*Optimization Done*' train --solver=solver.prototxt
        mv weights_iter_3.caffemodel.h5 weights.caffemodel.h5
    }
    works '*' extract --model="$name.prototxt" --weights=weights.caffemodel.h5 --blobs=prob --force "$name.h5"
    # shellcheck disable=SC2046 # names of photographs
    run classify --model="$name.prototxt" --weights=weights.caffemodel.h5 --json --top=3 $(sed 's/ .*//' list)
    [ "$status" -eq 0 ] || fail "$name: $err"
    printf '%s' "$out" >"$name.json"
    has "$err" "Preprocessing: $4 (from layer 'trees')" "$name"
    "$POSEIDON_PYTHON" - "$name" "$5" <<'PY' || fail "$name: classify differs"
import h5py, json, sys
name, names = sys.argv[1], sys.argv[2].split()
ours, rows = json.load(open(name + '.json')), h5py.File(name + '.h5')['prob'][:]
assert len(ours) == len(rows) == 12
assert rows.std(axis=0).min() > 1e-4, 'the scores tell nothing'
for photo, row in zip(ours, rows):
    assert len(photo['top']) == 3
    for top in photo['top']:
        assert abs(top['probability'] - row[top['class']]) < 1e-6, (photo, row)
        assert top['number'] == top['class'], photo
        assert top['label'] == (names[top['class']] if names else None), photo
PY
}
net hdf5 Data 'data_param { source: "trees.h5" batch_size: 12 } transform_param { mean_file: "mean.h5" scale: 0.01 crop_size: 14 }' \
    'resize 18x16, crop 14x14, mean mean.h5, scale 0.01, blue, green, red' 'ash birch cedar'
# the net in JSON says the same
works '*' summary --model=hdf5.prototxt --json
printf '%s' "$out" >summary.json
"$POSEIDON_PYTHON" -c 'import json
net = json.load(open("summary.json"))
assert net["classes"] == "ash\nbirch\ncedar\n", net
for text in ("scale: 0.01", "crop_size: 14", "mean_file: \"mean.h5\"", "dim: 3", "dim: 16", "dim: 18"):
    assert text in net["preprocessing"], net
assert net["layers"][0]["record"] == [3, 16, 18]' || fail 'summary --json: names and preprocessing'
net photos ImageData 'image_data_param { source: "list" batch_size: 12 new_height: 16 new_width: 18 } transform_param { mean_value: 90 mean_value: 100 mean_value: 110 scale: 0.01 crop_size: 14 }' \
    'resize 18x16, crop 14x14, mean 90,100,110, scale 0.01, blue, green, red' 'ash birch cedar'
net sizes ImageData 'image_data_param { source: "list" batch_size: 12 } transform_param { mean_value: 100 scale: 0.01 crop_size: 14 }' \
    'as stored, crop 14x14, mean 100,100,100, scale 0.01, blue, green, red' 'ash birch cedar'
[ -d trees_lmdb ] && net lmdb Data 'data_param { source: "trees_lmdb" backend: LMDB batch_size: 12 } transform_param { scale: 0.01 crop_size: 14 }' \
    'resize 18x16, crop 14x14, no mean subtracted, scale 0.01, blue, green, red' 'ash birch cedar'

# options come before the data layer; without it nothing is known
first=photos/ash/0.png
works "*Preprocessing: resize 14x14, mean 1,2,3, scale 0.5, red, green, blue (from layer 'trees' and the options)*" \
    classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 --resize=14x14 --mean=1,2,3 --scale=0.5 --rgb $first
works "*Preprocessing: shorter side 20, crop 14x14, mean 7,7,7, scale 0.01, blue, green, red (from layer 'trees' and the options)*" \
    classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 --resize=20 --mean=7 $first
refuses '*the image is 3x30x20, but the mean image and the first one are 3x16x18*' \
    classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 --resize=20 photos/ash/0.png
mv trees.h5 away.h5
# a net without crop_size has its images' size from the weights
sed '1s/"Data".*/"Data" top: "data" top: "label" data_param { source: "trees.h5" batch_size: 12 } transform_param { scale: 0.01 } }/' hdf5.prototxt >whole.prototxt
mv away.h5 trees.h5
printf 'net: "whole.prototxt"\nbase_lr: 0.0001\nlr_policy: "fixed"\nmax_iter: 1\ndisplay: 0\nsnapshot_prefix: "whole"\n' >solver.prototxt
works '*Optimization Done*' train --solver=solver.prototxt
run classify --model=whole.prototxt --weights=whole_iter_1.caffemodel --json --top=3 photos/ash/0.png
with_data=$out
mv trees.h5 away.h5
for net in whole.prototxt whole_iter_1.caffemodel; do
    run classify --model=$net --weights=whole_iter_1.caffemodel --json --top=3 photos/ash/0.png
    [ "$status" -eq 0 ] && [ "$out" = "$with_data" ] || fail "$net: not as with the data: $err"
    has "$err" "*layer 'trees': taking images of 3 channels, 16 x 18 pixels, from the weights; --input-shape=C,H,W says otherwise*" "$net"
done
# where the data is not, the weights say what it was, in every form; the scores are those with the data
model=weights.caffemodel.h5
for to in w.caffemodel back.caffemodel.h5; do
    works '*parameters of*' convert weights $model $to
    model=$to
done
sed 's/^layer { name: "trees".*/layer { name: "in" type: "Input" top: "data" input_param { shape { dim: [1, 3, 14, 14] } } }/; /SoftmaxWithLoss/d' hdf5.prototxt >deploy.prototxt
for weights in weights.caffemodel.h5 w.caffemodel back.caffemodel.h5; do
    # shellcheck disable=SC2046 # names of photographs
    run classify --model=deploy.prototxt --weights=$weights --json --top=3 $(sed 's/ .*//' list)
    has "$err" "Preprocessing: resize 18x16, crop 14x14, mean mean.h5, scale 0.01, blue, green, red (from the weights '$weights')" "$weights"
    lacks "$err" 'names are missing' "$weights"
    printf '%s' "$out" >told.json
    "$POSEIDON_PYTHON" -c 'import json
for with_data, told in zip(json.load(open("hdf5.json")), json.load(open("told.json")), strict=True):
    for a, b in zip(with_data["top"], told["top"], strict=True):
        assert a["label"] == b["label"] and abs(a["probability"] - b["probability"]) < 1e-6, (a, b)' || fail "$weights: not as with the data"
    works '*"cedar"*' classify --model=hdf5.prototxt --weights=$weights $first
done
# files of others say nothing
"$POSEIDON_PYTHON" -c 'import h5py
with h5py.File("weights.caffemodel.h5", "a") as f:
    for name in ("classes", "preprocessing"): del f.attrs[name]' || fail 'no names and preprocessing in a snapshot'
works "*Class names are missing in the weights and in the net's data; --labels=FILE gives them*" \
    classify --model=deploy.prototxt --weights=weights.caffemodel.h5 $first
refuses "*The net's data is missing, so the size of its records is not known: give the mean image's size, --resize=WIDTHxHEIGHT*" \
    classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 $first
works "*Preprocessing: resize 18x16, crop 14x14, mean mean.h5*" \
    classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 --resize=18x16 $first
works '*"cedar"*' classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 --resize=18x16 --labels=away.h5 $first
refuses '*weights.caffemodel.h5: holds no names of classes; poseidon convert writes them*' \
    classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 --resize=18x16 --labels=weights.caffemodel.h5 $first
refuses "*$first: expected a text with the name of a class on every line*found a PNG picture*" \
    classify --model=hdf5.prototxt --weights=weights.caffemodel.h5 --resize=18x16 --labels=$first $first
works "*Preprocessing: resize 14x14, no mean subtracted, scale 1, blue, green, red (layer 'in' sets no preprocessing: use --resize, --mean, --scale)*" \
    classify --model=deploy.prototxt --weights=weights.caffemodel.h5 $first
works "*Preprocessing: resize 14x14, mean 7,7,7, scale 1, blue, green, red (layer 'in' sets no preprocessing; the options do)*" \
    classify --model=deploy.prototxt --weights=weights.caffemodel.h5 --mean=7 $first
# another size than Input's is taken; these weights fit its own alone
works '*Preprocessing: resize 14x14,*' classify --model=deploy.prototxt --weights=weights.caffemodel.h5 --input-shape=3,14,14 $first
refuses "*Preprocessing: resize 64x64,*layer 'ip'; shape mismatch.*" \
    classify --model=deploy.prototxt --weights=weights.caffemodel.h5 --input-shape=3,64,64 $first
refuses "*deploy.prototxt:*: the input '*' would be zeros: expected a layer that reads data*" \
    extract --model=deploy.prototxt --weights=weights.caffemodel.h5 --blobs=prob zeros.h5

# a name says what is in a file
refuses "*'prob.npy': expected a name that ends in .h5 or .hdf5*" \
    extract --model=hdf5.prototxt --weights=weights.caffemodel.h5 --blobs=prob prob.npy
refuses "*'mean.npy': expected a name that ends in .h5, .hdf5 or .binaryproto*" mean away.h5 mean.npy
finish
