#!/usr/bin/env python3
"""Caffe beside poseidon, loss by loss: layers, losses, solvers, policies, tests, snapshots and ranks, of nets small enough for seconds.

CAFFE is the path of an installed `caffe` program of BVLC's; skips without. Each case trains by both programs from Caffe's own first
weights, with `display: 1`, and compares every line of losses, outputs, rates and tests, the weights and the history, element by element.
CAFFE=poseidon compares the program with itself, which shows that this script works. CASES in the environment names some of the cases;
NETS is how many random nets there are, of the seeds from SEED on:

    CAFFE=/path/to/caffe make check TESTS=tests/long/test_real_caffe.py           # CASES="plain lrn": some of them
    CAFFE=/path/to/caffe NETS=120 make check TESTS=tests/long/test_real_caffe.py  # more random nets

All agreed with BVLC Caffe at 9b8915401 (CAFFE_VERSION 1.0.0), on a CPU, with the reference BLAS, without OpenCV and CUDA: built by its own
Makefile with `CPU_ONLY := 1`, `USE_OPENCV := 0`, `USE_LEVELDB := 0`, `BLAS := open` and `-std=c++14`; protobuf 3.21 needs
`SetTotalBytesLimit` in `src/caffe/util/io.cpp` with its first argument alone. The comparison by hand (docs/caffe.md 13) was on small
databases, with dropout near 0, at the same commit; `poseidon upgrade` and `upgrade_net_proto_text` turned the old nets in Caffe's tests and
examples into the same nets (`lenet_consolidated_solver.prototxt` is one whose `net_param` Caffe does not upgrade).
"""
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError:
    print("SKIP: h5py is missing")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz"))
import random_nets  # noqa: E402

POSEIDON, MPIRUN = os.environ["POSEIDON"], os.environ["POSEIDON_MPIRUN"]
CAFFE = os.environ.get("CAFFE", "")
CAFFE = shutil.which(POSEIDON if CAFFE == "poseidon" else CAFFE) if CAFFE else None
RECORDS, BATCH, HALF, END = 24, 4, 6, 12  # HALF iterations are one pass over the data: a resumed run begins with the first record


# ---- data: two of the files hold the same samples ----

def varint_of(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint_of(n >> 7)


def write_data():
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 4, RECORDS)
    images = draw.integers(0, 256, (RECORDS, 3, 8, 8)).astype("u1")
    images[:, 0, :4, :4] = images[:, 0, :4, :4] // 4 + 60 * labels[:, None, None].astype("u1")
    holes = np.where(np.arange(RECORDS) % 5 < 2, 255, labels)
    with h5py.File("data.h5", "w") as f:
        for name, values in (("x", images / 128.0 - 1), ("y", labels), ("holes", holes), ("t", draw.normal(0, 1, (RECORDS, 4))),
                             ("bits", draw.integers(0, 2, (RECORDS, 4))), ("pair", draw.integers(0, 2, RECORDS)),
                             ("words", draw.integers(0, 6, (RECORDS, 3))), ("places", draw.integers(0, BATCH, (RECORDS,))),
                             ("dense", draw.integers(0, 4, (RECORDS, 6, 6)))):
            f[name] = values.astype("f4")
    with open("data.txt", "w") as f:
        f.write(os.path.abspath("data.h5") + "\n")
    for name, values in ("mean", images.mean(0)), ("cost", np.eye(4) + draw.uniform(0, 0.5, (4, 4))):  # BlobProto: four axes, packed data
        shape = (1,) * (4 - values.ndim) + values.shape
        with open(name + ".binaryproto", "wb") as f:
            f.write(bytes(v for i, n in enumerate(shape) for v in (8 * (i + 1), n)) + b"\x2a" + varint_of(4 * values.size)
                    + values.astype("<f4").tobytes())
    try:
        import lmdb
    except ImportError:
        return False
    with lmdb.open("data_lmdb", map_size=1 << 24) as env, env.begin(write=True) as txn:
        for i, (image, label) in enumerate(zip(images, labels)):  # Datum: channels, height, width, data, label
            txn.put(b"%08d" % i, bytes([8, 3, 16, 8, 24, 8, 34]) + b"\xc0\x01" + image.tobytes() + bytes([40, int(label)]))
    return True


# ---- cases: a name, layers between data and loss, fields of the solver, and what else ----

def layer(kind, bottoms, tops, fields="", name=""):
    edges = "".join(' bottom: "%s"' % b for b in bottoms.split()) + "".join(' top: "%s"' % t for t in tops.split())
    return 'layer { name: "%s" type: "%s"%s %s }\n' % (name or kind + "_" + (tops or bottoms).replace(" ", "_"), kind, edges, fields)


def ip(bottom, top, outputs=4, fields="", more=""):
    return layer("InnerProduct", bottom, top, 'inner_product_param { num_output: %d weight_filler { type: "xavier" } bias_filler { type: '
                 '"uniform" min: -0.1 max: 0.1 } %s } %s' % (outputs, fields, more))


def conv(bottom, top, fields="kernel_size: 3", kind="Convolution", more=""):
    return layer(kind, bottom, top, 'convolution_param { num_output: 4 weight_filler { type: "xavier" } %s } %s' % (fields, more))


