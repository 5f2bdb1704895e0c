#!/bin/sh
# What the command line puts in the place of a solver's fields, Caffe's own options, and --help: at most 80
# columns, with an example for every command.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
cat >net.prototxt <<'END'
layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: [2, 3] } shape { dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2
    weight_filler { type: 'xavier' } } }
layer { name: 'staged' type: 'ReLU' bottom: 'ip' top: 'ip' include { stage: 'extra' min_level: 3 } }
layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }
END
echo "net: 'net.prototxt' base_lr: 0.5 lr_policy: 'fixed' max_iter: 3 display: 1 snapshot_prefix: 's'" >solver.prototxt
train() {
    pattern=$1
    shift
    works "$pattern" train --solver=solver.prototxt "$@"
}

# --set: scalars, strings with and without quotes, lists, the last one wins
train '*Iteration 2, lr = 0.5*'
train '*Iteration 2, lr = 0.02*' --set base_lr=0.02
train '*Iteration 2, lr = 0.03*' --set=base_lr=0.02 --set base_lr=0.03
train '*Iteration 0, lr = 0.5*Iteration 1, lr = 0.05*Iteration 2, lr = 0.005*' --set lr_policy=multistep \
    --set stepvalue=1,2 --set gamma=0.1
train '*Iteration 2, lr = 0.5*' --set "lr_policy='fixed'" --set 'snapshot_prefix="other"'
[ -f other_iter_3.caffemodel ] || fail '--set snapshot_prefix is not used'
train '*' --set base_lr=0.25 --summary=s.json
has "$(cat s.json)" '"set": ?"base_lr=0.25"?' 'the summary'
refuses '*--set base_rl=1: a solver has no field "base_rl"; did you mean "base_lr"?*' train --solver=solver.prototxt --set base_rl=1
refuses '*--set base_lr: expected FIELD=VALUE such as base_lr=0.02*' train --solver=solver.prototxt --set base_lr
refuses '*--set base_lr=fast: expected a number*' train --solver=solver.prototxt --set base_lr=fast
refuses '*--set lr=0.1: a solver has no field "lr"; did you mean "base_lr"?*' train --solver=solver.prototxt --set lr=0.1
refuses '*--set type=adam: Unknown solver type: adam; did you mean Adam? (known types*' train --solver=solver.prototxt --set type=adam
works '*warning: --max-iter=9 is overridden by the later --max-iter=1*' train --solver=solver.prototxt --max-iter=9 --max-iter=1
refuses '*--set net_param={}: net_param is a block*' train --solver=solver.prototxt --set 'net_param={}'

# Caffe's own
train '*' -sigint_effect none -sighup_effect=stop
lacks "$out" staged 'no stage'
train '*staged*' -stage extra -level 3
train '*' -level 3
train '*' -phase TRAIN
sed "s/top: 'ip' include/top: 'ip' top: 'more' include/" net.prototxt >two_tops.prototxt
refuses "*layer 'staged' (ReLU)*" classify --model=two_tops.prototxt --weights=w -stage extra -level 3 x.png
refuses "*--phase=TEST: training runs the phase TRAIN; 'poseidon test' runs TEST*" train --solver=solver.prototxt -phase TEST
refuses '*--gpu=first: expected all, or the GPUs*' train --solver=solver.prototxt -gpu first
CUDA_VISIBLE_DEVICES=1
export CUDA_VISIBLE_DEVICES
refuses '*--gpu=0 and CUDA_VISIBLE_DEVICES=1 choose different GPUs*' train --solver=solver.prototxt -gpu 0
unset CUDA_VISIBLE_DEVICES
run train --solver=solver.prototxt -gpu all
[ "$status" -eq 0 ] || has "$err" 'cuda' '-gpu all without a GPU'

# --tune: names and values
train '*' --tune=chunk=1k --tune=no-fusion --math=fp32 -tune deterministic=true --tune=no-graphs=false
# what the engine does not use
for command in "test --model=n --weights=w" "time --model=n" "classify --model=n --weights=w x.png" \
    "extract --model=n --weights=w --blobs=x o.h5"; do
    for option in --tune=no-graphs --tune=workspace=1m; do
        # shellcheck disable=SC2086 # words
        refuses "*${option%=1*} is for --engine=cuda alone; the engine is cpu*" $command $option
    done
    # shellcheck disable=SC2086
    refuses "*--engine=replay computes nothing: it is for 'poseidon train' alone*" $command --engine=replay
    # shellcheck disable=SC2086
    refuses '*--tune=convolution is for --engine=cpu alone; the engine is cuda*' $command --engine=cuda --tune=convolution=direct
