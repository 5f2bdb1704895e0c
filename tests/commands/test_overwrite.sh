#!/bin/sh
# No file is replaced that is there already, unless --force is given; none ever that the same run reads or
# writes under another name.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
net() {
    cat >net.prototxt <<'END'
layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: [2, 3] } shape { dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2
    weight_filler { type: 'xavier' } } }
layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }
END
}
net
cat >solver.prototxt <<'END'
net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 's' test_iter: 1 test_interval: 9
END

# keeps FILE: its content is still what was written there
kept() {
    [ "$(cat "$1")" = mine ] || fail "$1 was replaced"
}

refuses_to_replace() { # FILE ARGUMENT...
    file=$1
    shift
    echo mine >"$file"
    refuses "*$file exists already; --force replaces it*" "$@"
    kept "$file"
    run "$@" --force
    [ "$status" -eq 0 ] || fail "$* --force: $err"
    [ "$(head -c 4 "$file")" != mine ] || fail "$* --force did not replace $file"
    : >"$file"
    run "$@" # nothing is lost with an empty file
    [ "$status" -eq 0 ] || fail "$* onto an empty file: $err"
}

refuses_to_replace new.prototxt upgrade net.prototxt new.prototxt
refuses_to_replace times.csv time --model=net.prototxt --iterations=1 --profile=times.csv
refuses_to_replace out.json train --solver=solver.prototxt --summary=out.json
refuses_to_replace out.trace train --solver=solver.prototxt --trace=out.trace
refuses_to_replace out.log train --solver=solver.prototxt --tune=log=out.log
refuses_to_replace out.h5 extract --model=net.prototxt --weights=s_iter_1.caffemodel --blobs=ip out.h5

# what the run reads is not replaced even with --force
refuses '*net.prototxt is one of the inputs; expected another file to write*' upgrade net.prototxt ./net.prototxt --force
refuses '*net.prototxt is one of the inputs*' time --model=net.prototxt --iterations=1 --profile=net.prototxt --force
for option in summary trace tune=log; do
    refuses '*solver.prototxt is one of the inputs*' train --solver=solver.prototxt --$option=solver.prototxt --force
    refuses '*net.prototxt is one of the inputs*' train --solver=solver.prototxt --$option=net.prototxt --force
    refuses '*s_iter_1.caffemodel is one of the inputs*' train --solver=solver.prototxt \
        --weights=none,s_iter_1.caffemodel --$option=s_iter_1.caffemodel --force
done
refuses '*s_iter_1.caffemodel is one of the inputs*' extract --model=net.prototxt --weights=s_iter_1.caffemodel \
    --blobs=ip s_iter_1.caffemodel --force
refuses '*a.json would be written twice; expected a file for each output*' \
    train --solver=solver.prototxt --summary=a.json --trace=a.json
refuses '*/dev/null is a device or pipe*' train --solver=solver.prototxt --summary=/dev/null --force
refuses '* is a folder; expected the name of a file to write*' train --solver=solver.prototxt --trace=.
refuses '*--summary= names no file*' train --solver=solver.prototxt --summary=
grep -q SoftmaxWithLoss net.prototxt || fail 'the net was replaced'

# a run that goes on replaces its own files
echo mine >out.json
works '*' train --solver=solver.prototxt --resume --max-iter=2 --summary=out.json
has "$(cat out.json)" '"iterations": 2' 'the summary after --resume'

# draw.py
if python3 -c '' 2>/dev/null; then
    program=$abs_top_srcdir/tools/draw.py
    refuses_to_replace net.dot net.prototxt net.dot
    ln net.prototxt linked.dot
    refuses '*linked.dot is one of the inputs*' net.prototxt linked.dot --force
    ! command -v dot >/dev/null || refuses_to_replace net.svg net.prototxt net.svg
fi

# report.py --curves
program=$abs_top_srcdir/tools/report.py
echo mine >a.log
refuses "*expected a picture to write first, OUT.svg, found 'a.log'*" --curves=a.log a.log
kept a.log
python3 -c 'import matplotlib' 2>/dev/null || PATH=/usr/bin:$PATH
if python3 -c 'import matplotlib' 2>/dev/null; then
    log=$abs_top_srcdir/models/cifar10_quick/training.log
    works '*' --curves=plot.svg "$log"
    has "$(cat plot.svg)" 'cifar10-quick' 'a log named training.log'
    refuses '*plot.svg exists already; --force replaces it*' --curves=plot.svg "$log"
    works '*' --force --title='Loss of a "net"' --curves=plot.svg "$log"
    has "$(cat plot.svg)" "Loss of a" 'the title'
    refuses "*shows no two lines 'Iteration N, loss = X'*" --force --curves=plot.svg a.log
    has "$(cat plot.svg)" "Loss of a" 'the plot before'
else
    echo 'matplotlib is missing: plots are not tested'
fi
refuses '*no such log: none*' --force --curves=plot.svg none

# a signal leaves nothing half
"$POSEIDON" extract --model=net.prototxt --weights=s_iter_1.caffemodel --blobs=ip --iterations=10000000 half.h5 >half.log 2>&1 &
pid=$!
while [ ! -e half.h5.tmp ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -TERM $pid
wait $pid
[ $? -eq 143 ] || fail "extract is not ended by SIGTERM: $(cat half.log)"
[ ! -e half.h5.tmp ] && [ ! -e half.h5 ] || fail 'extract leaves a half file when it is ended'
finish
