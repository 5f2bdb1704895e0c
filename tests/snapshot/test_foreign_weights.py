#!/usr/bin/env python3
"""Weights as other programs store them: raw bytes of NVIDIA's Caffe and of OpenCV's shrinkCaffeModel, NVIDIA's
BatchNorm with scale and bias inside. numpy says what the values are.

Needs h5py and numpy; skips without.
"""
import os
import struct
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

PROGRAM = os.environ["POSEIDON"]
DOUBLE, FLOAT, FLOAT16, INT = range(4)  # NVIDIA's enum Type
DTYPE = {DOUBLE: "<f8", FLOAT: "<f4", FLOAT16: "<f2", INT: "<i4"}


def poseidon(*arguments, status=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    if done.returncode != status:
        sys.exit("poseidon %s: status %d\n%s%s" % (" ".join(arguments), done.returncode, done.stdout, done.stderr))
    return done.stderr


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    """A varint, or bytes behind their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def raw_blob(values, kind):
    """BlobProto: shape = 7 { dim = 1 }, raw_data_type = 10, raw_data = 12."""
    shape = field(1, b"".join(varint(dim) for dim in values.shape))
    return field(7, shape) + field(10, kind) + field(12, values.astype(DTYPE[kind]).tobytes())


def write_model(path, layers):
    """{name: blobs}: NetParameter with layer = 100 { name = 1, blobs = 7 }."""
    with open(path, "wb") as f:
        for name, blobs in layers.items():
            f.write(field(100, field(1, name.encode()) + b"".join(field(7, blob) for blob in blobs)))


def same(path, expected):
    """{data set: values}, to the bit; any NaN is like another."""
    with h5py.File(path) as f:
        for name, values in expected.items():
            np.testing.assert_array_equal(f["data/" + name][()], values, err_msg=name)
            assert (np.signbit(f["data/" + name][()]) == np.signbit(values)).all() or np.isnan(values).any(), name


ALL_HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def test_raw_data(draw):
    values = {DOUBLE: draw((3, 5)) * 1e-30, FLOAT: draw((7,)), FLOAT16: ALL_HALVES.reshape(256, 256)}
    write_model("raw.caffemodel", {"layer%d" % kind: [raw_blob(values[kind], kind)] for kind in values})
    poseidon("convert", "weights", "raw.caffemodel", "raw.caffemodel.h5")
    with np.errstate(all="ignore"):
        same("raw.caffemodel.h5", {"layer%d/0" % kind: values[kind].astype(np.float32) for kind in values})
    write_model("int.caffemodel", {"ip": [raw_blob(np.ones((2, 2)), INT)]})
    message = poseidon("convert", "weights", "int.caffemodel", "int.caffemodel.h5", status=1)
    assert "int.caffemodel: a blob has NVIDIA Caffe's raw_data_type 3 (integers)" in message, message
    with open("odd.caffemodel", "wb") as f:
        blob = field(7, field(1, b"\1")) + field(10, FLOAT16) + field(12, b"abc")
        f.write(field(100, field(1, b"ip") + field(7, blob)))
    message = poseidon("convert", "weights", "odd.caffemodel", "odd.caffemodel.h5", status=1)
    assert "3 bytes of values, where a value has 2 bytes" in message, message


NET = """
layer { name: "data" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { source: "inputs.txt" batch_size: 4 } }
layer { name: "bn" type: "BatchNorm" bottom: "data" top: "bn" batch_norm_param { eps: 0.001 } }
%s
layer { name: "ip" type: "InnerProduct" bottom: "%s" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
SCALE = 'layer { name: "any" type: "Scale" bottom: "bn" top: "scaled" scale_param { bias_term: true } }'


def test_nvidia_batch_norm(draw):
    """Five blobs become those of BatchNorm and Scale, for every command that has --weights."""
    mean, variance, scale, bias = draw((5,)), np.abs(draw((5,))) + 0.1, draw((5,)), draw((5,))
    x, w, b = draw((4, 5, 2, 2)), draw((3, 20)), draw((3,))
    with h5py.File("inputs.h5", "w") as f:
        f["data"], f["label"] = x, np.arange(4, dtype=np.float32) % 3
    for name, text in (("inputs.txt", "inputs.h5\n"), ("net.prototxt", NET % (SCALE, "scaled")),
                       ("bare.prototxt", NET % ("", "bn")),
                       ("solver.prototxt", 'net: "net.prototxt" base_lr: 0 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "t"\n'
                        'snapshot_format: HDF5')):
        with open(name, "w") as f:
            f.write(text)
    norm = [raw_blob(v, FLOAT) for v in (mean, variance, np.array([7]), scale, bias)]
    write_model("nv.caffemodel", {"bn": norm, "ip": [raw_blob(w, FLOAT), raw_blob(b, FLOAT)]})
    poseidon("extract", "--model=net.prototxt", "--weights=nv.caffemodel", "--blobs=scaled", "out.h5")
    column = (slice(None), None, None)
    expected = (x - mean[column]) / np.sqrt(variance[column] + 1e-3) * scale[column] + bias[column]
    with h5py.File("out.h5") as f:
        np.testing.assert_allclose(f["scaled"][()], expected, rtol=2e-6, atol=2e-6)
    message = poseidon("extract", "--model=bare.prototxt", "--weights=nv.caffemodel", "--blobs=ip", "no.h5", status=1)
    assert "(a BatchNorm of NVIDIA's Caffe with scale and bias inside: expected a BatchNorm and, behind it, a Scale" in message
    message = poseidon("convert", "weights", "nv.caffemodel", "nv.caffemodel.h5", status=1)
    assert "layer 'bn' has 5 parameters, as a BatchNorm of NVIDIA's Caffe" in message, message


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    random = np.random.default_rng(9)
    for test in (test_raw_data, test_nvidia_batch_norm):
        test(lambda shape: np.asarray(random.standard_normal(shape), np.float32))
    os.chdir("/")
