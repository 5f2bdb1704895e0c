#!/usr/bin/env python3
"""to_onnx.py --model=FILE --weights=FILES OUT.onnx

Writes the TEST phase of a net with its weights as ONNX, for onnxruntime and other programs. What the net is, 'poseidon
summary --json' says; a function of this file for each type of layer says the same in ONNX's operators. Where ONNX has an
operator with other corners (windows of pooling that extend beyond the image), nodes around it make it the same.
"""
import argparse
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # python3 -I leaves it out
from tool_files import Refused, check_output, missing, replace, run  # noqa: E402

try:
    import h5py
    import numpy as np
    import onnx
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
except ImportError as error:
    if not {"-h", "--help"} & set(sys.argv):
        sys.exit(f"to_onnx.py: {missing(error)}")

OPSET, IR_VERSION = 13, 7  # every reader of these years takes them: onnxruntime since 1.6 of 2020
MOST_BYTES = 2 ** 31 - 1


# ---- the graph ----

class Graph:
    """Nodes and constants in the making. A value is known by its name; a layer in place makes a new one, and the last of
    them is called as the blob is."""

    def __init__(self, net, weights):
        self.net, self.weights, self.nodes = net, weights, []
        self.constants, self.known = {}, {}  # arrays by name; names of those that may be used twice
        self.values, self.shapes = {}, {}  # by blob: the name of its value so far, and its shape
        self.ends = []  # (value, shape, whether it is a data layer's) of all tops, in order
        self.silenced = set()  # values that nobody wants

    def begin(self, number):
        """Takes up a layer. Of two layers with one name the second is told apart by its number."""
        layers = self.net["layers"]
        self.layer, self.made, name = layers[number], 0, layers[number]["name"]
        self.prefix = f"{name}#{number}" if any(name == other["name"] for other in layers[:number]) else name
        self.taken = {top["name"] for i, layer in enumerate(layers) if i > number or is_data(layer) for top in layer["tops"]}
        self.inputs = [self.values.get(name) for name in self.layer["bottoms"]]
        self.input_shapes = [self.shapes[name] for name in self.layer["bottoms"]]
        self.shapes.update((top["name"], top["shape"]) for top in self.layer["tops"])
        if not self.layer["tops"]:
            self.silenced.update(self.inputs)

    def node(self, kind, *inputs, outputs=None, **attributes):
        """The name of what the node makes."""
        self.made += 1
        outputs = outputs or [f"{self.prefix}:{self.made}"]
        self.nodes.append(onnx.helper.make_node(kind, [value for value in inputs if value], outputs,
                                                f"{self.prefix}:{self.made}", **attributes))
        return outputs[0]

    def constant(self, name, array, key=None):
        if key in self.known:
            return self.known[key]
        own = name = f"{self.prefix}.{name}"
        while own in self.constants:
            own = f"{name}{len(self.constants)}"
        self.constants[own] = array
        if key:
            self.known[key] = own
        return own

    def scalar(self, name, value):
        return self.constant(name, np.float32(value))

    def ints(self, name, values):
        return self.constant(name, np.array(values, np.int64))

    def parameter(self, index, name, axes=None):
        """A parameter as a constant; axes: as many as there are to be, ones at the end."""
        blob = self.layer["blobs"][index]
        array = self.weights.read(blob)
        if axes is not None:
            array = array.reshape(array.shape + (1,) * (axes - array.ndim))
        return self.constant(name, array, (blob["layer"], blob["index"], array.shape))

    def affine(self, x, scale=1, shift=0):
        if scale != 1:
            x = self.node("Mul", x, self.scalar("scale", scale))
        return self.node("Add", x, self.scalar("shift", shift)) if shift != 0 else x

    def reshape(self, x, shape):
        """The first axis is the batch, and is what the others leave."""
        return self.node("Reshape", x, self.ints("shape", [-1] + list(shape[1:])))

    def free_name(self, name):
        blobs = {top["name"] for layer in self.net["layers"] for top in layer["tops"]}
        while name in blobs:
            name += "'"
        return name

    def top_name(self, top):
        name = self.layer["tops"][top]["name"]
        if self.is_loss() and top == 0:  # its blob is the loss, its value the probabilities
            losses = [layer for layer in self.net["layers"] if layer["type"] == "SoftmaxWithLoss"]
            own = self.free_name(f"{self.prefix}/prob")
            return "prob" if len(losses) == 1 and self.free_name("prob") == "prob" else own
        return self.free_name(f"{name}/{self.prefix}") if name in self.taken else name

    def give(self, value, top=0):
        """The value becomes that of a top, under its name."""
        name = self.top_name(top)
        if self.made and self.nodes[-1].output[0] == value:
            self.nodes[-1].output[0] = name
        else:
            self.node("Identity", value, outputs=[name])
        if self.is_loss() and top == 0:
            self.ends.append((name, self.input_shapes[0], False))
        else:
            self.tell(top, name)

    def tell(self, top, value):
        """Notes the value of a top."""
        top = self.layer["tops"][top]
        self.values[top["name"]] = value
        self.ends.append((value, top["shape"], is_data(self.layer)))

    def is_loss(self):
        return self.layer["type"].endswith("Loss")


