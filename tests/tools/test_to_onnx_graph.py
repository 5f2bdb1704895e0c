#!/usr/bin/env python3
"""What tools/to_onnx.py writes of small nets, node by node, and what it refuses: one line, status 1, nothing left."""
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

TOOL = os.path.join(os.environ["abs_top_srcdir"], "tools", "to_onnx.py")


def call(*words, python=(sys.executable,), **how):
    return subprocess.run([*python, TOOL, *words], capture_output=True, text=True, timeout=300, **how)


def refuses(pattern, *words, **how):
    before = sorted(os.listdir("."))
    done = call(*words, **how)
    assert done.returncode == 1 and not done.stdout, (words, done)
    notices, message = re.fullmatch("((?:layer .*\n)*)(.*)\n", done.stderr, re.S).groups()
    assert re.match("to_onnx.py: .*(" + pattern + ")", message) and "\n" not in message, (pattern, done.stderr)
    assert sorted(os.listdir(".")) == before, (words, os.listdir("."))


# needs no module
refuses("h5py is missing: pip install h5py", "x.onnx", python=(sys.executable, "-I", "-S"))
assert "--weights" in call("--help", python=(sys.executable, "-I", "-S")).stdout

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests", "tools"))
from onnx_common import h5py, np, onnx, poseidon  # noqa: E402

IP = 'layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 5 } }'
LOSS = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }'
SCORE = 'layer { name: "score" type: "Accuracy" bottom: "ip" bottom: "label" top: "score" include { phase: TEST } }'
NORM = 'layer { name: "b" type: "BatchNorm" bottom: "conv" top: "b" include { phase: TRAIN } }'
DUMMY = """layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 3 dim: 8 dim: 8 } shape { dim: 4 } data_filler { type: "gaussian" std: 1 }
  data_filler { value: 1 } } }
"""
CONV = """layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {
  num_output: 2 kernel_size: 3 group: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
"""


def net(name, *layers, before=DUMMY, conv=CONV):
    with open(name, "w") as f:
        f.write('name: "small"\n' + before + conv + "\n".join(layers) + "\n")


def works(model, *words, weights="w_iter_1.caffemodel", out="net.onnx"):
    """(model, what was printed)"""
    done = call("--model=" + model, "--weights=" + weights, "--force", *words, out)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(out, full_check=True)
    return onnx.load(out), done.stdout


def kinds(model):
    return [node.op_type for node in model.graph.node]


def attribute(node, name):
    return next(onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name)


def constant(model, name):
    return next(onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.name == name)


def becomes(wanted, *layers):
    """The nodes behind conv and its ReLU."""
    net("other.prototxt", *layers)
    model, said = works("other.prototxt", out="other.onnx")
    assert "from data (N x 3 x 8 x 8) to " in said, said
    assert kinds(model) == ["Conv", "Relu"] + wanted.split(), (layers, kinds(model))
    return model


def pool(settings, more=""):
    return 'layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" %s pooling_param { %s } }' % (more, settings)


def test_whole_net():
    """Labels and scores are gone, the loss is a softmax, layers in place have names of their own."""
    model, said = works("net.prototxt")
    assert said == "net.onnx: 5 nodes, ONNX opset 13; from data (N x 3 x 8 x 8) to prob (N x 5)\n", said
    assert kinds(model) == ["Conv", "Relu", "Flatten", "Gemm", "Softmax"]
    assert (model.ir_version, model.producer_name, model.opset_import[0].version) == (7, "poseidon", 13)
    conv, relu = model.graph.node[:2]
    assert list(conv.input) == ["data", "conv.weight", "conv.bias"] and conv.output[0] == "conv/conv"
    assert list(relu.input) == ["conv/conv"] and relu.output[0] == "conv"
    poseidon("convert", "weights", "w_iter_1.caffemodel", "w.caffemodel.h5")
    with h5py.File("w.caffemodel.h5") as f:
        assert np.array_equal(constant(model, "conv.weight"), f["data/conv/0"][()])
    assert "label" not in str(model.graph.node)
    same, _ = works("net.prototxt", weights="w.caffemodel.h5")
    assert same == model


