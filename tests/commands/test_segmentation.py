#!/usr/bin/env python3
"""test --classes of pixels and classify --labels-out, judged by numpy; the PNG files are written and read by this test itself."""
import json
import os
import struct
import sys
import unittest
import zlib

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests"))
from folder_case import POSEIDON, FolderCase, h5py, np, reads, run  # noqa: E402
from png_files import RGB, png  # noqa: E402

MPIRUN = os.environ["POSEIDON_MPIRUN"]
HEIGHT, WIDTH, CLASSES, IMAGES = 10, 12, 5, 7
SCORES = """
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 5 kernel_size: 1 } }
"""
DATA = """
layer { name: "d" type: "ImageSegData" top: "data" top: "label"
        image_data_param { source: "list.txt" batch_size: 3 label_type: PIXEL } transform_param { mean_value: 100 } }
"""
LOSS = """
layer { name: "s" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" top: "s" loss_param { ignore_label: 255 } }
layer { name: "a" type: "Accuracy" bottom: "c" bottom: "label" top: "a" accuracy_param { ignore_label: 255 } }
"""
DEPLOY = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 10 dim: 12 } } }
""" + SCORES + """
layer { name: "prob" type: "Softmax" bottom: "c" top: "prob" }
"""


def read_palette_png(data):
    """The indices and the colours of a PNG of 8 bits with a palette."""
    parts, at = {}, 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        parts[kind] = parts.get(kind, b"") + data[at + 8:at + 8 + length]
        at += 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert (depth, kind) == (8, 3)
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()  # no filters: best for indices
    return rows[:, 1:], np.frombuffer(parts[b"PLTE"], np.uint8).reshape(-1, 3)


class Segmentation(FolderCase):
    def setUp(self):
        super().setUp()
        if not reads("PNG"):
            self.skipTest("built without PNG")
        rng = np.random.default_rng(3)
        self.images = rng.integers(0, 256, (IMAGES, HEIGHT, WIDTH, 3))
        self.labels = rng.integers(0, CLASSES - 1, (IMAGES, HEIGHT, WIDTH))  # the last class has no pixel
        self.labels[rng.random(self.labels.shape) < 0.1] = 255
        for i in range(IMAGES):
            self.write("a%d.png" % i, png(self.images[i], RGB))
            self.write("l%d.png" % i, png(self.labels[i]))
        self.write("list.txt", "".join("a%d.png l%d.png\n" % (i, i) for i in range(IMAGES)).encode())
        self.weights, self.bias = rng.standard_normal((CLASSES, 3)).astype(np.float32), rng.standard_normal(CLASSES).astype(np.float32)
        with h5py.File(self.path("w.caffemodel.h5"), "w") as f:
            f["data/c/0"], f["data/c/1"] = self.weights.reshape(CLASSES, 3, 1, 1), self.bias
        self.write("net.prototxt", (DATA + SCORES + LOSS).encode())
        self.write("deploy.prototxt", DEPLOY.encode())

    def chosen(self, mean):
        x = self.images[..., ::-1].astype(np.float64) - mean
        return (x @ self.weights.T.astype(np.float64) + self.bias).argmax(-1)

    def test_classes_of_pixels(self):
        found, best = None, self.chosen(100)
        counted = self.labels != 255
        confusion = np.zeros((CLASSES, CLASSES), int)
        np.add.at(confusion, (self.labels[counted], best[counted]), 1)
        hits = confusion.diagonal()
        with np.errstate(invalid="ignore"):
            iou = hits / (confusion.sum(0) + confusion.sum(1) - hits)
        for ranks in 1, 2:
            done = run(MPIRUN, str(ranks), POSEIDON, "test", "--model=net.prototxt", "--weights=w.caffemodel.h5", "--classes", "--json",
                       cwd=self.dir)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            np.testing.assert_array_equal(found["confusion"], confusion)
            for k, one in enumerate(found["classes"]):
                self.assertEqual(one["samples"], confusion[k].sum())
                np.testing.assert_allclose(one["iou"], iou[k], rtol=1e-5)
            np.testing.assert_allclose(found["mean_iou"], np.nanmean(iou), rtol=1e-5)
            np.testing.assert_allclose(found["pixel_accuracy"], hits.sum() / counted.sum(), rtol=1e-5)
        done = run(POSEIDON, "test", "--model=net.prototxt", "--weights=w.caffemodel.h5", "--classes", cwd=self.dir)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], "^class +pixels +accuracy +IoU$")
        self.assertRegex(lines[1], "^0 +%d +%.1f %% +%.1f %%$" % (confusion[0].sum(), 100 * hits[0] / confusion[0].sum(), 100 * iou[0]))
        self.assertRegex(lines[-1], "^all, mean IoU +%d +%.1f %% +%.1f %%$"
                         % (counted.sum(), 100 * hits.sum() / counted.sum(), 100 * np.nanmean(iou)))

    def classify(self, *arguments):
        return run(POSEIDON, "classify", "--model=deploy.prototxt", "--weights=w.caffemodel.h5", *arguments, cwd=self.dir)

    def test_pictures_of_labels_are_written(self):
        self.write("more/a0.jpg.png", png(self.images[0], RGB))
        names = ["a%d.png" % i for i in range(IMAGES)]
        done = self.classify("--labels-out=out", "--mean=100", "--json", "--top=5", *names, "more")
        self.assertEqual(done.returncode, 0, done.stderr)
        best, report = self.chosen(100), json.loads(done.stdout)
        self.assertEqual(sorted(os.listdir(self.path("out"))), sorted(names + ["a0.jpg.png"]))
        for i in range(IMAGES):
            self.assertEqual(report[i]["labels"], "out/a%d.png" % i)
            with open(self.path("out", names[i]), "rb") as f:
                indices, colors = read_palette_png(f.read())
            np.testing.assert_array_equal(indices, best[i])
            for k in report[i]["top"]:
                np.testing.assert_allclose(k["probability"], (best[i] == k["number"]).mean(), rtol=1e-5)
        self.assertEqual(colors.tolist()[:9], [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128], [128, 0, 128], [0, 128, 128],
                                               [128, 128, 128], [64, 0, 0]])
        self.assertEqual(colors.tolist()[255], [224, 224, 192])
        self.write("again.prototxt", (DATA.replace("list.txt", "again.txt") + SCORES + LOSS).encode())
        self.write("again.txt", "".join("a%d.png out/a%d.png\n" % (i, i) for i in range(IMAGES)).encode())
        done = run(POSEIDON, "test", "--model=again.prototxt", "--weights=w.caffemodel.h5", "--classes", "--json", cwd=self.dir)
        self.assertEqual(json.loads(done.stdout)["mean_iou"], 1, done.stderr)  # the pictures are labels

    def test_what_is_refused(self):
        os.mkdir(self.path("out"))
        done = self.classify("--labels-out=out", "a0.png")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--labels-out: out: File exists; expected the name of a new folder", done.stderr)
        self.write("other/a0.png", png(self.images[0], RGB))
        done = self.classify("--labels-out=new", "a0.png", "other/a0.png")
        self.assertEqual(done.returncode, 1)
        self.assertIn("other/a0.png: new/a0.png would be its second picture of labels", done.stderr)
        self.write("deploy.prototxt", (DEPLOY.replace("prob", "p") + 'layer { name: "q" type: "Reduction" bottom: "c" top: "q" '
                                       'reduction_param { axis: 2 } } layer { name: "prob" type: "Softmax" bottom: "q" top: "prob" }').encode())
        done = self.classify("--labels-out=newer", "a0.png")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected scores of at most 256 classes for every pixel, N x classes x H x W; found 'prob' of shape 2 5 (10)",
                      done.stderr)


if __name__ == "__main__":
    unittest.main()
