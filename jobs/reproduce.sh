#!/bin/sh
# Makes tables of speed-up and their plots, as papers have them, from nothing but an allocation or this machine.
#
#     reproduce.sh --where=simulate [--table=LIST] [--out=DIR]       on a virtual clock: minutes
#     reproduce.sh --where=box [--table=LIST] [--counts=1,2,4,8]     hosts made of this machine; computation is replayed
#     sbatch --nodes=8 jobs/reproduce.slurm [OPTIONS]                --where=slurm in the job's allocation
#     qsub jobs/reproduce.pbs                                        --where=pbs in the job's
#
#   --table=LIST         tables to make. simulate: vgg19_22k vgg19 googlenet inception_v3 resnet152 alexnet lossy 2015
#                        imagenet22k horovod (all of them); else nets of models/ (alexnet,vgg16,googlenet)
#   --out=DIR            (reproduction) DIR/runs/TABLE has what programs wrote, DIR tables and plots
#   --publish=DIR        simulate: write tables (CSV) and the pictures of docs/REPRODUCTION.md into DIR/reproduction
#  Where training runs (box, slurm, pbs):
#   --solver=FILE        this training, as table "own", with its data, tests and snapshots left out. Without it, nets
#                        of models/ train on made-up images
#   --counts=LIST        numbers of nodes (1, 2, 4, ... up to --nodes, and that)
#   --nodes=N            nodes of the allocation (1; box: 8)
#   --ranks-per-node=N   (1)
#   --comm=LIST          schemes to compare, as "poseidon train --comm" takes them (auto,ps,paper)
#   --iterations=N       of each run (20; box: 10)
#   --rate=RATE          box: of its links (1gbit)
#   --batch=N            images per rank (box: 16; else the net's own)
#   -- ARGUMENT...       more for "poseidon train", such as --threads=8
#
# POSEIDON names the program (default: build/poseidon here, else poseidon of PATH; where there is neither, it is
# built). LAUNCH is how ranks are started; {ranks}, {nodes} and {per} (ranks per node) in it are filled in. Default:
# mpirun -np {ranks} --map-by ppr:{per}:node --bind-to none
set -u

where='' tables='' out=reproduction publish='' solver='' counts='' nodes='' per=1 comms='' iterations='' rate=1gbit batch=''
launch=${LAUNCH:-'mpirun -np {ranks} --map-by ppr:{per}:node --bind-to none'}
root=$(cd "$(dirname "$0")/.." && pwd)

die() {
    printf 'reproduce.sh: %s\n' "$1" >&2
    exit 1
}

number() { # OPTION VALUE
    case $2 in
    '' | *[!0-9]* | 0*) die "$1 wants a number of at least 1, found '$2'" ;;
    esac
}

words() {
    echo "$1" | tr ',' ' '
}

while [ $# -gt 0 ]; do
    case $1 in
    --where=*) where=${1#*=} ;;
    --table=*) tables=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --publish=*) publish=${1#*=} ;;
    --solver=*) solver=${1#*=} ;;
    --counts=*) counts=${1#*=} ;;
    --nodes=*) nodes=${1#*=} ;;
    --ranks-per-node=*) per=${1#*=} ;;
    --comm=*) comms=${1#*=} ;;
    --iterations=*) iterations=${1#*=} ;;
    --rate=*) rate=${1#*=} ;;
    --batch=*) batch=${1#*=} ;;
    --help | -h)
        sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p;}' "$0"
        exit 0
        ;;
    --)
        shift
        break
        ;;
    *) die "unknown argument '$1' (reproduce.sh --help)" ;;
    esac
    shift
done
case $where in
simulate | box | slurm | pbs) ;;
'') die 'where? --where=simulate, box, slurm or pbs' ;;
*) die "--where=$where: expected simulate, box, slurm or pbs" ;;
esac
[ -z "$publish" ] || [ "$where" = simulate ] || die '--publish is for --where=simulate: others differ from machine to machine'
[ "$where" != slurm ] || [ -n "${SLURM_JOB_ID:-}" ] || die 'this is not in a job: sbatch --nodes=N jobs/reproduce.slurm'
[ "$where" != pbs ] || [ -n "${PBS_NODEFILE:-}" ] || die 'this is not in a job: qsub jobs/reproduce.pbs'
number --ranks-per-node "$per"
for pair in "--nodes=$nodes" "--iterations=$iterations" "--batch=$batch"; do
    [ -z "${pair#*=}" ] || number "${pair%%=*}" "${pair#*=}"
done
for count in $(words "$counts"); do
    number --counts "$count"
