#!/usr/bin/env python3
"""What tools/to_onnx.py writes, seen by onnx's checker and run by onnxruntime: the values of `poseidon extract`.

Needs h5py, onnx and onnxruntime, and for SqueezeNet POSEIDON_DATA (published weights, photographs); skips without.
"""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests", "tools"))
from onnx_common import data_layer, export, extract, h5py, np, poseidon, random_weights, run, same, write_inputs  # noqa: E402
import onnx_layers  # noqa: E402

ROOT, DATA = os.environ["abs_top_srcdir"], os.environ.get("POSEIDON_DATA")


def test_all_layers():
    text, tops = onnx_layers.net()
    with open("layers.prototxt", "w") as f:
        f.write(data_layer(3, ("data", "label")) + text +
                'layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" }\n')
    draw = np.random.default_rng(1).standard_normal
    data = draw((3, 8, 13, 11)).astype(np.float32)
    write_inputs(data=data, label=draw((3, 7)))
    weights = random_weights("layers.prototxt")
    session, names = export("layers.prototxt", weights)
    taken = set(re.findall('bottom: "([^"]*)"', text))
    assert set(names) == {top for top in tops if top not in taken or top == "norm_scaled"}, names
    # one sample was laid out, and a batch of three is taken
    same("every layer", extract("layers.prototxt", weights, names), run(session, data=data))


def test_in_place_on_data():
    """Layers that work in place on what the data layer gives; a second blob is called as one of their values is."""
    with open("place.prototxt", "w") as f:
        f.write(data_layer(3, ("data",)) + """
            layer { name: "bn" type: "BatchNorm" bottom: "data" top: "data" }
            layer { name: "s" type: "Scale" bottom: "data" top: "data" scale_param { bias_term: true } }
            layer { name: "r" type: "ReLU" bottom: "data" top: "data" relu_param { negative_slope: 0.1 } }
            layer { name: "ip" type: "InnerProduct" bottom: "data" top: "data/s" inner_product_param {
                num_output: 5 weight_filler { type: "xavier" } } }
            layer { name: "p" type: "Power" bottom: "data/s" top: "data/s" power_param { scale: 2 } }
            layer { name: "e" type: "ELU" bottom: "data" top: "e" }
            layer { name: "l" type: "EuclideanLoss" bottom: "e" bottom: "data" top: "l" }""")
    data = np.random.default_rng(2).standard_normal((3, 4, 5, 6)).astype(np.float32)
    write_inputs(data=data)
    weights = random_weights("place.prototxt")
    session, names = export("place.prototxt", weights)
    assert [i.name for i in session.get_inputs()] == ["data"] and set(names) == {"e", "data/s"}, names
    same("layers in place on the data", extract("place.prototxt", weights, names), run(session, data=data))


def test_preprocessing():
    """LeNet's own data layer, and one with a mean image and a crop: pixels go in."""
    with open(ROOT + "/models/lenet/train_val.prototxt") as f:
        lenet = f.read().replace('"data/', '"%s/data/' % ROOT)
    with h5py.File(ROOT + "/data/fashion-mnist-test.h5") as f:
        pixels = f["data"][:100].astype(np.float32)
    with h5py.File("mean.h5", "w") as f:
        f["mean"] = pixels.mean(0)
    cropped = re.sub(r"transform_param \{[^}]*\}",
                     'transform_param { scale: 0.02 crop_size: 20 mean_file: "mean.h5" }', lenet)
    for name, text, inputs in (("lenet", lenet, pixels), ("cropped", cropped, pixels[:, :, 4:24, 4:24])):
        with open(name + ".prototxt", "w") as f:
            f.write(text)
        weights = random_weights(name + ".prototxt")
        session, _ = export(name + ".prototxt", weights, "--preprocess")
        with open(name + "_prob.prototxt", "w") as f:
            f.write(text + 'layer { name: "p" type: "Softmax" bottom: "ip2" top: "prob" }\n')
        ours = extract(name + "_prob.prototxt", weights, ["prob"])
        same(name, ours, run(session, data=inputs))


def photographs(net, to, files, classes):
    """The net behind a layer that reads the photographs, with these classes as labels, and a layer that compares them."""
    with open("photographs.txt", "w") as f:
        f.writelines("%s %d\n" % pair for pair in zip(files, classes))
    with open(net) as f:
        text = re.sub(r'layer \{\s*name: "data".*?\n\}\n', "", f.read(), count=1, flags=re.S)
    with open(to, "w") as f:
        f.write('layer { name: "photographs" type: "ImageData" top: "data" top: "label" image_data_param { source: '
                '"photographs.txt" batch_size: %d new_height: 227 new_width: 227 } transform_param { mean_value: 104 '
                'mean_value: 117 mean_value: 123 } }\n%s'
                'layer { name: "accuracy" type: "Accuracy" bottom: "pool_final" bottom: "label" top: "accuracy" }\n' % (len(files), text))


def test_squeezenet():
    """Published weights and 60 photographs: the same scores, and extract, classify, test and onnxruntime see the same classes."""
    net, weights = ROOT + "/models/squeezenet_v1.0/firenet.prototxt", DATA + "/caffe-weights/squeezenet_v1.0.caffemodel"
    folder = DATA + "/imagenet-samples/"
    files = [folder + f for f in sorted(os.listdir(folder)) if f.endswith(".JPEG")][:60]
    photographs(net, "squeezenet.prototxt", files, [0] * 60)
    ours = extract("squeezenet.prototxt", weights, ["data", "prob"])
    session, _ = export("squeezenet.prototxt", weights)
    theirs = run(session, data=ours.pop("data"))
    same("SqueezeNet", ours, theirs)
    five = [np.argsort(-scores["prob"].reshape(60, -1), 1)[:, :5] for scores in (ours, theirs)]
    assert (five[0] == five[1]).all(), five
    said = json.loads(poseidon("classify", "--model=" + net, "--weights=" + weights, "--mean=104,117,123", "--resize=227x227",
                               "--json", "--threads=1", *files))
    assert [[top["class"] for top in photo["top"]] for photo in said] == five[1].tolist()
    photographs(net, "squeezenet.prototxt", files, five[1][:, 0])
    said = json.loads(poseidon("test", "--model=squeezenet.prototxt", "--weights=" + weights, "--json", "--threads=1"))
    assert said["test"]["accuracy"] == 1, said
    print("SqueezeNet: 60 of 60 photographs have the same class in test, classify and onnxruntime")


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    test_all_layers()
    test_in_place_on_data()
    test_preprocessing()
    if DATA and os.path.exists(DATA + "/caffe-weights/squeezenet_v1.0.caffemodel"):
        test_squeezenet()
    else:
        print("SqueezeNet is left out: POSEIDON_DATA does not name a folder with caffe-weights")
    os.chdir("/")
