#!/bin/sh
# make pictures: every picture that README.md and the guides show is made by scripts/make_pictures.sh, or is one of
# docs/reproduction; and the scores by scheme that docs/communication.md quotes are those of the logs that are drawn.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
copy=$folder/copy
mkdir "$copy"
(cd "$abs_top_srcdir" && cp -r README.md docs jobs models scripts tools "$copy") && chmod -R u+w "$copy" || exit 1
cd "$copy" || exit 1

# 0.63450 -> 0.635, as awk rounds
for scheme in bf16 1-bit synchronous staleness-1 staleness-3; do
    score=$(sed -n 's/.*accuracy = //p' "docs/curves/schemes/$scheme.log" | tail -n 1 | awk '{ printf "%.3f", $1 + 1e-9 }')
    grep -q -F "$score" docs/communication.md || fail "docs/communication.md does not say $score, which docs/curves/schemes/$scheme.log ends at"
done

# what is drawn of PyTorch is what was recorded
while IFS=, read -r net batch instructions times; do
    case $net in
    '#'* | net) continue ;;
    esac
    times=$(echo "$times" | sed 's/,,*/,/g; s/,$//; s/,/ | /g')
    grep -q "^| ${net}[^|]*, batch $batch |.* $times |" "$abs_top_srcdir/tests/bench/RESULTS.md" ||
        fail "tests/bench/RESULTS.md has no such row as $net, $instructions, batch $batch of docs/pytorch.csv"
done <docs/pytorch.csv

# so are the times of an iteration that docs/communication.md quotes of docs/step.csv
for seconds in $(awk -F, '/^"/ { run = $0; sub(/",.*/, "", run); last[run] = $NF > last[run] ? $NF : last[run] } END { for (run in last) printf "%.2f\n", last[run] / 1000 }' docs/step.csv); do
    grep -q -F "$seconds s" docs/communication.md || fail "docs/communication.md does not say $seconds s, which an iteration of docs/step.csv takes"
done

# shown PAGE: the pictures that it shows, from its folder
shown() {
    grep -o '([^()]*\.svg)' "$1" | tr -d '()' | sed "s|^|$(dirname "$1")/|"
}
for page in README.md docs/*.md; do
    shown "$page"
done | sort -u >pictures
grep -q pictures/resnet152 pictures || fail "no page shows ResNet-152"
while read -r picture; do
    [ -s "$picture" ] || fail "$picture is shown, and is not there"
done <pictures

python3 -c 'import matplotlib' 2>/dev/null || PATH=/usr/bin:$PATH
python3 -c 'import matplotlib' 2>/dev/null || { [ $failures -eq 0 ] || exit 1; echo 'nothing was drawn: no matplotlib'; exit 77; }
command -v dot >/dev/null || { [ $failures -eq 0 ] || exit 1; echo "nothing was drawn: Graphviz's program dot is not in PATH"; exit 77; }
find docs/pictures models -name '*.svg' -exec rm {} +
timeout 600 sh scripts/make_pictures.sh "$POSEIDON" nets logs bars step >log 2>&1 || fail "make_pictures.sh: $(cat log)"
while read -r picture; do
    grep -q '</svg>' "$picture" || fail "$picture is shown, and scripts/make_pictures.sh does not make it"
done <pictures
finish
