#!/bin/sh
# The scripts that make tables of speed-up, under a stand-in for mpirun: what they start, on how many ranks, what the
# tables say. One is measured in earnest, one simulated, and one made in a box where that can be built.
# shellcheck disable=SC2016 # stand-ins expand later
set -u
jobs=${abs_top_srcdir:?}/jobs
# shellcheck source=tests/common.sh
. "${abs_top_srcdir:?}/tests/common.sh"

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
        comm=${1##*/}
        awk -v n="$ranks" -v comm="${comm%-*}" 'BEGIN { printf "{\"net\": \"N\", \"comm\": \"%s\", \"nodes\": %d,", comm, n / 2
            printf "\"workers\": %d, \"parameters\": 5, \"engine\": \"cpu\", \"global_batch\": %d,", n, 10 * n
            printf "\"images_per_second\": %g, \"bytes_sent_per_iteration\": %d,", 100 + 90 * (n - 1), 1000 * n
            printf "\"stall_seconds_per_iteration\": 0.01}\n" }' >"${1#*=}"
        ;;
    esac
    shift
done
exit "${FAILS:-0}"
END
chmod +x "$folder/bin/mpirun"
CALLS=$folder/calls
real_path=$PATH
PATH=$folder/bin:$PATH
export CALLS PATH
python3 -c '' 2>/dev/null || { echo 'SKIP: no Python'; exit 77; }
python3 -c 'import matplotlib' 2>/dev/null || PATH=$folder/bin:/usr/bin:$real_path
printf 'net: "net.prototxt"\ntest_iter: 3\ntest_interval: 5\nsnapshot: 7\nmax_iter: 100\nbase_lr: 1\n' >"$folder/solver.prototxt"
cd "$folder" || exit 1

# plots are test_report.sh's
mkdir none && echo 'raise ImportError("none", name="matplotlib")' >none/matplotlib.py
PYTHONPATH=$folder/none
export PYTHONPATH

SLURM_JOB_ID=5 SLURM_SUBMIT_DIR=$folder SLURM_JOB_NUM_NODES=6 SLURM_NTASKS_PER_NODE=2 POSEIDON_JOBS=$jobs \
    sh "$jobs/reproduce.slurm" --solver=solver.prototxt --comm=ps --iterations=9 --out=result -- --threads=4 >said 2>errors ||
    fail "reproduce.slurm: $(cat errors)"
same 'counts up to the nodes of the job' '2 4 8 12 ' "$(sed 's/.*-np \([0-9]*\) .*/\1/' calls | tr '\n' ' ')"
quiet='--set snapshot=0 --set snapshot_after_train=false --set test_initialization=false --set test_interval=1000000000'
same 'how ranks are started' "--comm=ps --summary=$folder/result/runs/own/ps-4.json $quiet --threads=4" "$(sed -n '3s/.* --comm/--comm/p' calls)"
grep -q -- "-np 8 --map-by ppr:2:node --bind-to none $POSEIDON train --solver=solver.prototxt --max-iter=9 " calls || fail "ranks: $(cat calls)"
grep -q '| ps | measured | 2.00 | 3.89 | 7.68 | 11.47 |' result/report.md || fail "the table: $(cat result/report.md)"
rm calls

printf 'a\na\nb\nc\nc\n' >nodes
PBS_O_WORKDIR=$folder PBS_NODEFILE=$folder/nodes POSEIDON_JOBS=$jobs \
    ARGUMENTS='--table=lenet --counts=2,4 --comm=ps,sfb --iterations=7' sh "$jobs/reproduce.pbs" >said 2>errors ||
    fail "reproduce.pbs: $(cat errors)"
same 'schemes and counts on PBS' '2--comm=ps 4--comm=ps 2--comm=sfb 4--comm=sfb ' \
    "$(sed 's/.*-np \([0-9]*\) .* \(--comm=[a-z]*\) .*/\1\2/' calls | tr '\n' ' ')"
grep -q -- "--hostfile $folder/nodes -np 4 --map-by ppr:1:node" calls || fail 'reproduce.pbs does not use the node file'
same 'made-up images' 4 "$(grep -c -- '--max-iter=7 .*--fake-data=1,28,28' calls)"
rm calls

