#!/bin/sh
# Every command of README.md and the guides, pasted as it stands into a clean folder with an installed program.
#
# A block that begins "```sh" is run, line by line in one shell, and must succeed. What else stands in that line says
# what it needs: needs="..." (data or a tool that may not be here), with="slurm", "pbs", "hosts", "a run" (a stand-in
# for it), left="why" (not run). The count of what was run, and every block that was left with its reason, are printed.
# A stand-in for poseidon cuts commands short: trainings by --max-iter=2, batches of 4 and tests with one batch, plans at 8
# nodes. It names the last snapshot as the whole run would; files are those of make install. Figures that pages quote of
# committed logs and of plan are compared.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
make=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL POSEIDON # jobs/ would take that one instead of the stand-in
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0 HWLOC_HIDE_ERRORS=2 HWLOC_COMPONENTS=-linuxio,-pci OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_hwloc_base_binding_policy
export OMPI_MCA_mpi_yield_when_idle OMPI_MCA_btl_base_warn_component_unused HWLOC_HIDE_ERRORS HWLOC_COMPONENTS OMP_NUM_THREADS

# make install, but nothing is built: other tests run what is there
"$make" -s -C "$abs_top_builddir" -o poseidon install-exec-am install-data-am DESTDIR="$folder/place" prefix=/usr exec_prefix=/usr bindir=/usr/bin \
    datarootdir=/usr/share datadir=/usr/share mandir=/usr/share/man docdir=/usr/share/doc/poseidon >make.log 2>&1 ||
    { echo "make install: $(cat make.log)"; exit 1; }
clean=$folder/clean
mv "$folder/place/usr/share/poseidon" "$clean"
HOME=$folder/home PASTED_PROGRAM=$folder/place/usr/bin/poseidon
PATH=$folder/stands:$folder/place/usr/bin:$PATH
export HOME PASTED_PROGRAM PATH
mkdir -p stands "$HOME"
python3 -c 'import matplotlib' 2>/dev/null || PATH=$folder/stands:$folder/place/usr/bin:/usr/bin:$PATH

# ---- stand-ins ----
stand() { # NAME, its script on standard input
    { echo '#!/bin/sh'; cat; } >"stands/$1"
    chmod +x "stands/$1"
}
stand poseidon <<'EOF'
case "$*" in
train*--dry-run*) ;;
plan*) # a question that several pages ask is answered once
    answer=$HOME/$(echo "$*" | cksum | tr ' ' -)
    case $* in *--nodes=*,8,*) # playing 32 nodes takes eight seconds
        for word; do
            shift
            case $word in --nodes=*,8,*) word=${word%%,8,*},8 ;; esac
            set -- "$@" "$word"
        done ;;
    esac
    [ -f "$answer" ] || "$PASTED_PROGRAM" "$@" >"$answer" || { status=$?; rm "$answer"; exit $status; }
    exec cat "$answer"
    ;;
train*)
    few=
    case $* in *batch*) ;; *) few=--batch=4 ;; esac
    case $* in *clothes*) few="$few --set display=1" ;; esac # curves need two losses
    for word; do
        case $word in --solver=*) ! grep -q '^test_iter' "${word#*=}" || few="$few --set test_iter=1" ;; esac
    done
    # shellcheck disable=SC2086 # words
    "$PASTED_PROGRAM" "$@" --max-iter=2 $few
    status=$?
    for file in *_iter_2.*; do
        [ ! -f "$file" ] || case $file in
        lenet_*) cp "$file" "lenet_iter_1000.${file#*_iter_2.}" ;;
        photographs_small_*) cp "$file" "photographs_small_iter_1360.${file#*_iter_2.}" ;;
        photographs_*) cp "$file" "photographs_iter_340.${file#*_iter_2.}" ;;
        segmentation_*) cp "$file" "segmentation_iter_2000.${file#*_iter_2.}" ;;
        esac
    done
    exit $status
    ;;
esac
exec "$PASTED_PROGRAM" "$@"
EOF
stand srun <<'EOF'
while :; do case $1 in --*) shift ;; *) break ;; esac; done
exec mpirun -np 2 "$@"
EOF
stand sbatch <<'EOF'
while :; do case $1 in --*) shift ;; *) break ;; esac; done
sh -n "$1" || exit 1
case $1 in
*/train.slurm) shift; case "$*" in *ps,sfb*) set -- "$1" --comm=sfb ;; *0.1,0.03*) set -- "$1" --set base_lr=0.03 ;; esac; exec mpirun -np 2 poseidon train --dry-run "$@" ;;
*) echo "submitted $1" ;;
esac
EOF
stand qsub <<'EOF'
for script; do :; done
sh -n "$script" || exit 1
# shellcheck disable=SC2086 # words
case $script in */train.pbs) exec mpirun -np 2 poseidon train --dry-run $ARGUMENTS ;; esac
EOF
echo 'echo JOBID' | stand squeue

