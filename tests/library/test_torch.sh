#!/bin/sh
# PyTorch over libposeidon: gradients are those of DistributedDataParallel, by any way and in any order of waiting; one that
# is left out is noticed; whatever else a program may do is right or refused, never wrong without a word; a rank that ends or
# has an exception ends all, with its words. TORCH_NETS="NET..." has whole nets instead of a small one.
. "${abs_top_srcdir:?}/tests/common.sh"
POSEIDON_LIBRARY=${abs_top_builddir:?}/libposeidon.so.1
export POSEIDON_LIBRARY
[ -f "$POSEIDON_LIBRARY" ] || { echo 'skipped: no libposeidon.so (configure --enable-library)'; exit 77; }
python=${POSEIDON_PYTHON:-python3}
"$python" -c 'import numpy, torch, torch.distributed as d; torch.compile; assert d.is_gloo_available()' 2>/dev/null ||
    { echo "skipped: $python has no PyTorch 2"; exit 77; }
! sanitized || { echo 'skipped: a sanitizer would have to come before Python'; exit 77; }
MASTER_PORT=$((20000 + $$ % 20000))
export MASTER_PORT

# torch RANKS NET CASE...
torch() {
    MASTER_PORT=$((MASTER_PORT + 1))
    ranks=$1
    shift
    POSEIDON_MPI_TIMEOUT=${TORCH_SECONDS:-300} "$POSEIDON_MPIRUN" "$ranks" "$python" "$abs_top_srcdir/tests/library/check_torch.py" \
        "$@" >torch.log 2>&1
    status=$?
    grep ' apart' torch.log
    return $status
}
apart=comm=auto,hierarchy=off
for net in ${TORCH_NETS:-}; do
    for ranks in 2 4; do
        torch "$ranks" "$net" comm=ps,hierarchy=off comm=sfb,hierarchy=off 'comm=sfb,hierarchy=off against=comm=ps,hierarchy=off' \
            'rounding against=ddp' || { cat torch.log; fail "$net on $ranks ranks"; }
    done
done
[ -z "${TORCH_NETS:-}" ] || finish

torch 2 small comm=auto 'comm=sfb,hierarchy=off against=comm=ps,hierarchy=off' "$apart accumulate" 'comm=ps channels_last' \
    "$apart,merge=0 later against=$apart,merge=0" 'comm=auto,result=values,base_lr=0.01 later plain' 'comm=auto left-out' ||
    { cat torch.log; fail 'on 2 ranks'; }
torch 4 small comm=auto "$apart,merge=0" 'comm=auto later against=comm=auto' || { cat torch.log; fail 'on 4 ranks'; }
grep -q 'as factors: .*first.weight' torch.log || fail "no layer sends factors on 4 ranks"
sed 's/^ranks = .*/ranks = 2/; s/^ranks_per_node = .*/ranks_per_node = 2/; s/^\(link\|local\)_bytes_per_second = .*/\1_bytes_per_second = 3e6/' \
    "$abs_top_srcdir/tests/plan/box_slow.cluster" >slow.cluster
unset OMPI_MCA_btl_tcp_flags # set by the wrapper where nobody has
torch 2 uses || { cat torch.log; fail 'what else a program may do'; }
torch 2 small 'comm=auto raises'
status=$?
grep -q '\[rank0\]: RuntimeError: rank 1 (.*): ValueError: no more data$' torch.log || { cat torch.log; fail 'an exception'; }
case $status in 0 | 124 | 137) fail "an exception: status $status" ;; esac
torch 2 small 'comm=auto exits'
status=$?
case $status in 0 | 124 | 137) fail "a rank that dies: status $status" ;; esac

# how a program ends: what it forgot, what one rank does alone, and a DataParallel that was refused
cat >ends.py <<'END'
import os
import sys
import poseidon.torch
import torch
how, rank = sys.argv[1], poseidon.torch.rank()


def say(text):  # a line in one piece, which no other rank's can part
    os.write(1, f"{text}\n".encode())


if how == "leaves first" and rank == 1:
    sys.exit(3)
net = torch.nn.Linear(6, 3)
if how == "refused":
    for _ in range(2):
        try:
            poseidon.torch.DataParallel(torch.nn.Linear(6, 3).double())
        except RuntimeError as error:
            say(error)
model = poseidon.torch.DataParallel(net, options="stall-timeout=none")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for iteration in range(4 + 2 * rank if how == "uneven" else 4):
    optimizer.zero_grad()
    model(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    if iteration == 2 and rank == 1 and how == "leaves":
        sys.exit(3)
    if iteration == 2 and rank == 1 and how == "raises":
        raise ValueError("no more data")
if how != "closes nothing":
    model.close()
say("whole")
END
PYTHONPATH=$abs_top_srcdir/python
export PYTHONPATH
# ends CASE: without poseidon.torch.finalize()
ends() {
    POSEIDON_MPI_TIMEOUT=100 "$POSEIDON_MPIRUN" 2 "$python" ends.py "$1" >ends.log 2>&1
    echo $? "$(grep -c whole ends.log)"
}
same 'no close and no finalize' '0 2' "$(ends 'closes nothing')"
same 'no finalize' '0 2' "$(ends 'closes')"
[ "$(wc -l <ends.log)" = 2 ] || { cat ends.log; fail 'no finalize: more lines'; }
same 'an exit on one rank before all else' '3 0' "$(ends 'leaves first')"
same 'an exception' '1 0' "$(ends raises)"
same 'after refused ones' '0 2' "$(ends refused)"
[ "$(grep -c '^weight: expected .* found torch.float64$' ends.log)" = 4 ] && [ "$(wc -l <ends.log)" = 6 ] || { cat ends.log; fail 'refused ones'; }
case $(ends leaves) in [1-9]*' 0') ;; *) cat ends.log; fail 'an exit on one rank' ;; esac
case $(ends uneven) in [1-9]*' 0') ;; *) cat ends.log; fail 'unequal numbers of batches' ;; esac
grep -q 'rank 0 on .* ends in iteration 4 (in poseidon_destroy), which rank 1 on .* has begun: give all ranks as many batches' ends.log ||
    { cat ends.log; fail 'unequal numbers of batches'; }

