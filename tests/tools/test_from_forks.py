#!/usr/bin/env python3
"""tools/from_forks.py: nets and models of Caffe's forks run here with the numbers of the forks' layers.

The judge computes those layers in numpy, by the forks' sources. Skips without h5py, but for what the tool says then.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.environ["POSEIDON"]
TOOL = os.path.join(os.environ["abs_top_srcdir"], "tools", "from_forks.py")


def tool(*arguments, status=0, **options):
    done = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, **options)
    assert done.returncode == status and done.stdout == "", (arguments, done.stdout, done.stderr)
    assert status == 0 or done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def program(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


def read(path):
    with open(path) as f:
        return f.read()


def refuses(says, *arguments):
    before = sorted(os.listdir("."))
    said = tool(*arguments, status=1)
    assert says in said, (says, said)
    assert sorted(os.listdir(".")) == before, "files are left"


BN = "layer { name: 'bn' type: 'BN' bottom: 'x' top: 'y' bn_param { %s } }\n"

with tempfile.TemporaryDirectory() as place:
    write(os.path.join(place, "h5py.py"), "raise ImportError('no module', name='h5py')")
    write(os.path.join(place, "old.prototxt"), BN % "frozen: true")
    write(os.path.join(place, "old.h5"), "")
    lacking = {"cwd": place, "env": {**os.environ, "PYTHONPATH": place}}
    said = tool("old.prototxt", "new.prototxt", "--weights=old.h5", "--out=new.h5", status=1, **lacking)
    assert "h5py is missing: pip install h5py" in said and not os.path.exists(os.path.join(place, "new.prototxt")), said
    tool("old.prototxt", "new.prototxt", **lacking)

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

RANDOM = np.random.RandomState(3)
DATA = ("layer { name: 'data' type: 'HDF5Data' %s hdf5_data_param { source: 'list.txt' batch_size: %d } }\n")


def draw(*shape, least=-2, most=2):
    return RANDOM.uniform(least, most, shape).astype("f4")


def store(path, layers):
    """A model of Caffe's HDF5 form: {layer: blobs}."""
    with h5py.File(path, "w") as f:
        for layer, blobs in layers.items():
            for number, values in enumerate(blobs):
                f["data/%s/%d" % (layer, number)] = values
    return path


def stored(path):
    with h5py.File(path) as f:
        return {layer: [f["data"][layer][number][()] for number in sorted(f["data"][layer])] for layer in f["data"]}


def data(**tops):
    """The data layer of such tops."""
    with h5py.File("data.h5", "w") as f:
        for name, values in tops.items():
            f[name] = values
    write("list.txt", "data.h5\n")
    return DATA % (" ".join("top: '%s'" % name for name in tops), len(next(iter(tops.values()))))


def rewritten(net, models=None):
    """Rewrites the net and its model into new.prototxt and new.h5."""
    write("old.prototxt", net)
    options = ["--weights=" + store("old.h5", models), "--out=new.h5"] if models else []
    return tool("old.prototxt", "new.prototxt", "--force", *options)


def extract(blob, **weights):
    model = weights.get("weights", "new.h5")
    program("extract", "--model=new.prototxt", "--weights=" + model, "--blobs=" + blob, "--threads=1", "--math=fp32", "--force", "blobs.h5")
    with h5py.File("blobs.h5") as f:
        return f[blob][()]


def train(lr):
    """The loss of one iteration on new.prototxt, and the model behind it."""
    write("solver.prototxt", "net: 'new.prototxt' base_lr: %g lr_policy: 'fixed' momentum: 0 max_iter: 1 display: 1 snapshot_prefix: 't'\n"
          "snapshot_format: HDF5 average_loss: 1\n" % lr)
    said = program("train", "--solver=solver.prototxt", "--weights=new.h5", "--threads=1", "--math=fp32")
    return float(re.findall(r"Loss of the last iteration ([0-9.e+-]+)", said)[0]), stored("t_iter_1.caffemodel.h5")


def channels(values):
    return np.reshape(values, (1, -1, 1, 1)).astype(float)


def normalize(x, mean, variance, eps, slope, bias):
    return channels(slope) * (x - channels(mean)) / np.sqrt(channels(variance) + eps) + channels(bias)


def loss_of(y, label):
    return ((y - label) ** 2).sum() / 2 / len(y)


LOSS = "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' }\n"
near = {"rtol": 1e-5, "atol": 1e-5}