done
[ -z "$solver" ] || [ -r "$solver" ] || die "$solver cannot be read"

command -v python3 >/dev/null || die 'python3 is not in PATH, and the tables are made by tools/report.py'
[ -z "$publish" ] || python3 -c 'import matplotlib' 2>/dev/null || die '--publish draws by matplotlib, which is missing (Debian: python3-matplotlib)'

if [ -z "${POSEIDON:-}" ]; then
    if [ -x "$root/build/poseidon" ]; then
        POSEIDON=$root/build/poseidon
    elif command -v poseidon >/dev/null; then
        POSEIDON=poseidon
    elif [ -r "$root/scripts/setup.sh" ]; then
        (cd "$root" && setup_arguments='' && . ./scripts/setup.sh && setup_dependencies "$setup_required" &&
            setup_build build) >&2 || die 'the program could not be built'
        POSEIDON=$root/build/poseidon
    else
        die 'poseidon is not in PATH; set POSEIDON'
    fi
fi
export POSEIDON
mkdir -p "$out/runs" || die "$out cannot be made"
out=$(cd "$out" && pwd)

# quoted TEXT: as it stands between quotes in JSON and in a prototxt
quoted() {
    printf '%s\n' "$1" | sed 's/[\\"]/\\&/g' | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }'
}

# begin TABLE TITLE [MORE]: an empty folder of runs, and what is said of all of them
begin() {
    rm -rf "$out/runs/$1"
    mkdir -p "$out/runs/$1" || die "$out/runs/$1 cannot be made"
    printf '{"title": "%s"%s}\n' "$(quoted "$2")" "${3:-}" >"$out/runs/$1/about.json"
    made="${made:-} $1"
    echo "reproduce.sh: $1" >&2
}

# ---- simulated ----

# play TABLE NAME MODEL ARGUMENT...: rows of one scheme
play() {
    to=$out/runs/$1/$2.json model=$root/models/$3/train_val.prototxt
    shift 3
    "$POSEIDON" plan --model="$model" --json "$@" >"$to" 2>"$out/said" ||
        die "plan --model=$model $*: $(tail -n 1 "$out/said")"
}

# The paper's cluster: constants as tests/cluster/VALIDATION.md has them. How each system overlaps is its own.
hosts='--figure thread_bytes_per_second=3.5GB --figure device_bytes_per_second=3.2GB
    --figure sum_bytes_per_second=8GB --figure copy_bytes_per_second=8GB'
theirs="--profile=titanx $hosts"
of_scheme() {
    case $1 in
    adam) echo '--comm=adam --tune=overlap=backward' ;;
    onebit) echo '--comm=onebit --tune=overlap=none' ;;
    released) echo '--comm=paper --tune=overlap=none --tune=order=fifo' ;;
    *) echo "--comm=$1" ;;
    esac
}

# What plots call the schemes, and those whose speed-up is drawn: the others lie on one of these, or far below.
words_of_schemes=', "names": {"auto": "this program", "poseidon": "Poseidon, 2017", "wfbp": "parameter server",
    "caffe-ps": "servers, no overlap", "tf-ps": "TensorFlow, 2016", "ring": "ring", "adam": "Project Adam",
    "onebit": "CNTK, 1 bit", "none": "no communication"},
    "speedup": ["auto", "wfbp", "ring", "adam", "onebit", "tf-ps"]'

# paper NET NAME SCHEMES: speed-up on 40 Gb/s, images/s of 16 nodes over bandwidth
paper() {
    begin "$1" "One Titan X a node, with the constants that were fitted to the paper's 18 points (PS and copies of its time)." \
        ", \"name\": \"$2\"$words_of_schemes"
    for scheme in $3; do
        # shellcheck disable=SC2046,SC2086 # lists of options
        play "$1" "$scheme-40" "$1" $theirs $(of_scheme "$scheme") --nodes=1,2,4,8,16,32 --bandwidth=40Gb
        case $scheme in none | tf-ps | caffe-ps) continue ;; esac
        for gbps in 2 5 10 20 30; do
            # shellcheck disable=SC2046,SC2086
            play "$1" "$scheme-$gbps" "$1" $theirs $(of_scheme "$scheme") --nodes=16 --bandwidth=${gbps}Gb
        done
    done
}