def test_batch():
    _, said = works("net.prototxt", "--batch=7")
    assert "from data (7 x 3 x 8 x 8) to prob (7 x 5)" in said, said
    net("joined.prototxt", 'layer { name: "r" type: "Reshape" bottom: "conv" top: "r" reshape_param { shape { dim: -1 dim: 18 } } }')
    _, said = works("joined.prototxt")
    assert "from data (1 x 3 x 8 x 8) to r (4 x 18)" in said, said


def test_forms():
    """Windows that extend beyond the image become pads of the far end, and a mean over part of one gets a factor."""
    node = becomes("MaxPool", pool("kernel_size: 3 stride: 2")).graph.node[2]
    assert attribute(node, "pads") == [0, 0, 1, 1] and "ceil_mode" not in str(node)
    model = becomes("AveragePool Mul", pool("pool: AVE kernel_size: 3 stride: 2"))
    expected = np.outer([1, 1, 1.5], [1, 1, 1.5]).astype(np.float32)
    assert np.array_equal(constant(model, "pool.windows"), expected[None, None])
    becomes("AveragePool", pool("pool: AVE kernel_size: 3 pad: 1"))
    becomes("GlobalAveragePool", pool("pool: AVE global_pooling: true"))
    becomes("Dropout Concat", 'layer { name: "d" type: "Dropout" bottom: "conv" top: "d" }',
            'layer { name: "c" type: "Concat" bottom: "conv" bottom: "d" top: "c" }')
    becomes("LRN", 'layer { name: "n" type: "LRN" bottom: "conv" top: "n" lrn_param { alpha: 0.5 } }')
    becomes("Split", 'layer { name: "s" type: "Slice" bottom: "conv" top: "a" top: "b" }')
    becomes("Mul Add", 'layer { name: "p" type: "Power" bottom: "conv" top: "p" power_param { scale: 2 shift: 1 } }')
    model = becomes("Sigmoid", 'layer { name: "s" type: "SigmoidCrossEntropyLoss" bottom: "conv" bottom: "conv" top: "s" }')
    assert [end.name for end in model.graph.output] == ["s/prob"]


def test_shared_parameter():
    """Two layers of one weight: the file has it once, and so has the graph. One's name begins as the other's, with a slash."""
    shared = 'layer { name: "%s" type: "InnerProduct" bottom: "conv" top: "%s" param { name: "w" } inner_product_param { num_output: 5 } }'
    net("shared.prototxt", shared % ("ip", "ip"), shared % ("ip/again", "again"),
        'layer { name: "sum" type: "Eltwise" bottom: "ip" bottom: "again" top: "sum" }', LOSS.replace('"ip"', '"sum"'))
    train("shared.prototxt", "s")
    model, _ = works("shared.prototxt", weights="s_iter_1.caffemodel")
    gemms = [node for node in model.graph.node if node.op_type == "Gemm"]
    assert [node.input[1] for node in gemms] == ["ip.weight"] * 2 and gemms[0].input[2] != gemms[1].input[2]


def test_in_place_on_data():
    """The input has the blob's name, and what the layers make has names of its own."""
    place = "".join('layer { name: "%s" type: "%s" bottom: "data" top: "data" }\n' % pair for pair in (("r", "ReLU"), ("t", "TanH")))
    net("place.prototxt", IP, LOSS, before=DUMMY + place)
    model, said = works("place.prototxt")
    assert ": 7 nodes" in said and "from data (N x 3 x 8 x 8) to prob (N x 5)" in said, said
    assert [(node.input[0], node.output[0]) for node in model.graph.node[:2]] == [("data", "data/r"), ("data/r", "data/t")]
    assert model.graph.node[2].input[0] == "data/t" and [end.name for end in model.graph.input] == ["data"]


