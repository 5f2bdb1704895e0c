#!/bin/sh
# What make bench says of the communication layer, on a cluster in a box (tests/cluster/box.sh: root, network
# namespaces; elsewhere it says what is missing): 4 hosts, links of 200 Mbit/s, 1 and 2 Gbit/s.
#
#     bench_cluster.sh [allreduce] [replay] [ddp] [speeds]      which of them; all without a word
#
# Where hosts compute, each has a core dealt to it (box.sh says why).
# Wants a quiet machine: some 40 minutes, ROUNDS=1 by default. Python 3 with h5py; PyTorch for ddp.
set -u
: "${abs_top_srcdir:=$(cd "$(dirname "$0")/../.." && pwd)}" "${abs_top_builddir:=$PWD}" "${ROUNDS:=1}"
: "${POSEIDON_PYTHON:=python3}" "${BOX_RATES:=200mbit 1gbit 2gbit}"
box=$abs_top_srcdir/tests/cluster/box.sh
profiles=$(mktemp -d) || exit 1
trap 'rm -rf "$profiles"' EXIT
sh "$box" --check || exit 0
[ $# -gt 0 ] || set -- allreduce replay ddp speeds
for what in "$@"; do
    for rate in $BOX_RATES; do
        echo
        echo "## $what, $rate"
        case $what in
        allreduce)
            sh "$box" --hosts=4 --rate="$rate" -- timeout 600 mpirun -np 4 "$abs_top_builddir/tests/bench/bench_allreduce"
            ;;
        replay)
            parts=
            [ "$rate" != 1gbit ] || parts=--parts
            # shellcheck disable=SC2086
            sh "$box" --hosts=4 --cores=1 --rate="$rate" -- timeout 3600 "$POSEIDON_PYTHON" \
                "$abs_top_srcdir/tests/cluster/bench_replay.py" --poseidon="$abs_top_builddir/poseidon" \
                --profiles="$profiles" --rounds="$ROUNDS" $parts
            ;;
        ddp)
            [ "$rate" != 2gbit ] || continue
            sh "$box" --hosts=4 --cores=1 --rate="$rate" -- timeout 3600 "$POSEIDON_PYTHON" \
                "$abs_top_srcdir/tests/cluster/bench_ddp.py" --poseidon="$abs_top_builddir/poseidon" --rounds="$ROUNDS"
            ;;
        speeds)
            [ "$rate" = 1gbit ] || continue
            for quotas in 50,25 40,40,20,10; do
                sh "$box" --hosts="$(echo "$quotas" | tr , '\n' | wc -l)" --cores=1 --quotas="$quotas" --rate="$rate" -- timeout 3600 \
                    "$POSEIDON_PYTHON" "$abs_top_srcdir/tests/cluster/bench_speeds.py" --poseidon="$abs_top_builddir/poseidon" \
                    --rounds="$ROUNDS"
            done
            ;;
        *)
            echo "bench_cluster.sh: '$what' is not known (allreduce, replay, ddp, speeds)" >&2
            exit 2
            ;;
        esac || echo "FAILED: $what, $rate"
    done
done
