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
refuses '*lmdb_raw*crop_size 999 is larger than the images of *' summary --model=net.prototxt

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

# a nameless layer has a place
sed "s/name: 'd'//" net.prototxt >nameless.prototxt
works '*nameless.prototxt:1: layer of type Data: assuming images of 3 channels*' summary --model=nameless.prototxt

# sizes of one's own, beside an Input layer as beside data that is not there: the same in every command. The judge is the
# convolution's formula: 2 x (3 * 5 * 5) operations for each of 4 x 28 x 36 places of the top
cat >deploy.prototxt <<'END'
layer { name: 'in' type: 'Input' top: 'x' top: 'info' input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } shape { dim: 2 dim: 7 } } }
layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 4 kernel_size: 5 bias_term: false } }
END
works '*"flops": 1209600[,.]*' summary --model=deploy.prototxt --input-shape=3,32,40 --batch=2 --json
works '*"flops": 1209600[,.]*' time --model=deploy.prototxt --input-shape=3,32,40 --batch=2 --iterations=1 --json
works '*' plan --model=deploy.prototxt --input-shape=3,32,40 --nodes=2 --json
planned=$out
sed 's/dim: 16 dim: 16/dim: 32 dim: 40/' deploy.prototxt >sized.prototxt
works '*' plan --model=sized.prototxt --nodes=2 --json
same 'plan by --input-shape' "$out" "$planned"
works '*x  *2 x 3 x 16 x 16*info  *2 x 9*' summary --model=deploy.prototxt --input-shape=info:9
refuses '*--input-shape=y:9: the net has no input of that name; its inputs are: x, info' summary --model=deploy.prototxt --input-shape=y:9
sed "s/dim: 2 dim: 3 dim: 16 dim: 16/dim: 2 dim: 48/; /Convolution/d" deploy.prototxt >flat.prototxt
refuses '*--input-shape=3,4,4: the net has no input of images; its inputs are: x, info' summary --model=flat.prototxt --input-shape=3,4,4
for wrong in 3,4 x:3,a x: :3,4,4 3,4,4,4 x:0; do
    refuses "*--input-shape expects C,H,W such as 3,224,224, or TOP:SIZES such as label:1,41,41, found '$wrong'" \
        summary --model=deploy.prototxt --input-shape=$wrong
done
# two data layers of two sizes, and labels that are pictures
cat >depth.prototxt <<'END'
layer { name: 'd' type: 'Data' top: 'x' top: 'y' data_param { batch_size: 3 source: 'nowhere' } }
layer { name: 'e' type: 'HDF5Data' top: 'z' top: 'w' hdf5_data_param { batch_size: 3 source: 'nowhere' } }
layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'l' type: 'EuclideanLoss' bottom: 'p' bottom: 'y' top: 'l' }
layer { name: 'm' type: 'EuclideanLoss' bottom: 'z' bottom: 'w' top: 'm' }
END
works '*x  *3 x 1 x 82 x 82*y  *3 x 1 x 41 x 41*z  *3 x 2 x 6 x 5*w  *3 x 60*' summary --model=depth.prototxt --input-shape=1,82,82 \
    --input-shape=y:1,41,41 --input-shape=z:2,6,5 --input-shape=w:60
lacks "$out$err" assum 'all sizes are given'
refuses "*layer 'd': assuming images of 3 channels*--input-shape=C,H,W says otherwise*depth.prototxt:4: layer 'l' (EuclideanLoss): *" summary --model=depth.prototxt

# --batch and a Reshape whose first dim is the batch of the file
cat >reshape.prototxt <<'END'
layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 64 dim: 100 } } }
layer { name: 'r' type: 'Reshape' bottom: 'x' top: 'r' reshape_param { shape { dim: 64 dim: 100 dim: 1 dim: 1 } } }
END
works '*64 x 100 x 1 x 1*' summary --model=reshape.prototxt
refuses "*shape has 6400 elements; expected 200, as the replaced axes of bottom 'x' have: 2 100 (200); its first dim is 64, and the batch is 2: 0 follows the batch" \
    summary --model=reshape.prototxt --batch=2
sed 's/shape { dim: 64 dim: 100 dim: 1/shape { dim: 0 dim: 100 dim: 1/' reshape.prototxt >follows.prototxt
works '*2 x 100 x 1 x 1*' summary --model=follows.prototxt --batch=2

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
