#!/bin/sh
# Files named in a solver and its net are looked for beside the solver. A prefix may be a folder.
. "$abs_top_srcdir/tests/mpi/common.sh"
mkdir -p inside/models inside/new
cp "$abs_top_srcdir/data/fashion-mnist-test.h5" inside/near.h5
write() { # TRAINING-DATA TEST-DATA PREFIX
    cat >inside/models/net.prototxt <<END
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$1' batch_size: 2 } include { phase: TRAIN } }
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$2' batch_size: 2 } include { phase: TEST } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 's' inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
    echo "net: 'models/net.prototxt' base_lr: 1e-6 lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 9 snapshot_prefix: '$3'" >inside/solver.prototxt
}

# A prefix that is a folder takes the solver's name, in the file and on the command line.
for given in "'new/' " "'run' --snapshot-prefix=new/" "'run' --snapshot-prefix=new"; do
    write near.h5 models/../near.h5 "$(expr "$given" : "'\(.*\)'")"
    # shellcheck disable=SC2086 # an option, or none
    (cd inside && "$POSEIDON" train --solver=solver.prototxt --threads=1 --force ${given##*\'}) >run.log 2>&1
    [ -f inside/new/solver_iter_1.caffemodel ] || fail "snapshot_prefix $given: $(ls -A inside/new)"
    rm -f inside/new/*
done
finish
