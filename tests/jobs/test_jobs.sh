#!/bin/sh
# The scripts that measure speed-ups, under stand-ins for sbatch, qsub and mpirun: what they start, on how many ranks,
# what the tables say. One speed-up is measured in earnest.
# shellcheck disable=SC2016 # stand-ins expand later
set -u
jobs=${abs_top_srcdir:?}/jobs
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failures=0

fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}

same() { # WHAT EXPECTED FOUND
    [ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
}

# mpirun notes its arguments; the program after them writes a summary: N ranks make 100 (1 + 0.9 (N - 1))
# images/s.
mkdir "$folder/bin"
cat >"$folder/bin/mpirun" <<'END'
#!/bin/sh
echo "$*" >>"$CALLS"
ranks=1
while [ $# -gt 0 ]; do
    case $1 in
    -np) ranks=$2 ;;
    --summary=*)
        awk -v n="$ranks" 'BEGIN { printf "{\n  \"ranks\": %d,\n  \"images_per_second\": %g,\n", n, 100 + 90 * (n - 1)
            printf "  \"bytes_sent_per_iteration\": %d,\n  \"stall_seconds_per_iteration\": 0.25\n}\n", 1000 * n }' >"${1#*=}"
        ;;
    esac
    shift
done
exit "${FAILS:-0}"
END
chmod +x "$folder/bin/mpirun"
CALLS=$folder/calls
real_path=$PATH real_poseidon=${POSEIDON:?}
PATH=$folder/bin:$PATH
export CALLS PATH
unset POSEIDON
printf 'net: "net.prototxt"\ntest_iter: 3\ntest_interval: 5\nsnapshot: 7\nmax_iter: 100\nbase_lr: 1\n' >"$folder/solver.prototxt"
cd "$folder" || exit 1

SLURM_SUBMIT_DIR=$folder SLURM_JOB_NUM_NODES=6 SLURM_NTASKS_PER_NODE=2 POSEIDON_JOBS=$jobs \
    sh "$jobs/speedup.slurm" --solver=solver.prototxt --iterations=9 --out=result -- --threads=4 >table 2>errors ||
    fail "speedup.slurm: $(cat errors)"
same 'counts up to the nodes of the job' '2 4 8 12 ' "$(sed 's/-np \([0-9]*\) .*/\1/' calls | tr '\n' ' ')"
same 'how ranks are started' \
    '-np 8 --map-by ppr:2:node --bind-to none poseidon train --solver=result.solver.prototxt --summary=result.json --threads=4' \
    "$(sed -n 3p calls)"
same 'the CSV' 'comm,nodes,ranks,images_per_second,speedup,efficiency,stall_seconds_per_iteration,bytes_sent_per_iteration
default,1,2,190,1,1,0.25,2000
default,2,4,370,1.947,0.9737,0.25,4000
default,4,8,730,3.842,0.9605,0.25,8000
default,6,12,1090,5.737,0.9561,0.25,12000' "$(cat result.csv)"
same 'the table' "$(cat result.txt)" "$(cat table)"
for left in result.json result.solver.prototxt; do
    [ ! -e "$left" ] || fail "$left is left"
done
rm calls

printf 'a\na\nb\nc\nc\n' >nodes
PBS_O_WORKDIR=$folder PBS_NODEFILE=$folder/nodes POSEIDON_JOBS=$jobs \
    ARGUMENTS='--solver=solver.prototxt --counts=1,3 --comm=ps,sfb' sh "$jobs/speedup.pbs" >table 2>errors ||
    fail "speedup.pbs: $(cat errors)"
same 'schemes and counts on PBS' '1--comm=ps 3--comm=ps 1--comm=sfb 3--comm=sfb ' \
    "$(sed 's/.*-np \([0-9]*\) .* \(--comm=[a-z]*\) .*/\1\2/' calls | tr '\n' ' ')"
grep -q -- "--hostfile $folder/nodes -np 3 --map-by ppr:1:node" calls || fail 'speedup.pbs does not use the node file'
same 'one head and four rows' 5 "$(wc -l <speedup.csv | tr -d ' ')"

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    said=$(sh "$jobs/speedup.sh" "$@" 2>&1) && fail "speedup.sh $*: accepted"
    case $said in
    *"$pattern"*) ;;
    *) fail "speedup.sh $*: expected '$pattern', found '$said'" ;;
    esac
}

refuses 'which solver?'
refuses 'absent.prototxt cannot be read' --solver=absent.prototxt
refuses "--iterations wants a number of at least 1, found '0'" --solver=solver.prototxt --iterations=0
refuses "--counts wants a number of at least 1, found 'x'" --solver=solver.prototxt --counts=1,x
refuses "unknown argument '--fast'" --solver=solver.prototxt --fast
FAILS=3
export FAILS
refuses 'default on 1 nodes failed' --solver=solver.prototxt
unset FAILS

# in earnest
cd "$abs_top_srcdir" || exit 1
PATH=$real_path
if POSEIDON=$real_poseidon LAUNCH="${POSEIDON_MPIRUN:?} {ranks}" sh "$jobs/speedup.sh" --solver=models/lenet/solver.prototxt \
    --counts=1,2 --comm=ps,paper --iterations=3 --out="$folder/real" -- --threads=1 --merge=0 >"$folder/table" 2>"$folder/errors"; then
    cat "$folder/table"
    same 'rows of a real measurement' 5 "$(wc -l <"$folder/real.csv" | tr -d ' ')"
    # 2 (P - 1) 4 bytes of 431080 parameters; merged layers would have a few bytes of padding between them
    same 'bytes by PS on two nodes' 3448640 "$(awk -F, '$1 == "ps" && $2 == 2 { print $8 }' "$folder/real.csv")"
else
    fail "a real measurement: $(tail -n 5 "$folder/errors")"
fi
exit $((failures > 0))
