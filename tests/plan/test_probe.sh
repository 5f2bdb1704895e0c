#!/bin/sh
# The start-up measurement ends on any number of ranks, says the same on all of them, and keeps to its
# file: taken where it fits the job, renewed where it does not, never overwritten where it is damaged.
set -u
program=${abs_top_builddir:?}/tests/plan/probe_ranks
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failures=0

expect() { # WHAT PATTERN TEXT
    case $3 in
    *$2*) ;;
    *)
        echo "FAIL: $1: expected '$2' in '$3'"
        failures=$((failures + 1))
        ;;
    esac
}

run() {
    "$POSEIDON_MPIRUN" "$@" 2>&1
}

for ranks in 1 2 3 5; do
    said=$(run $ranks "$program")
    echo "$said"
    expect "$ranks ranks measure" "measured: $ranks ranks, $ranks a node" "$said"
done

file=$folder/cluster
said=$(run 2 "$program" "$file")
expect 'an absent file is written' 'measured: 2 ranks' "$said"
said=$(run 2 "$program" "$file")
expect 'the written file is taken' 'file: 2 ranks' "$said"
said=$(run 1 "$program" "$file")
expect 'figures of another job are renewed' 'measured: 1 ranks' "$said"
said=$(run 1 "$program" "$file")
expect 'renewed figures are taken' 'file: 1 ranks' "$said"

sed 's/^link_bytes_per_second.*/link_bytes_per_second = fast/' "$file" >"$folder/damaged"
cp "$folder/damaged" "$folder/copy"
said=$(run 2 "$program" "$folder/damaged")
expect 'a damaged file is an error with its line' \
    "damaged:6: link_bytes_per_second expects a number, found ' fast'" "$said"
cmp -s "$folder/damaged" "$folder/copy" || { echo 'FAIL: the damaged file was changed'; failures=$((failures + 1)); }

said=$(run 2 "$program" "$folder/none/cluster")
expect 'a file that cannot be written is an error' "$folder/none/cluster" "$said"
expect 'which names the rank' 'rank 0 (' "$said"
exit $((failures > 0))