def loss(bottom="ip", labels="y", kind="SoftmaxWithLoss", fields=""):
    return layer(kind, bottom + " " + labels, "loss", fields)


def data(tops):
    return layer("HDF5Data", "", tops, 'hdf5_data_param { source: "../../data.txt" batch_size: %d }' % BATCH)


def through(*layers, top="z"):
    """A convolution, these layers from its top c to z, a classifier."""
    return data("x y") + conv("x", "c") + "".join(layers) + ip(top, "ip") + loss()


def between(kind, fields="", bottoms="c", top="z"):
    return through(layer(kind, bottoms, top, fields))


def on_outputs(kind, labels, fields=""):
    return data("x " + labels) + ip("x", "ip") + loss("ip", labels, kind, fields)


PLAIN = data("x y") + conv("x", "c") + layer("ReLU", "c", "c") + ip("c", "ip") + loss()
NORM = layer("BatchNorm", "c", "n") + layer("Scale", "n", "z", "scale_param { bias_term: true }")
SIX = {"SGD": "", "Nesterov": "", "AdaGrad": "momentum: 0", "RMSProp": "momentum: 0 rms_decay: 0.9",
       "AdaDelta": "momentum: 0.95 delta: 1e-6", "Adam": "momentum2: 0.99 base_lr: 0.01"}
POLICIES = {"fixed": "", "step": "gamma: 0.5 stepsize: 3", "exp": "gamma: 0.9", "inv": "gamma: 0.1 power: 0.75",
            "multistep": "gamma: 0.5 stepvalue: 3 stepvalue: 5", "poly": "power: 2", "sigmoid": "gamma: 0.5 stepsize: 5"}
KINDS = {"ReLU": "relu_param { negative_slope: 0.1 }", "PReLU": "", "ELU": "", "Sigmoid": "", "TanH": "", "AbsVal": "", "BNLL": "",
         "Power": "power_param { power: 2 scale: 0.5 shift: 1 }", "Exp": "exp_param { scale: 0.5 }", "Softmax": "", "Flatten": "",
         "Bias": "bias_param { axis: 1 }", "Scale": "scale_param { axis: 2 num_axes: 2 }", "Tile": "tile_param { axis: 1 tiles: 2 }",
         "SPP": "spp_param { pyramid_height: 2 pool: MAX }", "Reduction": "reduction_param { axis: 2 }",
         "Im2col": "convolution_param { kernel_size: 2 }", "Reshape": "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }"}
ACCURACY = layer("Accuracy", "ip y", "accuracy", "include { phase: TEST }")


