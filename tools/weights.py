#!/usr/bin/env python3
"""weights.py IN OUT

Writes a model of Caffe's HDF5 form (.caffemodel.h5) as .safetensors, for
PyTorch and others, or the other way round. A layer's parameters are
LAYER.weight and LAYER.bias, or LAYER.0, LAYER.1 and so on if it has more than
two; reading takes both. Halves, bfloat16 and doubles become floats of 32 bits.
"""
import itertools
import json
import os
import subprocess

from tool_files import Refused, check_output, make_parser, replace, run, write_hdf5

TEXTS = "run", "parameters", "classes", "preprocessing"  # of a model, besides its parameters
MOST_BLOBS = 5  # of a layer
ENDS = ["weight", "bias"]
PREFIXES = "module.", "_orig_mod."  # of DistributedDataParallel and of torch.compile
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


# ---- .safetensors ----

def read_safetensors(path):
    """{layer: {number: array}} and the texts of its metadata."""
    import numpy as np
    import safetensors
    with open(path, "rb") as file:
        content = file.read()
    try:
        tensors = safetensors.deserialize(content)
    except Exception as error:  # SafetensorError of newer versions; ValueError and others before
        raise Refused(f"{path}: no whole .safetensors file: {error}") from None
    metadata = json.loads(content[8:8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    layers = {}
    for name, tensor in strip_prefixes(tensors):
        if name.endswith("num_batches_tracked"):
            continue
        if tensor["dtype"] not in FLOATS:
            raise Refused(f"{path}: tensor '{name}' is of type {tensor['dtype']}; expected {', '.join(FLOATS)}")
        values = np.frombuffer(bytes(tensor["data"]), FLOATS[tensor["dtype"]]).reshape(tensor["shape"])
        if tensor["dtype"] == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        layer, number = parameter(path, name)
        if number in layers.setdefault(layer, {}):
            raise Refused(f"{path}: parameter {number} of layer '{layer}' appears twice")
        layers[layer][number] = values.astype("<f4")
    return layers, {text: metadata[text] for text in TEXTS if text in metadata}


def strip_prefixes(tensors):
    """The tensors by the names that the module itself has: wrappers put theirs in front of all."""
    names = [name for name, _ in tensors]
    while names and any(all(name.startswith(prefix) for name in names) for prefix in PREFIXES):
        names = [name.partition(".")[2] for name in names]
    return list(zip(names, (tensor for _, tensor in tensors)))


def parameter(path, name):
    """"conv1.weight": layer "conv1", parameter 0."""
    layer, dot, end = name.rpartition(".")
    number = ENDS.index(end) if end in ENDS else int(end) if end.isdecimal() and len(end) == 1 else -1
    if not dot or number < 0:
        raise Refused(f"{path}: tensor '{name}': expected a name that ends in .weight, .bias or a number: LAYER.0 for a layer's "
                      "first parameter (docs/from-pytorch.md, 'Weights in and out')")
    if number >= MOST_BLOBS:
        raise Refused(f"{path}: layer '{layer}' has a parameter {number}; expected at most {MOST_BLOBS - 1}")
    return layer, number


def write_safetensors(path, layers, texts):
    from safetensors.numpy import save
    tensors = {}
    for layer, blobs in layers.items():
        for number, values in blobs.items():
            tensors[f"{layer}.{ENDS[number] if max(blobs) < 2 else number}"] = values
    with replace(path) as output:
        output.write(save(tensors, {"format": "pt", **texts}))


# ---- Caffe's HDF5 form ----

def read_hdf5(path):
    """{layer: {number: array}} and texts. A parameter that another layer owns is a copy."""
    import h5py
    import numpy as np
    layers, shared = {}, []
    try:
        file = h5py.File(path)
    except OSError:
        kind = "a model in Caffe's binary form" if path.endswith(".caffemodel") else "no HDF5 file"
        way = f": 'poseidon convert weights {path} {path}.h5' makes an HDF5 file of it" if path.endswith(".caffemodel") else ""
        os.stat(path)
        raise Refused(f"{path}: expected a .caffemodel.h5 or .safetensors, found {kind}{way}") from None
    with file:
        if not isinstance(file.get("data"), h5py.Group):
            raise Refused(f"{path}: has no group 'data': no model of Caffe's HDF5 form")

        def visit(name, item):
            if isinstance(item, h5py.Group) and "shared" in item.attrs:
                shared.extend((name, number, text(owner)) for number, owner in enumerate(item.attrs["shared"]))
            layer, _, number = name.rpartition("/")
            if isinstance(item, h5py.Dataset) and number.isdecimal():
                if item.dtype.kind != "f":
                    raise Refused(f"{path}: parameter {number} of layer '{layer}' is of type {item.dtype}; expected floats")
                layers.setdefault(layer, {})[int(number)] = np.asarray(item[()], "<f4")

        try:
            file["data"].visititems(visit)
            texts = {name: text(file.attrs[name] if name in file.attrs else file[name][()])
                     for name in TEXTS if name in file.attrs or name in file}
        except (OSError, RuntimeError, KeyError) as error:
            raise Refused(f"{path}: damaged: {str(error).splitlines()[0]}") from None
    for layer, number, owner in shared:
        name, _, place = owner.rpartition("/")
        if owner:
            layers.setdefault(layer, {})[number] = layers[name][int(place)]
    return layers, texts


def text(value):
    value = value if isinstance(value, (str, bytes)) else value.item()
    return value if isinstance(value, str) else value.decode()


def write_caffe(path, layers, texts):
    places = {f"{layer}/{number}" for layer, blobs in layers.items() for number in blobs}
    for layer in layers:
        if not places.isdisjoint(itertools.accumulate(layer.split("/"), "{}/{}".format)):
            raise Refused(f"{path}: the place of layer '{layer}' is taken by a parameter of another layer; rename one of them")
    with write_hdf5(path) as (file, check):
        for name, value in texts.items():
            file.attrs[name] = value
        for layer, blobs in layers.items():
            for number, values in blobs.items():
                file[f"data/{layer}/{number}"] = values
            check()


# ---- the net that is to take them ----

def check_net(path, layers, model, program):
    """Fails where no layer of the net takes parameters of that name and number of values; names those that do not."""
    done = subprocess.run([program, "summary", f"--model={model}", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"{program} summary --model={model}: {done.stderr.strip()}")
    net = {layer["name"]: layer.get("parameters", 0) for layer in json.loads(done.stdout)["layers"]}
    fits = [name for name, blobs in layers.items() if net.get(name) == sum(values.size for values in blobs.values())]
    if not fits:
        raise Refused(f"{path}: none of its layers ({', '.join(list(layers)[:3])}, ...) is one of {model} "
                      f"({', '.join([name for name, size in net.items() if size][:3])}, ...): rename its tensors")
    others = [name for name in layers if name not in fits]
    if others:
        print(f"{len(others)} layers of {path} do not fit those of {model}: {', '.join(others[:10])}")


def main():
    parser = make_parser("IN OUT [--model=NET.prototxt] [--force]", __doc__, ("input", "output"),
                         "example: weights.py trained.safetensors trained.caffemodel.h5")
    parser.add_argument("--model", metavar="FILE", help="fail if no layer of this net takes these weights")
    parser.add_argument("--poseidon", default="poseidon", metavar="FILE", help="the program that reads the net")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    arguments = parser.parse_args()
    path = arguments.input
    forward = path.endswith(".safetensors")
    check_output(arguments.output, (".h5",) if forward else (".safetensors",), [path], arguments.force)
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder; expected a file")
    layers, texts = (read_safetensors if forward else read_hdf5)(path)
    if not layers:
        raise Refused(f"{path}: has no parameters")
    if arguments.model:
        check_net(path, layers, arguments.model, arguments.poseidon)
    (write_caffe if forward else write_safetensors)(arguments.output, layers, texts)
    print(f"{arguments.output}: {sum(map(len, layers.values()))} parameters of {len(layers)} layers")


if __name__ == "__main__":
    run(main)