def is_data(layer):
    return not layer["bottoms"] and layer["type"] != "Parameter"


def setting(layer, name):
    """The layer's settings of that name, as far as the net gives them."""
    return layer.get(name + "_param", {})


# ---- what layers become; each function is given the graph, the settings, and the first bottom's value and shape ----

def spatial(settings, name, axes, otherwise):
    """A number for each spatial axis, by Caffe's rule: once for all, once for each, or of height and width by name."""
    ends = [settings.get(f"{name.replace('_size', '')}_{end}") for end in "hw"]
    if ends != [None, None]:
        return [end or 0 for end in ends]
    listed = settings.get(name, [otherwise])
    return listed if len(listed) > 1 else listed * axes


def convolution(g, s, x, shape):
    axes, transposed = len(shape) - 2, g.layer["type"] == "Deconvolution"
    weight = g.layer["blobs"][0]["shape"]
    pads = spatial(s, "pad", axes, 0)
    group = g.layer["tops"][0]["shape"][1] // weight[1] if transposed else shape[1] // weight[1]
    parameters = [g.parameter(i, name) for i, name in zip(range(len(g.layer["blobs"])), ("weight", "bias"))]
    for top, value in enumerate(g.inputs):
        g.give(g.node("ConvTranspose" if transposed else "Conv", value, *parameters, kernel_shape=weight[2:], group=group,
                      strides=spatial(s, "stride", axes, 1), pads=pads + pads, dilations=spatial(s, "dilation", axes, 1)), top)


def inner_product(g, s, x, shape):
    axis, top = s.get("axis", 1) % len(shape), g.layer["tops"][0]["shape"]
    if len(shape) != 2 or axis != 1:
        x = g.node("Flatten", x, axis=axis)
    parameters = [g.parameter(i, name) for i, name in zip(range(len(g.layer["blobs"])), ("weight", "bias"))]
    x = g.node("Gemm", x, *parameters, transB=int(not s.get("transpose", False)))
    g.give(g.reshape(x, top) if len(top) != 2 else x)


def pooling(g, s, x, shape):
    """Pads of the far ends such that rounding down gives the top's size. Of windows that extend beyond the padded image
    Caffe counts the part inside, so their means get a factor."""
    method, axes, out = s.get("pool", "MAX"), len(shape) - 2, g.layer["tops"][0]["shape"][2:]
    if method == "STOCHASTIC":
        raise Refused("ONNX has no pooling that is stochastic")
    if len(g.layer["tops"]) > 1:
        raise Refused("ONNX has no pooling that is followed by the maxima's places in their planes, a second top")
    size = shape[2:]
    kernel = size if s.get("global_pooling") else spatial(s, "kernel_size", axes, 1)
    stride, pad = spatial(s, "stride", axes, 1), spatial(s, "pad", axes, 0)
    last = [(out[i] - 1) * stride[i] - pad[i] for i in range(axes)]
    for begin, most in zip(last, size):
        if begin >= most:
            raise Refused(f"its last window begins behind the image, at {begin} of {most} pixels, and ONNX has no empty "
                          "windows (round_mode: FLOOR leaves it out)")
    if kernel == size and out == [1] * axes and pad == [0] * axes:
        g.give(g.node("GlobalMaxPool" if method == "MAX" else "GlobalAveragePool", x))
        return
    end = [max(0, last[i] + kernel[i] - size[i]) for i in range(axes)]
    average = {"count_include_pad": 1} if method == "AVE" else {}
    y = g.node("AveragePool" if average else "MaxPool", x, kernel_shape=kernel, strides=stride, pads=pad + end, **average)
    if average and any(end[i] > pad[i] for i in range(axes)):
        factor = np.ones([1, 1] + [1] * axes, np.float32)
        for i in range(axes):
            inside = size[i] + 2 * pad[i] - stride[i] * np.arange(out[i])
            factor = factor * (kernel[i] / np.minimum(inside, kernel[i])).astype(np.float32).reshape([-1] + [1] * (axes - 1 - i))
        y = g.node("Mul", y, g.constant("windows", factor))
    g.give(y)


