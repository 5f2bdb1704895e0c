#!/bin/sh
# PyTorch over libposeidon: gradients are those of DistributedDataParallel; a hook that is left out is noticed; a rank that
# dies ends all.
. "${abs_top_srcdir:?}/tests/common.sh"
POSEIDON_LIBRARY=${abs_top_builddir:?}/libposeidon.so.0
export POSEIDON_LIBRARY
[ -f "$POSEIDON_LIBRARY" ] || { echo 'skipped: no libposeidon.so (configure --enable-library)'; exit 77; }
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import numpy, torch, torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
    { echo "skipped: $python has no PyTorch"; exit 77; }
! sanitized || { echo 'skipped: a sanitizer would have to come before Python'; exit 77; }
MASTER_PORT=$((20000 + $$ % 20000))
export MASTER_PORT

# torch RANKS CASE [OPTIONS]
torch() {
    MASTER_PORT=$((MASTER_PORT + 1))
    ranks=$1
    shift
    POSEIDON_MPI_TIMEOUT=300 "$POSEIDON_MPIRUN" "$ranks" "$python" "$abs_top_srcdir/tests/library/check_torch.py" "$@" >torch.log 2>&1
    status=$?
    grep 'apart' torch.log
    return $status
}
for ranks in 2 4; do
    torch "$ranks" same || { cat torch.log; fail "auto on $ranks ranks"; }
    torch "$ranks" same hierarchy=off,merge=0 || { cat torch.log; fail "messages on $ranks ranks"; }
    grep -q 'as factors: .*first.weight' torch.log || fail "no layer sends factors on $ranks ranks"
done
torch 2 accumulate hierarchy=off || { cat torch.log; fail 'several passes'; }
! torch 2 left-out || fail 'a hook that is left out is not noticed'
torch 2 dies
status=$?
case $status in 0 | 124 | 137) fail "a rank that dies: status $status" ;; esac
finish