# ResNet-50 on newer devices: what rounded gradients bring where links are slow
lossy() {
    begin lossy 'One device a node, usual hosts: auto is exact, --lossy lets it send gradients as bfloat16 or of rank 4.' \
        ', "name": "ResNet-50", "devices": ["p100", "a100", "h100"], "names": {"auto": "this program, exact",
        "auto --lossy=bf16,lowrank:4": "this program, --lossy", "ring": "ring"}'
    for device in p100 a100 h100; do
        for gbps in 1 10 25 100; do
            for comm in auto 'auto --lossy=bf16,lowrank:4' ring; do
                # shellcheck disable=SC2086 # an option, or two
                play lossy "$device-$gbps-$(echo $comm | tr -c 'a-z0-9\n' -)" resnet50 --profile=$device --nodes=32,1024 \
                    --bandwidth=${gbps}Gb --comm=$comm
            done
        done
    done
}

# k20 TABLE NET NAME: up to eight nodes of 2015
k20() {
    begin "$1" 'One K20 a node, with the constants of the nodes of 2017: none is fitted to a figure of 2015.' \
        ", \"name\": \"$3\"$words_of_schemes"
    for scheme in none auto poseidon wfbp released; do
        # shellcheck disable=SC2046,SC2086
        play "$1" "$scheme" "$2" --profile=k20 $hosts $(of_scheme "$scheme") --nodes=1,2,4,8 --bandwidth=40Gb
    done
}

# Eight V100 a node. They add up in their own memory, as fast as that is.
horovod() {
    begin horovod 'Eight V100 a node; nothing is fitted to these figures.' ', "name": "Horovod"'
    for comm in none ring; do
        play horovod $comm resnet50 --profile=v100 --comm=$comm --hierarchy=off --ranks-per-node=8 --nodes=1,2,4,8,16 \
            --bandwidth=25Gb --figure sum_bytes_per_second=400GB
    done
}

simulate() {
    all='vgg19_22k vgg19 googlenet inception_v3 resnet152 alexnet lossy 2015 imagenet22k horovod'
    for table in $(words "${tables:-$all}"); do
        case $table in
        vgg19_22k) paper vgg19_22k 'VGG19 with 22,000 classes' 'none auto poseidon wfbp caffe-ps tf-ps ring' ;;
        vgg19) paper vgg19 VGG19 'none auto poseidon wfbp caffe-ps tf-ps adam onebit' ;;
        googlenet) paper googlenet GoogLeNet 'none auto poseidon wfbp caffe-ps ring' ;;
        inception_v3) paper inception_v3 Inception-v3 'none auto poseidon wfbp tf-ps ring' ;;
        resnet152) paper resnet152 ResNet-152 'none auto poseidon wfbp tf-ps ring' ;;
        alexnet) paper alexnet AlexNet 'none auto poseidon wfbp caffe-ps ring' ;;
        lossy | horovod) $table ;;
        2015)
            k20 2015_alexnet alexnet AlexNet
            k20 2015_googlenet googlenet GoogLeNet
            k20 2015_cifar10_quick cifar10_quick 'CIFAR-10 quick'
            ;;
        imagenet22k) k20 imagenet22k alexnet_22k 'AlexNet with 22,000 classes' ;;
        *) die "there is no table '$table' to simulate (there are: $all)" ;;
        esac
    done
}

# ---- trained ----

# train TABLE SOLVER OPTIONS...: all schemes on all counts
train() {
    table=$1 training=$2
    shift 2
    for comm in $(words "$comms"); do
        for count in $(words "$counts"); do
            ranks=$((count * per)) name=$out/runs/$table/$comm-$count
            command=$(echo "$launch" | sed "s/{ranks}/$ranks/g; s/{nodes}/$count/g; s/{per}/$per/g")
            echo "reproduce.sh: $table, $comm on $count nodes, $ranks ranks" >&2
            # shellcheck disable=SC2086 # a command with options
            $command "$POSEIDON" train --solver="$training" --max-iter="$iterations" --set display=0 --comm="$comm" \
                --summary="$name.json" "$@" </dev/null \
                >"$name.said" 2>&1 || die "$table, $comm on $count nodes: $(tail -n 3 "$name.said")"
        done
    done
}

