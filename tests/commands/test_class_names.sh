#!/bin/sh
# Labels are numbers, and the names of classes say what they mean: train's data, test's data and what the weights were
# trained on have the same names by position, or one message shows both.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
[ -n "${POSEIDON_PYTHON:-}" ] || { echo 'no python3 with h5py'; exit 77; }
cd "$folder" || exit 1

# sets of eight records; the second lacks a class, the third is the beginning of the first, the last has no names
"$POSEIDON_PYTHON" - <<'PY' || exit 1
import h5py, numpy as np, struct, zlib
rng = np.random.RandomState(5)
for name, classes in (('all', 'ant bee cat'), ('fewer', 'ant cat'), ('first', 'ant bee'), ('none', '')):
    with h5py.File(name + '.h5', 'w') as f:
        f['data'], f['label'] = rng.randint(0, 255, (8, 3, 4, 4)).astype('u1'), (np.arange(8) % 2).astype('i4')
        if classes:
            f.attrs['classes'] = np.array(classes.encode().split())
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
with open('x.png', 'wb') as f:
    f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 4, 4, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress((b'\0' + b'abc' * 4) * 4)) + chunk(b'IEND', b''))
PY

# net TRAIN TEST PREFIX: of these sets, and its solver
net() {
    cat >net.prototxt <<NET
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "$1.h5" batch_size: 4 } include { phase: TRAIN } }
layer { name: "t" type: "Data" top: "data" top: "label" data_param { source: "$2.h5" batch_size: 4 } include { phase: TEST } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
NET
    echo "net: 'net.prototxt' base_lr: 0.0001 lr_policy: 'fixed' max_iter: 2 test_iter: 2 test_interval: 2 snapshot_prefix: '$3'" >solver.prototxt
}
differ="class 1 is 'bee' in * (ant, bee, cat) and 'cat' in fewer.h5 (ant, cat): a label would mean two classes; *"

# the training net's data and the test net's
net all fewer bad
refuses "poseidon train: net.prototxt:2: layer 't' (Data): $differ" train --solver=solver.prototxt
refuses "poseidon train: net.prototxt:2: layer 't' (Data): $differ" train --solver=solver.prototxt --dry-run
same 'files left' '' "$(ls bad* 2>/dev/null)"
# the same labels: fewer names of the same, or none
for test in all first none; do
    net all $test good
    works '*' train --solver=solver.prototxt --threads=1
done
# HDF5Data's files, in any order of tops, within a list, in train and test, and beside Data
echo all.h5 >all.list
echo fewer.h5 >fewer.list
printf 'none.h5\nall.h5\nfirst.h5\nfewer.h5\n' >mixed.list
values() { # TRAIN TEST TOPS
    net all all bad
    cat - net.prototxt <<NET | sed '/"Data"/d' >values.prototxt
layer { name: "d" type: "HDF5Data" $3 hdf5_data_param { source: "$1.list" batch_size: 4 } include { phase: TRAIN } }
layer { name: "t" type: "HDF5Data" $3 hdf5_data_param { source: "$2.list" batch_size: 4 } include { phase: TEST } }
NET
    sed -i 's/net.prototxt/values.prototxt/' solver.prototxt
}
for tops in 'top: "data" top: "label"' 'top: "label" top: "data"'; do
    values all fewer "$tops"
    refuses "poseidon train: values.prototxt:2: layer 't' (HDF5Data): class 1 is 'bee' in *all.list (ant, bee, cat) and 'cat' in *fewer.list (ant, cat): a label *" \
        train --solver=solver.prototxt --dry-run
    values mixed all "$tops"
    refuses "poseidon train: values.prototxt:1: layer 'd' (HDF5Data): class 1 is 'bee' in * (ant, bee, cat) and 'cat' in *fewer.h5 (ant, cat)*" \
        train --solver=solver.prototxt
