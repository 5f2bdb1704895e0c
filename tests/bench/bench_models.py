#!/usr/bin/env python3
"""One training step of large nets on two ranks: seconds and peak memory.

    tests/bench/bench_models.py --poseidon=build/poseidon [--ranks=2] [--batch=8] [--iterations=2] [NET...]

Nets are those of models/, at their own image size, on random images. Seconds are of the last iteration (the
first one lays memory out), memory is the largest resident set of a rank and the sum over ranks (pages that
ranks share count twice). Ends with rows for tests/bench/RESULTS.md. Wants h5py.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
WRAPPER = ("import resource, subprocess, sys; status = subprocess.call(sys.argv[1:]); "
           "print('peak', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(status)")


def write_files(folder, name, images):
    import h5py
    import numpy
    with open(os.path.join(TOP, "models", name, "train_val.prototxt")) as f:
        net = f.read()
    crop = int(re.search(r"crop_size:\s*(\d+)", net).group(1))
    random = numpy.random.default_rng(1)
    with h5py.File(os.path.join(folder, "data.h5"), "w") as f:
        f["data"] = random.integers(0, 256, (images, 3, crop, crop), dtype="uint8")
        f["label"] = random.integers(0, 1000, images).astype("int32")
    net = re.sub(r'source:\s*"[^"]*"', 'source: "%s/data.h5"' % folder, net)
    net = re.sub(r"mean_file:\s*\"[^\"]*\"", "mean_value: 110", net)
    with open(os.path.join(folder, "net.prototxt"), "w") as f:
        f.write(net)
    with open(os.path.join(folder, "solver.prototxt"), "w") as f:
        f.write('net: "%s/net.prototxt" base_lr: 1e-5 momentum: 0.9 weight_decay: 0.0005 lr_policy: "fixed" '
                "test_interval: 1000000 test_initialization: false display: 1 snapshot_after_train: false" % folder)
    return crop


def bench(o, name):
    with tempfile.TemporaryDirectory() as folder:
        crop = write_files(folder, name, 2 * o.ranks * o.batch)
        done = subprocess.run(
            ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(o.ranks), sys.executable, "-c", WRAPPER,
             os.path.abspath(o.poseidon), "train", "--solver=" + folder + "/solver.prototxt", "--threads=1",
             "--batch=%d" % o.batch, "--max-iter=%d" % o.iterations, "--force", "--summary=" + folder + "/summary.json"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=o.timeout)
        if done.returncode:
            sys.exit("failed: %s\n%s" % (name, done.stdout[-3000:]))
        with open(folder + "/summary.json") as f:
            summary = json.load(f)
    peaks = [int(peak) / 2**20 for peak in re.findall(r"peak (\d+)", done.stdout)]
    rates = re.findall(r"\(([\d.e+-]+) iter/s", done.stdout)
    print("| %s | %d | %d | %d | %.2f | %.2f | %.2f |" % (
        name, summary["parameters"], crop, o.batch, 1 / float(rates[-1]), max(peaks), sum(peaks)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poseidon", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8, help="images a rank")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one net")
    parser.add_argument("nets", nargs="*", default=["googlenet", "vgg19_22k", "inception_v3", "resnet152"])
    o = parser.parse_args()
    print("%d ranks, one thread each\n\n| net | parameters | pixels | images a rank | s an iteration | GiB of the largest "
          "rank | GiB in all |\n|---|---|---|---|---|---|---|" % o.ranks, flush=True)
    for name in o.nets:
        bench(o, name)


if __name__ == "__main__":
    main()
