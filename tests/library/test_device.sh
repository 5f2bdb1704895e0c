#!/bin/sh
# libposeidon and tensors on a GPU, which is emulated (tests/cuda/emulation.h): its streams are worked off as late as can
# be, so that whoever waits for too little reads what is not there yet; and, once more, as soon as can be.
. "${abs_top_srcdir:?}/tests/common.sh"
calls=${abs_top_builddir:?}/tests/library/calls
POSEIDON_CALLS_MODULE=$abs_top_builddir/tests/cuda/libposeidon_cuda.so.1
[ -f "$POSEIDON_CALLS_MODULE" ] || { echo 'skipped: this build has no CUDA, or no libposeidon.so'; exit 77; }
! sanitized || { echo 'skipped: a sanitizer would have to come before the module'; exit 77; }
export POSEIDON_CALLS_MODULE
POSEIDON_EMULATED_TEAM=${folder##*/}
export POSEIDON_EMULATED_TEAM

# calls RANKS CASE [OPTIONS]
calls() {
    "$POSEIDON_MPIRUN" "$1" "$calls" "$2" ${3+"$3"} >out.log 2>&1 || { fail "$* : status $?:"; tail -n 20 out.log; return; }
    grep '^ok' out.log || echo "ok: $*"
}

for ranks in 1 2 3; do
    for options in comm=auto comm=ps,merge=0 comm=sfb comm=allreduce,chunk=4k,window=16k wire=bf16,comm=sfb; do
        calls $ranks results "$options"
    done
    calls $ranks types result=sum
    calls $ranks streams result=sum,comm=ps,chunk=4k
    calls $ranks streams 'default result=sum,comm=allreduce'
    calls $ranks streams result=sum,comm=sfb,merge=0
    calls $ranks values result=values,comm=ps,base_lr=0.5,momentum=0.9,weight_decay=0.01
    calls $ranks values result=values,comm=sfb,base_lr=0.5,momentum=0.9,weight_decay=0.01
done
for ranks in 2 3; do
    calls $ranks pieces result=sum,comm=ps,chunk=4k
    calls $ranks pieces result=sum,comm=allreduce,chunk=4k
done
POSEIDON_EMULATED_AT_ONCE=1
export POSEIDON_EMULATED_AT_ONCE
calls 2 streams result=sum,comm=sfb,merge=0
unset POSEIDON_EMULATED_AT_ONCE
for options in comm=ps,wire=bf16 comm=onebit comm=lowrank:2,lowrank-warmup=2 result=values,comm=sfb,type=Adam,momentum=0.9; do
    calls 2 state "$options"
done
calls 2 two comm=sfb
calls 3 matrix comm=lowrank:1,lowrank-warmup=0

# straight from and to the GPU's memory, where MPI reaches it: the host gets what is at home there, and no more, but
# for the 2 MiB of the trial at start
POSEIDON_EMULATED_TELL=1
export POSEIDON_EMULATED_TELL
for aware in 0 1; do
    POSEIDON_EMULATED_AWARE=$aware
    export POSEIDON_EMULATED_AWARE
    calls 2 streams result=sum,comm=ps,merge=0
    sed -n 's/^fetched from the emulated GPU: //p' out.log | sort -n | tail -n 1 >fetched.$aware
    calls 2 results wire=bf16,comm=sfb
done
unset POSEIDON_EMULATED_TELL POSEIDON_EMULATED_AWARE
awk '{ bytes[FILENAME] = $1 } END { exit !(bytes["fetched.1"] > 0 && bytes["fetched.1"] - 2 * 1048576 < 0.8 * bytes["fetched.0"]) }' \
    fetched.0 fetched.1 || fail "straight: $(cat fetched.1) went to the host, else $(cat fetched.0)"

# wrong without each of the waits
for kind in follow precede inner; do
    POSEIDON_EMULATED_FORGETS=$kind "$POSEIDON_MPIRUN" 2 "$calls" streams result=sum,comm=sfb,merge=0 >out.log 2>&1 &&
        fail "no wait of the kind '$kind' is missed"
    grep -q 'expected' out.log || { fail "without waits of the kind '$kind':"; cat out.log; }
done

POSEIDON_EMULATED_GPUS=2 calls 1 devices
# a GPU for each rank: a machine's add up by NCCL, which is emulated, too, if there is an nccl.h
POSEIDON_EMULATED_GPUS=4
export POSEIDON_EMULATED_GPUS
for options in comm=auto comm=ps,hierarchy=2 comm=allreduce,hierarchy=2,chunk=4k; do
    calls 4 streams "result=sum,$options"
    calls 4 results "$options"
done
calls 2 values result=values,comm=auto,base_lr=0.5,momentum=0.9,weight_decay=0.01
unset POSEIDON_EMULATED_GPUS
POSEIDON_EMULATED_BYTES=16000000 calls 1 full
POSEIDON_EMULATED_DRIVER=0 calls 1 no_driver 'no NVIDIA driver is loaded here'
POSEIDON_EMULATED_DRIVER=11080 calls 1 no_driver 'the NVIDIA driver is too old: it supports CUDA 11.8, and this program needs'
POSEIDON_EMULATED_GPUS=0 calls 1 no_driver 'shows no GPU'

# the wrapper of PyTorch, beside whose library the module lies
python=${POSEIDON_PYTHON:-python3}
if "$python" -c 'import numpy, torch, torch.distributed as d; torch.amp.GradScaler; assert d.is_gloo_available()' 2>/dev/null; then
    mkdir beside
    ln -s "$abs_top_builddir/libposeidon.so.1" "$POSEIDON_CALLS_MODULE" beside
    POSEIDON_LIBRARY=$PWD/beside/libposeidon.so.1 MASTER_PORT=$((20000 + $$ % 20000)) "$POSEIDON_MPIRUN" 2 "$python" \
        "$abs_top_srcdir/tests/library/check_torch.py" emulated autocast 'two losses' 'no_sync and zero_grad' later float16 \
        bfloat16 'GradScaler, all at once' 'a penalty, by servers' >torch.log 2>&1 || { cat torch.log; fail 'PyTorch'; }
else
    echo "left out: $python has no PyTorch 2"
fi
finish
