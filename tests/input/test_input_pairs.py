#!/usr/bin/env python3
"""ImageSegData and DenseImageData, whose pictures of labels get the image's crop, mirror and scale: values judged by numpy, on PNG
files that this test writes by itself."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests"))
from folder_case import POSEIDON, FolderCase, h5py, np, reads, run  # noqa: E402
from png_files import GRAY, GRAY_ALPHA, PALETTE, RGB, RGBA, nearest, png  # noqa: E402

MPIRUN = os.environ["POSEIDON_MPIRUN"]
MEAN = np.array([104.5, 117, 123], np.float32)[:, None, None]  # blue, green, red
MEANS = "mean_value: 104.5 mean_value: 117 mean_value: 123 "
# {rest} of the net reads data and labels, and learns next to nothing
NET = """
layer {{ name: "d" type: "{type}" top: "data" top: "label" {tops} {param} }}
layer {{ name: "out" type: "HDF5Output" bottom: "data" bottom: "label" hdf5_output_param {{ file_name: "out.h5" }}
        include {{ phase: TRAIN }} }}
{more}
layer {{ name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param {{ pool: AVE global_pooling: true }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "mean" top: "fc" inner_product_param {{ num_output: 1 }} }}
layer {{ name: "loss" type: "Reduction" bottom: "fc" top: "loss" loss_weight: 1 }}
"""
SIZE = """
layer { name: "sizes" type: "HDF5Output" bottom: "size" bottom: "size" hdf5_output_param { file_name: "size.h5" }
        include { phase: TRAIN } }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.001 lr_policy: "fixed" max_iter: %d snapshot_prefix: "x"\n'


class Pairs(FolderCase):
    def setUp(self):
        super().setUp()
        if not reads("PNG"):
            self.skipTest("built without PNG")
        self.rng = np.random.default_rng(7)

    def make(self, sizes, channels=3, classes=21):
        """Images a0.png, ... and labels l0.png, ... of these sizes, and list.txt."""
        self.images, self.labels = [], []
        for i, size in enumerate(sizes):
            image = self.rng.integers(0, 256, size + ((3,) if channels == 3 else ()))
            labels = self.rng.integers(0, classes, size)
            self.write("a%d.png" % i, png(image, RGB if channels == 3 else GRAY))
            self.write("l%d.png" % i, png(labels))
            self.images.append(image[..., ::-1].transpose(2, 0, 1) if channels == 3 else image[None])
            self.labels.append(labels)
        self.write("list.txt", "".join("a%d.png l%d.png\n" % (i, i) for i in range(len(sizes))).encode())

    def net(self, param="", transform="", type="ImageSegData", batch=1, sizes=False, more="", source="list.txt"):
        name = "dense_image_data_param" if type == "DenseImageData" else "image_data_param"
        kind = "label_type: PIXEL " if type == "ImageSegData" and "label_type" not in param else ""
        self.write("net.prototxt", NET.format(
            type=type, tops='top: "size"' if sizes else "", more=(SIZE if sizes else "") + more,
            param='%s { source: "%s" batch_size: %d %s%s } transform_param { %s }'
            % (name, source, batch, kind, param, transform)).encode())

    def train(self, iterations=1, ranks=1, *more):
        self.write("solver.prototxt", (SOLVER % iterations).encode())
        command = [POSEIDON, "train", "--solver=solver.prototxt", "--force"] + list(more)
        return run(*([MPIRUN, str(ranks)] + command if ranks > 1 else command), cwd=self.dir)

    def trained(self, *arguments, **options):
        """What TRAIN's samples are: data, labels and the sizes of images, of all iterations."""
        done = self.train(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.path("out.h5")) as f:
            found = [f["data"][:], f["label"][:]]
        if os.path.exists(self.path("size.h5")):
            with h5py.File(self.path("size.h5")) as f:
                found.append(f["data"][:])
        self.said = done.stderr
        return found

    def in_test(self, *arguments):
        """What TEST's samples are."""
        self.trained()
        done = run(POSEIDON, "extract", "--model=net.prototxt", "--weights=x_iter_1.caffemodel",
                   "--blobs=data,label", "--force", "f.h5", *arguments, cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.path("f.h5")) as f:
            return f["data"][:], f["label"][:]

    def test_gray_and_palette_are_indices(self):
        colors = bytes(self.rng.integers(0, 256, 3 * 256).astype(np.uint8))
        self.make([(6, 7)] * 6)
        for i, (kind, depth) in enumerate([(GRAY, 8), (GRAY, 4), (GRAY, 1), (PALETTE, 8), (PALETTE, 4), (PALETTE, 2)]):
            self.labels[i] = self.rng.integers(0, 1 << depth, (6, 7))
            self.write("l%d.png" % i, png(self.labels[i], kind, depth, colors[:3 << depth] if kind == PALETTE else None))
        for type in ("ImageSegData", "DenseImageData"):
            self.net(transform=MEANS + "scale: 0.5", batch=6, type=type)
            data, labels = self.in_test("--iterations=1")
            self.assertEqual(labels.shape, (6, 1, 6, 7))
            np.testing.assert_array_equal(labels[:, 0], np.stack(self.labels))
            np.testing.assert_array_equal(data, (np.stack(self.images) - MEAN) * np.float32(0.5))

    def test_labels_are_resized_to_the_nearest(self):
        self.make([(6, 8), (13, 9)])
        for height, width in ((12, 16), (5, 7), (9, 31)):
            self.net("new_height: %d new_width: %d" % (height, width), batch=2)
            labels = self.in_test("--iterations=1")[1]
            for found, stored in zip(labels, self.labels):
                np.testing.assert_array_equal(found[0], nearest(stored, height, width))

    def test_the_centre_is_cut_and_padded_in_test(self):
        self.make([(8, 12), (5, 12), (4, 5)])
        self.net("ignore_label: 99", MEANS + "crop_height: 6 crop_width: 8", batch=3)
        data, labels = self.in_test("--iterations=1")
        for found, marks, image, stored in zip(data, labels[:, 0], self.images, self.labels):
            height, width = stored.shape
            top, left = max(height - 6, 0) // 2, max(width - 8, 0) // 2
            rows, columns = min(height, 6), min(width, 8)
            want = np.zeros((3, 6, 8), np.float32)
            want[:, :rows, :columns] = (image - MEAN)[:, top:top + rows, left:left + columns]
            np.testing.assert_array_equal(found, want)
            want = np.full((6, 8), 99)
            want[:rows, :columns] = stored[top:top + rows, left:left + columns]
            np.testing.assert_array_equal(marks, want)

    def test_one_draw_for_image_and_labels(self):
        """An image whose pixels are its labels: they stay equal, in other places in each sample, at any number of ranks."""
        self.make([(9, 13)] * 3, channels=1, classes=200)
        for i in range(3):
            self.write("l%d.png" % i, png(self.images[i][0]))
        cases = [("ImageSegData", "", "mirror: true crop_size: 7"), ("DenseImageData", "mirror: true crop_height: 7 crop_width: 5", ""),
                 ("DenseImageData", "", "mirror: true crop_size: 7"), ("ImageSegData", "shuffle: true", "mirror: true")]
        for type, param, transform in cases:
            self.net("is_color: false " + param, transform, type, batch=4)
            data, labels = self.trained(6)
            self.assertEqual(data.shape, labels.shape)
            np.testing.assert_array_equal(data, labels)
            self.assertGreater(len(np.unique(data.reshape(24, -1), axis=0)), 5)
            if "crop_size: 7" in transform and type == "ImageSegData":
                self.net("is_color: false", transform, type, batch=2)
                halves = [self.trained(6, 2)[0]]
                with h5py.File(self.path("out.h5.rank1")) as f:
                    halves.append(f["data"][:])
                both = np.stack([half.reshape(6, 2, 1, 7, 7) for half in halves], axis=1)
                np.testing.assert_array_equal(both.reshape(data.shape), data)
                for i, found in enumerate(data[:, 0]):
                    windows = np.lib.stride_tricks.sliding_window_view(self.images[i % 3][0], (7, 7)).reshape(-1, 7, 7)
                    self.assertTrue(any((w == found).all() or (w[:, ::-1] == found).all() for w in windows))

    def test_scale_factors(self):
        self.make([(8, 12), (10, 6)])
        self.net("", MEANS + "mirror: true crop_size: 24 scale_factors: 0.5 scale_factors: 1 scale_factors: 2", batch=2, sizes=True)
        data, labels, sizes = self.trained(12)
        seen = set()
        for i, (image, marks, size) in enumerate(zip(data, labels[:, 0], sizes.reshape(-1, 2).astype(int))):
            stored = self.labels[i % 2]
            factor = size[0] / stored.shape[0]
            self.assertIn(factor, (0.5, 1, 2))
            self.assertEqual(size[1], int(stored.shape[1] * factor))
            want = np.full((24, 24), 255)
            want[:size[0], :size[1]] = nearest(stored, *size)
            mirrored = not (want == marks).all()
            np.testing.assert_array_equal(want[:, ::-1] if mirrored else want, marks)
            filled = (want != 255)[:, ::-1] if mirrored else want != 255
            self.assertFalse(image[:, ~filled].any())
            if factor == 1:
                pixels = image[:, filled].reshape(3, *size)
                np.testing.assert_array_equal(pixels[..., ::-1] if mirrored else pixels, self.images[i % 2] - MEAN)
            seen.add((factor, mirrored))
        self.assertGreater(len(seen), 4)

    def test_other_kinds_of_labels(self):
        self.make([(4, 5), (3, 7)])
        self.write("list.txt", b"a0.png 3\na1.png 7\n")
        self.net("ignore_label: 9", "crop_size: 6", batch=2)
        with open(self.path("net.prototxt")) as f:
            net = f.read()
        self.write("net.prototxt", net.replace("label_type: PIXEL", "").encode())
        labels = self.in_test("--iterations=1")[1][:, 0]
        for found, size, label in zip(labels, ((4, 5), (3, 6)), (3, 7)):
            want = np.full((6, 6), 9)
            want[:size[0], :size[1]] = label
            np.testing.assert_array_equal(found, want)
        self.write("list.txt", b'"a0.png"\na1.png nowhere.png\n')
        self.net("ignore_label: 9 label_type: NONE", "crop_size: 6", batch=2)
        self.assertTrue((self.in_test("--iterations=1")[1] == 9).all())

    def test_the_old_form_of_nets(self):
        self.make([(6, 7)])
        self.write("old.prototxt", b'layers { name: "d" type: IMAGE_SEG_DATA top: "data" top: "label" top: "size" '
                   b'image_data_param { source: "list.txt" batch_size: 2 label_type: PIXEL } transform_param { crop_size: 5 } }\n'
                   b'layers { type: SILENCE bottom: "data" bottom: "label" bottom: "size" name: "s" }')
        done = run(POSEIDON, "summary", "--model=old.prototxt", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "3 x 5 x 5")
        os.remove(self.path("list.txt"))
        self.assertEqual(run(POSEIDON, "summary", "--model=old.prototxt", cwd=self.dir).returncode, 0)

    def refused(self, *says, **net):
        self.net(**net)
        done = self.train()
        self.assertEqual(done.returncode, 1, done.stderr)
        for piece in says:
            self.assertIn(piece, done.stderr)

    def test_bad_pictures_of_labels(self):
        self.make([(6, 7), (6, 7)])
        good = self.picture("color.jpg")
        for pixels, says in [
                (png(np.zeros((6, 8))), "6 x 8 (height x width), but its image a0.png is 6 x 7; expected one size"),
                (png(np.zeros((6, 7)), depth=16), "a picture of labels with 16 bits; expected gray or a palette"),
                (png(np.zeros((6, 7, 2)), GRAY_ALPHA), "a picture of labels with transparency (alpha)"),
                (png(np.zeros((6, 7, 4)), RGBA), "a picture of labels with transparency (alpha)"),
                (png(np.zeros((6, 7, 3)), RGB), "a picture of labels with colours (RGB)"),
                (b"text", "not an image"), (png(np.zeros((6, 7)))[:-30], "PNG image"), (None, "no such file")]:
            if pixels is None:
                os.remove(self.path("l0.png"))
            else:
                self.write("l0.png", pixels)
            self.refused("list.txt, image 0", "l0.png", says)
        if reads("JPEG"):
            self.write("l0.png", good)
            self.refused("a JPEG picture of labels, whose compression changes values; expected PNG")
        self.write("l0.png", png(np.zeros((6, 7))))
        self.write("l1.png", png(np.zeros((7, 7))))  # met in the second sample; another takes its place
        self.refused("list.txt, image 1", "expected one size", batch=2)
        self.assertEqual(self.train(1, 1, "--max-bad=1").returncode, 0)

    def test_bad_lists(self):
        self.make([(6, 7)])
        for line, says in [("a0.png", "'a0.png' has no picture of labels; expected \"IMAGE LABELS\""),
                           ("a0.png 3", "'a0.png' has the label 3; expected the path of a picture of labels (ImageData"),
                           ("a 0.png l0.png", "'a' has a third path, 'l0.png'; expected \"IMAGE LABELS\"")]:
            self.write("list.txt", (line + "\n").encode())
            self.refused("list.txt:1", says)
        self.write("list.txt", b"\n")
        self.refused("lists no images; expected a line \"IMAGE LABELS\"")

    def test_settings(self):
        self.make([(6, 7)])
        for net, says in [
                ({"param": "crop_height: 9 crop_width: 5", "type": "DenseImageData"},
                 "the crop of 9 x 5 is larger than the image of 6 x 7 (height x width)"),
                ({"param": "crop_height: 3", "type": "DenseImageData"}, "crop_size 0, crop_height 3, crop_width 0; expected"),
                ({"param": "crop_height: 3 crop_width: 3", "type": "DenseImageData", "transform": "crop_size: 3"},
                 "crop_size 3, crop_height 3, crop_width 3; expected"),
                ({"param": "new_height: 3", "type": "DenseImageData"}, "dense_image_data_param: new_height is 3 and new_width 0"),
                ({"transform": "crop_size: 4 random_aspect_ratio_param { }"}, "does not cut pictures of labels"),
                ({"transform": "scale_factors: 0"}, "scale_factors 0; expected 0.01 to 100"),
                ({"transform": "scale_factors: 1 " * 17}, "17 scale_factors; expected at most 16"),
                ({"param": "label_size: 2"}, "in a layer of type ImageData"),
                ({"param": "label_type: PIXEL", "type": "ImageData"}, "label_type and ignore_label are ImageSegData's"),
                ({"transform": "scale_factors: 2", "type": "ImageData"}, "expected ImageSegData or DenseImageData")]:
            if net.get("type") == "ImageData":
                self.write("list.txt", b"a0.png 3\n")
            self.refused(says, **net)
        self.make([(6, 7)])
        self.net(transform="crop_size: 8")
        self.trained()
        self.assertIn("the crop of 8 x 8 is larger than the first image of 6 x 7 (height x width): images are padded with the mean, "
                      "labels with ignore_label 255", self.said)

    def test_a_label_beyond_the_classes(self):
        self.make([(6, 7)], classes=3)
        self.labels[0][2, 3] = 17
        self.write("l0.png", png(self.labels[0]))
        more = """
        layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 3 kernel_size: 1 } }
        layer { name: "s" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" top: "s" loss_param { ignore_label: 255 } }"""
        self.refused("label 17 of sample 0 of the batch is outside 0..2 (the scores have 3 classes)", more=more)


if __name__ == "__main__":
    unittest.main()
