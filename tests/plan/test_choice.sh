#!/bin/sh
# The choice for one net must not hang on the noise of a measurement: box_*.cluster are figures of one and the same
# cluster (tests/cluster/box.sh --hosts=4 --rate=1gbit), measured while others were at work on the machine. By them all, the
# fully connected layers' factors travel, and the rest goes by PS. Whether small neighbours are merged up to what suits
# the network or not at all is as good, and changes no bit of a sum.
set -u
source=${abs_top_srcdir:?}
failures=0
for cluster in "$source"/tests/plan/box_*.cluster; do
    for batch in 2 4 8; do
        found=$("$POSEIDON" plan --model="$source/models/googlenet/train_val.prototxt" --batch=$batch \
            --images-per-second=11 --nodes=4 --cluster-file="$cluster" --json |
            awk -F'"' '$2 == "merge_bytes" { split($3, n, /[ :,]+/); merge = n[2] }
                $4 == "ps" || $4 == "sfb" || $4 == "allreduce" { of[$4]++; if ($4 == "sfb") sfb = sfb " " $2 }
                END { print (merge <= 32768 ? "hardly" : merge " bytes"), "merged,", of["ps"] + 0 " by ps," sfb }')
        expected='hardly merged, 59 by ps, loss1/fc loss1/classifier loss2/fc loss2/classifier loss3/classifier'
        [ "$found" = "$expected" ] || {
            echo "FAIL: ${cluster##*/}, batch $batch: found '$found', expected '$expected'"
            failures=$((failures + 1))
        }
    done
done
exit $((failures > 0))
