#!/bin/sh
# A short run of every fuzz target, the same each time; tests/fuzz/fuzz.sh runs them for long.
set -u
top=${abs_top_srcdir:?}
build=${abs_top_builddir:?}
keep=$(mktemp)
trap 'rm -f "$keep"' EXIT
failures=0

while read -r target seeds; do
    case $target in '#'*) continue ;; esac
    files=
    for seed in $seeds; do
        [ ! -e "$top/$seed" ] || files="$files $(find "$top/$seed" -type f | LC_ALL=C sort)"
    done
    # The seeds' names have no blanks.
    # shellcheck disable=SC2086
    timeout "${POSEIDON_FUZZ_LIMIT:-600}" "$build/tests/fuzz/fuzz_$target" --runs="${POSEIDON_FUZZ_RUNS:-1000}" --keep="$keep" \
        $files </dev/null
    status=$?
    [ $status -ne 0 ] || continue
    cp "$keep" "fuzz-$target-crash"
    echo "FAIL: fuzz_$target ended with $status; its input is in $(pwd)/fuzz-$target-crash"
    failures=$((failures + 1))
done <"$top/tests/fuzz/targets"
exit "$failures"
