#!/bin/sh
# What is wrong, or does nothing, is said: options of other programs, settings without effect, files of another
# kind, a launcher of another MPI. Every refusal has status 1.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
cat >net.prototxt <<'END'
layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: [2, 3] } shape { dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2
    weight_filler { type: 'xavier' } } }
layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }
END
settings="net: 'net.prototxt' lr_policy: 'fixed' max_iter: 12 snapshot_prefix: 's' test_iter: 1 test_interval: 99"
echo "$settings base_lr: 0.01" >solver.prototxt
works '*' train --solver=solver.prototxt
# the table of the net, which goes to standard output, stands where it was printed: in front of the log
"$POSEIDON" train --solver=solver.prototxt >both.log 2>&1
table=$(sed -n '/^layer  *type /=' both.log) start=$(sed -n '/Solver scaffolding done/=' both.log)
[ "${table:-1000}" -lt "${start:-0}" ] || fail "the table of the net in line ${table:-?}, behind line ${start:-?} of the log"

# threads
refuses '*--threads=100000 is too many: this machine has *expected at most one thread per core*' \
    train --solver=solver.prototxt --threads=100000
cores=$(getconf _NPROCESSORS_ONLN)
works "*warning: --threads=$((cores + 1)) is more than this machine's $cores core*" \
    train --solver=solver.prototxt --max-iter=1 --threads=$((cores + 1)) --snapshot-prefix=t

# what other programs call it
refuses '*unknown option --batch-size: --batch=N sets samples per rank*' train --batch-size=8
refuses '*unknown option --lr: --set base_lr=X*' train --lr 0.1
refuses '*unknown option --display: --set display=X, or display in the solver*' train --display=3
refuses '*unknown option --weight-decay: --set weight_decay=X*' train --weight_decay=0.1
refuses '*unknown option --net: --solver=FILE: the solver names the net*' train --net=X
refuses '*unknown option --net: --model=FILE*' test --net=X
refuses '*unknown option --gpus: --nodes=LIST and --ranks-per-node=N*' plan --gpus=2
refuses '*unknown option --patience: --stop-after=N*' train --patience=3
while read -r option; do # a word of torchrun or of a common script: what it is called here, not where the list is
    timeout 60 "$POSEIDON" train "--$option=3" 2>&1 | grep -q "unknown option --$option: " || fail "--$option: no pointer"
done <<'END'
epoch
num-epochs
world-size
wd
device
optimizer
early-stopping
output-dir
save-dir
log-dir
data-dir
arch
scheduler
warmup
grad-accum
iters
eval
test-only
mixed-precision
rdzv-endpoint
gpus
test-interval
snapshot-interval
gamma
svb
use-sfb
table-staleness
server-bandwidth-mbps
num-table-threads
num-rows-per-table
block-size
net-outputs
stats-path
num-clients
client-id
END
refuses "*unexpected word 'x.solverstate': expected options only; did you mean --snapshot=x.solverstate (usage*" train --resume x.solverstate
refuses "*did you mean --weights=w.caffemodel.h5 (usage*" test w.caffemodel.h5
refuses "poseidon: unknown command 'predict' ('poseidon help' lists all)*" predict
refuses '*--epochs says when training ends: not with --max-iter*' train --solver=s --epochs=3 --max-iter=5
refuses "*unknown option --np: the launcher starts, numbers and connects the ranks: mpirun -np N*" train -np 4
refuses '*unknown option --model: --solver=FILE: the solver names the net*' train --model=net.prototxt
refuses '*--solver= names no file: --solver=FILE*' train --solver=
refuses "*unexpected word 'out.svg': expected options only*" summary --model=net.prototxt out.svg
refuses "*unexpected word 'solver.prototxt': expected options only; did you mean --solver=solver.prototxt (usage*" train solver.prototxt
refuses "*did you mean --model=net.prototxt (usage*" summary net.prototxt
refuses '*--max-iter expects a whole number, found*1e6*' train --solver=solver.prototxt --max-iter=1e6

# convert is parsed as the others are
refuses '*expected a kind (images or weights)*' convert
refuses "*unknown kind of data 'image'; did you mean images? (expected images or weights*" \
    convert image fl x.h5 --resize=64