def test_pspnet_by_running_statistics():
    x = draw(4, 3, 5, 6)
    slope, bias, mean, variance = draw(3), draw(3), draw(3), draw(3, least=0.001, most=2)
    for shape in (1, 3), (1, 3, 1, 1), (3,):
        for top, eps in ("y", 0.01), ("x", None):
            net = data(x=x) + (BN % ("momentum: 0.95" + (" eps: %g" % eps if eps else ""))).replace("'y'", "'%s'" % top)
            said = rewritten(net, {"bn": [values.reshape(shape) for values in (slope, bias, mean, variance)], "other": [draw(2)]})
            assert said == "new.prototxt: 1 of type BN became BatchNorm and Scale\nnew.h5: weights of 1 layers were rewritten\n", said
            np.testing.assert_allclose(extract(top), normalize(x, mean, variance, eps or 1e-5, slope, bias), **near)
    assert sorted(stored("new.h5")) == ["bn", "bn_scale", "other"]


def test_pspnet_goes_on_averaging():
    x, t = draw(8, 3, 4, 4), draw(8, 3, 4, 4)
    slope, bias, mean, variance = draw(3), draw(3), draw(3), draw(3, least=0.1)
    variance = abs(variance)
    rewritten(data(x=x, t=t) + BN % "momentum: 0.9" + LOSS, {"bn": [slope, bias, mean, variance]})
    loss, after = train(1e-3)
    found_mean, found_variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    np.testing.assert_allclose(loss, loss_of(normalize(x, found_mean, found_variance, 1e-5, slope, bias), t), rtol=1e-3)
    weight = after["bn"][2]
    np.testing.assert_allclose(after["bn"][0] / weight, 0.9 * mean + 0.1 * found_mean, **near)
    np.testing.assert_allclose(after["bn"][1] / weight, 0.9 * variance + 0.1 * found_variance * 128 / 127, **near)  # Caffe's is unbiased
    assert (after["bn_scale"][0] != slope).all() and (after["bn_scale"][1] != bias).all()


def test_frozen_pspnet_does_not_learn():
    x, t = draw(8, 3, 4, 4), draw(8, 3, 4, 4)
    slope, bias, mean, variance = draw(3), draw(3), draw(3), draw(3, least=0.1, most=2)
    rewritten(data(x=x, t=t) + "layer { name: 'ip' type: 'Bias' bottom: 'x' top: 'x' }\n" +
              (BN % "frozen: true").replace("bn_param", "param { lr_mult: 1 } param { name: 's' lr_mult: 2 } bn_param") + LOSS,
              {"bn": [slope, bias, mean, variance], "ip": [np.zeros(3, "f4")]})
    loss, after = train(1e-3)
    np.testing.assert_allclose(loss, loss_of(normalize(x, mean, variance, 1e-5, slope, bias), t), rtol=1e-3)
    assert (after["bn_scale"][0] == slope).all() and (after["bn_scale"][1] == bias).all() and (after["ip"][0] != 0).all()
    assert 'name: \'s\'\n    lr_mult: 0' in read("new.prototxt")


