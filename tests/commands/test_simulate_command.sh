#!/bin/sh
# poseidon simulate: the paper's speed-ups come out of a real net file and keep below plan's bound, JSON
# agrees with the table, and every wrong word is refused with what was wanted.
set -u
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failures=0
net=$folder/vgg19.prototxt
sh "${abs_top_srcdir:?}/tests/data/cost/vgg19.sh" 1000 32 >"$net" || exit 1

fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}

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
assert list(row) == ['comm', 'nodes', 'seconds', 'speedup', 'images_per_second', 'bytes_sent', 'stall_share'], row
parameters = 143667240
assert row['comm'] == 'ps' and row['nodes'] == 8
assert row['bytes_sent'] == 2 * 4 * parameters * 7 / 8, row
assert 0.5 < row['stall_share'] < 1 and row['speedup'] < 8, row
assert row['seconds'] > row['bytes_sent'] / 125e6, row
assert abs(row['images_per_second'] - 8 * 32 / row['seconds']) < 1e-6 * row['images_per_second'], row
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

# a thousand nodes, several ranks on each, dedicated servers
run simulate --nodes=1024 --bandwidth=40Gb --comm=ps >"$folder/table" || fail "1024 nodes: $(cat "$folder/errors")"
grep -q '^1024 nodes are played in blocks' "$folder/table" || fail 'blocks are not named'
run simulate --nodes=4 --ranks-per-node=4 --comm=ps >/dev/null || fail '--ranks-per-node failed'
run simulate --nodes=4 --ranks-per-node=4 --hierarchy=off --comm=auto >/dev/null || fail '--hierarchy=off failed'
run simulate --nodes=4 --servers=2 --comm=paper >/dev/null || fail '--servers failed'

# the layers' times from a profile
grep -o 'name: "[^"]*" type: "[A-Z]' "$net" | sed 's/name: "\(.*\)" type.*/\1,-,0.01,0.02/' >"$folder/profile.csv"
sed -i '1i layer,type,forward_s,backward_s' "$folder/profile.csv"
lines=$(($(wc -l <"$folder/profile.csv") - 1))
run simulate --nodes=1 --comm=none --memory=100000GB --profile="$folder/profile.csv" --json >"$folder/json" || fail '--profile failed'
sed -n 's/.*"seconds": *\([0-9.e+-]*\).*/\1/p' "$folder/json" | awk -v lines=$lines '{ exit !($1 > 0.0299 * lines && $1 < 0.0301 * lines) }' ||
    fail "the profile's times are not used"
sed /^fc7,/d "$folder/profile.csv" >"$folder/other.csv"

refuses 'Need a model definition to simulate'
refuses "there is no line for layer 'fc7'" --model="$net" --profile="$folder/other.csv"
sed '1i # input 64 3 224 224' "$folder/profile.csv" >"$folder/batch.csv"
refuses 'holds the times of a batch of 64 samples a pass, and the net takes 32' --model="$net" --profile="$folder/batch.csv"
refuses 'nothing.csv' --model="$net" --profile="$folder/nothing.csv"
refuses '--nodes wants whole numbers from 1 to' --model="$net" --nodes=0
refuses '--nodes wants whole numbers from 1 to' --model="$net" --nodes=1000000000
refuses '--bandwidth' --model="$net" --bandwidth=0Gb
refuses '--order=lifo is not known' --model="$net" --order=lifo
refuses '--comm' --model="$net" --comm=ring
refuses 'leaves no worker' --model="$net" --nodes=2 --servers=2
refuses 'unknown option' --model="$net" --layers

[ "$failures" -eq 0 ]
