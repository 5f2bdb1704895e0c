#!/bin/sh
# --max-bad: damaged records are left out, said by key and counted; the record behind takes the place of each, so that
# training is that on data without them, bit for bit and at any number of ranks. Data that shrink or change under a run
# are noticed.
. "$abs_top_srcdir/tests/mpi/common.sh"
images=$abs_top_srcdir/tests/data/input/images
"$POSEIDON" --version | grep -q '^data .*JPEG.*PNG' || { echo 'SKIP: built without JPEG or PNG'; exit 77; }

cp "$images/color.jpg" "$images/color.png" "$images/color_444.jpg" "$images/gray.png" .
head -c 200 color.jpg >cut.jpg
echo 'no image at all' >text.jpg
: >whole.txt
for i in 1 2 3 4; do
    printf '%s\n' "color.jpg $((i % 3))" "color.png $(((i + 1) % 3))" "color_444.jpg $(((i + 2) % 3))" "gray.png $((i % 2))" \
        "color.jpg $((i % 2))" "color_444.jpg 1" >>whole.txt
done
# records 5 and 16 are damaged; in their places the next ones
awk 'NR == 6 { print "cut.jpg 0"; next } NR == 17 { print "text.jpg 2"; next } { print }' whole.txt >bad.txt
awk '{ line[NR] = $0 } END { line[6] = line[7]; line[17] = line[18]; for (i = 1; i <= NR; i++) print line[i] }' whole.txt >mended.txt

net() { # NAME BATCH
    cat >"$1.net" <<END
layer { name: 'in' type: 'ImageData' top: 'x' top: 'y' image_data_param { source: '$work/$1.txt' root_folder: '$work/'
    batch_size: $2 new_height: 8 new_width: 8 } transform_param { scale: 0.01 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 's' inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
    echo "net: '$work/$1.net' base_lr: 0.01 lr_policy: 'fixed' max_iter: 8 random_seed: 2 snapshot_after_train: false display: 4" >"$1.solver"
}
run() { # RANKS NAME OPTION...
    ranks=$1 solver=$2
    shift 2
    train "$ranks" run.log --solver="$solver.solver" --threads=1 --summary=run.json "$@"
}
for ranks in 1 2; do
    for name in bad mended; do net $name $((8 / ranks)); done
    run $ranks mended || { fail 'data without damage'; tail -n 2 run.log; }
    whole=$(hash_of run.json)
    grep -q '"damaged_records": 0,' run.json || fail 'the summary of whole data counts damage'
    run $ranks bad --max-bad=2 || { fail "$ranks ranks: two damaged records of two"; tail -n 2 run.log; }
    [ "$(hash_of run.json)" = "$whole" ] || fail "$ranks ranks: the records behind do not take the places"
    for record in 'image 5: .*cut.jpg' 'image 16: .*text.jpg'; do
        grep -q "bad.txt, $record.*: left out; the next record takes its place ([12] of --max-bad=2)" run.log ||
            { fail "$ranks ranks: $record is not said"; grep -e 'left out' run.log; }
    done
    grep -q '2 damaged records left out (summed over ranks)' run.log || fail "$ranks ranks: the number is not said"
    grep -q '"damaged_records": 2,' run.json || fail "$ranks ranks: the number is not in the summary"
    run $ranks bad && fail 'damage is no error by default'
    grep -q 'poseidon train: .*bad.txt, image \(5: .*cut\|16: .*text\).jpg' run.log || { fail 'the damaged record is not named'; tail -n 2 run.log; }
done
run 1 bad --max-bad=1 && fail 'two damaged records of one'
grep -q 'poseidon train: .*; 1 damaged record was left out before (--max-bad=1)' run.log || { fail 'one too many'; tail -n 2 run.log; }
rm text.jpg # a missing file is a damaged record
run 1 bad --max-bad=2 || { fail 'a missing file'; tail -n 2 run.log; }
grep -q 'bad.txt, image 16: .*text.jpg: no such file.*: left out' run.log || { fail 'a missing file is not said'; grep -e 'left out' run.log; }
run 1 bad && fail 'a missing file is no error by default'
run 1 bad --max-bad=-1 && fail '--max-bad=-1'

# a Datum whose image is cut short
db=$abs_top_srcdir/tests/data/input/lmdb_bad
if [ -f "$db/data.mdb" ] && "$POSEIDON" --version | grep -q '^data .*LMDB'; then
    cat >lmdb.net <<END
layer { name: 'in' type: 'Data' top: 'x' top: 'y' data_param { source: '$db' batch_size: 2 backend: LMDB } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 's' inner_product_param { num_output: 300 } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
    sed "s/bad.net/lmdb.net/; s/base_lr: 0.01/base_lr: 1e-6/" bad.solver >lmdb.solver
    run 1 lmdb && fail 'a damaged Datum is no error by default'
    run 1 lmdb --max-bad=9 || { fail 'a damaged Datum'; tail -n 2 run.log; }
    grep -q "data.mdb: record [0-9]* (key '[^']*'): .*: left out" run.log || { fail 'the key is not said'; grep 'left out' run.log; }
fi

# Data that change under a run: written to, replaced, cut.
cp "$abs_top_srcdir/data/fashion-mnist-test.h5" data.h5
sed "s|source: .*fashion-mnist-train.h5.|source: \"$work/data.h5\"|" net.prototxt >moving.prototxt
grep -q "$work/data.h5" moving.prototxt || fail 'the net does not read the copy'
make_solver moving.solver "net: \"$work/moving.prototxt\"" 'max_iter: 1000000' 'display: 20' 'snapshot_after_train: false'
move() { # what is read is under way
    begin 2 moving.log --solver=moving.solver
    await 'Iteration 20 '
}
move && touch data.h5 && await 'data.h5 was written to while training reads it' && kill -INT $launcher
wait $launcher
move && cp data.h5 other.h5 && mv other.h5 data.h5 && await 'data.h5 was replaced by another file while training reads it' && kill -INT $launcher
wait $launcher
move && truncate -s 100000 data.h5 && await 'poseidon train: .*data.h5: \(the data has shrunk while it is read: [0-9]* bytes when training began, now 100000\|.*read\)'
wait $launcher && fail 'data that shrink end as a success'
finish
