#!/bin/sh
# One question, one answer: on the figures of one cluster file, plan, a dry run of training and a program on libposeidon
# choose as many layers for each way, over slow links and fast ones, with and without a cap on what a rank sends, with and
# without --lossy, told that ranks do not add up together or left to find that such a file asks for messages. The file stays
# as it was. And without such a file all three share the machine's memory.
set -u
: "${POSEIDON:?}" "${POSEIDON_MPIRUN:?}"
. "${abs_top_srcdir:?}/tests/common.sh"

cat >net.prototxt <<'END'
name: "Three"
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 8 dim: 3 dim: 32 dim: 32 } shape { dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 96 kernel_size: 5 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 128 kernel_size: 5 stride: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "fc1" type: "InnerProduct" bottom: "conv2" top: "fc1"
  inner_product_param { num_output: 512 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "fc2" type: "InnerProduct" bottom: "fc1" top: "fc2"
  inner_product_param { num_output: 256 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc2" bottom: "label" }
END
cat >solver.prototxt <<END
net: "$folder/net.prototxt"
base_lr: 0.01
lr_policy: "fixed"
max_iter: 10
END
# no line for copies to a device: the replay engine has none
cat >profile.csv <<'END'
layer,type,forward_s,backward_s
data,-,0,0
conv1,-,0.003,0.006
conv2,-,0.003,0.006
fc1,-,0.001,0.002
fc2,-,0.001,0.002
loss,-,0.0001,0.0001
*,GEMM,0.0002,0
END
# the same for the library, whose tensors take what their layers do; the loss, which has none, goes with the last
cat >tensors <<'END'
conv1 0 96 75 0.003 0.006
conv2 0 128 2400 0.003 0.006
fc1 8 512 8192 0.001 0.002
fc2 8 256 512 0.0011 0.0021
END
: >seen

# by_plan, by_train, by_library OPTIONS: how many layers go in which way
by_plan() {
    "$POSEIDON" plan --model=net.prototxt --profile=profile.csv --nodes=1 --ranks-per-node=4 --json "$@" >plan.json 2>said ||
        fail "plan: $(cat said)"
    awk -F'"' '/"scheme_by_layer"/ { on = 1; next } /}/ { on = 0 } on { of[$4]++ }
        END { for (way in of) print of[way], way }' plan.json | sort
}
by_train() {
    "$POSEIDON_MPIRUN" 4 "$POSEIDON" train --solver=passes.prototxt --engine=replay --tune=profile=profile.csv --dry-run "$@" \
        >dry 2>said || fail "train: $(head -n 1 said)"
    sed -n 's/^plan  *//p' dry | tr ',' '\n' | sed -n 's/^ *\([0-9]*\) layers* by /\1 /p' | plain
}
by_library() {
    "$POSEIDON_MPIRUN" 4 "$abs_top_builddir/tests/library/choice" "$1" tensors >library 2>said || fail "library: $(head -n 1 said)"
    sort library | uniq -c | sed 's/^ *//' | plain
}
# labels as --comm and --lossy have them
plain() {
    tr A-Z a-z | sed 's/low rank /lowrank:/; s/ bf16/\/bf16/; s/1-bit/onebit/' | sort
}

hierarchy=--hierarchy=off
for link in 0.02e9 0.1e9 0.4e9 1.25e9 5e9; do
    cat >cluster <<END
ranks = 4
ranks_per_node = 4
latency_seconds = 30e-6
message_seconds = 5e-6
link_bytes_per_second = $link
local_bytes_per_second = $link
gemm_flops = 100e9
copy_bytes_per_second = 10e9
sum_bytes_per_second = 10e9
served_bytes_per_second = 0
transport_bytes_per_second = 2.5e9
core_share = 0
END
    cp cluster before
    for variant in '1 ' '1 --tune=bandwidth-mbps=200' '4 ' '1 --lossy=bf16,lowrank:2,onebit'; do
        passes=${variant%% *} more=${variant#* }
        sed "\$a iter_size: $passes" solver.prototxt >passes.prototxt
        case $hierarchy in '') hierarchy=--hierarchy=off ;; *) hierarchy='' ;; esac # half of all
        # shellcheck disable=SC2086 # no option, or one
        {
            planned=$(by_plan --iter-size="$passes" --cluster-file=cluster $hierarchy $more)
            trained=$(by_train --tune=cluster-file=cluster $hierarchy $more)
        }
        same "link $link $hierarchy $more, iter_size $passes" "$planned" "$trained"
        if [ "$passes" -eq 1 ]; then # a program's passes are its own
            sed 's/^gemm_flops.*/gemm_flops = 5e12/' cluster >products # as the profile has it
            words=$(printf '%s' "cluster-file=products,order=urgency${hierarchy:+,${hierarchy#--}}${more:+,$more}" |
                sed 's/,--tune=/,/; s/,--/,/; s/bf16,lowrank:2,onebit/bf16+lowrank:2+onebit/')
            same "link $link $words: the library" "$planned" "$(by_library "$words")"
        fi
        echo "$planned" >>seen
        cmp -s cluster before || fail "link $link $more: the dry run changes its cluster file"
    done
done
# else all of this would say nothing
grep -q 'lowrank\|bf16\|onebit' seen || fail 'nothing lossy was taken'
[ "$(sort -u seen | wc -l)" -ge 2 ] || fail "one choice for all: $(sort -u seen)"
cp solver.prototxt passes.prototxt
same 'the library without figures' '4 -' "$(by_library order=urgency)"
by_plan >/dev/null
grep -q 'nothing is sent' plan.json || grep -q '"bytes_sent": 0\b' plan.json || fail "plan sends something: $(grep bytes plan.json | head -n 1)"
# replayed ranks stand for machines of their own: what trains is asked
printf 'net: "%s/net.prototxt"\nbase_lr: 0.01\nlr_policy: "fixed"\nmax_iter: 1\n' "$folder" >real.prototxt
"$POSEIDON_MPIRUN" 4 "$POSEIDON" train --solver=real.prototxt --dry-run >dry 2>said || fail "train: $(head -n 1 said)"
grep -q '^plan .*share' dry || fail "train sends something: $(grep ^plan dry)"

# Workers of unlike speed and shares to match, each on a machine of its own: the same choice, and the same seconds by every scheme.
for link in 0.02e9 0.4e9; do
    sed "s/^ranks_per_node.*/ranks_per_node = 1/; s/^\(link\|local\)_bytes.*/\1_bytes_per_second = $link/" before >cluster
    for passes in 2 4; do
        sed "s/max_iter.*/max_iter: 1 iter_size: $passes/" real.prototxt >passes.prototxt
        "$POSEIDON" plan --model=net.prototxt --nodes=4 --speeds=4,1,2,1 --balance --iter-size="$passes" --cluster-file=cluster --json \
            >plan.json 2>said || fail "plan: $(cat said)"
        LD_PRELOAD=$abs_top_builddir/tests/mpi/apart.so "$POSEIDON_MPIRUN" 4 "$POSEIDON" train --solver=passes.prototxt --dry-run \
            --balance=4,1,2,1 --tune=cluster-file=cluster >dry 2>said || fail "train: $(head -n 1 said)"
        same 'shares: what schemes add to these passes changes none' '[16,4,8,4]' "$(tr -d ' \n' <plan.json | sed 's/.*"shares":\(\[[^]]*\]\).*/\1/')"
        same "link $link, iter_size $passes: ways of unlike workers" "$(sed -n 's/^ *"schemes": "\(.*\)",/\1/p' plan.json | sed 's/, /\n/g' | plain)" \
            "$(sed -n 's/^plan  *//p' dry | grep -o '[0-9]* layers* by [^,]*' | sed 's/ layers* by//' | plain)"
        sed -n '/"seconds_by_comm"/,/}/p' plan.json | sed -n 's/^ *"\([a-z]*\)": \([0-9].*[0-9]\).*/\1 \2/p' >planned
        sed -n 's/.*Simulated time of an iteration by --comm: //p' said | sed 's/ (taken)//g; s/, /\n/g' |
            awk '{ print $1, $2 * ($3 == "s" ? 1 : 0.001) }' >played
        awk 'NR == FNR { of[$1] = $2; next } $1 in of { n++; if ((of[$1] / $2 - 1) ^ 2 > 1e-4) bad = 1 } END { exit bad || n < 4 }' planned played ||
            fail "link $link, iter_size $passes: seconds of unlike workers: planned $(paste -sd' ' planned), played $(paste -sd' ' played)"
    done
done
finish