done
values all all 'top: "data" top: "label"'
works '*' train --solver=solver.prototxt --threads=1 --set snapshot_after_train=false
net all all bad
cat - net.prototxt <<'NET' | sed '/h5.*TEST/d' >values.prototxt
layer { name: "t" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { source: "fewer.list" batch_size: 4 } include { phase: TEST } }
NET
sed -i 's/net.prototxt/values.prototxt/' solver.prototxt
refuses "poseidon train: values.prototxt:1: layer 't' (HDF5Data): class 1 is 'bee' in *all.h5 (ant, bee, cat) and 'cat' in *fewer.list (ant, cat)*" \
    train --solver=solver.prototxt
# the weights' and the data's
net all fewer good
refuses "poseidon test: $differ" test --model=net.prototxt --weights=good_iter_2.caffemodel
refuses "poseidon classify: $differ" classify --model=net.prototxt --weights=good_iter_2.caffemodel x.png
for command in test classify; do # no word of num_output in between, which would make it worse
    argument=
    [ $command = classify ] && argument=x.png
    # shellcheck disable=SC2086 # none or one
    run $command --model=net.prototxt --weights=good_iter_2.caffemodel $argument
    lacks "$err" num_output "$command"
done
net all first good
works '*"accuracy"*' test --json --model=net.prototxt --weights=good_iter_2.caffemodel
# a snapshot's; to go on from weights with other classes is said, and is what finetuning does
net fewer fewer other
refuses "poseidon train: $differ" train --solver=solver.prototxt --snapshot=good_iter_2.solverstate --max-iter=3
works "*] $differ" train --solver=solver.prototxt --weights=good_iter_2.caffemodel --threads=1
# two tasks in one net have names of their own
cat >tasks.prototxt <<'NET'
layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "all.h5" batch_size: 4 } }
layer { name: "e" type: "Data" top: "more" top: "kind" data_param { source: "fewer.h5" batch_size: 4 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "ip2" type: "InnerProduct" bottom: "more" top: "ip2" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "loss2" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "kind" top: "loss2" }
NET
echo "net: 'tasks.prototxt' base_lr: 0.0001 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'tasks'" >solver.prototxt
works '*' train --solver=solver.prototxt --threads=1

# lists of images have no names of classes, but folders that are surely meant so
"$POSEIDON" --version | grep -q PNG || finish
# list FILE 'PATH LABEL' 'PATH LABEL' ...: two images in each of these folders, which exist
list() {
    file=$1
    shift
    for line; do
        folder_of=${line%% *}
        mkdir -p "$folder_of"
        for image in 1 2; do
            cp x.png "$folder_of/$image.png"
            echo "$folder_of/$image.png ${line#* }"
        done
    done >"$file"
}
# lists [LABELS [LOSS]]: a net of train.list and test.list
lists() {
    for phase in train test; do
        echo "layer { name: '$phase' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '$phase.list' batch_size: 2 ${1:-} }" \
            "include { phase: $(echo $phase | tr '[:lower:]' '[:upper:]') } }"
    done >lists.prototxt
    cat >>lists.prototxt <<NET
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: ${2:-7} } }
layer { name: "loss" type: "${3:-SoftmaxWithLoss}" bottom: "ip" bottom: "label" top: "loss" ${4:-} }
NET
    echo "net: 'lists.prototxt' base_lr: 0.0001 lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1 snapshot_prefix: 'lists'" >solver.prototxt
}
silent() { # WHO
    run train --solver=solver.prototxt --threads=1
    [ "$status" -eq 0 ] || fail "$1: $err"
    lacks "$out$err" 'two classes' "$1"
}
two="a label would mean two classes; give the folder one label everywhere"
lists
list train.list 'train/ant 0' 'train/bee 1' 'train/cat 2'
# the order in which a system lists folders; a class that one list lacks; a label that no image has
list test.list 'test/cat 0' 'test/ant 1' 'test/bee 2'
moved="poseidon train: lists.prototxt:2: layer 'test' (ImageData): 'ant', a folder of images, has label 0 in *train.list and label 1 in *test.list: $two"
refuses "$moved" train --solver=solver.prototxt
refuses "$moved" train --solver=solver.prototxt --dry-run
list test.list 'test/ant 0' 'test/cat 1'
refuses "'cat', a folder of images, has label 2 in *train.list and label 1 in *test.list: $two" train --solver=solver.prototxt
list test.list 'other/test/ant 0' 'other/test/cat 5' 'other/test/dog 6'
refuses "'cat', a folder of images, has label 2 in *train.list and label 5 in *test.list: $two" train --solver=solver.prototxt
sed -n '1~2p' test.list >one.list && mv one.list test.list # one image of each
refuses "'cat', a folder of images, has label 2 in *" train --solver=solver.prototxt
# names that are known: of a set, either way round, and of weights
sed 's/.*.test.list.*/layer { name: "t" type: "Data" top: "data" top: "label" data_param { source: "all.h5" batch_size: 4 } include { phase: TEST } }/' \
    lists.prototxt >known.prototxt