def cases(have_lmdb):
    yield "plain", PLAIN, ""
    for name, fields in (("pad-stride", "kernel_size: 3 pad: 1 stride: 2"), ("pad-h", "kernel_size: 3 pad_h: 1"),
                         ("group-free", "kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 bias_term: false"),
                         ("dilation", "kernel_size: 2 dilation: 2")):
        yield "conv-" + name, through(conv("c", "z", fields)), ""
    yield "conv-group", through(conv("c", "z", "kernel_size: 3 group: 2")), ""
    yield "deconv", through(conv("c", "z", "kernel_size: 3 stride: 2 pad_w: 1", "Deconvolution")), ""
    for name, fields in (("max", "kernel_size: 3 stride: 2"), ("ave-pad", "pool: AVE kernel_size: 3 stride: 2 pad: 1"),
                         ("global", "pool: AVE global_pooling: true"), ("max-pad", "kernel_size: 2 stride: 2 pad: 1")):
        yield "pool-" + name, between("Pooling", "pooling_param { %s }" % fields), ""
    yield "lrn", between("LRN", "lrn_param { local_size: 3 alpha: 0.1 }"), ""
    yield "lrn-within", between("LRN", "lrn_param { local_size: 3 alpha: 0.1 norm_region: WITHIN_CHANNEL }"), ""
    yield "batch-norm", through(NORM), ""
    yield "mvn", between("MVN"), ""
    for kind, fields in KINDS.items():
        yield "layer-" + kind, between(kind, fields), ""
    for name, fields in (("sum", "coeff: 0.5 coeff: -2"), ("prod", "operation: PROD"), ("max", "operation: MAX"),
                         ("max-coeff", "operation: MAX coeff: 1 coeff: 3")):
        yield "eltwise-" + name, through(conv("x", "d"), layer("Eltwise", "c d", "z", "eltwise_param { %s }" % fields)), ""
    yield "slice-concat", through(layer("Slice", "c", "s1 s2", "slice_param { slice_point: 1 }"), layer("Concat", "s2 s1", "z")), ""
    yield "crop", through(conv("x", "d", "kernel_size: 5"), layer("Crop", "c d", "z", "crop_param { axis: 2 offset: 1 }")), ""
    words = layer("Embed", "words", "e", 'embed_param { input_dim: 6 num_output: 5 weight_filler { type: "xavier" } }')
    yield "embed", data("x y words") + words + layer("Silence", "x", "") + ip("e", "ip") + loss(), ""
    yield "ip-transpose", data("x y") + ip("x", "i", 6, "axis: 2 transpose: true") + ip("i", "ip") + loss(), ""
    for mode in "FULL", "VALID", "BATCH_SIZE", "NONE":
        fields = "loss_param { ignore_label: 255 normalization: %s }" % mode
        yield "softmax-" + mode, on_outputs("SoftmaxWithLoss", "holes", fields), "base_lr: 0.005"
        yield "ranks-softmax-" + mode, on_outputs("SoftmaxWithLoss", "holes", fields), "base_lr: 0.005", dict(ranks=2)
        yield "sigmoid-" + mode, on_outputs("SigmoidCrossEntropyLoss", "bits", "loss_param { normalization: %s }" % mode), "base_lr: 0.005"
    yield "euclidean", on_outputs("EuclideanLoss", "t"), ""
    yield "hinge", on_outputs("HingeLoss", "y"), ""
    yield "hinge-L2", on_outputs("HingeLoss", "y", "hinge_loss_param { norm: L2 }"), ""
    yield "contrastive", data("x t pair") + ip("x", "ip") + layer("ContrastiveLoss", "ip t pair", "loss"), ""
    yield "multinomial", data("x y") + ip("x", "ip") + layer("Softmax", "ip", "p") + loss("p", kind="MultinomialLogisticLoss"), ""
    reduced = on_outputs("SoftmaxWithLoss", "y") + layer("Reduction", "ip", "sum", "reduction_param { operation: SUMSQ } loss_weight: 0.05")
    yield "reduction-loss", reduced, ""
    weighted = data("x y") + ip("x", "i", 5) + layer("TanH", "i", "each", "loss_weight: 0.1") + ip("i", "ip") + loss()
    yield "any-loss", weighted, ""
    yield "ranks-reduction-loss", reduced, "", dict(ranks=2)
    yield "ranks-any-loss", weighted, "", dict(ranks=4)
    yield "ranks-plain", PLAIN, "", dict(ranks=2)
    yield "ranks-clip", PLAIN, "clip_gradients: 0.3", dict(ranks=4)
    names = 'param { name: "w" } param { name: "b" }'
    yield "shared", through(ip("c", "a", 6, more=names), ip("c", "d", 6, more=names), layer("Eltwise", "a d", "z")), ""
    image = layer("Reshape", "f", "image", "reshape_param { shape { dim: 0 dim: 0 dim: 1 dim: 1 } }")
    flat = layer("Flatten", "x", "f") + ip("f", "a", 4, "bias_term: false", 'param { name: "w" }')
    view = conv("image", "b", "kernel_size: 1 bias_term: false", more='param { name: "w" share_mode: PERMISSIVE }')
    yield "shared-permissive", data("x y") + flat + image + view + layer("Flatten", "b", "g") + layer("Eltwise", "a g", "z") \
        + ip("z", "ip") + loss(), ""
    below = data("x y") + conv("x", "c") + ip("c", "ip", more="propagate_down: false") + loss()
    aside = PLAIN + ip("c", "aside") + layer("SoftmaxWithLoss", "aside y", "none", "loss_weight: 0")
    for name, net in ("below", below), ("aside", aside), ("unread", PLAIN + ip("x", "unread")):
        yield "decay-" + name, net, "weight_decay: 0.5"
    yield "ranks-decay", below, "weight_decay: 0.5", dict(ranks=2)
    yield "decay-l1", PLAIN, 'weight_decay: 0.01 regularization_type: "L1"'
    for kind, fields in SIX.items():
        yield "solver-" + kind, PLAIN, 'type: "%s" %s' % (kind, fields), dict(resume=True)
        yield "solver-%s-more" % kind, PLAIN, 'type: "%s" %s clip_gradients: 0.2 iter_size: 2' % (kind, fields)
    for policy, fields in POLICIES.items():
        yield "policy-" + policy, PLAIN, 'lr_policy: "%s" %s' % (policy, fields)
    yield "average-loss", PLAIN, "average_loss: 3"
    yield "display", PLAIN, "display: 5"
    yield "tests", PLAIN + ACCURACY, "test_iter: 6 test_interval: 4 test_compute_loss: true", dict(test=True)
    yield "tests-norm", through(NORM) + ACCURACY, "test_iter: 3 test_interval: 3", dict(test=True)
    yield from more_layers()
    yield from more_solvers()
    yield from random_cases(int(os.environ.get("SEED", 1)), int(os.environ.get("NETS", 20)))
    if have_lmdb:
        read = layer("Data", "", "x y", 'data_param { source: "../../data_lmdb" batch_size: 4 backend: LMDB } '
                     'transform_param { scale: 0.01 mean_value: [100, 110, 120] }')
        yield "lmdb", PLAIN.replace(data("x y"), read), ""


