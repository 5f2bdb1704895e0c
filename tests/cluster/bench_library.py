#!/usr/bin/env python3
"""PyTorch over libposeidon against DistributedDataParallel (gloo) on the hosts of a box, in turns.

    tests/cluster/box.sh --hosts=4 --rate=200mbit --cores=1 -- PYTHON tests/cluster/bench_library.py \\
        --library=build/libposeidon.so.1 [--nets=LIST] [--rounds=3] [--iterations=5] [--ours=OPTIONS]... [--theirs=LIST]

Both sides are bench_torch_ddp.py: PyTorch computes the same net from the same images with one thread a rank, one rank a
host. --ours: options of poseidon.torch.DataParallel, one contestant each time it is given; "later" among them:
by model.step(optimizer), so each module waits for its own (tried: comm=auto, the same later, comm=lowrank:4).
--theirs: ddp, bf16 (its hook) and powersgd:R (its hook of rank R). Every round runs all contestants one after the
other; of a run counts the mean over ITERATIONS, after three that do not. Prints medians over the rounds, how many
times as fast as ddp, or the first of theirs, that is, and the processor time of rank 0, which other work disturbs less.
"""
import argparse
import datetime
import os
import statistics
import sys

import bench_ddp

OURS = ["comm=auto", "comm=auto,later", "comm=lowrank:4,lowrank-warmup=1,later"]


def race(o, name):
    batch, sides = o.batch or bench_ddp.BATCHES.get(name, 16), o.theirs.split(",") + o.ours
    times, used = {side: [] for side in sides}, {side: [] for side in sides}
    for _ in range(o.rounds):
        for side in sides:
            rate, processor = bench_ddp.run_theirs(o, name, batch, side)
            times[side].append(o.ranks * batch / rate * 1e3)
            used[side].append(processor)
            print("%s %s %.4g ms, processor %.4g" % (name, side, times[side][-1], processor), file=sys.stderr, flush=True)
    medians = {side: statistics.median(values) for side, values in times.items()}
    for side in sides:
        print("| %s | %d | %s | %.4g | %.2f | %.4g |" % (name, batch, side, medians[side], medians[sides[0]] / medians[side],
                                                     statistics.median(used[side])), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libposeidon.so.1")
    parser.add_argument("--nets", default="alexnet,vgg16_64,resnet50", help="of " + ", ".join(bench_ddp.NETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--batch", type=int, default=0, help="images a rank (default: as the net's)")
    parser.add_argument("--ours", action="append", help="options of DataParallel (default: three, see above)")
    parser.add_argument("--theirs", default="ddp,bf16,powersgd:4", help="ddp, bf16, powersgd:R")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run")
    o = parser.parse_args()
    if "BOX_HOSTS" not in os.environ:
        sys.exit("bench_library.py runs inside tests/cluster/box.sh")
    for name in o.nets.split(","):
        if name not in bench_ddp.NETS:
            sys.exit("unknown net %s (known: %s)" % (name, ", ".join(bench_ddp.NETS)))
    if not os.path.exists(o.library):
        sys.exit("no file %s: make it by configure --enable-library" % o.library)
    os.environ["POSEIDON_LIBRARY"] = os.path.abspath(o.library)
    o.ranks, o.ours, o.python = len(os.environ["BOX_HOSTS"].split()), o.ours or OURS, sys.executable
    print("%s, %d hosts in a box on %d cores, links %s, %d rounds of %d iterations\n" % (
        datetime.date.today(), o.ranks, os.cpu_count(), os.environ["BOX_RATE"] or "unlimited", o.rounds, o.iterations))
    print("| net | images a rank | by | ms an iteration | times as fast | processor ms |\n|---|---:|---|---:|---:|---:|",
          flush=True)
    for name in o.nets.split(","):
        race(o, name)


if __name__ == "__main__":
    main()
