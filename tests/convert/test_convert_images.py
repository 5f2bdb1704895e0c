#!/usr/bin/env python3
"""poseidon convert images and poseidon mean. Judges: h5py, python3-lmdb where it is there, and what
OpenCV made of the pictures (tests/data/input/images.h5)."""
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
import zlib

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests"))
from folder_case import DATA, PICTURES, POSEIDON, FolderCase, h5py, np, reads, run  # noqa: E402
from png_files import png  # noqa: E402
from message_fields import fields  # noqa: E402

try:
    import lmdb
except ImportError:
    lmdb = None



def last_fields(message):
    """The fields of a serialised message: {number: last value}."""
    return {number: values[-1] for number, values in fields(message).items()}


class Images(FolderCase):
    def setUp(self):
        super().setUp()
        self.reference = h5py.File(os.path.join(DATA, "images.h5"), "r")

    def tearDown(self):
        self.reference.close()
        super().tearDown()

    def list(self, names=PICTURES):
        """Labels are 10 * place."""
        return self.write_list(names, 10)

    def run_poseidon(self, *arguments, **options):
        return run(POSEIDON, *arguments, **options)

    def convert(self, *arguments):
        done = self.run_poseidon("convert", "images", *arguments, "--root=" + os.path.join(DATA, "images"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def bad(self, *arguments, says, status=1, command=("convert", "images")):
        self.refuses(POSEIDON, *command, *arguments, says=says, status=status)

    def expected(self, name, kind="color"):
        image = self.reference[name][kind][:]
        return image.transpose(2, 0, 1) if image.ndim == 3 else image[None]

    def records(self, folder):
        """[(key, fields)] of an LMDB, by its own library."""
        with lmdb.open(folder, readonly=True, lock=False) as env, env.begin() as txn:
            return [(bytes(key), last_fields(bytes(value))) for key, value in txn.cursor()]

    # ---- HDF5
    def test_list_to_hdf5(self):
        out, mean = self.path("x.h5"), self.path("mean.h5")
        done = self.convert(self.list(), out)
        self.run_poseidon("mean", out, mean)
        self.assertIn("5 images of 3x23x37", done.stdout)
        self.assertEqual(done.stderr, "")
        with h5py.File(out, "r") as f, h5py.File(mean, "r") as m:
            data = f["data"][:]
            self.assertEqual((data.dtype, data.shape), (np.uint8, (5, 3, 23, 37)))
            self.assertEqual((f["label"].dtype, list(f["label"])), (np.int32, [0, 10, 20, 30, 40]))
            for i, name in enumerate(PICTURES):
                self.assertTrue((data[i] == self.expected(name)).all(), name)
            self.assertTrue((m["mean"][:] == data.astype(np.float64).mean(0).astype(np.float32)).all())
            self.assertEqual(f.attrs["source"].decode(), self.path("list.txt"))

    def test_gray_gzip(self):
        out = self.path("x.h5")
        self.convert(self.list(), out, "--gray", "--gzip=3")
        with h5py.File(out, "r") as f:
            self.assertEqual(f["data"].compression_opts, 3)
            for i, name in enumerate(PICTURES):
                difference = f["data"][i].astype(int) - self.expected(name, "gray")
                self.assertLessEqual(abs(difference).max(), 1, name)

    def test_resized_as_opencv_does(self):
        out = self.path("x.h5")
        self.convert(self.list(["color.png"]), out, "--resize=20x23")
        with h5py.File(out, "r") as f:
            expected = self.reference["resize/23x20/opencv"][:].transpose(2, 0, 1)
            self.assertTrue((f["data"][0] == expected).all())

    def test_folders_are_classes(self):
        for k, name in enumerate(PICTURES):
            self.write("d/class%d/%s" % (k % 2, name), self.picture(name))
        done = self.run_poseidon("convert", "images", self.path("d"), self.path("x.h5"), "--no-shuffle")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("5 images of 3x23x37 of 2 classes", done.stdout)
        with h5py.File(self.path("x.h5"), "r") as f:
            self.assertEqual(list(f["label"]), [0, 0, 0, 1, 1])
            self.assertEqual([c.decode() for c in f.attrs["classes"]], ["class0", "class1"])
            self.assertTrue((f["data"][0] == self.expected("color.jpg")).all())
            self.assertTrue((f["data"][4] == self.expected("palette.png")).all())

    def test_empty_folder_is_a_class_and_is_told_of(self):
        for folder in ("b", "d"):
            self.write("d/%s/x.jpg" % folder, self.picture("color.jpg"))
        self.write("d/a/.hidden", b"")
        os.makedirs(self.path("d/e/inner"))
        done = self.run_poseidon("convert", "images", self.path("d"), self.path("x.h5"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.partition(";")[0] for line in done.stderr.splitlines() if "warning" in line],
                         ["warning: %s holds no images and still counts as class %d" % (self.path("d/" + name), k)
                          for name, k in (("a", 0), ("e", 3))])
        with h5py.File(self.path("x.h5"), "r") as f:
            self.assertEqual(sorted(f["label"]), [1, 2])

    def test_classes_of_another_set_keep_their_labels(self):
        for name in ("ash", "birch", "cedar"):
            self.write("train/%s/x.png" % name, self.picture("color.png"))
        for name in ("cedar", "birch"):
            self.write("test/%s/x.png" % name, self.picture("color.png"))
        names = self.write("names.txt", b"ash\nbirch\ncedar\n")
        done = self.run_poseidon("convert", "images", self.path("train"), self.path("train.h5"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for file in (self.path("train.h5"), names):
            out = self.path("test.h5")
            done = self.run_poseidon("convert", "images", self.path("test"), out, "--classes=" + file, "--no-shuffle",
                                     "--force")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("2 images of 3x23x37 of 3 classes", done.stdout)
            with h5py.File(out, "r") as f:
                self.assertEqual(list(f["label"]), [1, 2])
                self.assertEqual([c.decode() for c in f.attrs["classes"]], ["ash", "birch", "cedar"])
        os.remove(out)
        one = self.write("one.txt", b"ash\n")
        twice = self.write("twice.txt", b"cedar\nbirch\ncedar\n")
        for classes, says in ((one, "test/birch: expected a folder with the name of a class; " + one + " has none"),
                              (twice, "test/cedar: expected a folder with the name of a class; " + twice + " has several"),
                              (self.path("none.txt"), "none.txt: no such file")):
            self.bad(self.path("test"), out, "--classes=" + classes, says=[says])
        self.bad(self.list(), out, "--classes=" + names, says=["is for folders of images; ", "list.txt is a list"])

    def test_order_is_the_lists_or_the_seeds_with_any_number_of_threads(self):
        names = [PICTURES[i % 5] for i in range(300)]
        orders = []
        for k, options in enumerate((["--threads=1"], ["--threads=4"], ["--shuffle", "--threads=1"],
                                     ["--shuffle", "--threads=4"], ["--shuffle", "--seed=2"])):
            out = self.path("x%d.h5" % k)
            self.convert(self.list(names), out, *options)
            with h5py.File(out, "r") as f:
                labels = f["label"][:] // 10
                for i in range(0, 300, 37):
                    self.assertTrue((f["data"][i] == self.expected(names[labels[i]])).all())
                orders.append(list(labels))
        self.assertEqual(orders[0], list(range(300)))
        self.assertEqual(orders[1], orders[0])
        self.assertEqual(sorted(orders[2]), orders[0])
        self.assertNotEqual(orders[2], orders[0])
        self.assertEqual(orders[3], orders[2])
        self.assertNotEqual(orders[4], orders[2])

    def test_split_takes_its_share_of_every_class(self):
        counts = {"ash": 10, "birch": 3, "cedar": 2}
        for name, count in counts.items():
            for i in range(count):
                # cedar's images lie in folders of its folder
                inner = "photos/%s/%s%d.png" % (name, "inner/deeper/" if name == "cedar" else "", i)
                self.write(inner, self.picture("color.png"))
        seen = []
        for seed in (1, 1, 2):
            out = self.path("trees.h5")
            done = self.run_poseidon("convert", "images", self.path("photos"), out, "--resize=8", "--split=0.3",
                                     "--seed=%d" % seed, "--force")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertFalse(os.path.exists(out))
            parts = []
            for part in ("train", "test"):
                with h5py.File(self.path("trees-%s.h5" % part), "r") as f:
                    parts.append(list(f["label"][()]))
                    self.assertEqual([t.decode() for t in f.attrs["classes"]], list(counts))
                    self.assertEqual(f["data"].shape[1:], (3, 8, 8))
            self.assertIn("trees-train.h5: 10 images of 3x8x8 of 3 classes", done.stdout)
            self.assertIn("trees-test.h5: 5 images of 3x8x8 of 3 classes", done.stdout)
            self.assertEqual([parts[0].count(k) for k in range(3)], [7, 2, 1])
            self.assertEqual([parts[1].count(k) for k in range(3)], [3, 1, 1])
            seen.append(parts)
        self.assertEqual(seen[0], seen[1])
        done = self.run_poseidon("convert", "images", self.path("photos"), self.path("trees_lmdb"), "--resize=8",
                                 "--split=0.3")
        if "built without liblmdb" not in done.stderr:
            self.assertEqual(done.returncode, 0, done.stderr)
            for part in ("train", "test"):
                with open(self.path("trees-%s_lmdb" % part, "classes.txt")) as f:
                    self.assertEqual(f.read().split(), list(counts))

    # ---- refusals
    def test_refused_images_are_summed_up(self):
        names = []
        for i in range(12):
            self.write("p/bad%d.jpg" % i, self.picture("color.jpg")[:400 + i])
            self.write("p/good%d.jpg" % i, self.picture("color.jpg"))
            names += ["bad%d.jpg" % i, "good%d.jpg" % i]
        names += ["missing.png"]
        out = self.path("x.h5")
        done = self.run_poseidon("convert", "images", self.list(names), out, "--root=" + self.path("p"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("12 images of 3x23x37", done.stdout)
        self.assertIn("13 of 25 images refused:", done.stderr)
        self.assertIn("13 of 25 images left out; --skip-bad accepts that", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 15)
        self.assertIn("bad0.jpg: truncated JPEG image", done.stderr)
        self.assertIn("  missing.png: ", done.stderr)
        with h5py.File(out, "r") as f:
            self.assertEqual(list(f["label"]), list(range(10, 250, 20)))
        done = self.run_poseidon("convert", "images", self.list(names), out, "--root=" + self.path("p"),
                                 "--force", "--skip-bad")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("12 images of 3x23x37", done.stdout)
        self.assertEqual(done.stderr.count("\n"), 14)
        self.bad(self.list(["bad0.jpg"]), self.path("y.h5"), "--root=" + self.path("p"),
                 says=["1 image refused, none is left; first refusal: "])
        self.bad(self.list(["bad0.jpg", "missing.png"]), self.path("y.h5"), "--root=" + self.path("p"),
                 says=["2 images refused, none is left; first refusal: ", "bad0.jpg", "truncated"])

    def test_another_size_is_refused_in_hdf5_and_taken_in_lmdb(self):
        out = self.path("x.h5")
        self.convert(self.list(["color.png"]), out, "--resize=9x9")
        shutil.copy(os.path.join(DATA, "images", "color.png"), self.path("a.png"))
        self.write("b.png", png([[1, 2]]))
        with open(out, "rb") as f:
            before = f.read()
        self.bad(self.list(["a.png", "b.png"]), out, "--force",
                 says=["b.png: shape 3 1 2 (6), but the first image has 3 23 37 (2553); "
                       "HDF5 needs images of one size, such as --resize=256x256. Nothing was written"])
        with open(out, "rb") as f:
            self.assertEqual(f.read(), before)
        done = self.run_poseidon("convert", "images", self.list(["a.png", "b.png"]), self.path("x_lmdb"))
        if "built without liblmdb" not in done.stderr:
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("2 images of different sizes", done.stdout)

    # ---- LMDB
    def need_lmdb(self):
        if lmdb is None:
            self.skipTest("python3-lmdb is not installed")
        done = self.run_poseidon("convert", "images", self.list(["none"]), self.path("t_lmdb"))
        if "built without liblmdb" in done.stderr:
            self.skipTest("this build has no liblmdb")

    def test_raw_lmdb(self):
        self.need_lmdb()
        out = self.path("x_lmdb")
        self.convert(self.list(), out)
        records = self.records(out)
        self.assertEqual([key for key, _ in records],
                         [b"%08d_%s" % (i, name.encode()) for i, name in enumerate(PICTURES)])
        for i, (_, datum) in enumerate(records):
            self.assertEqual([datum[k] for k in (1, 2, 3, 5)], [3, 23, 37, 10 * i])
            self.assertEqual(datum[4], self.expected(PICTURES[i]).tobytes())
            self.assertFalse(datum.get(7))

    def test_encoded_lmdb_keeps_the_files(self):
        self.need_lmdb()
        out = self.path("x_lmdb")
        self.convert(self.list(), out, "--encoded")
        for i, (_, datum) in enumerate(self.records(out)):
            self.assertEqual((datum[5], datum[7]), (10 * i, 1))
            if PICTURES[i] == "gray.png":  # has the channels of the others now
                self.assertEqual((datum[4][:4], datum[4][25]), (b"\x89PNG", 2))
            else:
                self.assertEqual(datum[4], self.picture(PICTURES[i]))
        self.convert(self.list(["gray.jpg", *PICTURES]), out, "--encoded", "--force")
        done = self.run_poseidon("mean", out)  # reads all of them, and wants one shape
        self.assertIn("%s: the mean of 6 images of 3x23x37" % out, done.stdout, done.stderr)

    # ---- EXIF orientation
    # What a viewer does with what is stored, in numpy's words.
    UPRIGHT = {1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
               5: lambda a: a.transpose(1, 0, 2), 6: lambda a: np.rot90(a, -1),
               7: lambda a: np.rot90(a, 2).transpose(1, 0, 2), 8: np.rot90}

    def turned(self, orientation, order="<", name="color.jpg", more=b""):
        """The picture with EXIF data of three entries; the orientation is the second."""
        tiff = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8) + struct.pack(order + "H", 3)
        for tag, value in ((0x100, 7), (0x112, orientation), (0x11a, 5)):
            tiff += struct.pack(order + "HHIHH", tag, 3, 1, value, 0)
        picture = self.picture(name)
        if name.endswith(".png"):  # a chunk before the pixels, or behind them
            chunk = b"eXIf" + tiff + b"\0\0\0\0"
            chunk = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
            at = 33 if order == "<" else len(picture) - 12
            return picture[:at] + chunk + picture[at:]
        exif = b"Exif\0\0" + tiff + b"\0\0\0\0"
        if name.endswith(".webp"):  # behind a chunk of what the file has, and an unknown one of odd length
            exif = exif if more else exif[6:]
            chunks = (b"VP8X\x0a\0\0\0\x08\0\0\0" + struct.pack("<IH", 36 | 22 << 24, 0) + picture[12:] +
                      b"meta\1\0\0\0x\0" + b"EXIF" + struct.pack("<I", len(exif)) + exif)
            return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks
        return picture[:2] + more + b"\xff\xe1" + struct.pack(">H", 2 + len(exif)) + exif + picture[2:]

    def test_photographs_are_turned_as_their_orientation_says(self):
        other = b"\xff\xe1" + struct.pack(">H", 20) + b"http://ns.adobe.co"  # XMP is an APP1, too
        of_kinds = ["color.jpg", "color.png"] + ["color.webp"] * reads("WebP")
        for of, o, order in ((of, o, order) for of in of_kinds for o in range(10) for order in "<>"):
            upright = self.expected(of).transpose(1, 2, 0)
            name = "%d%d%s" % (o, order == ">", of[5:])
            self.write("p/" + name, self.turned(o, order, of, more=other if o % 2 else b""))
            listing = self.write("one.txt", b"%s 0\n" % name.encode())
            done = self.run_poseidon("convert", "images", listing, self.path("x.h5"), "--root=" + self.path("p"),
                                     "--force")
            self.assertEqual(done.returncode, 0, done.stderr)
            expected = self.UPRIGHT.get(o, self.UPRIGHT[1])(upright)
            with h5py.File(self.path("x.h5"), "r") as f:
                self.assertTrue(np.array_equal(f["data"][0], expected.transpose(2, 0, 1)), name)
        names = [("%d0.jpg" % o) for o in range(1, 9)]
        done = self.run_poseidon("convert", "images", self.list(names), self.path("y.h5"), "--root=" + self.path("p"),
                                 "--no-turn")
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.path("y.h5"), "r") as f:
            self.assertTrue((f["data"][:] == self.expected("color.jpg")).all())

    def test_encoded_photographs_are_turned_once(self):
        self.need_lmdb()
        upright = self.expected("color.jpg").transpose(1, 2, 0)
        self.write("p/6.jpg", self.turned(6))
        listing, root = self.list(["6.jpg"]), "--root=" + self.path("p")
        for options, expected, copied in (([], np.rot90(upright, -1), True), (["--no-turn"], upright, False),
                                          (["--encode-type=png"], np.rot90(upright, -1), False),
                                          (["--encode-type=png", "--no-turn"], upright, False)):
            done = self.run_poseidon("convert", "images", listing, self.path("x_lmdb"), root, "--encoded", "--force",
                                     *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("1 image of %dx%dx%d" % (3, *expected.shape[:2]), done.stdout)
            self.assertEqual(self.records(self.path("x_lmdb"))[0][1][4] == self.turned(6), copied)
            done = self.run_poseidon("mean", self.path("x_lmdb"), self.path("m.h5"), "--force")
            self.assertEqual(done.returncode, 0, done.stderr)
            with h5py.File(self.path("m.h5"), "r") as f:
                difference = abs(f["mean"][:] - expected.transpose(2, 0, 1)).mean()
                self.assertLessEqual(difference, 3 if options == ["--no-turn"] else 0, options)

    def test_a_jpeg_without_its_end_mark_is_taken_and_counted(self):
        for name in ("color.jpg", "progressive.jpg", "gray.jpg"):
            for cut in (1, 2):
                self.write("p/%d%s" % (cut, name), self.picture(name)[:-cut])
                self.write("p/3" + name, self.picture(name)[:-3])
        names = [cut + name for name in ("color.jpg", "progressive.jpg", "gray.jpg") for cut in "123"]
        done = self.run_poseidon("convert", "images", self.list(names), self.path("x.h5"), "--root=" + self.path("p"),
                                 "--skip-bad")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("6 JPEG images without an end mark, but with all pixels", done.stderr)
        self.assertIn("3 of 9 images refused", done.stderr)
        with h5py.File(self.path("x.h5"), "r") as f:
            for i, name in enumerate(n for n in ("color.jpg", "progressive.jpg", "gray.jpg") for _ in range(2)):
                self.assertTrue((f["data"][i] == self.expected(name)).all(), name)

    def test_encoded_lmdb_encodes_what_changed(self):
        self.need_lmdb()
        out = self.path("x_lmdb")
        for options, magics in ((["--resize=12x10"], [b"\xff\xd8", b"\x89P", b"\x89P", b"\x89P", b"\xff\xd8"]),
                                (["--encode-type=png"], [b"\x89P"] * 5),
                                (["--encode-type=jpg", "--gray"], [b"\xff\xd8"] * 5)):
            self.convert(self.list(), out, "--encoded", "--force", *options)
            records = self.records(out)
            self.assertEqual([datum[4][:2] for _, datum in records], magics)
            done = self.run_poseidon("mean", out, *(["--force-color"] if "--gray" not in options else []))
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_many_records_grow_the_tree(self):
        self.need_lmdb()
        out = self.path("x_lmdb")
        names = [PICTURES[i % 5] for i in range(3500)]
        self.convert(self.list(names), out, "--resize=3x2", "--shuffle")
        records = self.records(out)
        self.assertEqual(len(records), 3500)
        self.assertEqual(sorted(datum[5] for _, datum in records), [10 * i for i in range(3500)])
        said = self.run_poseidon("mean", out).stdout
        data = np.stack([np.frombuffer(datum[4], np.uint8).reshape(3, 2, 3) for _, datum in records])
        self.assertIn("the mean of 3500 images of 3x2x3", said)
        means = [float(value) for value in re.findall(r"channel \[\d\]: (\S+)", said)]
        self.assertTrue(np.allclose(means, data.mean((0, 2, 3)), rtol=1e-5), said)

    def test_lmdb_is_replaced_only_by_force_and_only_where_it_is_one(self):
        self.need_lmdb()
        out = self.path("x_lmdb")
        self.convert(self.list(), out)
        root = "--root=" + os.path.join(DATA, "images")
        self.bad(self.list(), out, root, says=["x_lmdb exists already", "--force"])
        self.convert(self.list(PICTURES[:2]), out + "/", "--force")
        self.assertEqual(len(self.records(out)), 2)
        self.assertEqual(sorted(os.listdir(self.dir)), ["list.txt", "x_lmdb"])
        self.write("x_lmdb/thesis.tex", b"precious")
        self.bad(self.list(), out, root, "--force", says=["holds other files too"])
        self.write("y_lmdb", b"a file")
        self.bad(self.list(), self.path("y_lmdb"), root, "--force", says=["is not an LMDB folder"])

    def test_class_names_are_kept(self):
        self.need_lmdb()
        self.write("d/cat/1.png", self.picture("color.png"))
        self.write("d/dog/1.png", self.picture("gray.png"))
        done = self.run_poseidon("convert", "images", self.path("d"), self.path("x_lmdb"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("x_lmdb", "classes.txt")) as f:
            self.assertEqual(f.read(), "cat\ndog\n")

    # ---- failures leave nothing
    def test_full_disk_leaves_nothing(self):
        names = [PICTURES[i % 5] for i in range(600)]
        listing = self.list(names)
        for out in ("x.h5", "x_lmdb"):
            for kilobytes in (0, 1, 16, 500, 1400):
                before = sorted(os.listdir(self.dir))
                done = subprocess.run(
                    ["bash", "-c", "trap '' XFSZ; ulimit -f %d; exec \"$@\"" % kilobytes, "bash", POSEIDON,
                     "convert", "images", listing, self.path(out), "--root=" + os.path.join(DATA, "images")],
                    capture_output=True, text=True, timeout=600)
                if "built without liblmdb" in done.stderr:
                    break
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIn(out, done.stderr)
                self.assertIn("File too large", done.stderr)
                self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_interrupt_leaves_nothing(self):
        count = 60000
        for out in ("x.h5", "x_lmdb"):
            for delay in (0.02, 0.3):
                status = 0
                while status == 0:  # as many as are not over by then
                    listing = self.list([PICTURES[i % 5] for i in range(count)])
                    process = subprocess.Popen(
                        [POSEIDON, "convert", "images", listing, self.path(out),
                         "--root=" + os.path.join(DATA, "images")], stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
                    time.sleep(delay)
                    process.send_signal(signal.SIGTERM)
                    status = process.wait(600)
                    if status == 0:
                        count *= 2
                        (shutil.rmtree if os.path.isdir(self.path(out)) else os.unlink)(self.path(out))
                self.assertEqual(os.listdir(self.dir), ["list.txt"])

    def test_memory_does_not_grow_with_the_images(self):
        def peak(count):
            listing = self.list([PICTURES[i % 5] for i in range(count)])
            code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
                    "stdout=subprocess.DEVNULL); "
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            done = subprocess.run([sys.executable, "-c", code, POSEIDON, "convert", "images", listing,
                                   self.path("x.h5"), "--force", "--resize=100x100",
                                   "--root=" + os.path.join(DATA, "images")],
                                  capture_output=True, text=True, check=True, env=environment)
            return int(done.stdout)
        # A build with sanitizers keeps freed memory for a while, which is not what is asked here.
        environment = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=1")
        small, large = peak(300), peak(3000)    # 9 and 90 MB of pixels
        self.assertLess(large - small, 8000)

    # ---- wrong usage
    def test_wrong_usage(self):
        listing, out = self.list(), self.path("x.h5")
        for arguments, says in [
                ([listing], "expected a folder or list"),
                ([listing, self.path("x.hdf")], "ends in .h5 (HDF5) or lmdb (LMDB)"),
                ([listing, out, "--encoded"], "--encoded is for LMDB"),
                ([listing, self.path("x_lmdb"), "--encode-type=jpg"], "no effect without --encoded"),
                ([listing, self.path("x_lmdb"), "--encoded", "--encode-type=gif"], "expected jpg or png"),
                ([listing, self.path("x_lmdb"), "--gzip=2"], "--gzip=2"),
                ([listing, out, "--resize=x256"], "expected WIDTHxHEIGHT"),
                ([listing, out, "--split=1"], "--split=1: expected the share of images"),
                ([listing, out, "--split=0.5"], "--split: class 0 has a single image, color.jpg"),
                ([listing, out, "--resize=0x5"], "expected WIDTHxHEIGHT"),
                ([listing, out, "--seed=3"], "no effect without --shuffle"),
                ([listing, out, "--quality=0"], "--quality=0"),
                ([listing, out, "--shufle"], "did you mean --shuffle?")]:
            self.bad(*arguments, says=[says], status=1)
        self.bad(self.path("none"), out, says=["none", "no such file"])
        self.bad(listing, self.path("none", "x.h5"), says=["none", "No such file"])
        self.bad(listing, listing + ".h5", says=["5 images refused, none is left; first refusal: ", "no such file"])
        self.write("bad.txt", b"x.png 1\nx.png\n")
        self.bad(self.path("bad.txt"), out, says=["bad.txt:2", "has no label"])

    # ---- mean
    def mean_of(self, name):
        with open(name, "rb") as f:
            message = last_fields(f.read())
        return np.frombuffer(message[5], "<f4").reshape([message[k] for k in (1, 2, 3, 4)])

    def test_mean_of_hdf5_as_hdf5_and_binaryproto(self):
        data = np.random.default_rng(1).integers(0, 256, (50, 3, 4, 5), dtype=np.uint8)
        with h5py.File(self.path("x.h5"), "w") as f:
            f["data"] = data
        mean = data.astype(np.float64).mean(0)
        done = self.run_poseidon("mean", self.path("x.h5"), self.path("m.h5"))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        for c in range(3):
            self.assertEqual(lines[c], "mean_value channel [%d]: %g" % (c, mean[c].mean()))
        with h5py.File(self.path("m.h5"), "r") as f:
            self.assertTrue((f["mean"][:] == mean.astype(np.float32)).all())
        self.assertEqual(self.run_poseidon("mean", self.path("x.h5"), self.path("m.binaryproto")).returncode, 0)
        self.assertTrue((self.mean_of(self.path("m.binaryproto")) == mean.astype(np.float32)[None]).all())

    def test_mean_of_databases(self):
        raw = np.stack([(7 * i + np.arange(6)) % 256 for i in range(600)]).reshape(600, 1, 2, 3)
        for name, count in (("lmdb_raw", 600), ("leveldb_raw", 60)):
            done = self.run_poseidon("mean", os.path.join(DATA, name), self.path("m.h5"), "--force")
            if "built without libleveldb" in done.stderr:
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            with h5py.File(self.path("m.h5"), "r") as f:
                self.assertTrue((f["mean"][:] == raw[:count].mean(0).astype(np.float32)).all())

    def test_mean_of_encoded(self):
        done = self.run_poseidon("mean", os.path.join(DATA, "lmdb_mixed"), self.path("m.h5"), "--force-color")
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = np.stack([self.expected(n) for n in ("color.jpg", "gray.jpg", "gray.png",
                                                        "palette.png")]).mean(0)
        with h5py.File(self.path("m.h5"), "r") as f:
            self.assertTrue((f["mean"][:] == expected.astype(np.float32)).all())

    def test_mean_failures(self):
        raw = os.path.join(DATA, "lmdb_raw")
        self.bad(os.path.join(DATA, "lmdb_sizes"), self.path("m.h5"), command=["mean"],
                 says=["lmdb_sizes", "record 1", "3 11 14", "3 10 12"])
        self.bad(os.path.join(DATA, "lmdb_bad"), self.path("m.h5"), command=["mean"],
                 says=["lmdb_bad", "record 2", "00000002"])
        self.bad(self.path("none"), command=["mean"], says=["none", "no such file"])
        self.bad(command=["mean"], says=["expected SRC"])
        self.bad(raw, self.path("none", "m.h5"), command=["mean"], says=["No such file"])
        self.write("m.h5", b"precious")
        self.bad(raw, self.path("m.h5"), command=["mean"], says=["exists already", "--force"])


if __name__ == "__main__":
    if not reads("JPEG", "PNG"):
        print("SKIP: built without JPEG or PNG")
        sys.exit(77)
    unittest.main(verbosity=1)
