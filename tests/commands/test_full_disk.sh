#!/bin/sh
# Every command that writes, on a disk that is full, has little left, may not be written, or is beyond a quota: one message
# with the reason, status 1, and nothing stays behind.
set -u
if [ "${1:-}" != inside ] && unshare -m true 2>/dev/null; then
    exec unshare -m sh "$0" inside
fi
. "$abs_top_srcdir/tests/commands/common.sh"
mkdir disk
mounted=
if [ "${1:-}" = inside ] && mount -t tmpfs -o size=1m none disk 2>/dev/null; then
    mounted=yes
    trap 'umount "$folder/disk"; rm -rf "$folder"' EXIT
else
    echo 'left out: full and read-only disks (needs the right to mount)'
fi
case $("$POSEIDON" --version) in *JPEG*PNG*) ;; *) echo 'SKIP: built without JPEG or PNG'; exit 77 ;; esac
lmdb=$("$POSEIDON" --version | grep -c LMDB)

mkdir -p photos/a photos/b
for k in 1 2 3 4 5 6 7 8 9; do
    cp "$abs_top_srcdir/tests/data/input/images/color.jpg" photos/a/$k.jpg
    cp "$abs_top_srcdir/tests/data/input/images/color.png" photos/b/$k.png
done
works '*' convert images photos set.h5
cat >net.prototxt <<'EOF'
layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { source: 'set.h5' batch_size: 9 } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 8 kernel_size: 5 weight_filler { type: 'xavier' } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
EOF
echo "net: 'net.prototxt' base_lr: 0.001 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'w' snapshot_format: HDF5" >solver.prototxt
works '*' train --solver=solver.prototxt
weights=w_iter_1.caffemodel.h5

# denied REASON COMMAND...: what is in the folder afterwards is what was there before
denied() {
    reason=$1
    shift
    before=$(ls -A disk)
    run "$@"
    [ "$status" -eq 1 ] || fail "$reason: $*: status $status"
    has "$err" "*poseidon $1: *disk*$reason*" "$*"
    same "$reason: $*: what is left" "$before" "$(ls -A disk)"
}

# all REASON
all() {
    while read -r words; do
        # shellcheck disable=SC2086 # words
        set -- "$1" $words
        case $words in
        *_lmdb* | *--databases*) [ "$lmdb" -gt 0 ] || continue ;;
        *--curves*) [ -z "${LD_PRELOAD:-}" ] || continue ;; # by stdio, which is not intercepted
        esac
        denied "$@"
    done <<END
convert images photos disk/x.h5
convert images photos disk/x_lmdb
convert images photos disk/x_lmdb --encoded
convert images photos disk/x.h5 --split=0.5
mean set.h5 disk/mean.h5
mean set.h5 disk/mean.binaryproto
extract --model=net.prototxt --weights=$weights --blobs=ip,conv disk/x.h5
extract --model=net.prototxt --weights=$weights --blobs=ip --databases=disk/x_lmdb
convert weights $weights disk/x.caffemodel
convert weights $weights disk/x.caffemodel.h5
upgrade net.prototxt disk/x.prototxt
time --model=net.prototxt --iterations=1 --profile=disk/x.csv
test --model=net.prototxt --weights=$weights --confusion=disk/x.csv
train --solver=solver.prototxt --snapshot-prefix=disk/x
train --solver=solver.prototxt --force --summary=disk/x.json
train --solver=solver.prototxt --force --tune=log=disk/x.jsonl
train --solver=solver.prototxt --force --curves=disk/x.csv
train --solver=solver.prototxt --force --curves=disk/x
END
}

if [ -n "$mounted" ]; then
    dd if=/dev/zero of=disk/fill bs=4k count=1000 2>/dev/null
    all 'No space left on device'
    truncate -s -64k disk/fill
    denied 'No space left on device' extract --model=net.prototxt --weights=$weights --blobs=conv disk/x.h5
    if [ "$lmdb" -gt 0 ]; then
        denied 'No space left on device' convert images photos disk/x_lmdb --resize=64
        denied 'No space left on device' extract --model=net.prototxt --weights=$weights --blobs=conv --databases=disk/x_lmdb
    fi
    rm disk/fill
    mount -o remount,ro disk
    all 'Read-only file system'
    mount -o remount,rw disk
fi

# A quota: writes are refused, files can be made.
cat >quota.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
static int is_over(int fd)
{
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) < 0 || !strstr(path, "/disk/"))
        return 0;
    errno = EDQUOT;
    return 1;
}
#define WRITER(name, type, parameters, arguments)                                                       \
    ssize_t name parameters                                                                             \
    {                                                                                                   \
        ssize_t(*next) type = (ssize_t(*) type)dlsym(RTLD_NEXT, #name);                                 \
        return is_over(fd) ? -1 : next arguments;                                                       \
    }
WRITER(write, (int, const void *, size_t), (int fd, const void *b, size_t n), (fd, b, n))
WRITER(pwrite, (int, const void *, size_t, off_t), (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRITER(pwrite64, (int, const void *, size_t, off64_t), (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
WRITER(pwritev, (int, const struct iovec *, int, off_t), (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
END
if ! sanitized && ${CC:-cc} -shared -fPIC -o quota.so quota.c -ldl 2>cc.log; then
    LD_PRELOAD=$folder/quota.so
    export LD_PRELOAD
    all 'Disk quota exceeded'
    unset LD_PRELOAD
else
    echo "left out: a quota (needs a C compiler, and no sanitizer): $(head -n 1 cc.log)"
fi
finish
