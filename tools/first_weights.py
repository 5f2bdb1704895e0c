#!/usr/bin/env python3
"""first_weights.py NET.prototxt TRAIN.h5 OUT.caffemodel.h5

Writes how the convolutions of a net begin where training is to be short. The one that reads the images whitens the patches of
the first 5,000 images: its filters are the patches' eigenvectors, each divided by the root of its eigenvalue, and their
negatives, which an activation would else lose. Any other convolution begins with identities: filter i copies channel i. The
remaining filters are uniform, within 1 / sqrt(inputs of a filter). All other layers keep the net's fillers.
"""
import json
import subprocess

from tool_files import Refused, check_output, make_parser, run
from weights import write_caffe

IMAGES = 5000
LEAST = 5e-4  # added to an eigenvalue, so that noise is not scaled up


def convolutions(model, program):
    """The layer that reads the images, and the shapes of all convolutions: {name: shape}, beside the inputs of each."""
    done = subprocess.run([program, "summary", f"--model={model}", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"{program} summary --model={model}: {done.stderr.strip()}")
    layers = json.loads(done.stdout)["layers"]
    data = next((layer for layer in layers if "record" in layer), layers[0])
    shapes = {layer["name"]: layer["blobs"][0]["shape"] for layer in layers if layer["type"] == "Convolution"}
    first = [name for name in shapes for layer in layers if layer["name"] == name and layer["bottoms"] == [data["tops"][0]["name"]]]
    if len(first) != 1:
        raise Refused(f"{model}: {len(first)} convolutions read '{data['tops'][0]['name']}'; expected one, to whiten the images")
    return data, first[0], shapes


def whiten(path, data, shape):
    """Filters of `shape` whose outputs on patches have the variance 1 and no correlation."""
    import h5py
    import numpy as np
    outputs, channels, *kernel = shape
    with h5py.File(path) as file:
        images = file["data"][:IMAGES]
    settings, (height, width) = data.get("transform_param", {}), data["tops"][0]["shape"][2:]
    y, x = (images.shape[2] - height) // 2, (images.shape[3] - width) // 2
    images = images[:, :, y:y + height, x:x + width] - np.reshape(settings.get("mean_value", [0]), (1, -1, 1, 1))
    images = images * settings.get("scale", 1)
    windows = [images[:, :, i:height - kernel[0] + 1 + i, j:width - kernel[1] + 1 + j] for i in range(kernel[0]) for j in range(kernel[1])]
    patches = np.stack(windows, 2).reshape(len(images), channels * len(windows), -1).transpose(0, 2, 1).reshape(-1, channels * len(windows))
    if outputs != 2 * patches.shape[1]:
        raise Refused(f"the convolution of the images has {outputs} filters; expected {2 * patches.shape[1]}, two for each value of a patch")
    values, vectors = np.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / np.sqrt(values + LEAST)).T.reshape(-1, *shape[1:])
    return np.concatenate([filters, -filters]).astype("f4")


def identities(shape, random):
    """A kernel whose first filters copy a channel each."""
    import numpy as np
    bound = 1 / np.sqrt(np.prod(shape[1:]))
    kernel = random.uniform(-bound, bound, shape).astype("f4")
    for i in range(min(shape[:2])):
        kernel[i] = 0
        kernel[(i, i, *(size // 2 for size in shape[2:]))] = 1
    return kernel


def main():
    parser = make_parser("NET.prototxt TRAIN.h5 OUT.caffemodel.h5 [OPTIONS]", __doc__, ("model", "data", "output"))
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the filters that are neither (default 1)")
    parser.add_argument("--poseidon", default="poseidon", metavar="FILE", help="the program that reads the net")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    arguments = parser.parse_args()
    import numpy as np
    check_output(arguments.output, (".h5",), [arguments.model, arguments.data], arguments.force)
    data, first, shapes = convolutions(arguments.model, arguments.poseidon)
    random = np.random.RandomState(arguments.seed)
    layers = {name: {0: whiten(arguments.data, data, shape) if name == first else identities(shape, random)}
              for name, shape in shapes.items()}
    write_caffe(arguments.output, layers, {})
    print(f"{arguments.output}: {first} whitens {'x'.join(map(str, shapes[first][1:]))}, {len(layers) - 1} convolutions begin with identities")


if __name__ == "__main__":
    run(main)
