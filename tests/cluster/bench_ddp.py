#!/usr/bin/env python3
"""poseidon against PyTorch DistributedDataParallel (gloo) on the hosts of a box, in turns.

    tests/cluster/box.sh --hosts=4 --rate=1gbit -- /usr/bin/python3 tests/cluster/bench_ddp.py \\
        --poseidon=build/poseidon [--rounds=3] [--iterations=5] [--ours=OPTIONS]... [--theirs=LIST] [NET...]

Same net, same batch, one thread a rank, one rank a host; poseidon reads random images from an HDF5 file,
PyTorch keeps one batch of them in memory. --ours: options of poseidon train, one variant each time it is given;
--theirs: ddp, bf16 (its hook) and powersgd:R (its hook of rank R). Every round runs all variants one after the other;
images/s are medians over the rounds, and of a run the mean over ITERATIONS, after three that do not count (low rank
begins in the second on either side) and those that the measurement of the cluster took. Ends with rows for
tests/bench/RESULTS.md; the ratio is to the fastest of theirs.
"""
import argparse
import datetime
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "bench"))
import compare_torch  # noqa: E402


def vgg16_64():
    n = compare_torch.Net("vgg16, 64 pixels", 16, 3, 64, 1000)
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            n.conv(width, 3, pad=1).relu()
        n.pool("MAX", 2, 2)
    return n.fc(4096).relu().dropout().fc(4096).relu().dropout().fc(1000)


NETS = dict(compare_torch.NETS, vgg16_64=vgg16_64)
BATCHES = {"alexnet": 16, "vgg16_64": 16, "googlenet": 4, "resnet50": 4, "cifar10_quick": 100, "lenet": 64}
WARM_UP = 3


def write_data(path, net, images):
    import h5py
    import numpy
    random = numpy.random.default_rng(1)
    with h5py.File(path, "w") as f:
        f["data"] = random.integers(0, 256, (images,) + tuple(net.shape), dtype="uint8")
        f["label"] = random.integers(0, net.classes, images).astype("float32")


def write_net(folder, net, batch, iterations):
    """The net that PyTorch trains, from its own list of layers, with a data layer in front."""
    layers = [line for line in net.prototxt().splitlines(True) if "type: 'Input'" not in line]
    with open(os.path.join(folder, "net.prototxt"), "w") as f:
        f.write("name: '%s'\nlayer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN } "
                "transform_param { scale: 0.00390625 } data_param { source: '%s/data.h5' batch_size: %d } }\n%s"
                % (net.name, folder, batch, "".join(layers)))
    with open(os.path.join(folder, "solver.prototxt"), "w") as f:
        f.write("net: '%s/net.prototxt' base_lr: 0.0001 momentum: 0.9 weight_decay: 0.0005 lr_policy: 'fixed' "
                "max_iter: %d display: 1 snapshot_after_train: false random_seed: 1\n" % (folder, iterations))


def run(command, timeout):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    if done.returncode:
        sys.exit("failed: %s\n%s" % (" ".join(command), done.stdout[-2000:]))
    return done.stdout


def mpirun(ranks):
    return ["mpirun", "-np", str(ranks), "-x", "OMP_NUM_THREADS=1"]


def run_ours(o, folder, batch, options):
    options = options.split() + (["--tune=lowrank-warmup=1"] if "lowrank" in options else [])
    said = run(mpirun(o.ranks) + [o.poseidon, "train", "--solver=" + folder + "/solver.prototxt", "--threads=1", "--force",
                                  "--tune=cluster-file=" + os.path.join(folder, "cluster")] + options, o.timeout)
    rates = [float(rate) for rate in re.findall(r"Iteration \d+ \(([\d.e+-]+) iter/s", said)][-o.iterations:]
    return o.ranks * batch * len(rates) / sum(1 / rate for rate in rates)


def run_theirs(o, name, batch, hook):
    address = re.sub(r"\.0/24$", ".1", os.environ["BOX_NET"])
    said = run(mpirun(o.ranks) + [o.python, os.path.join(HERE, "bench_torch_ddp.py"), name, str(batch),
                                  str(o.iterations), address, "e0", hook], o.timeout)
    return tuple(map(float, re.search(r"images/s (\S+), processor ms (\S+)", said).groups()))


def compare(o, name):
    batch = o.batch or BATCHES.get(name, 16)
    net = NETS[name]()
    sides = o.theirs.split(",") + o.ours
    rates = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        write_data(os.path.join(folder, "data.h5"), net, o.ranks * batch)
        write_net(folder, net, batch, WARM_UP + o.iterations)
        for _ in range(o.rounds):
            for side in sides:
                rates[side].append(run_ours(o, folder, batch, side) if side.startswith("-") else
                                   run_theirs(o, name, batch, side)[0])
                print("%s %s %.4g" % (name, side, rates[side][-1]), file=sys.stderr, flush=True)
    medians = {side: statistics.median(values) for side, values in rates.items()}
    best = max(medians[side] for side in o.theirs.split(","))
    for side in sides:
        print("| %s | %d | %s | %.4g | %.2f |" % (net.name.split(",")[0], batch, side, medians[side],
                                                  medians[side] / best), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poseidon", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--batch", type=int, default=0, help="images a rank (default: as the net's)")
    parser.add_argument("--ours", action="append", help="options of poseidon train (default: --comm=auto)")
    parser.add_argument("--theirs", default="ddp", help="ddp, bf16, powersgd:R (default: ddp)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch (default: this one)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run")
    parser.add_argument("nets", nargs="*", default=["alexnet", "vgg16_64", "googlenet", "cifar10_quick"])
    o = parser.parse_args()
    if "BOX_HOSTS" not in os.environ:
        sys.exit("bench_ddp.py runs inside tests/cluster/box.sh")
    for name in o.nets:
        if name not in NETS:
            sys.exit("unknown net %s (known: %s)" % (name, ", ".join(NETS)))
    o.ranks = len(os.environ["BOX_HOSTS"].split())
    o.poseidon, o.ours = os.path.abspath(o.poseidon), o.ours or ["--comm=auto"]
    print("%s, %d hosts in a box on %d cores (%s), links %s, %d rounds of %d iterations\n" % (
        datetime.date.today(), o.ranks, os.cpu_count(), platform.machine(), os.environ["BOX_RATE"] or "unlimited",
        o.rounds, o.iterations))
    print("| net | images a rank | by | images/s | ratio |\n|---|---|---|---|---|", flush=True)
    for name in o.nets:
        compare(o, name)


if __name__ == "__main__":
    main()
