#!/usr/bin/env python3
"""Hosts of unlike speed: what poseidon makes of them with equal shares of a batch, and with shares by speed.

    tests/cluster/box.sh --hosts=2 --cores=1 --quotas=50,25 --rate=1gbit -- /usr/bin/python3 tests/cluster/bench_speeds.py \\
        --poseidon=build/poseidon [--rounds=1] [--iterations=5] [--batch=32] [--balance=PARTS] [NET...]

One rank a host, one thread a rank, data of random images. Images/s of each host alone, with the batch that it has of
equal shares; then of all together: with equal shares, with --balance (of PARTS, where they are given), and what `plan
--speeds` says of both. --sync-bn measures that option instead, with equal shares. A ratio is of the sum of the hosts
alone. Of a run it is the mean over ITERATIONS, after two that do not count; medians over the rounds.
"""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import bench_ddp

BATCHES = {"alexnet": 256, "googlenet": 64, "resnet50": 8}
WARM_UP = 2


def rates(said, iterations):
    """Images/s over batch: iterations/s of the last ones."""
    all_rates = [float(rate) for rate in re.findall(r"Iteration \d+ \(([\d.e+-]+) iter/s", said)][-iterations:]
    return len(all_rates) / sum(1 / rate for rate in all_rates)


def train(o, folder, hosts, batch, options=()):
    command = ["mpirun", "-np", str(len(hosts)), "--host", ",".join(hosts), "-x", "OMP_NUM_THREADS=1", o.poseidon, "train",
               "--solver=" + folder + "/solver.prototxt", "--threads=1", "--force", "--global-batch=%d" % (batch * len(hosts)),
               "--tune=cluster-file=%s/cluster%d" % (folder, len(hosts)), *options]
    said = bench_ddp.run(command, o.timeout)
    for line in re.findall(r".*Balance.*", said):
        print(line, file=sys.stderr, flush=True)
    return batch * len(hosts) * rates(said, o.iterations)


def planned(o, folder, hosts, batch, alone, options=()):
    """images/s that plan expects of hosts with these speeds."""
    fastest = max(alone)
    said = subprocess.run([o.poseidon, "plan", "--model=" + folder + "/net.prototxt", "--batch=%d" % batch, "--json",
                           "--nodes=%d" % len(hosts), "--images-per-second=%g" % fastest,
                           "--cluster-file=%s/cluster%d" % (folder, len(hosts)),
                           "--speeds=" + ",".join("%.4g" % (a / fastest) for a in alone), *options],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    row = json.loads(said)[-1]
    return row["images_per_second"], row.get("sync_bn_share", 0)


def measure(o, name, hosts, quotas, folder, batch):
    each, ways = {}, {}
    balance = "--balance" + ("=" + o.balance if o.balance else "")
    asked = {"equal": [], "sync-bn": ["--sync-bn"]} if o.sync_bn else {"equal": [], "balance": [balance]}
    for _ in range(o.rounds):
        for host, quota in zip(hosts, quotas):  # hosts of one quota are one
            if len(each.setdefault(quota, [])) <= _:
                each[quota].append(train(o, folder, [host], batch))
                print("%s, %s %% alone: %.4g" % (name, quota, each[quota][-1]), file=sys.stderr, flush=True)
        for way, options in asked.items():
            ways.setdefault(way, []).append(train(o, folder, hosts, batch, options))
            print("%s, %s: %.4g" % (name, way, ways[way][-1]), file=sys.stderr, flush=True)
    alone = [statistics.median(each[quota]) for quota in quotas]
    return alone, {way: statistics.median(values) for way, values in ways.items()}


def compare(o, name, hosts, quotas):
    net, batch = bench_ddp.NETS[name](), o.batch or BATCHES.get(name, 16)
    with tempfile.TemporaryDirectory() as folder:
        bench_ddp.write_data(os.path.join(folder, "data.h5"), net, len(hosts) * batch)
        bench_ddp.write_net(folder, net, batch, WARM_UP + o.iterations)
        alone, ways = measure(o, name, hosts, quotas, folder, batch)
        extra = {"balance": ["--balance"], "sync-bn": ["--sync-bn"]}
        for way, found in ways.items():
            expected, share = planned(o, folder, hosts, batch, alone, extra.get(way, ()))
            print("| %s | %s | %d | %s | %.4g | %s | %.4g | %.2f | %.2f%s |" % (
                name, ", ".join(quotas), batch, ", ".join("%.3g" % a for a in alone), sum(alone), way, found,
                found / sum(alone), expected / sum(alone), ", sums %.0f %%" % (100 * share) if share else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poseidon", required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--batch", type=int, default=0, help="images a rank of equal shares (default: as the net's)")
    parser.add_argument("--balance", default="", help="parts by hand, as 2,1 (default: as measured)")
    parser.add_argument("--sync-bn", action="store_true")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run")
    parser.add_argument("nets", nargs="*", default=["alexnet", "googlenet"])
    o = parser.parse_args()
    if "BOX_HOSTS" not in os.environ:
        sys.exit("bench_speeds.py runs inside tests/cluster/box.sh")
    o.poseidon = os.path.abspath(o.poseidon)
    hosts, quotas = os.environ["BOX_HOSTS"].split(), (os.environ["BOX_QUOTAS"] or "100").split(",")
    quotas = [quotas[i % len(quotas)] for i in range(len(hosts))]
    print("%s, %d hosts in a box on %d cores, links %s, %d rounds of %d iterations\n" % (
        datetime.date.today(), len(hosts), os.cpu_count(), os.environ["BOX_RATE"] or "unlimited", o.rounds, o.iterations))
    print("| net | % of a core | images a rank | images/s alone | sum | shares | images/s | of the sum | planned |\n"
          "|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in o.nets:
        compare(o, name, hosts, quotas)


if __name__ == "__main__":
    main()
