#!/usr/bin/env python3
"""poseidon convert images: pictures that are read otherwise than one would think, and ends before the
end. Judges: what OpenCV made of the pictures (tests/data/input/images.h5), numpy, Pillow if it is there."""
import os
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
from png_files import PALETTE, chunk, png  # noqa: E402

try:
    import PIL.Image
except ImportError:
    PIL = None

if not reads("JPEG", "PNG"):
    print("SKIP: built without JPEG or PNG")
    sys.exit(77)



def mask():
    labels = np.zeros((40, 52), np.uint8)
    labels[10:30, 10:30] = 1
    labels[20:35, 30:50] = 2
    return labels


VOC = bytes((0, 0, 0, 128, 0, 0, 0, 128, 0))    # what Pascal VOC's classes 0, 1, 2 look like


class Pictures(FolderCase):
    def poseidon(self, *arguments, status=0):
        done = run(POSEIDON, *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def convert(self, name, content, *options, status=0):
        """What is said, and the pixels."""
        self.write(name, content)
        out = self.path("x.h5")
        said = self.poseidon("convert", "images", self.write_list([name]), out, "--force", *options, status=status)
        if status:
            return said, None
        with h5py.File(out, "r") as f:
            return said, f["data"][0]

    # ---- values
    def test_cmyk_without_adobes_marker_is_read_as_with_it(self):
        data = self.picture("cmyk.jpg")
        at = data.index(b"\xff\xee")
        self.assertEqual(data[at + 4:at + 9], b"Adobe")
        data = data[:at] + data[at + 2 + struct.unpack(">H", data[at + 2:at + 4])[0]:]
        pixels = self.convert("cmyk.jpg", data)[1]
        with h5py.File(os.path.join(DATA, "images.h5"), "r") as f:
            expected = f["cmyk.jpg"]["color"][:].transpose(2, 0, 1).astype(int)
        self.assertLessEqual(abs(pixels - expected).max(), 2)

    def test_orientation_of_imagemagicks_profile_is_applied(self):
        upright = {1: lambda a: a, 3: lambda a: np.rot90(a, 2), 6: lambda a: np.rot90(a, -1), 8: np.rot90}
        for kind, o in ((kind, o) for kind in (b"exif", b"APP1") for o in upright):
            exif = (b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + bytes((0, o)) + b"\0" * 6).hex().encode()
            text = b"\n%s\n%8d\n%s\n%s\n" % (kind, len(exif) // 2, exif[:40], exif[40:])
            more = chunk(b"zTXt", b"Raw profile type " + kind + b"\0\0" + zlib.compress(text))
            pixels = self.convert("a.png", png(mask(), more=more), "--gray")[1]
            self.assertTrue(np.array_equal(pixels[0], upright[o](mask())), (kind, o))
        for text in (b"", b"\n", b"\nexif\n", b"\nexif\n 4\n4", b"\nexif\n 4\n4xyz\n", b"exif"):
            more = chunk(b"tEXt", b"Raw profile type exif\0" + text)
            self.assertTrue(np.array_equal(self.convert("a.png", png(mask(), more=more), "--gray")[1][0], mask()))

    WARNING = "a palette is read as gray: values are the brightness of its colours, not its indices"

    def test_palette_read_as_gray_is_told_of(self):
        said, pixels = self.convert("a.png", png(mask(), PALETTE, palette=VOC), "--gray")
        self.assertEqual(list(np.unique(pixels)), [0, 38, 75])
        self.assertIn("1 image, first a.png: " + self.WARNING, said)
        self.assertNotIn("palette", self.convert("a.png", png(mask(), PALETTE, palette=VOC))[0])
        self.assertNotIn("palette", self.convert("a.png", png(mask()), "--gray")[0])
        command = said[said.index("python3 -c"):].strip()
        if PIL:
            subprocess.run(command.replace("python3", sys.executable).replace("*.png", "a.png"), shell=True, check=True, cwd=self.dir)
            with open(self.path("a.png"), "rb") as f:
                said, pixels = self.convert("a.png", f.read(), "--gray")
            self.assertTrue(np.array_equal(pixels[0], mask()))
            self.assertNotIn("palette", said)

    def summary(self, kind, source, fields):
        net = ("layer { name: 'in' type: '%s' top: 'data' top: 'label' %s_param { source: '%s' batch_size: 1 %s } %s }"
               % (kind, "image_data" if kind == "ImageData" else "data", source, *fields))
        return self.poseidon("summary", "--model=" + self.write("net.prototxt", net.encode()))

    def test_layers_tell_of_labels_that_are_changed(self):
        self.write("a.png", png(mask(), PALETTE, palette=VOC))
        self.write("b.png", png(mask()))
        palette, gray = self.write_list(["a.png"]), self.write("gray.txt", b"b.png 0\n")
        root = "root_folder: '%s/'" % self.dir
        self.assertIn(self.WARNING, self.summary("ImageData", palette, (root + "is_color: false", "")))
        self.assertNotIn("warning", self.summary("ImageData", palette, (root, "")))
        self.assertNotIn("warning", self.summary("ImageData", gray, (root + "is_color: false", "")))
        size = root + "is_color: false new_height: 20 new_width: 26"
        self.assertIn("few gray values are resized", self.summary("ImageData", gray, (size, "")))
        said = run(POSEIDON, "convert", "images", palette, self.path("x_lmdb"), "--encoded")
        if "built without liblmdb" not in said.stderr:
            transform = "transform_param { force_gray: true }"
            self.assertIn(self.WARNING, self.summary("Data", self.path("x_lmdb"), ("backend: LMDB", transform)))
            self.assertNotIn("warning", self.summary("Data", self.path("x_lmdb"), ("backend: LMDB", "")))

    def test_resized_label_pictures_are_told_of(self):
        said, pixels = self.convert("a.png", png(mask() // 2 * 2), "--gray", "--resize=32x32")
        self.assertIn(1, pixels)    # no class of the mask
        self.assertIn("1 image, first a.png: few gray values are resized", said)
        self.assertNotIn("few gray", self.convert("a.png", png(mask()), "--gray", "--resize=52x40")[0])
        for name in ("color.jpg", "gray.png"):
            self.assertNotIn("warning", self.convert(name, self.picture(name), "--gray", "--resize=32x32")[0])

    # ---- files and folders
    def test_12_bit_jpeg_is_not_called_damaged(self):
        data = (b"\xff\xd8\xff\xdb\0\x43\0" + b"\1" * 64 + b"\xff\xc1\0\x0b\x0c\0\x08\0\x08\1\1\x11\0" +
                b"\xff\xda\0\x08\1\1\0\0\x3f\0\0\0\xff\xd9")
        said = self.convert("a.jpg", data, status=1)[0]
        self.assertIn("expected 8 bits, baseline or progressive, found another JPEG image", said)
        self.assertIn("precision 12", said)

    def test_other_pictures_are_named_with_a_command_for_any_ending(self):
        for head, kind in ((b"\0\0\0\x1cftypavif", "an AVIF picture"), (b"\0\0\0\x18ftypheic", "a HEIF picture"),
                           (b"\0\0\1\0\1\0", "an ICO picture"), (b"8BPS\0\1", "a PSD picture")):
            self.assertIn("found %s; 'mogrify -auto-orient -format png FILE...'" % kind,
                          self.convert("a.jpg", head + b"\0" * 40, status=1)[0])
        for head, kind in ((b"%PDF-1.4", "a PDF document"), (b"\0\0\0\x18ftypisom", "a film (MP4)")):
            said = self.convert("a.jpg", head + b"\n" * 40, status=1)[0]
            self.assertIn("found %s\n" % kind, said)

    def test_what_windows_leaves_is_passed_over(self):
        for name in ("a/1.jpg", "b/2.jpg"):
            self.write("p/" + name, self.picture("color.jpg"))
        for name in ("a/Thumbs.db", "b/desktop.ini", "b/.DS_Store"):
            self.write("p/" + name, b"x")
        said = self.poseidon("convert", "images", self.path("p"), self.path("x.h5"))
        self.assertIn("2 images of 3x23x37 of 2 classes", said)
        self.assertIn("3 files passed over: hidden, Thumbs.db or desktop.ini\n", said)
        os.remove(self.path("p/b/.DS_Store"))
        os.mkdir(self.path("p/.cache"))
        self.assertIn("2 files passed over", self.poseidon("convert", "images", self.path("p"), self.path("x.h5"), "--force"))

    def test_numbers_as_names_of_classes_are_told_of(self):
        for names, warning in ((("0", "1", "2", "10"), "folder '10' has label 2"), (("1", "2"), "folder '1' has label 0"),
                               (("0", "1", "2"), None), (("00", "01", "10x"), None)):
            for name in names:
                self.write("p/%s/1.jpg" % name, self.picture("color.jpg"))
            said = self.poseidon("convert", "images", self.path("p"), self.path("x.h5"), "--force")
            self.assertEqual(said.count("has label"), 1 if warning else 0, said)
            self.assertIn(warning or "", said)
            shutil.rmtree(self.path("p"))

    def test_folder_that_is_no_class_is_told_plainly(self):
        self.write("p/zebra/1.jpg", self.picture("color.jpg"))
        said = self.poseidon("convert", "images", self.path("p"), self.path("x.h5"), "--classes=" + self.write("c.txt", b"cat\ndog\n"),
                             status=1)
        self.assertIn("p/zebra: expected a folder with the name of a class; %s has none of this name" % self.path("c.txt"), said)

    # ---- ends
    def test_interrupt_does_not_wait_for_a_picture(self):
        held, end = os.pipe()   # nobody writes
        for out in ("x.h5", "x_lmdb"):
            first = os.path.join(DATA, "images", "color.jpg")
            listing = self.write("list.txt", ("%s 0\n/dev/fd/%d 1\n" % (first, held)).encode())
            before = sorted(os.listdir(self.dir))
            process = subprocess.Popen([POSEIDON, "convert", "images", listing, self.path(out)],
                                       pass_fds=[held], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE)
            while process.poll() is None and sorted(os.listdir(self.dir)) == before:
                time.sleep(0.01)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
            text = process.communicate()[1].decode()
            if "built without" not in text:
                self.assertEqual(process.returncode, -signal.SIGTERM, text)
            self.assertEqual(sorted(os.listdir(self.dir)), before)
        os.close(held)
        os.close(end)

    def test_long_conversion_says_how_far_it_is(self):
        held, end = os.pipe()   # the second of three images comes after the first line of progress is due
        first = os.path.join(DATA, "images", "color.jpg")
        listing = self.write("list.txt", ("%s 0\n/dev/fd/%d 1\n%s 0\n" % (first, held, first)).encode())
        process = subprocess.Popen([POSEIDON, "convert", "images", listing, self.path("x.h5")], pass_fds=[held],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        os.close(held)
        time.sleep(10.5)
        with open(end, "wb") as pipe:
            pipe.write(self.picture("color.jpg"))
        said = process.communicate(timeout=60)[1].decode()
        self.assertEqual((process.returncode, said.count(" left")), (0, 1), said)
        self.assertRegex(said, r"(?m)^2 of 3 images; about [5-9]\.\d+ s left$")

    def test_ignored_hangup_does_not_interrupt(self):  # as under nohup
        listing = self.write_list([PICTURES[i % 5] for i in range(2000)])
        process = subprocess.Popen(
            [POSEIDON, "convert", "images", listing, self.path("x.h5"), "--root=" + os.path.join(DATA, "images")],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        while process.poll() is None:
            process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        self.assertEqual(process.returncode, 0, process.communicate()[1])
        process.stderr.close()


if __name__ == "__main__":
    unittest.main()
