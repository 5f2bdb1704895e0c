#!/bin/sh
# report.py: speed-ups, shares and bytes are those that the files tell, every row says how it was obtained, plots
# have their scripts, and every folder that makes no table is refused with what is wrong.
set -u
. "${abs_top_srcdir:?}/tests/common.sh"

# summary FILE COMM NODES IMAGES_PER_SECOND [NET [BATCH]]: as train writes it
summary() {
    printf '{"net":"%s","comm":"%s","nodes":%d,"ranks":%d,"workers":%d,"global_batch":%d,"parameters":1000,
"engine":"cpu","images_per_second":%g,"stall_seconds_per_iteration":%s,"bytes_sent_per_iteration":%d,
"bytes_sent_per_iteration_by_rank":[10,%d]}\n' "${5:-tiny}" "$2" "$3" "$3" "$3" $((${6:-10} * $3)) "$4" \
        "$(awk -v n="$3" -v v="$4" 'BEGIN { printf "%.12g", 0.25 * 10 * n / v }')" $((4000 * $3)) 7000 >"$1"
}

program=$abs_top_srcdir/jobs/report.py
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

mkdir "$folder/tiny" "$folder/empty"
python3 -c '' 2>/dev/null || { echo 'SKIP: no Python'; exit 77; }

# ---- a table of measured runs ----
summary "$folder/tiny/ps-1.json" ps 1 100
summary "$folder/tiny/ps-4.json" ps 4 350
summary "$folder/tiny/sfb-1.json" sfb 1 110
summary "$folder/tiny/sfb-4.json" sfb 4 330
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
GNUPLOT=/nonexistent/gnuplot report "$folder/tiny" --out="$folder/out" >"$folder/said" || fail "tiny: $(cat "$folder/errors")"
holds "$folder/said" 'Plots were not drawn: gnuplot is not there'
holds "$folder/out/report.md" 'Four hosts.'
holds "$folder/out/report.md" 'Net tiny: 1000 parameters, 10 images a worker and iteration.'
holds "$folder/out/report.md" '| ps | measured | 1.00 | 3.50 |'
holds "$folder/out/report.md" '| sfb | measured | 1.00 | 3.00 |'
# 8000 in the second half, 6000 in the last three quarters: 200 a hundredth, 140 on average
holds "$folder/out/report.md" '| ps | measured | 114 ms | 350.0 | 75.0 % | 25.0 % | 4 kB | 7 kB | 1.71 |'
holds "$folder/out/report.csv" 'tiny,tiny,measured,ps,4,4,10,10,0.114285714,350,3.5,0.875,0.25,4000,7000,1.71428571'
for plot in speedup busy bytes wire loss-iterations loss-seconds; do
    if [ ! -s "$folder/out/tiny-$plot.gp" ] || [ ! -s "$folder/out/tiny-$plot.dat" ]; then fail "there is no script of tiny-$plot"; fi
    [ ! -e "$folder/out/tiny-$plot.png" ] || fail "tiny-$plot.png without gnuplot"
    holds "$folder/out/report.md" "(tiny-$plot.svg)"