# Names that shells and quotes stumble over: the solver's and the folders', in which everything lies.
name="it's a \"\$b\" \\c *
d"
mkdir "$name"
cp solver.prototxt "$name/$name.prototxt"
SLURM_JOB_ID=5 SLURM_SUBMIT_DIR=$folder SLURM_JOB_NUM_NODES=1 SLURM_NTASKS_PER_NODE=2 POSEIDON_JOBS=$jobs \
    sh "$jobs/reproduce.slurm" "--solver=$name/$name.prototxt" --comm=ps "--out=$name/out $name" >said 2>errors ||
    fail "names: $(cat errors)"
same 'rows of a solver of that name' 2 "$(wc -l <"$name/out $name/report.csv" | tr -d ' ')"
PBS_O_WORKDIR=$folder PBS_NODEFILE=$folder/nodes POSEIDON_JOBS=$jobs \
    ARGUMENTS='--table=lenet --counts=2 --comm=ps --out="a folder/it'"'"'s"' sh "$jobs/reproduce.pbs" >said 2>errors ||
    fail "names on PBS: $(cat errors)"
same 'rows on PBS in such a folder' 2 "$(wc -l <"a folder/it's/report.csv" | tr -d ' ')"
rm calls
if (unset PYTHONPATH; python3 -c 'import matplotlib' 2>/dev/null); then
    printf 'Iteration %s, loss = %s\n' 0 2 10 1.5 20 1 >"$name/$name.log"
    PYTHONPATH='' "$abs_top_srcdir/tools/report.py" --title="$name \`touch struck\`" --curves="$name/$name.svg" "$name/$name.log" >said 2>&1 || fail "a plot: $(cat said)"
    if [ ! -s "$name/$name.svg" ] || [ -e struck ]; then fail 'a plot of such a title'; fi
fi

refuses() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    said=$(sh "$jobs/reproduce.sh" "$@" 2>&1) && fail "reproduce.sh $*: accepted"
    case $said in
    *"$pattern"*) ;;
    *) fail "reproduce.sh $*: expected '$pattern', found '$said'" ;;
    esac
}

refuses 'where? --where=simulate, box, slurm or pbs'
refuses '--where=moon: expected simulate, box' --where=moon
refuses 'this is not in a job: sbatch --nodes=N jobs/reproduce.slurm' --where=slurm
refuses 'this is not in a job: qsub jobs/reproduce.pbs' --where=pbs
SLURM_JOB_ID=5
export SLURM_JOB_ID
refuses 'absent.prototxt cannot be read' --where=slurm --solver=absent.prototxt
refuses "--iterations wants a number of at least 1, found '0'" --where=slurm --iterations=0
refuses "--counts wants a number of at least 1, found 'x'" --where=slurm --counts=1,x
refuses "unknown argument '--fast'" --where=slurm --fast
refuses "there is no table 'nothing'" --where=slurm --table=nothing
refuses "there is no table 'nothing' to simulate" --where=simulate --table=nothing
refuses '--publish is for --where=simulate' --where=slurm --publish=docs
refuses '--publish draws by matplotlib, which is missing' --where=simulate --publish=docs
FAILS=3
export FAILS
refuses 'own, ps on 1 nodes' --where=slurm --solver=solver.prototxt --comm=ps
unset FAILS

# simulated: the paper's table, and the published figures beside it
sh "$jobs/reproduce.sh" --where=simulate --table=vgg19_22k --out=simulated >said 2>errors || fail "simulate: $(cat errors)"
grep -q '^| poseidon | simulated | ' simulated/report.md || fail "the simulated table: $(cat simulated/report.md)"
same 'published points that were obtained' 23 "$(grep -c '^| vgg19_22k .* simulated' simulated/compare.md)"
# what the simulator is validated by: all 18 points of the published figure within 10 %
awk -F'|' '/^\| vgg19_22k/ && /plotting script/ && /speed-up/ { n++; error = $11 + 0; if (error > 10 || error < -10) { print; bad = 1 } }
    END { exit bad || n != 18 }' simulated/compare.md || fail 'published points'