def relu(g, s, x, shape):
    slope = s.get("negative_slope", 0)
    g.give(g.node("LeakyRelu", x, alpha=float(slope)) if slope else g.node("Relu", x))


def lrn(g, s, x, shape):
    size, alpha, beta = s.get("local_size", 5), s.get("alpha", 1), s.get("beta", 0.75)
    if s.get("norm_region") != "WITHIN_CHANNEL":
        g.give(g.node("LRN", x, size=size, alpha=float(alpha), beta=float(beta), bias=float(s.get("k", 1))))
        return
    y = g.node("AveragePool", g.node("Mul", x, x), kernel_shape=[size] * 2, strides=[1, 1], pads=[size // 2] * 4,
               count_include_pad=1)
    g.give(g.node("Mul", x, g.node("Pow", g.affine(y, alpha, 1), g.scalar("beta", -beta))))


def softmax(g, s, x, shape):
    """A loss's probabilities are a second top where there is one."""
    axis = setting(g.layer, "softmax").get("axis", 1)
    g.give(g.node("Softmax", x, axis=axis % len(shape)), len(g.layer["tops"]) - 1)


def axis_of(s, old, shape):
    return s.get("axis", s.get(old, 1)) % len(shape)


def concat(g, s, x, shape):
    g.give(g.node("Concat", *g.inputs, axis=axis_of(s, "concat_dim", shape)))


def cut(g, s, x, shape):
    """Slice, which ONNX calls Split."""
    axis, tops = axis_of(s, "slice_dim", shape), g.layer["tops"]
    names = [g.top_name(top) for top in range(len(tops))]
    g.node("Split", x, g.ints("sizes", [top["shape"][axis] for top in tops]), outputs=names, axis=axis)
    for top, name in enumerate(names):
        g.tell(top, name)


def split(g, s, x, shape):
    g.values.update((top["name"], x) for top in g.layer["tops"])


def flatten(g, s, x, shape):
    g.give(g.reshape(x, g.layer["tops"][0]["shape"]))


def eltwise(g, s, x, shape):
    kind = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}[s.get("operation", "SUM")]
    factors = s.get("coeff") or [1] * len(g.inputs)
    values = [g.affine(value, factor) for value, factor in zip(g.inputs, factors)]
    y = values[0]
    for value in values[1:]:
        y = g.node(kind, y, value)
    g.give(y)


def batch_norm(g, s, x, shape):
    """Mean and variance are kept as sums, with the weight of both."""
    if s.get("use_global_stats") is False:
        raise Refused("it normalises by each batch's own statistics (use_global_stats: false)")
    if len(shape) < 2:
        raise Refused("its bottom has one axis, and ONNX wants channels on a second one")
    mean, variance, weight = map(g.weights.read, g.layer["blobs"])
    mean, variance = (total / weight if weight else total * 0 for total in (mean, variance))
    g.give(g.node("BatchNormalization", x, g.constant("one", np.ones_like(mean)), g.constant("zero", np.zeros_like(mean)),
                  g.constant("mean", mean), g.constant("variance", variance), epsilon=float(s.get("eps", 1e-5))))


