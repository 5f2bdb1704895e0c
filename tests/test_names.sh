#!/bin/sh
# Every test script is in make's lists; and no two tests differ in nothing but their extension: they would share a log,
# and one of them would never run. A basename is the name of one file. The guard of a header is its path below its wing;
# a function that nobody calls is in tests/unused.txt. The walks of HACKING.md go through functions that are there. There
# is one version.
set -u
unset MAKEFLAGS MFLAGS MAKELEVEL # make check TESTS=... would be what is listed
cd "${abs_top_builddir:?}" || exit 99
failures=0
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

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
    [ -x "$abs_top_srcdir/$script" ] || { echo "FAILED: $script is not executable"; failures=1; }
done

# What is in the repository is in a release, whose tests have nothing else. (tests/fuzz/corpus is taken as a folder.)
# shellcheck disable=SC2016
printf 'print:\n\t@printf "%%s\\n" $(DISTFILES)\ninclude Makefile\n' | "${MAKE:-make}" -s -f - print |
    sed "s|^\(\.\./\)*||; s|^${abs_top_srcdir:?}/||" | sort -u >"$work"/released
if git -C "$abs_top_srcdir" ls-files >"$work"/kept 2>/dev/null; then
    lacks=$(grep -vxE '\.ci/.*|\.gitignore|tests/fuzz/corpus/.*' "$work"/kept | sort | comm -23 - "$work"/released)
    [ -z "$lacks" ] || { echo 'FAILED: make dist leaves out' $lacks; failures=1; }
else
    echo 'left out: whether a release is whole (no repository)'
fi
cd "$abs_top_srcdir" || exit 99
for header in $(find src cuda tests -name '*.h' | LC_ALL=C sort); do
    guard=$(sed -n 's/^#ifndef \([A-Z0-9_]*_H\)$/\1/p' "$header" | head -n 1)
    expected=POSEIDON_$(printf '%s' "$header" | sed -E 's#^src/(base|comm|nn|app)/##' | tr 'a-z' 'A-Z' | tr -c 'A-Z0-9' _)
    [ "${guard:-$expected}" = "$expected" ] || { echo "FAILED: $header: $expected expected, found $guard"; failures=1; }
done

# A basename means one file: a debugger's "plan.c:120" has no folder. An operator's file has its name in both engines and in
# src/nn/layers.
twins=$(find src cuda -name '*.[ch]' | grep -Ev '^(src/nn/engine/cpu|cuda)/' | sed 's|.*/||' | sort | uniq -d)$(
    find src cuda -name '*.[ch]' | grep -Ev '^src/nn/(engine/cpu|layers)/' | sed 's|.*/||' | sort | uniq -d)
[ -z "$twins" ] || { echo "FAILED: several files are called" $twins; failures=1; }

# A function of a header is called somewhere; the linker sees the others (scripts/check_links.sh).
inlines=$(find src cuda -name '*.h' -exec sed -n 's/^static inline .*[ *]\([a-z_0-9]*\)(.*/\1/p' {} + | sort -u)
idle=$(find src cuda -type f -exec grep -ohw '[a-z_][a-z_0-9]*' {} + | sort | uniq -u | grep -xF "$inlines")
[ -n "$inlines" ] && [ -z "$idle" ] || { echo "FAILED: nobody calls" $idle; failures=1; }

# One version, that of configure.ac, wherever it is written; the library's name has its first number.
version=$(sed -n 's/^AC_INIT(\[poseidon\], \[\([0-9.]*\)\].*/\1/p' configure.ac)
said() { # WHERE EXPECTED FOUND
    [ "$2" = "$3" ] || { echo "FAILED: version $version in configure.ac: '$2' expected in $1, found '$3'"; failures=1; }
}
said 'poseidon --version' "$version" "$("$POSEIDON" --version | sed -n 's/^poseidon //p')"
said poseidon.pc "$version" "$(sed -n 's/^Version: //p' "$abs_top_builddir/poseidon.pc")"
said man/poseidon.1 "$version" "$(sed -n '1s/.*"poseidon \([^"]*\)".*/\1/p' man/poseidon.1)"
said packaging/spack/package.py "$version $version" \
    "$(sed -n 's/.*poseidon@//p' packaging/spack/package.py) $(sed -n 's/^    version("\([^"]*\)".*/\1/p' packaging/spack/package.py | head -n 1)"
said packaging/apptainer.def "poseidon-$version" "$(grep -o 'poseidon-[0-9.]*[0-9]' packaging/apptainer.def | sort -u)"
said CHANGELOG.md "$version" "$(sed -n 's/^## \([0-9.]*\)$/\1/p' CHANGELOG.md | head -n 1)"
said python/poseidon/__init__.py "$version" "$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' python/poseidon/__init__.py)"
for file in Makefile.am src/comm/library/Makemodule.am python/poseidon/_library.py; do
    said "$file" "libposeidon.so.${version%%.*}" "$(grep -o 'libposeidon\.so\.[0-9]*' "$file" | sort -u)"
done

# Who may end a process is listed in HACKING.md, "Errors".
enders=$(grep -rlE --include='*.c' '(^|[^.>_a-zA-Z])(_?exit|abort|MPI_Abort)\(' src cuda | grep -vE '^src/(app/commands/|comm/exchange/lost|base/util/watchdog)')
[ -z "$enders" ] || { echo "FAILED: $enders may not end the process"; failures=1; }

# Each capability keeps to its budget of lines.
ledger=$(sh scripts/ledger.sh) || { echo "FAILED: $(printf '%s\n' "$ledger" | grep OVER)"; failures=1; }

# walk FUNCTION...: those that no file of src begins
walk() {
    for function; do
        grep -rqE --include='*.c' "^[a-z].*\\b$function\\(" src || echo "$function"
    done
}
[ "$(walk net_forward net_backwards)" = net_backwards ] || { echo 'FAILED: a function that is not there is not found'; exit 1; }
walks=$(sed -n '/^### Walks/,/^The way of/p' HACKING.md)
# shellcheck disable=SC2046 # words
missing=$(walk $(printf '%s\n' "$walks" | grep -o '`[a-z0-9_]*`' | tr -d '`' | sort -u))
[ -z "$missing" ] || { echo "FAILED: HACKING.md walks through what src does not have: $missing"; failures=1; }
[ "$(printf '%s\n' "$walks" | grep -c '^[1-5]\. .*`')" -eq 35 ] || { echo 'FAILED: HACKING.md: seven walks of five steps expected'; failures=1; }
# What configure found is in config.h: a file that asks for it without that header never has it.
blind() {
    find "$@" -name '*.[ch]' | sort | xargs grep -lE '^ *# *(if|ifdef|ifndef|elif).*\bHAVE_' |
        xargs grep -LE 'include "(config|engine/engine_internal)\.h"'
}
probe=$(mktemp -d)
printf '#ifdef HAVE_NCCL\n#endif\n' >"$probe/blind.c"
[ "$(blind "$probe")" = "$probe/blind.c" ] || { echo 'FAILED: a file without config.h is not found'; failures=1; }
rm -r "$probe"
found=$(blind src cuda)
[ -z "$found" ] || { echo "FAILED: HAVE_... without config.h: $found"; failures=1; }
exit $failures
