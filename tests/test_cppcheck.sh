#!/bin/sh
# cppcheck finds nothing in our sources. Skipped where it is not installed.
set -u
command -v cppcheck >/dev/null 2>&1 || { echo 'SKIP: cppcheck is not installed'; exit 77; }
cd "${abs_top_srcdir:?}" || exit 99

# Findings of other analyses are the compiler's business; style is clang-format's.
timeout 1800 cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability \
    --inline-suppr --suppress=missingInclude --suppress=missingIncludeSystem \
    --suppress=unknownMacro --suppress=normalCheckLevelMaxBranches \
    --error-exitcode=1 --template='{file}:{line}: {severity}: {message} [{id}]' -Isrc/base -Isrc/comm -Isrc/nn -Isrc/app src
status=$?
[ "$status" -ne 124 ] || echo 'cppcheck did not finish within 30 minutes'
exit "$status"
