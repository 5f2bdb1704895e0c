#!/bin/sh
# Every wrong word that poseidon plan is given is refused in one message with what was wanted.
set -u
. "${abs_top_srcdir:?}/tests/common.sh"
sh "$abs_top_srcdir/tests/data/cost/vgg19.sh" 21841 32 >vgg19_22k.prototxt || exit 1
net=$folder/vgg19_22k.prototxt

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    said=$("$POSEIDON" plan "$@" 2>&1) && fail "$*: accepted"
    [ "$(echo "$said" | grep -vc "^layer 'data'\|^warning: ")" -eq 1 ] || fail "$*: not one message: $said"
    case $said in
    *"$pattern"*) ;;
    *) fail "$*: expected '$pattern', found '$said'" ;;
    esac
}

refuses 'Need a model definition: --model=FILE'
refuses "$folder/absent" --model="$folder/absent"

# ---- profiles ----

grep -o 'name: "[^"]*" type: "[A-Z]' "$net" | sed 's/name: "\(.*\)" type.*/\1,-,0.01,0.02/' >profile.csv
sed -i '1i layer,type,forward_s,backward_s' profile.csv
sed /^fc7,/d profile.csv >other.csv
sed '1i # input 64 3 224 224' profile.csv >batch.csv
refuses "other.csv: there is no line for layer 'fc7' of " --model="$net" --profile=other.csv
refuses 'holds the times of a batch of 64 samples a pass, and here a pass takes 32' --model="$net" --profile=batch.csv
refuses 'nothing.csv' --model="$net" --profile=nothing.csv
mkdir nets # profiles are found beside the folder of the net, wherever the build is
cp "$net" nets
ln -s "$abs_top_srcdir/models/profiles" profiles
refuses "no times of the net 'nets' on that device: titanx-nets.csv is not in models/profiles" --model="$folder/nets/vgg19_22k.prototxt" --profile=titanx
net=$abs_top_srcdir/models/vgg19_22k/train_val.prototxt
refuses 'profile titan is neither a device (k20, titanx, p100, p40, v100, a100, h100, h200, cpu) nor a file' --model="$net" --profile=titan
refuses 'holds the times of a batch of 32 samples a pass, and here a pass takes 64' --model="$net" --profile=titanx --batch=64

# ---- the message, then the arguments ----

net=$folder/vgg19_22k.prototxt
printf '%s\n' 'ranks = 4' 'ranks_per_node = 2' 'latency_seconds = 1e-4' 'message_seconds = 1e-5' 'link_bytes_per_second = 2.5e8' \
    'local_bytes_per_second = 4e9' 'gemm_flops = 3e11' 'copy_bytes_per_second = 8e9' 'sum_bytes_per_second = 7e9' \
    'served_bytes_per_second = 0' 'transport_bytes_per_second = 1e9' 'core_share = 0' >cluster
options=$("$POSEIDON" plan --help | grep -c '^  --')
[ "$options" -le 31 ] || fail "--help lists $options options"
sed '3s/.*/nonsense/' cluster >line.file
echo '{"ranks": 4}' >json.file
sed '$s/.*//' cluster >short.file
while IFS='|' read -r message first second third; do
    for arguments in "$first" ${second:+"$second"} ${third:+"$third"}; do
        # shellcheck disable=SC2086 # words
        refuses "$message" --model="$net" $arguments
    done
done <<END
--bandwidth expects a rate with its unit|--bandwidth=10|--bandwidth=0Gb
is below 1 kbit/s; expected a rate such as 10Gb or 1.25GB|--bandwidth=1e-9Gb
--figure latency_seconds expects a time with its unit|--figure latency_seconds=30x
--figure copy_bytes_per_second expects a rate with its unit|--figure copy_bytes_per_second=x
: expected KEY=VALUE, such as latency_seconds=30us|--figure=latency|--figure==3
--figure: unknown figure 'latency_second'; did you mean 'latency_seconds'?|--figure latency_second=3
--figure: unknown figure 'ranks'|--figure ranks=3
--figure latency_seconds expects a time with its unit|--figure latency_seconds=10Gb
--figure sum_bytes_per_second expects a rate with its unit|--figure sum_bytes_per_second=x
--figure core_share expects a number, found 'much'|--figure core_share=much
--figure: core_share must be at most 8, found 9|--figure core_share=9
--figure: gemm_flops must be more than 0, found 0|--figure gemm_flops=0
expects a number above 0|--images-per-second=0
--nodes expects whole numbers from 1 to 65536 such as 1,2,4|--nodes=1,,2|--nodes=0|--nodes=1000000000
--nodes=2,2: 2 appears twice|--nodes=2,2
--comm=best: expected one of auto, paper, none, ps, sfb, allreduce, adam, onebit, lowrank, poseidon, wfbp, caffe-ps, tf-ps, ring|--comm=best
--comm=lowrank:: expected a rank from 1 to 1024|--comm=lowrank:
--comm=lowrank:2x: expected a rank from 1 to 1024|--comm=lowrank:2x
--tune=overlap=some: expected none, backward or wfbp|--tune=overlap=some
--hierarchy=4: expected auto or off|--hierarchy=4
--tune=wire=fp8|--tune=wire=fp8
--servers=2 leaves no worker on 2 nodes: 2 ranks|--nodes=2 --servers=2
--servers=-1 is out of range|--servers=-1
--tune=chunk=2: a chunk holds at least one parameter|--tune=chunk=2
--tune=order=lifo: expected urgency or fifo|--tune=order=lifo
--ranks-per-node=100000 makes too many ranks of 16 nodes (at most 1048576)|--ranks-per-node=100000
--speeds expects numbers from 0.001 to 1000 such as 1,1,0.5, found|--speeds=1,,2|--speeds=1,0|--speeds=1,
--speeds expects numbers|--speeds=|--speeds=1;2|--speeds=nan
--speeds: at most 256 numbers|--speeds=$(yes 1 | head -n 257 | paste -sd, -)
--speeds: 2 speeds do not repeat over 3 nodes: expected --nodes in multiples of 2, or a speed for each node|--nodes=1,3 --speeds=1,2
--speeds: 3 speeds, but --nodes has 2 nodes at most|--nodes=2 --speeds=1,2,3
--balance needs --speeds=LIST, such as 1,1,0.5|--balance
--sync-bn adds up the statistics of all ranks in every pass: not with --comm=none|--sync-bn --comm=none
--switch expects NODES:X|--switch=32|--switch=0:4|--switch=4:0.5
line.file:3: expected KEY = NUMBER|--cluster-file=line.file
json.file:1: expected KEY = NUMBER|--cluster-file=json.file
short.file:12: the file ends without core_share|--cluster-file=short.file
none.file: no such file|--cluster-file=none.file
unknown option --bandwith; did you mean --bandwidth?|--bandwith=1Gb
END
said=$("$POSEIDON" plan --model="$net" --comm=lowrank:0 2>&1)
[ "${said##* }" = lowrank:4 ] || fail "names of systems behind a wrong rank: $said"
finish