def scale(g, s, x, shape):
    """Scale and Bias: what multiplies, or is added, is the second bottom or a parameter."""
    steps = [("Add", "bias")] if g.layer["type"] == "Bias" else [("Mul", "scale"), ("Add", "bias")][:1 + s.get("bias_term", False)]
    axes, index, given = len(shape) - s.get("axis", 1) % len(shape), 0, list(zip(g.inputs, g.input_shapes))[1:]
    for kind, name in steps:
        if given:
            value, own = given.pop()
            x = g.node(kind, x, g.reshape(value, own + [1] * (axes - len(own))))
        else:
            x = g.node(kind, x, g.parameter(index, name, axes))
            index += 1
    g.give(x)


def prelu(g, s, x, shape):
    g.give(g.node("PRelu", x, g.parameter(0, "slope", len(shape) - 1)))


def clip(g, s, x, shape):
    six = g.layer["type"] == "ReLU6"
    g.give(g.node("Clip", x, g.scalar("least", 0 if six else s["min"]), g.scalar("most", 6 if six else s["max"])))


def elu(g, s, x, shape):
    g.give(g.node("Elu", x, alpha=float(s.get("alpha", 1))))


def exp(g, s, x, shape):
    base = math.log(s["base"]) if s.get("base", -1) > 0 else 1
    g.give(g.node("Exp", g.affine(x, base * s.get("scale", 1), base * s.get("shift", 0))))


def log(g, s, x, shape):
    base = math.log(s["base"]) if s.get("base", -1) > 0 else 1
    g.give(g.affine(g.node("Log", g.affine(x, s.get("scale", 1), s.get("shift", 0))), 1 / base))


def power(g, s, x, shape):
    y = g.affine(x, s.get("scale", 1), s.get("shift", 0))
    g.give(y if s.get("power", 1) == 1 else g.node("Pow", y, g.scalar("power", s["power"])))


def gelu(g, s, x, shape):
    if s.get("approximate"):
        cubic = g.node("Mul", x, g.affine(g.node("Mul", x, x), 0.044715, 1))
        part = g.node("Tanh", g.affine(cubic, math.sqrt(2 / math.pi)))
    else:
        part = g.node("Erf", g.affine(x, math.sqrt(0.5)))
    g.give(g.node("Mul", x, g.affine(part, 0.5, 0.5)))


def swish(g, s, x, shape):
    g.give(g.node("Mul", x, g.node("Sigmoid", g.affine(x, s.get("beta", 1)))))


def threshold(g, s, x, shape):
    above = g.node("Greater", x, g.scalar("threshold", s.get("threshold", 0)))
    g.give(g.node("Cast", above, to=onnx.TensorProto.FLOAT))


def crop(g, s, x, shape):
    top, first, offset = g.layer["tops"][0]["shape"], s.get("axis", 2) % len(shape), s.get("offset", [0])
    axes = [i for i in range(len(shape)) if shape[i] != top[i]]
    begin = [offset[i - first] if len(offset) > 1 else offset[0] for i in axes]
    g.give(g.node("Slice", x, g.ints("begin", begin), g.ints("end", [b + top[i] for b, i in zip(begin, axes)]),
                  g.ints("axes", axes)) if axes else x)


def tile(g, s, x, shape):
    times = [1] * len(shape)
    times[s.get("axis", 1)] = s["tiles"]
    g.give(g.node("Tile", x, g.ints("times", times)))


