#!/bin/sh
# report.py: speed-ups, shares and bytes are those that the files say, every row says how it was obtained, any mixture of
# runs makes a table, and every folder that makes none is refused with what is wrong.
# shellcheck disable=SC2016 # backquotes of Markdown
set -u
. "${abs_top_srcdir:?}/tests/common.sh"

# summary FILE COMM NODES IMAGES_PER_SECOND [NET [BATCH]]: as train writes it
summary() {
    printf '{"net":"%s","comm":"%s","nodes":%d,"ranks":%d,"workers":%d,"global_batch":%d,"parameters":1000,
"engine":"cpu","images_per_second":%g,"stall_seconds_per_iteration":%s,"bytes_sent_per_iteration":%d,
"bytes_sent_per_iteration_by_rank":[10,%d]}\n' "${5:-tiny}" "$2" "$3" "$3" "$3" $((${6:-10} * $3)) "$4" \
        "$(awk -v n="$3" -v v="$4" 'BEGIN { printf "%.12g", 0.25 * 10 * n / v }')" $((4000 * $3)) 7000 >"$1"
}

program=$abs_top_srcdir/tools/report.py
report() {
    "$program" "$@" 2>"$folder/errors"
}

holds() { # FILE TEXT
    grep -qF -- "$2" "$1" || fail "$1 lacks '$2': $(cat "$1")"
}

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    if said=$("$program" "$@" --out="$folder/refused" 2>&1); then
        fail "$*: accepted"
    fi
    [ "$(echo "$said" | wc -l)" -eq 1 ] || fail "$*: not one message: $said"
    case $said in
    *"$pattern"*) ;;
    *) fail "$*: expected '$pattern', found '$said'" ;;
    esac
}

# drawn NAME...: these plots, and no other that begins so
drawn() {
    for plot; do
        [ "$(head -c 4 "$folder/out/$plot.png" | tail -c 3)" = PNG ] || fail "$plot.png is no PNG"
        grep -q '</svg>' "$folder/out/$plot.svg" || fail "$plot.svg is no SVG"
        holds "$folder/out/report.md" "($plot.svg)"
    done
    same "plots of ${1%%-*}" $# "$(find "$folder/out" -name "${1%%-*}-*.svg" | wc -l | tr -d ' ')"
}

mkdir "$folder/tiny" "$folder/empty"
python3 -c '' 2>/dev/null || { echo 'SKIP: no Python'; exit 77; }
# Everything but drawing is tried without matplotlib.
python3 -c 'import matplotlib' 2>/dev/null || PATH=/usr/bin:$PATH
mkdir "$folder/none" && echo 'raise ImportError("none", name="matplotlib")' >"$folder/none/matplotlib.py"
PYTHONPATH=$folder/none
export PYTHONPATH

# ---- a table of measured runs ----
summary "$folder/tiny/ps-1.json" ps 1 100
summary "$folder/tiny/ps-4.json" ps 4 350
summary "$folder/tiny/sfb-1.json" sfb 1 110
summary "$folder/tiny/sfb-4.json" sfb 4 330
sed -i 's/^{/{"by_rank":[{"link_full_seconds":0.04,"link_full_longest_seconds":0.01,"queued_bytes_most":3000},{"rank":1},\
{"link_full_seconds":0.03,"link_full_longest_seconds":0.02,"queued_bytes_most":2000}],/' "$folder/tiny/ps-4.json"
echo '{"title": "Four hosts.", "link_bytes_per_second": 1.25e9}' >"$folder/tiny/about.json"
printf 'Iteration 0 (0 iter/s, 0s/5 iters), loss = 2.5\nother\nIteration 5 (10 iter/s, 0.5s/5 iters), loss = 1.5\n' \
    >"$folder/tiny/ps-4.log"
