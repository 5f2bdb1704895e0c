#!/usr/bin/env python3
"""The shipped nets as ONNX, with weights by their fillers: onnxruntime's outputs are those of `poseidon extract`.

Needs h5py, onnx and onnxruntime; skips without. NETS in the environment names some of them.
"""
import os
import re
import sys
import tempfile

ROOT = os.environ["abs_top_srcdir"]
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
from onnx_common import data_layer, export, extract, np, random_weights, run, same, write_inputs  # noqa: E402

SIZES = {"alexnet": 227, "caffenet": 227, "googlenet": 224, "inception_v3": 299, "mobilenet_v1": 224, "nin": 227, "resnet50": 224,
         "segmentation": 96,
         "squeezenet_v1.1": 227, "vgg16": 224}
BATCH = 2


def without_data(text):
    """Its layers but for those that read images."""
    layers = re.findall(r"^layer \{.*?^\}\n|^layer \{.*\}\n", text, flags=re.M | re.S)
    kept = [layer for layer in layers if not re.search(r'type: "(Data|ImageData|ImageSegData)"', layer)]
    assert 0 < len(layers) - len(kept) <= 2, len(layers) - len(kept)
    return "".join(kept)


def net(name, size):
    draw = np.random.default_rng(5)
    images = draw.uniform(-120, 130, (BATCH, 3, size, size)).astype(np.float32)
    labels = (BATCH, 1, size, size) if name == "segmentation" else BATCH
    write_inputs(data=images, label=draw.integers(0, 10, labels))
    with open("%s/models/%s/train_val.prototxt" % (ROOT, name)) as f:
        text = data_layer(BATCH, ("data", "label")) + without_data(f.read())
    # what a softmax loss becomes, as blobs of their own
    losses = re.findall(r'name: "([^"]*)"\s+type: "SoftmaxWithLoss"\s+bottom: "([^"]*)"', text)
    probs = {("prob" if len(losses) == 1 else loss + "/prob"): bottom for loss, bottom in losses}
    with open("net.prototxt", "w") as f:
        f.write(text)
    with open("probs.prototxt", "w") as f:
        f.write(text + "".join('layer { name: "%s" type: "Softmax" bottom: "%s" top: "%s" include { phase: TEST } }\n'
                               % (prob, bottom, prob) for prob, bottom in probs.items()))
    weights = random_weights("net.prototxt")
    session, names = export("net.prototxt", weights)
    ours = extract("probs.prototxt", weights, [prob for prob in probs if prob in names])
    assert ours, names
    theirs = run(session, data=images)
    same(name, ours, theirs)
    for prob in ours:
        if ours[prob].ndim == 4:  # the class of each pixel; sums of nearly equal ones may fall either way
            pictures = [scores[prob].argmax(1) for scores in (ours, theirs)]
            assert (pictures[0] != pictures[1]).mean() < 1e-4, prob
            continue
        five = [np.argsort(-scores[prob].reshape(BATCH, -1), 1)[:, :5] for scores in (ours, theirs)]
        assert (five[0] == five[1]).all(), (prob, five)


for wanted in os.environ.get("NETS", " ".join(SIZES)).split():
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        net(wanted, SIZES[wanted])
        os.chdir("/")
