#!/bin/sh
# make_pictures.sh POSEIDON [nets] [logs] [bars] [step] [reproduction]
#
# Makes the pictures of README.md and docs/ anew where they stand, from what the repository has: nets (by
# tools/draw.py, which needs Graphviz), committed logs of trainings (by tools/report.py), measured times of docs/pytorch.csv, an
# iteration of docs/step.csv and docs/layers.csv, and,
# together with their tables, docs/REPRODUCTION.md's simulations (by jobs/reproduce.sh: some minutes). Without names all
# five. All but nets need Python's matplotlib.
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
    plot models/cifar10_fast/training.svg 'CIFAR-10, cifar10_fast, batch 512' models/cifar10_fast/training.log
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

# One iteration by three schemes: what a rank computes, waits for and sends, and each layer's transfer.
step() {
    python3 - <<'END'
import csv
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, "tools")
from report_plots import Plot


def read(path):
    with open(path) as file:
        return list(csv.DictReader(line for line in file if line[0] != "#"))


steps, layers = read("docs/step.csv"), read("docs/layers.csv")
runs = list(dict.fromkeys(row["run"] for row in steps))
LOOKS = {"forward": (0, "#56B4E9", "forward"), "backward": (0, "#0072B2", "backward"), "update": (0, "#009E73", "gradients out of factors"),
         "wait": (0, "#dddddd", "waits"), "send": (1, "#D55E00", "sends")}


def timeline(axes):
    most = max(float(row["end"]) for row in steps)
    for at, run in enumerate(runs):
        panel = axes[at][0]
        for kind, (lane, color, words) in LOOKS.items():
            spans = [(float(row["begin"]), float(row["end"]) - float(row["begin"])) for row in steps if (row["run"], row["kind"]) == (run, kind)]
            panel.broken_barh(spans, (0.1 - lane, 0.8), color=color, linewidth=0, label=words)
        last = max(float(row["end"]) for row in steps if row["run"] == run)
        panel.set_xlabel("ms by %s: an iteration takes %.0f" % (run, last), labelpad=1)
        panel.set_xlim(0, most * 1.02)
        panel.set_yticks([0.5, -0.5])
        panel.set_yticklabels(["computation", "link"])
        panel.grid(axis="y", visible=False)
    axes[-1][0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.4), ncol=5)


def table(axes):
    names = list(dict.fromkeys(row["layer"] for row in layers))
    for column, run in enumerate(runs[1:]):
        panel, rows = axes[0][column], [row for row in layers if row["run"] == run]
        panel.barh(range(len(rows)), [float(row["alone"]) for row in rows], color="#56B4E9", label="transfer alone")
        panel.barh(range(len(rows)), [float(row["waited"]) for row in rows], 0.35, color="#D55E00", label="of it waited for")
        for at, row in enumerate(rows):
            panel.annotate(" %s, %.1f MB" % (row["scheme"], float(row["mb_sent"])), (max(float(row["alone"]), float(row["waited"])), at), va="center")
        panel.set_yticks(range(len(names)))
        panel.set_yticklabels(names)
        panel.invert_yaxis()
        panel.set_xlim(0, 2600)
        panel.set_xlabel("ms, by " + run)
        panel.grid(axis="y", visible=False)
    axes[0][0].legend(loc="lower right", bbox_to_anchor=(1, 0.35))


where = "AlexNet, batch 64, on 4 hosts with links of 1 Gbit/s, emulated"
Plot("step", "An iteration: " + where, timeline, (3, 1), (10, 6.5)).write(["docs/pictures/step.svg"])
Plot("layers", "Layer by layer: " + where, table, (1, 2), (11, 4)).write(["docs/pictures/layers.svg"])
END
}
reproduction() {
    POSEIDON=$poseidon sh jobs/reproduce.sh --where=simulate --out="$scratch/reproduction" --publish=docs
}

[ $# -gt 0 ] || set -- nets logs bars step reproduction
for part; do
    case $part in
    nets | logs | bars | step | reproduction) $part ;;
    *) echo "$0: no part '$part' (nets, logs, bars, step, reproduction)" >&2; exit 2 ;;
    esac
done
