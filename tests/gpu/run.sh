#!/bin/sh
# tests/gpu/run.sh [RESULTS]: everything that needs a GPU, in less than nine minutes, on one machine with nvcc,
# cuDNN, Python and PyTorch. What else is missing comes from tests/gpu/packages, which fetch.sh fills
# beforehand; as root it is unpacked into the system, where nothing that is there is overwritten. Leaves one
# text file. Exit status 1 where a test failed; speed only reports, and what the machine lacks is skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
results=${1:-$top/gpu-results.txt}
build=${POSEIDON_GPU_BUILD:-$top/build-gpu}
python=${POSEIDON_TORCH:-python3}
begun=$(date +%s)
failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
: >"$results" || exit 1

say() { printf '%s\n' "$*" | tee -a "$results"; }
left() { echo $((525 - $(date +%s) + begun)); }
# NAME LIMIT COMMAND...: runs it, keeps the end of what it says.
step() {
    name=$1; limit=$2; shift 2
    : >"$work/step.log"
    [ "$(left)" -gt 10 ] || { say "--- $name: no time left"; return 0; }
    [ "$limit" -lt "$(left)" ] || limit=$(left)
    say "--- $name ($(($(date +%s) - begun)) s)"
    timeout -k 5 "$limit" "$@" >"$work/step.log" 2>&1 </dev/null
    status=$?
    [ $status -eq 0 ] || lines=150
    tail -n "${lines:-25}" "$work/step.log" >>"$results"
    tail -n 3 "$work/step.log"
    [ $status -eq 0 ] || say "FAILED: $name (exit status $status)"
    return $status
}
# The end of a log, with the reason to stop.
give_up() { # WHY LOG
    tail -n 30 "$2" | tee -a "$results"
    say "FAILED: $1"
    exit 1
}

