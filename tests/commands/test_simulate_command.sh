#!/bin/sh
# poseidon simulate: the paper's speed-ups come out of a real net file and keep below plan's bound, JSON
# agrees with the table, and every wrong word is refused with what was wanted.
set -u
. "${abs_top_srcdir:?}/tests/common.sh"
net=$folder/vgg19.prototxt
sh "${abs_top_srcdir:?}/tests/data/cost/vgg19.sh" 1000 32 >"$net" || exit 1

run() { # COMMAND ARGUMENT...
    command=$1
    shift
    "$POSEIDON" "$command" --model="$net" "$@" 2>"$folder/errors"
}

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    if said=$("$POSEIDON" simulate "$@" 2>&1); then
        fail "$*: accepted"
    fi
    [ "$(echo "$said" | grep -vc "^layer 'data'")" -eq 1 ] || fail "$*: not one message: $said"
    case $said in
    *"$pattern"*) ;;
    *) fail "$*: expected '$pattern', found '$said'" ;;
    esac
}

# One Titan X trains 35.5 images/s of VGG19. At 40 GbE nothing but SFB's products keeps 32 of them from 32 times that.
titanx='--images-per-second=35.5 --gflops=4000 --memory=100GB --bandwidth=40Gb'
for comm in paper ps auto; do
    # shellcheck disable=SC2086 # several words
    run simulate $titanx --comm=$comm >"$folder/table" || fail "$comm failed: $(cat "$folder/errors")"
    # shellcheck disable=SC2086
    run plan $titanx --comm=$comm | sed -n '/^Speed-up against/,/^$/p' >"$folder/bound"
    awk 'length($0) > 100 { exit 1 }' "$folder/table" || fail "$comm: a line is longer than 100 columns"
    grep -q ' $' "$folder/table" && fail "$comm: a line ends in a space"
    awk -v comm=$comm '
        NR == FNR { if ($1 == "nodes") for (i = 2; i <= NF; i++) if ($i == comm) column = i
                    if ($1 ~ /^[0-9]+$/) bound[$1] = $column; next }
        $1 ~ /^[0-9]+$/ && $3 ~ /s$/ { rows++; if ($4 < 1 || $4 > bound[$1] * 1.02 || $4 < bound[$1] * 0.9) {
            print comm ", " $1 " nodes: " $4 ", bound " bound[$1]; exit 1 } }
        END { if (rows != 6) exit 1 }' "$folder/bound" "$folder/table" || fail "$comm: speed-ups are not below plan's bound"
done

# A slow network is waited for; the bytes are the plan's: PS sends 2 b (P - 1) / P a node.
run simulate --bandwidth=1Gb --images-per-second=35.5 --nodes=8 --comm=ps --json >"$folder/json" || fail '--json failed'
if [ -n "${POSEIDON_PYTHON:-}" ]; then
    "$POSEIDON_PYTHON" - "$folder/json" <<'EOF' || fail 'the JSON is wrong'
import json, sys
(row,) = json.load(open(sys.argv[1]))
assert list(row) == ['comm', 'nodes', 'seconds', 'speedup', 'images_per_second', 'bytes_sent', 'stall_share',
                     'model', 'profile', 'bandwidth', 'latency', 'ranks_per_node', 'batch', 'parameters', 'workers',
                     'bytes_sent_most'], row
assert row['parameters'] == 143667240 and row['workers'] == 8 and row['bytes_sent_most'] >= row['bytes_sent'], row
assert row['model'] == 'VGG19' and row['profile'] is None and row['bandwidth'] == 125e6 and row['batch'] == 32, row
assert row['latency'] == 30e-6 and row['ranks_per_node'] == 1, row
parameters = 143667240
assert row['comm'] == 'ps' and row['nodes'] == 8
assert row['bytes_sent'] == 2 * 4 * parameters * 7 / 8, row
assert 0.5 < row['stall_share'] < 1 and row['speedup'] < 8, row
assert row['seconds'] > row['bytes_sent'] / 125e6, row
assert abs(row['images_per_second'] - 8 * 32 / row['seconds']) < 1e-6 * row['images_per_second'], row
EOF
fi

# when bytes leave: those of an iteration, but for what its ends cut off, and never more than the link carries
run simulate --bandwidth=1Gb --images-per-second=35.5 --nodes=8 --comm=ps --json --intervals=40 >"$folder/json" || fail '--intervals failed'
if [ -n "${POSEIDON_PYTHON:-}" ]; then
    "$POSEIDON_PYTHON" - "$folder/json" <<'EOF' || fail 'the intervals are wrong'
import json, sys
(row,) = json.load(open(sys.argv[1]))
sent = row['bytes_sent_by_interval']
assert len(sent) == 40 and row['bandwidth'] == 125e6
assert abs(sum(sent) / row["bytes_sent"] - 1) < 0.05, (sum(sent), row['bytes_sent'])
assert 0 <= min(sent) and max(sent) <= row['seconds'] / 40 * 125e6 * 1.0001, (max(sent), row['seconds'])
EOF
fi