def more_layers():
    """Parameters beside the usual ones, and layers that few nets have."""
    for name, kind, fields in (
            ("log", "Log", "log_param { base: 2 shift: 9 }"), ("clip", "Clip", "clip_param { min: -0.3 max: 0.4 }"),
            ("swish", "Swish", "swish_param { beta: 2 }"), ("exp-base", "Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }"),
            ("elu-alpha", "ELU", "elu_param { alpha: 0.5 }"), ("power-half", "Power", "power_param { power: 0.5 scale: 0.1 shift: 3 }"),
            ("power-zero", "Power", "power_param { power: 0 }"), ("power-scale", "Power", "power_param { scale: -2 shift: 1 }"),
            ("prelu-shared", "PReLU", "prelu_param { channel_shared: true filler { value: 0.1 } }"),
            ("softmax-axis", "Softmax", "softmax_param { axis: 2 }"), ("flatten-end", "Flatten", "flatten_param { axis: 1 end_axis: 2 }"),
            ("tile-axis", "Tile", "tile_param { axis: 2 tiles: 3 }"), ("tile-last", "Tile", "tile_param { axis: -1 tiles: 2 }"),
            ("lrn-k", "LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.6 k: 2 }"),
            ("lrn-within-k", "LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.6 k: 2 norm_region: WITHIN_CHANNEL }"),
            ("mvn-across", "MVN", "mvn_param { across_channels: true }"), ("mvn-mean", "MVN", "mvn_param { normalize_variance: false }"),
            ("mvn-eps", "MVN", "mvn_param { eps: 0.1 }"), ("reduce-asum", "Reduction", "reduction_param { operation: ASUM axis: 2 coeff: 0.1 }"),
            ("reduce-mean", "Reduction", "reduction_param { operation: MEAN axis: -1 coeff: 2 }"),
            ("reduce-sumsq", "Reduction", "reduction_param { operation: SUMSQ axis: 3 coeff: 0.1 }"),
            ("reshape-axis", "Reshape", "reshape_param { shape { dim: -1 dim: 2 } axis: 2 }"),
            ("reshape-part", "Reshape", "reshape_param { shape { dim: 2 dim: 2 } axis: 1 num_axes: 1 }"),
            ("reshape-new", "Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }"),
            ("spp-ave", "SPP", "spp_param { pyramid_height: 3 pool: AVE }"),             ("scale-all", "Scale", "scale_param { axis: 1 num_axes: -1 bias_term: true }"),
            ("scale-none", "Scale", "scale_param { axis: 1 num_axes: 0 filler { value: 0.5 } }"),
            ("bias-all", "Bias", "bias_param { axis: 1 num_axes: -1 }"),
            ("norm-fraction", "BatchNorm", "batch_norm_param { moving_average_fraction: 0.5 eps: 0.01 }"),
            ("im2col-more", "Im2col", "convolution_param { kernel_size: 3 stride: 2 pad: 1 dilation: 2 }")):
        yield name, between(kind, fields), ""
    for name, fields in (("floor", "kernel_size: 3 stride: 2 round_mode: FLOOR"), ("ave-floor", "pool: AVE kernel_size: 3 stride: 2 round_mode: FLOOR pad: 1"),
                         ("hw", "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0"), ("whole", "global_pooling: true"),
                         ("ave-hw", "pool: AVE kernel_h: 2 kernel_w: 3 stride_h: 3 stride_w: 2 pad_h: 1 pad_w: 2")):
        yield "pool-" + name, between("Pooling", "pooling_param { %s }" % fields), ""
    yield "pool-mask", through(layer("Pooling", "c", "z mask", "pooling_param { kernel_size: 3 stride: 2 }"), layer("Silence", "mask", "")), ""
    for name, fields in (("group", "kernel_size: 3 group: 2 pad: 1 stride: 2"), ("depthwise", "kernel_size: 2 group: 4 stride: 2 bias_term: false"),
                         ("dilation", "kernel_size: 2 dilation: 2")):
        yield "deconv-" + name, through(conv("c", "z", fields, "Deconvolution")), ""
    yield "conv-depthwise", through(conv("c", "z", "kernel_size: 3 group: 4 pad: 1")), ""
    yield "conv-two", through(conv("x", "d"), conv("c d", "e f"), layer("Eltwise", "e f", "z")), ""
    yield "conv-3d", data("x y") + layer("Reshape", "x", "v", "reshape_param { shape { dim: 0 dim: 1 dim: 3 dim: 8 dim: 8 } }") \
        + conv("v", "c", "kernel_size: 2 kernel_size: 3 kernel_size: 3") + ip("c", "ip") + loss(), ""
    yield "conv-1d", data("x y") + layer("Reshape", "x", "v", "reshape_param { shape { dim: 0 dim: 3 dim: 64 } }") \
        + conv("v", "c", "kernel_size: 3 stride: 2 pad: 1") + ip("c", "ip") + loss(), ""
    yield "scale-two", through(layer("Pooling", "c", "g", "pooling_param { pool: AVE global_pooling: true }"), layer("Flatten", "g", "s"),
                               layer("Sigmoid", "s", "s"), layer("Scale", "c s", "z", "scale_param { axis: 0 }")), ""
    yield "bias-two", through(layer("Pooling", "c", "g", "pooling_param { pool: AVE global_pooling: true }"), layer("Flatten", "g", "s"),
                              layer("Bias", "c s", "z", "bias_param { axis: 0 }")), ""
    yield "parameter", through(layer("Parameter", "", "p", "parameter_param { shape { dim: 4 } }"), layer("Bias", "c p", "z", "bias_param { axis: 1 }")), ""
    yield "dummy", through(layer("DummyData", "", "p", 'dummy_data_param { shape { dim: 4 } data_filler { value: 0.5 } }'),
                           layer("Scale", "c p", "z", "scale_param { axis: 1 }")), ""
    yield "reindex", data("x y places") + conv("x", "c") + layer("BatchReindex", "c places", "z") + ip("z", "ip") \
        + layer("BatchReindex", "y places", "w") + loss("ip", "w"), ""
    yield "slice-three", through(layer("Slice", "c", "a b d", "slice_param { axis: 2 slice_point: 1 slice_point: 3 }"),
                                 layer("Concat", "d a b", "z", "concat_param { axis: -2 }")), ""
    yield "slice-even", through(layer("Slice", "c", "a b", "slice_param { slice_dim: 2 }"), layer("Concat", "b a", "z", "concat_param { concat_dim: 3 }")), ""
    yield "concat-batch", data("x y") + layer("Concat", "x x", "x2", "concat_param { axis: 0 }") + layer("Concat", "y y", "y2", "concat_param { axis: 0 }") \
        + conv("x2", "c") + ip("c", "ip") + loss("ip", "y2"), ""
    for name, fields in ("prod-unstable", "operation: PROD stable_prod_grad: false"), ("sum-three", ""), ("max-three", "operation: MAX"):
        yield "eltwise-" + name, through(conv("x", "d"), conv("x", "e"), layer("Eltwise", "c d e", "z", "eltwise_param { %s }" % fields)), ""
    yield "eltwise-same", through(layer("Eltwise", "c c", "z", "eltwise_param { operation: PROD }")), ""
    yield "eltwise-same-max", through(layer("Eltwise", "c c", "z", "eltwise_param { operation: MAX }")), ""
    yield "crop-two", through(conv("x", "d", "kernel_h: 5 kernel_w: 6"), layer("Crop", "c d", "z", "crop_param { axis: 2 offset: 2 offset: 1 }")), ""
    yield "crop-channels", through(conv("x", "d"), layer("Slice", "d", "a b"), layer("Silence", "b", ""), layer("Crop", "c a", "z", "crop_param { axis: 1 offset: 1 offset: 0 offset: 0 }")), ""
    yield "ip-free", through(ip("c", "z", 3, "bias_term: false axis: 2")), ""
    yield "ip-last", through(ip("c", "z", 3, "axis: -1")), ""
    words = layer("Embed", "words", "e", 'embed_param { input_dim: 6 num_output: 5 bias_term: false weight_filler { type: "uniform" min: -1 } }')
    yield "embed-free", data("x y words") + words + layer("Silence", "x", "") + ip("e", "ip") + loss(), ""
    dense = data("x words") + conv("x", "c", "kernel_h: 4 kernel_w: 8 stride_h: 2 stride_w: 1").replace("num_output: 4", "num_output: 6")
    for mode in "FULL", "VALID", "BATCH_SIZE", "NONE":
        fields = "loss_param { normalization: %s ignore_label: 3 }" % mode
        yield "dense-softmax-" + mode, dense + loss("c", "words", fields=fields), "base_lr: 0.005"
        yield "infogain-" + mode, on_outputs("InfogainLoss", "y", 'infogain_loss_param { source: "../../cost.binaryproto" } ' + fields), "base_lr: 0.005"
        yield "sigmoid-ignore-" + mode, on_outputs("SigmoidCrossEntropyLoss", "bits", "loss_param { normalization: %s ignore_label: 0 }" % mode), "base_lr: 0.005"
    for on in "true", "false":
        yield "softmax-normalize-" + on, dense + loss("c", "words", fields="loss_param { normalize: %s ignore_label: 3 }" % on), "base_lr: 0.005"
    yield "softmax-weight", data("x y") + ip("x", "ip") + loss(fields="loss_weight: 0.3"), ""
    yield "euclidean-both", data("x t") + ip("x", "a") + conv("x", "c") + ip("c", "b") + loss("a", "b", "EuclideanLoss") + ip("t", "d") \
        + layer("EuclideanLoss", "b d", "other", "loss_weight: 0.5"), "base_lr: 0.005"
    yield "contrastive-more", data("x t pair") + ip("x", "ip") + layer("ContrastiveLoss", "ip t pair", "loss", "contrastive_loss_param { margin: 3 }"), ""
    yield "contrastive-old", data("x t pair") + ip("x", "ip") \
        + layer("ContrastiveLoss", "ip t pair", "loss", "contrastive_loss_param { margin: 3 legacy_version: true }"), ""
    yield "hinge-two", data("x y") + ip("x", "ip") + loss("ip", "y", "HingeLoss", "loss_weight: 2"), ""
    yield "mults", data("x y") + conv("x", "c", more="param { lr_mult: 0 } param { lr_mult: 2 decay_mult: 0 }") \
        + ip("c", "ip", more="param { lr_mult: 0.5 decay_mult: 3 } param { lr_mult: 1 decay_mult: 0 }") + loss(), "weight_decay: 0.1"
    yield "frozen-norm", through(layer("BatchNorm", "c", "n", "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 }"),
                                 layer("Scale", "n", "z", "scale_param { bias_term: true } param { lr_mult: 0 } param { decay_mult: 0 }")), ""
    yield "in-place", through(layer("PReLU", "c", "c"), layer("Scale", "c", "c"), layer("Sigmoid", "c", "c"), layer("Softmax", "c", "z")), ""
    yield "norm-in-place", through(layer("BatchNorm", "c", "c"), layer("Scale", "c", "c", "scale_param { bias_term: true }"), layer("ReLU", "c", "c"), layer("Power", "c", "z")), ""
    images = data("x words").replace("words", "dense") + conv("x", "ip") + loss("ip", "dense")
    yield "dense-accuracy", images + layer("Accuracy", "ip dense", "a each", "accuracy_param { ignore_label: 2 top_k: 2 } include { phase: TEST }"), \
        "test_iter: 2 test_interval: 4 base_lr: 0.002"
    yield "dense-infogain", images.replace("SoftmaxWith", "Infogain").replace('"InfogainLoss"', '"InfogainLoss" infogain_loss_param { source: "../../cost.binaryproto" }'), \
        "base_lr: 0.002"
    old = re.sub(r'type: "Convolution"(.*) }$', r"type: CONVOLUTION\1 blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 }", PLAIN, flags=re.M)
    for new, name in ("HDF5Data", "HDF5_DATA"), ("ReLU", "RELU"), ("InnerProduct", "INNER_PRODUCT"), ("SoftmaxWithLoss", "SOFTMAX_LOSS"):
        old = old.replace('type: "%s"' % new, "type: " + name)
    yield "old-layers", old.replace("layer {", "layers {"), "weight_decay: 0.1"
    yield "force-backward", "force_backward: true\n" + PLAIN, ""


