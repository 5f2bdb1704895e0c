#!/usr/bin/env python3
"""tools/make_sets.py as its users call it; the judge is h5py."""
import gzip
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
import unittest
import zlib

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests"))
from folder_case import FolderCase, h5py, np, run  # noqa: E402

TOOL = os.path.join(os.environ["abs_top_srcdir"], "tools", "make_sets.py")
BATCH = 10000
sys.path.insert(0, os.path.dirname(TOOL))
import make_sets  # noqa: E402

RNG = np.random.default_rng(1)


def cifar_batches(n):
    """Published sizes, content of our own: labels 0..9 and compressible pixels."""
    batches = []
    for b in range(n):
        records = np.zeros((BATCH, 3073), np.uint8)
        records[:, 0] = RNG.integers(0, 10, BATCH)
        records[:, 1:65] = RNG.integers(0, 256, (BATCH, 64))
        records[:, 3072] = b + 1
        batches.append(records)
    return batches


def idx(array):
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(">%dI" % array.ndim, *array.shape)
    return header + array.tobytes()


class MakeSets(FolderCase):
    def setUp(self):
        super().setUp()
        self.images = RNG.integers(0, 256, (7, 4, 5), dtype=np.uint8)
        self.labels = RNG.integers(0, 10, 7).astype(np.uint8)

    def run_tool(self, *arguments, **options):
        return run(sys.executable, TOOL, *arguments, **options)

    def good(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def bad(self, *arguments, says, **options):
        done = self.refuses(sys.executable, TOOL, *arguments, says=says, **options)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def check(self, out, data, labels):
        with h5py.File(out, "r") as f:
            self.assertEqual(f["data"].dtype, np.uint8)
            self.assertEqual(f["data"].shape, data.shape)
            self.assertTrue((f["data"][:] == data).all())
            self.assertEqual(f["label"].dtype, np.int32)
            self.assertEqual(f["label"].shape, (len(labels),))
            self.assertTrue((f["label"][:] == labels).all())

    def put_idx(self, prefix="train"):
        self.write(prefix + "-images-idx3-ubyte", idx(self.images))
        self.write(prefix + "-labels-idx1-ubyte", idx(self.labels))

    # ---- IDX
    def test_idx_folder_plain(self):
        self.put_idx("train")
        out = self.path("x.h5")
        said = self.good("mnist", self.dir, out)
        self.check(out, self.images[:, None], self.labels)
        self.assertIn("7 records of 1x4x5", said)

    def test_idx_folder_packed_test_split(self):
        self.write("t10k-images-idx3-ubyte.gz", gzip.compress(idx(self.images)))
        self.write("t10k-labels-idx1-ubyte.gz", gzip.compress(idx(self.labels)))
        out = self.path("x.h5")
        self.bad("mnist", self.dir, out, says=["no train-images-idx3-ubyte"])
        self.good("mnist", self.dir, out, "--split=test")
        self.check(out, self.images[:, None], self.labels)

    def test_idx_single_files(self):
        self.put_idx("mine")
        out = self.path("x.h5")
        self.good("mnist", self.path("mine-images-idx3-ubyte"), out)
        self.check(out, self.images[:, None], self.labels)

    def test_gzip_levels_and_attributes(self):
        self.put_idx()
        out = self.path("x.h5")
        self.good("mnist", self.dir, out, "--gzip=5")
        self.check(out, self.images[:, None], self.labels)
        with h5py.File(out, "r") as f:
            self.assertEqual(f["data"].compression_opts, 5)
            self.assertEqual(f.attrs["source"], self.dir)

    def test_pad_puts_a_border_of_the_mean_colour_around(self):
        self.put_idx()
        out = self.path("x.h5")
        self.good("mnist", self.dir, out, "--pad=2")
        colour = int(self.images.mean() + 0.5)
        expected = np.full((7, 1, 8, 9), colour, np.uint8)
        expected[:, 0, 2:-2, 2:-2] = self.images
        self.check(out, expected, self.labels)

    def test_pad_can_mirror_the_pixels_beside_it(self):
        self.put_idx()
        out = self.path("x.h5")
        self.good("mnist", self.dir, out, "--pad=2", "--reflect")
        rows, columns = [2, 1, 0, 1, 2, 3, 2, 1], [2, 1, 0, 1, 2, 3, 4, 3, 2]
        self.check(out, self.images[:, None][:, :, rows][:, :, :, columns], self.labels)

    def test_classes(self):
        self.labels[3] = 12
        self.put_idx()
        out = self.path("x.h5")
        self.bad("mnist", self.dir, out, says=["train-labels-idx1-ubyte", "label 12 in record 3",
                                               "offset 11", "0..9"])
        self.good("mnist", self.dir, out, "--classes=13")
        self.check(out, self.images[:, None], self.labels)

    def test_fashion_mnist_of_the_system(self):
        folder = "/usr/share/datasets/fashion-mnist"
        if not os.path.isdir(folder):
            self.skipTest("dataset-fashion-mnist is not installed")
        out = self.path("x.h5")
        self.good("mnist", folder, out, "--split=test")
        with gzip.open(folder + "/t10k-images-idx3-ubyte.gz") as f:
            data = np.frombuffer(f.read(), np.uint8, offset=16).reshape(10000, 1, 28, 28)
        with gzip.open(folder + "/t10k-labels-idx1-ubyte.gz") as f:
            labels = np.frombuffer(f.read(), np.uint8, offset=8)
        self.check(out, data, labels)

    # ---- CIFAR-10
    def test_cifar_folder(self):
        batches = cifar_batches(6)
        train = np.concatenate(batches[:5])
        out = self.path("x.h5")
        folder = self.path("cifar-10-batches-bin")
        os.mkdir(folder)
        for b, records in enumerate(batches):
            name = "data_batch_%d.bin" % (b + 1) if b < 5 else "test_batch.bin"
            self.write(os.path.join(folder, name), records.tobytes())
        meta = self.write(os.path.join(folder, "batches.meta.txt"),
                        b"".join(b"class%d\n" % k for k in range(10)) + b"\n")
        said = self.good("cifar10", folder, out)
        self.check(out, train[:, 1:].reshape(-1, 3, 32, 32), train[:, 0])
        self.assertIn("50000 records of 3x32x32", said)
        self.assertIn("class3 %d" % (train[:, 0] == 3).sum(), said)
        with h5py.File(out, "r") as f:
            self.assertEqual(list(f.attrs["classes"]),
                             ["class%d" % k for k in range(10)])
        self.good("cifar10", folder, out, "--split=test", "--force")
        self.check(out, batches[5][:, 1:].reshape(-1, 3, 32, 32), batches[5][:, 0])
        files = [os.path.join(folder, "data_batch_%d.bin" % b) for b in (2, 1)]
        self.good("cifar10", *files, out, "--force")
        both = np.concatenate([batches[1], batches[0]])
        self.check(out, both[:, 1:].reshape(-1, 3, 32, 32), both[:, 0])

        os.unlink(out)
        self.write(meta, b"one\ntwo\n")
        self.bad("cifar10", folder, out, "--split=test", says=["batches.meta.txt: 2 class names", "expected 10"])
        self.write(meta, b"x" * 5000)
        self.bad("cifar10", folder, out, "--split=test", says=["batches.meta.txt: more than 4096 bytes"])
        os.unlink(meta)
        batches[5][77, 0] = 11
        test = self.write(os.path.join(folder, "test_batch.bin"), batches[5].tobytes())
        self.bad("cifar10", folder, out, "--split=test",
                 says=["test_batch.bin", "label 11 in record 77", "offset %d" % (77 * 3073), "0..9"])
        batches[5][77, 0] = 1
        self.write(test, batches[5].tobytes() + b"1")
        self.bad("cifar10", folder, out, "--split=test", says=["test_batch.bin: extra bytes after record 10000"])
        with open(files[0], "r+b") as f:
            f.truncate(10000)
        self.bad("cifar10", folder, out, says=["data_batch_2.bin", "offset 10000", "record 3"])
        os.rename(files[0], files[0] + ".xz")
        self.bad("cifar10", folder, out, says=["data_batch_2.bin.xz", "unpack"])
        os.rename(files[0] + ".xz", files[0][:-4])
        self.bad("cifar10", folder, out, says=["Python version", "binary version"])
        archive = self.write("cifar-10-binary.tar.gz", b"any")
        self.bad("cifar10", archive, out, says=["cifar-10-binary.tar.gz is no folder: unpack", "tar xf"])
        self.bad("cifar10", self.path("none"), out, says=["none: No such file"])

    def test_cifar_real(self):
        data = os.environ.get("POSEIDON_DATA", "")
        source = os.path.join(data, "cifar10", "test_batch.bin.xz")
        if not data or not os.path.isfile(source) or not shutil.which("xz"):
            self.skipTest("POSEIDON_DATA has no cifar10, or there is no xz")
        content = subprocess.run(["xz", "-dc", source], stdout=subprocess.PIPE, check=True).stdout
        out = self.path("x.h5")
        self.good("cifar10", self.write("test_batch.bin", content), out)
        records = np.frombuffer(content, np.uint8).reshape(10000, 3073)
        self.check(out, records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0])

    # ---- places to write to
    def test_existing_output_is_kept_without_force(self):
        self.put_idx()
        out = self.write("x.h5", b"precious")
        self.bad("mnist", self.dir, out, says=["x.h5 exists already", "--force"])
        with open(out, "rb") as f:
            self.assertEqual(f.read(), b"precious")
        self.good("mnist", self.dir, out, "--force")
        self.check(out, self.images[:, None], self.labels)

    def test_failed_reading_keeps_the_existing_output_with_force(self):
        self.put_idx()
        self.write("train-labels-idx1-ubyte", idx(self.labels)[:-1])
        out = self.write("x.h5", b"precious")
        self.bad("mnist", self.dir, out, "--force", says=["train-labels-idx1-ubyte", "offset 14"])
        with open(out, "rb") as f:
            self.assertEqual(f.read(), b"precious")

    def test_source_is_not_overwritten(self):
        source = self.write("x.bin", cifar_batches(1)[0].tobytes())
        os.link(source, self.path("x.h5"))
        self.bad("cifar10", source, self.path("x.h5"), "--force", says=["is one of the inputs"])

    def test_folders_that_cannot_be_written(self):
        self.put_idx()
        self.bad("mnist", self.dir, self.path("none", "x.h5"), says=["none", "No such file"])
        self.bad("mnist", self.dir, self.dir, says=["is a folder"])
        os.mkdir(self.path("locked"))
        os.chmod(self.path("locked"), stat.S_IRUSR | stat.S_IXUSR)
        if os.geteuid() != 0:
            self.bad("mnist", self.dir, self.path("locked", "x.h5"), says=["Permission denied"])
        else:
            self.bad("mnist", self.dir, "/proc/x.h5", says=["/proc/x.h5"])

    def test_full_disk_leaves_nothing(self):
        self.images = RNG.integers(0, 256, (4000, 28, 28), dtype=np.uint8)
        self.labels = RNG.integers(0, 10, 4000).astype(np.uint8)
        self.put_idx()
        # A limit on the size of files fails like a full disk, and needs no privileges.
        for kilobytes in (0, 1, 100, 2000, 3070):
            command = "trap '' XFSZ; ulimit -f %d; exec \"$@\"" % kilobytes
            before = sorted(os.listdir(self.dir))
            done = subprocess.run(["bash", "-c", command, "bash", sys.executable, TOOL, "mnist",
                                   self.dir, self.path("x.h5")],
                                  capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("x.h5", done.stderr)
            self.assertIn("File too large", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_interrupt_leaves_nothing(self):
        batches = cifar_batches(5)
        for b, records in enumerate(batches):
            self.write("c/data_batch_%d.bin" % (b + 1), records.tobytes())
        before = sorted(os.listdir(self.dir))
        for delay in (0.05, 0.3, 0.6, 1.2):
            process = subprocess.Popen([sys.executable, TOOL, "cifar10", self.path("c"),
                                        self.path("x.h5"), "--gzip=9"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            status = process.wait(600)
            if status == 0:
                os.unlink(self.path("x.h5"))
            else:
                self.assertIn(status, (-signal.SIGINT, 1, 130))
            self.assertEqual(sorted(os.listdir(self.dir)), before)

    # ---- damage
    def test_idx_cut_anywhere_names_file_and_offset(self):
        self.put_idx()
        for name, whole in (("train-labels-idx1-ubyte", idx(self.labels)), ("train-images-idx3-ubyte", idx(self.images))):
            for cut in (*range(21), *range(21, len(whole), 13), len(whole) - 1):
                if cut >= len(whole):
                    continue
                self.write(name, whole[:cut])
                self.refused(name, "truncated", "at offset %d" % cut)
            self.write(name, whole + b"1")
            self.refused(name, "extra bytes", "offset %d" % len(whole))
            self.write(name, whole)

    def test_packed_idx_cut_or_damaged_is_never_taken_for_good(self):
        self.put_idx()
        os.unlink(self.path("train-images-idx3-ubyte"))
        name, packed = "train-images-idx3-ubyte.gz", gzip.compress(idx(self.images), mtime=0)
        for cut in range(0, len(packed), 7):
            self.write(name, packed[:cut])
            self.refused(name, "offset")
        for at in range(0, len(packed), 3):
            self.write(name, packed[:at] + bytes([packed[at] ^ 1 << at % 8]) + packed[at + 1:])
            try:
                shape, pieces = self.read_set()
            except make_sets.Refused:
                continue
            self.assertEqual(shape, (1, 4, 5))  # a bit of no meaning, such as the time of packing
            self.assertTrue((pieces == self.images.reshape(7, 20)).all())

    def test_idx_of_wrong_kind_or_size_says_what_was_expected(self):
        self.put_idx()
        images, labels = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
        whole = idx(self.images)
        for content, says in ((idx(self.labels), ["0x00000801 at offset 0", "labels", "expected 0x00000803"]),
                              (b"PNG, or so", ["0x504e472c at offset 0", "expected 0x00000803"]),
                              (whole[:4] + bytes(4) + whole[8:], ["size 0 at offset 4", "expected at least 1"]),
                              (whole[:4] + b"\xff" * 12 + whole[16:], ["offset 8", "65536"]),
                              (whole[:4] + b"\xff" * 4 + whole[8:], ["4294967295 images", "7 labels"]),
                              (b"version https://git-lfs.github.com/spec/v1\n", ["expected data, found a Git LFS pointer"]),
                              (b"<!doctype html>", ["expected data, found an HTML page"])):
            self.write(images, content)
            self.refused(images, *says)
        self.write(images, whole)
        self.labels[2] = 10
        self.write(labels, idx(self.labels))
        self.refused(labels, "label 10 in record 2", "offset 10", "expected 0..9")
        self.write(labels, idx(self.labels[:2]))
        self.refused(labels, "2 labels at offset 4", "7 images")
        os.unlink(self.path(labels))
        self.refused("no labels file", labels)
        os.mkfifo(self.path(labels))
        self.refused(labels, "is not a regular file")

    def test_cifar_file_cut_anywhere_is_refused_unless_between_records(self):
        records = cifar_batches(1)[0][:2]
        for cut in (0, 1, 40, 3072, 3074, 6145, 6146):
            self.write("x.bin", records.tobytes()[:cut])
            if cut == 6146:
                self.good("cifar10", self.path("x.bin"), self.path("y.h5"))
                self.check(self.path("y.h5"), records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0])
            else:
                self.bad("cifar10", self.path("x.bin"), self.path("y.h5"),
                         says=["x.bin", "truncated in record %d, at offset %d" % (cut // 3073, cut) if cut else "empty"])

    def refused(self, *says):
        """The reader's own message: a process for each cut would take minutes."""
        with self.assertRaises(make_sets.Refused) as caught:
            self.read_set()
        for piece in says:
            self.assertIn(piece, str(caught.exception))

    def read_set(self):
        reader = make_sets.Mnist([self.dir], None, None)
        return reader.shape, np.concatenate([data for data, _ in reader.pieces()])

    # ---- wrong usage
    def test_wrong_usage(self):
        self.put_idx()
        out, images = self.path("x.h5"), self.path("train-images-idx3-ubyte")
        for arguments, says in [
                (["mnist", self.dir], "required"),
                (["svhn", self.dir, out], "invalid choice: 'svhn'"),
                (["mnist", self.dir, out, "--gzip=10"], "--gzip: expected a number from 0 to 9, found 10"),
                (["mnist", self.dir, out, "--gzip=x"], "--gzip: expected a whole number, found 'x'"),
                (["mnist", self.dir, out, "--classes=0"], "from 1 to 256"),
                (["mnist", self.dir, out, "--pad=-1"], "from 0 to 1024"),
                (["mnist", self.dir, out, "--reflect"], "--reflect needs --pad=N"),
                (["mnist", self.dir, out, "--split=validation"], "invalid choice: 'validation'")]:
            done = self.run_tool(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)
        for arguments, says in [
                (["mnist", images, out, "--split=test"], "is a single file"),
                (["mnist", self.dir, self.dir, out], "several"),
                (["mnist", self.dir, self.path("x_lmdb")], "ends in .h5"),
                (["cifar10", self.dir, out, "--classes=10"], "--classes is for mnist"),
                (["mnist", self.path("nowhere"), out], "nowhere: No such file"),
                (["cifar10", self.path("nowhere"), out], "nowhere: No such file"),
                (["cifar10", images, out], "is no folder: unpack")]:
            self.bad(*arguments, says=[says])
        self.assertIn("usage: make_sets.py mnist SRC DST.h5", self.good("--help"))

    # ---- scenes
    def scenes(self, name, *options):
        said = self.good("scenes", self.path("items"), self.path("photographs.h5"), self.path(name), "--count=16", *options)
        self.assertIn("16 scenes in train.txt, 2 in test.txt", said)
        found = []
        for part in "train", "test":
            with open(self.path(name, part + ".txt"), encoding="ascii") as f:
                for line in f:
                    pair = []
                    for file in line.split():
                        with open(self.path(name, file), "rb") as picture:
                            data = picture.read()
                        width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
                        at = data.index(b"IDAT")
                        rows = zlib.decompress(data[at + 4:at + 4 + struct.unpack(">I", data[at - 4:at])[0]])
                        self.assertEqual((width, height, depth), (96, 96, 8))
                        channels = {0: 1, 2: 3}[kind]
                        pair.append(np.frombuffer(rows, np.uint8).reshape(96, 1 + 96 * channels)[:, 1:].reshape(96, 96, channels))
                    found.append(pair)
        return found

    def test_scenes(self):
        items, labels = RNG.integers(0, 256, (40, 28, 28), dtype=np.uint8), (np.arange(40) % 10).astype(np.uint8)
        for half in "train", "t10k":
            self.write("items/%s-images-idx3-ubyte" % half, idx(items))
            self.write("items/%s-labels-idx1-ubyte" % half, idx(labels))
        photographs = RNG.integers(0, 256, (10, 3, 100, 99), dtype=np.uint8)
        with h5py.File(self.path("photographs.h5"), "w") as f:
            f["data"] = photographs
        found = self.scenes("s")
        self.assertEqual(len(found), 18)
        self.assertEqual(set(np.unique([marks for _, marks in found])), set(range(11)))
        for number, (image, marks) in enumerate(found):
            behind = marks[..., 0] == 0
            self.assertTrue(0.005 < behind.mean() < 0.95)
            fits = [i for i, photograph in enumerate(photographs[:, ::-1].transpose(0, 2, 3, 1)) for top in range(5) for left in range(4)
                    if (photograph[top:top + 96, left:left + 96][behind] == image[behind]).all()]
            self.assertEqual(len(fits), 1, number)
            self.assertEqual(fits[0] % 5 == 4, number >= 16)  # of other photographs to test than to train
        again, other = self.scenes("again"), self.scenes("other", "--seed=2")
        self.assertTrue(all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(found, again)))
        self.assertFalse(any((a[0] == b[0]).all() for a, b in zip(found, other)))
        self.bad("scenes", self.path("items"), self.path("photographs.h5"), self.path("s"), says=["s exists already; expected the name of a new"])
        self.bad("scenes", self.path("items"), self.path("new"), says=["scenes: expected Fashion-MNIST's folder, PHOTOGRAPHS.h5"])
        with h5py.File(self.path("small.h5"), "w") as f:
            f["data"] = photographs[:, :, :95]
        self.bad("scenes", self.path("items"), self.path("small.h5"), self.path("new"), says=["expected photographs of at least 96 x 96"])

    def test_a_missing_module_is_one_line(self):
        self.put_idx()
        self.write("none/h5py.py", b"raise ImportError('no module', name='h5py')")
        self.bad("mnist", self.dir, self.path("x.h5"), says=["h5py is missing: pip install h5py"],
                 env={**os.environ, "PYTHONPATH": self.path("none")})


if __name__ == "__main__":
    unittest.main(verbosity=1)
