#!/bin/sh
# poseidon plan: the paper's figures come out of real net files, every point is played, text keeps to 80 columns, JSON
# agrees with it. What is refused: test_plan_refusals.sh.
set -u
. "${abs_top_srcdir:?}/tests/common.sh"
sh "$abs_top_srcdir/tests/data/cost/vgg19.sh" 21841 32 >vgg19_22k.prototxt || exit 1
sh "$abs_top_srcdir/tests/data/cost/vgg19.sh" 1000 32 >vgg19.prototxt || exit 1
net=$folder/vgg19_22k.prototxt

plan() { "$POSEIDON" plan --model="$net" "$@" 2>errors; }

text() { # ARGUMENT...: into the file "text"
    plan "$@" >text || fail "$*: $(cat errors)"
    shown=$*
    awk 'length($0) > 80 || / $/ { exit 1 }' text || fail "$*: a line is longer than 80 columns, or ends in a space"
}
has() { grep -q -e "$1" text || fail "$shown: no '$1' in: $(cat text)"; }
lacks() { grep -q -e "$1" text && fail "$shown: '$1' in: $(cat text)"; }
shows() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    text "$@"
    has "$pattern"
}

# NODES FIELD of the row of so many nodes: 2 iteration, 3 its unit, 4 speed-up, 5 images/s, 6 MB sent, 7 stalled
field() { sed -n '/^nodes  iteration/,/^MB sent/p' text | awk -v nodes="$1" -v field="$2" '$1 == nodes { print $field }'; }

# KEY FILE: its value in the last row of JSON
number() { sed -n "s/^ *\"$1\": *\([0-9.e+-]*\),*$/\1/p" "$2" | tail -n 1; }

holds() { # WHAT AWK-EXPRESSION NAME=VALUE...
    what=$1 expression=$2
    shift 2
    for value in "$@"; do
        set -- "$@" -v "$value"
        shift
    done
    awk "$@" "BEGIN { exit !($expression) }" || fail "$what: not $expression by $*"
}

# ---- what is printed ----

figures='--figure gemm_flops=4000e9 --figure copy_bytes_per_second=100GB --figure sum_bytes_per_second=100e9'
# One Titan X trains 34.6 images/s. At 10 GbE and 16 nodes the hybrid reached 15.0 to 15.5 times that, and PS not 11.
# shellcheck disable=SC2086 # several words
shows '^VGG19: 229052817 parameters, 916 MB; 32 images' --nodes=1,8,16 --bandwidth=10Gb --images-per-second=34.6 $figures
same 'what is assumed comes first' 'Assuming usual latency and hosts: give --cluster-file.' "$(head -n 1 text)"
has '^rank *4000 GFLOP/s in products, copies 100 GB/s, sums 100 GB/s; 1 a node$'
sed -n '/^Speed-up by/,/^$/p' text | awk '$1 == "nodes" { for (i = 2; i <= NF; i++) at[$i] = i }
    $1 == 16 { found = 1; if ($at["ps"] > 11 || $at["auto"] < 14.5 || $at["auto"] > 16 || $at["auto"] < $at["paper"]) exit 1 }
    END { if (!found) exit 1 }' || fail "the speed-ups are not the paper's: $(cat text)"
same 'speed-up, bytes and schemes of one node' '1.00 0.0 -' "$(field 1 4) $(field 1 6) $(field 1 8)"
has '^   16 .* 17 PS, 2 SFB$'
same 'tables of layers' 1 "$(grep -c '^layer ' text)"
shows '^Assuming [0-9.]* images/s a rank: give --images-per-second or --profile; links of$' --nodes=1,2 --layers
has '^10 Gbit/s: give --bandwidth; usual latency and hosts: give --cluster-file.$'
same 'tables of --layers' 2 "$(grep -c '^layer ' text)"
net=$abs_top_srcdir/models/lenet/train_val.prototxt shows '^conv1 .* 0 B  347 ns' --nodes=1 --input-shape=1,28,28