refuses "*unknown kind of data 'coco' (expected*" convert coco a b.h5
refuses '*--force: expected a kind (images or weights) as the first word*' convert --force images a b.h5
for set in mnist cifar10; do
    refuses "*'convert $set' is a tool now: python3 tools/make_sets.py $set SRC DST.h5*" convert $set a b.h5
done
touch t_lmdb
refuses "*'t_lmdb' is a path: expected images or weights as the first word *LMDB, LevelDB or HDF5 need no conversion*" \
    convert t_lmdb x.h5
refuses "*unknown option --sed; did you mean --seed?*" convert images a b.h5 --sed 3
refuses '*expected a folder or list of images*' convert images

# solvers
solver() { # TEXT
    echo "net: 'net.prototxt' max_iter: 1 $1" >wrong.prototxt
}
solver ''
refuses '*wrong.prototxt: the solver has no base_lr*' train --solver=wrong.prototxt
solver 'base_lr: 1'
refuses '*wrong.prototxt: the solver has no lr_policy*' train --solver=wrong.prototxt
solver "base_lr: 1 lr_policy: 'magic'"
refuses '*wrong.prototxt: Unknown learning rate policy: magic*' train --solver=wrong.prototxt
solver "base_lr: 1 lr_policy: 'multifixed' stagelr: 0.1 stageiter: [5, 9]"
refuses '*wrong.prototxt: expected as many stageiter as stagelr, found 2 and 1*' train --solver=wrong.prototxt
solver "base_lr: 1 lr_policy: 'fixed' warmup_iter: 3 rampup_interval: 4"
refuses '*wrong.prototxt: warmup_iter and rampup_interval mean the same*' train --solver=wrong.prototxt
solver "base_lr: 1 lr_policy: 'step'"
refuses '*wrong.prototxt: lr_policy "step" needs a positive stepsize*' train --solver=wrong.prototxt
for net in photographs/squeezenet_solver squeezenet_flowers/solver; do # nets to be fine-tuned do not start from random values
    solver "base_lr: 1 lr_policy: 'fixed' $(grep '^weights:' "$abs_top_srcdir/models/$net.prototxt")"
    refuses '*wrong.prototxt: weights (or train --weights=FILE): squeezenet_v1.0.caffemodel: no such file*' train --solver=wrong.prototxt
done
solver "base_lr: -1 lr_policy: 'fixed' solver_mode: GPU test_iter: 0 test_interval: 1"
works '*wrong.prototxt: clip_gradients is 0: nothing is clipped (Caffe makes every gradient 0*' train --solver=wrong.prototxt \
    --set clip_gradients=0
lacks "$err" 'has level' 'no level'
echo 'train_state { level: 1 }' >level.prototxt
cat wrong.prototxt >>level.prototxt
works "*level.prototxt: the training net's state has level 1, which is used; 'caffe train' always uses level 0*" train \
    --solver=level.prototxt
works '*' train --solver=level.prototxt --tune=level=1
lacks "$err" 'has level' 'a level that was asked for'
works '*wrong.prototxt: base_lr is -1: training increases the loss*' train --solver=wrong.prototxt
has "$err" 'solver_mode is GPU, but training runs on the CPU; --engine=cuda*trains on GPUs' solver_mode
has "$err" 'test_iter is 0: test net #0 is not run' 'test_iter 0'
lacks "$err" 'Test net output' 'test_iter 0'
solver "base_lr: 1 lr_policy: 'step' stepsize: 2"
works '*wrong.prototxt: lr_policy "step": gamma is 0 or not set: the rate falls to 0*' train --solver=wrong.prototxt --dry-run
for policy in "'exp'" "'multistep' stepvalue: 3" "'plateau' plateau_winsize: 2"; do
    solver "base_lr: 1 lr_policy: $policy gamma: 0"
    works '*: gamma is 0 or not set: the rate falls to 0*' train --solver=wrong.prototxt --dry-run
done
for policy in "'inv' gamma: 0.1" "'inv' power: 0.1" "'poly'" "'sigmoid' stepsize: 3"; do
    solver "base_lr: 1 lr_policy: $policy"
    works '*is 0 or not set: the rate never falls*' train --solver=wrong.prototxt --dry-run
done
for policy in "'step' stepsize: 2 gamma: 0.1" "'inv' gamma: 0.1 power: 1" "'poly' power: 1" "'fixed'" "'cosine'"; do
    solver "base_lr: 1 lr_policy: $policy"
    works '*ready to train*' train --solver=wrong.prototxt --dry-run
    lacks "$err" 'is 0 or not set' "$policy"
