#!/bin/sh
# bench_shuffle.sh [READS_PER_SECOND]: images/s of training from an LMDB larger than the page cache, with and without --shuffle, in
# turns; with a number on a disk that makes so many reads a second. Asks for root, cgroups of version 1 and python3-lmdb;
# the LMDB, 2.3 GB, is made in the current folder. POSEIDON: the program.
set -eu
: "${POSEIDON:=poseidon}"
memory=/sys/fs/cgroup/memory/shuffle.$$ blkio=/sys/fs/cgroup/blkio/shuffle.$$
mkdir "$memory" "$blkio"
trap 'rmdir "$memory" "$blkio"' EXIT
echo 1G >"$memory/memory.limit_in_bytes"
[ -z "${1:-}" ] || stat -c '%Hd:%Ld' . | awk -v reads="$1" '{ sub(":.*", ":0"); print $0, reads }' >"$blkio/blkio.throttle.read_iops_device"

[ -d shuffle_lmdb ] || /usr/bin/python3 - <<'PY'
import lmdb, os, random
number = lambda n: bytes([n]) if n < 128 else bytes([n & 127 | 128]) + number(n >> 7)
size, noise = 3 * 192 * 192, os.urandom(1 << 22)
env = lmdb.open('shuffle_lmdb', map_size=1 << 33)
for start in range(0, 20000, 1000):
    with env.begin(write=True) as txn:
        for i in range(start, start + 1000):
            at = random.randrange(len(noise) - size)
            txn.put(b'%08d' % i, b'\x08\x03\x10' + number(192) + b'\x18' + number(192) + b'\x22' + number(size)
                    + noise[at:at + size] + b'\x28' + number(i % 10))
PY
cat >shuffle_net.prototxt <<'END'
layer { name: "d" type: "Data" top: "x" top: "y" data_param { source: "shuffle_lmdb" batch_size: 64 } transform_param { crop_size: 16 } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }
END
printf 'net: "shuffle_net.prototxt"\nbase_lr: 1e-5\nlr_policy: "fixed"\nmax_iter: 300\nsnapshot_after_train: false\n' >shuffle_solver.prototxt
for turn in 1 2 3; do
    for option in --set=random_seed=1 --shuffle; do
        /usr/bin/python3 -c 'import os
f = os.open("shuffle_lmdb/data.mdb", os.O_RDONLY)
os.fsync(f)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)'
        # shellcheck disable=SC2016 # the inner shell expands it
        sh -c 'echo $$ | tee "$1" >"$2"; exec "$3" train --solver=shuffle_solver.prototxt "$4"' sh "$memory/cgroup.procs" \
            "$blkio/cgroup.procs" "$POSEIDON" $option 2>&1 | sed -n "s/.*Trained iterations/turn $turn, $option:/p"
    done
done
