#!/bin/sh
# Trains a few iterations on 1, 2, 4, ... nodes of an allocation, and says how much faster each is.
#
#     speedup.sh --solver=FILE [--counts=1,2,4] [--comm=auto,ps] [--iterations=50] [--out=speedup] [-- ARGUMENT...]
#
#   --solver=FILE        the solver; its tests and snapshots are left out
#   --counts=LIST        numbers of nodes (1, 2, 4, ... up to --nodes, and that)
#   --nodes=N            nodes of the allocation (1)
#   --ranks-per-node=N   (1)
#   --comm=LIST          schemes to compare, as "poseidon train --comm" takes them (its default alone)
#   --iterations=N       of each run (50)
#   --out=NAME           writes NAME.csv, NAME.txt and, where gnuplot is installed, NAME.svg
#   -- ARGUMENT...       more for "poseidon train", such as --threads=8
#
# POSEIDON names the program. LAUNCH is how ranks are started; {ranks}, {nodes} and {per} (ranks per node)
# in it are filled in. Default: mpirun -np {ranks} --map-by ppr:{per}:node --bind-to none
# Speed-up is images per second over the first count's, times the first count's nodes, scheme by scheme.
set -u

solver='' counts='' nodes=1 per=1 comms='' iterations=50 out=speedup
poseidon=${POSEIDON:-poseidon}
launch=${LAUNCH:-'mpirun -np {ranks} --map-by ppr:{per}:node --bind-to none'}

die() {
    echo "speedup.sh: $1" >&2
    exit 1
}

number() { # OPTION VALUE
    case $2 in
    '' | *[!0-9]* | 0*) die "$1 wants a number of at least 1, found '$2'" ;;
    esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --solver=*) solver=${1#*=} ;;
    --counts=*) counts=${1#*=} ;;
    --nodes=*) nodes=${1#*=} ;;
    --ranks-per-node=*) per=${1#*=} ;;
    --comm=*) comms=${1#*=} ;;
    --iterations=*) iterations=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --help | -h)
        sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
        exit 0
        ;;
    --)
        shift
        break
        ;;
    *) die "unknown argument '$1' (speedup.sh --help)" ;;
    esac
    shift
done
[ -n "$solver" ] || die 'which solver? --solver=FILE'
[ -r "$solver" ] || die "$solver cannot be read"
number --nodes "$nodes"
number --ranks-per-node "$per"
number --iterations "$iterations"
if [ -z "$counts" ]; then
    count=1
    while [ "$count" -lt "$nodes" ]; do
        counts=$counts$count,
        count=$((count * 2))
    done
    counts=$counts$nodes
fi
for count in $(echo "$counts" | tr ',' ' '); do
    number --counts "$count"
done

# The solver without tests and snapshots, beside the results: all nodes must be able to read it. Its fields
# are taken to stand one a line, as everybody writes them.
quiet=$out.solver.prototxt
sed '/^[[:space:]]*\(snapshot\|snapshot_after_train\|test_[a-z_]*\|max_iter\)[[:space:]]*:/d' "$solver" >"$quiet" ||
    die "$quiet cannot be written"
echo "snapshot_after_train: false max_iter: $iterations" >>"$quiet"
trap 'rm -f "$quiet" "$out.json"' EXIT

figure() { # KEY: of the run's summary
    sed -n 's/^ *"'"$1"'": *\([-+0-9.e]*\),\{0,1\}$/\1/p' "$out.json" | head -n 1
}

echo 'comm,nodes,ranks,images_per_second,speedup,efficiency,stall_seconds_per_iteration,bytes_sent_per_iteration' >"$out.csv"
for comm in $(echo "${comms:-default}" | tr ',' ' '); do
    first='' first_nodes=''
    for count in $(echo "$counts" | tr ',' ' '); do
        ranks=$((count * per))
        command=$(echo "$launch" | sed "s/{ranks}/$ranks/g; s/{nodes}/$count/g; s/{per}/$per/g")
        scheme=
        [ "$comm" = default ] || scheme=--comm=$comm
        echo "speedup.sh: $comm on $count nodes, $ranks ranks" >&2
        rm -f "$out.json"
        # shellcheck disable=SC2086 # a command with options; an option or none
        $command "$poseidon" train --solver="$quiet" $scheme --summary="$out.json" "$@" </dev/null >&2 ||
            die "$comm on $count nodes failed"
        images=$(figure images_per_second)
        [ -n "$images" ] || die "$comm on $count nodes: $out.json tells no images_per_second"
        first=${first:-$images} first_nodes=${first_nodes:-$count}
        awk -v comm="$comm" -v n="$count" -v ranks="$ranks" -v images="$images" -v first="$first" \
            -v base="$first_nodes" -v stall="$(figure stall_seconds_per_iteration)" \
            -v sent="$(figure bytes_sent_per_iteration)" 'BEGIN {
                speedup = images / first * base
                printf "%s,%d,%d,%.6g,%.4g,%.4g,%s,%s\n", comm, n, ranks, images, speedup, speedup / n, stall, sent
            }' >>"$out.csv"
    done
done

awk -F, 'NR == 1 { printf "%-10s %6s %6s %12s %9s %11s %16s %14s\n", "comm", "nodes", "ranks", "images/s", "speed-up",
                          "efficiency", "stall s/iter.", "bytes/iter." }
         NR > 1 { printf "%-10s %6d %6d %12.5g %9.2f %10.0f%% %16.4g %14.4g\n", $1, $2, $3, $4, $5, 100 * $6, $7, $8 }' \
    "$out.csv" >"$out.txt"
cat "$out.txt"

if command -v gnuplot >/dev/null; then
    gnuplot - <<END || echo 'speedup.sh: no plot' >&2
set terminal svg size 640,480
set output "$out.svg"
set datafile separator ","
set key left top
set xlabel "nodes"
set ylabel "speed-up"
set grid
plot x with lines dashtype 2 title "linear"$(
        for comm in $(echo "${comms:-default}" | tr ',' ' '); do
            # shellcheck disable=SC2016 # gnuplot's $2
            printf ', "%s.csv" using (strcol(1) eq "%s" ? $2 : NaN):5 with linespoints title "%s"' "$out" "$comm" "$comm"
        done
    )
END
fi