done
for count in 0 -1; do
    solver "base_lr: 1 lr_policy: 'fixed' average_loss: $count"
    refuses "*wrong.prototxt: average_loss must be at least 1, found $count*" train --solver=wrong.prototxt
done
sed "s/top: 'l'/& loss_weight: 1 loss_weight: 2/" net.prototxt >twice.prototxt
refuses "*twice.prototxt:4: layer 'l': expected loss_weight once per top (1) or not at all, found 2*" \
    summary --model=twice.prototxt
solver "base_lr: 1 lr_policy: 'fixed' debug_info: true snapshot_diff: true layer_wise_reduce: false"
works '*wrong.prototxt: debug_info has no effect: values and gradients are not printed*' train --solver=wrong.prototxt --max-iter=1
has "$err" 'wrong.prototxt: snapshot_diff has no effect: snapshots hold no gradients' snapshot_diff
has "$err" 'wrong.prototxt: layer_wise_reduce: false has no effect; --tune=overlap=none sends' layer_wise_reduce
sed "s/num_output: 2/& } param { lr_mult: 0 } param { lr_mult: 0/" net.prototxt >frozen.prototxt
sed -i 's/xavier/constant/' frozen.prototxt
sed "s/net.prototxt/frozen.prototxt/" solver.prototxt >frozen_solver.prototxt
sed -i "s/inner_product_param { num_output: 2 } param/param/; s/lr_mult: 0 *\$/lr_mult: 0 } inner_product_param { num_output: 2/" frozen.prototxt
works '*Nothing trains: every lr_mult of the net is 0*' train --solver=frozen_solver.prototxt --max-iter=1
works '*Reproducible: 1 grain, each*' train --solver=solver.prototxt \
    --max-iter=1 --tune=deterministic --global-batch=2 --reproducible=2

# a summary that can stand in a table
works '*' train --solver=solver.prototxt --summary=s.json
for key in version commit date solver net comm overlap wire batch_per_rank threads hosts scheme_by_layer test_iteration \
    warmup_iterations images_per_second_after_warmup; do
    has "$(cat s.json)" "\"$key\":" --summary
done
has "$(cat s.json)" '"warmup_iterations": 5' --summary
has "$(cat s.json)" '"test_iteration": 0' --summary

# weights of another net
cp "$abs_top_srcdir/tests/data/spec/today.caffemodel" W
sed 's/"ip"/"other"/; s/name: .ip./name: "other"/' net.prototxt >other.prototxt
echo "net: 'other.prototxt' lr_policy: 'fixed' max_iter: 1 base_lr: 0.1" >other_solver.prototxt
refuses "*W: holds no layer named as one of the net's 1 layer with parameters*" train --solver=other_solver.prototxt --weights=W
refuses "*W: holds no layer named as one of the net's 1 layer with parameters*" test --model=other.prototxt --weights=W

printf 'PK\003\004....................000000archive/data.pkl' >pytorch_model.bin
printf 'PK\003\004....................000000arr_0.npy' >arrays.bin
printf '\200\002\212\012l\374\234F' >old.bin
printf '\077\000\000\000\000\000\000\000{"w":{"dtype":"F32"}}' >tensors.bin
refuses "*tensors.bin: expected a binary model (.caffemodel), found a safetensors file: convert it with 'python3 tools/weights.py IN *" train --solver=solver.prototxt --weights=tensors.bin
while read -r file what; do # by their content; known endings are refused before
    refuses "*$file: expected a binary model (.caffemodel), found $what*" train --solver=solver.prototxt --weights="$file"
done <<'END'
pytorch_model.bin a PyTorch file (.pth)
arrays.bin a NumPy archive (.npz)
old.bin a Python pickle, such as an old PyTorch file (.pth)
END

# profiles by a device's name, as plan takes them
(cd "$abs_top_srcdir" && "$POSEIDON" train --solver=models/lenet/solver.prototxt --engine=replay --tune=profile=cpu --dry-run) >dry 2>&1 ||
    fail "--tune=profile=cpu: $(tail -n 1 dry)"
refuses '*profile gpu is neither a device (k20, *) nor a file*' train --solver=solver.prototxt --engine=replay --tune=profile=gpu

