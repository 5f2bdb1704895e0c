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
finish