unpack() {
    if [ "$(id -u)" -ne 0 ]; then
        echo 'not root: the packages stay packed; MPI, HDF5, oneDNN and protobuf-c must be installed'
    elif ls tests/gpu/packages/*.deb >/dev/null 2>&1; then
        command -v dpkg-deb >/dev/null || { echo 'dpkg-deb is missing: this is no Debian or Ubuntu'; return 1; }
        for package in tests/gpu/packages/*.deb; do
            dpkg-deb --fsys-tarfile "$package" |
                tar -x --skip-old-files --keep-directory-symlink --no-same-owner -C / ||
                { echo "$package could not be unpacked"; return 1; }
        done
        # what the packages' own scripts would have done
        for name in mpicc mpirun mpiexec; do
            [ -e "/usr/bin/$name" ] || ln -s "$name.openmpi" "/usr/bin/$name" || return 1
        done
        ldconfig
    else
        echo 'tests/gpu/packages is empty: tests/gpu/fetch.sh fills it where the packages are installed'
    fi
}

# configure and what belongs to it: made here, or beforehand from these very sources.
generate() {
    if command -v autoreconf >/dev/null && command -v automake >/dev/null && command -v pkg-config >/dev/null; then
        autoreconf -fi && return 0
    fi
    [ -f tests/gpu/packages/generated.tar ] ||
        { echo 'neither autoconf and automake nor tests/gpu/packages/generated.tar is here'; return 1; }
    tests/gpu/fetch.sh --digest | cmp -s - tests/gpu/packages/generated.sum ||
        { echo 'generated.tar was made from other sources: run tests/gpu/fetch.sh again'; return 1; }
    tar -xf tests/gpu/packages/generated.tar || return 1
    # the sources' times are those of their copying: without this make would call automake
    touch aclocal.m4; sleep 1
    touch configure config.h.in; sleep 1
    touch Makefile.in
}

# cuDNN and cuBLASLt may be there with PyTorch alone.
cuda_folders() {
    PATH=$PATH:/usr/local/cuda/bin
    site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)/nvidia
    cudnn=''
    if ! printf '#include <cudnn.h>\n' | nvcc -E -x c++ - >/dev/null 2>&1 && [ -d "$site" ]; then
        header=$(find -L "$site" -name cudnn.h 2>/dev/null | head -n 1)
        [ -z "$header" ] || cudnn=${header%/include/cudnn.h}
    fi
    for library in libcudnn.so.9 libcublasLt.so.13 libcublasLt.so.12; do
        ldconfig -p | grep -q "$library" && continue
        [ -e "/usr/local/cuda/lib64/$library" ] && continue
        found=$(find -L "$site" -name "$library" 2>/dev/null | head -n 1)
        [ -z "$found" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${found%/*}
    done
    export PATH LD_LIBRARY_PATH
    echo "nvcc: $(command -v nvcc), cuDNN: ${cudnn:-where nvcc looks}, LD_LIBRARY_PATH: $LD_LIBRARY_PATH"
}

compile() {
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -cd 0-9)
    capability=${capability:-90}
    mkdir -p "$build" && cd "$build" && "$top/configure" -q --with-cuda ${cudnn:+--with-cudnn="$cudnn"} \
        NVCC_ARCH="${NVCC_ARCH:--gencode=arch=compute_$capability,code=sm_$capability}" CFLAGS='-O2 -g' &&
        make -s -j"$(nproc)" && make -s -j"$(nproc)" tests/engine/engine_conformance &&
        make -s tests/gpu/bench_step && ! ldd poseidon | grep 'not found' &&
        { make -s -j"$(nproc)" tests/layers/layer_values tests/gpu/test_encode tests/device/test_copies ||
            echo 'tests/layers/layer_values, tests/gpu/test_encode and tests/device/test_copies need Check: left out'; }
}

# Ranks of one machine without a network, a remote shell or network cards.
: "${LD_LIBRARY_PATH=}" "${OMPI_MCA_plm_rsh_agent=false}" "${OMPI_MCA_pml=ob1}" "${OMPI_MCA_btl=self,vader,tcp}"
: "${OMPI_MCA_btl_vader_single_copy_mechanism=none}" "${OMPI_MCA_hwloc_base_binding_policy=none}"
: "${OMPI_MCA_mca_base_component_show_load_errors=0}" "${OMPI_MCA_btl_base_warn_component_unused=0}"
export OMPI_MCA_plm_rsh_agent OMPI_MCA_pml OMPI_MCA_btl OMPI_MCA_btl_vader_single_copy_mechanism
export OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_mca_base_component_show_load_errors
export OMPI_MCA_btl_base_warn_component_unused OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export HWLOC_HIDE_ERRORS=2 HWLOC_COMPONENTS=-gl,-opencl,-cuda,-nvml
export POSEIDON_CACHE="$build/cache"

mpi_works() {
    timeout 30 mpirun -np 2 "$build/poseidon" --version && return 0
    echo 'once more over the loopback interface alone'
    OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo
    export OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
    timeout 30 mpirun -np 2 "$build/poseidon" --version
}

# cifar10_quick on numbers that need no files: its data layers give way to one of noise.
cifar() {
    { echo "layer { name: 'cifar' type: 'DummyData' top: 'data' top: 'label' dummy_data_param {
          shape { dim: [ 100, 3, 32, 32 ] } shape { dim: 100 }
          data_filler { type: 'gaussian' std: 40 } data_filler { type: 'constant' value: 3 } } }"
      awk '/^layer/ { if (text !~ /type: *"Data"/ && text !~ /phase: *TEST/) printf "%s", text; text = "" }
           { text = text $0 "\n" } END { printf "%s", text }' models/cifar10_quick/train_val.prototxt |
          sed '/^name:/d'; } >"$work/cifar.prototxt"
    sed "s/^test_.*//; s/^snapshot:.*//; s|^net:.*|net: \"$work/cifar.prototxt\"|" \
        models/cifar10_quick/solver.prototxt >"$work/cifar_solver.prototxt"
}

# Ten iterations: beyond them the order of additions alone moves LeNet's loss by more than 1e-4, on one engine with one
# and two threads as well.
loss() { # RANKS ARGUMENTS...: the loss after ten iterations
    ranks=$1; shift
    rm -f "$work/loss.json"
    timeout -k 5 60 mpirun -np "$ranks" "$build/poseidon" train --max-iter=10 --set random_seed=3 \
        --force --summary="$work/loss.json" "$@" >"$work/loss.log" 2>&1 </dev/null ||
        { tail -n 5 "$work/loss.log"; return 1; }
    sed -n 's/.*"train_loss": *\([^,}]*\).*/\1/p' "$work/loss.json"
}
parameters() { sed -n 's/.*"parameters_sha256": *"\([^"]*\)".*/\1/p' "$work/loss.json"; }

equal() { # LOSS LOSS
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && b + 0 == b && d * d <= 1e-6 * (a > 1 ? a * a : 1)) }' ||
        { echo 'FAILED: they differ by more than 1e-3'; return 1; }
}