# the scripts that pages turn into ours: both sides of one block, but for the two lines that start them
# block PAGE NAME
block() {
    sed -n "/^\`\`\`text script=\"$2\"$/,/^\`\`\`$/p" "$abs_top_srcdir/docs/$1" | sed '1d; $d; /script\.py$/d'
}
# losses NAME COMMAND...
losses() {
    name=$1
    shift
    "$@" >"$name.log" 2>&1 || { cat "$name.log"; fail "$name: status $?"; }
    sed -n 's/^epoch [0-2]: loss //p' "$name.log" | tr '\n' ' '
}
block from-pytorch.md ddp | sed -n 's/^[ -]//p' >ddp.py
block from-pytorch.md ddp | sed -n 's/^[ +]//p' >ours.py
block from-horovod.md horovod | sed -n 's/^[ +]//p' >horovod.py
theirs=$(losses ddp "$python" -m torch.distributed.run --nproc-per-node=2 --master-port=$((MASTER_PORT + 1)) ddp.py)
ours=$(losses ours "$POSEIDON_MPIRUN" 2 "$python" ours.py)
echo "$theirs$ours" | awk '
    function near(a, b) { return a - b < 0.0015 && b - a < 0.0015 }
    { exit !(NF == 6 && near($1, $4) && near($2, $5) && near($3, $6) && $3 < $1) }' ||
    fail "docs/from-pytorch.md: losses by DDP $theirs, by libposeidon $ours"
same "docs/from-horovod.md: losses of its script" "$ours" "$(losses horovod "$POSEIDON_MPIRUN" 2 "$python" horovod.py)"

# examples/pytorch/train.py on pictures in CIFAR-10's form: class 0 is dark, class 1 bright
"$python" - <<'END'
import numpy
random = numpy.random.default_rng(1)
for name, count in (("data_batch_1", 64), ("test_batch", 32)):
    label = numpy.arange(count) % 2
    pixels = random.integers(0, 64, (count, 3072)) + 128 * label[:, None]
    numpy.concatenate([label[:, None], pixels], 1).astype("uint8").tofile(name + ".bin")
END
train() {
    "$POSEIDON_MPIRUN" 2 "$python" "$abs_top_srcdir/examples/pytorch/train.py" --data=. --batch=8 "$@" >train.log 2>&1 ||
        { cat train.log; fail "train.py $*"; }
}
train_py=$abs_top_srcdir/examples/pytorch/train.py
"$python" "$train_py" --help >help || fail 'train.py --help'
awk 'length($0) > 80 { exit 1 }' help || fail "train.py --help is wider than 80 columns: $(cat help)"
"$python" "$train_py" --data=. --checkpoint=none/c.pt >train.log 2>&1 && fail 'a folder of --checkpoint that is not there'
grep -q 'checkpoint=none/c.pt: cannot be written: expected a folder' train.log || { cat train.log; fail 'the folder of --checkpoint'; }
PYTHONPATH='' "$python" "$train_py" --data=. >train.log 2>&1 && fail 'no package'
grep -q "^train.py: No module named 'poseidon': pip install .*/python$" train.log || { cat train.log; fail 'the package is missing'; }
POSEIDON_LIBRARY=/none.so "$python" "$train_py" --data=. >train.log 2>&1 && fail 'no library'
grep -q '/none.so.*: export POSEIDON_LIBRARY=/where/' train.log || { cat train.log; fail 'which library is missing'; }
lossy=--comm=lowrank:1,lowrank-warmup=0,hierarchy=off
train --epochs=2 $lossy
mv checkpoint.pt uninterrupted.pt
train --epochs=1 $lossy
cp checkpoint.pt first.pt
train --epochs=2 $lossy --resume
cmp checkpoint.pt uninterrupted.pt || fail 'train.py after --resume: other bits than without it'
grep -q '^epoch 2: loss 0.0' train.log && [ "$(grep -c '^epoch' train.log)" = 1 ] || { cat train.log; fail 'train.py after --resume'; }
cp first.pt checkpoint.pt
train --epochs=2 --comm=allreduce --resume
grep -q -e '--resume: 2 ranks, allreduce, 8 pictures each begin without .*(2 ranks, lowrank:1,.*) had yet to send' train.log ||
    { cat train.log; fail 'train.py --resume by another --comm'; }
train --epochs=2 --device=cpu --amp
grep -q '^epoch 2: .* accuracy 1.0000' train.log && ! grep Warning train.log || { cat train.log; fail 'train.py --amp'; }
train --epochs=3 --device=cpu --amp --resume
grep -q '^epoch 3: ' train.log || { cat train.log; fail 'train.py --amp --resume'; }
finish