# 4 ranks on 2 hosts; the second iteration sends half as much. Within a host nothing is on the wire.
cat >"$folder/tiny/ps-4.trace.json" <<'END_TRACE'
{"otherData":{"program":"poseidon","net":"tiny","ranks":4},"traceEvents":[
{"ph":"M","pid":0,"tid":0,"name":"process_name","args":{"name":"rank 0 (worker, a)"}},
{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"rank 1 (worker, a)"}},
{"ph":"M","pid":2,"tid":0,"name":"process_name","args":{"name":"rank 2 (worker, b)"}},
{"ph":"X","name":"iteration 0","cat":"iteration","pid":0,"ts":0,"dur":100,"args":{"iteration":0}},
{"ph":"X","name":"iteration 1","cat":"iteration","pid":0,"ts":100,"dur":200,"args":{"iteration":1}},
{"ph":"X","name":"send","cat":"send","pid":0,"ts":50,"dur":50,"args":{"bytes":8000,"peer":2}},
{"ph":"X","name":"send","cat":"send","pid":0,"ts":50,"dur":50,"args":{"bytes":9999,"peer":1}},
{"ph":"X","name":"send","cat":"send","pid":0,"ts":150,"dur":150,"args":{"bytes":6000,"peer":2}}]}
END_TRACE
report "$folder/tiny" --out="$folder/out" >"$folder/said" || fail "tiny: $(cat "$folder/errors")"
holds "$folder/said" 'There are no plots: matplotlib is missing (Debian: python3-matplotlib)'
holds "$folder/out/report.md" 'Four hosts.'
holds "$folder/out/report.md" '| ps-4 | | tiny | 10 | 4 | 4 | ps | 350.0 | | | | |'
holds "$folder/out/report.md" 'Net tiny: 1000 parameters, 10 images a worker and iteration.'
# one base for all schemes: the fastest run on one rank
holds "$folder/out/report.md" 'Speed-up over `sfb-1` (110.0 images/s on 1 rank, the fastest of 2 such runs, which lie between 100.0 and 110.0); links: 10 Gb/s.'
holds "$folder/out/report.md" '| ps | measured | 0.91 | 3.18 |'
holds "$folder/out/report.md" '| sfb | measured | 1.00 | 3.00 |'
# of the fullest link, of the longest stretch and of most that is queued each the greatest over the ranks
holds "$folder/out/report.md" '| ps-4 | measured | 114 ms | 350.0 | 75.0 % | 25.0 % | 4 kB | 7 kB | 3 kB | 40 ms | 20 ms |'
holds "$folder/out/report.md" '| sfb-4 | measured | 121 ms | 330.0 | 75.0 % | 25.0 % | 4 kB | 7 kB | | | |'
holds "$folder/out/report.csv" 'tiny,tiny,measured,ps,4,4,10,10,0.114285714,350,3.18181818,0.795454545,0.25,4000,7000,0.04,0.02,3000,ps-4,'
[ -z "$(find "$folder/out" -name '*.svg' -o -name '*.png')" ] || fail 'plots without matplotlib'
grep -q svg "$folder/out/report.md" && fail 'the report shows plots that are not there'

# ---- emulated: by a word, or since computation was replayed; a base that is not 1 ----
mkdir "$folder/box" "$folder/replayed"
summary "$folder/box/a.json" ps 2 150
summary "$folder/box/b.json" ps 4 225
echo '{"how": "emulated"}' >"$folder/box/about.json"
summary "$folder/replayed/a.json" ps 2 150
sed -i 's/"cpu"/"replay"/' "$folder/replayed/a.json"
report "$folder/box" "$folder/replayed/" --out="$folder/out" >/dev/null || fail "two folders: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| ps | emulated | 2.00 | 3.00 |'
holds "$folder/out/report.md" 'Speed-up over `a` (150.0 images/s on 2 ranks), which counts as 2; links: unknown.'
holds "$folder/out/report.csv" 'replayed,tiny,emulated,ps,2,2,10,,'

# ---- ranks of one machine ----
mkdir "$folder/machine"
summary "$folder/machine/a.json" ps 1 100
summary "$folder/machine/b.json" ps 2 190
sed -i 's/"nodes":2/"nodes":1/' "$folder/machine/b.json"
report "$folder/machine" --out="$folder/out" >/dev/null || fail "one machine: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| scheme | obtained | 1 rank | 2 ranks |'
holds "$folder/out/report.md" '| ps | measured | 1.00 | 1.90 |'

