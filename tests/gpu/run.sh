#!/bin/sh
# tests/gpu/run.sh [RESULTS]: everything that needs a GPU, in less than nine minutes, on one machine with nvcc,
# cuDNN, Python and PyTorch. What else is missing comes from tests/gpu/packages, which fetch.sh fills
# beforehand; as root it is unpacked into the system, where nothing that is there is overwritten. Leaves one
# text file. Exit status 1 where a test failed; speed only reports.
set -u
cd "$(dirname "$0")/../.." || exit 1
top=$PWD
results=${1:-$top/gpu-results.txt}
build=${POSEIDON_GPU_BUILD:-$top/build-gpu}
begun=$(date +%s)
failed=0
: >"$results"

say() { printf '%s\n' "$*" | tee -a "$results"; }
left() { echo $((530 - $(date +%s) + begun)); }
# NAME LIMIT COMMAND...: runs it, keeps the end of what it says.
step() {
    name=$1; limit=$2; shift 2
    [ "$(left)" -gt 10 ] || { say "--- $name: no time left"; return 1; }
    [ "$limit" -lt "$(left)" ] || limit=$(left)
    say "--- $name ($(($(date +%s) - begun)) s)"
    timeout "$limit" "$@" >step.log 2>&1
    status=$?
    tail -n "${lines:-25}" step.log >>"$results"
    tail -n 3 step.log
    [ $status -eq 0 ] || say "FAILED: $name (exit status $status)"
    return $status
}

unpack() {
    [ "$(id -u)" -eq 0 ] || return 0
    for package in tests/gpu/packages/*.deb; do
        [ -f "$package" ] || continue
        dpkg-deb --fsys-tarfile "$package" | tar -x --skip-old-files --keep-directory-symlink -C / || return 1
    done
    for alternative in mpicc:mpicc.openmpi mpirun:mpirun.openmpi mpiexec:mpiexec.openmpi; do
        [ -e "/usr/bin/${alternative%%:*}" ] || ln -s "${alternative#*:}" "/usr/bin/${alternative%%:*}"
    done
    [ ! -f tests/gpu/packages/generated.tar ] || [ -x configure ] || tar -xf tests/gpu/packages/generated.tar
    ldconfig
}

compile() {
    mkdir -p "$build" && cd "$build" && "$top/configure" -q --with-cuda \
        NVCC_ARCH="${NVCC_ARCH:--gencode=arch=compute_90,code=sm_90}" CFLAGS='-O2 -g' &&
        make -s -j"$(nproc)" && make -s -j"$(nproc)" tests/engine_conformance tests/gpu/bench_step &&
        { make -s -j"$(nproc)" tests/layer_values || echo 'tests/layer_values needs Check: left out'; }
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export POSEIDON_CACHE="$build/cache"

loss() { # RANKS ARGUMENTS...: the final loss of 50 iterations of LeNet or the named solver
    ranks=$1; shift
    timeout 60 mpirun -np "$ranks" "$build/poseidon" train --max-iter=50 --seed=3 --summary=loss.json "$@" \
        >loss.log 2>&1 || { tail -n 5 loss.log; return 1; }
    sed -n 's/.*"final_loss": *\([^,}]*\).*/\1/p' loss.json
}

same_losses() {
    status=0
    for solver in models/lenet/solver.prototxt ${POSEIDON_GPU_SOLVERS:-}; do
        sed 's/^test_.*//; s/^snapshot:.*//' "$solver" >quick.prototxt
        printf 'snapshot_after_train: false\n' >>quick.prototxt
        expected=$(loss 1 --solver=quick.prototxt --engine=cpu) || { echo "$expected"; return 1; }
        for comm in '1 ps' '2 ps' '2 sfb' '2 allreduce' '2 adam' '2 onebit' '4 ps' '4 sfb' '4 allreduce'; do
            ranks=${comm% *}; batch=$((64 / ranks))
            found=$(loss "$ranks" --solver=quick.prototxt --engine=cuda --math=fp32 --deterministic \
                --share-gpu --batch=$batch --comm="${comm#* }") || { echo "$comm: $found"; status=1; continue; }
            echo "$solver, $comm: cpu $expected, cuda $found"
            # one bit per element is another gradient: it only has to train
            [ "$comm" = '2 onebit' ] || awk -v a="$expected" -v b="$found" \
                'BEGIN { d = a - b; exit !(d * d <= 1e-6 * (a > 1 ? a * a : 1)) }' || status=1
        done
        again=$(loss 1 --solver=quick.prototxt --engine=cuda --math=fp32 --deterministic) || status=1
        first=$(sed -n 's/.*"parameters_sha256": *"\([^"]*\)".*/\1/p' loss.json)
        loss 1 --solver=quick.prototxt --engine=cuda --math=fp32 --deterministic >/dev/null || status=1
        second=$(sed -n 's/.*"parameters_sha256": *"\([^"]*\)".*/\1/p' loss.json)
        echo "twice the same parameters: $again $first $second"
        [ "$first" = "$second" ] || status=1
    done
    rm -f quick.prototxt loss.json loss.log
    return $status
}

sanitize() {
    sed 's/^test_.*//; s/^snapshot:.*//' models/lenet/solver.prototxt >sane.prototxt
    printf 'snapshot_after_train: false\n' >>sane.prototxt
    compute-sanitizer --error-exitcode 9 --tool memcheck "$build/poseidon" train --solver=sane.prototxt \
        --engine=cuda --max-iter=3 --batch=8 &&
        compute-sanitizer --error-exitcode 9 --tool racecheck "$build/poseidon" train \
            --solver=sane.prototxt --engine=cuda --max-iter=1 --batch=4
    status=$?
    rm -f sane.prototxt
    return $status
}

say "poseidon on a GPU, $(date -u), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
unpack >>"$results" 2>&1 || say 'FAILED: packages'
(compile) >compile.log 2>&1 || { tail -n 30 compile.log | tee -a "$results"; say 'FAILED: build'; exit 1; }
say "--- built ($(($(date +%s) - begun)) s)"
lines=20 step 'device_query' 20 "$build/poseidon" device_query || failed=1
lines=40 step 'conformance, fp32' 90 "$build/tests/engine_conformance" --engine=cuda || failed=1
lines=40 step 'conformance, bf16' 60 "$build/tests/engine_conformance" --engine=cuda --math=bf16 --cases=30 || failed=1
[ ! -x "$build/tests/layer_values" ] || step 'layers against PyTorch' 40 "$build/tests/layer_values" --engine=cuda tests/data/layers_more/values.txt || failed=1
same_losses >same.log 2>&1 || failed=1
say "--- losses ($(($(date +%s) - begun)) s)"
cat same.log | tee -a "$results"
python=${POSEIDON_TORCH:-python3}
lines=40 step 'speed' 230 "$python" tests/gpu/bench.py --bench="$build/tests/gpu/bench_step" --seconds=200
say "--- compute-sanitizer ($(($(date +%s) - begun)) s)"
sanitize >sanitize.log 2>&1 &
watched=$!
while kill -0 $watched 2>/dev/null && [ "$(left)" -gt 0 ]; do sleep 1; done
if kill -0 $watched 2>/dev/null; then
    kill $watched
    say 'compute-sanitizer: no time left'
else
    wait $watched || { failed=1; say 'FAILED: compute-sanitizer'; }
fi
tail -n 12 sanitize.log | tee -a "$results"
rm -f step.log same.log sanitize.log compile.log
say "--- done in $(($(date +%s) - begun)) s, $([ $failed -eq 0 ] && echo 'all passed' || echo 'with failures')"
exit $failed
