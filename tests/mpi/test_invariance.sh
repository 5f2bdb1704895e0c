#!/bin/sh
# One global batch, one training: 1, 2 and 4 ranks, every scheme, with and without overlap, shared and
# dedicated servers show the same losses; the same command twice gives the same parameters, bit for bit.
#
# Sums over another number of ranks are rounded otherwise, by some 1e-7. A smooth net keeps it so: LeNet
# with AVE pooling and without its ReLU is held to 1e-4 over 20 iterations (make check-long: 100). A ReLU whose input is that
# close to zero, or a MAX window whose two largest values are, turns the difference into one of its whole
# gradient, and training doubles that every few iterations (one process with one and with two threads
# differs as much, and so does PyTorch's): LeNet as it is is held to 1e-4 over 10 iterations, in which
# wrong samples or masks would long have shown.
. "$abs_top_srcdir/tests/mpi/common.sh"
sed -i 's/pool: MAX/pool: AVE/' net.prototxt
awk '/^layer/ { text = $0; next } text { text = text "\n" $0 } !text { print }
    /^}/ { if (text !~ /"ReLU"/) print text; text = "" }' net.prototxt >smooth && mv smooth net.prototxt
many=${POSEIDON_ALL:+100}
many=${many:-20}
make_solver solver.prototxt 'display: 1' "max_iter: $many" 'snapshot_after_train: false'

losses() {
    sed -n 's/.*Iteration \([0-9]*\) (.*), loss = \(.*\)$/\1 \2/p' "$1"
}

# run NAME RANKS OPTION...
run() {
    name=$1 ranks=$2
    shift 2
    train "$ranks" "$name.log" --solver=solver.prototxt --global-batch=$batch --summary="$name.json" "$@" || {
        fail "$name did not train:"
        tail -n 20 "$name.log"
        return
    }
    losses "$name.log" >"$name.loss"
    [ "$name" = one ] && return
    paste -d ' ' one.loss "$name.loss" | head -n "$many" | awk -v name="$name" -v many="$many" '
        NF != 4 || $1 != $3 { print name ": not the same iterations: " $0; exit wrong = 1 }
        { d = $2 - $4; if (d < 0) d = -d; d /= $2; if (d > worst) { worst = d; at = $1 } }
        END {
            if (wrong) exit 1
            printf "%-36s worst relative difference of %d losses: %.1e, at iteration %d\n",
                name, NR, worst, at
            exit !(NR == many && worst <= 1e-4)
        }' || fail "$name: losses differ from those of one rank by more than 1e-4"
}

# half COMM A B: four of the eight combinations of ranks, servers and overlap; B for A gives the others
half() {
    run "$1-$2-2-shared" 2 --comm="$1" --tune=overlap="$2"
    run "$1-$3-4-shared" 4 --comm="$1" --tune=overlap="$3" --tune=chunk=100k
    run "$1-$3-4-of-which-1-server" 4 --comm="$1" --tune=overlap="$3" --servers=1
    run "$1-$2-4-of-which-2-servers" 4 --comm="$1" --tune=overlap="$2" --servers=2
}

# Each scheme meets each number of servers and each overlap; POSEIDON_ALL (make check-long) asks for all combinations.
batch=48
run one 1
half ps wfbp none
half sfb none wfbp
half paper wfbp none
if [ -n "${POSEIDON_ALL:-}" ]; then
    half ps none wfbp
    half sfb wfbp none
    half paper none wfbp
fi

# Other schemes, and numbers of ranks that are no powers of two.
batch=84
run one 1
run ps-7-shared 7 --comm=ps
run allreduce-3 3 --comm=allreduce
run allreduce-7 7 --comm=allreduce --tune=chunk=40k
run adam-3 3 --comm=adam
run adam-7-of-which-1-server 7 --comm=adam --servers=1 --tune=overlap=backward
run auto-4 4 --comm=auto
run sfb-4-in-nodes-of-2 4 --comm=sfb --hierarchy=2
run ps-3-in-nodes-of-2 3 --comm=ps --hierarchy=2
run allreduce-7-in-nodes-of-3 7 --comm=allreduce --hierarchy=3
run paper-7-in-nodes-of-2-and-1-server 7 --comm=paper --hierarchy=2 --servers=1 --tune=overlap=none
run ps-one-node-of-4 4 --comm=ps --hierarchy=4
batch=96

make_net net.prototxt
many=10
run one 1 --max-iter=10
run max-ps-4-shared 4 --max-iter=10 --comm=ps
run max-sfb-4-of-which-1-server 4 --max-iter=10 --comm=sfb --servers=1
run paper-wfbp-2-shared 2
run paper-wfbp-4-of-which-1-server 4 --servers=1
for again in paper-wfbp-2-shared paper-wfbp-4-of-which-1-server; do
    case $again in
    *2-shared) train 2 again.log --solver=solver.prototxt --global-batch=96 --summary=again.json ;;
    *) train 4 again.log --solver=solver.prototxt --global-batch=96 --servers=1 --summary=again.json ;;
    esac
    first=$(hash_of $again.json) second=$(hash_of again.json)
    [ -n "$first" ] && [ "$first" = "$second" ] || fail "$again twice: $first, then $second"
done

# What learns gives the size of what is cropped, as in U-nets and FCNs.
awk '/^layer/ { n++ } n < 3' net.prototxt >crop && mv crop net.prototxt
filler='weight_filler { type: "xavier" }'
cat >>net.prototxt <<END
layer { name: "h" type: "Convolution" bottom: "data" top: "h" convolution_param { num_output: 8 kernel_size: 5 $filler } }
layer { name: "d" type: "Convolution" bottom: "h" top: "d" convolution_param { num_output: 8 kernel_size: 2 stride: 2 $filler } }
layer { name: "u" type: "Deconvolution" bottom: "d" top: "u" convolution_param { num_output: 8 kernel_size: 4 stride: 2 $filler } }
layer { name: "c" type: "Crop" bottom: "u" bottom: "h" top: "c" crop_param { offset: 1 } }
layer { name: "s" type: "Eltwise" bottom: "c" bottom: "h" top: "s" }
layer { name: "y" type: "InnerProduct" bottom: "s" top: "y" inner_product_param { num_output: 10 $filler } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }
END
run one 1 --max-iter=10
run crop-ps-2 2 --max-iter=10 --comm=ps
run crop-sfb-2 2 --max-iter=10 --comm=sfb
finish
