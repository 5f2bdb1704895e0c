#!/bin/sh
# check.sh [--long|--faults] [--sanitize[=thread]] [CONFIGURE-OPTION...]
#
# Installs what is missing, builds with -Wall -Wextra -Werror into build-check, and runs every
# test. --long: instead, those that take longer, with more seeds, ranks and combinations (make
# check-long). --faults: instead, those in which machines, disks, links and schedulers fail, at most
# 40 minutes (make check-faults). --sanitize: the same with address and undefined-behaviour
# sanitizers in build-asan, or with the thread sanitizer in build-tsan. POSEIDON_DATA names the folder
# of larger data sets; tests that need them skip without it.
#
# A test that fails once has failed: nothing runs again. At the end come what each capability costs in lines
# and the ten slowest tests. The last line is "N passed, N failed, N skipped"; the exit status is 0 when
# none failed.
set -eu
cd "$(dirname "$0")"
. ./scripts/setup.sh

folder=build-check
options=--enable-werror
target=check
case ${1:-} in
--long | --faults)
    target=check-${1#--}
    shift
    ;;
esac
case ${1:-} in
-h | --help)
    sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0"
    exit 0
    ;;
--sanitize)
    folder=build-asan
    options="$options --enable-sanitizers"
    shift
    ;;
--sanitize=*)
    case ${1#--sanitize=} in
    address | undefined | address,undefined) folder=build-asan ;;
    thread) folder=build-tsan ;;
    *) setup_fail "--sanitize=address,undefined or --sanitize=thread expected, found $1" ;;
    esac
    options="$options --enable-sanitizers=${1#--sanitize=}"
    shift
    ;;
esac
setup_arguments="$*"
# Functions and lines are enough to read what tests say; variables for a debugger (./check.sh CFLAGS='-g -O2') take
# the compiler a fifth longer.
[ "$folder" != build-check ] || export CFLAGS="${CFLAGS--g1 -O2}"

setup_dependencies "$setup_required$setup_testing" "$setup_oracles"
# Word splitting is meant: a list of options without spaces of their own.
# shellcheck disable=SC2086
setup_build "$folder" $options "$@"
make -s -C "$folder" -j"$(getconf _NPROCESSORS_ONLN)" check TESTS= >/dev/null ||
    setup_fail "the tests do not build in $folder"

# listed VARIABLE: tests that the Makefile has there, one a line
listed() {
    # shellcheck disable=SC2016 # for make
    printf 'words:\n\t@printf "%%s\\n" $(%s)\ninclude Makefile\n' "$1" | make -s -C "$folder" -f - words
}

# Four tests a core at a time: they wait for longer than they compute, for ranks to begin and to end, for
# limits to strike; those that take longest begin first. Those that look at the machine's speed come last, one
# at a time, as do those of --long, which bring up to 64 ranks; --faults knows itself how many.
find "$folder" -name '*.trs' -exec rm -f {} +
status=0
if [ "$target" = check ]; then
    jobs=$((4 * $(getconf _NPROCESSORS_ONLN)))
    [ "$jobs" -le 24 ] || jobs=24
    timed=$(listed timed_tests)
    waiting=$(listed waiting_tests)
    others=$(printf '%s\n' "$waiting"; listed TESTS | grep -vxF -e "$timed" -e "$waiting")
    make -s -C "$folder" -j"$jobs" check TESTS="$(echo "$others" | tr '\n' ' ')" || status=$?
    make -s -C "$folder" check TESTS="$(echo "$timed" | tr '\n' ' ')" || status=$?
else
    make -s -C "$folder" "$target" || status=$?
fi

# results WORDS: the .trs files of the tests that ended so.
results() {
    find "$folder" -name '*.trs' -exec grep -l "^:test-result: $1" {} + | sort
}
failures='\(FAIL\|ERROR\|XPASS\)'
for trs in $(results "$failures"); do
    log=${trs%.trs}.log
    printf '\n==== %s failed; the end of its log:\n' "${log#"$folder"/}"
    tail -n 100 "$log"
done
for trs in $(results SKIP); do
    log=${trs%.trs}.log
    printf 'skipped: %s: %s\n' "${log#"$folder"/}" "$(grep -v "^SKIP tests/" "$log" | tail -n 1)"
done

count() {
    find "$folder" -name '*.trs' -exec cat {} + | grep -c "^:test-result: $1" || true
}
printf '\n'
[ "$target" != check ] || sh scripts/ledger.sh || true
printf '\nthe slowest tests: seconds, of which computing on all cores\n'
find "$folder" -name '*.trs' -exec awk -v prefix="$folder/" '
    $1 == ":duration:" { name = FILENAME; sub(prefix, "", name); sub(/\.trs$/, "", name)
        printf "%7.1f %7.1f  %s\n", $2, $3, name; wall += $2; cpu += $3 }
    END { printf "%7.1f %7.1f  all of them, one after another\n", wall, cpu }' {} + | sort -rn | head -n 11
passed=$(count '\(PASS\|XFAIL\)')
failed=$(count "$failures")
skipped=$(count SKIP)
if [ "$passed" -eq 0 ] || { [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    setup_fail "make $target ended with $status after $passed passed tests; nothing can be concluded"
fi
printf '\n%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
