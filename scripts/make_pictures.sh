#!/bin/sh
# make_pictures.sh POSEIDON [nets] [logs] [bars] [reproduction]
#
# Makes the pictures of README.md and docs/ anew where they stand, from what the repository has: nets (by
# tools/draw.py, which needs Graphviz), committed logs of trainings (by tools/report.py), measured times of docs/pytorch.csv, and,
# together with its page, docs/REPRODUCTION.md's simulations (by jobs/reproduce.sh: some minutes). Without names all
# four. All but nets need Python's matplotlib.
set -eu
case ${1:--h} in
-*) sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2; exit 2 ;;
esac
poseidon=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# a Python of one's own may lack what Debian's has
python3 -c 'import matplotlib' 2>/dev/null || PATH=/usr/bin:$PATH

net() { # NAME PICTURE OPTION...
    net=$1 picture=$2
    shift 2
    POSEIDON=$poseidon tools/draw.py --force "models/$net/train_val.prototxt" "docs/pictures/$picture.svg" "$@"
}
nets() {
    mkdir -p docs/pictures
    net lenet lenet
    net googlenet googlenet
    net resnet152 resnet152
    net vgg19 vgg19-schemes --nodes=8 --comm=paper
}

plot() { # PICTURE TITLE LOG...
    picture=$1 title=$2
    shift 2
    tools/report.py --curves="$picture" --force --title="$title" "$@"
}
logs() {
    plot models/cifar10_quick/training.svg 'CIFAR-10, cifar10_quick, batch 100, 2 ranks' models/cifar10_quick/training.log
    plot models/resnet20_cifar10/training.svg 'CIFAR-10, ResNet-20, batch 64, 2 ranks' models/resnet20_cifar10/training.log
    plot models/squeezenet_flowers/training.svg 'Flowers-17, SqueezeNet from ImageNet weights' models/squeezenet_flowers/training.log
    plot models/alexnet_flowers/training.svg 'Flowers-17, AlexNet from scratch' models/alexnet_flowers/training.log
    schemes=docs/curves/schemes
    plot models/cifar10_quick/schemes.svg 'CIFAR-10, cifar10_quick, batch 100 over 2 ranks' $schemes/synchronous.log $schemes/bf16.log \
        $schemes/adam.log $schemes/1-bit.log $schemes/staleness-1.log $schemes/staleness-3.log
    for ranks in 2 4; do
        plot "docs/pictures/lossy-$ranks.svg" "CIFAR-10, cifar10_quick, batch 100 over $ranks ranks" "docs/curves/lossy/quick-$ranks"/*.log
    done
    # the exact runs beside two ranks' are those of one
    plot docs/pictures/lossy-resnet-2.svg 'CIFAR-10, ResNet-20, batch 64 over 2 ranks' docs/curves/lossy/resnet-2/*.log docs/curves/resnet20/direct-*.log
    plot docs/pictures/lossy-resnet-4.svg 'CIFAR-10, ResNet-20, batch 64 over 4 ranks' docs/curves/lossy/resnet-4/*.log
}

# Bars of images/s over those of PyTorch in its fastest form, which is 1, with the same instructions.
bars() {
    python3 - <<'END'
import csv
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, "tools")
from report_plots import Plot

with open("docs/pytorch.csv") as file:
    rows = list(csv.DictReader(line for line in file if line[0] != "#"))
nets = list(dict.fromkeys((row["net"], row["batch"]) for row in rows))


def rate(row):
    forms = (row["contiguous"], row["channels_last"], row["compiled_last"])
    return min(float(form) for form in forms if form) / float(row["poseidon"])


def draw(axes):
    panel = axes[0][0]
    kinds = (("AVX2", "AVX2", "#56B4E9"), ("AVX-512", "AVX-512", "#0072B2"), ("AMX", "AMX, bfloat16", "#D55E00"))
    for place, (instructions, words, color) in zip((-0.27, 0, 0.27), kinds):
        rates = [rate(row) for row in rows if row["instructions"] == instructions]
        panel.bar([n + place for n in range(len(nets))], rates, 0.26, color=color, label="poseidon, " + words)
        for n, value in enumerate(rates):
            panel.annotate("%.1f" % value, (n + place, value), ha="center", va="bottom")
    panel.axhline(1, color="#777777", label="PyTorch 2.15 likewise")
    panel.set_xticks(range(len(nets)))
    panel.set_xticklabels("%s\nbatch %s" % net for net in nets)
    panel.grid(axis="x", visible=False)
    panel.set_ylabel("rate, PyTorch 2.15 = 1")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=4)


Plot("pytorch", "Training steps of one process on two cores", draw,
     inches=(9.5, 4)).write(["docs/pictures/pytorch.svg"])
END
}
reproduction() {
    POSEIDON=$poseidon sh jobs/reproduce.sh --where=simulate --out="$scratch/reproduction" --publish=docs
}

[ $# -gt 0 ] || set -- nets logs bars reproduction
for part; do
    case $part in
    nets | logs | bars | reproduction) $part ;;
    *) echo "$0: no part '$part' (nets, logs, bars, reproduction)" >&2; exit 2 ;;
    esac
done
