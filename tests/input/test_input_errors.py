#!/usr/bin/env python3
"""Bad input data as a training run meets it: the message names layer and file, and no rank hangs."""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests"))
from folder_case import POSEIDON, FolderCase, h5py, np, run  # noqa: E402

MPIRUN = os.environ["POSEIDON_MPIRUN"]

NET = """
name: "tiny"
layer { name: "input" type: "%(type)s" top: "data" top: "label" %(param)s }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc"
        inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }
"""
SOLVER = """
net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 20 display: 1 snapshot_prefix: "x"
snapshot_after_train: false
"""


class Errors(FolderCase):
    def setUp(self):
        super().setUp()
        with open(self.path("solver.prototxt"), "w") as f:
            f.write(SOLVER)

    def data(self, labels, name="data.h5", n=64):
        if os.path.exists(self.path(name)):
            os.remove(self.path(name))  # a rank that is still ending may hold a lock on it
        with h5py.File(self.path(name), "w") as f:
            f["data"] = np.zeros((n, 1, 4, 4), np.uint8)
            f["label"] = np.resize(np.asarray(labels), n)

    def train(self, ranks, type="Data", param='data_param { source: "data.h5" batch_size: 4 }',
              more=(), net=NET):
        with open(self.path("net.prototxt"), "w") as f:
            f.write(net % {"type": type, "param": param})
        return run(MPIRUN, str(ranks), POSEIDON, "train", "--solver=solver.prototxt", *more, cwd=self.dir)

    def refused(self, done, *says):
        self.assertNotIn(done.returncode, (0, 124), done.stderr)
        for piece in says:
            self.assertIn(piece, done.stderr)

    def test_good_data_train(self):
        self.data(range(10))
        self.assertEqual(self.train(2).returncode, 0)

    def warnings(self, says, *arguments, **options):
        """Of a dry run."""
        self.warned(self.train(1, *arguments, more=["--dry-run"], **options), says)

    def warned(self, done, says):
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = [line for line in done.stderr.splitlines() if line[:1] == "W" and "layer 'input'" in line]
        self.assertEqual(len(seen), len(says), seen)
        for line, pieces in zip(seen, says):
            for piece in pieces:
                self.assertIn(piece, line)

    def test_a_set_in_the_order_of_its_labels_is_warned_of(self):
        mixed = np.random.default_rng(1).permutation(np.arange(600) // 60)
        for labels, n in ((mixed, 600), (np.arange(600) % 10, 600), (np.full(600, 3), 600),
                          (np.arange(600) // 590, 600), (np.arange(30) // 15, 30)):
            self.data(labels, n=n)
            self.warnings([])
        self.data(np.arange(600) // 60, n=600)
        for ranks, more in ((1, "--dry-run"), (2, "--max-iter=1")):
            self.warned(self.train(ranks, more=[more]),
                        [["data.h5 is sorted by label (2 labels in its first 64 records)",
                          "train --shuffle mixes them; 'poseidon convert images' shuffles a folder"]])
        self.warned(self.train(1, more=["--max-iter=1", "--shuffle"]), [])
        self.data(np.arange(600) // 590 ^ 1, n=600)  # the first are not of the rare label
        self.warnings([])
        with open(self.path("list.txt"), "w") as f:
            f.write("data.h5\n")
        self.data(np.arange(600) // 300, n=600)
        param = 'hdf5_data_param { source: "list.txt" batch_size: 4 %s }'
        self.warnings([["(1 label in its first 64 records)", "hdf5_data_param { shuffle: true } mixes them"]],
                      "HDF5Data", param % "")
        self.warnings([], "HDF5Data", param % "shuffle: true")

    def test_photographs_of_folders_are_shuffled_and_a_sorted_list_or_data_base_is_warned_of(self):
        picture = os.path.join(os.environ["abs_top_srcdir"], "tests", "data", "input", "images", "color.png")
        for k in range(100):
            os.makedirs(self.path("set/%d" % (k // 25)), exist_ok=True)
            shutil.copy(picture, self.path("set/%d/%03d.png" % (k // 25, k)))
        with open(self.path("list.txt"), "w") as f:
            f.write("".join("set/%d/%03d.png %d\n" % (k // 25, k, k // 25) for k in range(100)))

        def convert(source, out, *options):
            done = run(POSEIDON, "convert", "images", source, out, "--resize=4", "--force", *options, cwd=self.dir)
            if "built without" in done.stderr:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)

        def order(*options):
            convert("set", "data.h5", *options)
            with h5py.File(self.path("data.h5"), "r") as f:
                return list(f["label"][()])
        usual = order()
        self.warnings([])
        self.assertEqual(sorted(usual), [k // 25 for k in range(100)])
        self.assertEqual(order(), usual)
        self.assertEqual(order("--seed=1"), usual)
        self.assertNotEqual(order("--seed=2"), usual)
        for off in ("--no-shuffle", "--noshuffle", "--shuffle=false"):
            self.assertEqual(order(off), sorted(usual))
        self.warnings([["data.h5 is sorted by label (2 labels in its first 50 records)"]])
        convert("list.txt", "data_lmdb")
        self.warnings([["data_lmdb/data.mdb is sorted by label"]],
                      param='data_param { source: "data_lmdb" batch_size: 4 }')
        param = 'image_data_param { source: "list.txt" batch_size: 4 new_height: 4 new_width: 4 %s }'
        self.warnings([["list.txt is sorted by label", "image_data_param { shuffle: true } mixes them"]],
                      "ImageData", param % "")
        self.warnings([], "ImageData", param % "shuffle: true")

    def test_images_with_their_channels_last_are_warned_of(self):
        for shape, warned in (((16, 16, 3), True), ((28, 28, 1), True), ((9, 8, 4), True), ((3, 16, 16), False),
                              ((1, 5, 3), False), ((64, 1, 1), False), ((16, 16, 2), False), ((16, 15, 3), True)):
            with h5py.File(self.path("data.h5"), "w") as f:
                f["data"] = np.zeros((20, *shape), np.uint8)
                f["label"] = np.arange(20) % 10
            text = "data set 'data' of 20 x %s is read as N x C x H x W, so %d channels" % (
                " x ".join(map(str, shape)), shape[0])
            self.warnings([["data.h5: " + text, "data.transpose(0, 3, 1, 2)"]] if warned else [])
        with open(self.path("list.txt"), "w") as f:
            f.write("data.h5\n")
        self.warned(self.train(2, "HDF5Data", 'hdf5_data_param { source: "list.txt" batch_size: 4 }'),
                    [["list.txt: " + text, "so 16 channels"]])

    def test_label_out_of_range_names_layer_sample_and_range(self):
        labels = np.arange(64) % 10
        labels[6] = 10
        self.data(labels)
        self.refused(self.train(1), "layer 'loss'", "label 10", "sample 2", "0..9", "10 classes")

    def test_labels_of_a_file_that_are_no_whole_numbers_are_refused(self):
        self.data(np.arange(64) % 10 + 0.5 * (np.arange(64) == 40))
        self.refused(self.train(2), "layer 'loss'", "label 0.5", "not a whole number in 0..9")
        self.refused(self.train(1, more=["--dry-run"]), "not ready to train", "not all of them whole")

    def test_label_out_of_range_on_one_of_four_ranks_ends_all(self):
        for place, value in ((13, 10), (63, -1), (63, 0.5e9)):
            labels = (np.arange(64) % 10).astype(np.float32)
            labels[place] = value
            self.data(labels)
            self.refused(self.train(4), "layer 'loss'", "label %g" % value, "0..9")

    def test_missing_file_is_named(self):
        self.refused(self.train(2), "layer 'input'", "data.h5", "no such file", self.dir)

    def test_truncated_file_is_named(self):
        self.data(range(10))
        size = os.path.getsize(self.path("data.h5"))
        for cut in (0, 50, size // 2, size - 1):
            os.truncate(self.path("data.h5"), cut)
            self.refused(self.train(1), "layer 'input'", "data.h5")
            self.data(range(10))

    def test_hdf5_data_given_an_h5_file_says_what_it_wants(self):
        self.data(range(10))
        self.refused(self.train(1, "HDF5Data", 'hdf5_data_param { source: "data.h5" batch_size: 4 }'),
                     "layer 'input'", "data.h5", "expected a list of HDF5 files, found an HDF5 file")

    def test_hdf5_data_with_a_missing_file_names_list_line_and_file(self):
        self.data(range(10))
        with open(self.path("list.txt"), "w") as f:
            f.write("data.h5\nother.h5\n")
        self.refused(self.train(1, "HDF5Data", 'hdf5_data_param { source: "list.txt" batch_size: 4 }'),
                     "layer 'input'", "list.txt:2", "other.h5")

    def test_hdf5_data_with_a_truncated_file_names_it(self):
        self.data(range(10))
        self.data(range(10), "other.h5")
        os.truncate(self.path("other.h5"), 1000)
        with open(self.path("list.txt"), "w") as f:
            f.write("data.h5\nother.h5\n")
        self.refused(self.train(1, "HDF5Data", 'hdf5_data_param { source: "list.txt" batch_size: 4 }'),
                     "layer 'input'", "list.txt", "other.h5", "truncated")

    def test_hdf5_and_lmdb_of_the_same_images_train_alike_on_one_and_two_ranks(self):
        pictures = os.path.join(os.environ["abs_top_srcdir"], "tests", "data", "input", "images")
        names = ["color.jpg", "color.png", "progressive.jpg", "color_444.jpg", "palette.png"]
        with open(self.path("list.txt"), "w") as f:
            f.write("".join("%s/%s %d\n" % (pictures, names[i % 5], i % 10) for i in range(60)))
        hashes = {}
        for kind, options in (("x.h5", []), ("raw_lmdb", []), ("png_lmdb", ["--encoded", "--encode-type=png"])):
            done = run(POSEIDON, "convert", "images", "list.txt", kind, "--shuffle", *options, cwd=self.dir)
            if "built without" in done.stderr:
                self.skipTest(done.stderr)
            for ranks in (1, 2):
                done = self.train(ranks, param='data_param { source: "%s" batch_size: %d } transform_param '
                                  '{ crop_size: 20 mirror: true scale: 0.004 mean_value: 100 }' %
                                  (kind, 8 // ranks), more=["--force", "--summary=s.json", "--comm=ps"])
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(self.path("s.json")) as f:
                    summary = json.load(f)
                hashes.setdefault(ranks, set()).add(summary["parameters_sha256"])
                hashes.setdefault("loss", []).append(summary["train_loss"])
        self.assertEqual((len(hashes[1]), len(hashes[2])), (1, 1))
        self.assertLess(max(hashes["loss"]) - min(hashes["loss"]), 1e-4 * max(hashes["loss"]))

    def test_the_dry_run_reads_records_and_names_a_filter_that_is_not_here(self):
        with h5py.File(self.path("data.h5"), "w") as f:  # only the chunk in the middle is compressed
            d = f.create_dataset("data", (60, 1, 8, 8), "u1", chunks=(20, 1, 8, 8), compression="lzf")
            noise = np.random.default_rng(1).integers(0, 256, (20, 1, 8, 8), dtype=np.uint8)
            d[:20], d[20:40], d[40:], f["label"] = noise, 0, noise, np.arange(60) % 10
            self.assertEqual([d.id.get_chunk_info(i).filter_mask for i in range(3)], [1, 0, 1])
        with open(self.path("data.h5"), "rb") as f:  # h5py's filter, by the number and name of one that nobody has
            content = bytearray(f.read())
        at = content.index(b"lzf\0")
        content[at - 8:at - 6], content[at:at + 3] = (32015).to_bytes(2, "little"), b"zst"
        with open(self.path("data.h5"), "wb") as f:
            f.write(content)
        for more in (["--dry-run"], []):
            self.refused(self.train(1, more=more), "layer 'input'", "data.h5: data set 'data' is compressed by filter "
                         "32015 (zst)", "h5repack -f GZIP=1 IN OUT")
        for damaged in (0, 1, 2):
            with h5py.File(self.path("data.h5"), "w") as f:
                d = f.create_dataset("data", data=np.resize(noise, (60, 1, 8, 8)), chunks=(20, 1, 8, 8), compression="gzip")
                f["label"] = np.arange(60) % 10
                where = d.id.get_chunk_info(damaged)
            with open(self.path("data.h5"), "r+b") as f:
                f.seek(where.byte_offset)
                f.write(b"\0" * where.size)
            with open(self.path("list.txt"), "w") as f:
                f.write("data.h5\n")
            self.refused(self.train(1, more=["--dry-run"]), "layer 'input'", "data set 'data' cannot be read")
            self.refused(self.train(1, "HDF5Data", 'hdf5_data_param { source: "list.txt" batch_size: 4 }',
                                    more=["--dry-run"]), "layer 'input'", "data set 'data' cannot be read")

    def test_the_dry_run_reads_images_without_single_labels(self):
        picture = os.path.join(os.environ["abs_top_srcdir"], "tests", "data", "input", "images", "color.png")
        for names in ("good good bad", "good bad good"):
            with open(self.path("list.txt"), "w") as f:
                f.write("".join("%s 1 2\n" % {"good": picture, "bad": self.path("list.txt")}[n] for n in names.split()))
            done = self.train(1, "ImageData", 'image_data_param { source: "list.txt" batch_size: 2 label_size: 2 '
                              'new_height: 9 new_width: 9 }', more=["--dry-run"],
                              net=NET.replace("SoftmaxWithLoss", "SigmoidCrossEntropyLoss").replace("10", "2"))
            if "built without" in done.stderr:
                self.skipTest(done.stderr)
            self.refused(done, "layer 'input'", "list.txt, image %d" % names.split().index("bad"))

    def test_a_file_that_another_program_has_open_for_writing_says_so(self):
        self.data(range(10))
        with h5py.File(self.path("data.h5"), "a"):
            self.refused(self.train(1, more=["--dry-run"]), "data.h5: another program has it open for writing",
                         "HDF5_USE_FILE_LOCKING=FALSE")

    def test_records_of_one_number_are_described(self):
        with h5py.File(self.path("data.h5"), "w") as f:
            f["data"], f["label"] = np.zeros((8, 3)), np.arange(8) % 10
        with open(self.path("list.txt"), "w") as f:
            f.write("data.h5\n")
        done = self.train(1, "HDF5Data", 'hdf5_data_param { source: "list.txt" batch_size: 4 }', more=["--dry-run"],
                          net=NET.replace('top: "data" top: "label"', 'top: "label" top: "data"', 1))
        self.assertIn("list.txt, 8 records of single floats", done.stdout, done.stderr)

    def test_a_file_that_is_damaged_while_training_ends_all_ranks(self):
        with h5py.File(self.path("data.h5"), "w") as f:
            f.create_dataset("data", data=np.random.default_rng(1).integers(
                0, 256, (64, 1, 4, 4), dtype=np.uint8), chunks=(8, 1, 4, 4), compression="gzip")
            f["label"] = np.arange(64) % 10
            where = f["data"].id.get_chunk_info(7)
        with open(self.path("data.h5"), "r+b") as f:
            f.seek(where.byte_offset)
            f.write(b"\0" * where.size)
        self.refused(self.train(2), "layer 'input'", "data.h5")

    def datum(self, label, pixel):
        """Caffe's Datum of 1 x 4 x 4 bytes, all alike."""
        return bytes([8, 1, 16, 4, 24, 4, 34, 16]) + bytes([pixel]) * 16 + bytes([40, label])

    def begin(self, ranks, source):
        """A training without an end: the loss is 0 as long as every pixel is the label."""
        with open(self.path("net.prototxt"), "w") as f:
            f.write("""
                layer { name: "input" type: "Data" top: "data" top: "label" data_param { source: "%s" batch_size: 10 } }
                layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" param { lr_mult: 1e-30 } param { lr_mult: 0 }
                        inner_product_param { num_output: 1 weight_filler { type: "constant" value: 0.0625 } } }
                layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" }""" % source)
        log = open(self.path("log"), "w")
        self.addCleanup(log.close)
        training = subprocess.Popen([MPIRUN, str(ranks), POSEIDON, "train", "--solver=solver.prototxt", "--threads=1",
                                     "--max-iter=100000000"], cwd=self.dir, stdout=log, stderr=log)
        self.addCleanup(training.wait)
        self.addCleanup(training.terminate)
        self.pass_iterations(training, 30)
        return training

    def log(self):
        with open(self.path("log")) as f:
            return f.read()

    def pass_iterations(self, run, n):
        until = self.log().count(", loss = ") + n
        while self.log().count(", loss = ") < until and run.poll() is None:
            time.sleep(0.02)

    def all_losses_are_zero(self):
        losses = [line.split(", loss = ")[1] for line in self.log().splitlines() if ", loss = " in line]
        self.assertGreaterEqual(len(losses), 30)
        self.assertEqual(set(losses), {"0"})

    def test_an_lmdb_that_is_written_while_training_reads_it_never_gives_other_records(self):
        try:
            import lmdb
        except ImportError:
            self.skipTest("this Python has no lmdb")

        def commit(env, first, n, pixel):
            with env.begin(write=True) as t:
                for i in range(first, first + n):
                    t.put(b"%08d" % i, self.datum(i % 10, i % 10 if pixel is None else pixel))

        for ranks, commits in ((1, 1), (1, 2), (2, 30)):
            env = lmdb.open(self.path("db%d" % commits), map_size=1 << 26)
            commit(env, 0, 500, None)
            run = self.begin(ranks, "db%d" % commits)
            for k in range(commits):
                commit(env, 1000 + 50 * k, 50, 99)
                commit(env, 0, 500, 99) if k else None  # pages that are free by now are used again
            self.pass_iterations(run, 100)
            self.all_losses_are_zero()
            if commits == 1:  # no page of the set that is read can have been used again
                self.assertIsNone(run.poll(), self.log())
                run.terminate()
            else:
                self.assertNotIn(run.wait(60), (0, 124), self.log())
                self.assertIn("layer 'input'", self.log())
                self.assertIn("db%d/data.mdb: another program is writing to this LMDB" % commits, self.log())
            run.wait()

    def test_a_program_that_would_change_the_hdf5_file_that_training_reads_is_kept_out(self):
        with h5py.File(self.path("data.h5"), "w") as f:
            f["label"] = np.arange(500) % 10
            f["data"] = np.resize(np.arange(500) % 10, (16, 500)).T.reshape(500, 1, 4, 4).astype(np.uint8)
        run = self.begin(2, "data.h5")
        with self.assertRaises(OSError):
            h5py.File(self.path("data.h5"), "a")
        self.pass_iterations(run, 30)
        self.assertIsNone(run.poll(), self.log())
        self.all_losses_are_zero()


if __name__ == "__main__":
    unittest.main(verbosity=1)