# ---- what blocks need ----
data=${POSEIDON_DATA:-/nowhere}
needs() { # WHAT: puts it into the folder, or fails with the reason
    case $1 in
    fashion-mnist) [ -d /usr/share/datasets/fashion-mnist ] ;;
    onnx) python3 -c 'import h5py, onnx' 2>/dev/null ;;
    matplotlib) python3 -c 'import matplotlib' 2>/dev/null ;;
    'a GPU') nvidia-smi -L 2>/dev/null | grep -q '^GPU' ;;
    'a box') "$abs_top_srcdir/tests/cluster/box.sh" --check >/dev/null 2>&1 ;;
    cifar10)
        [ -f cifar-10-binary.tar.gz ] && return
        [ -d "$data/cifar10" ] || return 1
        mkdir -p cifar-10-batches-bin # the first fifth stands for all, since unpacking takes as long as the commands
        for part in data_batch_1 test_batch; do
            xz -dc "$data/cifar10/$part.bin.xz" >"cifar-10-batches-bin/$part.bin" || return 1
        done
        for part in 2 3 4 5; do
            ln cifar-10-batches-bin/data_batch_1.bin "cifar-10-batches-bin/data_batch_$part.bin"
        done
        cp "$data/cifar10/batches.meta.txt" cifar-10-batches-bin 2>/dev/null
        tar cf - cifar-10-batches-bin | gzip -1 >cifar-10-binary.tar.gz
        ;;
    flowers) # some of every class
        [ -d "$data/flowers17-256" ] && cp "$data/caffe-weights/squeezenet_v1.0.caffemodel" . 2>/dev/null || return 1
        cp "$(find "$data/flowers17-256/" -name '*.jp*g' | head -n 1)" photo.jpg
        awk 'NR % 11 == 1' "$data/flowers17-256/train.txt" | while read -r file class; do
            mkdir -p "flowers/class$class"
            cp "$data/flowers17-256/$file" "flowers/class$class"
        done
        [ -d flowers ]
        ;;
    flowers17) # by the commands that the solvers hold, of some photographs
        [ -d "$data/flowers17-256" ] && cp "$data/caffe-weights/squeezenet_v1.0.caffemodel" . 2>/dev/null || return 1
        mkdir -p data
        ln -sfn "$data/flowers17-256" data/flowers17-256
        cp "$(find "$data/flowers17-256/" -name '*.jp*g' | head -n 1)" photo.jpg
        for list in train test; do
            awk 'NR % 17 == 1' "data/flowers17-256/$list.txt" | sed "s|^|flowers17-256/|" >"data/$list-some.txt"
            sed -n "s|^# *\\(poseidon convert .*\\)data/flowers17-256/$list.txt|\\1data/$list-some.txt --force|p" \
                models/alexnet_flowers/solver.prototxt >convert.sh
            [ -s convert.sh ] && sh -e convert.sh >convert.log 2>&1 || { fail "flowers: $(cat convert.sh convert.log)"; return 1; }
        done
        ;;
    scenes) needs flowers && needs fashion-mnist ;;
    street) # a photograph, and labels of its size
        mkdir -p street/photographs street/labels
        cp "$abs_top_srcdir/tests/data/input/images/color.jpg" street/photographs &&
            cp "$abs_top_srcdir/tests/data/input/images/palette.png" street/labels/color.png ;;
    squeezenet)
        cp "$data/caffe-weights/squeezenet_v1.0.caffemodel" "$data/caffe-weights/synset_words.txt" . 2>/dev/null || return 1
        cp "$(find "$data/imagenet-samples" -iname '*.jp*g' | head -n 1)" photo.jpg
        ;;
    *) fail "needs=\"$1\" is not known to this test"; return 1 ;;
    esac
}

