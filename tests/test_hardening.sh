#!/bin/sh
# The program is built hardened, and the check sees a program that is not.
set -u
check=${abs_top_srcdir:?}/scripts/hardening_check.sh
[ "${HARDENING:-yes}" = yes ] || { echo 'SKIP: configured without hardening, or not all of it can be had here'; exit 77; }
sh "$check" "$POSEIDON" || exit
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
printf '#include <string.h>\nint main(int n, char **v) { char a[16]; strcpy(a, v[n - 1]); return a[0]; }\n' >"$folder/soft.c"
# shellcheck disable=SC2086 # a compiler may be several words
${CC:-cc} -O2 -no-pie -fno-stack-protector -U_FORTIFY_SOURCE -z norelro -z lazy -z execstack "$folder/soft.c" -o "$folder/soft" 2>/dev/null ||
    { echo 'no program without hardening can be made here: the check itself is not checked'; exit 0; }
said=$(sh "$check" "$folder/soft") && { echo "FAILED: the check passes a soft program: $said"; exit 1; }
[ "$(echo "$said" | grep -c ': NO$')" -eq 6 ] || { echo "FAILED: of six the check misses some: $said"; exit 1; }
