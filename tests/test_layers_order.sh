#!/bin/sh
# No folder includes what stands above it (scripts/check_layers.sh), nor takes its names at the link
# (scripts/check_links.sh); and both checks find what they are there for.
set -u
check=${abs_top_srcdir:?}/scripts/check_layers.sh
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failures=0

sh "$check" "$abs_top_srcdir" || failures=1
sh "$abs_top_srcdir/scripts/check_links.sh" "${abs_top_builddir:?}" "$abs_top_srcdir" || failures=1

# floors PLAN: what is wrong with a drawing of the folders: each stands in it, above all that it may include
floors() {
    sed -n "/^rules='/,/^'/p" "$check" | sed '1d;$d' | awk -v plan="$1" '
        BEGIN {
            n = split(plan, lines, "\n")
            for (i = 1; i <= n; i++) {
                m = split(lines[i], word, " ")
                for (j = 2; j <= m; j++) floor[word[j]] = word[1] + 1
            }
        }
        !floor[$1] { print $1 " is on no floor" }
        { for (i = 2; i <= NF; i++) if ($i != "-" && floor[$i] >= floor[$1]) print $1 " stands not above " $i }'
}
plan=$(sed -n '/^### Floor plan/,/^A folder/p' "$abs_top_srcdir/HACKING.md" | grep '^    [0-9]')
wrong=$(floors "$plan")
[ -z "$wrong" ] || { echo "FAILED: HACKING.md's floor plan: $wrong"; failures=1; }
case $(floors "$(printf '%s\n' "$plan" | sed 's/ trace / /; s/ net$/ /; s/ layers / layers net /')") in
*'trace is on no floor'*'net stands not above layers'*) ;;
*) echo 'FAILED: a wrong floor plan is not found'; failures=1 ;;
esac

# The rules alone, without today's exceptions.
sed "/^exceptions='/,/^'/{/^exceptions='/!{/^'/!d;};}" "$check" >"$work/check.sh"

# finds EXPECTED FILE LINE: one include in a tree of its own, and what is said of it; "" for nothing
finds() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/cuda" "$work/tree/src/base/util" "$work/tree/$(dirname "$2")"
    echo '#include <mpi.h>' >"$work/tree/src/base/util/agree.h"
    printf '/* A file. */\n%s\n' "$3" >"$work/tree/$2"
    said=$(sh "${checker:-$work/check.sh}" "$work/tree" 2>&1)
    status=$?
    if [ -z "$1" ]; then
        [ $status -eq 0 ] && return
    else
        [ $status -eq 1 ] && case $said in *"$1"*) return ;; esac
    fi
    echo "FAILED: $3 in $2: status $status, expected '${1:-nothing}', found '$said'"
    failures=$((failures + 1))
}

finds '' src/nn/engine/cpu/lrn.c '#include "engine/ops.h"'
finds '' src/comm/sync/ps.c '#include "wire/wire.h"'
finds '' src/comm/plan/probe_serve.c '#include <mpi.h>'
finds '' src/nn/net/net.c '#include "net/net.h"'
finds '' src/base/util/log.c '#include "config.h"'
finds '' src/app/loop/loop.c '#include "watch/monitor.h"'
finds '' src/comm/plan/probe_serve.c '#include <mpi.h>'
finds 'watch may not include loop' src/app/watch/monitor.c '#include "loop/trainer.h"'
finds 'net may not include input' src/nn/net/passes.c '#include "input/feeder.h"'
finds 'src/base/util/log.c:2: spec/read.h: util may not include spec' src/base/util/log.c '#include "spec/read.h"'
finds 'sync may not include net' src/comm/sync/ps.c '#  include "net/net.h"'
finds 'engine may not include engine/cpu' src/nn/engine/engine.c '#include "engine/cpu/cpu_internal.h"'
finds 'plan may not include engine/replay' src/comm/plan/cost.c '#include "engine/replay/profile.h"'
finds 'net may not include input' src/nn/net/passes.c '#include "input/feeder.h"'
finds 'cuda may not include sync' cuda/codec.cu '#include "sync/codec.h"'
finds 'mpi.h: MPI is not to be seen here' src/comm/plan/cost.c '#include <mpi.h>'
finds 'util/agree.h: MPI is not to be seen here' src/nn/net/passes.c '#include "util/agree.h"'
finds '../net/net.h: name it from src' src/comm/sync/ps.c '#include "../net/net.h"'
finds 'net belongs into src/nn' src/comm/net/net.c '#include "util/log.h"'
finds 'net belongs into src/nn' src/net/net.c '#include "util/log.h"'
finds 'the folder attic has no rule' src/attic/old.c '#include "util/log.h"'

sed "s|^exceptions='|&\\nsrc/nn/net/passes.c input/feeder.h|" "$work/check.sh" >"$work/excepted.sh"
checker=$work/excepted.sh
finds '' src/nn/net/passes.c '#include "input/feeder.h"'
finds 'net may not include input' src/nn/net/net_graphs.c '#include "input/feeder.h"'
finds 'the exception "src/nn/net/passes.c input/feeder.h" is not needed any more' src/nn/net/passes.c '#include "util/log.h"'

sed 's/^util  *-/util net/' "$work/check.sh" >"$work/circle.sh"
checker=$work/circle.sh
finds 'the rules go in a circle' src/nn/net/passes.c '#include "util/log.h"'

for pair in 'sync net comm nn' 'engine plan nn comm' 'wire report comm app' 'device spec base nn'; do
    # shellcheck disable=SC2086 # words
    set -- $pair
    sed "/^rules='/,/^'/s/^$1  *[^ ]*/& $2/" "$work/check.sh" >"$work/wings.sh"
    checker=$work/wings.sh
    finds "the rules let $1 of $3 include $2 of $4" src/base/util/log.c '#include "util/log.h"'
done

# Names are seen at the link whatever the includes say.
mkdir -p "$work/link/src/comm/plan" "$work/link/src/comm/sync" "$work/link/cuda"
echo 'extern int sync_secret; int *plan_secret(void); int *plan_secret(void) { return &sync_secret; }' |
    ${CC:-cc} -x c -c -o "$work/link/src/comm/plan/plan.o" - || failures=1
echo 'int sync_secret;' | ${CC:-cc} -x c -c -o "$work/link/src/comm/sync/sync.o" - || failures=1
said=$(sh "$abs_top_srcdir/scripts/check_links.sh" "$work/link" "$abs_top_srcdir")
case $said in
*'src/comm/plan/plan.o takes sync_secret of src/comm/sync/sync.o: plan may not use sync'*'src/comm/plan/plan.o: no other object takes plan_secret'*) ;;
*)
    echo "FAILED: a name of sync in plan, found '$said'"
    failures=$((failures + 1))
    ;;
esac
sed 's/^wire  *util$/wire util spec/' "$check" >"$work/check_layers.sh"
cp "$abs_top_srcdir/scripts/check_links.sh" "$work"
said=$(sh "$work/check_links.sh" "$abs_top_builddir" "$abs_top_srcdir")
case $said in
*'wire needs nothing of spec: take it out'*) ;;
*)
    echo "FAILED: a permission that nobody needs, found '$said'"
    failures=$((failures + 1))
    ;;
esac

[ "$failures" -eq 0 ] && echo 'ok: what goes against the order is found'
exit $((failures > 0))
