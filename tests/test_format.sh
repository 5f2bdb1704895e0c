#!/bin/sh
# Sources are as clang-format writes them. Versions differ in details: the one of Debian 12 decides.
set -u
format=$(command -v clang-format-14 || command -v clang-format) ||
    { echo 'SKIP: clang-format is not installed'; exit 77; }
case $("$format" --version) in
*' version 14.'*) ;;
*) echo "SKIP: $("$format" --version) is not version 14"; exit 77 ;;
esac
cd "${abs_top_srcdir:?}" || exit 99

find src cuda tests -path tests/data -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -print |
    sort | xargs "$format" --dry-run -Werror --ferror-limit=1
status=$?
[ "$status" -eq 0 ] || echo "mend with: $format -i FILE"
exit "$status"
