#!/bin/sh
# libposeidon: what a program finds that knows include/poseidon.h alone; and what it is linked with.
. "${abs_top_srcdir:?}/tests/common.sh"
calls=${abs_top_builddir:?}/tests/library/calls

# calls RANKS CASE [OPTIONS]
calls() {
    ranks=$1
    shift
    case $1 in # several threads in MPI at once
    two | state | states | ends) more=:suppressions=$folder/tsan.supp ;;
    *) more= ;;
    esac
    TSAN_OPTIONS=$TSAN_OPTIONS$more "$POSEIDON_MPIRUN" "$ranks" "$calls" "$@" >out.log 2>&1 || {
        fail "$* on $ranks ranks: status $?:"
        tail -n 20 out.log
        return
    }
    grep '^ok' out.log || echo "ok: $*"
}
cat "$abs_top_srcdir/tests/tsan.supp" "$abs_top_srcdir/tests/library/tsan.supp" >tsan.supp

for options in '' comm=ps,merge=0 comm=sfb comm=allreduce,chunk=4k comm=paper,hierarchy=2 comm=none,result=sum; do
    calls 1 results "$options"
done
for ranks in 2 3; do
    for options in comm=auto comm=ps,merge=0 comm=ps,result=sum,hierarchy=off comm=sfb,merge=1m comm=allreduce,chunk=4k,window=16k \
        comm=paper,hierarchy=2 comm=sfb,hierarchy=2 wire=bf16,comm=sfb "comm=auto,cluster-file=$folder/cluster.$ranks"; do
        calls "$ranks" results "$options"
    done
    calls "$ranks" results "comm=ps,hierarchy=off,merge=0,trace=trace.$ranks"
    "${POSEIDON_PYTHON:-python3}" - "trace.$ranks" "$ranks" <<-'END' || fail "the trace of $ranks ranks"
	import json, sys
	events = json.load(open(sys.argv[1]))["traceEvents"]
	spans = [e for e in events if e["ph"] == "X"]
	ranks = int(sys.argv[2])
	assert {e["pid"] for e in spans} == set(range(ranks))
	for rank in range(ranks):
	    names = [e["name"] for e in spans if e["pid"] == rank]
	    assert {"iteration %d" % i for i in range(6)} <= set(names), names
	    assert "send gradient of large" in names and "receive parameters of large" in names, names
	    assert names.count("wait large") <= 6
	sent = [e for e in spans if e["cat"] == "send" and e["args"]["layer"] == "large"]
	assert sum(e["args"]["bytes"] for e in sent) == 6 * 2 * (ranks - 1) * 30000 * 4, sum(e["args"]["bytes"] for e in sent)
	assert any(e["ph"] == "s" for e in events)
	END
    [ -s "cluster.$ranks" ] || fail 'what was measured is not kept'
    calls "$ranks" results "comm=auto,order=fifo,bandwidth-mbps=80,cluster-file=$folder/cluster.$ranks"
    grep -q 'product by SFB' out.log || fail "the choice does not count what a rank may send: $(cat out.log)"
    calls "$ranks" values result=values,comm=ps,base_lr=0.5,momentum=0.9,weight_decay=0.01
    calls "$ranks" values result=values,comm=sfb,base_lr=0.5,momentum=0.9,weight_decay=0.01,hierarchy=off
    sed 's/^\(link\|local\)_bytes_per_second = [^ ]*/\1_bytes_per_second = 1e6/' "cluster.$ranks" >"slow.$ranks"
    for options in comm=ps,wire=bf16 comm=allreduce,wire=bf16,hierarchy=off comm=onebit,hierarchy=off \
        comm=lowrank:2,lowrank-warmup=2 \
        "lossy=bf16+lowrank:1,lowrank-warmup=0,cluster-file=$folder/slow.$ranks" result=values,comm=ps,momentum=0.9 \
        result=values,comm=sfb,type=Adam,momentum=0.9,hierarchy=off result=values,momentum=0.9,comm=lowrank:1,lowrank-warmup=0; do
        calls "$ranks" state "$options"
    done
    calls "$ranks" states comm=ps,wire=bf16
    calls "$ranks" two comm=sfb
    calls "$ranks" two comm=ps,hierarchy=off
    calls "$ranks" ends
    calls "$ranks" differ
    calls "$ranks" unstarted
done
calls 3 state comm=lowrank:1,lowrank-warmup=6,hierarchy=2
for ranks in 1 2 3; do
    for options in result=sum result=sum,comm=ps,merge=0,hierarchy=off result=sum,comm=allreduce,chunk=4k,hierarchy=off; do
        calls $ranks types $options
    done
done
for ranks in 2 3; do
    calls $ranks early stall-timeout=none
    calls $ranks early comm=ps,hierarchy=off,stall-timeout=none
done
calls 1 options
calls 1 ends
calls 2 unwritable comm=ps,trace=nowhere/trace
calls 2 refusals
calls 3 matrix comm=lowrank:1,lowrank-warmup=0,hierarchy=off
calls 1 single
calls 2 finalized comm=ps
same 'lines about MPI_Finalize, of two handles' 2 "$(grep -c '^poseidon: .*before poseidon_destroy: call poseidon_destroy first$' out.log)"
"$calls" uninitialised || fail 'without MPI'

# launchers that MPI does not know, as for poseidon train (tests/commands/test_messages.sh); and ranks that inherit their variables
for signs in 'RANK=1 WORLD_SIZE=2' PMI_SIZE=2 SLURM_STEP_NUM_TASKS=2 FLUX_JOB_SIZE=2 JSM_NAMESPACE_SIZE=2; do
    # shellcheck disable=SC2086 # words
    env -u OMPI_COMM_WORLD_SIZE $signs "$calls" launched "2 separate programs instead of one job of 2 ranks (${signs##* }): use" ||
        fail "$signs: a program of the library"
done
export FLUX_JOB_SIZE=2 SLURM_STEP_NUM_TASKS=2 RANK=1 WORLD_SIZE=2
calls 1 results
calls 2 results
unset FLUX_JOB_SIZE SLURM_STEP_NUM_TASKS RANK WORLD_SIZE

# where a machine's shared memory is too small the ranks exchange messages, and say so once
if unshare -m true 2>/dev/null; then
    # shellcheck disable=SC2016 # for the inner shell
    OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo unshare -m sh -c 'mount -t tmpfs -o size=1m none /dev/shm && exec "$0" "$@"' \
        "$POSEIDON_MPIRUN" 3 "$calls" results >little.log 2>&1 || { fail 'little shared memory'; tail -n 5 little.log; }
    same 'little shared memory: lines about it' 1 "$(grep -c '/dev/shm' little.log)"
    grep -q '^poseidon: Ranks exchange messages instead of sharing memory, .*/dev/shm has 1 MiB left: enlarge it, or use hierarchy=off$' little.log ||
        fail "the line is: $(grep '/dev/shm' little.log)"
else
    echo 'left out: a machine with little shared memory (needs the right to mount)'
fi

# lost CASE TEXT: all wait for rank 1, which is named with what it is at; and an end, not for ever
lost() {
    POSEIDON_MPI_TIMEOUT=60 "$POSEIDON_MPIRUN" 2 "$calls" "$1" comm=ps,stall-timeout=4s >lost.log 2>&1
    status=$?
    if [ $status -ne 76 ] || ! grep -q "lost: rank 1 .*in iteration $2" lost.log; then
        fail "$1: status $status:"
        tail lost.log
    fi
}
lost silent "0 (tensor 'bias' was neither posted nor skipped)"
finish
