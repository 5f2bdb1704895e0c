#!/bin/sh
# Options that do not go together, each pair of them: refused before training by one message of one rank, which names both.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 2' 'snapshot_after_train: false' 'display: 1'
sed "s|source: \".*/\([^\"]*\)\"|source: \"$work/own\" shared_file_system: false|" net.prototxt >own.prototxt
for rank in 0 1; do
    ln -s "$(sed -n 's/.*source: "\([^"]*\)".*/\1/p' net.prototxt | head -n 1)" own_$rank
done

# Lines: MESSAGE | OPTIONS. Four at a time: most of it is start and end.
cat >pairs <<'END'
--global-batch=7 cannot be shared: iter_size 3 makes 3 shares; expected a multiple, such as --global-batch=6 | --global-batch=7 --set iter_size=3
--global-batch=7 cannot be shared: iter_size 3 makes 3 shares; expected a multiple, such as --global-batch=6 | --global-batch=7 --balance=1,1 --set iter_size=3
--global-batch=1 cannot be shared: 2 workers times iter_size 1 makes 2 shares; expected a multiple, such as --global-batch=2 | --global-batch=1
--global-batch=7 cannot be shared: 2 workers times iter_size 1 makes 2 shares; .* --global-batch=6 | --global-batch=7 --tune=drop-stragglers=1
--global-batch=7 cannot be shared: 2 workers .* --global-batch=6 | --global-batch=7 --comm=none
unlike shares need samples in one order for all workers: not with shared_file_system: false | --global-batch=7 --set net=own.prototxt
--global-batch counts the samples of all ranks: not with --batch | --batch=4 --global-batch=8
--snapshot resumes training, and --weights finetunes: not with --weights | --snapshot=x.solverstate --weights=x.caffemodel
--engine=replay computes nothing and trains nothing: --weights does not apply | --engine=replay --weights=x.caffemodel
--engine=replay computes nothing and trains nothing: --snapshot does not apply | --engine=replay --snapshot=x.solverstate
--engine=replay computes nothing and trains nothing: --resume does not apply | --engine=replay --resume
--engine=replay computes nothing and trains nothing: --run does not apply | --engine=replay --run=r
--engine=replay computes nothing and trains nothing: --snapshot-prefix does not apply | --engine=replay --snapshot-prefix=p
--engine=replay computes nothing and trains nothing: --snapshot-every does not apply | --engine=replay --snapshot-every=1h
--engine=replay computes nothing and trains nothing: --keep does not apply | --engine=replay --keep=2
--engine=replay computes nothing and trains nothing: --keep-best does not apply | --engine=replay --keep-best
--engine=replay computes nothing and trains nothing: --stop-after does not apply | --engine=replay --stop-after=2
--engine=replay computes nothing and trains nothing: --max-bad does not apply | --engine=replay --max-bad=2
--engine=replay computes nothing and trains nothing: --on-nan does not apply | --engine=replay --on-nan=skip
--engine=replay computes nothing and trains nothing: --tune=check-sync does not apply | --engine=replay --tune=check-sync=1
--engine=replay computes nothing and trains nothing: --shuffle does not apply | --engine=replay --shuffle
--engine=replay computes nothing and trains nothing: --balance does not apply | --engine=replay --balance=3,1
--engine=replay computes nothing and trains nothing: --sync-bn does not apply | --engine=replay --sync-bn
--engine=replay computes nothing and trains nothing: --curves does not apply | --engine=replay --curves=c.csv
--engine=replay computes nothing and trains nothing: --curves does not apply | --engine=replay --curves=d
--engine=replay computes nothing and trains nothing: --math does not apply | --engine=replay --math=bf16
--engine=replay computes nothing and trains nothing: --tune=deterministic does not apply | --engine=replay --tune=deterministic
--engine=replay computes nothing and trains nothing: --tune=convolution does not apply | --engine=replay --tune=convolution=direct
--engine=replay computes nothing and trains nothing: --tune=no-fusion does not apply | --engine=replay --tune=no-fusion
engine 'cpu': --math=tf32 is for GPUs; the CPU has fp32 and bf16 | --engine=cpu --math=tf32
--tune=no-graphs is for --engine=cuda alone; the engine is cpu | --tune=no-graphs
--tune=workspace is for --engine=cuda alone; the engine is cpu | --tune=workspace=1m
--tune=share-gpu is for --engine=cuda alone; the engine is cpu | --tune=share-gpu
--tune=convolution is for --engine=cpu alone; the engine is cuda | --engine=cuda --tune=convolution=winograd
--tune=wire is about what ranks send: not with --comm=none | --comm=none --tune=wire=bf16
--tune=overlap is about what ranks send: not with --comm=none | --comm=none --tune=overlap=none
--tune=cluster-file is about what ranks send: not with --comm=none | --comm=none --tune=cluster-file=slow
--tune=measure is about what ranks send: not with --comm=none | --comm=none --tune=measure
--tune=bandwidth-mbps is about what ranks send: not with --comm=none | --comm=none --tune=bandwidth-mbps=100
--tune=order is about what ranks send: not with --comm=none | --comm=none --tune=order=fifo
--fake-data has no records, tests and snapshots: not with --max-bad | --fake-data --max-bad=1
--tune=profile is for --engine=replay alone; the engine is cpu | --engine=cpu --tune=profile=x.csv
--tune=dilate is for --engine=replay alone; the engine is cpu | --engine=cpu --tune=dilate=2
--fake-data has no records, tests and snapshots: not with --snapshot | --fake-data --snapshot=x.solverstate
--fake-data has no records, tests and snapshots: not with --resume | --fake-data --resume
--fake-data has no records, tests and snapshots: not with --run | --fake-data --run=r
--fake-data has no records, tests and snapshots: not with --snapshot-prefix | --fake-data --snapshot-prefix=p
--fake-data has no records, tests and snapshots: not with --snapshot-every | --fake-data --snapshot-every=1h
--fake-data has no records, tests and snapshots: not with --keep | --fake-data --keep=2
--fake-data has no records, tests and snapshots: not with --keep-best | --fake-data --keep-best
--fake-data has no records, tests and snapshots: not with --stop-after | --fake-data --stop-after=2
--fake-data has no records, tests and snapshots: not with --epochs | --fake-data --epochs=1
--fake-data has no records, tests and snapshots: not with --shuffle | --fake-data --shuffle
--fake-data expects C,H,W such as 3,224,224, found '3' | --fake-data=3
--gpu=0 trains on GPUs, and --engine=cpu does not | --gpu=0 --engine=cpu
--gpu=all trains on GPUs, and --engine=replay does not | --engine=replay --gpu=all
--dry-run trains nothing: not with --summary | --dry-run --summary=-
--dry-run trains nothing: not with --summary | --dry-run --summary=s.json
--dry-run trains nothing: not with --trace | --dry-run --trace=t.json
--dry-run trains nothing: not with --tune=log | --dry-run --tune=log=l.jsonl
--dry-run trains nothing: not with --curves | --dry-run --curves=c.csv
--dry-run trains nothing: not with --curves | --dry-run --curves=events
--on-nan decides for all ranks before any update: not with --comm=none | --comm=none --on-nan=skip
--on-nan decides for all ranks before any update: not with --tune=staleness | --on-nan=skip --tune=staleness=1
--on-nan=skip: layer .* travels with error feedback (onebit, bf16) | --on-nan=skip --comm=onebit
--on-nan=skip: layer .* travels with error feedback (onebit, bf16) | --on-nan=skip --lossy=bf16 --comm=ps
--tune=check-sync needs equal parameters on all ranks: not with --comm=none | --comm=none --tune=check-sync=1
--tune=check-sync needs equal parameters on all ranks: not with --tune=staleness | --tune=staleness=1 --tune=check-sync=1
--comm=lowrank:0: expected a rank from 1 to 1024 behind the colon, as lowrank:4 | --comm=lowrank:0
--comm=lowrank:x: expected a rank from 1 to 1024 behind the colon, as lowrank:4 | --comm=lowrank:x
--comm=onebit:2: expected one of auto, paper, none, ps, .*, lowrank | --comm=onebit:2
--comm=lowrank:1000: no layer's gradient is large enough for factors of rank 1000 | --comm=lowrank:1000
--tune=lowrank-warmup=3 needs --comm=lowrank or --lossy=lowrank | --tune=lowrank-warmup=3 --comm=onebit
--tune=lowrank-warmup=0 needs --comm=lowrank or --lossy=lowrank | --tune=lowrank-warmup=0 --lossy=bf16
--tune=staleness=2 needs --comm=ps | --tune=staleness=2 --comm=lowrank
--lossy=bf16,fp8: unknown word 'fp8'; expected some of bf16, onebit, lowrank:R | --lossy=bf16,fp8
--lossy=onebit,onebit: 'onebit' appears twice; give it once | --lossy=onebit,onebit
--lossy=lowrank:x: expected a rank from 1 to 1024 behind the colon, as lowrank:4 | --lossy=lowrank:x
--lossy=bf16,onebit lists schemes for --comm=auto to choose from, but --comm=ps leaves no choice | --lossy=bf16,onebit --comm=ps
--lossy=bf16 lists schemes for --comm=auto to choose from, but --comm=none leaves no choice | --lossy=bf16 --comm=none
--lossy=onebit lists schemes for --comm=auto to choose from, but --comm=paper leaves | --lossy=onebit --comm=paper
--lossy=lowrank lists schemes for --comm=auto to choose from, but --comm=lowrank:2 leaves | --lossy=lowrank --comm=lowrank:2
--tune=wire=bf16 rounds all gradients, but --lossy=lowrank only gradients of layers where this is faster | --tune=wire=bf16 --lossy=lowrank
--tune=staleness sends exact gradients: not with --lossy | --tune=staleness=1 --lossy=onebit
--tune=staleness sends exact gradients: not with --lossy | --tune=staleness=1 --lossy=bf16
--on-nan=skip takes an update back, but --lossy=lowrank,bf16 would still send its rounding errors later | --on-nan=skip --lossy=lowrank,bf16
--lossy=lowrank:1000: no layer can travel by lowrank:1000; leave it out | --lossy=lowrank:1000 --tune=cluster-file=slow
--tune=staleness=2 needs --comm=ps | --tune=staleness=2 --comm=sfb
--tune=staleness=2 needs --comm=ps | --tune=staleness=2 --comm=none
--tune=staleness sends exact gradients: not with --tune=wire | --tune=staleness=2 --tune=wire=bf16
--hierarchy=2: .*: --tune=staleness gives every rank | --tune=staleness=1 --hierarchy=2
clip_gradients makes every update wait .* with --tune=staleness=1 | --tune=staleness=1 --set clip_gradients=1
local_lr_auto makes every update wait .* with --tune=staleness | --tune=staleness=1 --set local_lr_auto=true
lr_policy "plateau" .* with --tune=staleness | --tune=staleness=1 --set lr_policy=plateau --set plateau_winsize=2
--tune=ps-update updates parameters that all workers share: not with --tune=staleness | --tune=staleness=1 --tune=ps-update=device
local_lr_auto measures parameters on the host: .* with --tune=ps-update=device | --tune=ps-update=device --set local_lr_auto=true
--tune=ps-update=device: the engine 'cpu' computes in the host's memory | --tune=ps-update=device --engine=cpu
direct=on: the engine works in the host's memory | --tune=direct=on --engine=cpu
--hierarchy=2: .*: with --comm=none every rank trains its own net | --comm=none --hierarchy=2
--hierarchy=off,2: expected auto, off | --hierarchy=off,2
--hierarchy: 2 leaders per node need ranks that add up together; found none | --hierarchy=auto,2 --comm=ps
--keep-best is decided by the workers' test scores: not with --servers | --keep-best=accuracy --servers=1 --set test_iter=1 --set test_interval=1 --set snapshot=1 --snapshot-prefix=s
--reproducible needs --global-batch=N | --reproducible --batch=8
--reproducible: --global-batch=12 is no multiple of 8, the number of grains: give | --reproducible --global-batch=12
--reproducible: --global-batch=12 is no multiple of 5, the samples of a grain: give | --reproducible=5 --global-batch=12
--reproducible: 1 grain of 8 samples over 2 workers: expected at least one for each worker | --reproducible=8 --global-batch=8
--reproducible expects the number of samples in a grain, at least 1, found '0' | --reproducible=0 --global-batch=8
--reproducible expects the number of samples in a grain, at least 1, found '4x' | --reproducible=4x --global-batch=8
--reproducible adds up whole gradients: .*, found sfb | --reproducible --global-batch=8 --comm=sfb
--reproducible adds up whole gradients: .*, found onebit | --reproducible --global-batch=8 --comm=onebit
--reproducible adds up whole gradients: .*, found none | --reproducible --global-batch=8 --comm=none
--reproducible adds up whole gradients .*: not with --tune=staleness | --reproducible --global-batch=8 --tune=staleness=1
--tune=drop-stragglers=1 needs --comm=ps | --tune=drop-stragglers=1 --comm=sfb
--tune=drop-stragglers=1 needs --comm=ps | --tune=drop-stragglers=1 --comm=allreduce
--tune=drop-stragglers=1 needs --comm=ps | --tune=drop-stragglers=1 --comm=paper
--tune=drop-stragglers=1 needs --comm=ps | --tune=drop-stragglers=1 --comm=onebit
--tune=drop-stragglers=1 needs --comm=ps | --tune=drop-stragglers=1 --comm=lowrank
--tune=drop-stragglers=1 needs --comm=ps | --tune=drop-stragglers=1 --comm=none
--lossy=onebit lists schemes for --comm=auto to choose from, but --comm=ps leaves | --tune=drop-stragglers=1 --lossy=onebit
--tune=drop-stragglers goes on without the slowest workers: not with --tune=staleness | --tune=drop-stragglers=1 --tune=staleness=2
--tune=drop-stragglers=2 would drop every gradient of 2 workers | --tune=drop-stragglers=2
--tune=drop-stragglers=1 would drop every gradient of 1 worker: | --tune=drop-stragglers=1 --servers=1
--tune=drop-stragglers=0 is out of range: 1 to | --tune=drop-stragglers=0
--hierarchy=2: .*: --tune=drop-stragglers lets ranks go on without each other | --tune=drop-stragglers=1 --hierarchy=2
lr_policy "plateau" .* with --tune=drop-stragglers | --tune=drop-stragglers=1 --set lr_policy=plateau --set plateau_winsize=2
--tune=ps-update updates parameters that all workers share: not with --tune=drop-stragglers | --tune=drop-stragglers=1 --tune=ps-update=device
--reproducible adds up whole gradients .*: not with --tune=drop-stragglers | --reproducible --global-batch=8 --tune=drop-stragglers=1
--reproducible adds up whole gradients .*: not with --tune=wire | --reproducible --global-batch=8 --tune=wire=bf16
--reproducible adds up whole gradients .*: not with --lossy | --reproducible --global-batch=8 --comm=ps --lossy=bf16
--reproducible adds up whole gradients .*: not with --lossy | --reproducible --global-batch=8 --lossy=bf16
--reproducible adds up whole gradients: .*, found replay | --reproducible --global-batch=8 --engine=replay --tune=profile=profile.csv
--balance=3,x: expected 'once' or the workers' parts, numbers from 1 .*, found 'x' | --balance=3,x
--balance=3,0: expected 'once' or .*, found '0' | --balance=3,0
--balance=3,-1: expected 'once' or .*, found '-1' | --balance=3,-1
--balance=3,1,: expected 'once' or .*, found '' | --balance=3,1,
--balance=3,1,1 gives 3 parts for 2 workers | --balance=3,1,1
--balance=3,1 gives 2 parts for 1 worker: | --balance=3,1 --servers=1
--balance=3,2: 8 samples .* rank 0 would have 4.80; .* a multiple of 5 by --global-batch | --balance=3,2 --global-batch=8
--balance=9,1: 8 samples .* rank 0 would have 7.20; | --balance=9,1 --batch=4
--balance=3,2: 8 grains cannot be dealt in these parts: rank 0 would have 4.80; .* or --reproducible=GRAIN | --balance=3,2 --reproducible --global-batch=16
2 workers cannot share 1 samples of a pass: each worker needs one | --balance --global-batch=1
--balance deals one batch to all workers: not with --tune=drop-stragglers | --balance=3,1 --tune=drop-stragglers=1
--balance deals one batch to all workers: not with --comm=none | --balance=3,1 --comm=none
unlike shares need samples in one order for all workers: not with shared_file_system: false | --balance=3,1 --set net=own.prototxt
local_lr_auto measures each rank's share .* with --reproducible | --reproducible --global-batch=8 --set local_lr_auto=true
lr_policy "plateau" .* with --servers | --servers=1 --set lr_policy=plateau --set plateau_winsize=2
--epochs says when training ends: not with --max-iter | --epochs=3 --max-iter=5
--sync-bn adds up the statistics .* in every pass: not with --comm=none | --sync-bn --comm=none
--sync-bn adds up the statistics .* in every pass: not with --tune=staleness | --sync-bn --tune=staleness=1
--curves=a.csv and --curves=b.csv: expected one FILE.csv and one folder | --curves=a.csv --curves=b.csv
--curves=a and --curves=b: expected one FILE.csv and one folder | --curves=a --curves=b
END
"$POSEIDON" time --model=net.prototxt --batch=4 --iterations=1 --profile=profile.csv >time.log 2>&1 || fail 'poseidon time'
sed 's/^ranks = 4/ranks = 2/' "$abs_top_srcdir/tests/plan/box_slow.cluster" >slow
number=0
while IFS='|' read -r text options; do
    number=$((number + 1))
    {
        # shellcheck disable=SC2086 # words
        "$POSEIDON_MPIRUN" 2 "$POSEIDON" train --solver=solver.prototxt --threads=1 $options >$number.log 2>&1 </dev/null
        echo "status $?" >>$number.log
    } &
    [ $((number % 4)) -gt 0 ] || wait
done <pairs
wait
number=0
while IFS='|' read -r text options; do
    number=$((number + 1))
    same "$options: status" 1 "$(sed -n 's/^status //p' $number.log)"
    same "$options: messages" 1 "$(grep -c '^poseidon train: ' $number.log)"
    grep -q -e "^poseidon train: .*${text% }" $number.log || fail "$options: $(grep '^poseidon train: ' $number.log)"
    grep -q 'Iteration 0' $number.log && fail "$options: trained"
done <pairs
echo "$number pairs"
finish
