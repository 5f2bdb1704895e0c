#!/bin/sh
# hardening_check.sh PROGRAM: whether it was built as "configure" means to: PIE, full RELRO, no stack that can be run,
# guarded stack frames, libc's functions with checks. One line each; ends with 1 where one is missing.
set -u
program=${1:?}
readelf=${READELF:-readelf}
command -v "$readelf" >/dev/null || { echo "SKIP: $readelf is not installed (Debian: binutils)"; exit 77; }
header=$(LC_ALL=C $readelf -hW "$program") && segments=$(LC_ALL=C $readelf -lW "$program") &&
    dynamic=$(LC_ALL=C $readelf -dW "$program") && symbols=$(LC_ALL=C $readelf --dyn-syms -W "$program") || exit 1
missing=0

has() { # WHAT TEXT PATTERN
    if printf '%s\n' "$2" | grep -q -e "$3"; then
        echo "$1: yes"
    else
        echo "$1: NO"
        missing=1
    fi
}

has 'PIE' "$header" 'Type: *DYN'
has 'RELRO' "$segments" 'GNU_RELRO'
has 'symbols resolved at the start' "$dynamic" 'BIND_NOW\|FLAGS_1.*NOW'
has 'a stack that holds data alone' "$segments" 'GNU_STACK.* RW '
has 'stack protector' "$symbols" ' __stack_chk_fail'
has 'FORTIFY' "$symbols" ' __[a-z]*_chk\(@\| \|$\)'
exit $missing