# fillers, layer types
sed 's/xavier/xaveir/' net.prototxt >filler.prototxt
for command in summary plan time; do
    refuses '*filler.prototxt:2: layer*unknown filler name: xaveir (known fillers: bilinear, constant*' \
        $command --model=filler.prototxt
done
works '*"weight_filler": {*"type": "xaveir"*' summary --definition --model=filler.prototxt
type() {
    sed "s/SoftmaxWithLoss/$1/" net.prototxt >type.prototxt
    run summary --model=type.prototxt
    [ "${#err}" -lt 400 ] || fail "a message of ${#err} letters: $err"
}
type CrossEntropyLoss
has "$err" "did you mean SoftmaxWithLoss?*('poseidon help layers' lists all types; \"My net is refused\" in man poseidon says what to do)" CrossEntropyLoss
type Conv2d
has "$err" 'did you mean Convolution?' Conv2d
type EuclidaenLoss
has "$err" "did you mean EuclideanLoss?*'poseidon help layers' lists all types" a typo
lacks "$err" 'nearest names' a typo
type CenterLoss
has "$err" 'it belongs to a fork of Caffe for face recognition (CenterLoss)' CenterLoss
works '*SoftmaxWithLoss*MemoryData layers have no data here: train, *not supported:*Python *to read *HDF5Data*MultiBoxLoss PriorBox*object*(SSD)*' help layers
for field in 'data_param { cache: true }:NVIDIA (NVCaffe)' 'center_loss_param { }:CenterLoss' \
    'margin_inner_product_param { }:SphereFace' 'detectnet_groundtruth_param { }:DetectNet' 'source_class: "x":CaffeOnSpark'; do
    echo "layer { name: 'x' type: 'Input' top: 'x' ${field%:*} }" >fork.prototxt
    refuses "*it comes from the Caffe fork of *${field##*:}*" summary --model=fork.prototxt
done

