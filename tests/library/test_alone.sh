#!/bin/sh
# The objects of libposeidon.so link alone: nothing but MPI and the C library is missing in them, nothing but the
# functions of include/poseidon.h leaves them, and a program that is built with the header trains.
. "${abs_top_srcdir:?}/tests/common.sh"
library=${abs_top_builddir:?}/libposeidon.so.1
[ -f "$library" ] || { echo 'skipped: no libposeidon.so (configure --enable-library)'; exit 77; }

declared=$(sed -n 's/^POSEIDON_API .*\(poseidon_[a-z_]*\)(.*/\1/p' "$abs_top_srcdir/include/poseidon.h" | LC_ALL=C sort)
[ "$(printf '%s\n' "$declared" | wc -l)" -ge 15 ] || fail "the header declares $declared"
same 'what leaves the library' "$declared" "$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' |
    sed 's/@.*//' | grep -v '^__asan\|^__tsan\|^__ubsan' | LC_ALL=C sort)"
same 'what leaves it of version 1, and what poseidon.map lists' \
    "$(sed -n '/^POSEIDON_1 {/,/^}/s/^ *\(poseidon_[a-z_]*\);$/\1/p' "$abs_top_srcdir/src/library/poseidon.map" | LC_ALL=C sort)" \
    "$(readelf -W --dyn-syms "$library" | sed -n 's/.* \(poseidon_[a-z_]*\)@@POSEIDON_1$/\1/p' | LC_ALL=C sort)"
# a sanitizer's run-time has the C library's functions by names without versions, and brings libraries of its own
lacks=$(nm -D --undefined-only "$library" | awk '{ print $NF }')
if printf '%s\n' "$lacks" | grep -q '^__[atu][bs]*san_'; then
    echo 'left out: what the library lacks and is linked with, of a build with sanitizers'
else
    missing=$(printf '%s\n' "$lacks" |
        grep -v '^MPIX*_\|^OMPI_C_MPI_\|^ompi_\|@GLIBC\|@GCC\|^_ITM_\|^__gmon_start__$\|^__cxa_finalize\|^__gcov\|@LIBC')
    same 'what the library lacks' '' "$missing"
    needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -v '^libmpi\.so\|^libc\.so\|^libm\.so\|^libpthread\.so\|^libgcc_s\.so\|^ld-linux\|^libgcov')
    same 'which libraries it is linked with' '' "$needed"
fi
readelf -d "$library" | grep -q 'SONAME.*\[libposeidon.so.1\]' || fail 'no name of its own'

# the example; its flags are those of the build, for a sanitizer is the whole program's
mkdir include
cp "$abs_top_srcdir/include/poseidon.h" include
# shellcheck disable=SC2086 # a compiler may have options, and flags are several
${CC:-mpicc} $POSEIDON_CFLAGS -O3 -std=c11 -Wall -Wextra -Iinclude "$abs_top_srcdir/examples/c/perceptron.c" -o perceptron "$library" \
    -Wl,-rpath,"$abs_top_builddir" -lm >build.log 2>&1 || { cat build.log; fail 'the example is not built'; finish; }
[ ! -s build.log ] || { cat build.log; fail 'the example is built with warnings'; }
if command -v c++ >/dev/null; then
    printf '#include <poseidon.h>\nint main() { return poseidon_error()[0]; }\n' >plus.cc
    # shellcheck disable=SC2046,SC2086 # words
    c++ -fsyntax-only -Wall -Wextra -Iinclude -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $(${CC:-mpicc} -showme:compile 2>/dev/null) plus.cc || fail 'the header in C++'
fi

# digits and line ends for images, and labels: nothing is to be learnt, but all can be compared
mkdir made
seq 1 1000000 | head -c 4704016 | gzip >made/train-images-idx3-ubyte.gz
{ printf 12345678; yes "$(printf '\001\002\003\004\005\006\007\010\011')" | tr -d '\n' | head -c 6000; } | gzip >made/train-labels-idx1-ubyte.gz

# perceptron RANKS FOLDER [OPTIONS]
perceptron() {
    "$POSEIDON_MPIRUN" "$1" ./perceptron "$2" ${3:+"$3"} >perceptron.log 2>&1 || fail "$*:"
    cat perceptron.log
}
for ranks in 1 2 4; do
    perceptron $ranks made comm=sfb
done
perceptron 3 made comm=ps
real=
for folder_of in "${POSEIDON_DATA:-}/fashion-mnist" /usr/share/datasets/fashion-mnist; do
    [ -n "$real" ] || [ ! -f "$folder_of/train-images-idx3-ubyte.gz" ] || real=$folder_of
done
if [ -n "$real" ]; then
    perceptron 2 "$real"
    sed -n "s/^loss \([0-9.]*\),.*/\1/p" perceptron.log | awk "{ most = \$1 > most ? \$1 : most } END { exit !(most > 0 && most < 1.0) }" || fail "Fashion-MNIST is not learnt"
else
    echo 'left out: Fashion-MNIST itself (Debian: dataset-fashion-mnist)'
fi
finish
