#!/bin/sh
# Caffe's tools by links to scripts/caffe: its arguments in its order, and what comes out is what our commands make.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
poseidon=$POSEIDON
for tool in convert_imageset compute_image_mean extract_features upgrade_net_proto_text upgrade_solver_proto_text; do
    ln -s "$abs_top_srcdir/scripts/caffe" $tool
done
ln -s "$abs_top_srcdir/scripts/caffe" caffe
tool() { # NAME ARGUMENT...
    program=./$1
    shift
    run "$@"
    program=$poseidon
}
ok() {
    [ "$status" -eq 0 ] || fail "$1: status $status: $err"
    has "$out$err" "$2" "$1"
}
bad() {
    [ "$status" -eq 1 ] || fail "$1: status $status"
    has "$err" "$2" "$1"
}

# usage, and too few words
tool convert_imageset --help
ok 'help' 'usage: convert_imageset *ROOT/ LIST DB'
tool convert_imageset root/ list.txt
bad 'two words' 'convert_imageset: expected 3 words, found 2*usage: convert_imageset'
tool compute_image_mean a b c
bad 'three words' 'compute_image_mean: expected 1 or more words, found 3'
tool extract_features w.caffemodel net.prototxt a db 1 leveldb
bad 'LevelDB' 'extract_features: leveldb is not written: expected lmdb'
tool extract_features w.caffemodel net.prototxt a db 1 lmdb TPU
bad 'a TPU' "expected CPU or GPU, found 'TPU'"
for side in --resize_width=4 '-resize_height 4' --resize_width=0; do
    # shellcheck disable=SC2086 # words
    tool convert_imageset $side root/ list.txt db
    bad 'one side' '--resize_width and --resize_height go together'
done
tool upgrade_net_proto_text 'in a folder' 'out $(of) it'
bad 'blanks' 'upgrade_net_proto_text: in a folder: no such file'
tool convert_imageset --check_sizes root/ list.txt db
bad 'an unknown flag' 'convert_imageset: unknown option --check-sizes; did you mean --check-size?'
tool convert_imageset root/ list.txt db --threads
bad 'a flag without its value' 'convert_imageset: --threads needs a value'
for words in "extract_features w.caffemodel none.prototxt a db 1 lmdb" 'upgrade_net_proto_text none out' 'compute_image_mean none' \
    'convert_imageset none/ none db'; do
    # shellcheck disable=SC2086 # words
    tool $words
    bad 'no such file' "${words%% *}: *none*"
    lacks "$err" "poseidon convert" "$words"
done
# caffe itself, the place of the program, and a name that no tool has
tool caffe
bad 'no command' "caffe: expected a command, found ''*usage: caffe train|test|time|device_query"
tool caffe trian -solver s
bad 'a command' "caffe: expected a command, found 'trian'"
tool caffe --help
ok 'help' 'usage: caffe train|test|time|device_query'
tool caffe -version
ok 'version' 'poseidon [0-9]*'
same device_query "$("$POSEIDON" device_query 2>&1)" "$(./caffe device_query -gpu all 2>&1)"
tool caffe train -solver none
bad 'train' 'poseidon train: none: no such file'
err=$(OMPI_COMM_WORLD_SIZE=2 ./compute_image_mean none 2>&1) && fail 'two ranks: status 0'
has "$err" 'compute_image_mean: runs on one rank, but 2 ranks were started' 'two ranks'
ln -s "$abs_top_srcdir/scripts/caffe" finetune_net
tool finetune_net a b
bad 'another name' 'finetune_net: Caffe has no tool of this name'
mkdir bin
ln -s "$abs_top_srcdir/scripts/caffe" bin/caffe
POSEIDON='' PATH=/usr/bin:/bin ./bin/caffe -version >said 2>&1 && ! command -v poseidon >/dev/null && fail "no poseidon: $(cat said)"
ln -s "$POSEIDON" bin/poseidon
POSEIDON='' ./bin/caffe -version >said 2>&1 || fail "poseidon beside caffe is not found: $(cat said)"
err=$(POSEIDON=/nowhere/poseidon ./caffe -version 2>&1) && fail 'a program that is not there: status 0'
has "$err" 'caffe: /nowhere/poseidon is not there; expected it beside this program or in PATH' 'a program that is not there'