# a refused net: a line a field and a type, with their numbers; under V1 names, too; one pointer to the ways out
cat >segment.prototxt <<'END'
layer { name: 'data' type: 'VideoData' top: 'data' top: 'label' video_data_param { batch_size: 4 } }
layer { name: 'bn1' type: 'BN' bottom: 'data' top: 'a' bn_param { } }
layer { name: 'up1' type: 'Reorg' bottom: 'a' top: 'b' reorg_param { } }
layer { name: 'bn2' type: 'BN' bottom: 'b' top: 'c' bn_param { } }
layer { name: 'bn3' type: 'BN' bottom: 'c' top: 'd' bn_param { } }
END
refuses '*segment.prototxt:2:[0-9]*: layer *bn1* (BN): * has no field "bn_param"; *PSPNet and SegNet (3 times)
*segment.prototxt:1: layer *data* (VideoData): *video; HDF5Data with 5 axes *
*segment.prototxt:2: layer *bn1* (BN): *tools/from_forks.py makes it BatchNorm and Scale (3 times)
*segment.prototxt:3: layer *up1* (Reorg): *(Darknet*s YOLO)
(*poseidon help layers*"My net is refused" in man poseidon*' summary --model=segment.prototxt
[ "$(printf '%s\n' "$err" | wc -l)" -eq 7 ] || fail "a refused net takes other than 7 lines: $err"
sed 's/ [a-z_]*_param {.*}/ }/; s/} }$/}/' segment.prototxt >types.prototxt # told when the net is built
refuses '*types.prototxt:1: layer *VideoData*(BN): *(3 times)
*(Reorg): *' summary --model=types.prototxt
works '*"VideoData"*"Reorg"*' summary --definition --model=types.prototxt
for i in $(seq 60); do
    echo "layer { name: 'l$i' type: 'Own_${i}_$(printf %060d "$i")' own_param_$i { } }"
done >many.prototxt
refuses '*many.prototxt:1:*has no field "own_param_1"*
... and others ([0-9]* times)
*"My net is refused" in man poseidon*' summary --model=many.prototxt
[ "${#err}" -lt 4096 ] || fail "a refused net: a message of ${#err} letters"
cat >v1.prototxt <<'END'
layers { name: 'd' type: VIDEO_SEGMENTATION_DATA top: 'x' top: 'y' }
layers { name: 'a' type: CROP bottom: 'x' top: 'a' }
layers { name: 'b' type: LOCAL bottom: 'x' top: 'b' }
layers { name: 'c' type: LOCAL bottom: 'x' top: 'c' }
layers { name: 'e' type: VIDEO_DATA top: 'e' }
layers { name: 'f' type: MCWINDOW_DATA top: 'f' }
layers { name: 'g' type: CONVOLUTOIN bottom: 'x' top: 'g' }
END
refuses '*v1.prototxt:1:26: layer *VIDEO_SEGMENTATION_DATA is not supported*video*
*:2:26: *CROP; did you mean Crop? Only today*s form has this type: run *poseidon upgrade*
*:3:26: *LOCAL is not supported*(2 times)
*:5:26: *VIDEO_DATA is not supported*
*:6:26: *MCWINDOW_DATA is not supported*R-CNN*
*:7:26: *did you mean CONVOLUTION?
(*My net is refused*' summary --model=v1.prototxt
for type in Reorg:Darknet Transpose:'Reshape does not' SpatialSoftmax:Softmax MergeCrop:'Crop and Concat' MMDLoss:DAN Flip:mirror \
    VideoData:HDF5Data CtcLoss:HDF5Data ContinuationIndicator:HDF5Data ImageLabelmapData:ImageSegData \
    Normalize:NormFace Python:HDF5Data; do
    type "${type%%:*}"
    has "$err" "(${type%%:*}): layer type ${type%%:*} is not supported: *${type#*:}" "${type%%:*}"
    lacks "$err" 'did you mean' "${type%%:*}"
done
solver "base_lr: 1 lr_policy: 'stepearly'"
refuses '*Unknown learning rate policy: stepearly*plateau lowers the rate where the loss stops falling*' train --solver=wrong.prototxt
{
    sed -n 1p net.prototxt
    for i in 1 2 3; do
        echo "layer { name: 'b$i' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { use_global_stats: true } }"
    done
    sed 1d net.prototxt
} >global.prototxt
echo "net: 'global.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'g' test_iter: 1 test_interval: 9" >global.solver
for command in 'summary --model=global.prototxt' 'train --solver=global.solver'; do
    # shellcheck disable=SC2086 # words
    works "*layer 'b1': use_global_stats is true in training: *(3 times)*" $command
    [ "$(printf '%s\n' "$err" | grep -c use_global_stats)" -eq 1 ] || fail "$command: more than one line: $err"
done
printf "default_forward_type: FLOAT16\n" | cat - net.prototxt >idle.prototxt
sed -i "s/type: 'InnerProduct'/& forward_type: FLOAT/" idle.prototxt
refuses '*"default_forward_type"*: remove it*"forward_type"*: remove it*' summary --model=idle.prototxt
works '*idle.prototxt:1:1: *"default_forward_type"*: left out*"forward_type"*: left out*' upgrade idle.prototxt busy.prototxt
works '*' summary --model=busy.prototxt
echo "base_lr: 1 lr_policy: 'fixed' net: 'busy.prototxt' solver_data_type: FLOAT16" >idle.solver
works '*"solver_data_type"*: left out*' upgrade idle.solver busy.solver
works '*' train --dry-run --max-iter=1 --solver=busy.solver

# launchers that this program's MPI does not know; the last variable is what counts
while read -r count signs; do
    # shellcheck disable=SC2086 # words
    err=$(env $signs timeout 600 "$POSEIDON" train --solver=solver.prototxt 2>&1) && fail "$signs: trains alone"
    case $signs in
    OMPI_*) [ -n "$err" ] ;; # Open MPI itself may say so first
    *) has "$err" "started $count separate programs instead of one job of $count ranks (${signs##* }): use" "$signs" ;;
    esac
done <<'END'
2 SLURM_STEP_NUM_TASKS=2
2 OMPI_COMM_WORLD_SIZE=2
2 PMI_SIZE=2
2 MPI_LOCALNRANKS=2
2 MV2_COMM_WORLD_SIZE=2
2 FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2
2 PALS_RANKID=0 PALS_NRANKS=2
2 PALS_RANKID=0 PMI_SIZE=2
several PALS_RANKID=1
4 JSM_NAMESPACE_SIZE=4
several ALPS_APP_PE=1
2 HOROVOD_RANK=1 HOROVOD_SIZE=2
2 RANK=0 WORLD_SIZE=2
END
err=$(WORLD_SIZE=2 RANK=1 timeout 600 "$POSEIDON" train --solver=solver.prototxt 2>&1) && fail 'the second program of torchrun trains'
[ -z "$err" ] || fail "the second program of torchrun speaks, too: $err"
# variables that say one, or that are of something else
for signs in 'PALS_NRANKS=2' 'WORLD_SIZE=2' 'ALPS_APP_PE=0' 'FLUX_JOB_SIZE=1' 'SLURM_NTASKS=4 SLURM_PROCID=0' 'PMI_SIZE=1'; do
    # shellcheck disable=SC2086 # words
    err=$(env $signs timeout 600 "$POSEIDON" train --solver=absent.prototxt 2>&1)
    has "$err" 'absent.prototxt: no such file' "$signs"
