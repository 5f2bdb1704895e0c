#!/bin/sh
# poseidon plan: the paper's figures come out of real net files, tables keep to 100 columns, JSON agrees
# with them, and every wrong word is refused with what was wanted.
set -u
. "${abs_top_srcdir:?}/tests/common.sh"
net=$folder/vgg19_22k.prototxt
sh "${abs_top_srcdir:?}/tests/data/cost/vgg19.sh" 21841 32 >"$net" || exit 1

plan() {
    "$POSEIDON" plan --model="$net" "$@" 2>"$folder/errors"
}

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    if said=$("$POSEIDON" plan "$@" 2>&1); then
        fail "$*: accepted"
    fi
    case $said in
    *"$pattern"*) ;;
    *) fail "$*: expected '$pattern', found '$said'" ;;
    esac
}

# One Titan X trains 34.6 images/s. At 10 GbE and 16 nodes the hybrid reached 15.0 to 15.5 times that.
plan --nodes=1,8,16 --bandwidth=10Gb --images-per-second=34.6 --gflops=4000 --memory=100GB >"$folder/text" ||
    fail "the plan failed: $(cat "$folder/errors")"
awk 'length($0) > 100 { exit 1 }' "$folder/text" || fail 'a line is longer than 100 columns'
grep -q ' $' "$folder/text" && fail 'a line ends in a space'
grep -q '^VGG19: 229052817 parameters, 916 MB; 32 images' "$folder/text" || fail 'the head is wrong'
sed -n '/^Speed-up against/,/^$/p' "$folder/text" | awk '
    $1 == 16 { found = 1; if ($2 > 11 || $7 < 14.5 || $7 > 16 || $8 < $7 * 0.999 || $9 != 16) exit 1 }
    END { if (!found) exit 1 }' || fail "the speed-ups are not the paper's"
sed -n '/^One iteration/,/^Sent/p' "$folder/text" | awk '
    $1 == 1 && $10 != "1.00" { exit 1 }' || fail 'one node is not as fast as one rank alone'
grep -q '^  fc7 *[A-Z]' "$folder/text" || fail 'fc7 has no reason'
grep -q '^Choice by number of nodes' "$folder/text" || fail 'the choices by number of nodes are missing'

plan --nodes=1,2 --layers >"$folder/text" || fail '--layers failed'
[ "$(grep -c '^layer  *param' "$folder/text")" -eq 2 ] || fail '--layers does not print both tables'

# frozen layers, layers that only PS and allreduce can carry
sed 's/top: "conv1_1" conv/top: "conv1_1" param { lr_mult: 0 } param { lr_mult: 0 } conv/' "$net" >"$folder/frozen.prototxt"
net=$folder/frozen.prototxt plan --nodes=4 --comm=sfb >"$folder/text" || fail 'a frozen layer is not taken'
grep -q '^conv1_1 .*frozen.*frozen' "$folder/text" || fail 'conv1_1 is not shown as frozen'
grep -q '^fc8 .*\*' "$folder/text" || fail 'fc8 has no choice'
grep -q 'as --comm=sfb says' "$folder/text" || fail 'the reason does not name --comm'

plan --nodes=4 --servers=1 --comm=paper >"$folder/text" || fail '--servers failed'
grep -q '^4 nodes, 3 workers, 1 dedicated server$' "$folder/text" || fail '--servers is not shown'
grep -q "the paper's rule: SFB moves" "$folder/text" || fail "the paper's rule is not explained"

# the layers' times from a profile
grep -o 'name: "[^"]*" type: "[A-Z]' "$net" | sed 's/name: "\(.*\)" type.*/\1,-,0.01,0.02/' >"$folder/profile.csv"
sed -i '1i layer,type,forward_s,backward_s' "$folder/profile.csv"
echo '*,GEMM,0.002,0' >>"$folder/profile.csv"
plan --nodes=2 --profile="$folder/profile.csv" >"$folder/text" || fail "--profile failed: $(cat "$folder/errors")"
lines=$(($(wc -l <"$folder/profile.csv") - 2))
grep -q "forward $((10 * lines)) ms, backward $((20 * lines)) ms" "$folder/text" || fail "the profile's times are not used"
grep -q '^rank *500 GFLOP/s' "$folder/text" || fail "the profile's product rate is not used"
plan --nodes=2 --comm=sfb --profile="$folder/profile.csv" >"$folder/slow"
echo '*update,SGD,0.001,0' >>"$folder/profile.csv"
plan --nodes=2 --comm=sfb --profile="$folder/profile.csv" >"$folder/fast"
seconds() { sed -n '/^One iteration/,/^Sent/p' "$1" | grep '^ *2 '; }
[ -n "$(seconds "$folder/slow")" ] && [ "$(seconds "$folder/slow")" != "$(seconds "$folder/fast")" ] ||
    fail "the profile's rate of updates is not used"
