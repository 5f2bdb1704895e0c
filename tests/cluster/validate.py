#!/usr/bin/env python3
"""Compares poseidon plan with a box of hosts and with what was published; writes VALIDATION.md.

    tests/cluster/validate.py measure --poseidon=build/poseidon [--seconds=S] [--hosts=2,4,8]
    tests/cluster/validate.py report --poseidon=build/poseidon

`measure` plays cells that validation.csv (beside this file) lacks, as many as S seconds allow, and appends them.
It needs what box.sh needs, and a machine with nothing else to do. A cell is a net with the layer times of a
device of models/profiles, hosts, a rate, a scheme; computation is slept (train --engine=replay), buffers and
messages are real. All messages carry a 100th of their bytes (`--tune=dilate`), so that two cores can move what eight
hosts send: links of 50, 100 and 400 Mbit/s stand for 5, 10 and 40 Gbit/s. What the kernel holds of a connection must
shrink, too, else all of an iteration is out of the program's hands at once, and no order of sends matters: buffers
are of 32 kB. The simulation is told the same.

Of a few cells it also measures how bursty traffic is (`train --tune=log`), into bursts.csv.

`report` simulates every cell that was measured, and every published point, and writes all that VALIDATION.md says.
Constants of the box are fitted on half of its cells; which half is fixed by `fitted` below.
"""
import argparse
import csv
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
TABLE = os.path.join(HERE, "validation.csv")
FIELDS = ["net", "hosts", "rate_mbit", "scheme", "seconds", "low", "high", "busy", "goodput_Bps"]

NETS = [("alexnet", "titanx"), ("googlenet", "titanx"), ("inception_v3", "titanx"), ("vgg19", "titanx"),
        ("resnet50", "p100")]
HOSTS, RATES, SCHEMES = [2, 4, 8], [50, 100, 400], ["ps", "allreduce", "sfb"]
DILATE, MERGE = 100, 4096
# Bytes of a chunk, larger as training chooses them on faster links; as small ones, eight hosts would have more messages
# at 400 Mbit/s than two cores can move.
CHUNK = {50: 65536, 100: 65536, 400: 262144}
CHUNKS_A_WINDOW = 16
BUFFER = 32768
# What an idle link may have saved up: little beside what an iteration sends, and yet a packet as the kernel hands it to
# the link (64 kB and its header): with 64 kB it cuts each up, and four links of 400 Mbit/s reach 0.62 of it, not 0.93.
BURST = "96k"
ITERATIONS, LEAVE_OUT = 9, 3
# How full a link is, headers leave open: chunks of the paper's 2 MB, beside which they are nothing.
BURSTS, BURST_CHUNK = os.path.join(HERE, "bursts.csv"), 2 << 20
BURST_FIELDS = ["net", "hosts", "rate_mbit", "how", "full", "longest", "queued", "goodput_Bps"]
BURST_CELLS = [(net, 4, 100, how) for net in ("vgg19", "alexnet")
               for how in ("--comm=ps --tune=overlap=none", "--comm=ps", "--comm=paper", "--comm=auto")]
BUSY = 0.85  # of the time: where cores are busy for longer they, and not links, set the pace
LEAST_GOODPUT = 0.75  # of a link's rate; less is reached where others compute (eight hosts at 400 Mbit/s alone keep two cores busy)


def fitted(cell):
    """Half of the cells, like the fields of a chessboard; the others are not used for constants."""
    net, hosts, rate, scheme = cell
    return ([n for n, _ in NETS].index(net) + HOSTS.index(hosts) + RATES.index(rate) + SCHEMES.index(scheme)) % 2 == 0


def all_cells():
    return [(net, hosts, rate, scheme) for hosts, rate, (net, _), scheme in
            itertools.product(HOSTS, RATES, NETS, SCHEMES)]


def read_table(table=TABLE):
    """{cell: row}"""
    if not os.path.exists(table):
        return {}
    with open(table, newline="") as file:
        return {(row["net"], int(row["hosts"]), int(row["rate_mbit"]), row.get("scheme") or row["how"]): row
                for row in csv.DictReader(file)}


