#!/bin/sh
# A rank that computes five times as long as the others: the displays say that it was late, and why; the report at the
# end, the summary and the log count it, and the advice names its host before any layer. All ranks replay times, so that
# one is as slow as that on any machine, and the others are not.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 25' 'display: 5' 'snapshot_after_train: false'
host=$(uname -n)
for rank in 0 1 2; do
    printf '%s,-,0,0\n' pool1 conv2 pool2 ip1 relu1 ip2 loss >profile.$rank
    sed -i '1i layer,type,forward_s,backward_s\nconv1,Convolution,0,0.05' profile.$rank
done
sed -i 's/0.05/0.25/' profile.1

# shellcheck disable=SC2016 # every rank expands it
"$POSEIDON_MPIRUN" 3 sh -c 'exec "$0" "$@" --tune=profile=profile.$OMPI_COMM_WORLD_RANK' "$POSEIDON" train --solver=solver.prototxt \
    --engine=replay --fake-data=1,28,28 --comm=ps --hierarchy=off --summary=late.json --tune=log=late.jsonl >late.log 2>&1 </dev/null ||
    { fail 'a slow rank'; tail -n 3 late.log; }
grep "was late" late.log
said=$(grep -c "Rank 1 on $host was late: in the last .* the others waited .* for its computing" late.log)
[ "$said" -ge 3 ] || { fail "of 5 displays $said say that rank 1 was late"; grep -e 'was late' -e Iteration late.log; }
[ "$(grep -c 'Rank [02] on .* was late:' late.log)" -gt 1 ] &&
    fail "others are accused: $(grep 'Rank [02]' late.log)"
grep -q "What would help most: host $host: rank 1 there was late [0-9]* of [0-9]* times, and other ranks waited .* for its computing" late.log ||
    fail "the advice: $(grep 'What would help most' late.log)"
tr -d '\n ' <late.json | grep -q "\"late_looks\":[0-9]*,\"by_rank\":\[{\"rank\":0,\"host\":\"$host\".*\"rank\":1,\"host\":\"$host\"[^}]*\"late_times\":[1-9]" ||
    fail 'the summary does not count late ranks'
grep -q '"event": *"rank", *"rank": *1,.*"late_times": *[1-9]' late.jsonl || { fail 'the log does not count late ranks'; grep '"rank": *1' late.jsonl; }

# Waiting for rank 0's snapshots is no part of an iteration. Nothing is trained: it takes longer to save than to compute.
make_solver solver.prototxt 'max_iter: 20' 'display: 1' 'snapshot: 1' "snapshot_prefix: \"$work/saved\""
sed -i 's/lr_mult: [0-9.]*/lr_mult: 0/' net.prototxt
trained saved 3 --batch=1 --threads=1
grep -q 'An iteration took' saved.log || fail 'there is no report of an iteration'
sed -n 's/.*\(An iteration took.*\|What would help most:.*\)/\1/p' saved.log | grep -o '[0-9.]* %' | while read -r percent _; do
    awk -v p="$percent" 'BEGIN { exit p <= 100 }' && echo "$percent % of an iteration"
done | grep . && fail "more than the whole: $(grep -e 'An iteration took' -e 'help most' saved.log)"
finish