measure() { # MORE_OF_ABOUT, then train's own options
    about=$1
    shift
    if [ -n "$solver" ]; then
        begin own "$solver" "$about"
        train own "$solver" --set snapshot=0 --set snapshot_after_train=false --set test_initialization=false \
            --set test_interval=1000000000 "$@"
        return
    fi
    for table in $(words "${tables:-$usual}"); do
        model=$root/models/$table
        [ -r "$model/solver.prototxt" ] || die "there is no table '$table': models/ has no such net"
        begin "$table" "Made-up images${title:+; $title}." "$about"
        shape=''
        [ "$table" != lenet ] || shape='=1,28,28' # of the others their nets say it
        if [ "$where" = box ]; then
            profile=$out/runs/$table/profile.csv
            "$POSEIDON" time --model="$model/train_val.prototxt" ${shape:+"--input-shape$shape"} --batch="$batch" --threads=1 \
                --iterations=3 --profile="$profile" >"$out/said" 2>&1 || die "$table: $(tail -n 1 "$out/said")"
            train "$table" "$model/solver.prototxt" --set net="$model/train_val.prototxt" "--fake-data$shape" --batch="$batch" --engine=replay \
                --tune=profile="$profile" "$@"
        else
            train "$table" "$model/solver.prototxt" --set net="$model/train_val.prototxt" "--fake-data$shape" ${batch:+--batch="$batch"} "$@"
        fi
    done
}

default_counts() {
    [ -z "$counts" ] || return 0
    count=1
    while [ "$count" -lt "$nodes" ]; do
        counts=$counts$count,
        count=$((count * 2))
    done
    counts=$counts$nodes
}

case $where in
simulate) simulate ;;
box)
    if [ -z "${BOX_HOSTS:-}" ]; then
        exec "$root/tests/cluster/box.sh" --hosts="${nodes:-8}" --slots="$per" --rate="$rate" -- sh "$0" --where=box \
            --table="$tables" --out="$out" --solver="$solver" --counts="$counts" --ranks-per-node="$per" --comm="$comms" \
            --iterations="$iterations" --batch="$batch" -- "$@"
    fi
    nodes=$(echo "$BOX_HOSTS" | wc -w) iterations=${iterations:-10} batch=${batch:-16} comms=${comms:-auto,ps,paper}
    usual=alexnet,googlenet
    default_counts
    # Threads of the hosts share this machine's cores: what computes is asleep, so that the cores are the network's.
    title="hosts made of one machine, links of $BOX_RATE, one thread's layer times replayed"
    bits=$(echo "$BOX_RATE" | sed 's/gbit$/e9/; s/mbit$/e6/; s/kbit$/e3/; s/bit$//')
    measure ", \"how\": \"emulated\", \"link_bytes_per_second\": $(awk -v b="$bits" 'BEGIN { printf "%.0f", b / 8 }')" "$@"
    ;;
slurm | pbs)
    [ "$where" != slurm ] || nodes=${nodes:-${SLURM_JOB_NUM_NODES:-1}}
    if [ "$where" = pbs ]; then
        nodes=${nodes:-$(sort -u "$PBS_NODEFILE" | wc -l)}
        [ -n "${LAUNCH:-}" ] || launch="mpirun --hostfile $PBS_NODEFILE -np {ranks} --map-by ppr:{per}:node --bind-to none"
    fi
    iterations=${iterations:-20} comms=${comms:-auto,ps,paper} usual=alexnet,vgg16,googlenet
    [ -z "$batch" ] || [ -z "$solver" ] || set -- --batch="$batch" "$@"
    default_counts
    measure '' "$@"
    ;;
esac

rm -f "$out/said"
set --
for table in $made; do
    set -- "$@" "$out/runs/$table"
done
[ ! -r "$root/docs/published.csv" ] || set -- "$@" "--published=$root/docs/published.csv"
"$root/tools/report.py" "$@" --out="$out" || exit 1

# How long eight nodes take for the 7.1 million images that the published trainings had.
epochs() {
    echo 'nodes,net,scheme,images_per_second,hours_an_epoch,epochs_in_three_days'
    awk -F, '($1 == "imagenet22k" || $1 == "vgg19_22k") && $4 !~ /none|caffe/ && $5 == 8 && $8 == 40 {
        hours = 7.1e6 / $10 / 3600
        printf "8 with a %s,%s,%s,%.0f,%.1f,%.0f\n", $1 == "imagenet22k" ? "K20" : "Titan X", $2, $4, $10, hours, 72 / hours
    }' "$out/report.csv" | sort
}

# Tables beside the page, and the pictures that it shows
if [ -n "$publish" ]; then
    mkdir -p "$publish/reproduction" || die "$publish cannot be written"
    cp "$out/compare.csv" "$publish/reproduction" || die "$publish/reproduction cannot be written"
    cp "$out/report.csv" "$publish/reproduction/simulated.csv" || die "$publish/reproduction cannot be written"
    epochs >"$publish/reproduction/epochs.csv"
    grep -o '(reproduction/[a-z0-9_-]*\.svg)' "$root/docs/REPRODUCTION.md" | tr -d '()' | while read -r picture; do
        cp "$out/${picture#*/}" "$publish/$picture" || die "there is no picture ${picture#*/}"
    done || exit 1
fi
