#!/bin/sh
# --reproducible: one hash of the parameters of each net at any number of ranks and threads: LeNet by plain commands in
# grains of one sample, and random nets; POSEIDON_NETS of them, from POSEIDON_SEED on.
. "$abs_top_srcdir/tests/mpi/common.sh"
python=${POSEIDON_PYTHON:-python3}
command -v "$python" >/dev/null || exit 77

# run RANKS OPTION...: its hash, of which there must be one a net
run() {
    many=$1
    shift
    solved run "$many" "--global-batch=$batch" --reproducible "$@"
    [ -n "$first" ] || first=$(hash_of run.json)
    same "$net: $many ranks $*" "$first" "$(hash_of run.json)"
}

net=LeNet batch=8 first=''
make_solver solver.prototxt 'max_iter: 3' 'snapshot_after_train: false'
run 1
run 2
run 1 --threads=3

make_solver solver.prototxt 'max_iter: 2' 'snapshot_after_train: false'
seed=${POSEIDON_SEED:-1701}
end=$((seed + ${POSEIDON_NETS:-4}))
while [ "$seed" -lt "$end" ]; do
    "$python" "$abs_top_srcdir/tests/mpi/random_net.py" "$seed" "$abs_top_srcdir/data" >net.prototxt ||
        fail "no net of seed $seed"
    net="net of seed $seed" first='' batch=$((seed % 3 * 8 + 8))
    run 1 --threads=1
    run 1 --threads=$((2 + seed % 2))
    run 2 --threads=3
    run 4 --threads=1
    if [ -n "${POSEIDON_NETS:-}" ]; then
        run 8 --threads=2
        run 2 --threads=4 --comm=allreduce
        run 1 --threads=7
    fi
    seed=$((seed + 1))
done
finish