# ---- a sweep of rates: one row a run in the order of numbers, what --set changed, best scores; no speed-up ----
mkdir "$folder/sweep"
for rate in 0.01 0.003 0.1; do
    summary "$folder/sweep/lr$rate.json" ps 2 100
    sed -i "s/^{/{\"set\":[\"base_lr=$rate\",\"gamma=0.5\"],\"train_seconds\":12.5,\"train_loss\":0.25,\"best_iteration\":-1,\"best_score\":null,\
\"test_iteration\":40,\"test\":{\"accuracy\":0.5},/" "$folder/sweep/lr$rate.json"
done
sed -i 's/"best_iteration":-1,"best_score":null/"best_iteration":30,"best_score":0.75,"epochs":4/' "$folder/sweep/lr0.1.json"
printf 'iteration,epoch,seconds,images_per_second,loss,lr,test/accuracy,test/loss\n%s\n%s\n%s\n%s\n40,2,4' 0,0,0,,,,0.1,2.5 \
    10,0.5,1,80,2.5,0.1,, 20,1,2,,,,0.625,1 20,1,2,100,1.5,0.1,, >"$folder/sweep/lr0.003.csv" # the last line was cut
report "$folder/sweep" --out="$folder/out" >/dev/null || fail "a sweep: $(cat "$folder/errors")"
same 'the rows of a sweep' '| lr0.003 | base_lr=0.003 gamma=0.5 | tiny | 10 | 2 | 2 | ps | 100.0 | 12.5 | 1 | 0.25 | 0.625 at 20 |
| lr0.01 | base_lr=0.01 gamma=0.5 | tiny | 10 | 2 | 2 | ps | 100.0 | 12.5 | | 0.25 | 0.5 at 40 |
| lr0.1 | base_lr=0.1 gamma=0.5 | tiny | 10 | 2 | 2 | ps | 100.0 | 12.5 | 4 | 0.25 | 0.75 at 30 |' \
    "$(grep '^| lr.*base_lr' "$folder/out/report.md")"
grep -q 'Speed-up' "$folder/out/report.md" && fail 'a speed-up of runs on the same ranks'
holds "$folder/out/report.csv" 'lr0.1,base_lr=0.1 gamma=0.5,12.5,4,0.25,0.75,30'

# ---- any mixture: nets, batches, engines, repeated runs, logs alone ----
mkdir "$folder/mixture"
summary "$folder/mixture/a1.json" ps 1 100
summary "$folder/mixture/a2.json" ps 4 300
summary "$folder/mixture/a3.json" ps 4 360
summary "$folder/mixture/a4.json" ps 4 350
summary "$folder/mixture/b.json" ps 8 500 other
summary "$folder/mixture/c.json" sfb 4 390 tiny 20
sed -i 's/^{/{"wire":"bf16","overlap":"none",/' "$folder/mixture/c.json"
printf 'Iteration 0, loss = 2.5\nIteration 5, loss = 1.5\nIteration 5, Testing net (#0)\nTest net output #0: accuracy = 0.75\n' \
    >"$folder/mixture/caffe.log"
report "$folder/mixture" --out="$folder/out" >/dev/null || fail "a mixture: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| caffe | | | | | | | | | | 1.5 | 0.75 at 5 |'
holds "$folder/out/report.md" '| b | | other | 10 | 8 | 8 | ps | 500.0 |'
holds "$folder/out/report.md" 'Speed-up over `a1` (100.0 images/s on 1 rank); links: unknown.'
holds "$folder/out/report.md" '| ps, 10 images a worker | measured | 1.00 | 3.50 (3.00 to 3.60) |'
holds "$folder/out/report.md" '| sfb, bf16, none, 20 images a worker | measured | | 3.90 |'
same 'nets with a speed-up' 1 "$(grep -c 'Speed-up over' "$folder/out/report.md")"

# ---- the same images on any number of ranks: one row a scheme ----
mkdir "$folder/strong"
summary "$folder/strong/a.json" ps 1 100 tiny 40
summary "$folder/strong/b.json" ps 4 300 tiny 10
report "$folder/strong" --out="$folder/out" >/dev/null || fail "the same images: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| ps | measured | 1.00 | 3.00 |'
holds "$folder/out/report.md" '10 to 40 images a worker'

