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
# At the end come the ten slowest tests. The last line is "N passed, N failed, N skipped"; the exit
# status is 0 when none failed.
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

setup_dependencies "$setup_required$setup_testing" "$setup_oracles"
# Word splitting is meant: a list of options without spaces of their own.
# shellcheck disable=SC2086
setup_build "$folder" $options "$@"
make -s -C "$folder" -j"$(getconf _NPROCESSORS_ONLN)" check TESTS= >/dev/null ||
    setup_fail "the tests do not build in $folder"

# One test at a time: some measure time, and some start more ranks than there are cores.
find "$folder" -name '*.trs' -exec rm -f {} +
status=0
make -s -C "$folder" "$target" || status=$?

# The words of a test that failed, the reason of one that was skipped.
results() {
    find "$folder" -name '*.trs' -exec grep -l "^:test-result: $1" {} + | sort
}
for trs in $(results '\(FAIL\|ERROR\|XPASS\)'); do
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
printf '\nthe slowest tests: seconds, of which computing on all cores\n'
find "$folder" -name '*.trs' -exec awk -v prefix="$folder/" '
    $1 == ":duration:" { name = FILENAME; sub(prefix, "", name); sub(/\.trs$/, "", name)
        printf "%7.1f %7.1f  %s\n", $2, $3, name }' {} + | sort -rn | head -n 10
passed=$(count '\(PASS\|XFAIL\)')
failed=$(count '\(FAIL\|ERROR\|XPASS\)')
skipped=$(count SKIP)
if [ "$passed" -eq 0 ] || { [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    setup_fail "make $target ended with $status after $passed passed tests; nothing can be concluded"
fi
printf '\n%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
