#!/bin/sh
# referee.sh [HOSTS...]: one layer by the parameter server, as messages, timed by SimGrid's SMPI and by poseidon
# plan, on 16 and 64 hosts. Fails where they differ by more than 10 %. Takes a minute. Exits 77 where SimGrid
# (Debian: libsimgrid-dev) is not installed. Wants $POSEIDON.
#
# SMPI is told to add nothing of its own to a plain link's bandwidth and latency.
set -u
if ! command -v smpicc >/dev/null || ! command -v smpirun >/dev/null; then
    echo 'skipped: SimGrid is not installed'
    exit 77
fi
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failures=0 chunk=524288 chunks=4
smpicc -O1 -o "$folder/skeleton" "$here/skeleton.c" || exit 1
[ $# -gt 0 ] || set -- 16 64

echo '| hosts | link | computing ms | SMPI ms | simulate ms | error |'
echo '|---|---|---|---|---|---|'
for hosts in "$@"; do
    for rate in 1.25 0.125; do
        cat >"$folder/platform.xml" <<END
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" radical="0-$((hosts - 1))" suffix="" speed="1Gf" bw="${rate}GBps" lat="15us" sharing_policy="SPLITDUPLEX"/>
</platform>
END
        seq 0 $((hosts - 1)) | sed 's/^/n/' >"$folder/hosts"
        theirs=$(timeout 300 smpirun -np "$hosts" -platform "$folder/platform.xml" -hostfile "$folder/hosts" \
            --cfg=smpi/bw-factor:0:1 --cfg=smpi/lat-factor:0:1 --cfg=network/TCP-gamma:0 --cfg=smpi/simulate-computation:no \
            --log=root.thresh:error "$folder/skeleton" $chunk $chunks 0.05 2 2>/dev/null | tail -n 1)
        cat >"$folder/net.prototxt" <<END
name: 'one'
layer { name: 'd' type: 'DummyData' top: 'd' top: 'l' dummy_data_param { shape { dim: 1 dim: 8192 } shape { dim: 1 dim: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'd' top: 'ip' inner_product_param { bias_term: false num_output: $((hosts * chunk * chunks / 4 / 8192)) } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'l' top: 'loss' }
END
        printf 'layer,type,forward_s,backward_s\nd,D,0,0\nip,I,0.02,0.03\nloss,L,0,0\n' >"$folder/times.csv"
        ours=$("$POSEIDON" plan --model="$folder/net.prototxt" --profile="$folder/times.csv" --nodes="$hosts" --comm=ps \
            --tune=overlap=none --bandwidth=${rate}GB --figure latency_seconds=30us --figure message_seconds=0 \
            --figure sum_bytes_per_second=1e15 --figure copy_bytes_per_second=1e15 --tune=chunk=$chunk --tune=merge=0 \
            --tune=window=$((16 * chunk)) --json | sed -n 's/.*"seconds": *\([0-9.e+-]*\).*/\1/p')
        awk -v h="$hosts" -v r="$rate" -v t="$theirs" -v o="$ours" 'BEGIN {
            if (!(t > 0 && o > 0)) { print h " hosts: no time"; exit 1 }
            printf "| %d | %g GB/s | 50 | %.2f | %.2f | %+.1f %% |\n", h, r, 1e3 * t, 1e3 * o, 100 * (o / t - 1)
            exit !(o / t < 1.1 && o / t > 0.9) }' || failures=$((failures + 1))
    done
done
[ "$failures" -eq 0 ]
