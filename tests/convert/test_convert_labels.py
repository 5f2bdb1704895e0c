#!/usr/bin/env python3
"""convert images --labels: pictures of labels beside images, in HDF5 and LMDB. numpy, h5py and python3-lmdb judge; the PNG files are
this test's own."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests"))
from folder_case import POSEIDON, FolderCase, h5py, np, reads, run  # noqa: E402
from message_fields import fields  # noqa: E402
from png_files import GRAY, GRAY_ALPHA, PALETTE, RGB, chunk, nearest, png  # noqa: E402

try:
    import lmdb
except ImportError:
    lmdb = None

REST = """
layer { name: "out" type: "HDF5Output" bottom: "data" bottom: "label" hdf5_output_param { file_name: "out.h5" }
        include { phase: TRAIN } }
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "fc" type: "InnerProduct" bottom: "mean" top: "fc" inner_product_param { num_output: 1 } }
layer { name: "loss" type: "Reduction" bottom: "fc" top: "loss" loss_weight: 1 }
"""
SOLVER = b'net: "net.prototxt" base_lr: 0.001 lr_policy: "fixed" max_iter: 6 snapshot_prefix: "x"\n'


class Labels(FolderCase):
    def setUp(self):
        super().setUp()
        if not reads("PNG"):
            self.skipTest("built without PNG")
        self.rng = np.random.default_rng(11)

    def make(self, names, size=(9, 13), gray=False):
        """Images photos/NAME.png, and their labels as gray PNG or with a palette, in turn. A gray image's pixels are its labels."""
        self.labels, self.images = {}, {}
        for i, name in enumerate(names):
            kind, depth = ((GRAY, 8), (PALETTE, 8), (PALETTE, 4), (GRAY, 2), (PALETTE, 1))[0 if gray else i % 5]
            labels = self.rng.integers(0, 1 << depth, size)
            image = labels if gray else self.rng.integers(0, 256, size + (3,))
            self.write("photos/%s.png" % name, png(image, GRAY if gray else RGB))
            self.write("marks/%s.png" % name, png(labels, kind, depth))
            self.labels[name] = labels
            self.images[name] = image[None] if gray else image[..., ::-1].transpose(2, 0, 1)

    def convert(self, *arguments, source="photos"):
        done = run(POSEIDON, "convert", "images", source, *arguments, "--labels=marks", cwd=self.dir)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def hdf5(self, name="x.h5"):
        with h5py.File(self.path(name)) as f:
            return f["data"][:], f["label"][:]

    def records(self, folder):
        """[(key, pixels)] of an LMDB, by its own library."""
        found = []
        with lmdb.open(self.path(folder), readonly=True, lock=False) as env, env.begin() as txn:
            for key, value in txn.cursor():
                datum = {number: values[-1] for number, values in fields(bytes(value)).items()}
                found.append((bytes(key), np.frombuffer(datum[4], np.uint8).reshape([datum[k] for k in (1, 2, 3)])))
        return found

    def need_lmdb(self, judge=True):
        if judge and not lmdb:
            self.skipTest("no python3-lmdb")
        if "LMDB" not in run(POSEIDON, "--version").stdout:
            self.skipTest("built without LMDB")

    NAMES = ["a", "b.c", "day/d", "day/rain/e", "night/f"]  # the files of a folder before those of its folders

    def test_hdf5_has_the_numbers_of_gray_and_palette(self):
        self.make(self.NAMES)
        said = self.convert("x.h5", "--no-shuffle")
        self.assertIn("x.h5: 5 images of 3x9x13 in", said)
        data, labels = self.hdf5()
        self.assertEqual((labels.shape, labels.dtype), ((5, 1, 9, 13), np.uint8))
        np.testing.assert_array_equal(labels[:, 0], np.stack([self.labels[name] for name in self.NAMES]))
        np.testing.assert_array_equal(data, np.stack([self.images[name] for name in self.NAMES]))

    def test_folders_are_shuffled_with_their_labels(self):
        self.make(["%02d" % i for i in range(40)], gray=True)
        self.convert("x.h5", "--gray", "--gzip=2")
        data, labels = self.hdf5()
        np.testing.assert_array_equal(data, labels)
        order = [image.tobytes() for image in data]
        stored = [self.images[name].astype(np.uint8).tobytes() for name in sorted(self.images)]
        self.assertEqual(sorted(order), sorted(stored))
        self.assertNotEqual(order, stored)

    def test_labels_are_resized_to_the_nearest(self):
        self.make(self.NAMES)
        for height, width in ((18, 26), (5, 6), (9, 31), (4, 13)):
            self.convert("x.h5", "--force", "--no-shuffle", "--resize=%dx%d" % (width, height))
            data, labels = self.hdf5()
            self.assertEqual(data.shape, (5, 3, height, width))
            for found, name in zip(labels, self.NAMES):
                np.testing.assert_array_equal(found[0], nearest(self.labels[name], height, width))

    def test_gray_images_of_few_values_are_not_taken_for_labels(self):
        self.make(["a"])
        self.write("photos/a.png", png(self.rng.integers(0, 3, (9, 13))))
        self.convert("x.h5", "--gray", "--resize=5x5")  # no warning
        np.testing.assert_array_equal(self.hdf5()[1][0, 0], nearest(self.labels["a"], 5, 5))

    def test_more_than_a_block_of_records(self):
        """Blocks of images and of labels end at other records: 26 images of three channels or 79 pictures of labels fill one."""
        self.make(["%03d" % i for i in range(100)], (100, 133))
        self.convert("x.h5", "--no-shuffle")
        data, labels = self.hdf5()
        names = sorted(self.labels)
        np.testing.assert_array_equal(labels[:, 0], np.stack([self.labels[name] for name in names]))
        np.testing.assert_array_equal(data, np.stack([self.images[name] for name in names]))

    def test_list_and_split(self):
        self.make(self.NAMES)
        self.write("list.txt", b"day/d.png\n\nnight/f.png 3\na.png night/f.png\n\"b.c.png\"\n")
        self.convert("x.h5", "--root=photos", source="list.txt")
        np.testing.assert_array_equal(self.hdf5()[1][:, 0], np.stack([self.labels[name] for name in ("day/d", "night/f", "a", "b.c")]))
        self.convert("y.h5", "--root=photos", "--split=0.25", source="list.txt")
        parts = [self.hdf5("y-%s.h5" % part)[1] for part in ("train", "test")]
        self.assertEqual([len(part) for part in parts], [3, 1])
        self.assertEqual({labels.tobytes() for part in parts for labels in part}, {labels.tobytes() for labels in self.hdf5()[1]})

    def test_lmdb_of_labels_has_the_images_order_and_keys(self):
        self.need_lmdb()
        self.make(self.NAMES)
        said = self.convert("x_lmdb", source="photos//")
        self.assertIn("x_lmdb and x-labels_lmdb: 5 images of 3x9x13 in", said)
        images, labels = self.records("x_lmdb"), self.records("x-labels_lmdb")
        self.assertEqual([key for key, _ in images], [key for key, _ in labels])
        self.assertEqual({key[9:-4].decode() for key, _ in images}, set(self.NAMES))
        for (key, image), (_, marks) in zip(images, labels):
            np.testing.assert_array_equal(image, self.images[key[9:-4].decode()])
            np.testing.assert_array_equal(marks[0], self.labels[key[9:-4].decode()])
        self.convert("x_lmdb", "--force", "--split=0.2", "--encoded", "--resize=6x5")
        found = {key[9:-4].decode(): marks for part in ("train", "test") for key, marks in self.records("x-%s-labels_lmdb" % part)}
        self.assertEqual(set(found), set(self.NAMES))
        for name, marks in found.items():
            np.testing.assert_array_equal(marks[0], nearest(self.labels[name], 5, 6))

    def test_images_left_out_are_left_out_with_their_labels(self):
        self.need_lmdb()
        self.make(["a", "b", "c", "d"])
        self.write("photos/b.png", b"text")
        self.write("photos/c.png", png(np.zeros((4, 5, 3)), RGB))
        self.write("marks/c.png", png(np.zeros((4, 5))))
        done = run(POSEIDON, "convert", "images", "photos", "x_lmdb", "--labels=marks", "--skip-bad", "--check-size", "--no-shuffle", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        for folder in ("x_lmdb", "x-labels_lmdb"):
            self.assertEqual([key for key, _ in self.records(folder)], [b"00000000_a.png", b"00000001_d.png"])

    def test_photographs_are_turned_and_labels_are_not(self):
        """Labels made on the upright photograph have its size; with --no-turn it is the size as stored."""
        exif = chunk(b"eXIf", b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0")
        image = self.rng.integers(0, 256, (4, 7, 3))
        self.write("photos/a.png", png(image, RGB, more=exif))
        for size, upright, options in ((7, 4), np.rot90(image, -1), []), ((4, 7), image, ["--no-turn"]):
            labels = self.rng.integers(0, 9, size)
            self.write("marks/a.png", png(labels))
            self.convert("x.h5", "--force", *options)
            data, found = self.hdf5()
            np.testing.assert_array_equal(data[0], upright[..., ::-1].transpose(2, 0, 1))
            np.testing.assert_array_equal(found[0, 0], labels)

    # ---- read back
    def trained(self, layers):
        self.write("net.prototxt", (layers + REST).encode())
        self.write("solver.prototxt", SOLVER)
        done = run(POSEIDON, "train", "--solver=solver.prototxt", "--force", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        data, labels = self.hdf5("out.h5")
        done = run(POSEIDON, "extract", "--model=net.prototxt", "--weights=x_iter_6.caffemodel", "--blobs=data,label", "--iterations=2",
                   "--force", "f.h5", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(*self.hdf5("f.h5"))
        return data, labels

    def test_two_data_layers_read_the_lmdbs_side_by_side(self):
        self.need_lmdb(judge=False)
        self.make(["%02d" % i for i in range(12)], gray=True)
        self.convert("x_lmdb", "--gray")
        data, labels = self.trained("".join("""
layer { name: "%s" type: "Data" top: "%s" data_param { source: "%s" backend: LMDB batch_size: 4 shuffle: true }
        transform_param { crop_size: 7 mirror: true } }""" % (top, top, source) for top, source in
                                            (("data", "x_lmdb"), ("label", "x-labels_lmdb"))))
        self.assertEqual(labels.shape, (24, 1, 7, 7))
        np.testing.assert_array_equal(data, labels)
        self.assertGreater(len(np.unique(data.reshape(24, -1), axis=0)), 20)

    def test_hdf5data_reads_images_and_labels(self):
        self.make(["%02d" % i for i in range(12)], gray=True)
        self.convert("x.h5", "--gray")
        self.write("list.txt", b"x.h5\n")
        data, labels = self.trained('layer { name: "d" type: "HDF5Data" top: "data" top: "label" '
                                    'hdf5_data_param { source: "list.txt" batch_size: 4 shuffle: true } }')
        np.testing.assert_array_equal(data, labels)
        self.assertEqual({labels.tobytes() for labels in data[:12].astype(np.uint8)},
                         {labels.astype(np.uint8).tobytes() for labels in self.labels.values()})

    def test_a_data_layer_names_the_layer_that_reads_them(self):
        self.make(["a", "b"])
        self.convert("x.h5")
        self.write("net.prototxt", b'layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "x.h5" batch_size: 2 } }' +
                   REST.encode())
        self.write("solver.prototxt", SOLVER)
        self.refuses(POSEIDON, "train", "--solver=solver.prototxt", cwd=self.dir,
                     says=["'label' has shape 2x1x9x13; expected one label per record, 2 (HDF5Data reads others)"])

    # ---- refusals
    def bad(self, *arguments, says, source="photos", out="x.h5", labels="marks"):
        self.refuses(POSEIDON, "convert", "images", source, out, "--labels=" + labels, *arguments, says=says, cwd=self.dir)

    def test_bad_pictures_of_labels(self):
        self.make(["day/a"], (6, 7))
        for picture, says in [
                (png(np.zeros((6, 8))), "a picture of labels of 6 x 8 (height x width), but its image day/a.png is 6 x 7; expected one size"),
                (png(np.zeros((6, 7)), depth=16), "a picture of labels with 16 bits; expected gray or a palette, of at most 8 bits"),
                (png(np.zeros((6, 7, 2)), GRAY_ALPHA), "a picture of labels with transparency (alpha); expected gray or a palette"),
                (png(np.zeros((6, 7, 3)), RGB), "a picture of labels with colours (RGB); expected gray or a palette, of at most 8 bits and "
                 "without alpha, whose numbers are the classes (OpenCV makes colours of a palette, Pillow keeps its numbers)"),
                (b"text", "not an image"), (png(np.zeros((6, 7)))[:-30], "PNG image")]:
            self.write("marks/day/a.png", picture)
            for options in [], ["--resize=4x4"]:
                self.bad(*options, says=["1 image refused, none is left; first refusal: day/a.png: marks/day/a.png: ", says])
        os.remove(self.path("marks/day/a.png"))
        self.bad(says=["day/a.png: every image needs a picture of labels: marks/day/a.png: no such file"])

    def test_a_refused_image_is_named_and_the_others_are_written(self):
        self.make(["a", "b", "c"])
        os.remove(self.path("marks/b.png"))
        done = run(POSEIDON, "convert", "images", "photos", "x.h5", "--labels=marks", "--no-shuffle", cwd=self.dir)
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 of 3 images refused:\n  b.png: every image needs a picture of labels: marks/b.png: no such file", done.stderr)
        np.testing.assert_array_equal(self.hdf5()[1][:, 0], np.stack([self.labels["a"], self.labels["c"]]))

    def test_settings(self):
        self.make(["a"], (6, 7), gray=True)
        self.bad(labels="nowhere", says=["--labels=nowhere: no such folder; expected pictures of labels"])
        self.bad(labels="marks/a.png", says=["--labels=marks/a.png: no such folder"])
        self.bad(labels="photos/", says=["a.png: photos//a.png is the image itself; expected its labels in another folder"])
        self.bad("--classes=names.txt", says=["--labels has a label for every pixel: not with --classes"])
        self.write("x.h5", b"precious")
        self.bad(says=["x.h5 exists already; --force replaces it"])
        os.mkdir(self.path("empty"))
        self.bad(source="empty", out="y.h5", says=["empty: no files in it; expected images"])

    def test_an_lmdb_of_labels_is_replaced_only_by_force_and_only_where_it_is_one(self):
        self.need_lmdb(judge=False)
        self.make(["a"])
        self.write("x-labels_lmdb/thesis.tex", b"precious")
        self.bad(out="x_lmdb", says=["x-labels_lmdb exists already; --force replaces it"])
        self.bad("--force", out="x_lmdb", says=["x-labels_lmdb is not an LMDB folder, or holds other files too"])

    def test_full_disk_leaves_nothing(self):
        self.make(["%02d" % i for i in range(60)], (100, 133), gray=True)
        for out in ("x.h5", "x_lmdb"):
            for kilobytes in (0, 1, 16, 500):
                self.refuses("bash", "-c", "trap '' XFSZ; ulimit -f %d; exec \"$@\"" % kilobytes, "bash", POSEIDON, "convert", "images", "photos",
                             out, "--labels=marks", "--gray", cwd=self.dir,
                             says=["File too large"] if out == "x.h5" or "LMDB" in run(POSEIDON, "--version").stdout else ["liblmdb"])

    def test_full_disk_for_the_labels_alone_leaves_nothing(self):
        self.need_lmdb(judge=False)
        self.make(["%02d" % i for i in range(60)], (100, 133))
        for name in self.images:
            self.write("photos/%s.png" % name, png(np.zeros((100, 133, 3)), RGB))
        self.refuses("bash", "-c", "trap '' XFSZ; ulimit -f 500; exec \"$@\"", "bash", POSEIDON, "convert", "images", "photos", "x_lmdb",
                     "--labels=marks", "--encoded", cwd=self.dir, says=["x-labels_lmdb", "File too large"])


if __name__ == "__main__":
    unittest.main()