def test_segnet():
    x, t = 1e-4 * draw(8, 3, 4, 4), draw(8, 3, 4, 4)  # variances at which the eps of 1e-9 is seen
    scale, shift = draw(3), draw(3)
    blobs = {"bn": [scale.reshape(1, 3, 1, 1), shift.reshape(1, 3, 1, 1)]}
    said = rewritten(data(x=x, t=t) + BN % "scale_filler { value: 1 } shift_filler { value: 0.001 }" + LOSS, blobs)
    assert "1 of type BN became BatchNorm and Scale, which test by each batch's statistics" in said, said
    expected = normalize(x, x.mean((0, 2, 3)), x.var((0, 2, 3)), 1e-9, scale, shift)
    np.testing.assert_allclose(extract("y"), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(train(1e-3)[0], loss_of(expected, t), rtol=1e-3)
    assert "value: 0.001" in read("new.prototxt")
    for mode in "INFERENCE", "1":
        said = rewritten(data(x=x) + BN % ("bn_mode: " + mode), blobs)
        assert "1 of type BN became Scale\n" in said and list(stored("new.h5")) == ["bn"], said
        np.testing.assert_allclose(extract("y"), channels(scale) * x + channels(shift), **near)


def test_nvcaffe():
    x = draw(4, 3, 5, 6)
    scale, bias, mean, variance, one = draw(3), draw(3), draw(3), draw(3, least=1e-6, most=1e-5), np.ones(1, "f4")
    net = data(x=x) + "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { %s } }\n"
    expected = normalize(x, mean, variance, 1e-5, scale, bias)
    for settings, blobs in (("scale_bias: true eps: 1e-9", [mean, variance, one, scale, bias]),
                            ("scale_filler { value: 1 } engine: CUDNN", [scale, bias, mean, variance, 0 * one]),
                            ("bias_filler { value: 0 } moving_average_fraction: 0.9", [3 * mean, 3 * variance, 3 * one, scale, bias])):
        said = rewritten(net % settings, {"bn": blobs})
        assert "1 of type BatchNorm became BatchNorm and Scale\n" in said, said
        np.testing.assert_allclose(extract("x"), expected, rtol=1e-4, atol=1e-3)
    write("old.prototxt", net % "scale_bias: false")
    refuses("old.prototxt: nothing to rewrite", "old.prototxt", "o.prototxt")


def test_axpy():
    for shape in (4, 3), (4, 3, 1, 1):
        a, x, z = draw(*shape), draw(4, 3, 5, 6), draw(4, 3, 5, 6)
        said = rewritten(data(a=a, x=x, z=z) + "layer { name: 'se' type: 'Axpy' bottom: 'a' bottom: 'x' bottom: 'z' top: 'y' }\n")
        assert said == "new.prototxt: 1 of type Axpy became Scale and Eltwise\n", said
        np.testing.assert_allclose(extract("y", weights=store("none.h5", {"none": [a]})), a.reshape(4, 3, 1, 1) * x + z, **near)
    write("old.prototxt", read("old.prototxt") + "layer { name: 'se_scale' type: 'ReLU' bottom: 'y' top: 'y' }\n")
    refuses("layer 'se' (Axpy): 'se_scale' is taken by another layer or blob; rename that", "old.prototxt", "o.prototxt")


def convolve(x, kernel, bias, stride, pad):
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    sizes = [(x.shape[2 + i] - kernel.shape[2 + i]) // stride[i] + 1 for i in range(3)]
    y = np.zeros((len(x), len(kernel), *sizes)) + bias.reshape(1, -1, 1, 1, 1)
    for place in np.ndindex(*kernel.shape[2:]):
        part = x[(slice(None), slice(None), *(slice(p, p + s * (n - 1) + 1, s) for p, s, n in zip(place, stride, sizes)))]
        y += np.einsum("oc,ncdhw->nodhw", kernel[(slice(None), slice(None), *place)], part)
    return y


def shapes():
    layers = json.loads(program("summary", "--model=new.prototxt", "--json"))["layers"]
    return {layer["name"]: layer["tops"][0]["shape"] for layer in layers}


def test_nd_layers():
    x, kernel, bias = draw(2, 3, 5, 7, 8), draw(4, 3, 1, 2, 3), draw(4)
    net = data(x=x) + """
        layer { name: 'c' type: 'NdConvolution' bottom: 'x' top: 'c' param { lr_mult: 3 } convolution_param {
            num_output: 4 kernel_shape { dim: 1 dim: 2 dim: 3 } stride_shape { dim: [1, 2, 1] } pad_shape { dim: 0 dim: 1 dim: 2 } } }
        layer { name: 'p' type: 'NdPooling' bottom: 'c' top: 'p' pooling_param { pool: MAX
            kernel_shape { dim: 3 dim: 2 dim: 1 } stride_shape { dim: 2 dim: 2 dim: 1 } } }
        layer { name: 'all' type: 'NdPooling' bottom: 'p' top: 'all' pooling_param { pool: AVE global_pooling: true stride_shape { dim: 1 dim: 1 dim: 1 } } }
        """
    said = rewritten(net, {"c": [kernel, bias.reshape(1, 1, 1, 1, 4)]})
    assert "1 of type NdConvolution became Convolution\nnew.prototxt: 2 of type NdPooling became Pooling\n" in said, said
    found = shapes()
    assert (found["c"], found["p"], found["all"]) == ([2, 4, 5, 4, 10], [2, 4, 2, 2, 10], [2, 4, 1, 1, 1]), found
    np.testing.assert_allclose(extract("c"), convolve(x, kernel, bias, (1, 2, 1), (0, 1, 2)), rtol=1e-4, atol=1e-4)
    write("old.prototxt", net)
    refuses("old.h5: layer 'c' (NdConvolution) has weights of shape 4x3x6; expected 4xCHANNELSx1x2x3", "old.prototxt", "o.prototxt",
            "--weights=" + store("old.h5", {"c": [kernel.reshape(4, 3, 6), bias]}), "--out=o.h5")


def test_c3d_in_old_form():
    x, kernel, bias = draw(2, 3, 6, 8, 8), draw(4, 3, 3, 2, 2), draw(4)
    said = rewritten("""
        layers { name: "data" type: HDF5_DATA top: "x" hdf5_data_param { source: "list.txt" batch_size: 2 } }
        layers { name: "c" type: CONVOLUTION3D bottom: "x" top: "c" blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0
            convolution_param { num_output: 4 kernel_size: 2 kernel_depth: 3 stride: 2 temporal_pad: 1 filter_group: 2 } }
        layers { name: "r" type: RELU bottom: "c" top: "r" }
        layers { name: "p" type: POOLING3D bottom: "r" top: "p" pooling_param { kernel_size: 2 kernel_depth: 1 stride: 2 } }
        layers { name: "fc" type: INNER_PRODUCT bottom: "p" top: "fc" param: "w" inner_product_param { num_output: 2 } include: { phase: TEST } }
        """, {"c": [kernel, bias], "fc": [draw(2, 96), draw(2)]})
    assert "1 of type Convolution3D became Convolution\n" in said and "1 of type Pooling3D became Pooling\n" in said, said
    data(x=x)
    found = shapes()
    assert (found["c"], found["p"]) == ([2, 4, 6, 4, 4], [2, 4, 6, 2, 2]), found
    np.testing.assert_allclose(extract("r"), np.maximum(convolve(x, kernel, bias, (1, 2, 2), (1, 0, 0)), 0), rtol=1e-4, atol=1e-4)
    text = " ".join(read("new.prototxt").split())
    for part in ("param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }", 'type: "InnerProduct"', 'param { name: "w" }',
                 "pooling_param { kernel_size: 1 kernel_size: 2 kernel_size: 2 stride: 1 stride: 2 stride: 2 pad: 0 pad: 0 pad: 0 }"):
        assert part in text, (part, text)


def test_names_of_forks_in_old_form():
    net = """
        layers { name: "data" type: DUMMY_DATA top: "x" top: "small" dummy_data_param { shape { dim: 1 dim: 2 dim: 8 dim: 8 } shape { dim: 1 dim: 2 dim: 3 dim: 4 } } }
        layers { name: "crop" type: CROP bottom: "x" bottom: "small" top: "cropped" %s }
        layers { name: "interp" type: INTERP bottom: "cropped" top: "y" interp_param { zoom_factor: 2 } }
        layers { name: "loss" type: %s bottom: "y" bottom: "x" top: "l" }
        """
    said = rewritten(net % ("crop_param { axis: 2 offset: 1 }", "SIGMOID"))
    assert "1 of type CROP became Crop\nnew.prototxt: 1 of type INTERP became Interp\n" in said, said
    text = read("new.prototxt").replace('bottom: "y"\n  bottom: "x"', 'bottom: "y"')
    write("new.prototxt", text)
    assert shapes()["interp"] == [1, 2, 5, 7] and 'type: "Sigmoid"' in text
    rewritten(net % ("crop_param { offset: 1 }", "DENSE_IMAGE_THING"))
    assert 'type: "DenseImageThing"' in read("new.prototxt")
    write("old.prototxt", net % ("", "SIGMOID"))
    refuses("old.prototxt:3: layer 'crop' (Crop): the fork finds its offset", "old.prototxt", "o.prototxt")


def test_hole_is_dilation():
    for net in ("""
            layers { name: "data" type: HDF5_DATA top: "x" hdf5_data_param { source: "list.txt" batch_size: 2 } }
            layers { name: "c" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 1 strict_dim: false
                convolution_param { num_output: 4 kernel_size: 3 stride: 2 %s } }""",
                "layer { name: 'data' type: 'HDF5Data' top: 'x' hdf5_data_param { source: 'list.txt' batch_size: 2 } }"
                "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: 4 kernel_size: 3 stride: 2 %s } }"):
        for fields, (high, wide), pad in (("hole: 2 pad: 3", (2, 2), (0, 3, 3)), ("pad_w: 4 pad_h: 0 hole_w: 4 hole_h: 1", (1, 4), (0, 0, 4))):
            x, kernel, bias = draw(2, 3, 11, 12), draw(4, 3, 3, 3), draw(4)
            data(x=x)
            said = rewritten(net % fields)
            assert "new.prototxt: 1 of type Convolution became Convolution with dilation\n" in said, said
            assert ("1 strict_dim were left out" in said) == ("strict_dim" in net), said
            spread = np.zeros((4, 3, 1, 2 * high + 1, 2 * wide + 1), "f4")
            spread[:, :, 0, ::high, ::wide] = kernel
            expected = convolve(x[:, :, None], spread, bias, (1, 2, 2), pad)[:, :, 0]
            np.testing.assert_allclose(extract("c", weights=store("c.h5", {"c": [kernel, bias]})), expected, rtol=1e-4, atol=1e-4)


def softmax(scores):
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_class_weights():
    for classes, normalize in (3, "true"), (200, "false"):  # 200: lengths of several bytes
        x, kernel, weights = draw(2, 3, 4, 5), draw(classes, 3, 1, 1), draw(classes, least=0.1, most=5)
        label = RANDOM.randint(0, classes + 1, (2, 1, 4, 5))
        label[0, 0, 0] = classes - 1, 0, 1, classes, 2
        write("old.prototxt", data(x=x, label=label.astype("f4")) + """
            layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' param { lr_mult: 1 }
                convolution_param { num_output: %d kernel_size: 1 bias_term: false } }
            layer { name: 'acc' type: 'Accuracy' bottom: 'c' bottom: 'label' top: 'acc' top: 'each' }
            layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' top: 'loss' loss_weight: 2 softmax_param { axis: 1 }
                loss_param: { weight_by_label_freqs: true ignore_label: %d normalize: %s class_weighting: [%s] } }
            """ % (classes, classes, normalize, ", ".join(map(str, weights))))
        said = tool("old.prototxt", "new.prototxt", "--force")
        assert "1 of type SoftmaxWithLoss became InfogainLoss\n" in said, said
        assert "new_weights.binaryproto: the weights of %d classes\n" % classes in said, said
        assert "1 of type Accuracy became Accuracy that skips the loss's ignore_label, which the fork counts as wrong\n" in said, said
        store("new.h5", {"c": [kernel]})
        scores = np.einsum("oc,nchw->nohw", kernel[:, :, 0, 0], x).astype(float)
        n, h, w = np.nonzero(label[:, 0] < classes)
        right = label[n, 0, h, w]
        p, divisor = softmax(scores), len(right) if normalize == "true" else 2
        expected = 2 * (weights[right] * -np.log(p[n, right, h, w])).sum() / divisor
        gradient = np.zeros_like(p)
        gradient[n, :, h, w] = weights[right, None] * (p[n, :, h, w] - np.eye(classes)[right])
        loss, model = train(0.5)
        np.testing.assert_allclose(loss, expected, rtol=1e-4)
        step = np.einsum("nohw,nchw->oc", gradient, x) / divisor
        np.testing.assert_allclose(model["c"][0][:, :, 0, 0], kernel[:, :, 0, 0] - step, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(extract("acc"), (scores.argmax(1)[n, h, w] == right).mean(), rtol=1e-4)
    os.rename("new.prototxt", "kept.prototxt")
    refuses("new_weights.binaryproto exists already; --force replaces it", "old.prototxt", "new.prototxt")


def test_files_of_class_weights():
    loss = "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'c' bottom: 'label' top: 'l' loss_param { weight_by_label_freqs: %s ignore_label: 0 class_weighting: %d } }"
    said = rewritten("".join(loss % one for one in (("true", 2), ("1", 3), ("true", 2), ("false", 4))) +
                     "layer { name: 'a' type: 'Accuracy' bottom: 'c' bottom: 'label' top: 'a' }")
    assert "Accuracy" not in said, said
    assert "3 of type SoftmaxWithLoss became InfogainLoss\nnew.prototxt: 1 of type SoftmaxWithLoss became Caffe's SoftmaxWithLoss\n" in said
    assert re.findall('source: "(.*)"', read("new.prototxt")) == ["new_%s.binaryproto" % name for name in ("weights", "weights2", "weights")]
    for name, value in ("weights", 2), ("weights2", 3):
        with open("new_%s.binaryproto" % name, "rb") as f:
            assert np.frombuffer(f.read()[-4:], "f4") == value
    os.mkdir("of net")
    tool("old.prototxt", "of net/new.prototxt")
    assert 'source: "of net/new_weights.binaryproto"' in read("of net/new.prototxt") and os.path.exists("of net/new_weights.binaryproto")
    assert "class_weighting" not in read("new.prototxt") and "weight_by_label_freqs" not in read("new.prototxt")


def test_deeplab_in_old_form():
    scores, label = draw(2, 4, 3, 5), RANDOM.randint(0, 4, (2, 1, 3, 5))
    label[:, :, 0, :2] = 255
    data(scores=scores, label=label.astype("f4"))
    said = rewritten("""
        layers { name: "data" type: HDF5_DATA top: "scores" top: "label" hdf5_data_param { source: "list.txt" batch_size: 2 } }
        layers { name: "loss" type: SOFTMAX_LOSS bottom: "scores" bottom: "label" top: "loss" softmaxloss_param { ignore_label: 255 } }
        layers { name: "acc" type: SEG_ACCURACY bottom: "scores" bottom: "label" top: "acc" seg_accuracy_param { ignore_label: 255 reset: false } }
        layers { name: "mat" type: MAT_WRITE bottom: "scores" mat_write_param { prefix: "out/" } include: { phase: TEST } }
        """)
    for line in ("SoftmaxWithLoss became Caffe's SoftmaxWithLoss", "SegAccuracy became Accuracy: of its three numbers the first",
                 "MatWrite became nothing: it only writes files, as 'poseidon extract' does"):
        assert "new.prototxt: 1 of type " + line in said, (line, said)
    n, h, w = np.nonzero(label[:, 0] < 255)
    right = label[n, 0, h, w]
    none = store("none.h5", {"none": [scores]})
    np.testing.assert_allclose(extract("acc", weights=none), (scores.argmax(1)[n, h, w] == right).mean(), rtol=1e-4)
    np.testing.assert_allclose(extract("loss", weights=none), -np.log(softmax(scores)[n, right, h, w]).mean(), rtol=1e-4)


def test_all_else_survives():
    rewritten("""name: 'a' 'b' ; state < phase: TEST, >  # gone
        strange { of { a: [fork, { x: -1e-3 }] } s: "it's \\"\\303\\244\\"" t: '"' }
        layer { type: "BN" name: "bn" top: "x" bottom: "x" include { phase: TRAIN } loss_weight: 2 odd: 1
            param { lr_mult: 1 name: "s" } param { lr_mult: 2 } param { lr_mult: 0 } param { lr_mult: 0 } bn_param { momentum: 0.5 bias_filler { value: 7 } slope_filler { type: 'gaussian' std: 2 } } }
        """)
    text = " ".join(read("new.prototxt").split())
    assert text == ("name: 'a' 'b' state { phase: TEST } strange { of { a: fork a { x: -1e-3 } } s: \"it's \\\"\\303\\244\\\"\" t: '\"' } "
                    'layer { name: "bn" type: "BatchNorm" bottom: "x" top: "x" batch_norm_param { moving_average_fraction: 0.5 } '
                    'include { phase: TRAIN } odd: 1 } '
                    'layer { name: "bn_scale" type: "Scale" bottom: "x" top: "x" param { lr_mult: 1 name: "s" } param { lr_mult: 2 } '
                    "loss_weight: 2 scale_param { bias_term: true filler { type: 'gaussian' std: 2 } bias_filler { value: 7 } } "
                    "include { phase: TRAIN } }"), text


def test_refused_nets():
    conv = "layer { name: 'c' type: '%s' bottom: 'x' top: 'y' %s_param { %s } }"
    axpy = "layer { name: 'a' type: 'Axpy' bottom: 'x' bottom: 'y' %s }"
    for net, says in (
            ("", "bad.prototxt: nothing to rewrite; expected layers of type BN, Axpy,"),
            ("layer { name: 'c' type: 'ReLU' }", "nothing to rewrite"),
            ("layer: 3", "a layer is a value; expected a message"),
            ("layer {\n  name: 'a'\n", "bad.prototxt:2: expected a field's name or }, found the end of the file"),
            ("layer { } }", "bad.prototxt:1: expected a field's name, found '}'"),
            ("layer {\n  name 'a' }", "bad.prototxt:2: expected ':' or '{' behind name, found 'a'"),
            ("a: { b: }", "expected a value, found '}'"),
            ("a: [1 2]", "expected ',' or ']', found '2'"),
            ("a: 'open\n'", "bad.prototxt:1: unexpected \"'open\"; expected a net in text form"),
            ("\n\n\x00\x01", "bad.prototxt:3: unexpected '\\x00\\x01'"),
            ("a { " * 5000, "bad.prototxt:1: expected at most 100 messages within each other"),
            ("a: 1\n" * 4000000, "bad.prototxt: more than 16 MB"),
            (BN % "scale_filler { } eps: 1", "bad.prototxt:1: layer 'bn' (BN): cannot tell the fork; expected bn_param with bn_mode"),
            (BN % "", "cannot tell the fork"),
            (BN % "frozen: true icnet: true", "bn_param has icnet; expected fields of SegNet's or PSPNet's fork"),
            (BN % "momentum: high", "momentum: expected a number, found high"),
            ((BN % "bn_mode: LEARN").replace("top: 'y'", "top: 'y' top: 'mean'"), "layer 'bn' (BN): has 2 tops; expected 1"),
            ((BN % "frozen: true").replace("bn_param { frozen: true }", "bn_param: 3"), "bn_param is a value; expected a message"),
            ((BN % "frozen: true").replace("bn_param", "param: 3 bn_param"), "param is a value; expected a message"),
            ("layers { type { } } layers { }", "nothing to rewrite"),
            ((BN % "frozen: true").replace("bn_param", "param { } param { } param { name: 'm' } bn_param"), "shares its running mean"),
            ("layer { name: 'n' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { scale_bias: true } param { name: 's' } }",
             "layer 'n' (BatchNorm): shares parameters by name"),
            ((BN % "frozen: true") * 2 + "layer { name: 'bn_scale' type: 'ReLU' }", "'bn_scale' is taken by another layer"),
            (axpy % "top: 'z'", "layer 'a' (Axpy): has 2 bottoms; expected 3"),
            (axpy % "bottom: 'z' top: 'z'", "its top is one of its bottoms"),
            (axpy % "bottom: 'z' top: 'u' propagate_down: true", "propagate_down is not rewritten"),
            (conv % ("NdConvolution", "convolution", "num_output: 2"), "convolution_param: expected numbers, and at least kernel_shape"),
            (conv % ("NdPooling", "pooling", "kernel_shape { dim: 2 dim: 2 } stride_shape { dim: 2 }"), "stride_shape has 1 numbers; expected 2"),
            (conv % ("Convolution3D", "convolution", "kernel_size: 2"), "expected numbers, and at least kernel_size and kernel_depth"),
            (conv % ("Pooling3D", "pooling", "kernel_size: 2 kernel_depth: -1"), "expected numbers"),
            (conv % ("Convolution", "convolution", "hole_h: 2"), "layer 'c' (Convolution): has hole_h; expected hole, or hole_h and hole_w"),
            (conv % ("Convolution", "convolution", "hole: 2 dilation: 1"), "has hole; expected hole, or hole_h and hole_w, and no dilation"),
            (conv % ("Convolution", "convolution", "hole: wide"), "hole: expected a number, found wide"),
            (conv % ("SoftmaxWithLoss", "softmaxloss", "weight_source: 'w.txt'"), "weight_source: the fork divides by the sum of the weights"),
            (conv % ("SoftmaxWithLoss", "softmaxloss", "ignore_label: [0, 255]"), "has 2 ignore_label; expected one"),
            (conv % ("SegAccuracy", "seg_accuracy", "ignore_label: [0, 255]"), "layer 'c' (SegAccuracy): has 2 ignore_label; expected one"),
            (conv % ("SoftmaxWithLoss", "loss", "weight_by_label_freqs: true"), "has 0 class_weighting; expected 1 to 1024 numbers"),
            (conv % ("SoftmaxWithLoss", "loss", "weight_by_label_freqs: true class_weighting: 1e39"), "has 1 class_weighting; expected 1 to"),
            (conv % ("SoftmaxWithLoss", "loss", "weight_by_label_freqs: true class_weighting: nan"), "has 1 class_weighting; expected 1 to"),
            (conv % ("SoftmaxWithLoss", "loss", "weight_by_label_freqs: true class_weighting { }"), "class_weighting: expected a number, found a m")):
        write("bad.prototxt", net)
        refuses(says, "bad.prototxt", "o.prototxt")
    refuses("absent.prototxt: No such file", "absent.prototxt", "o.prototxt")
    refuses(". is a folder; expected a net", ".", "o.prototxt")


def test_refused_models_and_outputs():
    write("bn.prototxt", BN % "frozen: true")
    write("pool.prototxt", "layer { name: 'p' type: 'NdPooling' pooling_param { kernel_shape { dim: 2 } } }")
    write("conv.prototxt", "layer { name: 'c' type: 'Convolution3D' convolution_param { num_output: 2 kernel_size: 2 kernel_depth: 3 } }")
    four = [draw(3) for _ in range(4)]
    for net, layers, says in (
            ("bn", {"bn": four[:2]}, "bad.h5: layer 'bn' (BN) has 2 blobs; expected 4: slope, bias, mean, variance"),
            ("bn", {"bn": [*four[:3], draw(2)]}, "layer 'bn' (BN) has a variance of shape 2; expected 3 values"),
            ("bn", {"bn": [draw(2, 2)] * 4}, "has a slope of shape 2x2; expected 4 values"),
            ("bn", {"conv": four}, "bad.h5: none of its layers (conv, ...) is rewritten; expected bn, ..."),
            ("bn", {"bn": four, "bn_scale": four[:2]}, "has a layer 'bn_scale' already, which 'bn' would become"),
            ("conv", {"c": [draw(2, 3, 2, 2)]}, "layer 'c' (Convolution3D) has weights of shape 2x3x2x2; expected 2xCHANNELSx3x2x2"),
            ("pool", {"bn": four}, "have no weights: the new net takes this file as it is")):
        store("bad.h5", layers)
        refuses(says, net + ".prototxt", "o.prototxt", "--weights=bad.h5", "--out=o.h5")
    for name, content, says in (("w.caffemodel", "\n\3abc", "found a model in Caffe's binary form: 'poseidon convert weights"),
                                ("empty.h5", "", "found no HDF5 file"), ("text.h5", "text", "found no HDF5 file")):
        write(name, content)
        refuses(says, "bn.prototxt", "o.prototxt", "--weights=" + name, "--out=o.h5")
    store("good.h5", {"bn": four})
    with open("good.h5", "rb") as f:
        whole = f.read()
    with open("cut.h5", "wb") as f:
        f.write(whole[:-8])
    refuses("cut.h5: ", "bn.prototxt", "o.prototxt", "--weights=cut.h5", "--out=o.h5")
    refuses("absent.h5: No such file", "bn.prototxt", "o.prototxt", "--weights=absent.h5", "--out=o.h5")
    refuses("expected --weights and --out together", "bn.prototxt", "o.prototxt", "--weights=good.h5")
    refuses("good.h5 is one of the inputs", "bn.prototxt", "o.prototxt", "--weights=good.h5", "--out=good.h5")
    refuses("bn.prototxt is one of the inputs", "bn.prototxt", "bn.prototxt", "--force")
    refuses("pool.prototxt exists already; --force replaces it", "bn.prototxt", "pool.prototxt")
    refuses("bad.h5 exists already; --force replaces it", "bn.prototxt", "o.prototxt", "--weights=good.h5", "--out=bad.h5")
    refuses("'o.txt': expected a name that ends in .prototxt", "bn.prototxt", "o.txt")
    write("two.prototxt", BN % "frozen: true" + (BN % "frozen: true").replace("'bn'", "'more'"))
    said = tool("two.prototxt", "o.prototxt", "--weights=good.h5", "--out=o.h5")
    assert "weights of 1 layers were rewritten; good.h5 has none for more\n" in said, said


def test_full_disk_leaves_nothing():
    store("big.h5", {"bn": [draw(50000) for _ in range(4)]})
    before = sorted(os.listdir("."))
    done = subprocess.run(["bash", "-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "bash", sys.executable, TOOL, "bn.prototxt", "full.prototxt",
                           "--weights=big.h5", "--out=full.h5"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == "from_forks.py: full.h5 cannot be written: File too large\n", done.stderr
    assert sorted(os.listdir(".")) == before


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    for test in (test_pspnet_by_running_statistics, test_pspnet_goes_on_averaging, test_frozen_pspnet_does_not_learn, test_segnet, test_nvcaffe,
                 test_axpy, test_nd_layers, test_c3d_in_old_form, test_names_of_forks_in_old_form,
                 test_hole_is_dilation, test_class_weights, test_files_of_class_weights, test_deeplab_in_old_form, test_all_else_survives, test_refused_nets,
                 test_refused_models_and_outputs, test_full_disk_leaves_nothing):
        test()
    os.chdir("/")
