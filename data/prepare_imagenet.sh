#!/bin/sh
# Makes Data layers' files of the ImageNet archives as they are published.
#
#     prepare_imagenet.sh ARCHIVES OUT [--lmdb] [--size=256] [--train-only] [-- ARGUMENT...]
#
# ARCHIVES is the folder with what image-net.org and Caffe's authors publish:
#     ILSVRC2012_img_train.tar     a tar for every class: n01440764.tar, ...
#     ILSVRC2012_img_val.tar       ILSVRC2012_val_00000001.JPEG, ...
#     caffe_ilsvrc12.tar.gz        val.txt: the classes of the latter, in Caffe's numbers
# OUT gets train.txt, val.txt, and train.h5 and val.h5 (--lmdb: train_lmdb, val_lmdb, of the JPEG files as they are),
# with the mean of the training images in mean.h5 (mean.binaryproto). Classes are numbered in the order of their names, as
# Caffe's synsets.txt does. Photographs are unpacked below OUT/images first: 150 GB, and 250 GB for HDF5 at 256 x 256; a
# second call goes on with what is there. --size=N squashes to N x N (LMDB: only where it is given). More arguments go
# to "poseidon convert images", such as --threads=16. POSEIDON names the program (poseidon).
#
# ImageNet-22K: the fall 2011 release, fall11_whole.tar, is a tar of tars too, of 21,841 classes, with no validation half:
#     mkdir all && ln -s /where/fall11_whole.tar all/ILSVRC2012_img_train.tar && prepare_imagenet.sh all OUT --train-only
# 14 million photographs: 1.3 TB unpacked. The papers train on a random half and test on the other; split train.txt so:
#     shuf --random-source=train.txt train.txt >all.txt; split -n l/2 all.txt half.
#     poseidon convert images half.aa train_lmdb --root=OUT/images/train --encoded
set -eu

lmdb=false size='' train_only=false archives='' out=''
program=${POSEIDON:-poseidon}

die() {
    echo "prepare_imagenet.sh: $1" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --lmdb) lmdb=true ;;
    --size=*) size=${1#*=} ;;
    --train-only) train_only=true ;;
    --help | -h)
        sed -n '2,/^set -eu/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
        exit 0
        ;;
    --)
        shift
        break
        ;;
    -*) die "unknown argument '$1' (prepare_imagenet.sh --help)" ;;
    *)
        [ -z "$out" ] || die "one folder of archives and one to write to are wanted, found '$1' besides"
        if [ -z "$archives" ]; then archives=$1; else out=$1; fi
        ;;
    esac
    shift
done
[ -n "$out" ] || die 'which folders? prepare_imagenet.sh ARCHIVES OUT'
case $size in
*[!0-9]* | 0*) die "--size wants a number of at least 1, found '$size'" ;;
esac
train=$archives/ILSVRC2012_img_train.tar val=$archives/ILSVRC2012_img_val.tar lists=$archives/caffe_ilsvrc12.tar.gz
[ -r "$train" ] || die "$train is not there"
$train_only || [ -r "$val" ] || die "$val is not there (--train-only does without)"
$train_only || [ -r "$lists" ] || die "$lists is not there: it has the classes of the validation images"
mkdir -p "$out/images/train" "$out/images/val"

# A class whose folder is there was unpacked whole: it gets its name last.
tar -tf "$train" | sed 's|^\./||' | LC_ALL=C sort >"$out/classes.tars"
while read -r class; do
    name=${class##*/}
    name=${name%.tar}
    [ ! -d "$out/images/train/$name" ] || continue
    rm -rf "$out/images/train/.part"
    mkdir "$out/images/train/.part"
    tar -xOf "$train" --wildcards "*$name.tar" | tar -xf - -C "$out/images/train/.part" ||
        die "$train: $class is damaged"
    mv "$out/images/train/.part" "$out/images/train/$name"
done <"$out/classes.tars"
rm "$out/classes.tars"
(cd "$out/images/train" && find . -mindepth 2 -type f | sed 's|^\./||' | LC_ALL=C sort) |
    awk -F/ '$1 != last { n += last != ""; last = $1 } { print $0, n + 0 }' >"$out/train.txt"
[ -s "$out/train.txt" ] || die "$train has no class"
if ! $train_only; then
    tar -xf "$val" -C "$out/images/val" || die "$val is damaged"
    tar -xzOf "$lists" --wildcards '*val.txt' >"$out/val.txt" || die "$lists has no val.txt"
fi
echo "$(wc -l <"$out/train.txt") photographs to train with, of $(awk 'END { print $2 + 1 }' "$out/train.txt") classes"

# convert LIST PHOTOGRAPHS NAME ARGUMENT...
convert() {
    list=$1 photographs=$2 name=$3
    shift 3
    if $lmdb; then
        "$program" convert images "$list" "$out/${name}_lmdb" --root="$photographs" --encoded \
            ${size:+"--resize=${size}x$size"} "$@"
    else
        "$program" convert images "$list" "$out/$name.h5" --root="$photographs" --resize="${size:-256}x${size:-256}" "$@"
    fi
}

convert "$out/train.txt" "$out/images/train" train --shuffle "$@"
if ! $lmdb; then
    "$program" mean "$out/train.h5" "$out/mean.h5" --force
elif [ -n "$size" ]; then # photographs of many sizes have no mean image
    "$program" mean "$out/train_lmdb" "$out/mean.binaryproto" --force
fi
$train_only || convert "$out/val.txt" "$out/images/val" val "$@"