def more_solvers():
    tests = ACCURACY + layer("ArgMax", "ip", "best", "argmax_param { out_max_val: true top_k: 2 } include { phase: TEST }") \
        + layer("Accuracy", "ip y", "two", "accuracy_param { top_k: 2 ignore_label: 1 } include { phase: TEST }") \
        + layer("Accuracy", "ip y", "all each", "include { phase: TEST }", "a3")
    yield "tests-more", PLAIN + tests, "test_iter: 2 test_interval: 5 test_initialization: false", dict(test=True)
    drop = layer("Dropout", "c", "z", "include { phase: TEST } dropout_param { dropout_ratio: 0.3 }") + layer("Power", "c", "z", "include { phase: TRAIN }")
    yield "tests-dropout", through(drop) + ACCURACY, "test_iter: 6 test_interval: 6", dict(test=True)
    staged = PLAIN + layer("Accuracy", "ip y", "a", 'include { phase: TEST stage: "one" }') \
        + layer("Accuracy", "ip y", "b", 'accuracy_param { top_k: 2 } include { phase: TEST not_stage: "one" }')
    yield "tests-two", staged, 'test_iter: 2 test_iter: 3 test_interval: 4 test_state: {stage:"one"} test_state: {level:1}'
    yield "tests-every", PLAIN + ACCURACY, "test_iter: 6 test_interval: 1 iter_size: 2 average_loss: 2 display: 3"
    yield "snapshot-hdf5", PLAIN, "snapshot_format: HDF5", dict(resume=True)
    yield "iter-size", PLAIN, "iter_size: 3 weight_decay: 0.1 average_loss: 4"
    yield "iter-size-l1", PLAIN, 'iter_size: 2 weight_decay: 0.1 regularization_type: "L1" clip_gradients: 0.1'
    yield "norm-iter-size", through(NORM), "iter_size: 2", dict(resume=True)
    yield "old-type", PLAIN, "solver_type: NESTEROV"
    yield "no-momentum", PLAIN, "momentum: 0 weight_decay: 0"
    yield "clip-decay", PLAIN, "clip_gradients: 0.05 weight_decay: 0.5"
    for policy in "step", "multistep", "inv", "poly":
        yield "policy-resume-" + policy, PLAIN, 'lr_policy: "%s" %s' % (policy, POLICIES[policy]), dict(resume=True)
    yield "policy-same-steps", PLAIN, 'lr_policy: "multistep" gamma: 0.5 stepvalue: 3 stepvalue: 3 stepvalue: 4', dict(resume=True)
    yield "display-average", PLAIN, "display: 4 average_loss: 3"


