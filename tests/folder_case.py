"""What tests in Python share: cases with a folder of their own, and the pictures of tests/data/input."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py  # noqa: F401
    import numpy as np  # noqa: F401
except ImportError:
    print("SKIP: this Python has no h5py")
    sys.exit(77)

POSEIDON = os.environ["POSEIDON"]
DATA = os.path.join(os.environ["abs_top_srcdir"], "tests", "data", "input")
PICTURES = ["color.jpg", "gray.png", "color.png", "palette.png", "progressive.jpg"]


def run(*command, **options):
    return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": 600, **options})


def reads(*kinds):
    """Whether this build reads pictures of these kinds."""
    said = run(POSEIDON, "--version").stdout
    return all(" " + kind in said for kind in kinds)


class FolderCase(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="poseidon-test-")

    def tearDown(self):
        shutil.rmtree(self.dir)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(content)
        return self.path(name)

    def write_list(self, names=PICTURES, step=1):
        """A list of pictures whose labels are 0, step, 2 * step and so on."""
        return self.write("list.txt", "".join("%s %d\n" % (name, step * i) for i, name in enumerate(names)).encode())

    def picture(self, name):
        with open(os.path.join(DATA, "images", name), "rb") as f:
            return f.read()

    def refuses(self, *command, says, status=1, **options):
        """Runs a command that fails with all of `says`, prints nothing else and leaves the folder as it was."""
        before = sorted(os.listdir(self.dir))
        done = run(*command, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for piece in says:
            self.assertIn(piece, done.stderr)
        self.assertEqual(sorted(os.listdir(self.dir)), before)
        return done