if [ -e /dev/full ]; then
    ./convert_imageset --help 2>full.err >/dev/full && fail 'a full disk: status 0'
    has "$(cat full.err)" 'convert_imageset: standard output cannot be written: No space left on device' 'a full disk'
    ./caffe -version 2>full.err >/dev/full && fail 'a full disk: status 0'
    has "$(cat full.err)" 'poseidon --version: standard output cannot be written: No space left on device' 'a full disk'
fi

case $("$POSEIDON" --version) in
*LMDB*PNG*) ;;
*) echo 'left out: data bases of photographs (built without LMDB or PNG)'; finish ;;
esac
mkdir root
cp "$abs_top_srcdir/tests/data/input/images/gray.png" root/a.png
cp "$abs_top_srcdir/tests/data/input/images/palette.png" "root/b c.png"
printf 'a.png 3\nb c.png 5\n' >list.txt

# a data base is what "convert images" makes
tool convert_imageset --resize_height=8 -resize_width 8 --shuffle=false root/ list.txt train
ok 'convert_imageset' '*train: 2 images of 3x8x8*'
"$POSEIDON" convert images list.txt own_lmdb --root=root/ --resize=8x8 >/dev/null
cmp -s train/data.mdb own_lmdb/data.mdb || fail 'convert_imageset: another data base than convert images makes'
tool convert_imageset root/ list.txt train
bad 'an existing data base' '*train*exists*--force*'
tool convert_imageset --backend=leveldb root/ list.txt other
bad 'writing LevelDB' '*--backend=leveldb: expected lmdb or hdf5*'
tool convert_imageset --gray --check_size --encoded --encode_type=png root/ list.txt encoded
ok 'flags' '*encoded: 2 images of 1x23x37*'

tool compute_image_mean --backend=lmdb train mean.binaryproto
ok 'compute_image_mean' '*mean_value channel ?0?: *mean_value channel ?2?: *'
"$POSEIDON" mean train own.binaryproto | grep mean_value >own
printf '%s\n' "$out" | grep mean_value | cmp -s - own || fail 'compute_image_mean: other means than mean prints'
cmp -s mean.binaryproto own.binaryproto || fail 'compute_image_mean: another file than mean makes'
echo old >mean.binaryproto # which Caffe's tool replaces
tool compute_image_mean train mean.binaryproto
ok 'an existing mean' '*mean_value channel ?0?: *'
cmp -s mean.binaryproto own.binaryproto || fail 'compute_image_mean: an existing file was not replaced'
tool compute_image_mean train train
bad 'a mean on its own data base' '*train is a folder*'
tool compute_image_mean -backend lmdb train
ok 'a mean without a file' '*mean_value channel ?1?: *'

