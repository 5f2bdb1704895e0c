#!/bin/sh
# make_pictures.sh POSEIDON [nets] [logs] [reproduction]
#
# Makes the pictures of README.md and docs/ anew where they stand, from what the repository has: nets (by draw, which
# needs Graphviz's library), committed logs of trainings (by jobs/plot_log.sh, which needs gnuplot), and, together
# with its page, docs/REPRODUCTION.md's simulations (by jobs/reproduce.sh: many minutes). Without names all three.
set -eu
case ${1:--h} in
-*) sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2; exit 2 ;;
esac
poseidon=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

net() { # NAME ARGUMENT...
    name=$1
    shift
    "$poseidon" draw --model="models/${name%%-*}/train_val.prototxt" "$@" --force "docs/pictures/$name.svg"
}
nets() {
    mkdir -p docs/pictures
    net lenet
    net googlenet
    net resnet152
    "$poseidon" plan --model=models/vgg19/train_val.prototxt --nodes=8 --comm=paper --json >"$scratch/paper-rule.json"
    net vgg19-schemes --plan="$scratch/paper-rule.json"
}

plot() { # PICTURE TITLE LOG...
    picture=$1 title=$2
    shift 2
    sh jobs/plot_log.sh --force --title="$title" "$picture" "$@"
}
logs() {
    plot models/cifar10_quick/training.svg 'CIFAR-10, cifar10_quick, batch 100, 2 ranks' models/cifar10_quick/training.log
    plot models/resnet20_cifar10/training.svg 'CIFAR-10, ResNet-20, batch 64, 2 ranks' models/resnet20_cifar10/training.log
    plot models/squeezenet_flowers/training.svg 'Flowers-17, SqueezeNet from ImageNet weights' models/squeezenet_flowers/training.log
    plot models/alexnet_flowers/training.svg 'Flowers-17, AlexNet from scratch' models/alexnet_flowers/training.log
    schemes=docs/curves/schemes
    plot models/cifar10_quick/schemes.svg 'CIFAR-10, cifar10_quick, batch 100 over 2 ranks' $schemes/synchronous.log $schemes/bf16.log \
        $schemes/adam.log $schemes/1-bit.log $schemes/staleness-1.log $schemes/staleness-3.log
}

reproduction() {
    POSEIDON=$poseidon sh jobs/reproduce.sh --where=simulate --out="$scratch/reproduction" --publish=docs
}

[ $# -gt 0 ] || set -- nets logs reproduction
for part; do
    case $part in
    nets | logs | reproduction) $part ;;
    *) echo "$0: no part '$part' (nets, logs, reproduction)" >&2; exit 2 ;;
    esac
done