same_losses() { # SOLVER BATCH SCHEMES...
    solver=$1; batch=$2; shift 2
    status=0
    { sed 's/^test_.*//; s/^snapshot:.*//; s/^snapshot_after_train:.*//' "$solver"
      echo 'snapshot_after_train: false'; } >"$work/quick.prototxt"
    cuda="--solver=$work/quick.prototxt --engine=cuda --math=fp32 --tune=deterministic --tune=share-gpu"
    expected=$(loss 1 --solver="$work/quick.prototxt" --engine=cpu --batch="$batch") ||
        { echo "$solver on the CPU: $expected"; return 1; }
    for comm in "$@"; do
        [ "$(left)" -gt 240 ] || { echo "$solver, $comm: no time left"; continue; }
        ranks=${comm% *}
        # shellcheck disable=SC2086
        found=$(loss "$ranks" $cuda --batch=$((batch / ranks)) --comm="${comm#* }") ||
            { echo "$solver, $comm: $found"; status=1; continue; }
        echo "$solver, $comm: cpu $expected, cuda $found"
        # one bit per element is another gradient: it only has to train
        [ "${comm#* }" = onebit ] || equal "$expected" "$found" || status=1
    done
    # shellcheck disable=SC2086
    {
        loss 1 $cuda --batch="$batch" >/dev/null; first=$(parameters)
        loss 1 $cuda --batch="$batch" >/dev/null; second=$(parameters)
        loss 1 $cuda --batch="$batch" --tune=no-graphs >/dev/null; third=$(parameters)
        loss 2 $cuda --batch=$((batch / 2)) --comm=ps --tune=ps-update=host >/dev/null; host=$(parameters)
        loss 2 $cuda --batch=$((batch / 2)) --comm=ps --tune=ps-update=device >/dev/null; device=$(parameters)
        loss 2 $cuda --batch=$((batch / 2)) --comm=ps >/dev/null
    }
    grep 'Parameter servers update' "$work/loss.log" | sed 's/.*\] //'
    low='--comm=lowrank:2 --tune=lowrank-warmup=2'
    # shellcheck disable=SC2086
    {
        expected=$(loss 2 --solver="$work/quick.prototxt" --engine=cpu --batch=$((batch / 2)) $low)
        found=$(loss 2 $cuda --batch=$((batch / 2)) $low)
    }
    echo "$solver, 2 lowrank:2: cpu $expected, cuda $found"
    equal "$expected" "$found" || status=1
    echo "updated by servers on the host and on the device: $host $device"
    [ -n "$host" ] && [ "$host" = "$device" ] || { echo 'FAILED: they differ'; status=1; }
    echo "the same parameters twice, and without graphs: $first $second $third"
    [ -n "$first" ] && [ "$first" = "$second" ] && [ "$first" = "$third" ] ||
        { echo 'FAILED: they differ'; status=1; }
    return $status
}

sanitize() { # TOOL ITERATIONS BATCH
    [ "$(left)" -gt 20 ] || { say "--- compute-sanitizer, $1: no time left"; return 0; }
    say "--- compute-sanitizer, $1 ($(($(date +%s) - begun)) s)"
    # the kernels are chosen before: timing them under the tool takes minutes
    timeout -k 5 60 "$build/poseidon" train --solver="$work/sane.prototxt" --engine=cuda --max-iter=1 \
        --batch="$3" >"$work/sanitize.log" 2>&1 </dev/null
    timeout -k 5 "$(left)" compute-sanitizer --error-exitcode 9 --tool "$1" "$build/poseidon" train \
        --solver="$work/sane.prototxt" --engine=cuda --max-iter="$2" --batch="$3" \
        >"$work/sanitize.log" 2>&1 </dev/null
    status=$?
    # cuDNN's and cuBLAS's kernels order their copies by barriers that racecheck does not know
    grep ' access at ' "$work/sanitize.log" | grep -v 'cudnn\|cublas\|cutlass\|xmma\|gemm' | sort -u >"$work/ours.log"
    [ "$1" != racecheck ] || [ $status -ne 9 ] || [ -s "$work/ours.log" ] || status=0
    { head -n 12 "$work/ours.log"; tail -n 1 "$work/sanitize.log"; } | tee -a "$results"
    if grep -q 'Device not supported\|not supported on this' "$work/sanitize.log"; then
        say "SKIP: compute-sanitizer does not serve this machine"
    elif [ $status -eq 124 ] || [ $status -eq 137 ]; then
        say "compute-sanitizer, $1: no time left"
    elif [ $status -ne 0 ]; then
        say "FAILED: compute-sanitizer, $1 (exit status $status)"
        return 1
    fi
}

