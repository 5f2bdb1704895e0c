#!/usr/bin/env python3
"""Upsample of SegNet by the mask of pooling: values and gradients judged by numpy."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests"))
from folder_case import POSEIDON, FolderCase, h5py, np, run  # noqa: E402

NET = """
layer { name: "d" type: "HDF5Data" top: "x" top: "target" hdf5_data_param { source: "list.txt" batch_size: 2 } }
layer { name: "scale" type: "Scale" bottom: "x" top: "s" scale_param { axis: 0 num_axes: -1 filler { type: "constant" value: 1 } } }
layer { name: "pool" type: "Pooling" bottom: "s" top: "p" top: "mask" pooling_param { pool: MAX kernel_size: %d stride: 2 } }
layer { name: "power" type: "Power" bottom: "p" top: "q" power_param { scale: 3 } }
layer { name: "up" type: "Upsample" bottom: "q" bottom: "mask" top: "y" upsample_param { upsample_h: 5 upsample_w: 7 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "target" top: "loss" }
"""
SOLVER = 'net: "net.prototxt" base_lr: 0.5 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "x" snapshot_format: HDF5\n'


def places(x, kernel):
    """The values and the places of maxima, windows rounded up and clipped."""
    height, width = (-(-(n - kernel) // 2) + 1 for n in x.shape)
    where = np.zeros((height, width), int)
    for h in range(height):
        for w in range(width):
            window = x[2 * h:2 * h + kernel, 2 * w:2 * w + kernel]
            row, column = np.unravel_index(window.argmax(), window.shape)
            where[h, w] = (2 * h + row) * x.shape[1] + 2 * w + column
    return where


class Upsample(FolderCase):
    def check(self, kernel, channels):
        rng = np.random.default_rng(kernel)
        x = rng.permutation(2 * channels * 35).reshape(2, channels, 5, 7).astype(np.float32) / 64
        target = rng.standard_normal(x.shape).astype(np.float32)
        with h5py.File(self.path("data.h5"), "w") as f:
            f["x"], f["target"] = x, target
        self.write("list.txt", b"data.h5\n")
        self.write("net.prototxt", (NET % kernel).encode())
        self.write("solver.prototxt", SOLVER.encode())
        done = run(POSEIDON, "train", "--solver=solver.prototxt", "--force", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        y, slope = np.zeros_like(x), np.zeros_like(x)
        for n in range(2):
            for c in range(channels):
                where = places(x[n, c], kernel).ravel()
                y[n, c].flat[where] = 3 * x[n, c].flat[where]
        dy = (y - target) / 2
        for n in range(2):
            for c in range(channels):
                for at in places(x[n, c], kernel).ravel():  # a place of two windows counts twice
                    slope[n, c].flat[at] += 3 * dy[n, c].flat[at] * x[n, c].flat[at]
        with h5py.File(self.path("x_iter_1.caffemodel.h5")) as f:
            found = 1 - f["data/scale/0"][:].reshape(x.shape)
        np.testing.assert_allclose(found, 0.5 * slope, rtol=1e-4, atol=1e-4)
        done = run(POSEIDON, "extract", "--model=net.prototxt", "--weights=x_iter_1.caffemodel.h5", "--iterations=1",
                   "--blobs=s,mask,q,y", "--force", "f.h5", cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.path("f.h5")) as f:
            s, mask, q, found = (f[name][:] for name in ("s", "mask", "q", "y"))
        want = np.zeros_like(found)
        for n in range(2):
            for c in range(channels):
                where = places(s[n, c], kernel)
                np.testing.assert_array_equal(where, mask[n, c])
                want[n, c].flat[where.ravel()] = q[n, c].ravel()
        np.testing.assert_array_equal(found, want)

    def test_values_and_gradients(self):
        for kernel in 2, 3:  # apart; overlapping
            for channels in 3, 16:
                self.check(kernel, channels)

    def test_a_mask_of_other_places(self):
        with h5py.File(self.path("data.h5"), "w") as f:
            f["q"], f["mask"] = np.ones((2, 1, 2, 2)), np.array([0, 1, 4, 35.0] * 2).reshape(2, 1, 2, 2)
        self.write("list.txt", b"data.h5\n")
        for place, status in ((34, 0), (-1, 0), (35, 1), (0.5, 1), (-2, 1)):
            with h5py.File(self.path("data.h5"), "a") as f:
                f["mask"][1, 0, 1, 1] = f["mask"][0, 0, 1, 1] = place
            lines = ['layer { name: "d" type: "HDF5Data" top: "q" top: "mask" hdf5_data_param { source: "list.txt" batch_size: 2 } }',
                     'layer { name: "ip" type: "InnerProduct" bottom: "q" top: "ip" inner_product_param { num_output: 1 } }',
                     'layer { name: "s" type: "Silence" bottom: "ip" }', NET.splitlines()[5]]
            self.write("net.prototxt", "\n".join(lines).encode())
            with h5py.File(self.path("w.caffemodel.h5"), "w") as f:
                f["data/ip/0"], f["data/ip/1"] = np.zeros((1, 4), np.float32), np.zeros(1, np.float32)
            done = run(POSEIDON, "extract", "--model=net.prototxt", "--weights=w.caffemodel.h5", "--iterations=1", "--blobs=y",
                       "--force", "f.h5", cwd=self.dir)
            self.assertEqual(done.returncode, status, done.stderr)
            if status:
                self.assertIn("layer 'up' (Upsample): the mask says place %g of planes of 35 pixels; expected the second top of the "
                              "pooling that this layer undoes" % place, done.stderr)


if __name__ == "__main__":
    unittest.main()
