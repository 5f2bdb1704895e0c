#!/bin/sh
# One question, one answer: on the figures of one cluster file, plan and a dry run of training choose as many layers for
# each way, over slow links and fast ones, with and without a cap on what a rank sends, with and without --lossy. The file
# stays as it was.
set -u
: "${POSEIDON:?}" "${POSEIDON_MPIRUN:?}"
. "${abs_top_srcdir:?}/tests/common.sh"

cat >net.prototxt <<'END'
name: "Three"
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 8 dim: 3 dim: 32 dim: 32 } shape { dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 96 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 128 kernel_size: 5 stride: 3 weight_filler { type: "xavier" } } }
layer { name: "fc1" type: "InnerProduct" bottom: "conv2" top: "fc1"
  inner_product_param { num_output: 512 weight_filler { type: "xavier" } } }
layer { name: "fc2" type: "InnerProduct" bottom: "fc1" top: "fc2"
  inner_product_param { num_output: 256 weight_filler { type: "xavier" } } }
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
: >seen

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
        # shellcheck disable=SC2086 # no option, or one
        "$POSEIDON" plan --model=net.prototxt --profile=profile.csv --nodes=1 --ranks-per-node=4 --hierarchy=off \
            --iter-size="$passes" --cluster-file=cluster --json $more >plan.json 2>said || fail "plan: $(cat said)"
        planned=$(awk -F'"' '/"scheme_by_layer"/ { on = 1; next } /}/ { on = 0 } on { of[$4]++ }
            END { for (way in of) print of[way], way }' plan.json | sort)
        # shellcheck disable=SC2086
        "$POSEIDON_MPIRUN" 4 "$POSEIDON" train --solver=passes.prototxt --engine=replay --profile=profile.csv \
            --hierarchy=off --dry-run --cluster-file=cluster $more >dry 2>said || fail "train: $(head -n 1 said)"
        trained=$(sed -n 's/^plan  *//p' dry | tr ',' '\n' | sed -n 's/^ *\([0-9]*\) layers* by /\1 /p' | tr A-Z a-z |
            sed 's/low rank /lowrank:/; s/ bf16/\/bf16/; s/1-bit/onebit/' | sort)
        same "link $link $more, iter_size $passes" "$planned" "$trained"
        echo "$planned" >>seen
        cmp -s cluster before || fail "link $link $more: the dry run changes its cluster file"
    done
done
# else all of this would say nothing
grep -q 'lowrank\|bf16\|onebit' seen || fail 'nothing lossy was taken'
[ "$(sort -u seen | wc -l)" -ge 2 ] || fail "one choice for all: $(sort -u seen)"
finish
