#!/bin/sh
# The manual page shows every command's --help as it is today, every layer type that is not supported, and no other; it keeps
# to 80 columns.
set -u
page=$abs_top_srcdir/man/poseidon.1
new=$(mktemp)
trap 'rm -f "$new"' EXIT
"$abs_top_srcdir/scripts/make_man.sh" "$POSEIDON" "$page.in" >"$new" || exit 1
diff -u "$page" "$new" || {
    echo "FAIL: the page is behind --help; run: scripts/make_man.sh build/poseidon man/poseidon.1.in >man/poseidon.1"
    exit 1
}
refused=$(sed -n '/refused\[\] = {/,/^};/s/^ *{"\([A-Za-z0-9 ]*\)",.*/\1/p' "$abs_top_srcdir/src/nn/layers/layer_registry.c" | tr ' ' '\n')
[ -n "$refused" ] || { echo "FAIL: no table of refused types in layer_registry.c"; exit 1; }
listed=$(sed -n 's/^Not supported: //p' "$page" | tr -d ',')
for type in $refused; do
    echo "$listed" | grep -qw "$type" || { echo "FAIL: the page does not say that $type is not supported"; exit 1; }
done
for type in $listed; do
    echo "$refused" | grep -qx "$type" || { echo "FAIL: the page says that $type is not supported, and it is"; exit 1; }
done
if command -v man >/dev/null 2>&1; then
    complaints=$(man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
    [ -z "$complaints" ] || { echo "FAIL: $complaints"; exit 1; }
    long=$(MANWIDTH=80 man -E ascii -l "$page" 2>/dev/null | awk 'length($0) > 80' | head -n 3)
    [ -z "$long" ] || { echo "FAIL: wider than 80 columns: $long"; exit 1; }
fi