sed -i 's/lists.prototxt/known.prototxt/' solver.prototxt
list train.list 'train/bee 0' 'train/ant 1' 'train/dog 2'
refuses "'ant', a folder of images, has label 1 in *train.list and label 0 in all.h5: $two" train --solver=solver.prototxt
list train.list 'train/ant 0' 'train/bee 1' 'train/dog 2'
silent 'names of a set'
list test.list 'test/bee 0' 'test/ant 1'
lists '' 3
refuses "'ant', a folder of images, has label 0 in good_iter_2.caffemodel and label 1 in *test.list: $two" \
    test --model=lists.prototxt --weights=good_iter_2.caffemodel
# nothing is said where the same labels are meant, nor where folders may be no classes
lists
list train.list 'train/ant 0' 'train/bee 1' 'train/cat 2'
list test.list 'test/cat 2' 'test/ant 0' 'test/dog 5'
silent 'the same labels'
works '*"loss"*' test --json --classes --model=lists.prototxt --weights=lists_iter_1.caffemodel
lacks "$out$err" ant 'names of classes'
grep -aq 'bee' lists_iter_1.caffemodel && fail 'folders are in a snapshot'
list test.list 'test/cat 0' 'test/cat 1' 'test/ant 2'
silent 'a folder of two labels'
list test.list 'test/cat 0' 'test/ant 1' 'test/bee 1'
silent 'folders of one label'
list test.list 'a/cat 0' 'b/ant 1'
silent 'folders in several folders'
list test.list 'cat 0' 'ant 1'
refuses "'ant', a folder" train --solver=solver.prototxt
list test.list 'cat 0'
silent 'one label'
list train.list 'ant/x 0' 'bee/y 1'
list test.list 'ant/y 0' 'bee/x 1'
silent 'folders in the folders of classes'
list train.list 'train 0' 'train 1' 'val 2'
list test.list 'val 0' 'val 1'
silent 'folders of the split'
list train.list 'all 0' 'all 1'
list test.list 'all 1' 'all 0'
silent 'one folder'
printf 'x.png 0\nx.png 1\n' >train.list
printf 'x.png 1\nx.png 0\n' >test.list
silent 'no folders'
list train.list 'ant 0' 'bee 1'
list test.list 'ant 1' 'bee 0'
for name in train test; do # as parts of a set that is cut into folders may be
    sed -i '2~2d' $name.list
done
silent 'one image of each folder'
list train.list 'ant 0' 'bee 1'
list test.list 'ant 1' 'bee 0'
lists '' 1 EuclideanLoss
silent 'numbers that are no classes'
lists '' 7 SoftmaxWithLoss 'loss_param { ignore_label: 0 }'
silent 'a label to ignore'
list train.list 'ant 0 1' 'bee 1 0'
list test.list 'ant 1 0' 'bee 0 1'
lists 'label_size: 2' 2 EuclideanLoss
silent 'several labels'
finish
