#!/usr/bin/env python3
"""tools/weights.py: .safetensors both ways. The judges are h5py, safetensors and, where it is installed, PyTorch.

Skips without h5py or safetensors, but for what the tool says then.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

PROGRAM = os.environ["POSEIDON"]
TOOL = os.path.join(os.environ["abs_top_srcdir"], "tools", "weights.py")


def run(*arguments, status=0, **options):
    done = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, **options)
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    assert status == 0 or done.stderr.count("\n") == 1, done.stderr
    return done.stdout if status == 0 else done.stderr


def refuses(says, *arguments):
    before = sorted(os.listdir("."))
    said = run(*arguments, status=1)
    assert says in said, (says, said)
    assert sorted(os.listdir(".")) == before, "files are left"


with tempfile.TemporaryDirectory() as place:
    for module in "h5py", "safetensors":
        with open(os.path.join(place, module + ".py"), "w") as f:
            f.write("raise ImportError('no module', name='%s')" % module)
    with open(os.path.join(place, "x.safetensors"), "w") as f:
        f.write("{}")
    said = run(os.path.join(place, "x.safetensors"), os.path.join(place, "y.h5"), status=1, env={**os.environ, "PYTHONPATH": place})
    assert " is missing: pip install " in said, said

try:
    import h5py
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)


def same(found, expected):
    assert sorted(found) == sorted(expected), (sorted(found), sorted(expected))
    for name in expected:
        assert found[name].shape == expected[name].shape, name
        assert np.asarray(found[name], "<f4").tobytes() == np.asarray(expected[name], "<f4").tobytes(), name


def blobs_of(path):
    found = {}
    with h5py.File(path) as f:
        f["data"].visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return found


def test_values(draw):
    blobs = {"conv/1": [draw((4, 3, 2, 2)), draw((4,))], "norm": [draw((4,)), draw((4,)), draw((1,))], "slope": [draw(())],
             "nan": [np.array([np.nan, -0.0, np.inf, 1e-42], np.float32)]}
    with h5py.File("in.caffemodel.h5", "w") as f:
        f.attrs["classes"] = "cat\ndog"
        for layer in blobs:
            for number, values in enumerate(blobs[layer]):
                f["data/%s/%d" % (layer, number)] = values
        f["data/view"] = f.create_group("empty")
        f["data/view"].attrs["shared"] = ["conv/1/0", "conv/1/1"]
    run("in.caffemodel.h5", "out.safetensors")
    ends = {1: ["weight"], 2: ["weight", "bias"], 3: ["0", "1", "2"]}
    expected = {"%s.%s" % (layer, end): values for layer in blobs for end, values in zip(ends[len(blobs[layer])], blobs[layer])}
    same(load_file("out.safetensors"), {**expected, "view.weight": blobs["conv/1"][0], "view.bias": blobs["conv/1"][1]})
    with safe_open("out.safetensors", "numpy") as f:
        assert f.metadata() == {"format": "pt", "classes": "cat\ndog"}, f.metadata()
    run("out.safetensors", "back.caffemodel.h5")
    found = blobs_of("back.caffemodel.h5")
    same({name: found[name] for name in found if not name.startswith("view")},
         {"%s/%d" % (layer, i): values for layer in blobs for i, values in enumerate(blobs[layer])})
    with h5py.File("back.caffemodel.h5") as f:
        assert f.attrs["classes"] == "cat\ndog"


def test_wrappers_prefixes_go(draw):
    tensors = {"fc.weight": draw((3, 5)), "fc.bias": draw((3,)), "block.0.conv.weight": draw((2, 1, 3, 3)), "alone.1": draw((2,))}
    expected = {"fc/0": tensors["fc.weight"], "fc/1": tensors["fc.bias"], "alone/1": tensors["alone.1"],
                "block.0.conv/0": tensors["block.0.conv.weight"]}
    for prefix in "", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.":
        save_file({prefix + name: values for name, values in tensors.items()}, "other.safetensors")
        run("other.safetensors", "other.caffemodel.h5", "--force")
        same(blobs_of("other.caffemodel.h5"), expected)
    save_file({"module.a.weight": draw((2,)), "b.weight": draw((2,))}, "some.safetensors")
    run("some.safetensors", "some.caffemodel.h5")
    assert sorted(blobs_of("some.caffemodel.h5")) == ["b/0", "module.a/0"]


def write_raw(path, tensors, before=b"", behind=b"", **changes):
    """{name: (dtype, bytes, shape)}"""
    header, at = {}, 0
    for name, (dtype, values, shape) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(values)], **changes}
        at += len(values)
    text = before + json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(values for _, values, _ in tensors.values()) + behind)


def test_types(draw):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    wide, bits = draw((4, 3)).astype(np.float64) / 3, draw((6,)).view(np.uint32) >> 16
    write_raw("x.safetensors", {"wide.weight": ("F64", wide.astype("<f8").tobytes(), wide.shape),
                                "half.weight": ("F16", halves.tobytes(), halves.shape),
                                "brain.weight": ("BF16", bits.astype("<u2").tobytes(), bits.shape),
                                "bn.num_batches_tracked": ("I64", b"12345678", ())})
    run("x.safetensors", "x.caffemodel.h5")
    found = blobs_of("x.caffemodel.h5")
    assert sorted(found) == ["brain/0", "half/0", "wide/0"]
    np.testing.assert_array_equal(found["half/0"], halves.astype(np.float32))
    same({name: found[name] for name in ("wide/0", "brain/0")},
         {"wide/0": wide.astype(np.float32), "brain/0": (bits << 16).astype(np.uint32).view(np.float32)})


def test_refusals(draw):
    four = ("F32", bytes(16), (4,))
    write_raw("i.safetensors", {"fc.weight": ("I16", bytes(8), (4,))})
    refuses("tensor 'fc.weight' is of type I16; expected F64, F32, F16, BF16", "i.safetensors", "o.h5")
    for names, says in ((("bn.running_mean",), "tensor 'bn.running_mean': expected a name that ends in .weight, .bias or a number"),
                        (("fc.weight", "fc.0"), "parameter 0 of layer 'fc' appears twice"),
                        (("fc.7",), "layer 'fc' has a parameter 7; expected at most 4"),
                        (("fc",), "tensor 'fc': expected a name"),
                        (("a.0", "a/0.1"), "the place of layer 'a/0' is taken"),
                        ((), "has no parameters")):
        write_raw("n.safetensors", dict.fromkeys(names, four))
        refuses(says, "n.safetensors", "o.h5")
    damaged = {"overlap": dict(tensors={"a.weight": four, "b.weight": four}, data_offsets=[0, 16]),
               "behind": dict(tensors={"a.weight": four}, behind=b"more"),
               "place": dict(tensors={"a.weight": four}, data_offsets=[8, 24]),
               "size": dict(tensors={"a.weight": four}, shape=[5]),
               "negative": dict(tensors={"a.weight": four}, shape=[-4]),
               "json": dict(tensors={"a.weight": four}, before=b"{")}
    for name, parts in damaged.items():
        write_raw(name + ".safetensors", **parts)
        refuses(name + ".safetensors: no whole .safetensors file: ", name + ".safetensors", "o.h5")
    write_raw("whole.safetensors", {"a.weight": four})
    with open("whole.safetensors", "rb") as f:
        whole = f.read()
    for cut in range(0, len(whole), 5):
        with open("cut.safetensors", "wb") as f:
            f.write(whole[:cut])
        refuses("cut.safetensors: no whole .safetensors file: ", "cut.safetensors", "o.h5")
    for name, content, says in (("w.caffemodel", b"\n\3abc", "found a model in Caffe's binary form: 'poseidon convert weights"),
                                ("w.h5", b"text", "found no HDF5 file"), ("empty.h5", b"", "found no HDF5 file")):
        with open(name, "wb") as f:
            f.write(content)
        refuses(says, name, "o.safetensors")
    with h5py.File("other.h5", "w") as f:
        f["images"] = np.zeros(3)
    refuses("other.h5: has no group 'data'", "other.h5", "o.safetensors")
    with h5py.File("int.h5", "w") as f:
        f["data/fc/0"] = np.zeros(3, int)
    refuses("parameter 0 of layer 'fc' is of type int64; expected floats", "int.h5", "o.safetensors")
    refuses("o.npz': expected a name that ends in .h5", "whole.safetensors", "o.npz")
    refuses("absent.safetensors: No such file", "absent.safetensors", "o.h5")
    run("whole.safetensors", "there.h5")
    refuses("there.h5 exists already; --force replaces it", "whole.safetensors", "there.h5")
    os.symlink("whole.safetensors", "link.h5")
    refuses("link.h5 is one of the inputs", "whole.safetensors", "link.h5", "--force")
    write_raw("big.safetensors", {"a.weight": ("F32", bytes(1 << 20), (1 << 18,))})
    for source, to in (("big.safetensors", "full.h5"), ("big.h5", "full.safetensors")):
        before = sorted(os.listdir("."))
        done = subprocess.run(["bash", "-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "bash", sys.executable, TOOL, source, to],
                              capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr == "weights.py: %s cannot be written: File too large\n" % to, done.stderr
        assert sorted(os.listdir(".")) == before
        run("big.safetensors", "big.h5", "--force")


NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }
"""


