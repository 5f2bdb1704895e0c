#!/bin/sh
# Training on the emulated GPU against the CPU engine: one net, every way of synchronising, clipping, several
# micro-batches, resuming, precisions. Streams of the emulated GPU are worked off as late as can be, so a copy
# that somebody forgot to wait for shows as a wrong loss.
set -u
. "${abs_top_srcdir:?}/tests/cuda/common.sh"
here=$abs_top_srcdir
real=$POSEIDON

solver() { # FILE, lines on standard input
    { printf 'net: "net.prototxt"\nbase_lr: 0.05\nmomentum: 0.9\nweight_decay: 0.0005\n'
      printf 'lr_policy: "fixed"\nmax_iter: 8\nsnapshot: 4\nsnapshot_prefix: "snap"\n'
      printf 'snapshot_format: HDF5\n'; cat; } >"$1"
}
solver plain.prototxt </dev/null
printf 'iter_size: 2\n' | solver double.prototxt
printf 'clip_gradients: 0.5\niter_size: 2\n' | solver clipped.prototxt
printf 'type: "Adam"\nmomentum2: 0.999\nbase_lr: 0.001\n' | grep -v base_lr | solver adam.prototxt

# The loss of a run: RANKS PROGRAM ARGUMENTS...
loss() {
    ranks=$1; shift
    "$POSEIDON_MPIRUN" "$ranks" "$@" --threads=1 --set random_seed=3 --force --summary=out.json --tune=ps-update=host \
        >log 2>&1 || { cat log >&2; return 1; }
    sed -n 's/.*"train_loss": *\([^,}]*\).*/\1/p' out.json
}

same() { # WHAT EXPECTED FOUND TOLERANCE
    if awk -v a="$2" -v b="$3" -v t="$4" 'BEGIN { d = a - b; if (d < 0) d = -d;
            exit !(a + 0 > 0 && b + 0 > 0 && d <= t * a) }'; then
        echo "ok: $1: $2 and $3"
    else
        fail "$1: $2 on the CPU, $3 on the emulated GPU"
    fi
}

for file in plain clipped adam; do
    for ranks in 1 2; do
        for comm in ps sfb allreduce onebit; do
            case $file$ranks$comm in
            *1allreduce | *1onebit | adam?allreduce | adam?onebit) continue ;;
            esac
            expected=$(loss $ranks "$real" train --solver=$file.prototxt --comm=$comm) || exit 1
            found=$(loss $ranks "$emulated" train --solver=$file.prototxt --comm=$comm --engine=cuda \
                --tune=share-gpu) || exit 1
            same "$file, $ranks ranks, $comm" "$expected" "$found" 1e-4
        done
    done
done
for rule in 'Nesterov|base_lr: 0.05|momentum: 0.9' 'AdaGrad|base_lr: 0.01' \
    'RMSProp|base_lr: 0.001|rms_decay: 0.98' 'AdaDelta|base_lr: 1|momentum: 0.95|delta: 1e-6' \
    'AdamW|base_lr: 0.001|momentum: 0.9'; do
    { grep -v 'base_lr\|momentum' plain.prototxt; echo "type: \"${rule%%|*}\""
      echo "${rule#*|}" | tr '|' '\n'; } >rule.prototxt
    expected=$(loss 1 "$real" train --solver=rule.prototxt) || exit 1
    found=$(loss 1 "$emulated" train --solver=rule.prototxt --engine=cuda) || exit 1
    same "${rule%%|*}" "$expected" "$found" 1e-4
done
expected=$(loss 3 "$real" train --solver=plain.prototxt --servers=1) || exit 1
found=$(loss 3 "$emulated" train --solver=plain.prototxt --servers=1 --engine=cuda --tune=share-gpu) || exit 1
same 'a dedicated server' "$expected" "$found" 1e-4
# Adam's way rebuilds on the owner's host; the owner is a worker, or not
for arguments in 'plain 2' 'clipped 3' 'plain 3 --servers=1'; do
    # shellcheck disable=SC2086
    set -- $arguments
    file=$1; ranks=$2; shift 2
    expected=$(loss "$ranks" "$real" train --solver="$file.prototxt" --comm=adam "$@") || exit 1
    found=$(loss "$ranks" "$emulated" train --solver="$file.prototxt" --comm=adam --engine=cuda --tune=share-gpu "$@") ||
        exit 1
    same "$file, $ranks ranks, adam${1:+, $1}" "$expected" "$found" 1e-4