def shuffle(g, s, x, shape):
    """(group, C / group, ...) transposed, in a shape of one axis for all that follows."""
    group = s.get("group", 1)
    y = g.reshape(x, [-1, group, shape[1] // group, math.prod(shape[2:])])
    g.give(g.reshape(g.node("Transpose", y, perm=[0, 2, 1, 3]), shape))


def parameter(g, s, x, shape):
    g.give(g.parameter(0, "value"))


def plain(kind):
    def give(g, s, x, shape):
        g.give(g.node(kind, x))
    return give


def nothing(g, s, x, shape):
    """What a loss or score compares becomes an output."""


# By type: the name of the settings, and the function. Types that are not here ONNX cannot say, or nobody has asked for.
FORMS = {
    "AbsVal": ("", plain("Abs")), "Accuracy": ("", nothing), "BatchNorm": ("batch_norm", batch_norm), "Bias": ("bias", scale),
    "BNLL": ("", plain("Softplus")), "Clip": ("clip", clip), "Concat": ("concat", concat), "ContrastiveLoss": ("", nothing),
    "Convolution": ("convolution", convolution), "ConvolutionDepthwise": ("convolution", convolution), "Crop": ("crop", crop),
    "Deconvolution": ("convolution", convolution), "DepthwiseConvolution": ("convolution", convolution),
    "Dropout": ("", plain("Dropout")), "Eltwise": ("eltwise", eltwise), "ELU": ("elu", elu), "EuclideanLoss": ("", nothing),
    "Exp": ("exp", exp), "Flatten": ("", flatten), "GELU": ("gelu", gelu), "HingeLoss": ("", nothing),
    "InfogainLoss": ("", nothing),
    "InnerProduct": ("inner_product", inner_product), "Log": ("log", log), "LRN": ("lrn", lrn),
    "MultinomialLogisticLoss": ("", nothing), "Parameter": ("", parameter), "Pooling": ("pooling", pooling),
    "Power": ("power", power), "PReLU": ("", prelu), "ReLU": ("relu", relu), "ReLU6": ("", clip), "Reshape": ("", flatten),
    "Scale": ("scale", scale), "ShuffleChannel": ("shuffle_channel", shuffle), "Sigmoid": ("", plain("Sigmoid")),
    "SigmoidCrossEntropyLoss": ("", plain("Sigmoid")), "Slice": ("slice", cut), "Softmax": ("", softmax),
    "SoftmaxWithLoss": ("", softmax), "Split": ("", split), "Swish": ("swish", swish), "TanH": ("", plain("Tanh")),
    "Threshold": ("threshold", threshold), "Tile": ("tile", tile),
}


# ---- files ----

@contextlib.contextmanager
def reading(path):
    """Names the file in what HDF5 says of it."""
    try:
        yield
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise Refused(f"{path}: damaged, or no file of weights: {' '.join(str(error).split())}") from None


class Weights:
    """Parameters in files of weights, of which later ones come first."""

    def __init__(self, paths, files):
        self.paths, self.files = paths, files

    def find(self, name):
        """What the last file with a layer of that name has of it, and the file's path. Other writers replace the slash, which
        HDF5 cannot have in a name."""
        escaped = "(?:%2F|[^0-9A-Za-z])".join(map(re.escape, name.split("/")))
        for path, file in zip(reversed(self.paths), reversed(self.files)):
            with reading(path):
                for found in [name] if name in file["data"] else [n for n in file["data"] if re.fullmatch(escaped, n, re.I)]:
                    # beside a layer's own blobs lie layers whose names go on behind a slash
                    blobs = {int(key): blob for key, blob in file["data"][found].items() if isinstance(blob, h5py.Dataset)}
                    if blobs:
                        return blobs, path
        raise Refused(f"{', '.join(self.paths)}: no parameters of layer '{name}'")

    def check(self, layer):
        """Refuses what is not the net's before it is read."""
        own = {blob["index"] for blob in layer["blobs"] if blob["layer"] == layer["name"]}
        if not own:
            return
        stored, path = self.find(layer["name"])
        with reading(path):
            shapes = {index: blob.shape for index, blob in stored.items()}
        if not own <= set(shapes) <= set(range(len(layer["blobs"]))):
            raise Refused(f"{path}: Incompatible number of blobs for layer {layer['name']}: the file has {len(shapes)}, the net "
                          f"has {len(own)}")
        for blob in layer["blobs"]:
            found = shapes[blob["index"]] if blob["index"] in own else ()
            if blob["index"] in own and list(found) != [1] * (len(found) - len(blob["shape"])) + blob["shape"]:
                raise Refused(f"{path}: Cannot copy param {blob['index']} weights from layer '{layer['name']}'; shape mismatch: "
                              f"the file has {by(found)}, the net {by(blob['shape'])}")

    def read(self, blob):
        stored, path = self.find(blob["layer"])
        with reading(path):
            values = stored[blob["index"]][()].astype(np.float32).reshape(blob["shape"])
        if not np.isfinite(values).all():
            raise Refused(f"{path}: layer '{blob['layer']}' has values that are not finite: training had diverged")
        return values

    def texts(self):
        """Names of classes, and what images go through, with the path of the last file that says either."""
        for path, file in zip(reversed(self.paths), reversed(self.files)):
            with reading(path):
                # of fixed length alone, as poseidon writes texts: HDF5 may read a damaged one of another kind for ever
                known = {name for name in file.attrs if file.attrs.get_id(name).dtype.kind == "S"}
                texts = [file.attrs[name].decode(errors="replace") if name in known else None for name in ("classes", "preprocessing")]
                if texts != [None, None]:
                    return texts + [path]
        return None, None, None


@contextlib.contextmanager
def open_weights(names):
    """Files of weights; what is not HDF5 is converted first."""
    paths = names.split(",")
    with contextlib.ExitStack() as stack:
        folder, files = stack.enter_context(tempfile.TemporaryDirectory()), []
        for number, path in enumerate(paths):
            if not h5py.is_hdf5(path):
                converted = os.path.join(folder, f"{number}.caffemodel.h5")
                poseidon("convert", "weights", path, converted)
            else:
                converted = path
            with reading(path):
                files.append(stack.enter_context(h5py.File(converted, "r")))
                if not isinstance(files[-1].get("data"), h5py.Group):
                    raise Refused(f"{path}: expected a model in Caffe's form, with a group 'data'")
        yield Weights(paths, files)


def read_mean(name, model):
    """A mean image, C x H x W: HDF5 or Caffe's binaryproto, found as named or else beside the net."""
    path = name if os.path.exists(name) else os.path.join(os.path.dirname(model), name)
    try:
        if h5py.is_hdf5(path):
            with h5py.File(path, "r") as file:
                mean = file["mean" if "mean" in file else "data"][()]
        else:
            with open(path, "rb") as file:
                mean = parse_blob(file.read())
        return np.asarray(mean, np.float32).reshape(mean.shape[-3:])
    except (KeyError, TypeError, ValueError, DecodeError) as error:
        raise Refused(f"{path}: expected a mean image of C x H x W, in HDF5 or Caffe's binaryproto ({error})") from None


def parse_blob(message):
    """The array in Caffe's BlobProto, of which these fields are known here."""
    file = descriptor_pb2.FileDescriptorProto(name="blob.proto")
    shape, blob = (file.message_type.add(name=name) for name in ("BlobShape", "BlobProto"))
    kind = descriptor_pb2.FieldDescriptorProto
    shape.field.add(name="dim", number=1, type=kind.TYPE_INT64, label=kind.LABEL_REPEATED)
    for number, name in enumerate(("num", "channels", "height", "width"), 1):
        blob.field.add(name=name, number=number, type=kind.TYPE_INT32, label=kind.LABEL_OPTIONAL)
    blob.field.add(name="data", number=5, type=kind.TYPE_FLOAT, label=kind.LABEL_REPEATED)
    blob.field.add(name="shape", number=7, type=kind.TYPE_MESSAGE, label=kind.LABEL_OPTIONAL, type_name=".BlobShape")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    blob = message_factory.GetMessageClass(pool.FindMessageTypeByName("BlobProto"))()
    blob.ParseFromString(message)
    return np.array(blob.data, np.float32).reshape(list(blob.shape.dim)[-3:] or [blob.channels, blob.height, blob.width])


def poseidon(*words):
    """What the command prints. Its notices are passed on."""
    here = os.path.dirname(os.path.realpath(__file__))
    near = [os.path.join(here, *place, "poseidon") for place in (("..", "build"), ("..", "..", "..", "bin"))]
    program = os.environ.get("POSEIDON") or next((path for path in near if os.access(path, os.X_OK)), "poseidon")
    try:
        done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        raise Refused(f"{program} cannot be run: {error.strerror}; expected poseidon in PATH, or its place in the variable "
                      "POSEIDON") from None
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        said = said.strip() or f"{program} {words[0]} ended with status {done.returncode}"
        raise Refused(re.sub(f"^poseidon {words[0]}: ", "", said, flags=re.M))
    sys.stderr.write(said)
    return done.stdout


# ---- a net as a whole ----

def by(sizes):
    return " x ".join(map(str, sizes)) or "scalar"


def transform(g, model):
    """What the data layer makes of pixels: (x - mean) * scale, of the crop in the middle."""
    settings, top = setting(g.layer, "transform"), g.layer["tops"][0]
    factor, images = settings.get("scale", 1), top["shape"][1:]
    mean = np.array(settings.get("mean_value", [0]), np.float32)[:, None, None]
    if settings.get("mean_file"):
        mean = read_mean(settings["mean_file"], model)
        record = g.layer.get("record", list(mean.shape))
        if list(mean.shape) != record:
            raise Refused(f"the mean image is {by(mean.shape)} and the data are {by(record)}: mean_value fits images of any size")
        (height, width), (rows, columns) = images[1:], ((size - cut) // 2 for size, cut in zip(mean.shape[1:], images[1:]))
        if settings.get("crop_size") or settings.get("crop_height"):
            mean = mean[:, rows:rows + height, columns:columns + width]
    if any(have not in (1, want) for have, want in zip(mean.shape, images)):
        raise Refused(f"the mean is {by(mean.shape)} and the images are {by(images)}: expected one size")
    mean = np.broadcast_to(mean, images[:1] + list(mean.shape[1:]))
    x = g.node("Mul", top["name"], g.scalar("scale", factor)) if factor != 1 else top["name"]
    g.values[top["name"]] = g.node("Add", x, g.constant("offset", -mean * np.float32(factor)))


def put_layer(g, number, arguments):
    g.begin(number)
    layer = g.layer
    if is_data(layer):
        for top, blob in enumerate(layer["tops"]):
            g.tell(top, blob["name"])
        if arguments.preprocess and "transform_param" in layer and layer["type"] in ("Data", "ImageData", "ImageSegData", "DenseImageData"):
            transform(g, arguments.model)
    elif layer["tops"]:
        if layer["type"] not in FORMS:
            raise Refused("poseidon has no ONNX form for it; a net that ends before it can be exported")
        if None in g.inputs:
            raise Refused(f"its bottom '{layer['bottoms'][g.inputs.index(None)]}' is a loss or a score, and those are left out")
        name, form = FORMS[layer["type"]]
        form(g, setting(layer, name), *((g.inputs[0], g.input_shapes[0]) if g.inputs else (None, None)))


def put_ends(g, fixed):
    """Lists of what some node takes of the data, of what none takes of all that was made, and of the values between. The
    batch is any number where every blob begins with 1: then no layer joins or cuts samples."""
    taken = {value for node in g.nodes for value in node.input} | g.silenced
    alike = all(top["shape"][0] == 1 for layer in g.net["layers"] for top in layer["tops"] if top["shape"])
    inputs, outputs, others = {}, {}, {}
    for value, shape, data in g.ends:
        ends = others if not data and value in taken else outputs if not data else inputs if value in taken else {}
        batch = ["N"] if alike and not fixed else shape[:1]
        ends[value] = onnx.helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, (batch if shape else []) + shape[1:])
    return [list(ends.values()) for ends in (inputs, outputs, others)]


def make_model(net, weights, arguments):
    g = Graph(net, weights)
    for layer in net["layers"]:
        weights.check(layer)
    for number, layer in enumerate(net["layers"]):
        try:
            put_layer(g, number, arguments)
        except Refused as error:
            raise Refused(f"{layer['place']} ({layer['type']}): {error}") from None
    inputs, outputs, others = put_ends(g, arguments.batch)
    if not outputs:
        raise Refused(f"{arguments.model}: the net gives no values to export")
    nbytes = sum(array.nbytes for array in g.constants.values())
    if nbytes > MOST_BYTES:
        raise Refused(f"{arguments.output}: the net would take {nbytes} bytes, and readers of ONNX take 2 GB at most")
    constants = [onnx.numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in g.constants.items()]
    graph = onnx.helper.make_graph(g.nodes, net["name"] or "net", inputs, outputs, constants, value_info=others)
    return onnx.helper.make_model(graph, producer_name="poseidon", ir_version=IR_VERSION,
                                  opset_imports=[onnx.helper.make_opsetid("", OPSET)])


def note_data(model, net, weights):
    """Names of classes and what images go through, of the net's data or, where that is not here, as the weights say."""
    classes, preparation, path = weights.texts()
    pairs = zip((classes or "").split("\n"), (net["classes"] or "").split("\n"))
    for number, (told, own) in enumerate(pairs):
        if told and own and told != own:
            raise Refused(f"class {number} is '{told}' in {path} and '{own}' in the net's data: a label would mean two classes")
    preparation = net["preprocessing"] or preparation
    notes = {"classes": net["classes"] or classes, "preprocessing": preparation, "channel_order": preparation and "BGR"}
    onnx.helper.set_model_props(model, {name: text for name, text in notes.items() if text})


def export(arguments):
    check_output(arguments.output, (".onnx",), [arguments.model, *arguments.weights.split(",")], arguments.force)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in vars(arguments).items()
             if name in ("model", "stage", "level", "batch", "input_shape") and value is not None]
    net = poseidon("summary", "--json", "--phase=TEST", *([] if arguments.batch else ["--batch=1"]), *words)
    if b'"preprocessing": ' not in net:
        raise Refused("'poseidon summary --json' does not say all of a net: expected the program of this tool's release in PATH, or its "
                      "place in the variable POSEIDON")
    net = json.loads(net)
    with open_weights(arguments.weights) as weights:
        model = make_model(net, weights, arguments)
        note_data(model, net, weights)
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # of several types, by version
        raise Refused(f"the graph is not valid ONNX, which is a fault of this tool (please report the net): {error}") from None
    with replace(arguments.output) as output:
        output.write(model.SerializeToString())
    ends = ["; from " + ", ".join(map(end_text, model.graph.input)), " to " + ", ".join(map(end_text, model.graph.output))]
    count = len(model.graph.node)
    print(f"{arguments.output}: {count} node{'s' * (count != 1)}, ONNX opset {OPSET}{''.join(ends)}")


def end_text(end):
    return f"{end.name} ({' x '.join(dim.dim_param or str(dim.dim_value) for dim in end.type.tensor_type.shape.dim)})"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(1, f"{self.prog}: {message}; --help lists the options\n")


def parse_arguments():
    parser = Parser(
        prog="to_onnx.py", usage="%(prog)s --model=FILE --weights=FILES OUT.onnx [OPTIONS]",
        description="Writes the TEST phase of a net with its weights as ONNX, for onnxruntime and other programs: each layer as "
        "nodes of the same values. Data layers become inputs; a softmax loss becomes a softmax, other losses and scores are left "
        "out. A layer that ONNX cannot express is refused by name. Names of classes and what images go through, where the data "
        "or the weights tell them, are metadata.",
        epilog="example: to_onnx.py --model=net.prototxt --weights=net.caffemodel net.onnx")
    parser.add_argument("output", metavar="OUT.onnx", help="the file to write")
    parser.add_argument("--model", metavar="FILE", required=True, help="the net (prototxt, or a .caffemodel that has it)")
    parser.add_argument("--weights", metavar="FILES", required=True, help="trained weights (comma list)")
    parser.add_argument("--preprocess", action="store_true",
                        help="put the mean and scale of the net's data layer in front: the input is then pixels, 0 to 255, "
                        "cropped, blue before green before red")
    parser.add_argument("--batch", type=int, metavar="N",
                        help="samples of a batch (default: any number; 1 if the net joins or cuts samples)")
    parser.add_argument("--stage", metavar="LIST", help="stages of the net's state (comma list)")
    parser.add_argument("--level", metavar="N", help="level of the net's state")
    parser.add_argument("--input-shape", metavar="C,H,W", help="input size, if neither the net nor its data gives it")
    parser.add_argument("--force", action="store_true", help="replace OUT.onnx if it exists")
    return parser.parse_args()


if __name__ == "__main__":
    run(lambda: export(parse_arguments()))