say "poseidon on a GPU, $(date -u), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>&1)"
unpack >"$work/log" 2>&1 || give_up packages "$work/log"
cat "$work/log" >>"$results"
[ -x configure ] && [ -f Makefile.in ] || generate >"$work/log" 2>&1 || give_up 'configure script' "$work/log"
cuda_folders >"$work/log" 2>&1
cat "$work/log" >>"$results"
(compile) >"$work/log" 2>&1 || {
    [ ! -f "$build/config.log" ] || grep -n 'error' "$build/config.log" | tail -n 10 >>"$results"
    give_up build "$work/log"
}
say "--- built ($(($(date +%s) - begun)) s)"
lines=20 step 'device_query' 30 "$build/poseidon" device_query || give_up 'no GPU to test' "$work/step.log"
mpi_works >"$work/log" 2>&1 || { failed=1; tail -n 20 "$work/log" | tee -a "$results"; say 'FAILED: mpirun'; }
lines=40 step 'conformance, fp32' 90 "$build/tests/engine/engine_conformance" --engine=cuda || failed=1
for math in tf32 bf16; do
    lines=40 step "conformance, $math" 60 "$build/tests/engine/engine_conformance" --engine=cuda --math=$math --cases=25 || {
        failed=1
        # names the case, if one does not end
        lines=5 step "the same case by case" 15 "$build/tests/engine/engine_conformance" --engine=cuda --math=$math \
            --cases=25 --each
    }
done
[ ! -x "$build/tests/layers/layer_values" ] ||
    step 'layers against PyTorch' 40 "$build/tests/layers/layer_values" --engine=cuda tests/data/layers/values.txt || failed=1
[ ! -x "$build/tests/gpu/test_encode" ] || step 'codecs' 40 "$build/tests/gpu/test_encode" || failed=1
[ ! -x "$build/tests/device/test_copies" ] ||
    step 'copies and updates' 40 env POSEIDON_TEST_ENGINE=cuda "$build/tests/device/test_copies" || failed=1
cifar
say "--- losses ($(($(date +%s) - begun)) s)"
for case in "models/lenet/solver.prototxt 64" "$work/cifar_solver.prototxt 100"; do
    # shellcheck disable=SC2086
    same_losses $case '1 ps' '2 ps' '2 sfb' '2 allreduce' '2 adam' '2 onebit' '2 auto' '4 ps' '4 sfb' '4 allreduce' \
        >"$work/same.log" 2>&1 || failed=1
    sed "s|$work/||" "$work/same.log" | tee -a "$results"
done
for options in '' --tune=no-graphs; do
    # shellcheck disable=SC2086
    lines=3 step "cifar10_quick, 100 images a pass $options" 30 "$build/poseidon" time \
        --model="$work/cifar.prototxt" --engine=cuda --iterations=200 $options || failed=1
    sed -n 's/.*\(Recorded as .*\|Every kernel .*\|Memory .*\)/\1/p' "$work/step.log" | tee -a "$results"
done
step 'memory of vgg16' 40 "$build/poseidon" time --model=models/vgg16/train_val.prototxt --engine=cuda \
    --input-shape=3,224,224 --batch=64 --iterations=2 || failed=1
sed -n 's/.*\(Recorded as .*\|Every kernel .*\|Memory .*\)/\1/p' "$work/step.log" | tee -a "$results"
# Profiles for the simulator, of this very GPU.
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
lines=8 step 'profiles' 60 models/profiles/measure.sh --program="$build/poseidon" --out="${results%/*}" --gpu="$gpu" || failed=1
if [ $failed -ne 0 ]; then
    say 'no speed is measured after a failure'
elif "$python" -c 'import torch; assert torch.cuda.is_available()' >"$work/log" 2>&1; then
    # compute-sanitizer's share is left over
    lines=40 step 'speed' $(($(left) - 60)) "$python" tests/gpu/bench.py \
        --bench="$build/tests/gpu/bench_step" --seconds=$(($(left) - 90)) --compile=alexnet,vgg16
else
    say "SKIP: speed, for $python has no PyTorch that sees the GPU: $(tail -n 1 "$work/log")"
fi
{ sed 's/^test_.*//; s/^snapshot:.*//; s/^snapshot_after_train:.*//' models/lenet/solver.prototxt
  echo 'snapshot_after_train: false'; } >"$work/sane.prototxt"
if command -v compute-sanitizer >/dev/null; then
    sanitize memcheck 5 8 || failed=1 # the third iteration records the passes
    sanitize racecheck 1 4 || failed=1
else
    say 'SKIP: compute-sanitizer is not installed'
fi
say "--- done in $(($(date +%s) - begun)) s, $([ $failed -eq 0 ] && echo 'all that ran passed' || echo 'with failures')"
exit $failed