# what hides traffic, and what does not
seconds() { run simulate --bandwidth=10Gb --images-per-second=35.5 --nodes=8 --comm=ps --json "$@" | sed -n 's/.*"seconds": *\([0-9.e+-]*\).*/\1/p'; }
awk -v a="$(seconds)" -v b="$(seconds --overlap=backward)" -v c="$(seconds --overlap=none)" -v d="$(seconds --order=fifo)" \
    'BEGIN { exit !(a > 0 && a <= b && b < c && a <= d) }' || fail 'overlap or order make it slower'
far='--latency=5ms --chunk=256k'
# shellcheck disable=SC2086
awk -v a="$(seconds $far)" -v b="$(seconds $far --window=4k)" 'BEGIN { exit !(1.2 * a < b) }' ||
    fail 'one message at a time is as good as a window of them over a far network'
# a hundredth of the bytes on a hundredth of the link, through a hundredth of the window
near='--memory=100000GB --message=1us --latency=20us --window=1m'
# shellcheck disable=SC2086
awk -v a="$(seconds $near)" -v b="$(seconds $near --dilate=100 --bandwidth=100Mb)" 'BEGIN { exit !(b > 0.995 * a && b < 1.005 * a) }' ||
    fail "--dilate changes more than bytes: $(seconds $near), $(seconds $near --dilate=100 --bandwidth=100Mb)"

# a thousand nodes, several ranks on each, dedicated servers
run simulate --nodes=1024 --bandwidth=40Gb --comm=ps >"$folder/table" || fail "1024 nodes: $(cat "$folder/errors")"
grep -q '^1024 nodes are played in blocks' "$folder/table" || fail 'blocks are not named'
run simulate --nodes=4 --ranks-per-node=4 --comm=ps >/dev/null || fail '--ranks-per-node failed'
run simulate --nodes=4 --ranks-per-node=4 --hierarchy=off --comm=auto >/dev/null || fail '--hierarchy=off failed'
# one machine: nothing is sent by default, and the sums still take their time
run simulate --nodes=1 --ranks-per-node=4 --images-per-second=60 --memory=1GB >"$folder/table" || fail 'one node failed'
awk '$1 == 1 { found = $6 == 0 && $7 + 0 > 10 } END { exit !found }' "$folder/table" || fail "one node: $(cat "$folder/table")"
run simulate --nodes=1 --ranks-per-node=4 --hierarchy=off >"$folder/table" || fail 'one node, --hierarchy=off failed'
awk '$1 == 1 { found = $6 > 0 } END { exit !found }' "$folder/table" || fail "one node, --hierarchy=off: $(cat "$folder/table")"
run simulate --nodes=4 --servers=2 --comm=paper >/dev/null || fail '--servers failed'

# the layers' times from a profile
grep -o 'name: "[^"]*" type: "[A-Z]' "$net" | sed 's/name: "\(.*\)" type.*/\1,-,0.01,0.02/' >"$folder/profile.csv"
sed -i '1i layer,type,forward_s,backward_s' "$folder/profile.csv"
lines=$(($(wc -l <"$folder/profile.csv") - 1))
run simulate --nodes=1 --comm=none --memory=100000GB --profile="$folder/profile.csv" --json >"$folder/json" || fail '--profile failed'
sed -n 's/.*"seconds": *\([0-9.e+-]*\).*/\1/p' "$folder/json" | awk -v lines=$lines '{ exit !($1 > 0.0299 * lines && $1 < 0.0301 * lines) }' ||
    fail "the profile's times are not used"
sed /^fc7,/d "$folder/profile.csv" >"$folder/other.csv"

# a device's name stands for its profile of the net, and brings the batch
net=${abs_top_srcdir:?}/models/vgg19_22k/train_val.prototxt
for profile in titanx "$abs_top_srcdir/models/profiles/titanx-vgg19_22k.csv"; do
    run simulate --profile="$profile" --batch=32 --nodes=1,8 --comm=ps --json | grep -v '"profile"' >"$folder/by${profile##*[/]}"
done
run simulate --profile=titanx --nodes=1,8 --comm=ps --json | grep -v '"profile"' | cmp - "$folder/bytitanx" || fail 'titanx: not at its batch'
cmp "$folder/bytitanx" "$folder/bytitanx-vgg19_22k.csv" || fail "titanx is not that device's file"
cp "$net" "$folder/vgg19_22k.prototxt"
refuses "there are no times of the net '${folder##*/}' on that device (of: alexnet, " --model="$folder/vgg19_22k.prototxt" --profile=titanx
refuses '--profile=titan is neither a device (titanx, p100, p40, a100, h100, cpu) nor a file' --model="$net" --profile=titan
refuses 'holds the times of a batch of 32 samples a pass, and the net takes 64' --model="$net" --profile=titanx --batch=64