# frozen layers, layers that only PS and allreduce can carry
sed 's/top: "conv1_1" conv/top: "conv1_1" param { lr_mult: 0 } param { lr_mult: 0 } conv/' "$net" >frozen.prototxt
net=$folder/frozen.prototxt shows '^conv1_1 .*frozen.*frozen' --nodes=4 --comm=sfb
has '^fc8 .*\*'
lacks '^Speed-up by --comm'
shows '^4 nodes, 3 workers, 1 dedicated server$' --nodes=4 --servers=1 --comm=paper
shows 'no core to spare' --nodes=2 --comm=ps --figure core_share=1
shows '^    4 .* 687.2 ' --nodes=4 --comm=allreduce --tune=wire=bf16 # half the bytes
shows '^device *3 GB/s from and to the host$' --nodes=2 --figure device_bytes_per_second=3GB

# ranks of a node that add up first: the bytes of two ranks, the images of eight
text --nodes=2 --comm=ps
sent=$(field 2 6)
shows '^2 nodes, 8 workers, 4 a node add up gradients and one sends, every node serves$' --nodes=2 --ranks-per-node=4 --comm=ps
same 'MB that two nodes of four send' "$sent" "$(field 2 6)"
shows '^2 nodes, 8 workers, 4 a node add up gradients and 3 send, every node serves$' --nodes=2 --ranks-per-node=4 --comm=ps --hierarchy=auto,3
shows '^2 nodes, 8 workers, every worker serves$' --nodes=2 --ranks-per-node=4 --comm=ps --hierarchy=off
for how in --comm=ps --hierarchy=off --tune=wire=bf16 --servers=1; do
    text --nodes=1 --ranks-per-node=4 $how
    lacks 'add[ed]* up'
    holds "one node, $how: it sends" 'sent > 0' sent="$(field 1 6)"
done
shows '^1 node, 4 workers, gradients added up in shared memory: nothing is sent$' --nodes=1 --ranks-per-node=4 \
    --images-per-second=60 --figure sum_bytes_per_second=1GB
holds 'one node: only sums take time' 'sent == 0 && stalled + 0 > 10' sent="$(field 1 6)" stalled="$(field 1 7)"

# ---- the result in a sentence ----

result() { plan "$@" | awk '/^Assuming/ { on = 1 } on { on = !/\.$/; next } /^$/ { exit } { printf "%s ", $0 }'; }
results() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    said=$(result --images-per-second=34.6 "$@")
    echo "$said" | grep -qx -e "$pattern" || fail "$*: expected '$pattern', found '$said'"
}
results '4 workers on 4 nodes train [0-9.]* times as fast as one ([0-9]* % of 4) (--comm=ps). ' --comm=ps --nodes=1,4 --bandwidth=1Gb
results '4 workers on 1 node train .*: they add up gradients in shared memory, and nothing is sent (--comm=auto). ' --nodes=1 --ranks-per-node=4
results 'One worker has nothing to send: ask for more --nodes. ' --nodes=1
text --nodes=1
lacks '1 nodes\|1 workers'

# ---- hosts of unlike speed: the slowest sets the pace, or the batch is dealt: 64 images as 43 and 21, 43 in 43/32 of the time ----

seconds_with() { plan --images-per-second=34.6 --nodes=2 --json "$@" >json || fail "$*: $(cat errors)"; number seconds json; }
holds 'equal shares, and dealt ones' 'slow > 1.999 * alike && slow < 2.001 * alike && dealt > 1.343 * alike && dealt < 1.345 * alike' \
    alike="$(seconds_with --comm=none)" slow="$(seconds_with --comm=none --speeds=1,0.5)" \
    dealt="$(seconds_with --comm=none --speeds=1,0.5 --balance)"
same 'speeds and shares of JSON' '[1,0.5] [43,21]' "$(tr -d ' \n' <json | sed 's/.*"speeds":\([^]]*]\),"shares":\([^]]*]\).*/\1 \2/')"
holds 'auto plays them, too' 'dealt > 0.66 * slow && dealt < 0.7 * slow' \
    slow="$(seconds_with --speeds=1,0.5)" dealt="$(seconds_with --speeds=1,0.5 --balance)"
