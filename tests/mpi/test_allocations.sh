#!/bin/sh
# After its first iterations the compute thread allocates nothing, prints into no string, and takes one lock a data layer,
# when it is handed the next batch: of two runs that differ in their number of iterations alone, the program itself asks
# for as much in both. What the libraries under it ask for is said, and not judged: oneDNN allocates in each call.
# shellcheck disable=SC2154
. "$abs_top_srcdir/tests/mpi/common.sh"
counter=${abs_top_builddir:?}/tests/mpi/count_calls.so
few=4 many=44
if sanitized; then
    echo 'SKIP: a sanitizer has the allocator'
    exit 77
fi

# counts RANKS ITERATIONS OPTION...: "WHO WHAT COUNT" over all ranks, and "at PLACE WHO WHAT COUNT", in counts.ITERATIONS
counts() {
    ranks=$1 iterations=$2
    shift 2
    rm -f called.*
    make_solver solver.prototxt "max_iter: $iterations" "display: ${display:-0}" 'snapshot_after_train: false' \
        'lr_policy: "fixed"'
    "$POSEIDON_MPIRUN" "$ranks" env LD_PRELOAD="$counter" COUNT_CALLS="$work/called" "$POSEIDON" train --force \
        --solver=solver.prototxt --batch=8 "$@" >log 2>&1 </dev/null || fail "$ranks ranks, $iterations iterations: $(tail -n 3 log)"
    cat called.* | awk '$1 == "at" { sum[$1 " " $2 " " $3 " " $4] += $5; next } { sum[$1 " " $2] += $3 }
        END { for (key in sum) print key, sum[key] }' | sort >"counts.$iterations"
}

# What set-up does differs by a few from run to run; what is done in every iteration does not.
# each WHO WHAT: how many a rank and iteration
each() {
    awk -v who="$1" -v what="$2" -v n=$(((many - few) * ranks)) '$1 == who && $2 == what {
        if (NR == FNR) before = $3; else printf "%.3f", ($3 - before) / n }' counts.$few counts.$many
}

# places WHAT: where in the program
places() {
    awk -v what="$1" 'NR == FNR { if ($1 == "at") before[$2] = $5; next }
        $1 == "at" && $3 == "program" && $4 == what && $5 > before[$2] + 4 { print $2, $5 - before[$2] }' \
        counts.$few counts.$many | while read -r at more; do
        echo "  $more more at $(addr2line -f -s -p -e "$POSEIDON" "$at" 2>/dev/null || echo "$at")"
    done
}

# at_most RATE WHAT: half a one is what set-up and what is done by the clock differ by, as long as an iteration takes far
# less than the half second between two questions of the ranks: batches are small
at_most() {
    rate=$(each program "$2")
    awk -v rate="$rate" -v most="$1" 'BEGIN { exit !(rate != "" && rate <= most + 0.5) }' && return
    fail "on $ranks ranks the compute thread does so every iteration: $2 ($rate, at most $1)"
    places "$2"
}

# the counter sees what there is: a displayed iteration prints
counts 1 $few
quiet=$(awk '$1 " " $2 == "program string" { print $3 }' counts.$few)
display=1
counts 1 $few
display=0
[ "$(awk '$1 " " $2 == "program string" { print $3 }' counts.$few)" -gt "$quiet" ] ||
    fail 'the counter does not see the strings that a display prints'

# alone, in shared memory, by messages
for how in '1 auto' '2 auto' '2 off'; do
    ranks=${how% *} hierarchy=${how#* }
    counts "$ranks" $few --threads=$((3 - ranks)) "--hierarchy=$hierarchy" # more than there are cores wait for each other
    counts "$ranks" $many --threads=$((3 - ranks)) "--hierarchy=$hierarchy"
    at_most 0 allocation
    at_most 0 string
    at_most 1 lock
    # on several ranks set-up measures products, now more of them, now fewer
    [ "$ranks" -gt 1 ] || echo "each iteration: oneDNN allocates $(each onednn allocation) times and locks" \
        "$(each onednn lock), OpenMP $(each openmp allocation) and $(each openmp lock)"
done
finish