# ---- simulated: rows of the program itself, a sweep over bandwidth, published figures ----
mkdir "$folder/lenet"
for gbps in 1 10; do
    "$POSEIDON" plan --model="${abs_top_srcdir:?}/models/lenet/train_val.prototxt" --comm=ps --nodes=1,4 \
        --bandwidth=${gbps}Gb --json >"$folder/lenet/ps-$gbps.json" 2>/dev/null || fail 'simulate failed'
done
cat >"$folder/published.csv" <<'END_PUBLISHED'
# of nobody
table,system,comm,nodes,gbps,figure,value,grade,source,note
lenet,Other,ps,4,10,speedup,2,published,somewhere,slow, and why
lenet,Other,ps,4,10,images_per_second,1e5,recalled,somewhere,
lenet,Other,ring,8,10,speedup,4,published,elsewhere,no such run
lenet,Bound,ps,4,10,speedup,<400,published,somewhere,
lenet,Missed,ps,4,10,speedup,<0.02,published,somewhere,
END_PUBLISHED
report "$folder/lenet" --out="$folder/out" --published="$folder/published.csv" >/dev/null || fail "lenet: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| ps | simulated | 1.00 |'
holds "$folder/out/report.md" '| scheme | obtained | 1 Gb/s | 10 Gb/s |'
awk -F, '$4 == "ps" && $5 == 4 { lines++; good += $16 > 0 && $17 > 0 && $17 <= $9 && $18 > 0 } END { exit !(lines == 2 && good == 2) }' \
    "$folder/out/report.csv" || fail "plan's links are never full: $(cat "$folder/out/report.csv")"
ours=$(awk -F, '$4 == "ps" && $5 == 4 && $8 == 10 { printf "%.2f", $11 }' "$folder/out/report.csv")
error=$(awk -F, '$4 == "ps" && $5 == 4 && $8 == 10 { printf "%+.1f", 100 * ($11 / 2 - 1) }' "$folder/out/report.csv")
holds "$folder/out/compare.md" "| lenet | Other | 4 | 10 Gb/s | speed-up | 2.00 | published, somewhere | $ours | simulated, \`ps\` | $error % | slow, and why |"
holds "$folder/out/compare.csv" "lenet,Other,4,10 Gb/s,speed-up,2.00,\"published, somewhere\",$ours,\"simulated, \`ps\`\",$error %,\"slow, and why\""
holds "$folder/out/compare.md" '| lenet | Other | 8 | 10 Gb/s | speed-up | 4.00 | published, elsewhere | | not obtained | | no such run |'
holds "$folder/out/compare.md" "| lenet | Bound | 4 | 10 Gb/s | speed-up | below 400.00 | published, somewhere | $ours | simulated, \`ps\` | none |"
error=$(awk -F, '$4 == "ps" && $5 == 4 && $8 == 10 { printf "%+.1f", 100 * ($11 / 0.02 - 1) }' "$folder/out/report.csv")
holds "$folder/out/compare.md" "| lenet | Missed | 4 | 10 Gb/s | speed-up | below 0.02 | published, somewhere | $ours | simulated, \`ps\` | $error % |"

# ---- simulated on several devices: one table ----
mkdir "$folder/of-devices"
echo '{"devices": ["cpu"], "names": {"ring": "the ring"}}' >"$folder/of-devices/about.json"
for gbps in 1 10; do
    for comm in ring 'auto --lossy=bf16'; do
        # shellcheck disable=SC2086 # one option or two
        "$POSEIDON" plan --model="$abs_top_srcdir/models/lenet/train_val.prototxt" --profile=cpu --nodes=2,4 --comm=$comm \
            --bandwidth=${gbps}Gb --json >"$folder/of-devices/${comm%% *}-$gbps.json" 2>/dev/null || fail 'plan failed'
    done
done
report "$folder/of-devices" --out="$folder/out" >/dev/null || fail "devices: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| device | nodes | scheme | 1 Gb/s | 10 Gb/s |'
cells=$(for gbps in 1 10; do
    awk -F'[:,]' '/"nodes"/ { nodes = $2 + 0 } /"speedup"/ { share = 25 * $2 } /"images_per_second"/ && nodes == 4 {
        printf " %.0f (%.0f %%) |", $2, share }' "$folder/of-devices/auto-$gbps.json"
