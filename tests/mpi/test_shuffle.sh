#!/bin/sh
# A new order in every epoch, by train --shuffle and by Data's field: the same samples from HDF5, LMDB, LevelDB and lists, on 1
# and 3 ranks, with 1 and 2 threads, and resumed; each record once an epoch, in the file's order in tests and without the option.
. "$abs_top_srcdir/tests/mpi/common.sh"
[ -n "${POSEIDON_PYTHON:-}" ] || { echo 'no python3 with h5py'; exit 77; }
cd "$work" || exit 1
"$POSEIDON_PYTHON" - <<'PY' || exit 1
import struct, zlib
import h5py, numpy as np
def png(path, value):
    chunk = lambda kind, text: struct.pack('>I', len(text)) + kind + text + struct.pack('>I', zlib.crc32(kind + text))
    with open(path, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 4, 4, 8, 2, 0, 0, 0))
                + chunk(b'IDAT', zlib.compress((b'\0' + bytes([value] * 12)) * 4)) + chunk(b'IEND', b''))
images = np.arange(40)[:, None, None, None] * np.ones((1, 3, 4, 4))
with open('list.txt', 'w') as f:
    for i in range(40):
        png('%d.png' % i, i)
        print('%d.png %d' % (i, i), file=f)
for name, part in (('0.h5', slice(0, 25)), ('1.h5', slice(25, 40))):
    with h5py.File(name, 'w') as f:
        f['data'], f['label'] = images[part].astype('f4'), np.arange(40)[part]
with open('parts.txt', 'w') as f:
    f.write('0.h5\n1.h5\n')
with h5py.File('all.h5', 'w') as f:
    f['data'], f['label'] = images.astype('u1'), np.arange(40)
with h5py.File('labels.h5', 'w') as f:
    f['data'] = np.arange(40, dtype='u1').reshape(40, 1, 1, 1)
with h5py.File('gzip.h5', 'w') as f:
    f.create_dataset('data', data=images.astype('u1'), chunks=(7, 3, 4, 4), compression='gzip')
    f['label'] = np.arange(40)
PY
ln -s "$abs_top_srcdir/tests/data/input/lmdb_raw" "$abs_top_srcdir/tests/data/input/leveldb_raw" .

# net SOURCE BATCH [FIELD]: net.prototxt, which writes the labels of both phases
net() {
    case $1 in
    list.txt) data="type: \"ImageData\" image_data_param { source: \"$1\" batch_size: $2 ${3-} }" ;;
    parts.txt) data="type: \"HDF5Data\" hdf5_data_param { source: \"$1\" batch_size: $2 ${3-} }" ;;
    *) data="type: \"Data\" data_param { source: \"$1\" batch_size: $2 ${3-} }" ;;
    esac
    cat >net.prototxt <<END
layer { name: "data" top: "data" top: "label" $data }
layer { name: "seen" type: "HDF5Output" bottom: "label" bottom: "label" hdf5_output_param { file_name: "seen.h5" } include { phase: TRAIN } }
layer { name: "tested" type: "HDF5Output" bottom: "label" bottom: "label" hdf5_output_param { file_name: "tested.h5" } include { phase: TEST } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 40 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
END
    cat >solver.prototxt <<END
net: "net.prototxt"
base_lr: 0
lr_policy: "fixed"
max_iter: 10
snapshot_after_train: false
test_iter: 1
test_interval: 10
random_seed: 5
END
}
# seen NAME SOURCE RANKS THREADS FIELD [OPTION...]: the labels of that training in the folder NAME
seen() {
    name=$1
    net "$2" $((12 / $3)) "$5"
    ranks=$3 threads=$4
    shift 5
    rm -f seen.h5* tested.h5*
    train "$ranks" log --solver=solver.prototxt --threads="$threads" "$@" || { fail "$name"; tail -n 5 log; return; }
    mkdir "$name" && mv seen.h5* tested.h5* "$name"
}
seen same-all.h5 all.h5 1 1 '' --shuffle
for source in gzip.h5 parts.txt $("$POSEIDON" --version | grep -q PNG && echo list.txt); do
    seen "same-$source" $source 3 2 '' --shuffle
done
seen same-field all.h5 3 1 'shuffle: true'
seen same-both all.h5 1 1 'shuffle: true' --shuffle
seen kept all.h5 1 1 ''
seen other all.h5 1 1 '' --shuffle --set random_seed=6
seen own parts.txt 1 1 'shuffle: true' --shuffle
seen own-alone parts.txt 3 1 'shuffle: true'
raws="$("$POSEIDON" --version | grep -q LMDB && echo lmdb) $("$POSEIDON" --version | grep -q LevelDB && echo leveldb)"
for kind in $raws; do
    seen "raw-$kind" ${kind}_raw 1 2 '' --shuffle
    seen "raw-$kind-3" ${kind}_raw 3 1 '' --shuffle
