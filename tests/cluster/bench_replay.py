#!/usr/bin/env python3
"""How close an iteration comes to its bound on the hosts of a box, computation replayed.

    tests/cluster/box.sh --hosts=4 --rate=1gbit -- /usr/bin/python3 tests/cluster/bench_replay.py \\
        --poseidon=build/poseidon [--comm=auto,paper,ps,allreduce,sfb] [--options=OPTIONS]... [--parts] [--iterations=16]
        [--dilate=K] [--pass-seconds=S] [--slots=N --leaders=LIST] [NET...]

Each net's layers are timed once on this machine (poseidon time, one thread, TIMES kept in --profiles=FOLDER) and
then slept by --engine=replay on every host, so that the cores are free for the network as a GPU's host's are.
Buffers and messages are real.

    bound   the longer of forward + backward and of the bytes the busiest host sends over the goodput
    goodput what plain TCP streams reach on these links, every host sending to the next at once, measured first

--dilate=K makes the links K times as fast: every message carries 1/K of its bytes. --pass-seconds=S stretches the
layers' times, products and updates alike, so that a pass forward and backward lasts that long: with 0.925 a batch of
32 of VGG19-22K takes what the paper's GPU takes (34.6 images/s).

--options adds a variant with these options of poseidon train, as --options='--comm=auto --lossy=bf16,lowrank:4'.
--parts adds, for the first scheme, the same without what makes it fast, one thing at a time: no overlap with
computation; forward waits for all layers; messages in order of posting; no merging of small layers.
--slots=N starts N ranks a host (box.sh --slots=N), which add up first; --leaders=1,2 gives each scheme that many leaders a
host, in turns.
--against=PROGRAM runs another build in turns with the first, and gives the median of the ratios: what a change costs.
Ends with rows for tests/bench/RESULTS.md.
"""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import bench_ddp  # noqa: E402

PORT, BLOCK = 40123, 1 << 20
PARTS = {
    "no overlap": ["--tune=overlap=none"],
    "forward waits for all": ["--tune=overlap=backward"],
    "fifo": ["--tune=order=fifo", "--tune=window=0"],
    "not merged": ["--tune=merge=0"],
}


def stream(peer, seconds):
    """On one host: receives from whoever comes, sends to `peer`; prints the bytes received per second."""
    server = socket.create_server(("", PORT))
    received = [0]

    def serve():
        connection = server.accept()[0]
        while True:
            n = connection.recv_into(buffer)
            if not n:
                return
            received[0] += n

    buffer = bytearray(BLOCK)
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    for _ in range(100):
        try:
            client = socket.create_connection((peer, PORT))
            break
        except OSError:
            time.sleep(0.1)
    block, begun = bytes(BLOCK), time.monotonic()
    warm = None
    while time.monotonic() - begun < seconds + 0.5:
        client.sendall(block)
        if warm is None and time.monotonic() - begun >= 0.5:  # the shaper's burst is spent
            warm = time.monotonic(), received[0]
    print((received[0] - warm[1]) / (time.monotonic() - warm[0]), flush=True)
    client.close()
    thread.join(5)


def goodput(seconds=2.0):
    hosts = os.environ["BOX_HOSTS"].split()
    net = os.environ["BOX_NET"].rsplit(".", 1)[0]
    children = []
    for i, host in enumerate(hosts):
        peer = "%s.%d" % (net, (i + 1) % len(hosts) + 1)
        children.append(subprocess.Popen([os.environ["BOX_AGENT"], host, sys.executable, os.path.abspath(__file__),
                                          "--stream=%s" % peer, "--seconds=%g" % seconds],
                                         stdout=subprocess.PIPE, text=True))
    return min(float(child.communicate(timeout=60)[0]) for child in children)


def vgg19_22k():
    n = bench_ddp.compare_torch.Net("vgg19_22k", 32, 3, 224, 21841)
    for width, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            n.conv(width, 3, pad=1).relu()
        n.pool("MAX", 2, 2)
    return n.fc(4096).relu().dropout().fc(4096).relu().dropout().fc(21841)


def fields_of(line):
    """Of a line with times; None of all others."""
    fields = line.rstrip("\n").split(",")
    return fields if not line.startswith(("#", "layer,")) and len(fields) >= 4 else None


def stretched(path, by, folder):
    """The same profile with all times multiplied."""
    to = os.path.join(folder, "stretched.csv")
    with open(path) as f, open(to, "w") as out:
        for line in f:
            fields = fields_of(line)
            if fields:
                line = ",".join(fields[:-2] + ["%.9g" % (float(seconds) * by) for seconds in fields[-2:]]) + "\n"
            out.write(line)
    return to


def profile(o, name, net, batch, folder):
    path = os.path.join(o.profiles, "%s-%d.csv" % (name, batch))
    if not os.path.exists(path):
        bench_ddp.run([o.poseidon, "time", "--model=%s/net.prototxt" % folder, "--threads=1", "--iterations=5",
                       "--input-shape=%s" % ",".join(map(str, net.shape)), "--profile=" + path], o.timeout)
    seconds = 0
    with open(path) as f:
        for line in f:
            fields = fields_of(line)
            if fields and not line.startswith("*"):
                seconds += float(fields[-2]) + float(fields[-1])
    if o.pass_seconds:
        return stretched(path, o.pass_seconds / seconds, folder), o.pass_seconds
    return path, seconds


