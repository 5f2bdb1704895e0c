#!/bin/sh
# Traces and logs beside all that makes an update wait come to their end; a window holds its iterations; a trace changes
# nothing in training; what is wrong with the options is said before training starts.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import json' 2>/dev/null || { echo "no Python to read JSON with"; exit 77; }
make_solver solver.prototxt 'max_iter: 8' 'display: 4' "snapshot_prefix: \"$work/traced\""

# Transfers are timed by a life of their own, which has nothing of training's that makes an update wait for all layers.
# ends OPTION...: with them it comes to its end
ends() {
    train "$ranks" ends.log --solver=brief.prototxt --batch=4 --threads=1 "$@" ||
        { fail "$ranks ranks, $*: no end"; tail -n 3 ends.log; }
    grep -q 'predicted time time alone' ends.log || fail "$ranks ranks, $*: nothing was timed alone"
}
make_solver brief.prototxt 'max_iter: 2' 'snapshot_after_train: false'
ranks=2
for waits in --on-nan=skip --set=local_lr_auto=true; do
    for report in --trace=t.json --tune=log=l.jsonl; do
        ends --comm=ps $report $waits
    done
    ranks=3
    ends --comm=sfb --tune=log=l.jsonl $waits --set clip_gradients=0.1 --servers=1
    ends --comm=ps --tune=log=l.jsonl $waits --hierarchy=2
    ranks=2
done
ends --comm=ps --tune=log=l.jsonl --set local_lr_auto=true --tune=wire=bf16
ends --comm=ps --tune=log=l.jsonl --tune=staleness=2

# A window holds its iterations and no others.
train 2 window.log --solver=solver.prototxt --batch=8 --trace=window.json,3-4 ||
    fail "--trace=FILE,A-B"
"$python" - <<'END' || fail "the window 3-4"
import json
events = json.load(open("window.json"))["traceEvents"]
assert {e["args"]["iteration"] for e in events if e["ph"] == "X"} == {3, 4}
END
train 1 window.log --solver=solver.prototxt --batch=8 --max-iter=4 --trace=empty.json,50-90 || fail 'a window too late'
grep -q -e '--trace: iterations from 50 to 90 were never reached: training ended after 4$' window.log ||
    fail "a window too late: $(grep -i trace window.log)"

# Traced or not, the parameters are the same to the last bit, also after transfers were timed alone.
make_solver same.prototxt 'max_iter: 8'
for comm in ps sfb onebit; do
    train 2 a.log --solver=same.prototxt --batch=8 --comm=$comm --summary=a.json &&
        train 2 b.log --solver=same.prototxt --batch=8 --comm=$comm --summary=b.json --trace=b-trace.json ||
        fail "same, $comm"
    [ "$(hash_of a.json)" = "$(hash_of b.json)" ] ||
        fail "a trace changes the parameters ($comm)"
done

# says TEXT OPTION...: refused before training, with that text.
says() {
    text=$1
    shift
    train 2 refused.log --solver=solver.prototxt "$@" && fail "accepted: $*"
    grep -qF -e "$text" refused.log || { fail "'$text' is not said for $*"; tail -n 3 refused.log; }
    grep -q 'Solving' refused.log && fail "said only after training began: $*"
}
says "/nowhere/trace.json cannot be written: folder /nowhere: No such file" --trace=/nowhere/trace.json
says "/nowhere/x.jsonl cannot be written: folder /nowhere: No such file" --tune=log=/nowhere/x.jsonl
says '--trace: iterations must be given as A-B' --trace=t.json,5-2
says 'needs a profile of the net: --tune=profile=FILE.csv' --engine=replay
says '--tune=profile is for --engine=replay alone; the engine is cpu' --tune=profile=net.prototxt
says '--tune=dilate is for --engine=replay alone' --tune=dilate=4
says 'computes nothing and trains nothing: --weights does not apply' --engine=replay --weights=x.h5
# what "poseidon time" writes knows its batch
"$POSEIDON" time --model=net.prototxt --batch=4 --input-shape=1,28,28 --iterations=1 --profile=batch4.csv >time.log 2>&1 || { fail 'poseidon time'; tail -n 3 time.log; }
says 'batch4.csv holds the times of a batch of 4 samples a pass, and here a pass takes 8 samples: give --batch=4,' \
    --engine=replay --tune=profile=batch4.csv --fake-data=1,28,28 --batch=8
