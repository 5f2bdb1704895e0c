#!/bin/sh
# data/prepare_flowers17.sh: 64 photographs of each class to train with, 16 to test, none in both; the lists that the committed
# logs were trained with, where POSEIDON_DATA has them.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
program=$abs_top_srcdir/data/prepare_flowers17.sh
mkdir jpg
refuses '*jpg/image_0001.jpg: no such file; expected the folder jpg of 17flowers.tgz*' jpg out
refuses '*nowhere: no such folder*' nowhere out
refuses '*prepare_flowers17.sh JPG*' --help
for number in $(seq 1360); do
    : >"jpg/image_$(printf %04d "$number").jpg"
done
works '*out: 1088 photographs in train.txt, 272 in test.txt*' jpg out
refuses '*out/train.txt exists already*' jpg out
for list in train:64 test:16; do
    awk -v each="${list#*:}" '{ n[$2]++ } END { for (c = 0; c < 17; c++) if (n[c] != each) exit 1 }' "out/${list%:*}.txt" ||
        fail "${list%:*}.txt has not ${list#*:} of each class"
done
[ "$(cat out/train.txt out/test.txt | sort -u | wc -l)" -eq 1360 ] || fail 'a photograph is in both lists, or in none'
while read -r image class; do
    [ -e "out/$image" ] || { fail "$image of class $class is not there"; break; }
done <out/test.txt
theirs=${POSEIDON_DATA:-/nowhere}/flowers17-256
if [ -f "$theirs/test.txt" ]; then
    for list in train test; do
        sed 's|.*/||' "$theirs/$list.txt" | sort | cmp -s - "out/$list.txt" || fail "$list.txt is not the list of the committed logs"
    done
fi
finish
