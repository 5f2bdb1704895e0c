#!/bin/sh
# make_pictures.sh POSEIDON [nets] [logs] [bars] [reproduction]
#
# Makes the pictures of README.md and docs/ anew where they stand, from what the repository has: nets (by draw, which
# needs Graphviz's library), committed logs of trainings (by jobs/report.py, which needs gnuplot), measured
# times of docs/pytorch.csv (gnuplot), and, together with its page, docs/REPRODUCTION.md's simulations (by
# jobs/reproduce.sh: many minutes). Without names all four.
set -eu
case ${1:--h} in
-*) sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2; exit 2 ;;
esac
poseidon=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

net() { # NAME
    "$poseidon" draw --model="models/$1/train_val.prototxt" --force "docs/pictures/$1.svg"
}
nets() {
    mkdir -p docs/pictures
    net lenet
    net googlenet
    net resnet152
    "$poseidon" plan --model=models/vgg19/train_val.prototxt --nodes=8 --comm=paper \
        --draw=docs/pictures/vgg19-schemes.svg --force >/dev/null
}

plot() { # PICTURE TITLE LOG...
    picture=$1 title=$2
    shift 2
    jobs/report.py --curves="$picture" --force --title="$title" "$@"
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

# Bars of images/s over those of the newest PyTorch, which is 1; each PyTorch in the fastest of its forms.
bars() {
    awk -F, '
        function best(from, to, least) {
            for (i = from; i <= to; i++)
                if ($i != "" && (least == "" || $i + 0 < least))
                    least = $i + 0
            return least
        }
        !/^#/ && $1 != "net" { printf "%s %d %.3f 1 %.3f\n", $1, $2, best(6, 9) / best(4, 5), best(6, 9) / $3 }
    ' docs/pytorch.csv >"$scratch/bars"
    gnuplot <<END
set terminal svg size 760,380 font "sans-serif,13" background "white"
set output "docs/pictures/pytorch.svg"
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.9 noborder
set boxwidth 0.9
set title "training steps of one process on two cores, fastest form of each"
set key outside top center horizontal
set ylabel "rate, PyTorch 2.15 = 1"
set yrange [0:*]
set xtics noenhanced scale 0
set bmargin 4
set grid y lc rgb "#dddddd"
plot "$scratch/bars" using 3:xtic(sprintf("%s\nbatch %s", strcol(1), strcol(2))) title "PyTorch 1.13" lc rgb "#cccccc", \\
    "" using 4 title "PyTorch 2.15, torch.compile too" lc rgb "#777777", "" using 5 title "poseidon" lc rgb "#1f77b4", \\
    "" using (column(0) + 0.25):(\$5 + 0.12):(sprintf("%.1f", \$5)) with labels notitle
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