# rebuilding gradients from the others' factors takes a slow worker longer whatever its share: it is dealt less
deals() { "$POSEIDON" plan --model="$abs_top_srcdir/models/alexnet/train_val.prototxt" --batch=128 --images-per-second=1500 --nodes=4 \
    --speeds=1,1,0.5,0.25 --balance --json "$@" >json 2>errors || fail "$*: $(cat errors)"; tr -d ' \n' <json | sed 's/.*"shares":\(\[[^]]*\]\).*/\1/'; }
same 'shares by the passes alone' '[187,186,93,46]' "$(deals --comm=ps)"
same 'shares by passes and schemes' '[207,207,81,17]' "$(deals)"
holds 'an iteration by them' 'found < 0.19' found="$(number seconds json)"
results '4 workers on 4 nodes train 2.00 times as fast as one of speed 1 (67 % of 3) (--comm=ps). ' \
    --comm=ps --nodes=4 --bandwidth=100Gb --speeds=1,0.5
text --nodes=2,4 --ranks-per-node=2 --images-per-second=34.6 --speeds=1,0.25,1,0.25 --balance
has '^speed    ranks  images of a pass$'
has '^    1        4  51 to 52$'
has '^ 0.25        4  12 to 13$'

# ---- --sync-bn: two sums of each of 21 layers, each of 6 trips on 8 nodes, and what the links still carry ----

shows '^No BatchNorm of the net makes statistics in training: --sync-bn changes nothing.$' --nodes=2 --sync-bn
net=$abs_top_srcdir/models/resnet20_cifar10/train_val.prototxt
with() { plan --images-per-second=2000 --nodes=8 --bandwidth=40Gb --figure latency_seconds=1ms --batch=16 --json "$@" >json || fail "$*: $(cat errors)"; number seconds json; }
plain=$(with)
same 'JSON without the option' '' "$(number sync_bn_share json)"
joined=$(with --sync-bn)
holds 'sums of each layer and pass' 'joined > plain + 42 * 6e-3 && joined < plain + 50 * 6e-3 && share * joined > 42 * 6e-3 && share < 1' \
    plain="$plain" joined="$joined" share="$(number sync_bn_share json)"
holds 'sums of each micro-batch' 'twice > 1.9 * joined && twice < 2.1 * joined' joined="$joined" twice="$(with --sync-bn --iter-size=2)"
shows '^BatchNorm adds up statistics over the ranks 42 times an iteration. On 8 nodes$' --nodes=2,8 --sync-bn --batch=16
net=$folder/vgg19_22k.prototxt

# ---- the layers' times, from profiles and rates ----

grep -o 'name: "[^"]*" type: "[A-Z]' "$net" | sed 's/name: "\(.*\)" type.*/\1,-,0.01,0.02/' >profile.csv
lines=$(wc -l <profile.csv)
sed -i '1i layer,type,forward_s,backward_s' profile.csv
echo '*,GEMM,0.002,0' >>profile.csv
shows "forward $((10 * lines)) ms, backward $((20 * lines)) ms" --nodes=2 --profile=profile.csv
has '^rank *500 GFLOP/s'
slow=$(plan --json --nodes=2 --comm=sfb --profile=profile.csv | grep '"seconds"')
echo '*update,SGD,0.001,0' >>profile.csv
[ "$slow" != "$(plan --json --nodes=2 --comm=sfb --profile=profile.csv | grep '"seconds"')" ] || fail "the rate of updates is not used"
# a rank that trains 30 images a second multiplies as fast as that takes, unless the rate is given
shows '^rank *3[0-9]*\.*[0-9]* GFLOP/s\|^rank *4[0-4][0-9][0-9] GFLOP/s' --nodes=32 --images-per-second=30 --comm=paper
shows '^rank *50 GFLOP/s' --nodes=2 --images-per-second=30 --figure gemm_flops=5e10
# a device's name stands for its profile of the net, and brings the batch
net=$abs_top_srcdir/models/vgg19_22k/train_val.prototxt
plan --profile=titanx --nodes=1,8 --comm=ps --json | grep -v '"profile"' >by_name
plan --profile="$abs_top_srcdir/models/profiles/titanx-vgg19_22k.csv" --batch=32 --nodes=1,8 --comm=ps --json |
    grep -v '"profile"' | cmp - by_name || fail "titanx is not that device's file, or at another batch"

