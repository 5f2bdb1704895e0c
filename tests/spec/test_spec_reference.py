#!/usr/bin/env python3
"""Trained weights through the program and through PyTorch: every layer's output must agree.

Needs POSEIDON_DATA (trained weights), protoc and PyTorch; skips without.
"""
import os
import re
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

ROOT, PROGRAM, DATA = os.environ["abs_top_srcdir"], os.environ["POSEIDON"], os.environ.get("POSEIDON_DATA")
torch.set_num_threads(1)


def weights(path):
    """{layer: [array, ...]} as protoc reads the file."""
    with open(path, "rb") as f:
        text = subprocess.run(["protoc", "-I" + ROOT + "/src/nn/spec", "--decode=caffe.NetParameter", "caffe.proto"],
                              stdin=f, capture_output=True, check=True).stdout.decode()
    found = {}
    for block in re.split(r"^layers? \{$", text, flags=re.M)[1:]:
        name = re.search(r'^  name: "(.*)"$', block, flags=re.M).group(1)
        for blob in re.split(r"^  blobs \{$", block, flags=re.M)[1:]:
            blob = blob[:blob.index("\n  }\n") + 1]
            values = np.array([float(v) for v in re.findall(r"^    data: (.*)$", blob, flags=re.M)], np.float32)
            dims = [int(v) for v in re.findall(r"^      dim: (.*)$", blob, flags=re.M)]
            found.setdefault(name, []).append(torch.from_numpy(values.reshape(dims)))
    return found


def squeezenet(x, w):
    """All blobs of firenet.prototxt, as they are when the pass is over (ReLU works in place)."""
    out = {}

    def conv(name, x, **more):
        out[name] = F.relu(F.conv2d(x, *w[name], **more))
        return out[name]

    def pool(name, x):
        out[name] = F.max_pool2d(x, 3, 2, ceil_mode=True)
        return out[name]
    x = pool("pool1", conv("conv1", x, stride=2))
    for n in range(2, 10):
        f = "fire%d/" % n
        x = conv(f + "conv1x1_1", x)
        x = torch.cat((conv(f + "conv1x1_2", x), conv(f + "conv3x3_2", x, padding=1)), 1)
        out[f + "concat"] = x
        if n in (4, 8):
            x = pool("pool%d" % n, x)
    out["pool_final"] = conv("conv_final", x).mean((2, 3), keepdim=True)
    out["prob"] = torch.softmax(out["pool_final"], 1)
    return out


def resnet20(x, w):
    out, count = {}, {}

    def number(kind):
        count[kind] = count.get(kind, 0) + 1
        return "%s%d" % (kind, count[kind])

    def conv(x, stride, relu=True):
        name = number("Convolution")
        x = F.conv2d(x, *w[name], stride=stride, padding=w[name][0].shape[2] // 2)
        mean, var, s = w[number("BatchNorm")]
        gamma, beta = w[number("Scale")]
        x = F.batch_norm(x, mean / s, var / s, gamma, beta, eps=1e-5)
        out[name] = F.relu(x) if relu else x
        return out[name]
    x = conv(x, 1)
    for block in range(9):
        grow = block in (3, 6)
        short = conv(x, 2, False) if grow else x
        x = F.relu(short + conv(conv(x, 2 if grow else 1), 1, False))
        out[number("Eltwise")] = x
    out["Pooling1"] = x.mean((2, 3), keepdim=True)
    out["InnerProduct1"] = F.linear(out["Pooling1"].flatten(1), *w["InnerProduct1"])
    return out


def compare(net, weight_file, reference, size, folder):
    rng = np.random.default_rng(1)
    x = (rng.random((2, 3, size, size), np.float32) * 255 - 110).astype(np.float32)
    with h5py.File(folder + "/x.h5", "w") as f:
        f["data"] = x
        f["label"] = np.zeros(2, np.float32)
    with open(folder + "/list", "w") as f:
        f.write(folder + "/x.h5\n")
    # the same net with our images in place of its first layers
    text = re.sub(r'layer \{\n  name: "[^"]*"\n  type: "(Data|Input)"\n.*?\n\}\n', "", net, flags=re.S)
    with open(folder + "/net.prototxt", "w") as f:
        f.write('layer { name: "x" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { source: "%s/list" '
                'batch_size: 2 } }\n%s' % (folder, text))
    with torch.no_grad():
        expected = reference(torch.from_numpy(x), weights(weight_file))
    subprocess.run([PROGRAM, "extract", "--force", "--model=" + folder + "/net.prototxt", "--weights=" + weight_file,
                    "--blobs=" + ",".join(expected), folder + "/out.h5"], check=True)
    worst = 0
    with h5py.File(folder + "/out.h5") as f:
        for name, value in expected.items():
            value, found = value.numpy(), f[name][()]
            error = np.abs(found.reshape(value.shape) - value).max() / max(1, np.abs(value).max())
            worst = max(worst, error)
            assert error < 1e-4, "%s: off by %g of its largest value" % (name, error)
    print("%d blobs, worst difference %.2g of a blob's largest value" % (len(expected), worst))


def read(path):
    with open(path) as f:
        return f.read()


def main():
    if not DATA or subprocess.run("protoc --version", shell=True, capture_output=True, check=False).returncode:
        print("skipped: POSEIDON_DATA is not set, or protoc is missing")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        compare(read(ROOT + "/models/squeezenet_v1.0/firenet.prototxt"),
                DATA + "/caffe-weights/squeezenet_v1.0.caffemodel", squeezenet, 227, folder)
        compare(read(ROOT + "/models/resnet20_cifar10/train_val.prototxt"),
                DATA + "/caffe-weights/resnet20_cifar10.caffemodel", resnet20, 32, folder)
    return 0


sys.exit(main())