done
# in two parts, the second on other ranks
seen first all.h5 1 1 '' --shuffle --max-iter=4 --set snapshot_after_train=true --set 'snapshot_prefix="s"' --set snapshot_format=HDF5
seen second all.h5 3 1 '' --shuffle --snapshot=s_iter_4.solverstate.h5
# shellcheck disable=SC2086 # a list
"$POSEIDON_PYTHON" - $raws <<'PY' || fail 'the orders'
import glob, sys, h5py, numpy as np
def read(folder, name='seen.h5'):
    parts = [h5py.File(p, 'r')['data'][()].ravel() for p in [folder + '/' + name] + sorted(glob.glob(folder + '/' + name + '.rank*'))]
    batch = 12 // len(parts)  # each iteration's samples are dealt to the ranks in order
    return np.concatenate([p[i:i + batch] for i in range(0, len(parts[0]), batch) for p in parts])[:120]
one = read('same-all.h5')
for folder in glob.glob('same-*'):
    assert (read(folder) == one).all(), folder
assert (read('kept') == np.arange(120) % 40).all()
assert (np.concatenate([read('first')[:48], read('second')[:72]]) == one).all(), 'resumed'
for name in ('same-all.h5', 'other', 'own'):
    epochs = read(name).reshape(3, 40)
    assert (np.sort(epochs) == np.arange(40)).all(), name
    assert (epochs[0] != epochs[1]).sum() > 30 and (epochs[1] != epochs[2]).sum() > 30, name
    assert (abs(np.diff(epochs)) > 1).mean() > 0.8, name
for name in ('other', 'own'):
    assert (read(name) != one).sum() > 90, name
assert (read('own') == read('own-alone')).all(), "HDF5Data's own"
for folder in glob.glob('same-*'):
    with h5py.File(folder + '/tested.h5', 'r') as f:
        assert (f['data'][:4].ravel() == np.arange(4)).all(), folder
for kind in sys.argv[1:]:  # label i % 10 of record i
    raw = read('raw-' + kind)
    assert (raw == read('raw-%s-3' % kind)).all(), kind
    assert (np.diff(raw) % 10 != 1).sum() > 80, kind
if 'leveldb' in sys.argv:
    assert (np.sort(raw.reshape(2, 60)) == np.arange(60) // 6).all()
PY
# two layers with as many records: label k stays with image k, whichever of them is shuffled or begins later
pair() { # RANKS IMAGES LABELS [OPTION...]
    cat >pair.net <<END
layer { name: "im" top: "data" $2 }
layer { name: "lab" top: "label" $3 }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" param { lr_mult: 1e-30 } param { lr_mult: 0 }
    inner_product_param { num_output: 1 weight_filler { type: "constant" value: 0.0208333333 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" }
END
    text=$*
    echo 'net: "pair.net" base_lr: 1 lr_policy: "fixed" max_iter: 30 display: 1 snapshot_after_train: false random_seed: 7' >pair.solver
    ranks=$1
    shift 3
    train "$ranks" log --solver=pair.solver --threads=1 "$@" || { fail "$text"; tail -n 2 log; return; }
    awk '/, loss = / { n++; if ($NF > 1e-6) wrong++ } END { exit !(n >= 30 && !wrong) }' log || { fail "parted: $text"; grep -e ', loss = ' log | head -n 3; }
}
hdf5='type: "HDF5Data" hdf5_data_param { source: "parts.txt" batch_size: 4'
data='type: "Data" data_param { source: "all.h5" batch_size: 4'
for ranks in 1 3; do
    for way in 'shuffle: true|' '|shuffle: true' 'shuffle: true|shuffle: true' '|'; do
        pair $ranks "$data ${way%|*} }" "$hdf5 ${way#*|} }"
        pair $ranks "$data ${way%|*} }" "$hdf5 ${way#*|} }" --shuffle
    done
    pair $ranks "$data }" 'type: "Data" data_param { source: "labels.h5" batch_size: 4 shuffle: true }'
    "$POSEIDON" --version | grep -q PNG && pair $ranks 'top: "own" type: "ImageData" image_data_param { source: "list.txt" batch_size: 4 shuffle: true }' "$hdf5 }"
done
pair 2 "$data rand_skip: 30 }" "$hdf5 }"
grep -q "layer 'lab': samples come in the order of layer 'im', which has as many records (40)" log || { fail 'the order that holds for both is not said'; cat log; }
parts="layer 'lab': --max-bad replaces a damaged record by the next record in this layer alone: the sample then no longer matches layer 'im', which has as many records (40)"
grep -q -e --max-bad log && { fail 'a word of --max-bad'; cat log; }
for way in '' --dry-run; do
    train 2 log --solver=pair.solver --max-bad=1 $way
    [ "$(grep -c "$parts" log)" -eq 1 ] || { fail "two layers that --max-bad parts are not said once: $way"; cat log; }
done
# refused MESSAGE OPTION...
refused() {
    message=$1
    shift
    train 2 log --solver=solver.prototxt "$@" && fail "$* trains"
    [ "$(grep -c '^poseidon train: ' log)" -eq 1 ] && grep -q "^poseidon train: $message" log || { fail "expected '$message'"; cat log; }
}
cat >net.prototxt <<'END'
layer { name: "d" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 6 dim: 7 } shape { dim: 6 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 4 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }
END
refused 'net.prototxt: --shuffle is for layers that read records (Data, ImageData, HDF5Data), and the TRAIN phase has none' --shuffle
finish
