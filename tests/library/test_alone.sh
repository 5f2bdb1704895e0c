#!/bin/sh
# The objects of libposeidon.so link alone: nothing but MPI and the C library is missing in them, nothing but the
# functions of include/poseidon.h leaves them, and the three steps of examples/c are built with the header and run.
. "${abs_top_srcdir:?}/tests/common.sh"
library=${abs_top_builddir:?}/libposeidon.so.1
[ -f "$library" ] || { echo 'skipped: no libposeidon.so (configure --enable-library)'; exit 77; }

declared=$(sed -n 's/^POSEIDON_API .*\(poseidon_[a-z_]*\)(.*/\1/p' "$abs_top_srcdir/include/poseidon.h" | LC_ALL=C sort)
[ "$(printf '%s\n' "$declared" | wc -l)" -ge 15 ] || fail "the header declares $declared"
same 'what leaves the library' "$declared" "$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' |
    sed 's/@.*//' | grep -v '^__asan\|^__tsan\|^__ubsan' | LC_ALL=C sort)"
same 'what leaves it of version 1, and what poseidon.map lists' \
    "$(sed -n '/^POSEIDON_1 {/,/^}/s/^ *\(poseidon_[a-z_]*\);$/\1/p' "$abs_top_srcdir/src/comm/library/poseidon.map" | LC_ALL=C sort)" \
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
        grep -v '^libmpi\.so\|^libc\.so\|^libm\.so\|^libpthread\.so\|^libdl\.so\|^libgcc_s\.so\|^ld-linux\|^libgcov')
    same 'which libraries it is linked with' '' "$needed"
fi
readelf -d "$library" | grep -q 'SONAME.*\[libposeidon.so.1\]' || fail 'no name of its own'

# the examples; their flags are those of the build, for a sanitizer is the whole program's
mkdir include
cp "$abs_top_srcdir/include/poseidon.h" include
for step in step1_average step2_factors step3_resume; do
    # shellcheck disable=SC2086 # a compiler may have options, and flags are several
    ${CC:-mpicc} $POSEIDON_CFLAGS -O3 -std=c11 -Wall -Wextra -Iinclude "$abs_top_srcdir/examples/c/$step.c" -o $step "$library" \
        -Wl,-rpath,"$abs_top_builddir" -lm >build.log 2>&1 || { cat build.log; fail "$step is not built"; finish; }
    [ ! -s build.log ] || { cat build.log; fail "$step is built with warnings"; }
done
if command -v c++ >/dev/null; then
    printf '#include <poseidon.h>\nint main() { return poseidon_error()[0]; }\n' >plus.cc
    # shellcheck disable=SC2046,SC2086 # words
    c++ -fsyntax-only -Wall -Wextra -Iinclude -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $(${CC:-mpicc} -showme:compile 2>/dev/null) plus.cc || fail 'the header in C++'
fi

# installed under a prefix of one's own, as docs/library.md compiles it: it finds the library without LD_LIBRARY_PATH
if command -v pkg-config >/dev/null; then
    mkdir -p there/lib/pkgconfig there/include
    cp "$library" there/lib
    ln -s libposeidon.so.1 there/lib/libposeidon.so
    cp include/poseidon.h there/include
    sed "s|^prefix=.*|prefix=$PWD/there|; s|^libdir=.*|libdir=\${prefix}/lib|; s|^includedir=.*|includedir=\${prefix}/include|" \
        "$abs_top_builddir/poseidon.pc" >there/lib/pkgconfig/poseidon.pc
    # shellcheck disable=SC2046,SC2086 # words
    ${CC:-mpicc} $POSEIDON_CFLAGS -O3 "$abs_top_srcdir/examples/c/step1_average.c" -o installed \
        $(PKG_CONFIG_PATH=$PWD/there/lib/pkgconfig pkg-config --cflags --libs poseidon) >build.log 2>&1 || { cat build.log; fail 'by pkg-config'; }
    env -u LD_LIBRARY_PATH "$POSEIDON_MPIRUN" 2 ./installed >step.log 2>&1 || { cat step.log; fail 'a program that pkg-config has linked'; }
fi

# step RANKS PROGRAM [ARGUMENT...]
step() {
    "$POSEIDON_MPIRUN" "$@" >step.log 2>&1 || fail "$*:"
    cat step.log
}
step 2 ./step1_average
same 'means of two ranks' '999.50 1998.50 2997.50' "$(sed -n 's/.* ends with //p' step.log | tr '\n' ' ' | sed 's/ $//')"
for ranks in 1 2 4; do
    step $ranks ./step2_factors comm=sfb
done
step 3 ./step2_factors comm=ps
sed -n 's/^loss \([0-9.]*\) at first, \([0-9.]*\) .*/\1 \2/p' step.log |
    awk '$2 > 0 && $2 < $1 / 4 { learnt++ } END { exit learnt != 3 }' || fail 'step2_factors does not learn'

# step 3: what continues ends as what was not stopped, and what is lost on the way comes later
step 2 ./step3_resume exact comm=ps,hierarchy=off
exact=$(sed -n 's/^iteration 200: loss //p' step.log)
step 2 ./step3_resume lossy
lossy=$(sed -n 's/^iteration 200: loss //p' step.log)
step 2 ./step3_resume lossy
same 'the first iteration of a run that continues' 'iteration 100' "$(sed -n '1s/:.*//p' step.log)"
same 'its loss' "$lossy" "$(sed -n 's/^iteration 200: loss //p' step.log)"
[ "$exact" != "$lossy" ] || fail 'nothing was rounded'
awk "BEGIN { exit !($exact > 0 && $lossy < 1.02 * $exact) }" || fail "loss $exact without, $lossy with low rank"
head -c 5000 lossy >cut
"$POSEIDON_MPIRUN" 2 ./step3_resume cut >step.log 2>&1 && fail 'a checkpoint that was cut is taken'
finish
