#!/usr/bin/env python3
"""What `poseidon convert weights` writes as .safetensors, read by numpy by hand, and by PyTorch where it is installed.

Needs h5py and numpy; skips without.
"""
import json
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


def convert(source, to):
    subprocess.run([PROGRAM, "convert", "weights", "--force", source, to], check=True, capture_output=True)


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    length = struct.unpack("<Q", data[:8])[0]
    assert length % 8 == 0
    header = json.loads(data[8:8 + length])
    metadata, values = header.pop("__metadata__", {}), data[8 + length:]
    places = sorted(entry["data_offsets"] for entry in header.values())
    assert [0] + [end for _, end in places] == [begin for begin, _ in places] + [len(values)], "holes"
    return metadata, {name: np.frombuffer(values[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
                      for name, entry in header.items() if entry["dtype"] == "F32"}


def write_safetensors(path, tensors):
    """In another order than the file's, and without metadata: as other writers may."""
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"data_offsets": [at, at + values.nbytes], "shape": list(values.shape), "dtype": "F32"}
        at += values.nbytes
    text = json.dumps(dict(reversed(header.items()))).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(values.astype("<f4").tobytes() for values in tensors.values()))


def same(found, expected):
    assert sorted(found) == sorted(expected), (sorted(found), sorted(expected))
    for name in expected:
        assert found[name].shape == expected[name].shape, name
        assert found[name].tobytes() == expected[name].tobytes(), name


def test_values(draw):
    blobs = {"conv/1": [draw((4, 3, 2, 2)), draw((4,))], "norm": [draw((4,)), draw((4,)), draw((1,))], "slope": [draw(())],
             "nan": [np.array([np.nan, -0.0, np.inf, 1e-42], np.float32)]}
    with h5py.File("in.caffemodel.h5", "w") as f:
        for layer in blobs:
            for number, values in enumerate(blobs[layer]):
                f["data/%s/%d" % (layer, number)] = values
    convert("in.caffemodel.h5", "out.safetensors")
    metadata, found = read_safetensors("out.safetensors")
    ends = {1: ["weight"], 2: ["weight", "bias"], 3: ["0", "1", "2"]}
    same(found, {"%s.%s" % (layer, end): values for layer in blobs for end, values in zip(ends[len(blobs[layer])], blobs[layer])})
    assert metadata["format"] == "pt" and 'name: "conv/1"' in metadata["net"], metadata


def test_other_writer(draw):
    tensors = {"fc.weight": draw((3, 5)), "fc.bias": draw((3,)), "block.0.conv.weight": draw((2, 1, 3, 3)), "alone.1": draw((2,))}
    write_safetensors("other.safetensors", tensors)
    convert("other.safetensors", "other.caffemodel.h5")
    with h5py.File("other.caffemodel.h5") as f:
        same({"fc.weight": f["data/fc/0"][()], "fc.bias": f["data/fc/1"][()], "alone.1": f["data/alone/1"][()],
              "block.0.conv.weight": f["data/block.0.conv/0"][()]}, tensors)


def test_pytorch():
    """A state_dict in, and out again."""
    import torch
    from safetensors.torch import load_file, save_file
    torch.manual_seed(1)
    model, other = (torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4, 2)) for _ in range(2))
    save_file(model.state_dict(), "model.safetensors")
    convert("model.safetensors", "model.caffemodel.h5")
    convert("model.caffemodel.h5", "back.safetensors")
    other.load_state_dict(load_file("back.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    random = np.random.default_rng(7)
    test_values(lambda shape: np.asarray(random.standard_normal(shape), np.float32))
    test_other_writer(lambda shape: np.asarray(random.standard_normal(shape), np.float32))
    try:
        test_pytorch()
    except ImportError as missing:
        print("PyTorch is left out: %s" % missing)
    os.chdir("/")