done)
holds "$folder/out/report.md" "| cpu, 64 images | 4 nodes | \`auto --lossy=bf16\` |$cells"

# ---- what train writes ----
if [ -n "${POSEIDON_MPIRUN:-}" ]; then
    mkdir "$folder/trained"
    sed '/^snapshot/d; s/^display:.*/display: 1/' "$abs_top_srcdir/models/lenet/solver.prototxt" >"$folder/lenet.prototxt"
    echo 'snapshot_after_train: false' >>"$folder/lenet.prototxt"
    (cd "$abs_top_srcdir" && "$POSEIDON_MPIRUN" 2 "$POSEIDON" train --solver="$folder/lenet.prototxt" --max-iter=4 --comm=ps \
        --threads=1 --batch=8 --summary="$folder/trained/ps.json" --trace="$folder/trained/ps.trace.json") \
        >"$folder/trained/ps.log" 2>&1 || fail "training: $(tail -n 5 "$folder/trained/ps.log")"
    report "$folder/trained" --out="$folder/out" >/dev/null || fail "trained: $(cat "$folder/errors")"
    holds "$folder/out/report.csv" 'trained,LeNet,measured,ps,1,2,8,,'
    accuracy=$(sed -n 's/.*Test net output #0: accuracy = //p' "$folder/trained/ps.log" | tail -n 1)
    grep -q "^| ps | | LeNet | 8 | 2 | 1 | ps | .* | 0.005333 | .* | $accuracy at [04] |" "$folder/out/report.md" ||
        fail "a training's row: $(cat "$folder/out/report.md")"
fi

# ---- plots ----
unset PYTHONPATH
if python3 -c 'import matplotlib' 2>/dev/null; then
    printf 'Iteration 0 (0 iter/s, 0s/5 iters), loss = 2.5\nother\nIteration 5 (10 iter/s, 0.5s/5 iters), loss = 1.5\n' \
        >"$folder/tiny/ps-4.log"
    echo 'Iteration 0 (0 iter/s, 0s/5 iters), loss = 2.5' >"$folder/machine/a.log" # one loss makes no line
    report "$folder/tiny" "$folder/machine" "$folder/lenet" "$folder/sweep" --out="$folder/out" --published="$folder/published.csv" \
        >"$folder/said" || fail "drawing: $(cat "$folder/errors")"
    [ ! -s "$folder/errors" ] || fail "drawing says: $(cat "$folder/errors")"
    drawn tiny-speedup tiny-busy tiny-bytes tiny-wire tiny-curves
    drawn machine-speedup machine-busy machine-bytes
    drawn lenet-speedup-1g lenet-speedup-10g lenet-bandwidth lenet-busy lenet-bytes
    drawn sweep-busy sweep-bytes sweep-curves
    report "$folder/of-devices" --out="$folder/out" >"$folder/said" || fail "drawing devices: $(cat "$folder/errors")"
    drawn of-devices
    holds "$folder/out/of-devices.svg" 'the ring'
    holds "$folder/out/tiny-curves.svg" 'training loss'
    grep -q 'test accuracy' "$folder/out/tiny-curves.svg" && fail 'a panel of no accuracies'
    for words in 'training loss' 'test accuracy' iterations epochs seconds; do
        holds "$folder/out/sweep-curves.svg" ">$words<"
    done
    holds "$folder/out/machine-speedup.svg" '>times as fast as one rank<'
    holds "$folder/out/lenet-speedup-10g.svg" '>dots: published<'
    echo '{"name": "Tiny $x$", "names": {"ps": "servers"}, "speedup": ["ps"]}' >"$folder/tiny/about.json"
    report "$folder/tiny" --out="$folder/out" >"$folder/said" || fail "names: $(cat "$folder/errors")"
    holds "$folder/out/tiny-speedup.svg" '>servers<'
    holds "$folder/out/tiny-speedup.svg" 'Tiny $x$: speed-up'
    grep -q '>sfb<' "$folder/out/tiny-speedup.svg" && fail 'a scheme that is not to be shown'
    cp "$folder/out/tiny-wire.svg" "$folder/before.svg"
    report "$folder/tiny" --out="$folder/out" >"$folder/said" || fail "again: $(cat "$folder/errors")"
    cmp -s "$folder/before.svg" "$folder/out/tiny-wire.svg" || fail 'the same runs make other pictures'
    rm "$folder/tiny/ps-4.log"