done

# what would do nothing, or the same twice
cat >inputs.prototxt <<'EOF'
layer { name: 'd' type: 'Input' top: 'x' input_param { shape { dim: [2, 3] } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 } }
EOF
cat >twice.prototxt <<'EOF'
layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: [2, 3] } shape { dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'a' inner_product_param { num_output: 4 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'a' top: 'b' inner_product_param { num_output: 2 } }
layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'b' bottom: 'y' top: 'l' }
EOF
echo "net: 'twice.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 1 snapshot_prefix: 'tw'" >twice.solver
refuses "*layer 'ip' (InnerProduct): parameter 0 has shape *; several layers have this name*give each its own name" train --solver=twice.solver
sed 's/ type: .InnerProduct. bottom: .a./ type: "InnerProduct" bottom: "a" name: "ip2"/; s/name: .ip. type: "Inner/type: "Inner/' twice.prototxt >once.prototxt
echo "net: 'once.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'tw'" >once.solver
works '*' train --solver=once.solver
refuses "*inputs.prototxt:*: the input '*' would be zeros: expected a layer that reads data*" test --model=inputs.prototxt --weights=tw_iter_1.caffemodel
mkdir empty_folder
echo "layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: 'empty_folder' batch_size: 2 } }" >folder.prototxt
echo "net: 'folder.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 snapshot_prefix: 'tw'" >folder.solver
refuses '*empty_folder is a folder; expected an HDF5 file (or a folder that is a data base: an LMDB has a data.mdb*' train --solver=folder.solver
if [ -e /dev/full ]; then
    err=$("$POSEIDON" summary --model=once.prototxt 2>&1 >/dev/full)
    [ $? -eq 1 ] || fail 'a full disk behind standard output: status not 1'
    has "$err" 'poseidon summary: standard output cannot be written: No space left on device' 'a full disk'
    for words in --help --version help 'train --help' doctor "test --model=once.prototxt --weights=tw_iter_1.caffemodel --json" \
        'train --solver=once.solver --max-iter=1 --snapshot-prefix=full'; do
        # shellcheck disable=SC2086 # words
        err=$("$POSEIDON" $words 2>&1 >/dev/full)
        [ $? -eq 1 ] || fail "a full disk, $words: status not 1"
        has "$err" "poseidon ${words%% *}: standard output cannot be written: No space left on device" "a full disk, $words"
    done
fi
err=$(OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$POSEIDON" summary --model=once.prototxt 2>&1)
has "$err" 'poseidon summary: runs on one rank, but 2 ranks were started: leave out mpirun' 'two ranks'
err=$(OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 "$POSEIDON" summary --model=once.prototxt 2>&1)
[ -z "$err" ] || fail "two ranks: the second one says '$err'"
for kind in '\377\330\377:a JPEG picture' '\177ELF:a program' '\037\213:a gzip archive' '\377\376:UTF-16 text' '\211PNG:a PNG picture'; do
    # shellcheck disable=SC2059 # escapes
    printf "${kind%%:*}rest" >binary
    refuses "*binary: expected text, found ${kind#*:}*" train --solver=binary
done
for option in iterations:--max-iter=N max-epochs:--epochs=N log-interval:'--set display=N' workers:'nothing to set' \
    gradient-accumulation-steps:'--set iter_size=N' evaluate:'poseidon test' dist-backend:'Open MPI' hostfile:'mpirun --hostfile' \
    local-rank:'mpirun -np N' pretrained:--weights=FILE; do
    refuses "*unknown option --${option%%:*}: *${option#*:}*" train "--${option%%:*}=1"
done
refuses '*unknown option --solver: a solver is for train; here --model=FILE names the net*' test --solver=once.solver

# version
for word in --version -v version; do
    works '*poseidon [0-9]*commit *MPI *HDF5 *oneDNN *compiler*flags*' $word
done
finish