# ---- blocks ----
# Each becomes a file blocks/NNN with its page, line and fence line first. Code that is indented and not fenced would
# escape.
mkdir blocks
blocks() {
    awk -v page="$1" -v folder="$folder/blocks" '
        { line = $0; sub(/^ +/, "", line) }
        !inside && line ~ /^```/ {
            inside = 1; indent = match($0, /[^ ]/) - 1; gsub(/\//, "_", page)
            file = sprintf("%s/%s-%03d", folder, page, NR)
            print substr(line, 4) >file; next
        }
        inside && line ~ /^```$/ { inside = 0; close(file); next }
        inside { print substr($0, indent + 1) >file; next }
        /^    [a-z.$]/ && before ~ /^ *$/ { print FILENAME ":" NR ": code without a fence: " $0; bad = 1 }
        { before = $0 }
        END { exit bad }' "$2"
}
(cd "$clean" && find . -name '*.md' ! -path './data/*' ! -path './tests/*' ! -name HACKING.md ! -name REPRODUCTION.md | sort) >pages
while read -r page; do
    blocks "${page#./}" "$clean/$page" || fail "$page: code without a fence"
done <pages
find "$clean" | sort >before

option() { # NAME: its value in the fence line
    sed -n "1s/.* $1=\"\([^\"]*\)\".*/\1/p" "$block"
}
ran=0 left=0 texts=0
paste_block() {
    sed 1d "$block" >pasted.sh
    (cd "$clean" && timeout 1200 sh -eu "$folder/pasted.sh") >pasted.log 2>&1 </dev/null
    status=$?
    ran=$((ran + 1))
    [ -z "${PASTED_VERBOSE:-}" ] || { cat pasted.sh; tail -n 6 pasted.log; }
    [ $status -eq 0 ] || fail "$name: status $status of
$(cat pasted.sh)
$(tail -n 8 pasted.log)"
}
never() { # NAME REASON: a block that no machine runs
    case $(sed -n 2p "$block") in
    'git clone '* | ./check.sh | autoreconf\ * | 'apptainer build '*) leave "$2" ;;
    *) fail "$1: left, and this test does not say so" ;;
    esac
}
leave() {
    left=$((left + 1))
    echo "left: $name: $1"
}
with_run() { # a training under way, which the block stops; and a younger job of the same machine, which goes on
    mkdir -p apart
    ln -sfn "$clean/models" "$clean/data" apart
    (cd apart && exec mpirun -np 2 "$PASTED_PROGRAM" train --solver=models/lenet/solver.prototxt --max-iter=1000000) >run.log 2>&1 &
    pid=$!
    until grep -q 'Iteration 0' run.log || ! kill -0 $pid 2>/dev/null; do sleep 0.2; done
    mpirun -np 1 sh -c 'echo started; exec sleep 600' >other.log 2>&1 &
    other=$!
    until grep -q started other.log || ! kill -0 $other 2>/dev/null; do sleep 0.2; done
    everything=$clean clean=$folder/apart
    paste_block
    clean=$everything
    (sleep 60; kill $pid) 2>/dev/null & # where the block has not stopped it
    wait $pid
    status=$?
    kill $! 2>/dev/null
    kill -0 $other || fail "$name: it stopped another job"
    [ $status -eq 75 ] || fail "$name: the training ended with status $status, expected 75: $(tail -n 3 run.log)"
    grep -q 'SIGUSR1 to rank 0: stopping after' run.log || fail "$name: another signal stopped the training: $(tail -n 20 run.log)"
    kill $other
    wait $other
}
for block in "$folder"/blocks/README* "$folder"/blocks/docs* "$folder"/blocks/models*; do
    name=$(basename "$block")
    fence=$(head -n 1 "$block")
    case $fence in
    sh*left=*) never "$name" "$(option left)" ;;
    sh*needs=*)
        if (cd "$clean" && needs "$(option needs)"); then paste_block; else leave "no $(option needs) here"; fi ;;
    sh*with=\"a\ run\"*) with_run ;;
    sh*with=\"hosts\"*)
        printf 'localhost slots=1\n127.0.0.1 slots=1\n' >"$clean/hosts"
        export LAUNCH='mpirun --mca plm isolated'
        paste_block
        unset LAUNCH ;;
    sh*with=\"slurm\"* | sh*with=\"pbs\"*) paste_block ;;
    sh) paste_block ;;
    text*log=*)
        texts=$((texts + 1))
        sed '1d; s/^ *//' "$block" | while read -r line; do
            grep -q -F "$line" "$clean/$(option log)" || { echo "$line"; break; }
        done >missing
        [ ! -s missing ] || fail "$name: $(option log) has no line '$(cat missing)'" ;;
    text*) texts=$((texts + 1)) ;;
    *) fail "$name: a block of '$fence', expected sh or text" ;;
    esac