done
refuses "*--tune=chunck=1: unknown name; did you mean chunk? ('poseidon help tuning' lists all)*" \
    train --solver=solver.prototxt --tune chunck=1
refuses '*: unknown name (*' train --solver=solver.prototxt --tune "$(printf %0100d 0)=1"
refuses '*--tune=lars: unknown name*' train --solver=solver.prototxt --tune lars
refuses '*--tune=comm=ps: expected the separate option --comm*' train --solver=solver.prototxt --tune comm=ps
refuses '*--tune=chunk needs a value: --tune=chunk=SIZE*' train --solver=solver.prototxt --tune=chunk
refuses '*--tune=chunk expects a size such as 512k or 2m*' train --solver=solver.prototxt --tune=chunk=much
refuses '*--tune=order=last: expected urgency or fifo*' train --solver=solver.prototxt --tune=order=last
refuses '*--tune=no-fusion is a flag*' train --solver=solver.prototxt --tune=no-fusion=3
refuses '*--tune=staleness=65 is out of range: 0 to 64*' train --solver=solver.prototxt --tune=staleness=65
refuses '*--tune needs a value: --tune=NAME=VALUE*' train --solver=solver.prototxt --tune
refuses '*unknown option --chunck; did you mean --tune=chunk?*' train --solver=solver.prototxt --chunck=1

# values of several parts
refuses '*--hierarchy=2,x: expected auto, off, or a number of ranks per node*' train --solver=solver.prototxt --hierarchy=2,x
refuses '*--hierarchy=off,2: expected auto, off*' train --solver=solver.prototxt --hierarchy=off,2
refuses '*--on-signal=KILL=stop: expected effects of INT, HUP, TERM*' train --solver=solver.prototxt --on-signal=KILL=stop
refuses '*--on-signal=TERM=stop,: expected effects*' train --solver=solver.prototxt --on-signal=TERM=stop,
refuses '*"halt" was specified: --on-signal expects none, snapshot or stop*' train --solver=solver.prototxt --on-signal=TERM=halt
refuses '*--trace=,1-2 names no file*' train --solver=solver.prototxt --trace=,1-2
refuses '*--trace: iterations must be given as A-B*' train --solver=solver.prototxt --trace=t.json,2-1
refuses '*--resume is a flag: give it alone, or =true or =false' \
    train --solver=solver.prototxt --resume=x.solverstate
train '*' --trace=a,b.json,1-2
[ -s a,b.json ] || fail 'a comma in the name of a trace'
refuses "*unexpected word 'mine'*" train --solver=solver.prototxt --resume mine

# options of other commands that do not go together
refuses '*--gpu=0 trains on GPUs, and --engine=cpu does not; give one of them*' time --model=net.prototxt --gpu=0 --engine=cpu
refuses '*--gpu=0 trains on GPUs, and --engine=cpu does not*' test --model=net.prototxt --weights=w --engine=cpu --gpu=0
refuses '*--force-gray decodes to another number of channels: not with --force-color*' mean x.h5 --force-color --force-gray
refuses '*--encode-type has no effect without --encoded*' convert images . x_lmdb --encode-type=jpg
refuses '*--encoded is for LMDB*' convert images . x.h5 --encoded
refuses '*--gzip=3: expected 0 to 9, and HDF5*' convert images . x_lmdb --gzip=3
printf 'a.png 0\n' >list.txt
refuses '*--seed has no effect without --shuffle*' convert images list.txt x.h5 --seed=3
refuses '*--shuffle=maybe: expected false or true*' convert images list.txt x.h5 --shuffle=maybe

# --help
for command in train test time summary plan convert 'convert images' 'convert weights' mean classify extract upgrade doctor \
    device_query; do
    # shellcheck disable=SC2086 # two words
    works '*usage: poseidon*show this help and exit*example:*poseidon *' $command --help
    long=$(printf '%s\n' "$out" | awk 'length($0) > 80')
    [ -z "$long" ] || fail "$command --help has lines of more than 80 columns: $long"
    printf '%s\n' "$out" | grep -q ' $' && fail "$command --help has blanks at the end of lines"
done
works '*what to train:*communication:*reports:*' train --help
for page in help 'help layers' 'help tuning' --version; do
    # shellcheck disable=SC2086 # two words
    works '*' $page
    long=$(printf '%s\n' "$out" | awk 'length($0) > 80')
    [ -z "$long" ] || fail "$page has lines of more than 80 columns: $long"
done
finish
