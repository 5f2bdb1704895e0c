#!/bin/sh
# data/prepare_imagenet.sh, on sample photographs renamed into the layout of the published archives: every photograph with
# the number of its class, as HDF5 and as LMDB. Skipped without POSEIDON_DATA.
set -u
prepare=${abs_top_srcdir:?}/data/prepare_imagenet.sh
samples=${POSEIDON_DATA:-}/imagenet-samples
if [ -z "${POSEIDON_DATA:-}" ] || [ ! -d "$samples" ]; then
    echo "SKIP: POSEIDON_DATA has no imagenet-samples"
    exit 77
fi
"${POSEIDON:?}" convert images --help | grep -q lmdb || { echo 'SKIP: built without photographs'; exit 77; }
. "${abs_top_srcdir:?}/tests/common.sh"

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    said=$(sh "$prepare" "$@" 2>&1) && fail "$*: accepted"
    case $said in
    *"$pattern"*) ;;
    *) fail "$*: expected '$pattern', found '$said'" ;;
    esac
}

# 20 classes: a tar each, two photographs in the first; three of them again for validation
mkdir "$folder/archives" "$folder/classes" "$folder/val"
n=0
for photograph in $(find "$samples" -name '*.JPEG' | LC_ALL=C sort | head -n 20); do
    name=$(basename "$photograph") class=
    class=${name%%_*}
    mkdir "$folder/$class"
    cp "$photograph" "$folder/$class/${class}_10.JPEG"
    [ $n -gt 0 ] || cp "$photograph" "$folder/$class/${class}_9.JPEG"
    tar -cf "$folder/classes/$class.tar" -C "$folder/$class" .
    if [ $((n % 7)) -eq 0 ]; then
        cp "$photograph" "$folder/val/$(printf 'ILSVRC2012_val_%08d.JPEG' $((n + 1)))"
        printf 'ILSVRC2012_val_%08d.JPEG %d\n' $((n + 1)) $n >>"$folder/val.txt"
    fi
    n=$((n + 1))
done
refuses 'which folders?' "$folder/archives"
refuses 'ILSVRC2012_img_train.tar is not there' "$folder/archives" "$folder/out"
(cd "$folder/classes" && tar -cf "$folder/archives/ILSVRC2012_img_train.tar" ./*.tar)
refuses 'ILSVRC2012_img_val.tar is not there' "$folder/archives" "$folder/out"
tar -cf "$folder/archives/ILSVRC2012_img_val.tar" -C "$folder/val" .
refuses 'caffe_ilsvrc12.tar.gz is not there' "$folder/archives" "$folder/out"
tar -czf "$folder/archives/caffe_ilsvrc12.tar.gz" -C "$folder" ./val.txt
refuses "--size wants a number of at least 1, found 'x'" "$folder/archives" "$folder/out" --size=x
refuses "unknown argument '--fast'" "$folder/archives" "$folder/out" --fast

sh "$prepare" "$folder/archives" "$folder/out" --size=32 >"$folder/said" 2>&1 || fail "HDF5: $(tail -n 3 "$folder/said")"
grep -q '^21 photographs to train with, of 20 classes' "$folder/said" || fail "counted: $(cat "$folder/said")"
[ "$(awk '{ print $2 }' "$folder/out/train.txt" | tr '\n' ' ')" = '0 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ' ] ||
    fail "classes: $(cat "$folder/out/train.txt")"
[ -s "$folder/out/mean.h5" ] || fail 'there is no mean'
if [ -n "${POSEIDON_PYTHON:-}" ]; then
    "$POSEIDON_PYTHON" - "$folder/out" <<'EOF' || fail 'the files are wrong'
import sys, h5py
train, val = (h5py.File("%s/%s.h5" % (sys.argv[1], name), "r") for name in ("train", "val"))
assert train["data"].shape == (21, 3, 32, 32) and val["data"].shape == (3, 3, 32, 32)
assert sorted(train["label"][:]) == [0] + list(range(20)) and list(val["label"][:]) == [0, 7, 14]
for label in (0, 7, 14):  # the same photograph
    of_train = train["data"][list(train["label"][:]).index(label)]
    assert (val["data"][[0, 7, 14].index(label)] == of_train).all()
EOF
fi
rm -rf "$folder/out/train.h5" "$folder/out/val.h5" # goes on with what is unpacked
sh "$prepare" "$folder/archives" "$folder/out" --lmdb >"$folder/said" 2>&1 || {
    grep -q 'without LMDB' "$folder/said" || fail "LMDB: $(tail -n 3 "$folder/said")"
}
sh "$prepare" "$folder/archives" "$folder/whole" --train-only --size=16 >"$folder/said" 2>&1 ||
    fail "--train-only: $(tail -n 3 "$folder/said")"
if [ ! -s "$folder/whole/train.h5" ] || [ -e "$folder/whole/val.h5" ]; then fail "--train-only"; fi

finish