# Other systems: what is published of VGG19-22K on Titan X at 40 GbE is what they lose and gain.
for comm in poseidon wfbp caffe-ps tf-ps ring mg-wfbp p3; do
    run simulate --profile=titanx --nodes=1,32 --bandwidth=40Gb --transport=3GB --host-copy=3GB --comm=$comm --json >"$folder/$comm" || fail "$comm: $(cat "$folder/errors")"
    grep -q "\"comm\": \"$comm\"" "$folder/$comm" || fail "$comm: is not named"
done
speedup() { sed -n 's/.*"speedup": *\([0-9.e+-]*\).*/\1/p' "$folder/$1" | tail -n 1; }
awk -v poseidon="$(speedup poseidon)" -v wfbp="$(speedup wfbp)" -v caffe="$(speedup caffe-ps)" -v tf="$(speedup tf-ps)" \
    -v ring="$(speedup ring)" -v merged="$(speedup mg-wfbp)" -v p3="$(speedup p3)" 'BEGIN {
    exit !(poseidon > 28 && poseidon > wfbp && wfbp > 2 * caffe && caffe > 1 && tf > 1 && p3 >= wfbp && ring > caffe && merged > caffe) }' ||
    fail "the order of other systems is wrong"

# a link that is waited for carries as much by urgency, a window at a time, as in the order of posting
for order in urgency fifo; do
    run simulate --profile=titanx --nodes=16 --bandwidth=1Gb --comm=ps --order=$order --json >"$folder/$order"
done
awk -v urgency="$(speedup urgency)" -v fifo="$(speedup fifo)" 'BEGIN { exit !(urgency > 0.99 * fifo) }' ||
    fail "by urgency 16 nodes reach $(speedup urgency), by fifo $(speedup fifo)"

# auto counts copies as simulate plays them: by this cluster's, PS alone would reach 24.9 of 32
for comm in auto ps sfb; do
    run simulate --profile=titanx --nodes=32 --bandwidth=40Gb --transport=3.5GB --host-copy=3.2GB --memory=8GB --comm=$comm --json >"$folder/$comm"
done
awk -v auto="$(speedup auto)" -v ps="$(speedup ps)" -v sfb="$(speedup sfb)" \
    'BEGIN { exit !(sfb > 1.1 * ps && auto > 0.98 * sfb) }' || fail 'auto counts other copies than simulate'
net=$folder/vgg19.prototxt

# copies, a slow thread, an oversubscribed switch and stragglers cost time; a seed repeats itself
awk -v a="$(seconds)" -v b="$(seconds --host-copy=1GB)" -v c="$(seconds --transport=500MB)" -v d="$(seconds --switch=4:4)" \
    -v i="$(seconds --headers=16k)" -v e="$(seconds --switch=8:4)" -v f="$(seconds --stragglers=0.2)" -v g="$(seconds --stragglers=0.2 --seed=1)" -v h="$(seconds --stragglers=0.2 --seed=2)" \
    'BEGIN { exit !(a > 0 && b > a && c > a && i > a && d > 1.5 * a && e == a && f > a && f == g && f != h) }' ||
    fail 'copies, transport, headers, switch or stragglers cost nothing'

refuses 'Need a model definition to simulate'
refuses "there is no line for layer 'fc7'" --model="$net" --profile="$folder/other.csv"
sed '1i # input 64 3 224 224' "$folder/profile.csv" >"$folder/batch.csv"
refuses 'holds the times of a batch of 64 samples a pass, and the net takes 32' --model="$net" --profile="$folder/batch.csv"
refuses 'nothing.csv' --model="$net" --profile="$folder/nothing.csv"
refuses '--nodes expects whole numbers from 1 to' --model="$net" --nodes=0
refuses '--nodes expects whole numbers from 1 to' --model="$net" --nodes=1000000000
refuses '--bandwidth' --model="$net" --bandwidth=0Gb
refuses '--order=lifo: expected urgency or fifo' --model="$net" --order=lifo
refuses '--comm=lan: expected one of' --model="$net" --comm=lan
refuses 'leaves no worker' --model="$net" --nodes=2 --servers=2
refuses "--switch wants NODES:X" --model="$net" --switch=32
refuses "--switch wants NODES:X" --model="$net" --switch=0:4
refuses "--switch wants NODES:X" --model="$net" --switch=4:0.5
refuses '--host-copy' --model="$net" --host-copy=0GB
refuses '--transport' --model="$net" --transport=fast
refuses '--headers' --model="$net" --headers=some
refuses '--stragglers' --model="$net" --stragglers=-1
refuses 'unknown option' --model="$net" --layers
refuses '--intervals adds to the rows of --json' --model="$net" --intervals=5
refuses '--intervals wants a number from 1 to 10000' --model="$net" --json --intervals=20000

finish
