#!/usr/bin/env python3
"""Which classes PyTorch gives the sample photographs, for tests/commands/test_sample_photos.sh:

    generate.py SQUEEZENET_V1.0.caffemodel FOLDER_OF_PHOTOS >squeezenet.csv

SqueezeNet v1.0 (Iandola et al. 2016) written out here from its paper and its published net, with its published weights;
photographs by Pillow, resized by PyTorch. Needs torch and Pillow. A line: photograph, its best five classes by the way of
Caffe's classify.py (squash to 256 x 256, cut out the centre), and by that of classification.bin (squash to the input).
"""
import os
import struct
import sys

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as f

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir))
from message_fields import fields, varint

SIDE = 227
MEAN = torch.tensor([104.0, 117.0, 123.0]).view(1, 3, 1, 1)


def blob(message):
    found = fields(message)
    shape = [found.get(i, [1])[-1] for i in (1, 2, 3, 4)]
    for outer in found.get(7, []):
        shape = []
        for dims in fields(outer).get(1, []):
            at = 0
            while isinstance(dims, (bytes, memoryview)) and at < len(dims):
                dim, at = varint(dims, at)
                shape.append(dim)
    values = b"".join(bytes(value) for value in found[5])
    return torch.from_numpy(np.array(struct.unpack("<%df" % (len(values) // 4), values), "f4").reshape(shape))


def weights(path):
    with open(path, "rb") as file:
        layers = [fields(layer) for layer in fields(memoryview(file.read()))[100]]
    return {bytes(layer[1][-1]).decode(): [blob(value) for value in layer[7]] for layer in layers if 7 in layer}


def forward(w, x):
    def conv(name, x, stride=1, pad=0):
        return f.relu(f.conv2d(x, w[name][0], w[name][1].reshape(-1), stride, pad))

    def fire(number, x):
        s = conv("fire%d/conv1x1_1" % number, x)
        return torch.cat([conv("fire%d/conv1x1_2" % number, s), conv("fire%d/conv3x3_2" % number, s, 1, 1)], 1)

    def pool(x):
        return f.max_pool2d(x, 3, 2, ceil_mode=True)

    x = pool(conv("conv1", x, 2))
    for number in (2, 3, 4):
        x = fire(number, x)
    x = pool(x)
    for number in (5, 6, 7, 8):
        x = fire(number, x)
    x = conv("conv_final", fire(9, pool(x)))
    return x.mean((2, 3))


def best(w, photo, crop):
    size = 256 if crop else SIDE
    x = torch.from_numpy(photo.transpose(2, 0, 1)[None].astype("f4"))
    x = f.interpolate(x, (size, size), mode="bilinear", align_corners=False)
    x = x.flip(1) - MEAN  # blue, green, red
    at = (size - SIDE) // 2
    return forward(w, x[:, :, at:at + SIDE, at:at + SIDE])[0].topk(5).indices.tolist()


def main():
    w = weights(sys.argv[1])
    print("# PyTorch %s; see generate.py" % torch.__version__.split("+")[0])
    with torch.no_grad():
        for name in sorted(os.listdir(sys.argv[2])):
            if name.endswith(".JPEG"):
                photo = np.asarray(Image.open(os.path.join(sys.argv[2], name)).convert("RGB"))
                print(name.replace(",", " "), *best(w, photo, True), *best(w, photo, False), sep=",")


if __name__ == "__main__":
    main()
