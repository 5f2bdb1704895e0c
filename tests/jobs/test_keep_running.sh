#!/bin/sh
# keep_running.sh under strict stand-ins for hosts and mpirun, through nights of every kind: what is started with which
# arguments, what is tried again, and with which status it ends. The real ones: tests/cluster/test_keep_running.sh.
# shellcheck disable=SC2016,SC2317 # stand-ins expand later; functions are called by name
set -u
# shellcheck source=tests/jobs/nights.sh
. "${abs_top_srcdir:?}/tests/jobs/nights.sh"

printf 'n1 slots=2\n# n9\nn2\n\nn3\n' >hosts
keep() {
    sh jobs/keep_running.sh --hostfile=hosts "$@" >said 2>&1
    status=$?
}
name='keep_running.sh: another host stands in for a dead one'
plays 'begin @10 205' 'begin 0'
DEAD=n1 keep --hosts=2 -- --solver='my solver'
same "$name" "$(printf '%s' "<-np><2><--host><n2:1,n3:1><$program><train><--solver=my solver><--run=keep><--resume>" | flat)" "$(head -n 2 calls | flat | sed 's/~$//')"
same "$name" "$(printf '%s' "<-np><2><--host><n2:1,n3:1><$program><train><--solver=my solver><--run=keep><--resume><--resume>" | flat)" "$(tail -n 2 calls | flat | sed 's/~$//')"
same "$name" 0 "$status"
paced "$name" 1
name='keep_running.sh: fewer hosts'
plays 'begin 0'
DEAD=n1 keep --ranks-per-host=2 -- --global-batch=32
same "$name" "$(printf '%s' "<-np><4><--host><n2:2,n3:2><$program><train><--global-batch=32><--run=keep><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
plays
DEAD=n1 keep --wait=1 -- --batch=32
same "$name" 1 "$status"
said '2 of 3 hosts answer: give more in hosts, or --global-batch=N'
name='keep_running.sh: slots of the file'
plays 'begin 0'
keep --hosts=2 -- --solver=a
same "$name" "$(printf '%s' "<-np><3><--host><n1:2,n2:1><$program><train><--solver=a><--run=keep><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
name="keep_running.sh: hosts are asked by LAUNCH's options"
plays 'begin 0'
NEEDS=--allow-run-as-root LAUNCH='mpirun --allow-run-as-root --mca plm rsh' keep --hosts=2 --wait=1 -- --solver=a
same "$name" "$(printf '%s' "<--allow-run-as-root><--mca><plm><rsh><-np><3><--host><n1:2,n2:1><$program><train><--solver=a><--run=keep><--resume>" | flat)" "$(flat <calls | sed 's/~$//')"
name='keep_running.sh: who does not answer, and why'
plays
DEAD='n1 n3' REASON='ssh: Could not resolve hostname: Name or service not known' keep --wait=12 -- --batch=32
same "$name" 1 "$status"
said 'n1: ssh: Could not resolve hostname: Name or service not known'
said '1 of 3 hosts answer; waiting for n1 n3'
same "$name: a reason is said once" 1 "$(grep -c 'n3: ssh: ' said)"
name='keep_running.sh: snapshots as the user says'
for pace in --keep=3 --snapshot-every=1h '--keep 3' --fake-data; do
    plays 'begin 0'
    # shellcheck disable=SC2086 # words
    keep -- --solver=a $pace
    paced "$name, $pace" 0
done
name='keep_running.sh: mistakes and starts without progress'
plays 'begin 1'
keep -- --solver=a
same "$name" '1 2' "$status $(wc -l <calls | tr -d ' ')"
plays 'begin 137' 'begin 137' 'begin 137' 'begin 137'
keep -- --solver=a
same "$name" '137 6' "$status $(wc -l <calls | tr -d ' ')"
plays 'begin @5 stopped 75'
keep -- --solver=a
same "$name" '75 2' "$status $(wc -l <calls | tr -d ' ')"
name='keep_running.sh: a host that is silent now and then is not lost, one that stays silent is'
plays 'begin @10 asked 0'
BLINKS=n2 keep -- --solver=a
same "$name" '0 2' "$status $(wc -l <calls | tr -d ' ')"
plays 'begin @10 hang 0' 'begin @10 0'
rm -f asked
DIES=n2 keep --hosts=2 -- --solver=a
same "$name" '0 4' "$status $(wc -l <calls | tr -d ' ')"
said 'n2 answers no more'
said 'starting on n1 n3'
rm -f asked
name='keep_running.sh: a host that refuses once answers'
plays 'begin 0'
STUMBLES=n1 keep --wait=1 -- --solver=a
same "$name" '0 2' "$status $(wc -l <calls | tr -d ' ')"
rm -f asked
name='keep_running.sh: no host is asked where a signal ended a rank, but where hosts are missing'
plays 'begin @10 137' 'begin 0'
RESTS=n2 keep --hosts=2 -- --solver=a
same "$name" '0 2' "$status $(grep -c 'starting on n1 n2 ' said)"
plays 'begin @10 137' 'begin 0'
DEAD=n1 RESTS=n2 keep -- --global-batch=8
same "$name" 0 "$status"
said 'lost n2'
refuses() { # PATTERN ARGUMENT...
    name="keep_running.sh $2"
    pattern=$1
    shift
    sh jobs/keep_running.sh "$@" >said 2>&1 && fail "$name: accepted"
    said "$pattern"
}
refuses 'which hosts?' --
refuses 'absent cannot be read' --hostfile=absent
refuses "--hosts wants a number of at least 1, found '0'" --hostfile=hosts --hosts=0
refuses -- '--hosts=4, but hosts names 3' --hostfile=hosts --hosts=4
refuses "unknown argument '--fast'" --fast
finish
