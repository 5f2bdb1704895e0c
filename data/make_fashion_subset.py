#!/usr/bin/python3
"""Writes fashion-mnist-train.h5 and fashion-mnist-test.h5: a balanced part of Fashion-MNIST.

    data/make_fashion_subset.py [--source FOLDER] [--target FOLDER] [--train N] [--test N]

The source is what Debian's package dataset-fashion-mnist installs: four IDX files, packed with
gzip. Of every class the first N/10 images are taken; their order is a fixed permutation. The same
command writes the same bytes, given the same versions of h5py, HDF5 and zlib, and the same images
given any: the digests it prints are those of the contents.
"""

import argparse
import gzip
import hashlib
import os
import struct

import h5py
import numpy

CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
           "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
ORDER_SEED = 20170825
CHUNK = 200


def read_idx(path):
    """The array in an IDX file of bytes: 00 00 08 RANK, sizes (big-endian), values."""
    with gzip.open(path, "rb") as file:
        zero, kind, rank = struct.unpack(">HBB", file.read(4))
        if zero != 0 or kind != 8:
            raise SystemExit(f"{path}: not an IDX file of unsigned bytes")
        shape = struct.unpack(f">{rank}I", file.read(4 * rank))
        values = file.read()
    if len(values) != numpy.prod(shape):
        raise SystemExit(f"{path}: {numpy.prod(shape)} bytes expected, {len(values)} found")
    return numpy.frombuffer(values, numpy.uint8).reshape(shape)


def balanced(labels, count):
    """Indices of count/10 images of each class, in an order fixed by ORDER_SEED."""
    each = count // len(CLASSES)
    chosen = []
    for label in range(len(CLASSES)):
        found = numpy.flatnonzero(labels == label)
        if len(found) < each:
            raise SystemExit(f"class {label}: {each} images wanted, {len(found)} there")
        chosen.append(found[:each])
    chosen = numpy.sort(numpy.concatenate(chosen))
    # RandomState's stream is frozen by numpy's policy: any version gives this order.
    return chosen[numpy.random.RandomState(ORDER_SEED).permutation(len(chosen))]


def write(path, images, labels, part):
    """One HDF5 file; no times are recorded, so that its bytes depend on its content alone."""
    with h5py.File(path, "w", track_order=False) as file:
        def dataset(name, values, chunk):
            file.create_dataset(name, data=values, chunks=chunk, compression="gzip",
                                compression_opts=9, track_times=False)

        dataset("data", images[:, None, :, :], (CHUNK, 1) + images.shape[1:])
        dataset("label", labels.astype(numpy.int32), (len(labels),))
        file.attrs["title"] = f"Fashion-MNIST, {part}: {len(labels)} of its images, " \
                              f"{len(labels) // len(CLASSES)} per class"
        file.attrs["source"] = "https://github.com/zalandoresearch/fashion-mnist"
        file.attrs["licence"] = "MIT, Copyright (c) 2017 Zalando SE; see data/README.md"
        file.attrs["classes"] = CLASSES  # an array of texts, as poseidon convert writes
    digest = hashlib.sha256(images.tobytes() + labels.astype("<i4").tobytes()).hexdigest()
    print(f"{path}: {len(labels)} images, {os.path.getsize(path)} bytes, content {digest}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--source", default="/usr/share/datasets/fashion-mnist")
    options.add_argument("--target", default=here)
    options.add_argument("--train", type=int, default=12000)
    options.add_argument("--test", type=int, default=2000)
    options = options.parse_args()
    for part, prefix, count in (("train", "train", options.train), ("test", "t10k", options.test)):
        images = read_idx(os.path.join(options.source, f"{prefix}-images-idx3-ubyte.gz"))
        labels = read_idx(os.path.join(options.source, f"{prefix}-labels-idx1-ubyte.gz"))
        order = balanced(labels, count)
        write(os.path.join(options.target, f"fashion-mnist-{part}.h5"),
              images[order], labels[order], f"{part} set")


if __name__ == "__main__":
    main()