def append(row, table=TABLE):
    new = not os.path.exists(table)
    with open(table, "a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def profile_of(net):
    return os.path.join(ROOT, "models", "profiles", "%s-%s.csv" % (dict(NETS)[net], net))


def model_of(net):
    return os.path.join(ROOT, "models", net, "train_val.prototxt")


def sizes_of(chunk):
    """Options of train and plan alike."""
    return ["--tune=dilate=%d" % DILATE, "--tune=chunk=%d" % chunk, "--tune=merge=%d" % MERGE,
            "--tune=window=%d" % (CHUNKS_A_WINDOW * chunk)]


def input_of(net):
    with open(profile_of(net)) as file:
        return next(line.split()[2:] for line in file if line.startswith("# input "))


# ---- measuring ----

def processor_ticks():
    """Of all cores since the machine's start: busy, idle."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], ticks[3] + ticks[4]


def measure_cell(o, net, hosts, how, folder):
    """Seconds of each iteration but the first ones, and the share of them in which cores were busy."""
    batch, shape = input_of(net)[0], ",".join(input_of(net)[1:])
    solver = os.path.join(folder, "solver.prototxt")
    with open(solver, "w") as file:
        file.write("net: '%s' base_lr: 0.0001 momentum: 0.9 lr_policy: 'fixed' max_iter: %d display: 1 "
                   "test_interval: 0 snapshot_after_train: false random_seed: 1\n" % (model_of(net), ITERATIONS))
    buffers = [word for side in ("snd", "rcv") for word in ("--mca", "btl_tcp_%sbuf" % side, str(BUFFER))]
    command = ["mpirun"] + buffers + ["-np", str(hosts), "-x", "OMP_NUM_THREADS=1", o.poseidon, "train", "--solver=" + solver,
               "--engine=replay", "--tune=profile=" + profile_of(net), "--batch=" + batch, "--fake-data=" + shape] + how
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    alarm = threading.Timer(o.timeout, process.kill)
    alarm.start()
    text, rates, at = "", [], []
    for line in process.stdout:
        text += line
        found = re.search(r"Iteration \d+ \(([\d.e+-]+) iter/s", line)
        if found:
            rates.append(float(found.group(1)))
            at.append(processor_ticks())
    alarm.cancel()
    if process.wait() or len(rates) <= LEAVE_OUT:
        sys.exit("failed: %s\n%s" % (" ".join(command), text[-2000:]))
    busy, idle = (last - first for first, last in zip(at[LEAVE_OUT - 1], at[-1]))
    return [1 / rate for rate in rates[LEAVE_OUT:]], busy / (busy + idle)


def measure_bursts(o, cell, goodput, folder):
    """The greatest figures of all ranks."""
    net, hosts, _, how = cell
    log = os.path.join(folder, "log")
    measure_cell(o, net, hosts, how.split() + ["--force", "--tune=log=" + log] + sizes_of(BURST_CHUNK), folder)
    with open(log) as file:
        ranks = [line for line in map(json.loads, file) if line["event"] == "rank"]
    worst = (max(rank[key] for rank in ranks) for key in ("link_full_seconds", "link_full_longest_seconds", "queued_bytes_most"))
    append(dict(zip(BURST_FIELDS, list(cell) + ["%.4f" % next(worst), "%.3f" % next(worst), "%.0f" % next(worst),
                                                "%.0f" % goodput])), BURSTS)


def measure_inside(o):
    """On the hosts of a box: the cells of its size and rate that are missing."""
    import bench_replay
    hosts, rate = len(os.environ["BOX_HOSTS"].split()), int(os.environ["BOX_RATE"].replace("mbit", ""))
    goodput = bench_replay.goodput()
    if goodput < LEAST_GOODPUT * rate * 125e3:
        print("plain streams reach %.1f MB/s of %g: the machine is busy, nothing is measured" % (goodput / 1e6, rate / 8))
        return
    with tempfile.TemporaryDirectory() as folder:
        for cell in all_cells():
            net, cell_hosts, cell_rate, scheme = cell
            if (cell_hosts, cell_rate) != (hosts, rate) or cell in read_table():
                continue
            if time.time() > o.until:
                return
            seconds, busy = measure_cell(o, net, hosts, ["--comm=" + scheme] + sizes_of(CHUNK[rate]), folder)
            append(dict(zip(FIELDS, list(cell) + ["%.5f" % statistics.median(seconds), "%.5f" % min(seconds),
                                                  "%.5f" % max(seconds), "%.2f" % busy, "%.0f" % goodput])))
        for cell in BURST_CELLS:
            if cell[1:3] == (hosts, rate) and cell not in read_table(BURSTS) and time.time() < o.until:
                measure_bursts(o, cell, goodput, folder)


def measure(o):
    if "BOX_HOSTS" in os.environ:
        return measure_inside(o)
    until = time.time() + o.seconds
    for hosts, rate in itertools.product(o.hosts, RATES):
        missing = [c for c in all_cells() if c[1:3] == (hosts, rate) and c not in read_table()]
        missing += [c for c in BURST_CELLS if c[1:3] == (hosts, rate) and c not in read_table(BURSTS)]
        if missing and time.time() < until:
            subprocess.run([os.path.join(HERE, "box.sh"), "--hosts=%d" % hosts, "--rate=%dmbit" % rate, "--burst=" + BURST,
                            "--", sys.executable, os.path.abspath(__file__), "measure", "--poseidon=" + o.poseidon,
                            "--until=%f" % until, "--timeout=%g" % o.timeout], check=True)
    print("%d of %d cells are measured" % (len(read_table()), len(all_cells())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["measure", "report"])
    parser.add_argument("--poseidon", required=True)
    parser.add_argument("--seconds", type=float, default=3600, help="begin no cell after so many")
    parser.add_argument("--hosts", default="2,4,8", help="measure boxes of so many alone")
    parser.add_argument("--timeout", type=float, default=200, help="seconds for one cell")
    parser.add_argument("--until", type=float, default=0, help=argparse.SUPPRESS)
    o = parser.parse_args()
    o.hosts = [int(hosts) for hosts in o.hosts.split(",")]
    o.poseidon = os.path.abspath(o.poseidon)
    if o.action == "measure":
        return measure(o)
    import validate_report
    return validate_report.report(o)


if __name__ == "__main__":
    sys.exit(main())
