#!/usr/bin/env python3
"""make_sets.py mnist SRC DST.h5 | cifar10 SRC... DST.h5 | scenes SRC PHOTOGRAPHS.h5 FOLDER

Writes a published data set as DST.h5 for Data and HDF5Data layers: `data`, uint8 N x C x H x W, the original bytes, and
`label`, int32 N. A first reading checks every record, a second one writes them in pieces, so a set may be larger than memory.
scenes makes pictures and their labels for segmentation (scenes.py).
"""
import argparse
import gzip
import os
import zlib

from tool_files import Refused, check_output, run, write_hdf5

PIECE = 1 << 20  # bytes read, or written, at a time
KINDS = ((b"version https://git-lfs", "a Git LFS pointer: 'git lfs pull' fetches the file"), (b"<!DOCTYPE", "an HTML page"),
         (b"<html", "an HTML page"), (b"\x89HDF", "an HDF5 file: Data layers read it as it is"), (b"PK\3\4", "a zip archive: unpack it"),
         (b"\xfd7zXZ", "an xz file: unpack it"), (b"BZh", "a bzip2 file: unpack it"))
IMAGES, LABELS = 0x803, 0x801


class Stream:
    """Bytes of a plain or gzip file, in order. `offset` counts those read."""

    def __init__(self, path):
        self.path, self.offset, self.file = path, 0, None

    def __enter__(self):
        if os.path.isdir(self.path):
            raise Refused(f"{self.path} is a folder; expected a file")
        if not os.path.isfile(self.path) and os.path.exists(self.path):
            raise Refused(f"{self.path} is not a regular file")
        with open(self.path, "rb") as file:
            begin = file.read(16)
        for magic, kind in KINDS:
            if begin.lower().startswith(magic.lower()[:16]):
                raise Refused(f"{self.path}: expected data, found {kind}")
        self.file = gzip.open(self.path) if begin[:2] == b"\x1f\x8b" else open(self.path, "rb")
        return self

    def __exit__(self, *_):
        self.file.close()

    def read(self, nbytes):
        """At most `nbytes`, fewer at the end alone."""
        try:
            found = self.file.read(nbytes)
        except EOFError:
            raise Refused(f"{self.path}: truncated gzip file; its data end at offset {self.offset}") from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise Refused(f"{self.path}: damaged gzip data after offset {self.offset} ({error})") from None
        self.offset += len(found)
        return found

    def records(self, nbytes, count=None):
        """Arrays of whole records, `count` of them or all that there are; then the file ends."""
        import numpy as np
        step, done = max(1, PIECE // nbytes), 0
        while count is None or done < count:
            wanted = step if count is None else min(step, count - done)
            piece = self.read(wanted * nbytes)
            whole, rest = divmod(len(piece), nbytes)
            done += whole
            if rest or (count is not None and whole < wanted):
                raise Refused(f"{self.path}: truncated in record {done}, at offset {self.offset}: {rest} of {nbytes} bytes")
            if whole:
                yield np.frombuffer(piece, np.uint8).reshape(whole, nbytes)
            if whole < wanted:
                return
        if self.read(1):
            raise Refused(f"{self.path}: extra bytes after record {done}, from offset {self.offset - 1} on")


def idx_sizes(stream, magic):
    """The sizes in the header of one of MNIST's files."""
    kind = {IMAGES: "images", LABELS: "labels"}
    head = stream.read(4)
    if len(head) < 4:
        raise Refused(f"{stream.path}: truncated at offset {len(head)}, in the IDX magic number")
    found = int.from_bytes(head, "big")
    if found != magic:
        what = f", a file of {kind[found]}" if found in kind else ""
        raise Refused(f"{stream.path}: magic number 0x{found:08x} at offset 0{what}; expected 0x{magic:08x}, "
                      f"an IDX file of {kind[magic]}")
    head = stream.read(4 * (magic & 255))
    if len(head) < 4 * (magic & 255):
        raise Refused(f"{stream.path}: truncated at offset {stream.offset}, in the IDX header")
    sizes = [int.from_bytes(head[i:i + 4], "big") for i in range(0, len(head), 4)]
    if 0 in sizes:
        raise Refused(f"{stream.path}: size 0 at offset {4 + 4 * sizes.index(0)} of the header; expected at least 1")
    if max(sizes[1:], default=0) > 65536:
        raise Refused(f"{stream.path}: images of {sizes[1]} x {sizes[2]} at offset 8; expected at most 65536 x 65536")
    return sizes


class Mnist:
    """An images file in IDX form with the labels file beside it."""

    def __init__(self, sources, split, classes):
        if len(sources) > 1:
            raise Refused(f"{len(sources)} sources given; only .bin files of cifar10 can be several")
        self.images = self.folder(sources[0], split or "train") if os.path.isdir(sources[0]) else sources[0]
        if split and self.images == sources[0] and os.path.exists(sources[0]):
            raise Refused(f"--split is for folders; '{sources[0]}' is a single file")
        self.classes, self.names, self.files = classes or 10, [], [self.images]
        with Stream(self.images) as stream:
            self.count, *sizes = idx_sizes(stream, IMAGES)
        self.shape = (1, *sizes)
        self.files.append(self.beside(self.images))

    @staticmethod
    def folder(folder, split):
        prefix = "t10k" if split == "test" else "train"
        for middle in "-", ".":
            for packed in "", ".gz":
                path = os.path.join(folder, f"{prefix}-images{middle}idx3-ubyte{packed}")
                if os.path.exists(path):
                    return path
        raise Refused(f"{folder}: no {prefix}-images-idx3-ubyte[.gz]; expected MNIST's IDX files")

    @staticmethod
    def beside(images):
        folder, name = os.path.split(images)
        before, word, behind = name.partition("images")
        if not word or "idx3" not in behind:
            raise Refused(f'{images}: expected a name with "images" and "idx3", for the labels file beside it to be found')
        labels = os.path.join(folder, before + "labels" + behind.replace("idx3", "idx1", 1))
        for path in labels, labels[:-3] if labels.endswith(".gz") else labels + ".gz":
            if os.path.exists(path):
                return path
        raise Refused(f"{images}: no labels file beside it; expected {labels}")

    def pieces(self):
        import numpy as np
        with Stream(self.files[0]) as images, Stream(self.files[1]) as labels:
            idx_sizes(images, IMAGES)
            count, = idx_sizes(labels, LABELS)
            if count != self.count:
                raise Refused(f"{labels.path}: {count} labels at offset 4, but {images.path} has {self.count} images")
            marks = np.concatenate(list(labels.records(1, count)))[:, 0]
            check_labels(labels.path, marks, 0, self.classes, 8, 1)
            done = 0
            for piece in images.records(int(np.prod(self.shape)), self.count):
                yield piece, marks[done:done + len(piece)]
                done += len(piece)


class Cifar10:
    """The binary version: records of a label and three planes of 32 x 32."""
    RECORD = 1 + 3072

    def __init__(self, sources, split, classes):
        self.count, self.shape, self.classes, self.names = None, (3, 32, 32), 10, []
        if classes:
            raise Refused("--classes is for mnist; CIFAR-10 has 10 classes")
        self.each = None
        if all(path.endswith((".bin", ".bin.gz")) and not os.path.isdir(path) for path in sources):
            if split:
                raise Refused(f"--split is for folders; '{sources[0]}' is a single file")
            self.files = sources
            return
        if len(sources) > 1:
            raise Refused(f"{len(sources)} sources given; only .bin files of cifar10 can be several")
        folder = sources[0]
        if not os.path.isdir(folder):
            os.stat(folder)
            raise Refused(f"{folder} is no folder: unpack the archive of CIFAR-10's binary version by 'tar xf', and name the "
                          "folder, cifar-10-batches-bin")
        names = ["test_batch.bin"] if split == "test" else [f"data_batch_{i}.bin" for i in range(1, 6)]
        self.each, self.files = 10000, [os.path.join(folder, name) for name in names]
        for path in self.files:
            if not os.path.exists(path):
                raise Refused(self.missing(folder, path))
        self.names = self.read_names(os.path.join(folder, "batches.meta.txt"))

    @staticmethod
    def missing(folder, path):
        for packed in ".xz", ".gz", ".bz2":
            if os.path.exists(path + packed):
                return f"{path}{packed} is compressed; unpack it to {os.path.basename(path)} first"
        name, bare = os.path.basename(path), os.path.basename(path)[:-4]
        if os.path.exists(path[:-4]):
            return f"{folder}: no {name}; {bare} belongs to the Python version of CIFAR-10, and the binary version is needed"
        return f"{folder}: no {name}; expected the files of CIFAR-10's binary version"

    @staticmethod
    def read_names(path):
        if not os.path.exists(path):
            return []
        with Stream(path) as stream:
            text = stream.read(4097)
        if len(text) > 4096:
            raise Refused(f"{path}: more than 4096 bytes; expected 10 lines")
        names = text.decode("utf-8", "replace").split()
        if len(names) != 10:
            raise Refused(f"{path}: {len(names)} class names; expected 10, one per line")
        return names

    def pieces(self):
        for path in self.files:
            done = 0
            with Stream(path) as stream:
                for piece in stream.records(self.RECORD, self.each):
                    check_labels(path, piece[:, 0], done, 10, 0, self.RECORD)
                    yield piece[:, 1:], piece[:, 0]
                    done += len(piece)
            if not done:
                raise Refused(f"{path}: empty; expected records of {self.RECORD} bytes")


def check_labels(path, labels, before, classes, header, nbytes):
    """Refuses the first label that is no class; `before` records precede these."""
    wrong = (labels >= classes).nonzero()[0]
    if len(wrong):
        record = before + int(wrong[0])
        raise Refused(f"{path}: label {labels[wrong[0]]} in record {record}, at offset {header + record * nbytes}; "
                      f"expected 0..{classes - 1}")


def survey(reader):
    """Checks all records: their number in each class, and the rounded mean of each channel."""
    import numpy as np
    counts, sums = np.zeros(reader.classes, np.int64), np.zeros(reader.shape[0], np.uint64)
    for data, labels in reader.pieces():
        counts += np.bincount(labels, minlength=reader.classes)
        sums += data.reshape(len(data), reader.shape[0], -1).sum((0, 2), dtype=np.uint64)
    total = int(counts.sum()) * reader.shape[1] * reader.shape[2]
    return counts, ((sums + total // 2) // total).astype(np.uint8)


def write(reader, path, source, arguments):
    """The whole set under a temporary name, which becomes `path` at the end."""
    import numpy as np
    counts, colour = survey(reader)
    count, pad = int(counts.sum()), arguments.pad
    channels, height, width = reader.shape
    shape = (channels, height + 2 * pad, width + 2 * pad)
    step = max(1, PIECE // int(np.prod(shape)))
    packed = {"compression": "gzip", "compression_opts": arguments.gzip, "chunks": (min(step, count), *shape)} if arguments.gzip else {}
    with write_hdf5(path) as (file, check):
        images = file.create_dataset("data", (count, *shape), "u1", **packed)
        marks = file.create_dataset("label", (count,), "<i4")
        file.attrs["source"] = source
        if reader.names:
            file.attrs["classes"] = reader.names
        done = 0
        for data, labels in reader.pieces():
            block = data.reshape(-1, *reader.shape)
            if arguments.reflect:
                block = np.pad(block, [(0, 0), (0, 0), (pad, pad), (pad, pad)], "reflect")
            elif pad:
                block, inner = np.empty((len(data), *shape), np.uint8), block
                block[:] = colour[:, None, None]
                block[:, :, pad:pad + height, pad:pad + width] = inner
            images[done:done + len(data)] = block
            marks[done:done + len(data)] = labels
            done += len(data)
            check()
    return counts, shape


def number(low, high):
    """The type of an option: a whole number from `low` to `high`."""
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, found '{text}'") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"expected a number from {low} to {high}, found {value}")
        return value
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="make_sets.py", usage="%(prog)s mnist SRC DST.h5 [OPTIONS]\n       %(prog)s cifar10 SRC... DST.h5 [OPTIONS]\n"
        "       %(prog)s scenes SRC PHOTOGRAPHS.h5 FOLDER [--count=N] [--seed=N]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Writes a published data set as DST.h5 for Data and HDF5Data layers.\n\n"
        "  mnist SRC    the folder with IDX files (train-images-idx3-ubyte[.gz] ...),\n"
        "               or an images file with its labels file beside it;\n"
        "               Fashion-MNIST has the same form\n"
        "  cifar10 SRC  the binary version: its folder, unpacked (cifar-10-batches-bin),\n"
        "               or .bin files\n"
        "  scenes SRC PHOTOGRAPHS.h5  96 x 96 pictures of Fashion-MNIST's items on pieces\n"
        "               of photographs, and pictures of labels, in a new FOLDER with\n"
        "               train.txt and test.txt for ImageSegData",
        epilog="example: make_sets.py mnist /usr/share/datasets/fashion-mnist fashion.h5")
    parser.add_argument("kind", choices=("mnist", "cifar10", "scenes"), help=argparse.SUPPRESS)
    parser.add_argument("source", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("output", help=argparse.SUPPRESS)
    parser.add_argument("--split", choices=("train", "test"), help="half of a folder (default train)")
    parser.add_argument("--classes", type=number(1, 256), metavar="N", help="mnist: labels are 0..N-1 (default 10)")
    parser.add_argument("--pad", type=number(0, 1024), default=0, metavar="N",
                        help="add a border of N pixels in the mean colour, so that crops of the old size fit")
    parser.add_argument("--reflect", action="store_true", help="the border of --pad mirrors the pixels beside it")
    parser.add_argument("--gzip", type=number(0, 9), default=0, metavar="LEVEL",
                        help="compress, 1..9 (default 0: larger, but any record is read at once)")
    parser.add_argument("--count", type=number(1, 1000000), default=4000, metavar="N",
                        help="scenes: pictures to train with (default 4000; an eighth as many to test)")
    parser.add_argument("--seed", type=number(0, 2**31), default=1, metavar="N", help="scenes: another number gives others (default 1)")
    parser.add_argument("--force", action="store_true", help="replace DST.h5 if it exists")
    arguments = parser.parse_intermixed_args()
    if arguments.reflect and not arguments.pad:
        parser.error("--reflect needs --pad=N")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.kind == "scenes":
        if len(arguments.source) != 2:
            raise Refused("scenes: expected Fashion-MNIST's folder, PHOTOGRAPHS.h5 and the name of a new FOLDER")
        import scenes
        readers = {part: Mnist(arguments.source[:1], part, 10) for part in ("train", "test")}
        sizes = scenes.write(readers, arguments.source[1], arguments.output, arguments.count, arguments.seed)
        print(f"{arguments.output}: {sizes['train']} scenes in train.txt, {sizes['test']} in test.txt; classes 0 (photograph) to 10")
        return
    check_output(arguments.output, (".h5",), arguments.source, arguments.force)
    reader = {"mnist": Mnist, "cifar10": Cifar10}[arguments.kind](arguments.source, arguments.split, arguments.classes)
    counts, shape = write(reader, arguments.output, arguments.source[0], arguments)
    each = ", ".join(f"{reader.names[k] if reader.names else f'{k}:'} {n}" for k, n in enumerate(counts))
    print(f"{arguments.output}: {counts.sum()} records of {'x'.join(map(str, shape))}; per class: {each}")


if __name__ == "__main__":
    run(main)