class SameNet(random_nets.Net):
    """Without what each program draws for itself, and without layers in place, behind which Caffe's gradient may be another."""

    def neuron(self):
        self.blob = self.layer(self.random.choice(["TanH", "Sigmoid", "ELU", "BNLL", "Swish"]), [self.blob])

    def data_layers(self, kind, folder):
        tops = " ".join(["data", *sorted(self.wanted)])
        return layer("HDF5Data", "", tops, 'hdf5_data_param { source: "%s/%s.txt" batch_size: %d }' % (folder, kind, self.random.randint(1, 6)))


def random_cases(seed, count):
    """Smooth nets alone: a ReLU or a norm can make of a difference in the last place one of a whole gradient. And no window of a
    pool lies behind its image, where Caffe's pools divide by 0 or write beyond their memory."""
    random_nets.write_data(os.getcwd())
    while count:
        draw = random.Random(seed)
        net, fields = SameNet(draw, os.getcwd()), random_nets.draw_solver(draw)
        if net.smooth and fields["type"] != "AdamW" and "kernel_size: 1 stride: 2 }" not in net.text:
            fields.setdefault("momentum", 0)
            fields = {k: v for k, v in fields.items() if k not in ("max_iter", "display") and "snapshot" not in k}
            fields.update({"gamma": 0.5} if fields["lr_policy"] == "sigmoid" else {})
            yield "random-%d" % seed, net.text, random_nets.solver_text(fields)
            count -= 1
        seed += 1


