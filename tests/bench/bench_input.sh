#!/bin/sh
# bench_input.sh [LIST]: images a second of one core from HDF5, LMDB (pixels and JPEG) and a list of photographs, each cropped,
# mirrored and less a mean as in training. LIST: "PATH LABEL" lines of photographs; that of flowers17-256 in POSEIDON_DATA otherwise.
set -eu
: "${abs_top_builddir:=.}"
list=${1:-${POSEIDON_DATA:+$POSEIDON_DATA/flowers17-256/train.txt}}
[ -n "$list" ] || { echo 'bench_input.sh: no photographs (an argument or POSEIDON_DATA)' >&2; exit 0; }
poseidon=$abs_top_builddir/poseidon bench=$abs_top_builddir/tests/bench/bench_input
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# convert NAME OPTION...
convert() {
    name=$1
    shift
    "$poseidon" convert images "$list" "$scratch/$name" --resize=256x256 --shuffle "$@" >"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }
}
convert pixels.h5
convert pixels_lmdb
convert jpeg_lmdb --encoded

# rate WORDS TYPE PARAMETERS [TRANSFORM]
rate() {
    cat >"$scratch/net.prototxt" <<END
layer { name: "data" type: "$2" top: "data" top: "label" $3
  transform_param { crop_size: 227 mirror: true mean_value: 104 mean_value: 117 mean_value: 123 ${4:-} } }
END
    printf '%-28s ' "$1"
    taskset -c "${CORE:-0}" "$bench" --model="$scratch/net.prototxt" --passes="${PASSES:-60}"
}
rate 'HDF5' Data "data_param { source: '$scratch/pixels.h5' batch_size: 16 }"
crops='random_aspect_ratio_param { min_area_ratio: 0.08 aspect_ratio_change: 0.866 }'
rate 'HDF5, resized crops' Data "data_param { source: '$scratch/pixels.h5' batch_size: 16 }" "$crops"
rate 'HDF5, and colours' Data "data_param { source: '$scratch/pixels.h5' batch_size: 16 }" "$crops
  distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 contrast_lower: 0.6 contrast_upper: 1.4
    saturation_prob: 0.5 saturation_lower: 0.6 saturation_upper: 1.4 }"
rate 'LMDB, pixels' Data "data_param { source: '$scratch/pixels_lmdb' batch_size: 16 backend: LMDB }"
rate 'LMDB, JPEG' Data "data_param { source: '$scratch/jpeg_lmdb' batch_size: 16 backend: LMDB }"
rate 'list of JPEG files' ImageData \
    "image_data_param { source: '$list' root_folder: '$(dirname "$list")/' new_height: 256 new_width: 256 shuffle: true batch_size: 16 }"
