#!/bin/sh
# --tune convolution: who is refused, what each of its words does, that ranks choose alike and a second run as the first.
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
layer { name: "pool" type: "Pooling" bottom: "second" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
END
make_solver solver.prototxt 'max_iter: 3' 'snapshot_after_train: false' 'display: 1' 'lr_policy: "fixed"'

"$POSEIDON" time --model=net.prototxt --tune=convolution=fast >out 2>&1 && fail "time took --tune convolution=fast"
grep -q 'convolution=fast: expected auto, direct or winograd' out || fail "the refusal is '$(cat out)'"
"$POSEIDON_MPIRUN" 1 "$POSEIDON" train --solver=solver.prototxt --tune=convolution=direct : -n 1 "$POSEIDON" train \
    --solver=solver.prototxt --tune=convolution=winograd >out 2>&1 </dev/null && fail 'ranks may differ'
grep -q -- '--tune convolution differs: direct on rank 0; winograd on rank 1' out || fail "ranks differ: $(tail -n 3 out)"

for how in direct winograd auto; do
    for ranks in 1 2; do
        train $ranks $how.$ranks --solver=solver.prototxt --tune=convolution=$how || fail "$how on $ranks: $(tail -n 3 $how.$ranks)"
        all_losses $how.$ranks >losses.$how.$ranks
        close_losses losses.direct.$ranks losses.$how.$ranks || fail "$how on $ranks ranks is another training"
    done
done
grep 'Algorithms chosen.*Winograd' direct.1 && fail 'direct is not direct'
"$POSEIDON" time --model=net.prototxt --iterations=1 --tune=convolution=direct 2>&1 | grep 'algorithm: Winograd' && fail 'time is not direct'
if grep -q 'Algorithms chosen: .*second (Winograd forward data weights)' winograd.1; then
    "$POSEIDON" time --model=net.prototxt --iterations=1 --tune=convolution=winograd 2>&1 |
        grep -q 'second.*algorithm: Winograd forward data weights' || fail 'time does not say so'
    # 64 million operations and more are measured, and kept where no other program was in the way
    train 2 again --solver=solver.prototxt && all_losses again >losses.again
    [ "$(sed 's/ [012]$//' cache/convolutions 2>/dev/null | sort | uniq -d | wc -l)" -eq 0 ] ||
        fail "measured again though known: $(cat cache/convolutions)"
    # what is known is followed: a file that says no, oneDNN's, our own; without the machine, for any
    for choice in 0 1 2; do
        for pass in forward backward_data backward_weights; do
            for outputs in 16 32; do
                echo "$pass,v2,nChw16c,n16,c16,32x32,o$outputs,32x32,g1,f3x3,p1x1,b1 $choice"
            done
        done >cache/convolutions
        train 2 follow.$choice --solver=solver.prototxt
        [ "$(wc -l <cache/convolutions)" -eq 6 ] || fail "measured though known: $(cat cache/convolutions)"
    done
    grep 'Algorithms chosen.*Winograd' follow.0 && fail 'Winograd though the file says no'
    grep -q 'first (Winograd forward weights), second (Winograd forward data weights)' follow.1 ||
        fail "not Winograd though the file says yes: $(grep Algorithms follow.1)"
    grep -q 'first (own Winograd forward weights), second (own Winograd forward data weights)' follow.2 ||
        fail "not our own though the file says so: $(grep Algorithms follow.2)"
    all_losses follow.2 >losses.follow
    close_losses losses.direct.2 losses.follow || fail 'our own is another training'
else
    echo 'oneDNN has no Winograd convolution here'
fi

# in blocks of 8 the shape alone decides, so that nothing is measured, nor kept
if grep -q avx2 /proc/cpuinfo 2>/dev/null; then
    rm -rf cache
    ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2
    export ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA
    for ranks in 1 2; do
        train $ranks avx2.$ranks --solver=solver.prototxt || fail "AVX2 on $ranks: $(tail -n 3 avx2.$ranks)"
        all_losses avx2.$ranks >losses.avx2
        close_losses losses.direct.$ranks losses.avx2 || fail "AVX2 on $ranks ranks is another training"
        grep -q 'first (own Winograd forward weights), second (own Winograd forward data weights)' avx2.$ranks ||
            fail "not our own: $(grep Algorithms avx2.$ranks)"
    done
    [ ! -e cache/convolutions ] || fail "measured: $(cat cache/convolutions)"
    "$POSEIDON" time --model=net.prototxt --iterations=1 2>&1 |
        grep -q 'second.*algorithm: own Winograd forward data weights' || fail 'time does not name our own'
fi
finish
