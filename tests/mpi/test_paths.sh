#!/bin/sh
# Files of a stranger's solver and net that lie outside of the folder that the user works in and of the solver's: each
# is said once, by name; those inside are not.
. "$abs_top_srcdir/tests/mpi/common.sh"
mkdir inside outside inside/models
cp "$abs_top_srcdir/data/fashion-mnist-test.h5" inside/near.h5
cp "$abs_top_srcdir/data/fashion-mnist-test.h5" outside/far.h5
ln -s "$work/outside/far.h5" inside/link.h5
write() { # TRAINING-DATA TEST-DATA PREFIX
    cat >inside/models/net.prototxt <<END
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$1' batch_size: 2 } include { phase: TRAIN } }
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { source: '$2' batch_size: 2 } include { phase: TEST } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 's' inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'y' top: 'loss' }
END
    echo "net: 'models/net.prototxt' base_lr: 1e-6 lr_policy: 'fixed' max_iter: 1 test_iter: 1 test_interval: 9 snapshot_prefix: '$3'" >inside/solver.prototxt
}
says() { # COUNT TEXT...
    (cd inside && "$POSEIDON" train --force --solver=solver.prototxt --threads=1) >run.log 2>&1 || { fail 'training'; tail -n 2 run.log; }
    [ "$(grep -c "outside the working folder and the solver's" run.log)" -eq "$1" ] || { fail "expected $1 files outside"; grep outside run.log; }
    shift
    for text; do grep -q -e "$text" run.log || { fail "'$text' is not said"; grep outside run.log; }; done
}
write near.h5 models/../near.h5 run
says 0
write ../outside/far.h5 link.h5 "$work/outside/run"
says 3 "source of layer 'd' lies outside the working folder and the solver's: ../outside/far.h5, which is $work/outside/far.h5" \
    "source of layer 'd' lies .*: link.h5, which is $work/outside/far.h5" "snapshot_prefix lies outside .*: $work/outside/run"

# A prefix that is a folder takes the solver's name, in the file and on the command line.
mkdir inside/new
for given in "'new/' " "'run' --snapshot-prefix=new/" "'run' --snapshot-prefix=new"; do
    write near.h5 near.h5 "$(expr "$given" : "'\(.*\)'")"
    # shellcheck disable=SC2086 # an option, or none
    (cd inside && "$POSEIDON" train --solver=solver.prototxt --threads=1 --force ${given##*\'}) >run.log 2>&1
    [ -f inside/new/solver_iter_1.caffemodel ] || fail "snapshot_prefix $given: $(ls -A inside/new)"
    rm -f inside/new/*
done
finish
