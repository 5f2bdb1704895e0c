"""Scenes for segmentation: items of Fashion-MNIST, in random colours and sizes, on pieces of photographs. For make_sets.py."""
import os
import struct
import zlib

import numpy as np

from tool_files import Refused, unwritten

SIDE = 96
OPAQUE = 24  # pixels of an item below this brightness show the photograph


def png(pixels):
    """The bytes of a PNG: H x W x 3, or H x W for gray."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels, np.uint8))
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def photographs(path):
    import h5py
    file = h5py.File(path, "r")
    data = file.get("data")
    if data is None or data.ndim != 4 or data.shape[1] != 3 or data.dtype != np.uint8 or min(data.shape[2:]) < SIDE or len(data) < 5:
        raise Refused(f"{path}: expected photographs of at least {SIDE} x {SIDE} as 'poseidon convert images' writes them, five or more")
    return data


def scene(rng, photograph, items, labels):
    """An image, H x W x red, green, blue, and its labels: 0 for the photograph, 1 + the class of an item."""
    top, left = (int(rng.integers(0, size - SIDE + 1)) for size in photograph.shape[1:])
    image = photograph[::-1, top:top + SIDE, left:left + SIDE].transpose(1, 2, 0).astype(np.float32)
    marks = np.zeros((SIDE, SIDE), np.uint8)
    for _ in range(int(rng.integers(1, 5))):
        which, side = int(rng.integers(len(items))), int(rng.integers(36, 69))
        at = np.arange(side) * 28 // side
        item = items[which][at][:, at].astype(np.float32)
        row, column = (int(rng.integers(0, SIDE - side + 1)) for _ in range(2))
        there = item >= OPAQUE
        place = np.s_[row:row + side, column:column + side]
        image[place][there] = (item[..., None] * rng.uniform(0.5, 1, 3))[there]
        marks[place][there] = 1 + labels[which]
    return np.rint(image), marks


def write(readers, path, folder, count, seed):
    """Writes train and test scenes, of Fashion-MNIST's two halves and of different photographs, with their lists and names."""
    data = photographs(path)
    try:
        os.mkdir(folder)
    except FileExistsError:
        raise Refused(f"{folder} exists already; expected the name of a new folder") from None
    except OSError as error:
        raise unwritten(folder, error.errno) from None
    sizes = {"train": count, "test": max(1, count // 8)}
    for part, reader in readers.items():
        pieces = list(reader.pieces())
        items = np.concatenate([images for images, _ in pieces]).reshape(-1, 28, 28)
        labels = np.concatenate([marks for _, marks in pieces])
        chosen = [i for i in range(len(data)) if (i % 5 == 4) == (part == "test")]
        rng = np.random.default_rng((seed, part == "test"))
        os.mkdir(os.path.join(folder, part))
        with open(os.path.join(folder, part + ".txt"), "w", encoding="ascii") as names:
            for n in range(sizes[part]):
                image, marks = scene(rng, data[chosen[int(rng.integers(len(chosen)))]], items, labels)
                for pixels, name in ((image, f"{part}/{n}.png"), (marks, f"{part}/{n}_labels.png")):
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(png(pixels))
                names.write(f"{part}/{n}.png {part}/{n}_labels.png\n")
    return sizes
