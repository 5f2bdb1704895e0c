#!/bin/sh
# The size of a net's input: that of the source where it is there, for every kind of source and every command;
# else what was assumed, with the word on every line that has a figure of it.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
input=$abs_top_srcdir/tests/data/input
lenet=$abs_top_srcdir/models/lenet/train_val.prototxt

# the demo's net
cd "$abs_top_srcdir" || exit 1
works '*total *431080  294.48 M' summary --model="$lenet"
lacks "$out$err" assum summary
works '*LeNet: 431080 parameters, 1.72 MB; 64 images*' plan --model="$lenet" --nodes=2
works '*Average Forward-Backward*' time --model="$lenet" --iterations=1
has "$err" 'parameters and their gradients: 3.3 MiB' time
cd "$folder" || exit 1

net() { # LAYER
    printf '%s\n' "$1" "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip'
        inner_product_param { num_output: 2 } }" >net.prototxt
}

net "layer { name: 'd' type: 'Data' top: 'x' data_param { batch_size: 3 source: '$input/lmdb_raw' } }"
works '*' summary --model=net.prototxt
lacks "$out" assumed 'an LMDB'
net "layer { name: 'd' type: 'Data' top: 'x' data_param { batch_size: 3 source: '$input/lmdb_raw' }
    transform_param { crop_size: 2 } }"
works '*3 x [13] x 2 x 2*' summary --model=net.prototxt
net "layer { name: 'd' type: 'Data' top: 'x' data_param { batch_size: 3 source: '$input/lmdb_raw' }
    transform_param { crop_size: 999 } }"
refuses '*crop_size 999 is larger than the images of *lmdb_raw*' summary --model=net.prototxt

# HDF5Data: labels included
cat >make.py <<'END'
import h5py, numpy
with h5py.File("some.h5", "w") as f:
    f["x"] = numpy.zeros((5, 2, 3, 4), "f4")
    f["y"] = numpy.zeros((5, 7), "f4")
open("list", "w").write("some.h5\n")
END
if [ -n "$POSEIDON_PYTHON" ] && "$POSEIDON_PYTHON" make.py; then
    cat >regression.prototxt <<'END'
layer { name: 'd' type: 'HDF5Data' top: 'x' top: 'y' hdf5_data_param { batch_size: 4 source: 'list' } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 7 } }
layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 'y' top: 'l' }
END
    works '*x  *4 x 2 x 3 x 4*y  *4 x 7*total  *175*' summary --model=regression.prototxt
    lacks "$out$err" assum 'HDF5Data'
    works '*175 parameters*' plan --model=regression.prototxt --nodes=2
    works '*Benchmark ends*' time --model=regression.prototxt --iterations=1
fi

# a list of photographs
printf 'color.png 0\n' >photos
net "layer { name: 'd' type: 'ImageData' top: 'x' top: 'y'
    image_data_param { batch_size: 3 source: 'photos' root_folder: '$input/images/' } }"
if "$POSEIDON" summary --model=net.prototxt 2>&1 | grep -q 'not built in'; then
    echo 'this build reads no PNG: not tested'
else
    works '*' summary --model=net.prototxt
    lacks "$out$err" assum 'ImageData'
fi

# nothing says: every line with a figure has the word
net "layer { name: 'd' type: 'Data' top: 'x' data_param { batch_size: 3 source: 'absent' } }"
works '*' summary --model=net.prototxt
[ "$(printf '%s\n' "$out" | grep -c ' assumed$')" -eq 3 ] || fail "not every line says assumed: $out"
works '*"input_assumed": true*' summary --model=net.prototxt --json
works '*parameters*(assumed input)*one rank*(assumed input)*' plan --model=net.prototxt --nodes=2
works '*Average Forward-Backward: * ms. (assumed input)*' time --model=net.prototxt --iterations=1 --profile=p.csv
has "$(cat p.csv)" '# input 3 3 224 224*(assumed)' 'the profile'
works '*' summary --model=net.prototxt --input-shape=1,4,4
lacks "$out$err" assum 'a size that was given'

# a source that is there and cannot be read
echo nonsense >absent
works "*layer 'd': the source exists, but its shape could not be read: absent*assuming*" summary --model=net.prototxt

# classify says what to give
cat >class.prototxt <<'END'
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { batch_size: 1 source: 'nowhere' } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 } }
layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }
END
cp "$abs_top_srcdir/tests/data/spec/today.caffemodel" W
refuses "*assumed to be 3 x 224 x 224: give its size with --input-shape=C,H,W, or a net that begins with an Input layer" \
    classify --model=class.prototxt --weights=W "$input/images/gray.png"
finish
