#!/bin/sh
# The long nets and the profiles of published devices are what their generators write; the profiles hold the
# rates that were published, and are accepted by poseidon plan with the net and the batch that they are of.
set -u
source=${abs_top_srcdir:?}
python=${POSEIDON_PYTHON:-python3}
command -v "$python" >/dev/null || { echo 'skipped: python3 is missing'; exit 77; }
. "${abs_top_srcdir:?}/tests/common.sh"

cp -r "$source/models" "$folder/models" && chmod -R u+w "$folder/models" || fail 'models/ cannot be copied'
rm "$folder/models/googlenet/train_val.prototxt" "$folder/models/squeezenet_flowers/solver.prototxt"
"$python" "$folder/models/generate.py" && diff -r -x __pycache__ "$source/models" "$folder/models" ||
    fail 'models/generate.py writes something else'

mkdir "$folder/again"
"$python" "$source/models/profiles/generate.py" --program="$POSEIDON" --out="$folder/again" ||
    fail 'the generator failed'
for file in "$source"/models/profiles/*.csv "$folder"/again/*.csv; do
    name=${file##*/}
    grep -q "models/profiles/$name" "$source/models/Makemodule.am" || fail "$name: is not installed"
    case $name in cpu-* | h?00-*) continue ;; esac # measured
    cmp -s "$source/models/profiles/$name" "$folder/again/$name" ||
        fail "$name: the generator writes something else"
done
awk 'length($0) > 100 { exit 1 }' "$source"/models/profiles/*.csv || fail 'a line is longer than 100 columns'

# NAME BATCH and the seconds of one, by the published figures; 0 where none is published. The update is part
# of the seconds, but for +: there it comes on top. Written here by hand, so that the generator is checked.
cat >"$folder/published" <<'END'
titanx-vgg19_22k 32 18.5/20
titanx-vgg19 32 32/35.5
titanx-googlenet 128 128/257
titanx-inception_v3 32 32/43.2
titanx-resnet152 32 2*0.36697 +
titanx-alexnet 256 0.25
p100-vgg16 64 64/130.9
p100-inception_v3 64 64/134.4
p100-resnet50 64 64/219
p100-resnet152 64 64/91.8
p100-alexnet 512 512/2987
p40-alexnet 1024 0
p40-googlenet 128 0
p40-resnet50 32 0
a100-resnet50 256 256/938
k20-alexnet 256 26.08302/20
k20-alexnet_22k 256 0
k20-googlenet 32 2.294219/4 +
k20-cifar10_quick 50 0
v100-resnet50 256 256/872
END
for file in "$source"/models/profiles/cpu-*.csv "$source"/models/profiles/h?00-*.csv; do
    echo "$(basename "$file" .csv) $(sed -n 's/^# input \([0-9]*\) .*/\1/p' "$file") $(
        sed -n 's/^# Rate: .* images in \(.*\) s, .*/\1/p' "$file") +" >>"$folder/published"
    grep -q '^# \(Processor\|GPU\): ' "$file" || fail "${file##*/}: does not say of which device"
done
set -- "$source"/models/profiles/*.csv
[ $# -eq "$(wc -l <"$folder/published")" ] ||
    fail 'there are profiles that this test does not know'

number() { # KEY: of the plan's JSON, in its first row
    sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$folder/plan" | head -n 1
}

while read -r name batch published above; do
    file=$source/models/profiles/$name.csv
    grep -q "^# input $batch " "$file" || fail "$name: is not of $batch images"
    case $name:$published in
    cpu-* | h?00-*) grade=measured ;;
    *:0) grade=derived ;;
    *) grade='[a-z]*' ;;
    esac
    grep -q "^# Grade: $grade" "$file" || fail "$name: its head does not grade it"
    "$POSEIDON" plan --model="$source/models/${name#*-}/train_val.prototxt" --profile="$file" \
        --batch="$batch" --input-shape="$(sed -n 's/^# input [0-9]* \([0-9]*\) \([0-9]*\) \([0-9]*\).*/\1,\2,\3/p' "$file")" \
        --nodes=1,2 --json >"$folder/plan" 2>"$folder/errors" || {
        fail "$name: the plan failed: $(cat "$folder/errors")"
        continue
    }
    case $(number speedup) in 1 | 1.0) ;; *) fail "$name: one node is $(number speedup) times one rank" ;; esac
    awk -F, -v name="$name" -v alone="$(number alone_seconds)" -v parameters="$(number parameters)" \
        -v flops="$(number gemm_flops)" -v expected="$(echo "$published" | awk -F'[*/]' '
            { printf "%.12g", /\*/ ? $1 * $2 : NF == 2 ? $1 / $2 : $1 }')" -v above="$above" '
        function off(a, b) { return a > b * 1.001 || a < b * 0.999 }
        /^#/ || $1 == "layer" { next }
        $1 == "*" { gemm = $3; next }
        $1 == "*copy" { next }
        $1 == "*update" { update = $3 * 1e-9 * parameters; next }
        { passes += $3 + $4 }
        END {
            sum = passes + (above == "" ? update : 0)
            if (!(update > 0) || !(passes > 0)) print name ": there is no time"
            if (expected > 0 && off(sum, expected)) print name ": " sum " s, published " expected
            if (off(alone, passes + update)) print name ": the plan takes " alone " s for " passes + update
            if (!(gemm > 0) || off(flops, 1e9 / gemm)) print name ": the plan takes " flops " FLOP/s"
        }' "$file" >"$folder/wrong"
    [ ! -s "$folder/wrong" ] || fail "$(cat "$folder/wrong")"
done <"$folder/published"
"$POSEIDON" plan --model="$source/models/lenet/train_val.prototxt" --profile=cpu --input-shape=1,28,28 \
    --nodes=2 >"$folder/played" 2>&1 &&
    grep -q '; 64 images per rank' "$folder/played" || fail "plan --profile=cpu: $(cat "$folder/played")"
finish
