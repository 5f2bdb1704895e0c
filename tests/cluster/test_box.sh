#!/bin/sh
# The cluster in a box: ranks run on hosts of their own over links of the chosen rate, its exit status is
# the command's, and nothing of it is left. Skipped where a box cannot be built.
# shellcheck disable=SC2016 # the box's own shell expands what stands in quotes
set -u
box=${abs_top_srcdir:?}/tests/cluster/box.sh
probe=${abs_top_builddir:?}/tests/plan/probe_ranks
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failures=0

fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    said=$("$box" "$@" 2>&1)
    status=$?
    case $status/$said in
    2/*"$pattern"*) ;;
    *) fail "box.sh $*: expected '$pattern', found $status '$said'" ;;
    esac
}

refuses "--hosts wants a number from 1 to 64, found 'four'" --hosts=four true
refuses "--slots wants a number from 1 to 256, found '0'" --slots=0 true
refuses "--cores wants a number from 1 to" --cores=1000 true
refuses "--quotas wants a number from 1 to 10000, found 'half'" --hosts=1 --quotas=half true
refuses 'unknown option --speed=1' --speed=1 true
refuses 'no command to run'

"$box" --check || { status=$?; [ "$failures" -eq 0 ] || exit 1; exit "$status"; }

said=$("$box" --hosts=3 -- timeout 600 mpirun -np 3 hostname 2>&1 | grep -v 'plm:rsh: Warning: setpgid' | sort | tr '\n' ' ')
[ "$said" = 'n1 n2 n3 ' ] || fail "three hosts said '$said'"

said=$("$box" --hosts=2 -- sh -c '$BOX_AGENT n2 hostname; cat /etc/hosts' 2>&1)
case $said in
n2*10.77.*.1\ n1*10.77.*.2\ n2*) ;;
*) fail "the agent and the names said '$said'" ;;
esac
said=$("$box" --hosts=2 --cores=1 -- sh -c '$BOX_AGENT n1 nproc; $BOX_AGENT n2 nproc' | tr '\n' ' ')
[ "$said" = '1 1 ' ] || fail "hosts of one core each said '$said'"
# quotas, dealt in turn; the group goes with the box
said=$("$box" --hosts=3 --quotas=50,20 -- sh -c 'for h in 1 2 3; do $BOX_AGENT n$h grep -c "/$BOX_NAME-$h" /proc/self/cgroup
    cat "$BOX_CGROUP-$h/cpu.max" "$BOX_CGROUP-$h/cpu.cfs_quota_us" 2>/dev/null; done; echo "$BOX_CGROUP"' | tr '\n' ' ')
case $said in
'1 5000 1 2000 1 5000 '* | '1 5000 10000 1 2000 10000 1 5000 10000 '*) ;;
*) fail "hosts with quotas said '$said'" ;;
esac
group=${said% }
ls -d "${group##* }"-* 2>/dev/null && fail 'control groups are left'
grep -q '10\.77\.' /etc/hosts && fail 'the names are seen outside'

"$box" --hosts=1 -- sh -c 'exit 7'
[ $? -eq 7 ] || fail "the command's exit status is lost"

# 100 Mbit/s are 12.5 MB/s; no more than the burst goes above, and a busy machine stays far below
said=$("$box" --hosts=2 --rate=100mbit -- timeout 600 mpirun -np 2 "$probe" 2>&1)
echo "$said"
echo "$said" | awk '{
    for (i = 1; i < NF; i++)
        if ($i == "link") { found = 1; if ($(i + 1) > 14e6 || $(i + 1) < 1e5) exit 1 }
} END { if (!found) exit 1 }' || fail '100 Mbit/s are not what two hosts exchange'
case $said in
*'2 ranks, 1 a node'*) ;;
*) fail 'hosts are taken for one' ;;
esac

# ended from outside, a box takes its hosts along
"$box" --hosts=2 -- sh -c 'echo "$BOX_NET" >"$0"; $BOX_AGENT n1 sleep 1000' "$folder/net" &
pid=$!
until [ -s "$folder/net" ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
ip netns list | grep -q "^pbox$pid-1" || fail "the box's namespaces do not carry its number"
kill "$pid"
wait "$pid"
status=$?
[ "$status" -eq 143 ] || fail "an ended box exits with $status"
ip netns list | grep -q "^pbox$pid-" && fail 'namespaces are left'
ip link | grep -q "pbox$pid" && fail 'links are left'
exit $((failures > 0))
