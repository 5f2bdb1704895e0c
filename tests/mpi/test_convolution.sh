#!/bin/sh
# --tune=convolution: who is refused, and what each of its words does, on AVX2 as on what this processor has.
. "$abs_top_srcdir/tests/mpi/common.sh"
POSEIDON_CACHE=$work/cache
export POSEIDON_CACHE
cat >net.prototxt <<'END'
name: "small"
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 16 dim: 16 dim: 32 dim: 32 } shape { dim: 16 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "first" type: "Convolution" bottom: "data" top: "first"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "second" type: "Convolution" bottom: "first" top: "second"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "third" type: "Convolution" bottom: "second" top: "third"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "pool" type: "Pooling" bottom: "third" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
END
make_solver solver.prototxt 'max_iter: 3' 'snapshot_after_train: false' 'display: 1' 'lr_policy: "fixed"'

"$POSEIDON" time --model=net.prototxt --tune=convolution=fast >out 2>&1 && fail "time took --tune=convolution=fast"
grep -q 'convolution=fast: expected auto, direct or winograd' out || fail "the refusal is '$(cat out)'"
"$POSEIDON_MPIRUN" 1 "$POSEIDON" train --solver=solver.prototxt --tune=convolution=direct : -n 1 "$POSEIDON" train \
    --solver=solver.prototxt --tune=convolution=winograd >out 2>&1 </dev/null && fail 'ranks may differ'
grep -q -- '--tune=convolution differs: direct on rank 0; winograd on rank 1' out || fail "ranks differ: $(tail -n 3 out)"

for isa in ALL AVX2; do
    ONEDNN_MAX_CPU_ISA=$isa DNNL_MAX_CPU_ISA=$isa
    export ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA
    for how in direct winograd auto; do
        for ranks in 1 2; do
            train $ranks $how.$ranks --solver=solver.prototxt --tune=convolution=$how || fail "$how on $ranks: $(tail -n 3 $how.$ranks)"
            all_losses $how.$ranks >losses.$how.$ranks
            close_losses losses.direct.$ranks losses.$how.$ranks || fail "$how on $ranks ranks is another training"
        done
    done
    grep 'Algorithms chosen.*Winograd' direct.1 && fail 'direct is not direct'
    grep -q 'Algorithms chosen: first (Winograd), second (Winograd), third (Winograd)' winograd.1 ||
        fail "not Winograd though asked for: $(grep Algorithms winograd.1)"
    # 64 million operations and more; the third has fewer
    grep -q 'Algorithms chosen: first (Winograd), second (Winograd)' auto.2 || fail "auto chose $(grep Algorithms auto.2)"
    grep 'Algorithms chosen.*third' auto.2 && fail 'a small convolution goes by Winograd'
    # known by the shape: nothing is measured, nor kept
    [ ! -e cache/convolutions ] || fail "measured: $(cat cache/convolutions)"
    for how in direct winograd; do
        "$POSEIDON" time --model=net.prototxt --iterations=1 --tune=convolution=$how >time.$how 2>&1 || fail "time: $(tail -n 3 time.$how)"
    done
    grep 'algorithm: Winograd' time.direct && fail 'time is not direct'
    grep -q 'third.*algorithm: Winograd' time.winograd || fail 'time does not name Winograd'
done
finish
