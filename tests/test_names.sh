#!/bin/sh
# Every test script is in make's lists; and no two tests differ in nothing but their extension: they would share a log,
# and one of them would never run.
set -u
unset MAKEFLAGS MFLAGS MAKELEVEL # make check TESTS=... would be what is listed
cd "${abs_top_builddir:?}" || exit 99
failures=0

# twice TEST...: names that several have; one may stand in several lists
twice() {
    printf '%s\n' "$@" | sort -u | sed 's/\.[a-z]*$//' | sort | uniq -d
}
[ "$(twice tests/a/x.sh tests/a/y tests/b/x.py tests/a/x)" = tests/a/x ] || { echo 'FAILED: two of a name are not found'; exit 1; }

# shellcheck disable=SC2016 # make expands it
all=$(printf 'print:\n\t@echo TESTS: $(TESTS) $(LONG_TESTS) $(FAULT_TESTS)\ninclude Makefile\n' |
    "${MAKE:-make}" -s -f - print | sed -n 's/^TESTS: //p')
# shellcheck disable=SC2086 # words
found=$(twice $all)
[ -z "$found" ] || { echo "FAILED: several tests are called $found"; failures=1; }
# those of tests/cuda depend on what is there
scripts=$(cd "${abs_top_srcdir:?}" && ls tests/test_*.sh tests/*/test_*.sh tests/*/test_*.py | grep -v ^tests/cuda/)
for script in $scripts; do
    case " $all " in
    *" $script "*) ;;
    *) echo "FAILED: $script is in no list of make's: it never runs"; failures=1 ;;
    esac
done
exit $failures
