#!/bin/sh
# fuzz.sh SECONDS [TARGET...]: runs the fuzz targets with clang's libFuzzer, address and undefined
# behaviour sanitizers, in a build folder of its own (./build-fuzz). What they find is left there.
set -eu
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
top=$(cd "$(dirname "$0")/../.." && pwd)
folder=${POSEIDON_FUZZ_BUILD:-$(pwd)/build-fuzz}
sanitize='-fsanitize=address,undefined -fno-sanitize-recover=undefined'

command -v clang >/dev/null || { echo 'clang is needed (Debian: clang)' >&2; exit 1; }
mkdir -p "$folder"
cd "$folder"
# Both names are asked for: Open MPI's wrapper and MPICH's.
OMPI_CC=clang MPICH_CC=clang
export OMPI_CC MPICH_CC
[ -f Makefile ] || "$top/configure" -q --without-cuda \
    CFLAGS="-O1 -g -Wno-pass-failed -fsanitize=fuzzer-no-link $sanitize" LDFLAGS="$sanitize"
make -s -j2 libprogram.a libcomm.a
# The flags to link with are the Makefile's.
libs=$(printf 'print:\n\t@echo $(LDADD)\ninclude Makefile\n' | make -s -f - print)
flags=$(printf 'print:\n\t@echo $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(AM_CFLAGS) $(CFLAGS)\ninclude Makefile\n' |
    make -s -f - print)

ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1
LSAN_OPTIONS="suppressions=$top/tests/lsan.supp:print_suppressions=0"
export ASAN_OPTIONS LSAN_OPTIONS
status=0
while read -r target seeds; do
    case $target in '#'*) continue ;; esac
    case " $* " in '  ' | *" $target "*) ;; *) continue ;; esac
    # Word splitting is meant: lists of flags and of files.
    # shellcheck disable=SC2086
    mpicc $flags -I"$top/tests/fuzz" -fsanitize=fuzzer $sanitize -o "fuzz_$target" \
        "$top/tests/fuzz/fuzz_$target.c" $libs
    mkdir -p "corpus_$target"
    for seed in $seeds; do
        [ ! -e "$top/$seed" ] || find "$top/$seed" -type f -exec cp -f {} "corpus_$target/" \;
    done
    echo "== $target, $seconds s"
    "./fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -malloc_limit_mb=1024 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$target-" "corpus_$target" >"fuzz_$target.log" 2>&1 </dev/null || {
        status=1
        echo "$target: FAILED; see $folder/fuzz_$target.log"
    }
    grep -E 'stat::number_of_executed|stat::average_exec|SUMMARY|cov:' "fuzz_$target.log" | tail -n 3
done <"$top/tests/fuzz/targets"
exit "$status"