done
# factors of low rank are multiplied on the host
for file in plain clipped; do
    expected=$(loss 2 "$real" train --solver=$file.prototxt --comm=lowrank:1 --tune=lowrank-warmup=2) || exit 1
    found=$(loss 2 "$emulated" train --solver=$file.prototxt --comm=lowrank:1 --tune=lowrank-warmup=2 --engine=cuda \
        --tune=share-gpu) || exit 1
    same "$file, 2 ranks, low rank" "$expected" "$found" 1e-3
done
expected=$(loss 2 "$real" train --solver=plain.prototxt --tune=wire=bf16 --comm=ps) || exit 1
found=$(loss 2 "$emulated" train --solver=plain.prototxt --tune=wire=bf16 --comm=ps --engine=cuda --tune=share-gpu) || exit 1
same 'bfloat16 on the wire' "$expected" "$found" 1e-3
# which updates a pass has seen is a matter of time, but not by much, and not for one rank
expected=$(loss 1 "$emulated" train --solver=plain.prototxt --engine=cuda) || exit 1
found=$(loss 1 "$emulated" train --solver=plain.prototxt --comm=ps --tune=staleness=2 --engine=cuda) || exit 1
same 'staleness, 1 rank' "$expected" "$found" 0
for file in plain double; do
    sed 's/base_lr.*/base_lr: 0.005/' $file.prototxt >slow.prototxt
    expected=$(loss 2 "$real" train --solver=slow.prototxt --comm=ps) || exit 1
    found=$(loss 2 "$emulated" train --solver=slow.prototxt --comm=ps --tune=staleness=2 --engine=cuda --tune=share-gpu) ||
        exit 1
    same "staleness, 2 ranks, $file" "$expected" "$found" 0.05
done
expected=$(loss 2 "$real" train --solver=plain.prototxt --comm=none) || exit 1
found=$(loss 2 "$emulated" train --solver=plain.prototxt --comm=none --engine=cuda --tune=share-gpu) || exit 1
same 'no synchronisation' "$expected" "$found" 1e-4
expected=$(loss 2 "$emulated" train --solver=plain.prototxt --tune=overlap=none --engine=cuda --tune=share-gpu) ||
    exit 1
found=$(loss 2 "$emulated" train --solver=plain.prototxt --engine=cuda --tune=share-gpu) || exit 1
same 'with and without overlap' "$expected" "$found" 0
for ranks in 1 2; do
    expected=$(loss $ranks "$emulated" train --solver=plain.prototxt --comm=sfb --engine=cuda --tune=share-gpu) ||
        exit 1
    found=$(loss $ranks "$emulated" train --solver=plain.prototxt --comm=sfb --engine=cuda --tune=share-gpu \
        --snapshot=snap_iter_4.solverstate.h5) || exit 1
    same "resumed, $ranks ranks" "$expected" "$found" 0
done
expected=$(loss 1 "$real" train --solver=plain.prototxt) || exit 1
found=$(loss 1 "$emulated" train --solver=plain.prototxt --engine=cuda --math=bf16) || exit 1
same 'bfloat16' "$expected" "$found" 0.02
found=$(loss 2 "$emulated" train --solver=plain.prototxt --engine=cuda --math=bf16 --comm=sfb --tune=share-gpu) ||
    exit 1
expected=$(loss 2 "$real" train --solver=plain.prototxt) || exit 1
same 'bfloat16, factors' "$expected" "$found" 0.02

# passes recorded as graphs compute the same to the bit, also where recording fails in their midst
for file in plain clipped; do
    for ranks in 1 2; do
        expected=$(loss $ranks "$emulated" train --solver=$file.prototxt --engine=cuda --tune=share-gpu --tune=no-graphs) ||
            exit 1
        for captures in 0 1 1000; do
            POSEIDON_EMULATED_CAPTURES=$captures
            export POSEIDON_EMULATED_CAPTURES
            found=$(loss $ranks "$emulated" train --solver=$file.prototxt --engine=cuda --tune=share-gpu) || exit 1
            same "$file, $ranks ranks, $captures recordings" "$expected" "$found" 0
        done
    done
done
says() { # PATTERN...: poseidon time, once
    timeout 600 "$emulated" time --model=net.prototxt --engine=cuda --iterations=1 --input-shape=1,28,28 >log 2>&1 ||
        { cat log; fail 'poseidon time'; }
    for pattern; do
        grep -q "$pattern" log || { cat log; fail "expected '$pattern' from poseidon time"; }
    done
}
says 'Memory of blobs: .* MiB in one arena (.* MiB without sharing)' \
    'Recorded as CUDA graphs: 1 of the forward pass, 1 of the backward pass'
POSEIDON_EMULATED_CAPTURES=1
says 'passes could not be recorded: CUDA: .* from cudaStreamEndCapture'
unset POSEIDON_EMULATED_CAPTURES

