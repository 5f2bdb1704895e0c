#!/bin/sh
# driver.sh TEST-DRIVER ARGUMENTS...: Automake's driver of one test, and how long the test took: a line
# ":duration: WALL CPU" (seconds; CPU of all processes that the test waited for) in its .trs, which make ignores and
# check.sh prints.
set -u
driver=$1
shift
# GNU date; whole seconds elsewhere
now() {
    date +%s.%N | sed 's/\.N$//'
}

trs=
previous=
for argument; do
    [ "$previous" != --trs-file ] || trs=$argument
    previous=$argument
done
start=$(now)
"${SHELL:-/bin/sh}" "$driver" "$@"
status=$?
end=$(now)
[ -n "$trs" ] || exit "$status"
# a shell behind a pipe would count its own children; the second line is "USER SYSTEM" of them, as 1m2.345s
times >"$trs.times"
awk -v start="$start" -v end="$end" '
    function seconds(text,   part) { split(text, part, /[ms]/); return part[1] * 60 + part[2] }
    NR == 2 { printf ":duration: %.1f %.1f\n", end - start, seconds($1) + seconds($2) }' "$trs.times" >>"$trs"
rm -f "$trs.times"
exit "$status"