def test_preprocess():
    """Mean and scale in front, of a data layer whose file is not there."""
    data = """layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.5 crop_size: 8 %s }
  data_param { source: "absent" batch_size: 4 } }\n"""
    net("photos.prototxt", IP, LOSS, before=data % "mean_value: 104 mean_value: 117 mean_value: 123")
    model, said = works("photos.prototxt", "--preprocess")
    assert "from data (N x 3 x 8 x 8) to prob (N x 5)" in said
    assert kinds(model) == ["Mul", "Add", "Conv", "Relu", "Flatten", "Gemm", "Softmax"]
    assert constant(model, "data.offset").ravel().tolist() == [-52, -58.5, -61.5]
    # a mean image of 10 x 12, as Caffe's binaryproto has it: its middle
    mean = np.arange(360, dtype="<f4").reshape(3, 10, 12)
    old = b"".join(bytes((8 * field, size)) for field, size in ((1, 1), (2, 3), (3, 10), (4, 12)))
    with open("mean.binaryproto", "wb") as f:
        f.write(old + b"\x2a\xa0\x0b" + mean.tobytes())
    net("photos.prototxt", IP, LOSS, before=data % 'mean_file: "mean.binaryproto"')
    model, _ = works("photos.prototxt", "--preprocess")
    assert np.array_equal(constant(model, "data.offset"), -0.5 * mean[:, 1:9, 2:10])
    with open("mean.binaryproto", "wb") as f:
        f.write(old + b"\x2a\xa0\x0b" + mean.tobytes()[:-4])
    words = "--model=photos.prototxt", "--weights=w_iter_1.caffemodel", "--preprocess", "bad.onnx"
    refuses("layer 'data' .Data.: mean.binaryproto: expected a mean image", *words)
    os.remove("mean.binaryproto")
    refuses("mean.binaryproto", *words)


def test_metadata():
    """Names of classes and what images go through, of the weights; other names in the data are refused."""
    with h5py.File("set.h5", "w") as f:
        f["data"], f["label"] = np.zeros((4, 3, 8, 8), np.uint8), np.zeros(4, np.int32)
        f.attrs["classes"] = np.array([b"ash", b"birch"])
    data = 'layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "set.h5" batch_size: 4 } }\n'
    net("named.prototxt", IP, LOSS, before=data)
    train("named.prototxt", "named", "HDF5")
    for weights in ("named_iter_1.caffemodel.h5", "named.caffemodel"):
        if not os.path.exists(weights):
            poseidon("convert", "weights", "named_iter_1.caffemodel.h5", weights)
        model, _ = works("net.prototxt", weights=weights)
        notes = {pair.key: pair.value for pair in model.metadata_props}
        assert notes["classes"] == "ash\nbirch\n" and 'type: "Input"' in notes["preprocessing"] and notes["channel_order"] == "BGR"
    with h5py.File("set.h5", "a") as f:
        f.attrs["classes"] = np.array([b"ash", b"oak"])
    refuses("class 1 is 'birch' in named.caffemodel and 'oak' in the net's data: a label would mean two classes",
            "--model=named.prototxt", "--weights=named.caffemodel", "bad.onnx")


def test_refusals():
    """What ONNX cannot say, and what is asked for wrongly."""
    def layer(pattern, text):
        net("bad.prototxt", text)
        refuses("bad.prototxt:8: layer '" + pattern, "--model=bad.prototxt", "--weights=w_iter_1.caffemodel", "bad.onnx")

    layer("pool' .Pooling.: ONNX has no pooling that is stochastic", pool("pool: STOCHASTIC kernel_size: 2"))
    layer("pool' .Pooling.: ONNX has no pooling that is followed by .* a second top", pool("kernel_size: 2", 'top: "at"'))
    layer("pool' .Pooling.: its last window begins behind the image, at 8 of 6 pixels.*FLOOR", pool("kernel_size: 1 stride: 4"))
    layer("b' .BatchNorm.: it normalises by each batch's own statistics", NORM.replace(
        "include { phase: TRAIN }", "batch_norm_param { use_global_stats: false }"))
    layer("p' .Power.: its bottom 'loss' is a loss or a score", 'layer { name: "loss" type: "EuclideanLoss" bottom: "data" bottom: '
          '"data" top: "loss" } layer { name: "p" type: "Power" bottom: "loss" top: "p" }')
    layer("m' .MVN.: poseidon has no ONNX form for it", 'layer { name: "m" type: "MVN" bottom: "conv" top: "m" }')

    model, weights = "--model=net.prototxt", "--weights=w_iter_1.caffemodel"
    works("net.prototxt", out="old.onnx")
    refuses("old.onnx exists already; --force replaces it", model, weights, "old.onnx")
    os.mkdir("folder.onnx")
    refuses("folder.onnx is a folder", model, weights, "--force", "folder.onnx")
    refuses("'net.pb': expected a name that ends in .onnx", model, weights, "net.pb")
    refuses("the following arguments are required: --weights", model, "a.onnx")
    refuses("the following arguments are required: OUT.onnx", model, weights)
    refuses("unrecognized arguments: --opset=9", model, weights, "--opset=9", "a.onnx")
    refuses("no/a.onnx cannot be written: No such file", model, weights, "no/a.onnx")
    refuses("/nowhere/net: no such file", "--model=/nowhere/net", weights, "a.onnx")
    refuses("cannot be run: No such file", model, weights, "a.onnx", env={**os.environ, "POSEIDON": "/nowhere/poseidon"})
    refuses("expected the program of this tool's release", model, weights, "a.onnx", env={**os.environ, "POSEIDON": "echo"})
    full = dict(preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))))
    refuses("full.onnx cannot be written: File too large", model, "--weights=w.caffemodel.h5", "full.onnx", **full)
    if os.path.exists("/dev/full"):
        refuses("is a device or pipe", model, weights, "dev.onnx") if os.symlink("/dev/full", "dev.onnx") else None