done
echo "ran $ran blocks of commands, left $left"
[ $ran -ge 20 ] || fail "only $ran blocks were run"
fences=$(cat "$clean/README.md" "$clean"/docs/*.md "$clean"/models/*/README.md | grep -c '^ *```')
[ $((2 * (ran + left + texts))) -eq "$fences" ] || fail "the pages have $fences fences, and $ran + $left + $texts blocks were seen"

# ---- what commands leave: git ignores it, so that a checkout stays clean ----
if git -C "$abs_top_srcdir" rev-parse 2>/dev/null; then
    find "$clean" -type f | sort | comm -13 before - | sed "s|^$clean/||" |
        grep -v -e '^data/' -e '^flowers/' -e '^photographs-' -e '^cifar-10' -e '^convert\.' -e '^photo\.jpg$' -e '^hosts$' -e '^squeezenet_v1.0\.' -e '^synset_words' >left
    (cd "$abs_top_srcdir" && git check-ignore --no-index --stdin <"$folder/left") | sort >ignored
    sort left | comm -23 - ignored >untracked
    [ ! -s untracked ] || fail "commands of the pages leave what git does not ignore: $(tr '\n' ' ' <untracked)"
fi

# ---- figures ----
for log in cifar10_fast:4:2 cifar10_quick:4:2 resnet20_cifar10:3:1 squeezenet_flowers:3:1 alexnet_flowers:3:1; do
    file=$clean/models/${log%%:*}/training.log
    percent=$(sed -n 's/.*accuracy = //p' "$file" | tail -n 1 | awk -v digits="${log##*:}" '{ printf "%.*f", digits, 100 * $1 }')
    grep -q -F "$percent %" "$clean/README.md" || fail "README.md: $file ends at $percent %, which it does not say"
done
# how long the trainings took: "7 minutes and 19 seconds", "49 minutes"
for log in cifar10_fast:'%.0f minutes' cifar10_quick:'%d minutes and %d seconds' resnet20_cifar10:'%.0f minutes' squeezenet_flowers:'%.0f minutes'; do
    lasted=$(grep '^[IW][0-9]\{4\} ' "$clean/models/${log%%:*}/training.log" | awk -v format="${log#*:}" '
        function seconds(time,   part) { split(time, part, ":"); return part[1] * 3600 + part[2] * 60 + part[3] }
        NR == 1 { begin = seconds($2) }
        { end = seconds($2) }
        END { s = end - begin; printf format, format ~ /%d/ ? s / 60 : int(s / 60 + 0.5), s + 0.5 - 60 * int(s / 60) }')
    grep -q -F "$lasted" "$clean/README.md" || fail "README.md: ${log%%:*} took $lasted, which it does not say"
done
for net in vgg19_22k:229:README.md vgg16:138:docs/networks.md; do
    page=${net##*:} net=${net%:*}
    "$PASTED_PROGRAM" summary --model="$clean/models/${net%:*}/train_val.prototxt" 2>/dev/null |
        awk -v millions="${net#*:}" '$1 == "total" { found = sprintf("%.0f", $2 / 1e6) } END { exit found != millions }' ||
        fail "$page: ${net%:*} has other than ${net#*:} million parameters"
    grep -q -F "${net#*:} million parameters" "$clean/$page" || fail "$page does not say ${net#*:} million parameters"
done
speedups() { # BATCH RATE: of 2 and 8 nodes, by the very command of docs/networks.md
    (cd "$clean" && poseidon plan --model=models/vgg16/train_val.prototxt --images-per-second=150 --batch="$1" --nodes=1,2,4,8 \
        --bandwidth="$2") | awk '/^MB sent/ { exit } /^nodes  iteration/ { table = 1 } table && ($1 == 2 || $1 == 8) { print $4 }' | tr '\n' ' '
}
for case in '32 1Gb 0.72 1.49' '128 1Gb 1.82 3.30' '128 10Gb 2.00 7.71'; do
    # shellcheck disable=SC2086 # words
    set -- $case
    [ "$(speedups "$1" "$2")" = "$3 $4 " ] || fail "plan's speed-up for batch $1 at $2: $(speedups "$1" "$2")instead of $3 and $4"
done
grep -q '0.72 and 1.49; with four times the batch 1.82 and 3.30' "$clean/docs/networks.md" || fail 'docs/networks.md has other figures of plan'
finish
