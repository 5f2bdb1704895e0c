# What test scripts share: a private folder, which is the current one and goes when the script ends, and a count of
# failures. A script ends with "finish".
# shellcheck shell=sh
folder=$(mktemp -d "${TMPDIR:-/tmp}/poseidon-test.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cd "$folder" || exit 99
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

finish() {
    exit $((failures > 0))
}

# same WHAT EXPECTED FOUND
same() {
    [ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
}

# Whether the program was built with a sanitizer, which has the allocator.
sanitized() {
    nm -D "$POSEIDON" 2>/dev/null | grep -q '__asan_\|__tsan_\|__ubsan_'
}
