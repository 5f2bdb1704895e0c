#!/bin/sh
# Every two options together, on 4 ranks: they train, or one message of one rank refuses them with a status that is not 0;
# nothing hangs or crashes. And --help of every command: 80 columns, an example, no old word.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 2' 'snapshot_after_train: false' 'display: 1' 'test_iter: 1' 'test_interval: 2' 'snapshot: 2' \
    "snapshot_prefix: \"$work/s\""
"$POSEIDON" time --model=net.prototxt --batch=8 --iterations=1 --profile=profile.csv >time.log 2>&1 || fail 'poseidon time'
cat >options <<'END'
--comm=paper
--comm=none
--comm=ps
--comm=sfb
--comm=allreduce
--comm=adam
--comm=onebit
--comm=lowrank
--tune=wire=bf16
--lossy=bf16,lowrank:2,onebit
--tune=overlap=none
--servers=1
--hierarchy=2
--hierarchy=off
--hierarchy=4,2
--tune=bandwidth-mbps=900
--global-batch=24
--reproducible
--on-nan=skip
--stop-after=1
--keep-best=accuracy
--set=local_lr_auto=true
--set=clip_gradients=0.5
--set=iter_size=2
--set=type=Adam
--tune=staleness=1
--tune=check-sync=1
--tune=chunk=1k
--tune=merge=0
--tune=window=0
--tune=order=fifo
--engine=replay
--dry-run
END
taken=0 refused=0 number=0
while read -r one; do
    number=$((number + 1))
    tail -n +$((number + 1)) options | while read -r other; do echo "$one $other"; done
done <options >pairs
while read -r pair; do
    case $pair in *replay*) more='--tune=profile=profile.csv --fake-data=1,28,28' ;; *) more='' ;; esac
    case $pair in *global-batch*) ;; *) more="$more --batch=8" ;; esac
    rm -rf s_* s.*
    # shellcheck disable=SC2086 # words
    "$POSEIDON_MPIRUN" 4 "$POSEIDON" train --solver=solver.prototxt --threads=1 --set=momentum=0.5 $more $pair \
        >log 2>&1 </dev/null
    status=$?
    count=$(grep -c '^poseidon train: ' log)
    case $status,$count in
    0,0) taken=$((taken + 1)) ;;
    1,1) refused=$((refused + 1)) && echo "$pair: $(grep '^poseidon train: ' log)" ;;
    *) fail "$pair: status $status, $count messages" && tail -n 5 log ;;
    esac
done <pairs
echo "$taken pairs train, $refused are refused"
[ $taken -gt $refused ] && [ $((taken + refused)) -ge 352 ] || fail 'too few of them'

for command in $("$POSEIDON" help | sed -n 's/^  \([a-z_]*\)  .*/\1/p'); do
    "$POSEIDON" "$command" --help >help.txt 2>&1 || fail "$command --help: status $?"
    [ -s help.txt ] || fail "$command --help says nothing"
    awk 'length($0) > 80' help.txt | grep . && fail "$command --help is wider than 80 columns"
done
finish