# ---- what programs leave ----

def fields_of(blob):
    """A protobuf message's fields: number, value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = blob[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(blob):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        n = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, blob[at:at + n]
        at += n


def floats_of(message):
    parts = [np.frombuffer(v, "<f4") for k, v in fields_of(message) if k == 5]
    return np.concatenate(parts) if parts else np.zeros(0, "f4")


def weights_of(path):
    """By layer and number, of a file in binary form or its .h5."""
    found = {}
    if not os.path.exists(path):
        with h5py.File(path + ".h5") as f:
            f["data"].visititems(lambda name, item: found.update({name: item[()].ravel()} if isinstance(item, h5py.Dataset) else {}))
        return found
    with open(path, "rb") as f:
        for key, value in fields_of(f.read()):
            if key != 100:
                continue
            parts = list(fields_of(value))
            name = next(v for k, v in parts if k == 1).decode()
            found.update({"%s/%d" % (name, i): floats_of(v) for i, v in enumerate(v for k, v in parts if k == 7)})
    return found


def history_of(path):
    if not os.path.exists(path):
        with h5py.File(path + ".h5") as f:
            return {"history/" + k: v[()].ravel() for k, v in f["history"].items()}
    with open(path, "rb") as f:
        return {"history/%d" % i: floats_of(v) for i, v in enumerate(v for k, v in fields_of(f.read()) if k == 3)}


def lines_of(log):
    """What was said, without names of files, times and speeds: the kind of line and its number."""
    found = []
    for line in log.splitlines():
        text = line.split("] ", 1)[-1].strip()
        text = re.sub(r" \(\S+ iter/s, \S+s/\d+ iters\)", "", text)
        text = re.sub(r"net output #\d+", "net output", text)
        text = re.sub(r" \(\* [-+.e\d]+ = [-+.e\dnaif]+ loss\)", "", text)
        match = re.match(r"(Iteration \d+, (?:loss|lr)|Iteration \d+, Testing net \(#\d+\)|Test loss|Loss|"
                         r"(?:Train|Test) net output: \S+|Batch \d+, \S+|\w+(?= = ))(?:: | = |$)([-+.e\d]+|-?nan|-?inf)?$", text)
        if "net output: each" in text:  # places of samples: another number of them on ranks
            continue
        if match and (match.group(2) or "Testing" in match.group(1)):
            found.append((match.group(1), float(match.group(2) or 0)))
    return found


# ---- comparing ----

def compare_lines(theirs, ours):
    """The first line that differs; six digits are printed."""
    scale = max([abs(v) for k, v in theirs if "lr" not in k and np.isfinite(v)] + [0])
    for i, (a, b) in enumerate(zip(theirs, ours)):
        near = a[1] == b[1] or abs(a[1] - b[1]) <= 2e-5 * abs(a[1]) + (0 if a[0].endswith("lr") else 5e-6 * scale)
        if a[0] != b[0] or not near:
            return "line %d: Caffe says '%s %g', poseidon '%s %g'" % (i, *a, *b)
    return "" if len(theirs) == len(ours) else "%d lines of Caffe, %d of poseidon" % (len(theirs), len(ours))


def compare_blobs(theirs, ours, first):
    """The blob that differs most, against how far it has come."""
    if theirs.keys() != ours.keys() or any(theirs[k].shape != ours[k].shape for k in theirs):
        return "blobs %s of Caffe, %s of poseidon" % (sorted(theirs), sorted(ours))
    for key, a in theirs.items():
        moved = abs(a - first[key]).max() if key in first else abs(a).max()
        bound = 1e-3 * moved + 2e-6 * abs(a).max() + 1e-7  # a bias that a norm takes away moves by rounding alone
        if a.size and not abs(a - ours[key]).max() <= bound:
            return "%s: %g apart, and it has moved by %g" % (key, abs(a - ours[key]).max(), moved)
    return ""


def differs(what, theirs, ours, first):
    """Snapshots `what` and logs in these two folders."""
    logs = [lines_of(open(folder + "/log").read()) for folder in (theirs, ours)]
    models, states = [["%s/s_iter_%d.%s" % (folder, what, end) for folder in (theirs, ours)] for end in ("caffemodel", "solverstate")]
    return compare_lines(*logs) or compare_blobs(*map(weights_of, models), first) or compare_blobs(*map(history_of, states), {})


# ---- running ----

class Failed(Exception):
    pass


def call(folder, program, *words, ranks=1):
    start = [MPIRUN, str(ranks)] if ranks > 1 else []
    done = subprocess.run(start + [program, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    with open(folder + "/log", "w") as f:
        f.write(done.stdout)
    if done.returncode:
        raise Failed("%s %s: status %d: %s" % (program, " ".join(words), done.returncode, done.stdout.strip()[-500:]))


def solver(fields, **more):
    text = {"base_lr": "0.02", "lr_policy": '"fixed"', "momentum": "0.9", "weight_decay": "0.001", "display": "1", "max_iter": str(END),
            "snapshot": str(HALF), "random_seed": "1", "solver_mode": "CPU", "snapshot_prefix": '"s"', "net": '"net.prototxt"'}
    given = re.findall(r"(\w+): (\"[^\"]*\"|\S+)", fields)
    for key, _ in given:
        text.pop(key, None)
    text.update(more)
    return "".join("%s: %s\n" % pair for pair in [*given, *text.items()])


def train(folder, program, net, fields, *words, ranks=1):
    os.makedirs(folder, exist_ok=True)
    for name, text in ("net.prototxt", net), ("solver.prototxt", solver(fields)):
        with open(folder + "/" + name, "w") as f:
            f.write(text)
    more = ["--global-batch=%d" % BATCH, "--force"] if ranks > 1 else []
    call(folder, program, "train", "-solver", "solver.prototxt", *words, *more, ranks=ranks)


def resume(case, net, fields, program, name, source):
    """The second half of a training, from the state that `source` has left."""
    folder = "%s/%s" % (case, name)
    os.makedirs(folder)
    h5 = ".h5" if "HDF5" in fields else ""
    for end in "caffemodel", "solverstate":
        shutil.copy("%s/%s/s_iter_%d.%s" % (case, source, HALF, end + h5), folder)
    train(folder, program, net, fields, "-snapshot", "s_iter_%d.solverstate%s" % (HALF, h5))
    return folder


def run(case, net, fields, ranks=1, resume_too=False, test=False):
    first = case + "/first"
    os.makedirs(first)
    # Without `snapshot: 0` Caffe writes none after iteration 0, which every interval divides.
    train(first, CAFFE, net, "max_iter: 0 snapshot: 0 " + re.sub(r"test_\w+: \S+|snapshot_format: \S+", "", fields).replace("max_iter", "ignored"))
    weights = os.path.abspath(first + "/s_iter_0.caffemodel")
    train(case + "/theirs", CAFFE, net, fields, "-weights", weights)
    train(case + "/ours", POSEIDON, net, fields, "-weights", weights, ranks=ranks)
    yield "", differs(END, case + "/theirs", case + "/ours", weights_of(weights))
    if resume_too:
        theirs = resume(case, net, fields, CAFFE, "theirs-theirs", "theirs")
        for program, name, source in ((CAFFE, "theirs-ours", "ours"), (POSEIDON, "ours-theirs", "theirs"),
                                      (POSEIDON, "ours-ours", "ours")):
            yield " resumed, " + name, differs(END, theirs, resume(case, net, fields, program, name, source), weights_of(weights))
    if test:
        for folder, program in ("theirs", CAFFE), ("ours", POSEIDON):
            call(case + "/" + folder, program, "test", "-model", "net.prototxt", "-weights", "s_iter_%d.caffemodel" % END,
                 "-iterations", "3")
        logs = [lines_of(open("%s/%s/log" % (case, folder)).read()) for folder in ("theirs", "ours")]
        yield " test", compare_lines(*logs) or ("" if len(logs[0]) >= 6 else "no lines")


def check_comparison(case):
    """A comparison that finds nothing in another training would find nothing at all."""
    other = case + "/other"
    train(other, POSEIDON, PLAIN, "base_lr: 0.0201", "-weights", os.path.abspath(case + "/first/s_iter_0.caffemodel"))
    first = weights_of(case + "/first/s_iter_0.caffemodel")
    lines = [lines_of(open(folder + "/log").read()) for folder in (case + "/ours", other)]
    blobs = [weights_of("%s/s_iter_%d.caffemodel" % (folder, END)) for folder in (case + "/ours", other)]
    return len(lines[0]) >= 3 * END and len(blobs[0]) == 4 and compare_lines(*lines) and compare_blobs(*blobs, first)


def main():
    if not CAFFE:
        print("SKIP: no Caffe: CAFFE is the path of its program `caffe`")
        return 77
    failures = count = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        have_lmdb = write_data()
        if not have_lmdb:
            print("left out: LMDB (no lmdb for python3)")
        wanted = os.environ.get("CASES", "").split()
        for name, net, fields, *more in cases(have_lmdb):
            if wanted and name not in wanted:
                continue
            options = more[0] if more else {}
            try:
                for what, said in run(name, net, fields, options.get("ranks", 1), options.get("resume"), options.get("test")):
                    count += 1
                    failures += bool(said)
                    print("%s%s: %s" % (name, what, said or "same"), flush=True)
            except (Failed, FileNotFoundError) as failure:
                count, failures = count + 1, failures + 1
                print("%s: %s" % (name, failure), flush=True)
            if name == "plain" and not check_comparison(name):
                failures += 1
                print("the comparison does not see another rate")
    print("%d comparisons, %d differ" % (count, failures))
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