def test_a_net_that_none_of_them_fits_is_refused(draw):
    with open("net.prototxt", "w") as f:
        f.write(NET)
    options = "--model=net.prototxt", "--poseidon=" + PROGRAM
    save_file({"other.weight": draw((3, 4)), "other.bias": draw((3,))}, "none.safetensors")
    refuses("none of its layers (other, ...) is one of net.prototxt (ip, ...): rename its tensors", "none.safetensors", "o.h5", *options)
    save_file({"ip.weight": draw((3, 5)), "ip.bias": draw((3,))}, "size.safetensors")
    refuses("none of its layers", "size.safetensors", "o.h5", *options)
    weight, bias = draw((3, 4)), draw((3,))
    save_file({"module.ip.weight": weight, "module.ip.bias": bias, "module.more.weight": draw((3,))}, "fits.safetensors")
    assert "1 layers of fits.safetensors do not fit those of net.prototxt: more" in run("fits.safetensors", "fits.h5", *options)
    # the program takes what the tool writes, and names the tool where it is given the file itself
    said = subprocess.run([PROGRAM, "convert", "weights", "fits.safetensors", "w.caffemodel"], capture_output=True, text=True)
    assert said.returncode == 1 and "python3 tools/weights.py fits.safetensors" in said.stderr, said.stderr
    done = subprocess.run([PROGRAM, "convert", "weights", "fits.h5", "fits.caffemodel"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pytorch():
    """A state_dict in, and out again."""
    import torch
    from safetensors.torch import load_file as load, save_file as save
    torch.manual_seed(1)
    model, other = (torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4, 2)) for _ in range(2))
    save(torch.nn.parallel.DataParallel(model).state_dict(), "model.safetensors")
    run("model.safetensors", "model.caffemodel.h5")
    run("model.caffemodel.h5", "back.safetensors")
    other.load_state_dict(load("back.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))


random = np.random.default_rng(7)
for test in test_values, test_wrappers_prefixes_go, test_types, test_refusals, test_a_net_that_none_of_them_fits_is_refused:
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        test(lambda shape: np.asarray(random.standard_normal(shape), np.float32))
        os.chdir("/")
with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    try:
        test_pytorch()
    except ImportError as missing:
        print("PyTorch is left out: %s" % missing)
    os.chdir("/")