# the page and the table beside it have these figures
page=$abs_top_srcdir/docs/REPRODUCTION.md published=$abs_top_srcdir/docs/reproduction/compare.csv
grep '^vgg19_22k,' simulated/compare.csv | while IFS= read -r row; do
    grep -qxF -e "$row" "$published" || echo "$row"
done >other
[ ! -s other ] || fail "docs/reproduction/compare.csv lacks: $(cat other)"
awk -F, 'NR > 1 && $5 == "speed-up" && match($0, /,[-+][0-9.]+ %,/) {
        error = substr($0, RSTART + 1, RLENGTH - 4); system_of = $2; sub(/ on [0-9]+ V100/, "", system_of)
        if (!(system_of in least) || error + 0 < least[system_of] + 0) least[system_of] = error
        if (!(system_of in most) || error + 0 > most[system_of] + 0) most[system_of] = error
        figures[system_of, $7 ~ /published/]++
    }
    END { for (name in least) printf "| %s | %s%s%s | %s %%\n", name, figures[name, 1] ? figures[name, 1] " published" : "",
        figures[name, 1] && figures[name, 0] ? ", " : "", figures[name, 0] ? figures[name, 0] " recalled" : "",
        least[name] == most[name] ? least[name] : least[name] " to " most[name] }' "$published" >systems
[ "$(wc -l <systems)" -ge 11 ] || fail "systems of docs/reproduction/compare.csv: $(cat systems)"
while IFS= read -r row; do
    grep -qF -e "$row" "$page" || fail "docs/REPRODUCTION.md does not say '$row |'"
done <systems

grep -q 'below 1.00 .* `tf-ps` | none |' simulated/compare.md || fail "TensorFlow's row: $(grep tf-ps simulated/compare.md)"
sh "$jobs/reproduce.sh" --where=simulate --table=2015,imagenet22k,horovod --out=others >said 2>errors || fail "2015: $(cat errors)"
same 'published points of other nodes' 11 "$(grep -c '^| \(2015_.*\|horovod\) | .* simulated' others/compare.md)"
same 'rows of ImageNet-22K' 5 "$(grep -c '^imagenet22k,AlexNet_22K,simulated,[a-z]*,8,' others/report.csv)"

# in earnest
PATH=${PATH#"$folder/bin:"}
LAUNCH="${POSEIDON_MPIRUN:?} {ranks}" sh "$jobs/reproduce.sh" --where=slurm --table=lenet --counts=1,2 --comm=ps,paper \
    --iterations=3 --batch=16 --out=real -- --threads=1 --tune=merge=0 >said 2>errors || fail "measured: $(cat errors)"
same 'rows of a real measurement' 5 "$(wc -l <real/report.csv | tr -d ' ')"
# 2 (P - 1) 4 bytes of 431080 parameters; merged layers would have a few bytes of padding between them
same 'bytes by PS on two ranks of one machine' 3448640 "$(awk -F, '$4 == "ps" && $6 == 2 { print $14 }' real/report.csv)"

name="really \"$name"
LAUNCH="${POSEIDON_MPIRUN:?} {ranks}" sh "$jobs/reproduce.sh" --where=slurm --table=lenet --counts=1 --comm=none \
    --iterations=2 --batch=16 "--out=$name" -- --threads=1 >said 2>errors || fail "measured in a folder of such a name: $(cat errors)"
same 'rows of it' 2 "$(wc -l <"$name/report.csv" | tr -d ' ')"

# in a box: real ranks on hosts of this machine
if "$abs_top_srcdir/tests/cluster/box.sh" --check >/dev/null 2>&1; then
    timeout 1200 sh "$jobs/reproduce.sh" --where=box --table=lenet --nodes=2 --comm=ps --iterations=3 --out=boxed >said 2>errors ||
        fail "in a box: $(cat errors)"
    same 'rows of a box' 3 "$(wc -l <boxed/report.csv | tr -d ' ')"
    grep -q '^lenet,LeNet,emulated,ps,2,2,16,1,' boxed/report.csv || fail "in a box: $(cat boxed/report.csv)"
fi
finish
