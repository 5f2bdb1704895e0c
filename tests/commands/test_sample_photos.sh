#!/bin/sh
# Sample photographs of ImageNet, classified both ways by SqueezeNet v1.0: as many are named as docs/data.md says, and
# nearly all as PyTorch names them (tests/data/photos).
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
data=${POSEIDON_DATA:-/nowhere}
weights=$data/caffe-weights/squeezenet_v1.0.caffemodel
words=$data/caffe-weights/synset_words.txt
[ -f "$weights" ] && [ -f "$words" ] && [ -d "$data/imagenet-samples" ] || { echo 'no photographs: POSEIDON_DATA names no folder that has them'; exit 77; }
"$POSEIDON" --version | grep -q JPEG || { echo 'built without JPEG'; exit 77; }
limit=300

# way NAME COLUMN OPTION...: says how many are right, first and among the first five; compares
way() {
    name=$1 column=$2
    shift 2
    run classify --model="$abs_top_srcdir/models/squeezenet_v1.0/firenet.prototxt" --weights="$weights" --mean=104,117,123 --json \
        "$@" "$data"/imagenet-samples/*.JPEG
    [ "$status" -eq 0 ] || { fail "$name: status $status: $err"; return; }
    printf '%s\n' "$out" | awk '
        /"image":/ { image = $0; sub(/.*"image": "/, "", image); sub(/",?$/, "", image); sub(/.*\//, "", image); printf "\n%s", image }
        /"class":/ { number = $NF; sub(/,/, "", number); printf ",%d", number }
        END { print "" }' | grep . >"$name.csv"
    [ "$(wc -l <"$name.csv")" -ge 100 ] || fail "$name: $(wc -l <"$name.csv") photographs, expected 100"
    awk -F, -v words="$words" -v column="$column" -v table="$abs_top_srcdir/tests/data/photos/squeezenet.csv" '
        BEGIN {
            while ((getline line < words) > 0) { split(line, part, " "); id[n++] = part[1] }
            while ((getline line < table) > 0) { split(line, part, ","); theirs[part[1]] = part[column] }
        }
        {
            split($1, part, "_")
            first += id[$2] == part[1]
            for (i = 2; i <= 6; i++) five += id[$i] == part[1]
            alike += $2 == theirs[$1]
        }
        END { print first + 0, five + 0, alike + 0 }' "$name.csv" >"$name.counts"
    read -r first five alike <"$name.counts"
    echo "$name: $first named, $five among the first five; $alike of $(wc -l <"$name.csv") as PyTorch"
    [ "$alike" -ge 97 ] || fail "$name: $alike photographs are named as by PyTorch, expected 97 or more"
}
near() { # WHAT FOUND DOCUMENTED: a score or two may tip over on another processor
    [ "$2" -ge $(($3 - 1)) ] && [ "$2" -le $(($3 + 1)) ] || fail "$1: $2 of the photographs, docs/data.md says $3"
}

said=$(tr '\n' ' ' <"$abs_top_srcdir/docs/data.md" | sed -n 's/.*SqueezeNet v1.0 names \([0-9]*\) (\([0-9]*\) among its first five), with `--resize=227x227` \([0-9]*\) (\([0-9]*\)); PyTorch with the same weights \([0-9]*\) (\([0-9]*\)) and \([0-9]*\) (\([0-9]*\)).*/\1 \2 \3 \4 \5 \6 \7 \8/p')
# what the table of PyTorch comes to
theirs=$(awk -F, -v words="$words" '
    BEGIN { while ((getline line < words) > 0) { split(line, part, " "); id[n++] = part[1] } }
    /^#/ { next }
    {
        split($1, part, "_")
        for (i = 2; i <= 11; i++) if (id[$i] == part[1]) { five[i > 6]++; first[i > 6] += i == 2 || i == 7 }
    }
    END { print first[0], five[0], first[1], five[1] }' "$abs_top_srcdir/tests/data/photos/squeezenet.csv")
[ -n "$said" ] || { fail 'docs/data.md does not say how many'; exit 1; }
# shellcheck disable=SC2086 # eight numbers
set -- $said
[ "$5 $6 $7 $8" = "$theirs" ] || fail "docs/data.md says $5 ($6) and $7 ($8) of PyTorch; its table has $theirs"
way classify.py 2
near 'classify.py' "$first" "$1"
near 'classify.py, first five' "$five" "$2"
way classification.bin 7 --resize=227x227
near 'classification.bin' "$first" "$3"
near 'classification.bin, first five' "$five" "$4"
finish
