#!/bin/sh
# Ranks of one machine under --comm=auto: they share its memory, send nothing, and end in the bits of --comm=ps; whoever
# asks for messages has them; a machine with too little shared memory gets messages and one line that says so.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 12' 'display: 4' 'snapshot_after_train: false'

# shares NAME WORDS: the run sent nothing, and said who updates
shares() {
    grep -q "workers on one machine add up gradients in shared memory; $2" "$1.log" || fail "$1: not '$2': $(grep 'add up' "$1.log")"
    same "$1: bytes sent" 0 "$(json_value "$1.json" bytes_sent_per_iteration)"
}

# sends NAME
sends() {
    grep 'add up' "$1.log" && fail "$1: ranks add up together"
    awk "BEGIN { exit !($(json_value "$1.json" bytes_sent_per_iteration) > 0) }" || fail "$1: nothing is sent"
}

mkdir shared
export OMPI_MCA_osc_sm_backing_directory="$work/shared" # others' programs have files in /dev/shm, too
for ranks in 2 3; do
    trained "auto$ranks" $ranks
    shares "auto$ranks" 'each worker updates its share of the parameters'
    trained "ps$ranks" $ranks --comm=ps
    sends "ps$ranks"
    same "$ranks ranks: parameters" "$(hash_of "ps$ranks.json")" "$(hash_of "auto$ranks.json")"
done
[ -z "$(ls shared)" ] || fail "shared memory is left behind: $(ls shared)"

# who leads changes no bit; the plan tells it
trained one 3 --hierarchy=auto,1
shares one 'one worker updates the parameters'
trained two 3 --hierarchy=auto,2
shares two '2 workers update the parameters'
trained named 3 --hierarchy=3 --comm=paper
shares named 'each worker updates its share of the parameters'
for run in one two named; do
    same "$run: parameters" "$(hash_of ps3.json)" "$(hash_of $run.json)"
done
make_solver more.prototxt 'max_iter: 12' 'iter_size: 2' 'type: "Adam"' 'snapshot_after_train: false' 'momentum2: 0.99' 'delta: 1e-6' \
    'lr_policy: "fixed"' 'base_lr: 0.001'
for how in '--comm=ps' ''; do
    # shellcheck disable=SC2086
    train 3 more.log --solver=more.prototxt --batch=4 --tune=overlap=none --summary="more$how.json" $how || { fail "Adam $how"; tail -n 3 more.log; }
done
same 'Adam, iter_size 2: parameters' "$(hash_of more--comm=ps.json)" "$(hash_of more.json)"
train 3 dry.log --solver=solver.prototxt --batch=8 --dry-run || { fail 'a dry run'; tail -n 3 dry.log; }
grep -q '^plan  *workers add up gradients in shared memory, nothing is sent$' dry.log || fail "the plan: $(grep '^plan' dry.log)"

# the table at the end and the trace go with it
trained reported 2 --tune=log=reported.jsonl --trace=reported.trace
grep -q '"layer"' reported.jsonl || fail 'no report on layers'

# asked for messages; under --hierarchy=off auto is the paper's rule
trained off 3 --hierarchy=off
sends off
trained paper 3 --comm=paper
sends paper
same '--hierarchy=off: parameters' "$(hash_of paper.json)" "$(hash_of off.json)"
n=0
for how in --comm=allreduce --tune=wire=bf16 --tune=bandwidth-mbps=10000 --servers=1 '--comm=ps --tune=staleness=1' "--tune=cluster-file=$work/cluster"; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    trained asked$n 3 $how
    sends asked$n
done
# ranks may have caps of their own: one that has decides for all
# shellcheck disable=SC2016 # every rank expands it
"$POSEIDON_MPIRUN" 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || set -- "$@" --tune=bandwidth-mbps=10000; exec "$0" "$@"' "$POSEIDON" train \
    --solver=solver.prototxt --batch=8 --force --summary=capped.json >capped.log 2>&1 </dev/null || { fail 'a cap on one rank'; tail -n 5 capped.log; }
sends capped

# A run goes on as it began: with messages after messages, in shared memory after that, bit for bit.
make_solver kept.prototxt 'max_iter: 12' 'snapshot: 6' "snapshot_prefix: \"$work/kept\""
for began in '--hierarchy=off' ''; do
    rm -f kept_iter_* kept.run
    # shellcheck disable=SC2086
    train 3 kept.log --solver=kept.prototxt --batch=8 --summary=whole.json $began || { fail "a run $began"; tail -n 3 kept.log; }
    rm -f kept_iter_* kept.run
    # shellcheck disable=SC2086
    train 3 kept.log --solver=kept.prototxt --batch=8 --max-iter=6 $began &&
        train 3 kept.log --solver=kept.prototxt --batch=8 --resume --summary=kept.json || { fail "going on $began"; tail -n 3 kept.log; }
    same "went on, begun with '$began'" "$(hash_of whole.json)" "$(hash_of kept.json)"
    if [ -n "$began" ]; then sends kept; else shares kept 'each worker updates'; fi
done

# killed, it leaves nothing behind either
make_solver killed.prototxt 'max_iter: 1000000' 'display: 10' 'snapshot_after_train: false'
begin 3 killed.log --solver=killed.prototxt
await 'Iteration 20 '
kill -9 "$(cat pid.0)" "$(cat pid.1)" "$(cat pid.2)"
wait "$launcher"
[ -z "$(ls shared)" ] || fail "ranks that are killed leave shared memory behind: $(ls shared)"
unset OMPI_MCA_osc_sm_backing_directory

# little <NAME> OPTION...: three ranks on a machine of 2 MB of shared memory, where Open MPI's own transport needs none
little() {
    name=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo unshare -m sh -c 'mount -t tmpfs -o size=2m none /dev/shm && exec "$0" "$@"' "$POSEIDON_MPIRUN" 3 \
        "$POSEIDON" train --solver=solver.prototxt --batch=8 --force --summary="$name.json" "$@" >"$name.log" 2>&1 </dev/null
}
if unshare -m true 2>/dev/null; then
    little little || { fail 'little shared memory'; tail -n 5 little.log; }
    sends little
    same 'little shared memory: parameters' "$(hash_of off.json)" "$(hash_of little.json)"
    same 'little shared memory: lines about it' 1 "$(grep -c '/dev/shm' little.log)"
    grep -q '^W.* Ranks exchange messages instead of sharing memory, .*: parameters and gradients of this machine.s ranks take 7 MiB of shared memory, but /dev/shm has 2 MiB left: enlarge it, or use hierarchy=off$' little.log ||
        fail "the line is: $(grep '/dev/shm' little.log)"
    for how in --hierarchy=3 --hierarchy=auto,2; do
        little asked "$how" && fail "$how trains in little shared memory"
        [ "$(grep -c '^poseidon train: .*shared memory, but /dev/shm has' asked.log)" = 1 ] ||
            { fail "$how: not one message"; cat asked.log; }
    done
else
    echo 'left out: a machine with little shared memory (needs the right to mount)'
fi
finish