sed -i /^fc7,/d "$folder/profile.csv"
plan --nodes=2 --profile="$folder/profile.csv" >/dev/null && fail 'a profile without fc7 is taken'
grep -q "profile.csv: there is no line for layer 'fc7' of " "$folder/errors" || fail 'the missing layer is not named'

# a rank that trains 30 images a second multiplies as fast as that takes, unless --gflops says otherwise
plan --nodes=32 --images-per-second=30 --bandwidth=10Gb --comm=paper >"$folder/text"
awk '/^rank/ { exit !($2 > 3000 && $2 < 4500) }' "$folder/text" || fail "the rate of products is not derived: $(grep ^rank "$folder/text")"
plan --nodes=2 --images-per-second=30 --gflops=50 >"$folder/text"
grep -q '^rank *50 GFLOP/s' "$folder/text" || fail '--gflops does not win over --images-per-second'

# no core to spare: the same bytes, more computing
plan --nodes=8 --comm=ps --shared-core >"$folder/text" || fail '--shared-core failed'
grep -q 'no core to spare' "$folder/text" || fail '--shared-core is not shown'

# half the bytes
plan --nodes=4 --comm=allreduce --wire=bf16 >"$folder/text" || fail '--wire failed'
sed -n '/^One iteration/,/^Sent/p' "$folder/text" | grep -q '^ *4 *4 *687M' || fail 'bf16 does not halve the bytes'

# ranks of a node that add up first: the bytes of two ranks, the images of eight
totals() {
    sed -n '/^One iteration/,/^Sent/p' "$folder/text"
}
plan --nodes=2 --comm=ps >"$folder/text" || fail 'two ranks failed'
sent=$(totals | awk '$1 == 2 { print $3 }')
plan --nodes=2 --ranks-per-node=4 --comm=ps >"$folder/text" || fail '--ranks-per-node failed'
[ "$(totals | awk '$1 == 2 { print $2, $3 }')" = "8 $sent" ] || fail "two nodes of four do not send $sent: $(totals)"
grep -q '^2 nodes, 8 workers, 4 of them add up and one sends for all, every node serves$' "$folder/text" ||
    fail 'nodes that add up are not named'
plan --nodes=2 --ranks-per-node=4 --comm=ps --leaders=3 >"$folder/text" || fail '--leaders=3 failed'
grep -q '^2 nodes, 8 workers, 4 of them add up and 3 send for all, every node serves$' "$folder/text" ||
    fail 'three leaders are not told'
plan --nodes=2 --ranks-per-node=4 --comm=ps --hierarchy=off >"$folder/text" || fail '--hierarchy=off failed'
grep -q '^2 nodes, 8 workers, every worker serves$' "$folder/text" || fail '--hierarchy=off adds up'
plan --nodes=1 --ranks-per-node=4 --comm=ps >"$folder/text" || fail 'one node failed'
grep -q 'add up' "$folder/text" && fail 'ranks of a single node add up though messages were asked for'
plan --nodes=1 --ranks-per-node=4 >"$folder/text" || fail 'one node failed'
grep -q '^1 node, 4 workers, which add up in the memory that they share: nothing is sent$' "$folder/text" ||
    fail 'ranks of a single node do not share its memory'
[ "$(totals | awk '$1 == 1 { print $2, $3, $4 }')" = '4 0 0' ] || fail "one node sends: $(totals)"
for how in --hierarchy=off --wire=bf16 --servers=1; do
    plan --nodes=1 --ranks-per-node=4 "$how" >"$folder/text" || fail "one node, $how failed"
    grep -q 'add up' "$folder/text" && fail "one node, $how: its ranks add up"
done