done
[ "$(sed 1d "$folder/out/tiny-loss-seconds.dat")" = '0 2.5
0.5 1.5' ] || fail "the loss over time: $(cat "$folder/out/tiny-loss-seconds.dat")"

if command -v gnuplot >/dev/null; then
    report "$folder/tiny" --out="$folder/out" >"$folder/said" || fail "drawing: $(cat "$folder/errors")"
    [ ! -s "$folder/errors" ] || fail "drawing says: $(cat "$folder/errors")"
    for plot in speedup busy bytes wire loss-iterations loss-seconds; do
        [ "$(head -c 4 "$folder/out/tiny-$plot.png" | tail -c 3)" = PNG ] || fail "tiny-$plot.png is no PNG"
        grep -q '</svg>' "$folder/out/tiny-$plot.svg" || fail "tiny-$plot.svg is no SVG"
    done
fi
printf '#!/bin/sh\nexit 3\n' >"$folder/broken"
chmod +x "$folder/broken"
GNUPLOT=$folder/broken
export GNUPLOT
refuses 'broken failed with status 3' "$folder/tiny"
GNUPLOT=/nonexistent/gnuplot # the rest is about numbers

# ---- emulated: by a word, or since computation was replayed; a base that is not 1 ----
mkdir "$folder/box" "$folder/replayed"
summary "$folder/box/a.json" ps 2 150
summary "$folder/box/b.json" ps 4 225
echo '{"how": "emulated"}' >"$folder/box/about.json"
summary "$folder/replayed/a.json" ps 2 150
sed -i 's/"cpu"/"replay"/' "$folder/replayed/a.json"
report "$folder/box" "$folder/replayed/" --out="$folder/out" >/dev/null || fail "two folders: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| ps | emulated | 2.00 | 3.00 |'
holds "$folder/out/report.md" 'links: unknown'
holds "$folder/out/report.csv" 'replayed,tiny,emulated,ps,2,2,10,,'

# ---- ranks of one machine ----
mkdir "$folder/machine"
summary "$folder/machine/a.json" ps 1 100
summary "$folder/machine/b.json" ps 2 190
sed -i 's/"nodes":2/"nodes":1/' "$folder/machine/b.json"
report "$folder/machine" --out="$folder/out" >/dev/null || fail "one machine: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| scheme | obtained | 1 rank | 2 ranks |'
holds "$folder/out/report.md" '| ps | measured | 1.00 | 1.90 |'
holds "$folder/out/machine-speedup.gp" "set xlabel 'ranks'"
holds "$folder/out/machine-speedup.gp" 'set xtics (1, 2)'

# ---- a run on one node, of one displayed loss: no line to draw ----
mkdir "$folder/single"
summary "$folder/single/a.json" ps 1 100
echo 'Iteration 0 (0 iter/s, 0s/5 iters), loss = 2.5' >"$folder/single/a.log"
report "$folder/single" --out="$folder/out" >/dev/null || fail "one loss: $(cat "$folder/errors")"
holds "$folder/out/single-busy.gp" 'where time goes, 1 node, '
[ ! -e "$folder/out/single-loss-iterations.gp" ] || fail 'one loss makes a plot'

# ---- simulated: rows of the program itself, a sweep over bandwidth, published figures ----
mkdir "$folder/lenet"
for gbps in 1 10; do
    "$POSEIDON" simulate --model="${abs_top_srcdir:?}/models/lenet/train_val.prototxt" --comm=ps --nodes=1,4 \
        --bandwidth=${gbps}Gb --json --intervals=20 >"$folder/lenet/ps-$gbps.json" 2>/dev/null || fail 'simulate failed'
done
cat >"$folder/published.csv" <<'END_PUBLISHED'
# of nobody
table,system,comm,nodes,gbps,figure,value,grade,source,note
lenet,Other,ps,4,10,speedup,2,published,somewhere,slow, and why
lenet,Other,ps,4,10,images_per_second,1e5,recalled,somewhere,
lenet,Other,ring,8,10,speedup,4,published,elsewhere,no such run
END_PUBLISHED
report "$folder/lenet" --out="$folder/out" --published="$folder/published.csv" >/dev/null || fail "lenet: $(cat "$folder/errors")"
holds "$folder/out/report.md" '| ps | simulated | 1.00 |'
holds "$folder/out/report.md" '| scheme | obtained | 1 Gb/s | 10 Gb/s |'
holds "$folder/out/lenet-speedup-10g.gp" "'lenet-speedup-10g.dat'"
holds "$folder/out/lenet-speedup-10g.gp" 'title "Other, published"'
[ -s "$folder/out/lenet-bandwidth.dat" ] || fail 'no plot over bandwidth'
ours=$(awk -F, '$4 == "ps" && $5 == 4 && $8 == 10 { printf "%.2f", $11 }' "$folder/out/report.csv")
error=$(awk -F, '$4 == "ps" && $5 == 4 && $8 == 10 { printf "%+.1f", 100 * ($11 / 2 - 1) }' "$folder/out/report.csv")
holds "$folder/out/compare.md" "| lenet | Other | 4 | 10 Gb/s | speed-up | 2.00 | published, somewhere | $ours | simulated, \`ps\` | $error % | slow, and why |"
holds "$folder/out/compare.md" '| lenet | Other | 8 | 10 Gb/s | speed-up | 4.00 | published, elsewhere | | not obtained | | no such run |'

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
    [ -s "$folder/out/trained-loss-iterations.dat" ] || fail 'no losses of a training'
fi

# ---- bad input ----
"$POSEIDON" report "$folder/tiny" 2>"$folder/errors" && fail 'poseidon report is a command'
holds "$folder/errors" "unknown command 'report'; jobs/report.py makes tables and plots of runs"
refuses 'which runs? report.py FOLDER...'
refuses 'there is no run here' "$folder/empty"
refuses 'No such file or directory' "$folder/absent"
cp -r "$folder/tiny" "$folder/mixed"
summary "$folder/mixed/x.json" ps 8 500 other
refuses "put each net's runs into a folder of their own" "$folder/mixed"
summary "$folder/mixed/x.json" ps 8 500 tiny 20
refuses 'images a worker' "$folder/mixed"
summary "$folder/mixed/x.json" ps 4 500
refuses 'are both runs of ps on 4 nodes; keep one of them' "$folder/mixed"
rm "$folder/mixed/x.json"
head -c 150 "$folder/tiny/ps-4.json" >"$folder/mixed/ps-4.json"
refuses 'mixed/ps-4.json:2: this is no JSON, or it is damaged' "$folder/mixed"
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
refuses 'expected an object of train --summary=FILE or the rows of simulate --json' "$folder/mixed"
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
