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
refuses '*--set:1:*base_lr*' train --solver=solver.prototxt --set base_lr=fast
refuses '*--set net_param={}: net_param is a block*' train --solver=solver.prototxt --set 'net_param={}'

# Caffe's own
train '*' -sigint_effect none -sighup_effect=stop
lacks "$out" staged 'no stage'
train '*staged*' -stage extra -level 3
train '*' -level 3
train '*' -phase TRAIN
refuses "*--phase=TEST: training is of phase TRAIN; 'poseidon test' scores*" train --solver=solver.prototxt -phase TEST
refuses '*--gpu=first: expected all, or the GPUs*' train --solver=solver.prototxt -gpu first
CUDA_VISIBLE_DEVICES=1
export CUDA_VISIBLE_DEVICES
refuses '*--gpu=0 and CUDA_VISIBLE_DEVICES=1 choose different GPUs*' train --solver=solver.prototxt -gpu 0
unset CUDA_VISIBLE_DEVICES
run train --solver=solver.prototxt -gpu all
[ "$status" -eq 0 ] || has "$err" 'cuda' '-gpu all without a GPU'

# --help
for command in train test time summary plan simulate convert 'convert images' mean classify extract draw upgrade doctor \
    report device_query; do
    # shellcheck disable=SC2086 # two words
    works '*usage: poseidon*show this help and exit*example:*poseidon *' $command --help
    long=$(printf '%s\n' "$out" | awk 'length($0) > 80')
    [ -z "$long" ] || fail "$command --help has lines of more than 80 columns: $long"
    printf '%s\n' "$out" | grep -q ' $' && fail "$command --help has blanks at the end of lines"
done
works '*what to train:*communication:*reports:*' train --help
for page in help 'help layers' --version; do
    # shellcheck disable=SC2086 # two words
    works '*' $page
    long=$(printf '%s\n' "$out" | awk 'length($0) > 80')
    [ -z "$long" ] || fail "$page has lines of more than 80 columns: $long"
done
finish