# Sentences first: what the network named is worth, and what a percent less of it is not; spare nodes as servers.
advice() { plan "$@" | awk '/^$/ { exit } { printf "%s ", $0 }'; }
efficiency() { plan --images-per-second=34.6 --comm=ps --nodes=16 "$@" | awk '/^nodes +workers/ { on = 1 } on && $1 == 16 { sub("%", "", $NF); print $NF; exit }'; }
said=$(advice --images-per-second=34.6 --comm=ps --nodes=1,16 --bandwidth=1Gb)
case $said in
"16 workers on 16 nodes train "*" times as fast as one ("*" % of 16): PS for 19 layers (--comm=ps). 95 % of 16 would need a network of "*" Gbit/s per node; this one has 1 Gbit/s. "*" more nodes without a device as servers (--nodes="*" --servers="*" would make it "*" times. ") ;;
*) fail "the advice is: $said" ;;
esac
case $(advice --nodes=4) in
"Assuming "*" images/s a rank, by operations (give --images-per-second): 4 workers on 4 nodes train "*) ;;
*) fail "the assumption does not come first: $(advice --nodes=4)" ;;
esac
needs=$(echo "$said" | sed 's/.*network of \([0-9.]*\) Gbit.*/\1/')
[ "$(efficiency --bandwidth="$(awk -v n="$needs" 'BEGIN { print 1.04 * n }')Gb")" -ge 95 ] || fail "$needs Gbit/s are not enough"
[ "$(efficiency --bandwidth="$(awk -v n="$needs" 'BEGIN { print 0.9 * n }')Gb")" -lt 95 ] || fail "less than $needs Gbit/s is enough"
more=$(echo "$said" | sed 's/.*(--nodes=\([0-9]*\) --servers=\([0-9]*\)) would make it \([0-9.]*\) times.*/\1 \2 \3/')
# shellcheck disable=SC2086 # three words
set -- $more
plan --images-per-second=34.6 --comm=ps --nodes="$1" --servers="$2" --bandwidth=1Gb |
    awk -v nodes="$1" -v wanted="$3" '/^nodes +workers/ { on = 1 } on && $1 == nodes { exit !($(NF - 1) == wanted && $2 == 16) }' ||
    fail "with $2 servers on $1 nodes 16 workers are not $3 times as fast"
case $(advice --images-per-second=34.6 --nodes=2 --bandwidth=100Gb) in
"2 workers on 2 nodes train "*" would be reached on a network of "*"; this one has 100 Gbit/s. Dedicated servers would not make it 5 % faster. ") ;;
*) fail "of two nodes on a fast network the advice is: $(advice --images-per-second=34.6 --nodes=2 --bandwidth=100Gb)" ;;
esac
case $(advice --images-per-second=34.6 --nodes=8 --comm=sfb --gflops=1 --servers=2) in
*"No network makes that 95 %: on the fastest it is "*" times, the rest is latency, sums and products. ") ;;
*) fail "slow products are not told: $(advice --images-per-second=34.6 --nodes=8 --comm=sfb --gflops=1 --servers=2)" ;;
esac
[ "$(advice --nodes=1)" = 'One worker has nothing to send: ask for more --nodes. ' ] || fail "of one node: '$(advice --nodes=1)'"
plan --nodes=1 | grep -q '1 nodes\|1 workers' && fail 'one node is several'

# figures from a file, and what overrides them
cat >"$folder/cluster" <<END
ranks = 4
ranks_per_node = 2
latency_seconds = 1e-4
message_seconds = 1e-5
link_bytes_per_second = 2.5e8
local_bytes_per_second = 4e9
gemm_flops = 3e11
copy_bytes_per_second = 8e9
sum_bytes_per_second = 7e9
served_bytes_per_second = 0
transport_bytes_per_second = 1e9
core_share = 0
END
plan --nodes=2 --cluster-file="$folder/cluster" --latency=2ms >"$folder/text" || fail '--cluster-file failed'
grep -q '^link *250 MB/s per node and direction, latency 2 ms, 10 us per additional message$' "$folder/text" ||
    fail "the file's figures are not used"
grep -q '^rank *300 GFLOP/s in products, copies 8 GB/s, sums 7 GB/s' "$folder/text" ||
    fail "the file's rates are not used"

plan --nodes=2 --host-copy=3GB >"$folder/text" || fail '--host-copy failed'
grep -q '^device *3 GB/s from and to the host$' "$folder/text" || fail "the device's copies are not told"

if [ -n "$POSEIDON_PYTHON" ]; then
    plan --nodes=2,4,8,16,32 --json >"$folder/json" || fail '--json failed'
    "$POSEIDON_PYTHON" - "$folder/json" <<'END' || fail 'the JSON is not what was computed by hand'