def iterate(o, program, folder, net, times, options):
    """Seconds of an iteration, the first third left out, and the bytes that the busiest host sends in one."""
    summary = os.path.join(folder, "summary.json")
    command = bench_ddp.mpirun(o.ranks) + [
        program, "train", "--solver=%s/solver.prototxt" % folder, "--engine=replay", "--tune=profile=" + times,
        "--fake-data=%s" % ",".join(map(str, net.shape)), "--force", "--summary=" + summary] + options
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=o.timeout)
    if done.returncode:
        sys.exit("failed: %s\n%s" % (" ".join(command), done.stdout[-2000:]))
    rates = [float(rate) for rate in re.findall(r"Iteration \d+ \(([\d.e+-]+) iter/s", done.stdout)]
    rates = rates[len(rates) // 3 + 1:]
    with open(summary) as f:
        sent = json.load(f)["bytes_sent_per_iteration_by_rank"]
    return 1 / statistics.median(rates), max(sum(sent[at:at + o.slots]) for at in range(0, len(sent), o.slots))


def bench(o, name, link):
    batch = o.batch or BATCHES.get(name, 16)
    net = NETS[name]()
    if o.dilate > 1:
        link *= o.dilate
    with tempfile.TemporaryDirectory() as folder:
        bench_ddp.write_net(folder, net, batch, o.iterations)
        solver = os.path.join(folder, "solver.prototxt")
        with open(solver) as f:
            text = f.read().replace("display: 0", "display: %d" % max(1, o.iterations // 8))
        with open(solver, "w") as f:
            f.write(text)
        times, alone = profile(o, name, net, batch, folder)
        cluster = ["--tune=cluster-file=" + os.path.join(folder, "cluster")]
        variants = [(comm, ["--comm=" + comm] + cluster) for comm in o.comm.split(",") if comm]
        variants += [(options, options.split() + cluster) for options in o.options]
        if o.leaders:
            variants = [("%s, %s leader%s" % (label, n, "" if n == "1" else "s"), options + ["--hierarchy=auto," + n])
                        for label, options in variants for n in o.leaders.split(",")]
        if o.parts:
            variants += [("%s, %s" % (variants[0][0], part), variants[0][1] + options)
                         for part, options in PARTS.items()]
        found = {label: [] for label, _ in variants}
        others = {label: [] for label, _ in variants}
        for _ in range(o.rounds):
            for label, options in variants:
                options = options + (["--tune=dilate=%d" % o.dilate] if o.dilate > 1 else [])
                found[label].append(iterate(o, o.poseidon, folder, net, times, options))
                if o.against:
                    others[label].append(iterate(o, o.against, folder, net, times, options)[0])
    for label, _ in variants:
        seconds = statistics.median(seconds for seconds, _ in found[label])
        sent = found[label][0][1] * max(1, o.dilate)
        bound = max(alone, sent / link)
        ratio = ""
        if o.against:
            ratios = [mine / theirs for (mine, _), theirs in zip(found[label], others[label])]
            ratio = " %.1f | %.3f |" % (statistics.median(others[label]) * 1e3, statistics.median(ratios))
        print("| %s | %d | %s | %.1f | %.1f | %.1f | %.1f | %.2f |%s" % (
            name, batch, label, sent / 1e6, alone * 1e3, sent / link * 1e3, seconds * 1e3, seconds / bound, ratio),
            flush=True)


NETS = dict(bench_ddp.NETS, vgg19_22k=vgg19_22k)
BATCHES = dict(bench_ddp.BATCHES, vgg19_22k=32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poseidon")
    parser.add_argument("--against", help="another program, run in turns with the first")
    parser.add_argument("--comm", default="auto,paper,ps,allreduce,sfb")
    parser.add_argument("--options", action="append", default=[])
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=16)
    parser.add_argument("--batch", type=int, default=0, help="images a rank (default: as the net's)")
    parser.add_argument("--dilate", type=int, default=1, help="divide all bytes: a link that many times faster")
    parser.add_argument("--pass-seconds", type=float, default=0, help="stretch computation to that long a pass")
    parser.add_argument("--slots", type=int, default=1, help="ranks a host, as box.sh's")
    parser.add_argument("--leaders", help="numbers of leaders a host (comma list)")
    parser.add_argument("--profiles", default=".", help="folder of the layers' times")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run")
    parser.add_argument("--stream", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=2, help=argparse.SUPPRESS)
    parser.add_argument("nets", nargs="*", default=["alexnet", "vgg16_64", "googlenet", "cifar10_quick"])
    o = parser.parse_args()
    if o.stream:
        return stream(o.stream, o.seconds)
    if "BOX_HOSTS" not in os.environ or not o.poseidon:
        sys.exit("bench_replay.py runs inside tests/cluster/box.sh and wants --poseidon=PROGRAM")
    o.hosts = len(os.environ["BOX_HOSTS"].split())
    o.ranks = o.hosts * o.slots
    o.against = o.against and os.path.abspath(o.against)
    o.poseidon, o.profiles = os.path.abspath(o.poseidon), os.path.abspath(o.profiles)
    link = goodput()
    print("%d hosts, links %s, goodput of plain streams %.1f MB/s%s\n" % (
        o.hosts, os.environ["BOX_RATE"] or "unlimited", link / 1e6,
        ", bytes divided by %d" % o.dilate if o.dilate > 1 else ""))
    print("| net | images a rank | scheme | MB sent | computing ms | bytes / goodput ms | iteration ms | over the "
          "bound |%s\n|---|---|---|---|---|---|---|---|%s" % (
              (" --against ms | ratio |", "---|---|") if o.against else ("", "")), flush=True)
    for name in o.nets:
        bench(o, name, link)


if __name__ == "__main__":
    main()
