#!/usr/bin/env python3
"""poseidon convert as its users call it; the judge is h5py."""
import gzip
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import h5py
    import numpy as np
except ImportError:
    print("SKIP: this Python has no h5py")
    sys.exit(77)

POSEIDON = os.environ["POSEIDON"]
BATCH = 10000
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


class Convert(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="poseidon-convert-")
        self.images = RNG.integers(0, 256, (7, 4, 5), dtype=np.uint8)
        self.labels = RNG.integers(0, 10, 7).astype(np.uint8)

    def tearDown(self):
        subprocess.call(["chmod", "-R", "u+w", self.dir])
        shutil.rmtree(self.dir)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def put(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(content)
        return self.path(name)

    def run_convert(self, *arguments, **options):
        return subprocess.run([POSEIDON, "convert", *arguments], capture_output=True, text=True,
                              timeout=600, **options)

    def good(self, *arguments):
        done = self.run_convert(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def bad(self, *arguments, says, status=1, **options):
        before = sorted(os.listdir(self.dir))
        done = self.run_convert(*arguments, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for piece in says:
            self.assertIn(piece, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(sorted(os.listdir(self.dir)), before)

    def check(self, out, data, labels):
        with h5py.File(out, "r") as f:
            self.assertEqual(f["data"].dtype, np.uint8)
            self.assertEqual(f["data"].shape, data.shape)
            self.assertTrue((f["data"][:] == data).all())
            self.assertEqual(f["label"].dtype, np.int32)
            self.assertEqual(f["label"].shape, (len(labels),))
            self.assertTrue((f["label"][:] == labels).all())

    def put_idx(self, prefix="train"):
        self.put(prefix + "-images-idx3-ubyte", idx(self.images))
        self.put(prefix + "-labels-idx1-ubyte", idx(self.labels))

    # ---- IDX
    def test_idx_folder_plain(self):
        self.put_idx("train")
        out = self.path("x.h5")
        said = self.good("mnist", self.dir, out)
        self.check(out, self.images[:, None], self.labels)
        self.assertIn("7 records of 1x4x5", said)

    def test_idx_folder_packed_test_split(self):
        self.put("t10k-images-idx3-ubyte.gz", gzip.compress(idx(self.images)))
        self.put("t10k-labels-idx1-ubyte.gz", gzip.compress(idx(self.labels)))
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
            self.assertEqual(f.attrs["source"].decode(), self.dir)

    def test_mean_is_the_mean_of_exactly_these_records(self):
        self.put_idx()
        out, mean = self.path("x.h5"), self.path("mean.h5")
        self.good("mnist", self.dir, out, "--mean=" + mean)
        with h5py.File(mean, "r") as f:
            self.assertEqual(f["mean"].shape, (1, 4, 5))
            expected = self.images.astype(np.float64).mean(0)[None].astype(np.float32)
            self.assertTrue((f["mean"][:] == expected).all())

    def test_shuffle_keeps_pairs_and_follows_the_seed(self):
        self.labels = np.arange(7, dtype=np.uint8)
        self.images[:, 0, 0] = self.labels
        self.put_idx()
        orders = []
        for k, seed in enumerate((1, 1, 2)):
            out = self.path("x%d.h5" % k)
            self.good("mnist", self.dir, out, "--shuffle", "--seed=%d" % seed)
            with h5py.File(out, "r") as f:
                order = f["label"][:]
                self.check(out, self.images[order][:, None], order)
            orders.append(list(order))
        self.assertEqual(sorted(orders[0]), list(range(7)))
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])

    def test_pad_puts_a_border_of_the_mean_colour_around(self):
        self.put_idx()
        out, mean = self.path("x.h5"), self.path("m.h5")
        self.good("mnist", self.dir, out, "--pad=2", "--mean=" + mean)
        colour = int(self.images.mean() + 0.5)
        expected = np.full((7, 1, 8, 9), colour, np.uint8)
        expected[:, 0, 2:-2, 2:-2] = self.images
        self.check(out, expected, self.labels)
        with h5py.File(mean, "r") as f:
            self.assertEqual(f["mean"][0, 0, 0], colour)
        self.bad("mnist", self.dir, self.path("y.h5"), "--pad=x", says=["--pad expects a whole number, found 'x'"],
                 status=1)

    def test_json_summary(self):
        self.put_idx()
        said = json.loads(self.good("mnist", self.dir, self.path("x.h5"), "--json"))
        self.assertEqual(said["records"], 7)
        self.assertEqual(said["shape"], [1, 4, 5])
        self.assertEqual(said["records_per_class"], [int((self.labels == k).sum()) for k in range(10)])

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
            self.put(os.path.join(folder, name), records.tobytes())
        meta = self.put(os.path.join(folder, "batches.meta.txt"),
                        b"".join(b"class%d\n" % k for k in range(10)) + b"\n")
        said = self.good("cifar10", folder, out)
        self.check(out, train[:, 1:].reshape(-1, 3, 32, 32), train[:, 0])
        self.assertIn("50000 records of 3x32x32", said)
        self.assertIn("class3 %d" % (train[:, 0] == 3).sum(), said)
        with h5py.File(out, "r") as f:
            self.assertEqual([c.decode() for c in f.attrs["classes"]],
                             ["class%d" % k for k in range(10)])
        self.good("cifar10", folder, out, "--split=test", "--force")
        self.check(out, batches[5][:, 1:].reshape(-1, 3, 32, 32), batches[5][:, 0])
        files = [os.path.join(folder, "data_batch_%d.bin" % b) for b in (2, 1)]
        self.good("cifar10", *files, out, "--force")
        both = np.concatenate([batches[1], batches[0]])
        self.check(out, both[:, 1:].reshape(-1, 3, 32, 32), both[:, 0])

        os.unlink(out)
        self.put(meta, b"one\ntwo\n")
        self.bad("cifar10", folder, out, "--split=test", says=["batches.meta.txt: 2 class names", "expected 10"])
        self.put(meta, b"x" * 5000)
        self.bad("cifar10", folder, out, "--split=test", says=["batches.meta.txt: more than 4096 bytes"])
        os.unlink(meta)
        batches[5][77, 0] = 11
        test = self.put(os.path.join(folder, "test_batch.bin"), batches[5].tobytes())
        self.bad("cifar10", folder, out, "--split=test",
                 says=["test_batch.bin", "label 11 in record 77", "offset %d" % (77 * 3073), "0..9"])
        batches[5][77, 0] = 1
        self.put(test, batches[5].tobytes() + b"1")
        self.bad("cifar10", folder, out, "--split=test", says=["test_batch.bin: extra bytes after record 10000"])
        with open(files[0], "r+b") as f:
            f.truncate(10000)
        self.bad("cifar10", folder, out, says=["data_batch_2.bin", "offset 10000", "record 3"])
        os.rename(files[0], files[0] + ".xz")
        self.bad("cifar10", folder, out, says=["data_batch_2.bin.xz", "unpack"])
        os.rename(files[0] + ".xz", files[0][:-4])
        self.bad("cifar10", folder, out, says=["Python version", "binary version"])
        archive = self.put("cifar-10-binary.tar.gz", b"any")
        self.bad("cifar10", archive, out, says=["cifar-10-binary.tar.gz is no folder: unpack", "tar xf"])
        self.bad("cifar10", self.path("none"), out, says=["none: No such file"])

    def test_cifar_real(self):
        data = os.environ.get("POSEIDON_DATA", "")
        source = os.path.join(data, "cifar10", "test_batch.bin.xz")
        if not data or not os.path.isfile(source) or not shutil.which("xz"):
            self.skipTest("POSEIDON_DATA has no cifar10, or there is no xz")
        content = subprocess.run(["xz", "-dc", source], stdout=subprocess.PIPE, check=True).stdout
        out = self.path("x.h5")
        self.good("cifar10", self.put("test_batch.bin", content), out)
        records = np.frombuffer(content, np.uint8).reshape(10000, 3073)
        self.check(out, records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0])

    # ---- places to write to
    def test_existing_output_is_kept_without_force(self):
        self.put_idx()
        out = self.put("x.h5", b"precious")
        self.bad("mnist", self.dir, out, says=["x.h5 exists already", "--force"])
        with open(out, "rb") as f:
            self.assertEqual(f.read(), b"precious")
        self.good("mnist", self.dir, out, "--force")
        self.check(out, self.images[:, None], self.labels)

    def test_failed_reading_keeps_the_existing_output_with_force(self):
        self.put_idx()
        self.put("train-labels-idx1-ubyte", idx(self.labels)[:-1])
        out = self.put("x.h5", b"precious")
        self.bad("mnist", self.dir, out, "--force", says=["train-labels-idx1-ubyte", "offset 14"])
        with open(out, "rb") as f:
            self.assertEqual(f.read(), b"precious")

    def test_source_is_not_overwritten(self):
        source = self.put("x.bin", cifar_batches(1)[0].tobytes())
        os.link(source, self.path("x.h5"))
        self.bad("cifar10", source, self.path("x.h5"), "--force", says=["is one of the inputs"])

    def test_folders_that_cannot_be_written(self):
        self.put_idx()
        self.bad("mnist", self.dir, self.path("none", "x.h5"), says=["none", "No such file"])
        self.bad("mnist", self.dir, self.dir, says=["is a folder"])
        self.bad("mnist", self.dir, self.path("x.h5"), "--mean=" + self.path("none", "m.h5"),
                 says=["none", "No such file"])
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
            done = subprocess.run(["bash", "-c", command, "bash", POSEIDON, "convert", "mnist",
                                   self.dir, self.path("x.h5"), "--mean=" + self.path("m.h5")],
                                  capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("x.h5", done.stderr)
            self.assertIn("File too large", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_interrupt_leaves_nothing(self):
        batches = cifar_batches(5)
        for b, records in enumerate(batches):
            self.put("c/data_batch_%d.bin" % (b + 1), records.tobytes())
        before = sorted(os.listdir(self.dir))
        for delay in (0.05, 0.3, 0.6, 1.2):
            process = subprocess.Popen([POSEIDON, "convert", "cifar10", self.path("c"),
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

    # ---- forms of options
    def test_every_form_that_other_commands_take(self):
        self.put_idx("t10k")
        out, mean = self.path("x.h5"), self.path("m.h5")
        self.good("-split", "test", "mnist", "--shuffle", "--seed", "3", self.dir, "-gzip=2", out, "--mean", mean)
        with h5py.File(out, "r") as f:
            spaced = f["label"][:]
            self.assertEqual(f["data"].compression_opts, 2)
        self.assertTrue(os.path.exists(mean))
        self.good("mnist", self.dir, out, "--split=test", "--shuffle=true", "--seed=3", "--force")
        with h5py.File(out, "r") as f:
            self.assertTrue((f["label"][:] == spaced).all())
        self.good("mnist", self.dir, out, "--split=test", "--force", "--noshuffle")
        self.check(out, self.images[:, None], self.labels)
        for form in ("--help", "-help", "-h"):
            said = self.good(form)
            for words in ("usage: poseidon convert cifar10", "--seed=N", "usage: poseidon convert images", "--resize"):
                self.assertIn(words, said)

    # ---- wrong usage
    def test_wrong_usage(self):
        self.put_idx()
        out = self.path("x.h5")
        images = self.path("train-images-idx3-ubyte")
        for arguments, says in [
                (["mnist", self.dir], "expected a kind"),
                (["svhn", self.dir, out], "unknown kind of data 'svhn'"),
                (["mnist", self.dir, out, "--gzip=10"], "--gzip=10: expected a number from 0 to 9"),
                (["mnist", self.dir, out, "--gzip=x"], "--gzip expects a whole number, found 'x'"),
                (["mnist", self.dir, out, "--split=validation"], "expected train or test"),
                (["mnist", self.dir, out, "--seed=4"], "no effect without --shuffle"),
                (["mnist", images, out, "--split=test"], "is a single file"),
                (["mnist", self.dir, self.dir, out], "several"),
                (["cifar10", self.dir, out, "--classes=10"], "--classes is for mnist"),
                (["mnist", self.dir, out, "--classes=0"], "from 1 to 256"),
                (["mnist", self.dir, out, "--mean="], "--mean= names no file"),
                (["mnist", self.dir, out, "--sufle"], "unknown option --sufle; did you mean --shuffle?"),
                (["mnist", self.dir, out, "--seed"], "--seed needs a value"),
                (["mnist", self.dir, out, "--pad=-1"], "--pad=-1 is out of range")]:
            self.bad(*arguments, says=[says], status=1)
        self.bad("mnist", self.dir, out, "--mean=" + out, says=["the same file"])
        self.bad("mnist", self.path("nowhere"), out, says=["nowhere", "No such file"])
        self.bad("cifar10", self.path("nowhere"), out, says=["nowhere", "No such file"])
        self.bad("cifar10", images, out, says=["is no folder: unpack"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
