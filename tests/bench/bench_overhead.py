#!/usr/bin/env python3
"""What synchronising costs on one machine: training with a scheme against the same ranks without one.

    tests/bench/bench_overhead.py --poseidon=build/poseidon [--ranks=1] [--split] [--options=TEXT] [--rounds=5]
        [NET:BATCH:ITERATIONS...]

Nets of models/ train on made-up images, all cores of the machine shared among the ranks, with --comm=none (every rank
for itself: the ideal) and --comm=SCHEME in turns. Prints rows of CSV: net, ranks, images a rank, scheme, milliseconds an
iteration without and with it (medians), and by how many per cent the second is longer (median over the rounds, and
the least and the most). --split: the ideal is one rank that has all cores and the images of all ranks. --options:
more of train's, of the ranks with a scheme. Nothing else should run meanwhile. docs/overhead.csv keeps the rows.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "..", "models")
SHAPES = {"lenet": (1, 28, 28), "cifar10_quick": (3, 32, 32), "alexnet": (3, 227, 227)}
NETS = ["lenet:64:300", "cifar10_quick:100:80", "googlenet:32:6", "alexnet:64:6"]


def blocks(text):
    """The net's first-level messages and lines."""
    depth, block = 0, []
    for line in text.splitlines(True):
        block.append(line)
        depth += line.count("{") - line.count("}")
        if depth == 0:
            yield "".join(block)
            block = []


def write_net(folder, net, ranks, batch, iterations):
    """Data layers become made-up images; no tests, no snapshots."""
    source = os.path.join(MODELS, net)
    with open(os.path.join(source, "train_val.prototxt")) as f:
        kept = [b for b in blocks(f.read()) if not re.search(r'type: *"(Data|ImageData|HDF5Data)"', b)]
    shape = (batch,) + SHAPES.get(net, (3, 224, 224))
    with open(os.path.join(folder, "net%d.prototxt" % ranks), "w") as f:
        f.write('layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {\n'
                '  shape { %s } data_filler { type: "gaussian" std: 50 }\n'
                '  shape { dim: %d } data_filler { type: "constant" } } }\n' %
                (" ".join("dim: %d" % n for n in shape), batch))
        f.writelines(kept)
    with open(os.path.join(source, "solver.prototxt")) as f:
        lines = [line for line in f if not re.match(r" *(net|snapshot\w*|test_\w*|max_iter|display|base_lr) *:", line)]
    with open(os.path.join(folder, "solver%d.prototxt" % ranks), "w") as f:
        f.writelines(lines)
        f.write('\nnet: "%s/net%d.prototxt" base_lr: 1e-6 max_iter: %d display: 0 snapshot_after_train: false\n' %
                (folder, ranks, iterations))


def seconds(o, folder, ranks, comm, options=()):
    """Of an iteration."""
    summary = os.path.join(folder, "summary.json")
    command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
    command = (command if ranks > 1 else []) + [
        o.poseidon, "train", "--solver=%s/solver%d.prototxt" % (folder, ranks), "--comm=" + comm, "--force",
        "--threads=%d" % max(1, os.cpu_count() // ranks), "--summary=" + summary, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    if done.returncode:
        sys.exit("failed: %s\n%s" % (" ".join(command), done.stdout[-2000:]))
    with open(summary) as f:
        figures = json.load(f)
    return figures["global_batch"] / figures["images_per_second_after_warmup"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poseidon", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--comm", default="ps")
    parser.add_argument("--options", default="")
    parser.add_argument("nets", nargs="*", default=NETS)
    o = parser.parse_args()
    o.poseidon = os.path.abspath(o.poseidon)
    for given in o.nets:
        net, batch, iterations = given.split(":")
        ideal = 1 if o.split else o.ranks
        with tempfile.TemporaryDirectory() as folder:
            for ranks in (ideal, o.ranks):
                write_net(folder, net, ranks, int(batch) * o.ranks // ranks, int(iterations))
            pairs = [[seconds(o, folder, ideal, "none"), seconds(o, folder, o.ranks, o.comm, o.options.split())]
                     for _ in range(o.rounds)]
        more = [100 * (b / a - 1) for a, b in pairs]
        print("%s,%d,%s,%s,%.5g,%.5g,%.2f,%.2f,%.2f" % (
            net, o.ranks, batch, o.comm, 1e3 * statistics.median(a for a, _ in pairs),
            1e3 * statistics.median(b for _, b in pairs), statistics.median(more), min(more), max(more)), flush=True)


if __name__ == "__main__":
    main()
