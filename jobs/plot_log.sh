#!/bin/sh
# plot_log.sh [--force] [--title=TEXT] OUT.svg LOG [LOG...]
#
# Draws the training loss (lines) and the test accuracy (points) of Caffe-style logs (this program's or
# Caffe's own) over the iterations. Needs gnuplot. Each log has one colour, dash and symbol, and one entry,
# named by its file, or by its folder where it is called training.log. --force replaces OUT.svg where it exists.
set -eu
usage() {
    sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0" >&2
    exit 1
}
die() {
    echo "$0: $1" >&2
    exit 1
}
force='' heading=''
# shellcheck disable=SC1003 # a quote, and a backslash, for tr
while [ $# -gt 0 ]; do
    case $1 in
    --force) force=1 ;;
    --title=*) heading=$(printf '%s' "${1#*=}" | tr '"\\`\n' "' ' ") ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
[ $# -ge 2 ] || usage
out=$1
shift
case $out in
*.svg) ;;
*) die "expected a picture to write first, OUT.svg, found '$out'" ;;
esac
[ ! -s "$out" ] || [ -n "$force" ] || die "$out exists already; --force replaces it"
for log; do
    [ -r "$log" ] || die "no such log: $log"
    # shellcheck disable=SC3013 # dash, bash, ksh and busybox have -ef
    [ ! "$log" -ef "$out" ] || die "$out is one of the logs; expected another file to write"
done
command -v gnuplot >/dev/null 2>&1 || die 'gnuplot is missing (Debian: gnuplot-nox)'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
number=0
loss='' accuracy=''
# Colours that the colour-blind can tell apart (Okabe and Ito). Curves that lie on one another are all seen: each is
# thinner than the one below it, and dashed in its own way; the symbols are hollow.
colours='#0072b2 #d55e00 #009e73 #cc79a7 #000000 #e69f00 #56b4e9 #999933'
dashes='1 (12,6) (6,6) (12,4,3,4) 1 (18,6) (3,4) (9,4,3,4,3,4)'
symbols='6 4 8 10 12 1 2 3'
nth() { # LIST
    echo "$1" | cut -d' ' -f$(((number - 1) % 8 + 1))
}
for log; do
    number=$((number + 1))
    sed -n 's/.*Iteration \([0-9]*\)\( (.*)\)\{0,1\}, loss = \(.*\)$/\1 \3/p' "$log" >"$folder/loss$number"
    awk '/, Testing net \(#0\)/ { for (i = 1; i < NF; i++) if ($i == "Iteration") at = $(i + 1) + 0; next }
        /Test net output #[0-9]+: accuracy = / { print at, $NF }' "$log" >"$folder/accuracy$number"
    title=$(basename "$log" .log)
    [ "$title" != training ] || title=$(basename "$(cd "$(dirname "$log")" && pwd)")
    title=$(printf '%s' "$title" | tr "_\"'\n" '-   ')
    [ -s "$folder/loss$number" ] || die "$log shows no 'Iteration N, loss = X'"
    colour="lc rgb '$(nth "$colours")'"
    line="$colour lw $(echo $# $number | awk '{ print 1.5 + 2 * ($1 - $2) / $1 }') dt $(nth "$dashes")"
    symbol="pt $(nth "$symbols") ps 0.7"
    loss="$loss${loss:+, }'$folder/loss$number' with lines $line notitle"
    [ -s "$folder/accuracy$number" ] || symbol='pt 0'
    loss="$loss, keyentry with linespoints $line $symbol title '$title'"
    [ ! -s "$folder/accuracy$number" ] ||
        accuracy="$accuracy, '$folder/accuracy$number' axes x1y2 with points $colour lw 1.5 dt 1 $symbol notitle"
done
top=0.98 # below it the entries, three in a row
[ -z "$heading" ] || top=0.92
gnuplot <<END
set terminal svg size 760,480 font "sans-serif,13" background "white"
set output "$folder/plot.svg"
set label "$heading" at screen 0.5, screen 0.96 center noenhanced
set key at screen 0.5, screen $top center top horizontal maxcols 3
set tmargin at screen $top - 0.06 * $(((number + 2) / 3))
set xlabel "iteration"
set autoscale xfix
set offsets graph 0.015, graph 0.015, 0, 0
set ylabel "training loss (lines)"
set ytics nomirror
set yrange [0:*]
set y2label "test accuracy (points)"
set y2range [0:1]
set y2tics 0.1
set grid x y2 lc rgb "#dddddd"
plot $loss$accuracy
END
mv "$folder/plot.svg" "$out"
