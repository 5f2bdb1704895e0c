#!/bin/sh
# Writes this machine's profiles, cpu-NET.csv: what "poseidon time" measures on all its cores, with a head that says of
# which processor and how; with --gpu, NAME-NET.csv of its first GPU, in TF32: NAME is the first word with a digit of
# what the driver calls it (nvidia-smi), in small letters. Nothing else should run meanwhile.
#
#     models/profiles/measure.sh [--program=build/poseidon] [--out=FOLDER] [--gpu='NVIDIA H200'] [NET...]
set -u
here=$(cd "$(dirname "$0")" && pwd)
program=$here/../../build/poseidon out=$here gpu=

# net, images, iterations, input
nets='lenet 64 50 1,28,28
cifar10_quick 100 50 3,32,32
alexnet 64 5 3,227,227
googlenet 32 5 3,224,224
resnet50 16 5 3,224,224
vgg16 16 3 3,224,224'

while [ $# -gt 0 ]; do
    case $1 in
    --program=*) program=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --gpu=*) gpu=${1#*=} ;;
    -*)
        echo "measure.sh: unknown argument '$1'" >&2
        exit 1
        ;;
    *) break ;;
    esac
    shift
done

field() { # NAME: of the first processor
    sed -n "s/^$1[[:space:]]*: //p" /proc/cpuinfo | head -n 1
}

if [ -n "$gpu" ]; then
    nets='alexnet 256 10 3,227,227
googlenet 128 10 3,224,224
resnet50 128 10 3,224,224
vgg16 64 10 3,224,224'
    kind=$(echo "$gpu" | tr '[:upper:] -' '[:lower:]\n\n' | grep -m 1 '[0-9]')
    how='--engine=cuda --math=tf32'
    place="one $gpu"
    device="GPU: $gpu, cuDNN $("$program" device_query | sed -n 's/.*cuDNN \([0-9.]*\).*/\1/p')"
else
    vector=none
    for feature in avx2 avx512f amx_tile; do
        grep -qw "$feature" /proc/cpuinfo && vector=$feature
    done
    kind=cpu
    how="--threads=$(nproc)"
    place='a processor'
    device="Processor: $(nproc) cores of $(field 'model name' | sed 's/([RT]M*)//g'), family $(field 'cpu family')"
    device="$device, model $(field model), $vector"
    ! grep -qw hypervisor /proc/cpuinfo || device="$device; a virtual machine"
fi

echo "$nets" | while read -r net images iterations input; do
    [ $# -eq 0 ] || case " $* " in *" $net "*) ;; *) continue ;; esac
    file=$out/$kind-$net.csv
    # shellcheck disable=SC2086
    "$program" time --model="$here/../$net/train_val.prototxt" --batch="$images" --iterations="$iterations" \
        --input-shape="$input" $how --profile="$file.new" --force >"$file.said" 2>&1 </dev/null || {
        tail -n 1 "$file.said" >&2
        exit 1
    }
    {
        awk -F, -v net="$net" -v images="$images" -v place="$place" '
            !/^#/ && $1 != "layer" && $1 !~ /^\*/ { seconds += $3 + $4 }
            END {
                printf "# %s on %s. Written by models/profiles/measure.sh.\n", net, place
                printf "# Rate: %.1f images/s, %d images in %.6g s, the update left out.\n", images / seconds, images, seconds
            }' "$file.new"
        echo "# Grade: measured, nothing else on the machine, $(date -u +%B\ %Y)."
        echo "# Source: poseidon time --batch=$images --iterations=$iterations $how --profile=FILE."
        echo "# $device."
        cat "$file.new"
    } >"$file" && rm "$file.new" "$file.said" || exit 1
done