# what must be refused, and in which words
refused() { # PATTERN RANKS PROGRAM ARGUMENTS...
    pattern=$1; ranks=$2; shift 2
    if "$POSEIDON_MPIRUN" "$ranks" "$@" >log 2>&1 || ! grep -q -e "$pattern" log; then
        cat log
        fail "expected a refusal with '$pattern' of: $*"
    fi
}
refused 'would share one GPU' 2 "$emulated" train --solver=plain.prototxt --engine=cuda
refused '--hierarchy=2: .*\(the engine keeps parameters in its own memory, which only NCCL reaches, and this build has no NCCL\|--tune=share-gpu lets ranks share a GPU\)' 2 "$emulated" train \
    --solver=plain.prototxt --engine=cuda --tune=share-gpu --hierarchy=2
refused 'expected auto, fp32, tf32 or bf16' 1 "$emulated" train --solver=plain.prototxt --math=fp8
# operators that mixed.prototxt has not; one layer writes what it reads to a file on the host
cp "$here/tests/cuda/others.prototxt" net.prototxt
sed 's/base_lr.*/base_lr: 0.001/' plain.prototxt >slow.prototxt
expected=$(loss 1 "$real" train --solver=slow.prototxt) && mv out.h5 cpu.h5 || exit 1
found=$(loss 1 "$emulated" train --solver=slow.prototxt --engine=cuda) || exit 1
same 'other operators' "$expected" "$found" 1e-5
"${POSEIDON_PYTHON:-python3}" - <<'END' || fail 'HDF5Output'
try:
    import h5py
except ImportError:
    print('SKIP: HDF5Output: no h5py')
    raise SystemExit(0)
a, b = h5py.File('cpu.h5'), h5py.File('out.h5')
worst = max(abs(a[k][...] - b[k][...]).max() for k in a)
print('%s: HDF5Output: greatest difference %g' % ('ok' if worst < 1e-4 and a['data'].shape[0] == 32 else 'FAIL', worst))
raise SystemExit(not worst < 1e-4)
END
sed 's/value: 7/value: 12/' "$here/tests/cuda/others.prototxt" >net.prototxt
refused "layer 'embed': index 12 at place 0 is outside 0..8" 1 "$emulated" train --solver=slow.prototxt --engine=cuda
# a copy of the labels, of which it is not known to the set-up how many classes they have
sed 's/num_output: 10/num_output: 5/; s/bottom: "label"/bottom: "copy"/; s/.*"SoftmaxWithLoss"/layer { name: "copy" type: "Power" bottom: "label" top: "copy" }\n&/' \
    "$here/tests/cuda/mixed.prototxt" >net.prototxt
refused "layer 'loss': label .* is outside 0..4" 1 "$emulated" train --solver=plain.prototxt --engine=cuda
POSEIDON_EMULATED_BYTES=2100000
export POSEIDON_EMULATED_BYTES
refused "the net's blobs need .* MiB at batch 40, and .* MiB are free: about batch [0-9]* would fit: the GPU's" \
    1 "$emulated" train --solver=plain.prototxt --engine=cuda --batch=40
batch=$(sed -n 's/.*about batch \([0-9]*\) would fit.*/\1/p' log)
cp "$here/tests/cuda/mixed.prototxt" net.prototxt
loss 1 "$emulated" train --solver=plain.prototxt --engine=cuda --batch="$batch" >/dev/null ||
    fail "batch $batch was said to fit"
[ "${batch:-0}" -ge 20 ] || fail "batch $batch is far below what fits"
POSEIDON_EMULATED_GPUS=0
export POSEIDON_EMULATED_GPUS
refused 'shows no GPU' 1 "$emulated" train --solver=plain.prototxt --engine=cuda
unset POSEIDON_EMULATED_GPUS POSEIDON_EMULATED_BYTES
# --balance asks a GPU how much memory it has left: of 32 samples of an equal share, 1.1 MiB, its half of 2 MB has no room for 28
# shellcheck disable=SC2016 # every rank expands it
"$POSEIDON_MPIRUN" 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || export POSEIDON_EMULATED_BYTES=2000000; exec "$0" "$@"' \
    "$emulated" train --engine=cuda --tune=share-gpu --threads=1 --tune=ps-update=host --solver=plain.prototxt --global-batch=64 \
    --balance --max-iter=1 --force >log 2>&1 || { cat log; fail 'a GPU with little memory'; }
small=$(sed -n 's/.*Balance: 64 samples .*(rank 1) \([0-9]*\) at.*/\1/p' log)
[ "${small:-64}" -lt 28 ] || fail "a GPU with little memory: $(grep Balance log)"
finish
