#!/bin/sh
# plot_log.sh OUT.svg LOG [LOG...]
#
# Draws the training loss and the test accuracy of Caffe-style logs (this program's or Caffe's own)
# over the iterations. Needs gnuplot. Several logs are drawn over one another, named by their files.
set -eu
[ $# -ge 2 ] || { sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2; exit 2; }
command -v gnuplot >/dev/null 2>&1 || { echo "$0: gnuplot is missing (Debian: gnuplot-nox)" >&2; exit 1; }
out=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
number=0
loss= accuracy=
for log; do
    number=$((number + 1))
    sed -n 's/.*Iteration \([0-9]*\)\( (.*)\)\{0,1\}, loss = \(.*\)$/\1 \3/p' "$log" >"$folder/loss$number"
    awk '/, Testing net \(#0\)/ { for (i = 1; i < NF; i++) if ($i == "Iteration") at = $(i + 1) + 0; next }
        /Test net output #[0-9]+: accuracy = / { print at, $NF }' "$log" >"$folder/accuracy$number"
    title=$(basename "$log" .log | tr '_"' '- ')
    [ -s "$folder/loss$number" ] || { echo "$0: $log shows no 'Iteration N, loss = X'" >&2; exit 1; }
    loss="$loss${loss:+, }'$folder/loss$number' with lines lw 1.5 lc $number title '$title: training loss'"
    [ ! -s "$folder/accuracy$number" ] ||
        accuracy="$accuracy, '$folder/accuracy$number' axes x1y2 with linespoints lw 1.5 lc $number pt 7 ps 0.4 dt 2 title '$title: test accuracy'"
done
gnuplot <<END
set terminal svg size 760,480 font "sans-serif,13" background "white"
set output "$out"
set xlabel "iteration"
set ylabel "loss"
set ytics nomirror
set yrange [0:*]
set y2label "accuracy"
set y2range [0:1]
set y2tics 0.1
set grid x y2 lc rgb "#dddddd"
set key outside bottom center horizontal
plot $loss$accuracy
END