# ---- other systems: what is published of VGG19-22K on Titan X at 40 GbE is what they lose and gain ----

speedup() { # ARGUMENT...: of the last number of nodes; also in the file "json"
    plan --profile=titanx --bandwidth=40Gb --json "$@" >json || fail "$*: $(cat errors)"
    number speedup json
}
published() { speedup --nodes=1,32 --figure thread_bytes_per_second=3GB --figure device_bytes_per_second=3GB --comm="$1"; }
holds 'the order of other systems' 'poseidon > 28 && poseidon > wfbp && wfbp > 2 * caffe && caffe > 1 && tf < 1 && ring > caffe && ring == horovod' \
    poseidon="$(published poseidon)" wfbp="$(published wfbp)" caffe="$(published caffe-ps)" tf="$(published tf-ps)" \
    ring="$(published ring)" horovod="$(published horovod)"
published caffe-ps >/dev/null
grep -q '"comm": "caffe-ps"' json || fail 'caffe-ps is not named'
# a link that is waited for carries as much by urgency, a window at a time, as in the order of posting
waited() { speedup --nodes=16 --bandwidth=1Gb --comm=ps --tune=order="$1"; }
holds 'urgency costs nothing' 'urgency > 0.99 * fifo' urgency="$(waited urgency)" fifo="$(waited fifo)"
# auto counts copies as they are played: by this cluster's, PS alone would reach 24.9 of 32
copied() {
    speedup --nodes=32 --figure thread_bytes_per_second=3.5GB --figure device_bytes_per_second=3.2GB --figure copy_bytes_per_second=8e9 \
        --figure sum_bytes_per_second=8e9 --comm="$1"
}
holds 'auto counts copies as they are played' 'sfb > 1.1 * ps && all >= sfb' all="$(copied auto)" ps="$(copied ps)" sfb="$(copied sfb)"

# ---- what costs time ----

net=$folder/vgg19.prototxt
seconds() {
    plan --bandwidth=10Gb --images-per-second=35.5 --nodes=8 --comm=ps --json "$@" >json || fail "$*: $(cat errors)"
    number seconds json
}
free=$(seconds)
holds 'overlap and order' '0 < free && free <= backward && backward < none && free <= fifo' free="$free" \
    backward="$(seconds --tune=overlap=backward)" none="$(seconds --tune=overlap=none)" fifo="$(seconds --tune=order=fifo)"
far='--figure latency_seconds=5ms --tune=chunk=256k'
# shellcheck disable=SC2086
holds 'a window over a far network' '1.2 * far < one' far="$(seconds $far)" one="$(seconds $far --tune=window=4k)"
# a hundredth of the bytes on a hundredth of the link, through a hundredth of the window
near='--figure sum_bytes_per_second=1e14 --figure copy_bytes_per_second=1e14 --figure message_seconds=1us --figure latency_seconds=20us --tune=window=1m'
# shellcheck disable=SC2086
holds 'dilate changes only bytes' 'less > 0.995 * all && less < 1.005 * all' all="$(seconds $near)" less="$(seconds $near --tune=dilate=100 --bandwidth=100Mb)"
holds 'what costs time' \
    'copies > free && thread > free && headers > free && up > 1.5 * free && all == free' \
    free="$free" copies="$(seconds --figure device_bytes_per_second=1GB)" thread="$(seconds --figure thread_bytes_per_second=500MB)" \
    up="$(seconds --switch=4:4)" all="$(seconds --switch=8:4)" headers="$(seconds --figure header_bytes=16384)"
net=$abs_top_srcdir/models/lenet/train_val.prototxt shows '^1024 nodes are simulated in blocks' --nodes=1024 --bandwidth=40Gb --comm=ps

# ---- figures of a cluster, JSON ----