import json, sys
plan = json.load(open(sys.argv[1]))
advice = plan["advice"]
assert advice["nodes"] == 32 and ": 32 workers on 32 nodes train %.2f times" % advice["speedup"] in advice["words"]
assert advice["enough_link_bytes_per_second"] > 0 and advice["most_speedup"] >= advice["speedup"] * 0.99, advice
assert plan["parameters"] == 229052817 and plan["images_per_rank"] == 32, plan["parameters"]
assert [p["nodes"] for p in plan["points"]] == [2, 4, 8, 16, 32]
both = lambda it: (it["sent"] + it["received"]) / 1e9
for point, ps, hybrid in zip(plan["points"], [1.83, 2.75, 3.21, 3.44, 3.55], [0.18, 0.29, 0.39, 0.54, 0.81]):
    assert abs(both(point["by_comm"]["ps"]) - ps) < 0.0051, point["nodes"]
    assert abs(both(point["by_comm"]["paper"]) - hybrid) < 0.0051, point["nodes"]
    for layer in point["layers"]:
        chosen = layer["costs"][layer["choice"]]
        assert chosen is not None and layer["reason"], layer["layer"]
        assert (layer["costs"]["sfb"] is not None) == layer["layer"].startswith("fc")
    total = sum(l["costs"][l["choice"]]["bytes"] for l in point["layers"])
    assert total == point["chosen"]["bytes"], (total, point["chosen"]["bytes"])
    best = min(point["by_comm"][m]["seconds"] for m in ("ps", "sfb", "allreduce", "paper"))
    assert point["by_comm"]["auto"]["seconds"] <= best * 1.001, point["nodes"]
    chosen = point["chosen"]
    assert chosen["seconds"] >= max(chosen["compute_seconds"], chosen["wire_seconds"]) * (1 - 1e-9)
    over = point["by_overlap"]
    assert over["wfbp"]["seconds"] <= over["backward"]["seconds"] * 1.001 <= over["none"]["seconds"] * 1.002
END
fi

refuses 'Need a model definition to plan for'
refuses "--bandwidth expects a rate with its unit" --model="$net" --bandwidth=10
refuses "--bandwidth=1e-9Gb is less than 1 kbit/s, at which nothing trains; expected a rate such as 10Gb or 1.25GB" \
    --model="$net" --bandwidth=1e-9Gb
refuses "--latency expects a time with its unit" --model="$net" --latency=30
refuses "--message expects a time with its unit" --model="$net" --message=1h
refuses "--memory expects a rate with its unit" --model="$net" --memory=x
refuses "--gflops expects a number above 0, found '-3'" --model="$net" --gflops=-3
refuses "--images-per-second expects a number above 0" --model="$net" --images-per-second=0
refuses "--nodes expects whole numbers from 1 to 65536 such as 1,2,4, found '1,,2'" --model="$net" --nodes=1,,2
refuses "--nodes=2,2: 2 appears twice" --model="$net" --nodes=2,2
refuses "--comm=best: expected one of auto, paper, none, ps" --model="$net" --comm=best
refuses "--overlap=some: expected none, backward or wfbp" --model="$net" --overlap=some
refuses "--hierarchy=4: expected auto or off" --model="$net" --hierarchy=4
refuses "--wire=fp8" --model="$net" --wire=fp8
refuses "--servers=2 leaves no worker on 2 nodes: 2 ranks" --model="$net" --nodes=2 --servers=2
refuses "--servers=-1 is out of range" --model="$net" --servers=-1
refuses "--chunk=2: a chunk holds at least one parameter" --model="$net" --chunk=2
refuses "--ranks-per-node=100000 makes too many ranks of 16 nodes (at most 1048576)" --model="$net" --ranks-per-node=100000
refuses "cluster:3: expected KEY = NUMBER" --model="$net" --cluster-file="$(
    sed '3s/.*/nonsense/' "$folder/cluster" >"$folder/damaged_cluster"
    echo "$folder/damaged_cluster"
)"
refuses 'unknown option --bandwith; did you mean --bandwidth?' --model="$net" --bandwith=1Gb
refuses "$folder/absent" --model="$folder/absent"

if [ -w /dev/full ] && plan --nodes=2 >/dev/full; then
    fail 'a full disk goes unnoticed'
fi
finish
