#!/usr/bin/env python3
"""tools/first_weights.py: the first weights of models/cifar10_fast, and the net that begins with them, on made-up images.

The judge computes in numpy alone. Skips without h5py.
"""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.environ["POSEIDON"]
ROOT = os.environ["abs_top_srcdir"]
TOOL = os.path.join(ROOT, "tools", "first_weights.py")
NET = os.path.join(ROOT, "models", "cifar10_fast", "train_val.prototxt")

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def tool(*arguments, status=0):
    said = run(sys.executable, TOOL, *arguments, "--poseidon=" + PROGRAM, status=status)
    assert said.count("\n") == 1, said
    return said


def refuses(says, *arguments):
    before = sorted(os.listdir("."))
    said = tool(*arguments, status=1)
    assert says in said, (says, said)
    assert sorted(os.listdir(".")) == before, "files are left"


def make_images(path, count, size, random):
    """Smooth images, as photographs are: neighbours are alike."""
    noise = random.rand(count, 3, size + 4, size + 4)
    smooth = sum(noise[:, :, i:i + size, j:j + size] for i in range(5) for j in range(5)) / 25
    with h5py.File(path, "w") as f:
        f["data"] = np.clip(128 + 400 * (smooth - 0.5), 0, 255).astype(np.uint8)
        f["label"] = (np.arange(count) % 10).astype(np.int32)


def test_first_convolution_whitens():
    tool(NET, "data/cifar10-train-pad2.h5", "first.caffemodel.h5")
    with h5py.File("data/cifar10-train-pad2.h5") as f, h5py.File("first.caffemodel.h5") as weights:
        x = (f["data"][:, :, 2:34, 2:34] - np.reshape([125.307, 122.95, 113.865], (3, 1, 1))) * 0.016
        kernel = weights["data/whiten/0"][()].astype(float)
    y = sum(np.einsum("oc,nchw->nohw", kernel[:, :, i, j], x[:, :, i:31 + i, j:31 + j]) for i in range(2) for j in range(2))
    y = y[:, :12].transpose(1, 0, 2, 3).reshape(12, -1)
    found = y @ y.T / y.shape[1]
    assert abs(found - np.diag(np.diag(found))).max() < 1e-3 and 0 < np.diag(found).min() < np.diag(found).max() < 1.001, found
    assert (kernel[12:] == -kernel[:12]).all()


def test_others_begin_as_identities():
    with h5py.File("first.caffemodel.h5") as weights:
        kernels = {name: weights["data/%s/0" % name][()] for name in weights["data"] if name != "whiten"}
    assert sorted(kernels) == ["conv%d" % n for n in range(1, 7)]
    for kernel in kernels.values():
        copies, inputs = min(kernel.shape[:2]), kernel.shape[1]
        expected = np.zeros_like(kernel[:copies])
        expected[range(copies), range(copies), 1, 1] = 1
        assert (kernel[:copies] == expected).all()
        if copies < len(kernel):
            bound = 1 / np.sqrt(9 * inputs)
            assert 0.98 * bound < abs(kernel[copies:]).max() <= bound * 1.0001
    tool(NET, "data/cifar10-train-pad2.h5", "again.caffemodel.h5")
    tool(NET, "data/cifar10-train-pad2.h5", "other.caffemodel.h5", "--seed=2")
    with h5py.File("again.caffemodel.h5") as again, h5py.File("other.caffemodel.h5") as other:
        assert (again["data/conv1/0"][()] == kernels["conv1"]).all() and (other["data/conv1/0"][()] != kernels["conv1"]).any()


def test_net_trains_and_keeps_the_first_convolution():
    said = run(PROGRAM, "train", "--solver=" + os.path.join(ROOT, "models/cifar10_fast/solver.prototxt"), "--set=net=" + NET,
               "--weights=first.caffemodel.h5", "--batch=20", "--max-iter=4", "--set=test_iter=1", "--set=average_loss=1", "--threads=1")
    loss = re.findall(r"Loss of the last iteration ([0-9.]+)", said)
    assert loss and 0 < float(loss[0]) < 5, said
    with h5py.File("first.caffemodel.h5") as first, h5py.File("cifar10_fast_iter_4.caffemodel.h5") as last:
        for name in first["data"]:
            same = (first["data"][name]["0"][()] == last["data"][name]["0"][()]).all()
            assert same == (name == "whiten"), name


def test_tests_see_six_views():
    run(PROGRAM, "extract", "--model=" + NET, "--weights=first.caffemodel.h5", "--blobs=images,data,scores,all", "--threads=1", "blobs.h5")
    with h5py.File("blobs.h5") as f:
        images, data, scores = f["images"][()], f["data"][()], f["scores"][()].reshape(6, -1, 10)
        views = np.concatenate([images[:, :, i:i + 32, i:i + 32] for i in (1, 0, 2)])
        assert (data == np.concatenate([views, views[:, :, :, ::-1]])).all()
        np.testing.assert_allclose(f["all"][()], np.average(scores, axis=0, weights=[2, 1, 1, 2, 1, 1]), rtol=1e-4, atol=1e-6)
        assert all(abs(scores[0] - other).max() > 1e-4 for other in scores[1:])


def test_refusals():
    with open(NET) as f:
        text = f.read()
    for name, old, new, says in (
            ("few", "num_output: 24", "num_output: 20", "the convolution of the images has 20 filters; expected 24, two for each value of a patch"),
            ("none", '  type: "Convolution"\n  bottom: "data"\n', '  type: "Deconvolution"\n  bottom: "data"\n',
             "none.prototxt: 0 convolutions read 'data'; expected one, to whiten the images"),
            ("broken", 'type: "GELU"', 'type: "GLUE"', "summary --model=broken.prototxt: ")):
        assert old in text, old
        with open(name + ".prototxt", "w") as f:
            f.write(text.replace(old, new))
        before = sorted(os.listdir("."))
        said = run(sys.executable, TOOL, name + ".prototxt", "data/cifar10-train-pad2.h5", "o.h5", "--poseidon=" + PROGRAM, status=1)
        assert says in said and sorted(os.listdir(".")) == before, (says, said)
    refuses("'o.npz': expected a name that ends in .h5", NET, "data/cifar10-train-pad2.h5", "o.npz")
    refuses("first.caffemodel.h5 exists already; --force replaces it", NET, "data/cifar10-train-pad2.h5", "first.caffemodel.h5")


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    os.mkdir("data")
    make_images("data/cifar10-train-pad2.h5", 200, 36, np.random.RandomState(1))
    make_images("data/cifar10-test-pad1.h5", 50, 34, np.random.RandomState(2))
    for test in (test_first_convolution_whitens, test_others_begin_as_identities, test_net_trains_and_keeps_the_first_convolution,
                 test_tests_see_six_views, test_refusals):
        test()
    os.chdir("/")