printf '%s\n' 'ranks = 4' 'ranks_per_node = 2' 'latency_seconds = 1e-4' 'message_seconds = 1e-5' 'link_bytes_per_second = 2.5e8' \
    'local_bytes_per_second = 4e9' 'gemm_flops = 3e11' 'copy_bytes_per_second = 8e9' 'sum_bytes_per_second = 7e9' \
    'served_bytes_per_second = 0' 'transport_bytes_per_second = 1e9' 'core_share = 0' >cluster
shows '^link *250 MB/s per node and direction, latency 2 ms, 10 us per message$' --nodes=2 --cluster-file=cluster --figure latency_seconds=2ms
has '^rank *300 GFLOP/s in products, copies 8 GB/s, sums 7 GB/s'

if [ -n "$POSEIDON_PYTHON" ]; then
    net=$folder/vgg19_22k.prototxt
    plan --nodes=2,4,8,16,32 --comm=ps --json >ps && plan --nodes=2,4,8,16,32 --comm=paper --json >paper || fail '--json failed'
    plan --nodes=1,4 --json >auto || fail '--json failed'
    net=$folder/vgg19.prototxt
    plan --bandwidth=1Gb --images-per-second=35.5 --nodes=8 --comm=ps --json >slow || fail '--json failed'
    "$POSEIDON_PYTHON" - <<'END' || fail 'the JSON is not what was computed by hand'
import json
def rows(name): return json.load(open(name))
# PS sends 2 b (P - 1) / P a node, and a node receives as much; the hybrid what the paper's table has
both = lambda row: 2 * row["bytes_sent"] / 1e9
for ps, paper, by_ps, hybrid in zip(rows("ps"), rows("paper"), [1.83, 2.75, 3.21, 3.44, 3.55], [0.18, 0.29, 0.39, 0.54, 0.81]):
    assert abs(both(ps) - by_ps) < 0.0051 and abs(both(paper) - hybrid) < 0.0051, ps["nodes"]
    assert ps["schemes"] == "19 PS" and set(ps["scheme_by_layer"].values()) == {"ps"}, ps["schemes"]
    assert paper["scheme_by_layer"]["fc7"] == "sfb" and paper["scheme_by_layer"]["conv1_1"] == "ps"
alone, four = rows("auto")
assert "seconds_by_comm" not in alone and four["seconds_by_comm"]["auto"] == four["seconds"], four
assert set(four["seconds_by_comm"]) == {"auto", "paper", "ps", "sfb", "allreduce"}
assert min(four["seconds_by_comm"].values()) == four["seconds"] and four["cluster"]["link_bytes_per_second"] == 1.25e9
(row,) = rows("slow")
assert list(row)[:16] == ['comm', 'nodes', 'seconds', 'speedup', 'images_per_second', 'bytes_sent', 'stall_share', 'model', 'profile',
                          'bandwidth', 'latency', 'ranks_per_node', 'batch', 'parameters', 'workers', 'bytes_sent_most'], row
assert row['parameters'] == 143667240 and row['workers'] == 8 and row['bytes_sent_most'] >= row['bytes_sent'], row
assert row['model'] == 'VGG19' and row['profile'] is None and row['bandwidth'] == 125e6 and row['batch'] == 32, row
assert row['latency'] == 30e-6 and row['ranks_per_node'] == 1 and row['comm'] == 'ps' and row['nodes'] == 8
assert row['bytes_sent'] == 2 * 4 * 143667240 * 7 / 8 and 0.5 < row['stall_share'] < 1 and row['speedup'] < 8, row
assert row['seconds'] > row['bytes_sent'] / 125e6 and abs(row['speedup'] / 8 * row['seconds'] / row['alone_seconds'] - 1) < 1e-6
assert abs(row['images_per_second'] - 8 * 32 / row['seconds']) < 1e-6 * row['images_per_second'], row
# the link is the bottleneck: full for most of an iteration, but never longer
assert 0.5 * row['seconds'] < row['link_full_seconds'] <= 1.01 * row['seconds'] and row['seconds'] < 3 * row['link_full_longest_seconds'], row
assert 0 < row['queued_bytes_most'] < 2 * row['bytes_sent'], row
END
fi

if [ -w /dev/full ] && plan --nodes=2 >/dev/full; then
    fail 'a full disk goes unnoticed'
fi
finish