train 2 batch4.log --solver=solver.prototxt --engine=replay --tune=profile=batch4.csv --fake-data=1,28,28 --batch=4 \
    --max-iter=2 || { fail 'the batch of the profile'; tail -n 3 batch4.log; }
sed /conv2/d batch4.csv >short.csv
says "profile short.csv has no line for layer 'conv2' (convolution)" --engine=replay --tune=profile=short.csv \
    --fake-data=1,28,28 --batch=4

# The terminal's table: times are there where they were asked for, and no empty columns where not.
train 2 account.log --solver=solver.prototxt --batch=8 --tune=log=account.jsonl || fail '--tune=log'
grep -q 'predicted time time alone time waited  exposed' account.log || fail '--tune=log prints no times'
grep -q 'conv2 .* %' account.log || fail '--tune=log: how much of conv2 was exposed is not said'
train 2 bare.log --solver=solver.prototxt --batch=8 --hierarchy=off || fail 'no account'
grep -q 'planned bytes  sent bytes time waited' bare.log || fail 'the table without times'
grep 'What would help\|conv2' bare.log | grep -q ' - \| -$\|takes -' && fail "a dash: $(grep 'conv2' bare.log)"
for ranks in 1 2; do # one machine, where nothing travels
    train $ranks alone.log --solver=solver.prototxt --batch=8 --summary=alone.json || fail 'nothing travels'
    grep 'planned bytes\| 0 B ' alone.log && fail "$ranks ranks: a table of zeros"
    grep -A 4 scheme_by_layer alone.json | grep -q '"conv1": "local"' || fail "$ranks ranks: the summary names a scheme: $(grep -A 4 scheme_by_layer alone.json)"
done
tr -d '\n ' <alone.json | grep -q '"progress_core_share_by_rank":\[[0-9.e-]*,[0-9.e-]*\]' ||
    fail 'the summary does not have the share of a core of the communication thread'

# Bounded staleness lets a rank go on without its transfers; timed alone, they are waited for all the same.
train 2 stale.log --solver=solver.prototxt --batch=8 --comm=ps --tune=staleness=2 --tune=log=stale.jsonl ||
    fail '--tune=staleness --tune=log'
"$python" - <<'END' || fail "--tune=staleness: transfers alone take no time"
import json
times = [event["alone_seconds"] for event in map(json.loads, open("stale.jsonl")) if event["event"] == "layer"]
assert times and max(times) > 1e-6, times  # a small one may be over before its wait
END

# However little is trained, the parts of an iteration are a whole. Where nothing travels, ranks wait for rank 0, which
# begins last.
sed 's/param { lr_mult: [12]\(.*\)}/param { lr_mult: 0\1}/; s/lr_mult: [12]/lr_mult: 0/' net.prototxt >still.prototxt
# On a busy machine the moment between two looks at the clock may be long, though hardly every time.
for try in 1 2 3 4 5; do
    train 3 shares.log --solver=solver.prototxt --set "net='still.prototxt'" --batch=1 --max-iter=1 --set display=1 --set snapshot=1000 ||
        fail 'one iteration'
    sed -n 's/.*An iteration took.*(\([0-9.]*\) %).*(\([0-9.]*\) %).*(\([0-9.]*\) %).*/\1 \2 \3/p' shares.log |
        awk '{ sum = $1 + $2 + $3 } END { exit sum < 99.7 || sum > 100.3 }' && break
    [ $try -lt 5 ] || fail "the parts of an iteration: $(grep 'An iteration took' shares.log)"
done

train 1 alone.log --solver=solver.prototxt --batch=8 || fail 'one rank'
grep -q '[num]s waiting for the update of parameters' alone.log ||
    fail "one rank waits for its update: $(grep 'An iteration took' alone.log)"
grep 'What would help\|An iteration took' alone.log | grep -q network && fail 'one rank waits for a network'

finish
