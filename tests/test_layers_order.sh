#!/bin/sh
# No folder includes what stands above it (scripts/check_layers.sh); and the check finds what it is there for.
set -u
check=${abs_top_srcdir:?}/scripts/check_layers.sh
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failures=0

sh "$check" "$abs_top_srcdir" || failures=1

# The rules alone, without today's exceptions.
sed "/^exceptions='/,/^'/{/^exceptions='/!{/^'/!d;};}" "$check" >"$work/check.sh"

# finds EXPECTED FILE LINE: one include in a tree of its own, and what is said of it; "" for nothing
finds() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/cuda" "$work/tree/src/util" "$work/tree/$(dirname "$2")"
    echo '#include <mpi.h>' >"$work/tree/src/util/agree.h"
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

finds '' src/engine/cpu/lrn.c '#include "engine/ops.h"'
finds '' src/sync/ps.c '#include "wire/wire.h"'
finds '' src/plan/probe_serve.c '#include <mpi.h>'
finds '' src/net/net.c '#include "net/net.h"'
finds '' src/util/log.c '#include "config.h"'
finds 'src/util/log.c:2: spec/read.h: util may not include spec' src/util/log.c '#include "spec/read.h"'
finds 'sync may not include net' src/sync/ps.c '#  include "net/net.h"'
finds 'engine may not include engine/cpu' src/engine/engine.c '#include "engine/cpu/cpu_internal.h"'
finds 'plan may not include engine/replay' src/plan/cost.c '#include "engine/replay/profile.h"'
finds 'net may not include input' src/net/run.c '#include "input/feeder.h"'
finds 'cuda may not include sync' cuda/codec.cu '#include "sync/codec.h"'
finds 'mpi.h: MPI is not to be seen here' src/plan/cost.c '#include <mpi.h>'
finds 'util/agree.h: MPI is not to be seen here' src/net/run.c '#include "util/agree.h"'
finds '../net/net.h: name it from src' src/sync/ps.c '#include "../net/net.h"'
finds 'the folder attic has no rule' src/attic/old.c '#include "util/log.h"'

sed "s|^exceptions='|&\\nsrc/net/run.c input/feeder.h|" "$work/check.sh" >"$work/excepted.sh"
checker=$work/excepted.sh
finds '' src/net/run.c '#include "input/feeder.h"'
finds 'net may not include input' src/net/graph.c '#include "input/feeder.h"'
finds 'the exception "src/net/run.c input/feeder.h" is not needed any more' src/net/run.c '#include "util/log.h"'

sed 's/^util  *-/util net/' "$work/check.sh" >"$work/circle.sh"
checker=$work/circle.sh
finds 'the rules go in a circle' src/net/run.c '#include "util/log.h"'

[ "$failures" -eq 0 ] && echo 'ok: what goes against the order is found'
exit $((failures > 0))
