#!/bin/sh
# Nets over clips (three spatial axes) and over lines (one): trained beside numpy by every scheme and number of ranks,
# stopped and resumed; and what the commands say of them.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
check="$abs_top_srcdir/tests/mpi/check_spatial.py"
"$python" -c 'import h5py, numpy' 2>/dev/null || { echo 'no Python with h5py and numpy'; exit 77; }
spatial_solver() { # LINE...
    make_solver solver.prototxt 'base_lr: 0.3' 'weight_decay: 0.001' 'lr_policy: "fixed"' 'max_iter: 20' \
        "snapshot_prefix: \"$work/spatial\"" "$@"
}

# same NAME: the parameters after 20 iterations are numpy's
same() {
    "$python" "$check" check "$work" $kind spatial_iter_20.caffemodel.h5 20 >"$1.out" 2>&1 || fail "$kind, $1: $(tail -n 1 "$1.out")"
    echo "$kind, $1: $(tail -n 1 "$1.out")"
}

# agrees NAME RANKS OPTION...
agrees() {
    name=$1 ranks=$2
    shift 2
    rm -f spatial_iter_*
    train "$ranks" "$name.log" --solver=solver.prototxt --weights=weights.caffemodel.h5 --global-batch=24 "$@" ||
        { fail "$kind, $name: status $?"; tail -n 5 "$name.log"; return; }
    same "$name"
}

# says WORDS COMMAND...: a pattern, in what the program prints
says() {
    words=$1
    shift
    "$POSEIDON" "$@" >said 2>&1 || fail "$*: status $?: $(tail -n 2 said)"
    grep -q -e "$words" said || fail "$*: expected '$words', found: $(cat said)"
}

for kind in lines clips; do
    "$python" "$check" make "$work" $kind || exit 99
    spatial_solver
    agrees alone 1
    agrees ps 2 --comm=ps --tune=chunk=256 --tune=merge=0
    agrees sfb 3 --comm=sfb
    agrees allreduce 2 --comm=allreduce --tune=overlap=none
    # in Caffe's binary files, half-way
    spatial_solver 'snapshot: 10' 'snapshot_format: BINARYPROTO'
    train 2 binary.log --solver=solver.prototxt --weights=weights.caffemodel.h5 --global-batch=24 --max-iter=10 ||
        fail "$kind, binary: $(tail -n 3 binary.log)"
    spatial_solver
    rm -f spatial_iter_20.*
    train 1 resumed.log --solver=solver.prototxt --snapshot=spatial_iter_10.solverstate --global-batch=24 ||
        fail "$kind, resumed: $(tail -n 3 resumed.log)"
    same resumed
done

# the last ones were clips: 24 x 8 x 4 x 4 x 5 places of 2 x 3 x 3 x 2 weights; windows of 1 x 2 x 2
says '^conv1 .*24 x 8 x 4 x 4 x 5  *296  *1.11 M$' summary --model=net.prototxt
says '^pool_conv1 .*24 x 8 x 4 x 2 x 3  *18.43 k$' summary --model=net.prototxt
says 'clips: 467 parameters' plan --model=net.prototxt --nodes=2
"$python" "$abs_top_srcdir/tools/draw.py" --force net.prototxt net.dot >said 2>&1 || fail "draw: $(cat said)"
for words in '8, 3 x 3 x 2, stride 1 x 2 x 1' '6, 2 x 1 x 3, stride 1 x 1 x 1, group 2' 'MAX, 1 x 2 x 2, stride 1 x 2 x 2' \
    'AVE, whole plane' '24 x 2 x 4 x 7 x 6'; do
    grep -qF "$words" net.dot || fail "draw does not say '$words'"
done
"$POSEIDON" time --model=net.prototxt --iterations=2 --json --profile=profile.csv --force >time.json 2>said ||
    fail "time: $(cat said)"
"$python" - <<'END' || fail 'the figures of time'
import json
layers = {l['name']: l for l in json.load(open('time.json'))['layers']}
places, weights = 24 * 8 * 4 * 4 * 5, 2 * 18
assert layers['conv1']['forward']['flops'] == 2 * places * weights == layers['conv1']['flops']
assert layers['conv1']['forward']['bytes'] == 4 * (24 * 2 * 4 * 7 * 6 + places + 8 * weights + 8)
assert layers['conv1']['backward']['flops'] == 2 * places * weights  # nothing learns below it
assert layers['pool_conv1']['forward']['flops'] == 24 * 8 * 4 * 2 * 3 * 4
assert layers['pool_conv2']['forward']['flops'] == 24 * 6 * 18
END
grep -q '^conv2,Convolution,' profile.csv || fail "the profile: $(cat profile.csv)"
train 2 replay.log --solver=solver.prototxt --batch=24 --engine=replay --tune=profile=profile.csv --max-iter=3 --comm=sfb ||
    fail "replay: $(tail -n 3 replay.log)"
grep -q 'replayed, not computed' replay.log || fail 'nothing was replayed'

# one message, with file, line and layer
sed -i 's/kernel_size: 3 kernel_size: 3 kernel_size: 2/kernel_size: 3 kernel_size: 3/' net.prototxt
train 2 refused.log --solver=solver.prototxt --global-batch=24 && fail 'two kernel sizes for three axes'
grep -q "net.prototxt:3: layer 'conv1' (Convolution): kernel_size has 2 values; expected one for all, or one for each spatial axis of 'data' (depth, height, width)" refused.log ||
    fail "the refusal is: $(tail -n 3 refused.log)"
finish
