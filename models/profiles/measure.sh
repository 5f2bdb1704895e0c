#!/bin/sh
# Writes this machine's profiles, cpu-NET.csv: what "poseidon time" measures on all its cores, with a head that says of
# which processor and how. Nothing else should run meanwhile.
#
#     models/profiles/measure.sh [--program=build/poseidon] [--out=FOLDER] [NET...]
set -u
here=$(cd "$(dirname "$0")" && pwd)
program=$here/../../build/poseidon out=$here

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

vector=none
for feature in avx2 avx512f amx_tile; do
    grep -qw "$feature" /proc/cpuinfo && vector=$feature
done
processor="$(field 'model name' | sed 's/([RT]M*)//g'), family $(field 'cpu family'), model $(field model), $vector"
! grep -qw hypervisor /proc/cpuinfo || processor="$processor; a virtual machine"

echo "$nets" | while read -r net images iterations input; do
    [ $# -eq 0 ] || case " $* " in *" $net "*) ;; *) continue ;; esac
    file=$out/cpu-$net.csv
    "$program" time --model="$here/../$net/train_val.prototxt" --batch="$images" --iterations="$iterations" \
        --input-shape="$input" --threads="$(nproc)" --profile="$file.new" --force >"$file.said" 2>&1 || {
        tail -n 1 "$file.said" >&2
        exit 1
    }
    {
        awk -F, -v net="$net" -v images="$images" '
            !/^#/ && $1 != "layer" && $1 !~ /^\*/ { seconds += $3 + $4 }
            END {
                printf "# %s on a processor. Written by models/profiles/measure.sh.\n", net
                printf "# Rate: %.1f images/s, %d images in %.6g s, the update left out.\n", images / seconds, images, seconds
            }' "$file.new"
        echo "# Grade: measured, nothing else on the machine, $(date -u +%B\ %Y)."
        echo "# Source: poseidon time --batch=$images --iterations=$iterations --threads=$(nproc) --profile=FILE."
        echo "# Processor: $(nproc) cores of $processor."
        cat "$file.new"
    } >"$file" && rm "$file.new" "$file.said" || exit 1
done