else
    echo 'matplotlib is missing: plots are not tested'
fi
PYTHONPATH=$folder/none
export PYTHONPATH

# ---- bad input ----
refuses 'which runs? report.py FOLDER...'
refuses 'there is no run here' "$folder/empty"
refuses 'No such file or directory' "$folder/absent"
cp -r "$folder/tiny" "$folder/mixed"
head -c 150 "$folder/tiny/ps-4.json" >"$folder/mixed/ps-4.json"
refuses 'mixed/ps-4.json:2: this is no JSON, or it is damaged from here on: was it cut short?' "$folder/mixed"
printf 'iteration,epoch,seconds,images_per_second,loss,lr\n0,0,0,,2.5,0.1\n10,zero,1,,2,0.1\n' >"$folder/mixed/a.csv"
cp "$folder/tiny/ps-4.json" "$folder/mixed"
refuses "mixed/a.csv:3: expected the numbers of 'iteration,epoch," "$folder/mixed"
rm "$folder/mixed/a.csv"
sed 's/"nodes":4,//' "$folder/tiny/ps-4.json" >"$folder/mixed/ps-4.json"
refuses 'mixed/ps-4.json: the run has no number "nodes"' "$folder/mixed"
sed 's/"net":"tiny",//' "$folder/tiny/ps-4.json" >"$folder/mixed/ps-4.json"
refuses 'mixed/ps-4.json: the run has no "net"' "$folder/mixed"
sed 's/"nodes":4/"nodes":0/' "$folder/tiny/ps-4.json" >"$folder/mixed/ps-4.json"
refuses '"nodes" is 0; expected at least 1' "$folder/mixed"
sed 's/"nodes":4/"nodes":1e300/' "$folder/tiny/ps-4.json" >"$folder/mixed/ps-4.json"
refuses '"nodes" is 1e+300; expected at most' "$folder/mixed"
sed 's/"images_per_second":350/"images_per_second":0/' "$folder/tiny/ps-4.json" >"$folder/mixed/ps-4.json"
refuses 'no images per second: the run trained no iteration' "$folder/mixed"
echo '[]' >"$folder/mixed/ps-4.json"
refuses 'expected an object of train --summary=FILE or the rows of plan --json' "$folder/mixed"
rm "$folder/mixed/ps-4.json"
refuses 'there is no summary' "$folder/mixed"
cp "$folder/tiny/ps-4.json" "$folder/mixed"
echo '{"otherData":{}}' >"$folder/mixed/ps-4.trace.json"
refuses 'the trace does not say how many ranks it has' "$folder/mixed"
echo '{"otherData":{"ranks":2},"traceEvents":[]}' >"$folder/mixed/ps-4.trace.json"
refuses 'the trace has no iteration' "$folder/mixed"
rm "$folder/mixed/ps-4.trace.json"
echo '{"how": "guessed"}' >"$folder/mixed/about.json"
refuses '"how" is "guessed"; expected "measured" or "emulated"' "$folder/mixed"
mkdir "$folder/other"
cp -r "$folder/tiny" "$folder/other/"
refuses "would both be table 'tiny'; rename one folder" "$folder/tiny" "$folder/other/tiny"
echo 'lenet,Other,ps,4,10,speedup,2,published' >"$folder/published.csv"
refuses 'published.csv:1: expected the fields table,system' "$folder/tiny" --published="$folder/published.csv"
echo 'lenet,Other,ps,4,10,accuracy,2,published,x,' >"$folder/published.csv"
refuses "figure 'accuracy' is not known" "$folder/tiny" --published="$folder/published.csv"
echo 'lenet,Other,ps,four,10,speedup,2,published,x,' >"$folder/published.csv"
refuses "found 'four', '10', '2'" "$folder/tiny" --published="$folder/published.csv"
refuses 'nothing.csv: No such file' "$folder/tiny" --published="$folder/nothing.csv"
rm -rf "$folder/refused"
touch "$folder/refused"
refuses 'refused' "$folder/tiny"

finish
