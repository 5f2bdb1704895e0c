#!/bin/sh
# Random resized crops and colours in training: the same pictures from HDF5, LMDB and files, on 1 and 3 ranks, with 1 and 2
# threads; other ones in the next pass, none in a test; one message, with its place, for a field out of range and for floats.
. "$abs_top_srcdir/tests/mpi/common.sh"
[ -n "${POSEIDON_PYTHON:-}" ] || { echo 'no python3 with h5py'; exit 77; }
cd "$work" || exit 1
"$POSEIDON_PYTHON" - <<'PY' || exit 1
import struct, zlib
import h5py, numpy as np
rng = np.random.RandomState(4)
def png(path, x):
    chunk = lambda kind, text: struct.pack('>I', len(text)) + kind + text + struct.pack('>I', zlib.crc32(kind + text))
    rows = b''.join(b'\0' + row.tobytes() for row in x)
    with open(path, 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', x.shape[1], x.shape[0], 8, 2, 0, 0, 0))
                + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
with open('list.txt', 'w') as f:
    for i in range(12):
        png('%d.png' % i, rng.randint(0, 256, (40, 36, 3)).astype('u1'))
        print('%d.png %d' % (i, i), file=f)
with h5py.File('floats.h5', 'w') as f:
    f['data'], f['label'] = rng.rand(12, 3, 40, 36).astype('f4'), np.arange(12)
PY
"$POSEIDON" convert images list.txt hdf5.h5 >log 2>&1 && "$POSEIDON" convert images list.txt pixels_lmdb >>log 2>&1 || { cat log; exit 1; }

fields='random_aspect_ratio_param { min_area_ratio: 0.08 aspect_ratio_change: 0.866 }
    distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 contrast_lower: 0.6 contrast_upper: 1.4
      saturation_prob: 0.5 saturation_lower: 0.6 saturation_upper: 1.4 }'
# net SOURCE BATCH [FIELDS]: net.prototxt, which writes the batches of both phases
net() {
    case $1 in
    list.txt) data="type: \"ImageData\" image_data_param { source: \"$1\" batch_size: $2 }" ;;
    *) data="type: \"Data\" data_param { source: \"$1\" batch_size: $2 backend: LMDB }" ;;
    esac
    cat >net.prototxt <<END
layer { name: "data" top: "data" top: "label" $data
  transform_param { crop_size: 24 mirror: true ${3-$fields} } }
layer { name: "seen" type: "HDF5Output" bottom: "data" bottom: "label" hdf5_output_param { file_name: "seen.h5" } include { phase: TRAIN } }
layer { name: "tested" type: "HDF5Output" bottom: "data" bottom: "label" hdf5_output_param { file_name: "tested.h5" } include { phase: TEST } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 12 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
END
    printf 'net: "net.prototxt"\nbase_lr: 0\nlr_policy: "fixed"\nmax_iter: 4\nsnapshot_after_train: false\ntest_iter: 1\ntest_interval: 4\nrandom_seed: 5\n' >solver.prototxt
}
# seen SOURCE RANKS THREADS: the batches of that training in SOURCE.RANKS.THREADS/
seen() {
    net "$1" $((6 / $2))
    rm -f seen.h5* tested.h5*
    train "$2" log --solver=solver.prototxt --threads="$3" || { fail "$1, $2 ranks"; tail -n 5 log; return; }
    mkdir "$1.$2.$3" && mv seen.h5* tested.h5* "$1.$2.$3"
}
for source in hdf5.h5 pixels_lmdb list.txt; do
    seen $source 1 1
    seen $source 3 2
done
seen list.txt 1 2
"$POSEIDON_PYTHON" - <<'PY' || fail 'the batches'
import glob, h5py, numpy as np
def read(folder, name):
    parts = [np.array(h5py.File(p, 'r')['data']) for p in [folder + '/' + name] + sorted(glob.glob(folder + '/' + name + '.rank*'))]
    batch = 6 // len(parts)  # each iteration's samples are dealt to the ranks in order
    return np.concatenate([p[i:i + batch] for i in range(0, len(parts[0]), batch) for p in parts])
one = read('hdf5.h5.1.1', 'seen.h5')
assert one.shape == (24, 3, 24, 24), one.shape
for folder in sorted(glob.glob('*.[13].[12]')):
    other = read(folder, 'seen.h5')
    assert (one == other).all(), '%s: %g off' % (folder, abs(one - other).max())
assert (one == one.astype('u1')).all() and one.std() > 20
assert all((one[i] != one[12 + i]).mean() > 0.5 for i in range(12)), 'the second pass repeats the first'
with h5py.File('hdf5.h5', 'r') as f:
    records = np.array(f['data'])
tested = read('hdf5.h5.1.1', 'tested.h5')[:6]
for x, record in zip(tested, records[:6]):
    whole = record[:, 8:32, 6:30]
    assert (x == whole).all() or (x == whole[:, :, ::-1]).all(), 'a test image is not the centre'
PY
# refused SOURCE FIELDS MESSAGE
refused() {
    net "$1" 6 "$2"
    train 2 log --solver=solver.prototxt && fail "'$2' trains"
    [ "$(grep -c '^poseidon train: ' log)" -eq 1 ] && grep -q -F "poseidon train: net.prototxt:1: layer 'data' (Data): $3" log || { fail "'$2': expected '$3'"; cat log; }
}
refused hdf5.h5 'random_aspect_ratio_param { aspect_ratio_change: 1.33 }' 'transform_param: random_aspect_ratio_param.aspect_ratio_change is 1.33; expected 0.0001 to 1'
refused floats.h5 'distort_param { contrast_prob: 1 contrast_lower: 0.5 contrast_upper: 1.5 }' 'transform_param: random_aspect_ratio_param and distort_param work on images of bytes, found floats'
net hdf5.h5 6 'distort_param { hue_prob: 0.5 hue_delta: 18 }'
train 1 log --solver=solver.prototxt && fail 'hue is not there and trains'
grep -q 'net.prototxt:2:.*hue_prob.*fork of SSD' log || { fail 'hue'; cat log; }
finish