# features as Datum messages: what a Data layer reads of them is what "extract" writes
cat >net.prototxt <<'EOF'
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: 'train' batch_size: 2 } transform_param { scale: 0.01 } }
layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv' convolution_param { num_output: 2 kernel_size: 5 weight_filler { type: 'xavier' } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param { num_output: 7 weight_filler { type: 'xavier' } } }
layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }
EOF
echo "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'w'" >solver.prototxt
tool caffe train -solver solver.prototxt -snapshot=
bad 'an empty snapshot' 'poseidon train: '
tool caffe train -solver solver.prototxt
ok 'caffe train' '*Optimization Done*'
tool caffe test -model net.prototxt -weights w_iter_1.caffemodel -iterations 1
ok 'caffe test' '*l = *'
tool caffe time -model net.prototxt -iterations 1
ok 'caffe time' '*Average Forward-Backward*'
tool extract_features w_iter_1.caffemodel net.prototxt conv,ip conv_db,ip_db 3 lmdb CPU 0
ok 'extract_features' '*ip, 6 rows*'
works '*' extract --model=net.prototxt --weights=w_iter_1.caffemodel --blobs=conv,ip --iterations=3 own.h5
for blob in conv ip; do
    echo "layer { name: 'd' type: 'Data' top: '$blob' data_param { source: '${blob}_db' batch_size: 6 } }
        layer { name: 'p' type: 'Power' bottom: '$blob' top: 'p' }" >read.prototxt
    # a net without parameters needs weights of some name
    "$POSEIDON" extract --model=read.prototxt --weights=w_iter_1.caffemodel --blobs=$blob read_$blob.h5 >/dev/null 2>read.err
    [ -f read_$blob.h5 ] || fail "$blob: cannot be read: $(cat read.err)"
done
if [ -n "${POSEIDON_PYTHON:-}" ]; then
    # keys and messages of Caffe's tool: no label, no empty image
    "$POSEIDON_PYTHON" - <<'EOF' || fail 'extract_features: other records than Caffe writes'
try:
    import lmdb, struct
except ImportError:
    print("left out: keys of features (no lmdb for python3)")
    raise SystemExit(0)
for blob, shape in ("conv", (2, 4, 4)), ("ip", (7, 1, 1)):
    with lmdb.open(blob + "_db", readonly=True, lock=False) as env, env.begin() as txn:
        records = list(txn.cursor())
    n = shape[0] * shape[1] * shape[2]
    assert [k for k, _ in records] == [b"%010d" % i for i in range(6)], records[0][0]
    for _, value in records:  # fields 1 to 3, then floats in field 6, one by one
        assert value[:6] == bytes([8, shape[0], 16, shape[1], 24, shape[2]]), value[:16]
        assert len(value) == 6 + 5 * n and all(value[6 + 5 * i] == 6 << 3 | 5 for i in range(n)), value
EOF
    "$POSEIDON_PYTHON" - <<'EOF' || fail 'extract_features: other values than extract writes'
import h5py
own = h5py.File("own.h5", "r")
for blob in ("conv", "ip"):
    read, expected = h5py.File("read_%s.h5" % blob, "r")[blob][()], own[blob][()]
    assert read.size == expected.size and (read.ravel() == expected.ravel()).all(), blob
EOF
else
    echo 'left out: values of features (no python3 with h5py)'
fi
refuses '*--databases names 1 and --blobs names 2: expected a database for each blob*' extract --model=net.prototxt \
    --weights=w_iter_1.caffemodel --blobs=conv,ip --databases=one
refuses '*expected OUT.h5 or --databases, not both*' extract --model=net.prototxt --weights=w_iter_1.caffemodel \
    --blobs=ip --databases=one out.h5

# old forms
echo "layers { name: 'c' type: RELU bottom: 'x' top: 'y' } input: 'x' input_dim: 1 input_dim: 1 input_dim: 2 input_dim: 2" >old.prototxt
echo old >new.prototxt
tool upgrade_net_proto_text old.prototxt new.prototxt
ok 'upgrade_net_proto_text' '*written as a net*'
grep -q 'type: "ReLU"' new.prototxt || fail "upgrade_net_proto_text: $(cat new.prototxt)"
echo "net: 'net.prototxt' solver_type: ADAM base_lr: 0.1 lr_policy: 'fixed'" >old_solver.prototxt
echo old >new_solver.prototxt
tool upgrade_solver_proto_text old_solver.prototxt new_solver.prototxt
ok 'upgrade_solver_proto_text' '*written as a solver*'
grep -q 'type: "Adam"' new_solver.prototxt || fail "upgrade_solver_proto_text: $(cat new_solver.prototxt)"
finish