def test_weights():
    """Files of weights that are damaged, empty, huge, another net's, or something else."""
    def bad(pattern, weights, model="net.prototxt"):
        refuses(pattern, "--model=" + model, "--weights=" + weights, "bad.onnx")

    net("wider.prototxt", IP.replace(": 5", ": 6"), LOSS)
    bad("w_iter_1.caffemodel: Cannot copy param 0 weights from layer 'ip'; shape mismatch: the file has 5 x 72, the net 6 x 72",
        "w_iter_1.caffemodel", "wider.prototxt")
    net("more.prototxt", IP.replace('"ip"', '"other"'))
    bad("no parameters of layer 'other'", "w_iter_1.caffemodel", "more.prototxt")
    net("bare.prototxt", IP.replace("num_output: 5", "num_output: 5 bias_term: false"))
    bad("Incompatible number of blobs for layer ip: the file has 2, the net has 1", "w_iter_1.caffemodel", "bare.prototxt")
    with open("w.caffemodel.h5", "rb") as f:
        whole = f.read()
    for name, content in (("empty.h5", b""), ("cut.h5", whole[:len(whole) // 2]), ("text.caffemodel", b"nothing"), ("zeros.h5", bytes(4096))):
        with open(name, "wb") as f:
            f.write(content)
        bad(re.escape(name) + "|nothing", name)
    bad("/nowhere/w", "/nowhere/w")
    for change, pattern in ((lambda f: f.__delitem__("data"), "expected a model in Caffe's form, with a group 'data'"),
                            (lambda f: f["data/conv"].__delitem__("1"), "Incompatible number of blobs for layer conv"),
                            (lambda f: f["data/conv/0"].write_direct(np.full((2, 3, 3, 3), np.nan, np.float32)), "not finite"),
                            (lambda f: (f["data/conv"].__delitem__("0"),
                                        f["data/conv"].create_dataset("0", (1 << 40,), "<f4", chunks=(1 << 20,))), "Cannot copy param 0"),
                            (lambda f: (f["data/conv"].__delitem__("0"), f["data/conv"].create_dataset("0", data=b"text")), "Cannot copy")):
        with open("odd.h5", "wb") as f:
            f.write(whole)
        with h5py.File("odd.h5", "a") as f:
            change(f)
        bad("odd.h5: .*" + pattern, "odd.h5")


def train(net_file, prefix, form="BINARYPROTO"):
    with open("solver.prototxt", "w") as f:
        f.write('net: "%s" base_lr: 0.1 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "%s" snapshot_format: %s' % (net_file, prefix, form))
    poseidon("train", "--solver=solver.prototxt", "--threads=1")


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    net("net.prototxt", IP, LOSS, SCORE, NORM)
    train("net.prototxt", "w")
    for test in (test_whole_net, test_batch, test_forms, test_shared_parameter, test_in_place_on_data, test_preprocess, test_metadata,
                 test_refusals, test_weights):
        test()
        print(test.__name__[len("test_"):] + ": passed")
    os.chdir("/")
