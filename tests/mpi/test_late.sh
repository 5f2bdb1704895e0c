#!/bin/sh
# A rank that is stopped two thirds of the time: every display says that it was late, and why; the report at the end, the
# summary and the log count it, and the advice names its host before any layer. A run of even ranks names nobody.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 30' 'display: 5' 'snapshot_after_train: false'
host=$(uname -n)

# shellcheck disable=SC2016 # every rank expands it
"$POSEIDON_MPIRUN" 3 sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$0" "$@"' "$POSEIDON" train --solver=solver.prototxt \
    --batch=96 --threads=1 --hierarchy=off --summary=late.json --log=late.jsonl >late.log 2>&1 </dev/null &
launcher=$!
tries=0
until grep -q 'Iteration 0 ' late.log || ! kill -0 $launcher 2>/dev/null || [ $tries -gt 1200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
# two thirds of the time
while kill -STOP "$(cat pid.1)" 2>/dev/null; do
    sleep 0.2
    kill -CONT "$(cat pid.1)" 2>/dev/null
    sleep 0.1
done
wait $launcher || { fail 'a slow rank'; tail -n 3 late.log; }
grep "was late" late.log
said=$(grep -c "Rank 1 on $host was late: of the last .* training waited .* for its computing" late.log)
[ "$said" -ge 3 ] || { fail "of 6 displays $said say that rank 1 was late"; grep -e 'was late' -e Iteration late.log; }
grep -q 'Rank [02] on .* was late' late.log && [ "$(grep -c 'Rank [02] on .* was late' late.log)" -gt 1 ] &&
    fail "others are accused: $(grep 'Rank [02]' late.log)"
grep -q "Late: .*rank 1 on $host [0-9]* of [0-9]* times (computing " late.log || fail "the report at the end: $(grep Late: late.log)"
grep -q "What would help most: host $host: rank 1 there was late [0-9]* of [0-9]* times, and the others waited .* for its computing" late.log ||
    fail "the advice: $(grep 'What would help most' late.log)"
tr -d '\n ' <late.json | grep -q "\"late_looks\":[0-9]*,\"by_rank\":\[{\"rank\":0,\"host\":\"$host\".*\"rank\":1,\"host\":\"$host\"[^}]*\"late_times\":[1-9]" ||
    fail 'the summary does not count late ranks'
grep -q '"event": *"rank", *"rank": *1,.*"late_times": *[1-9]' late.jsonl || { fail 'the log does not count late ranks'; grep '"rank": *1' late.jsonl; }
finish
