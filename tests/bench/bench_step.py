#!/usr/bin/env python3
"""usage: bench_step.py POSEIDON FOLDER, on four hosts of tests/cluster/box.sh

One iteration of AlexNet on each of four hosts, computation replayed from models/profiles/cpu-alexnet.csv, messages real: by
parameter servers without overlap, by them with wait-free backpropagation, and by --comm=auto. Writes what rank 0 computed,
sent and waited for to FOLDER/step.csv, and what each layer's transfer took to FOLDER/layers.csv, for "make pictures":

    tests/cluster/box.sh --hosts=4 --rate=1gbit -- tests/bench/bench_step.py build/poseidon docs
"""
import json
import os
import subprocess
import sys
import tempfile

RUNS = (("servers, no overlap", ["--comm=ps", "--tune=overlap=none"]), ("servers, wait-free", ["--comm=ps"]), ("auto", ["--comm=auto"]))
KINDS = ("forward", "backward", "wait", "update", "send")
ITERATION = 2  # a run's first two iterations fill the pipeline


def united(spans):
    """Spans of time that touch or overlap, as one."""
    whole = []
    for begin, end in sorted(spans):
        if whole and begin <= whole[-1][1] + 1000:
            whole[-1][1] = max(whole[-1][1], end)
        else:
            whole.append([begin, end])
    return whole


def step(path):
    """Rows of one iteration of rank 0: kind, layer, begin and end in ms since it began."""
    with open(path, encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
    start, end = next((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == "iteration %d" % ITERATION)
    spans = {}
    for e in events:
        if e["cat"] in KINDS and e["ts"] < end and e["ts"] + e["dur"] > start and (e["cat"] != "update" or e["tid"] == 0):
            spans.setdefault((e["cat"], e["args"].get("layer", "")), []).append((max(e["ts"], start), min(e["ts"] + e["dur"], end)))
    return [[kind, layer, (a - start) / 1000, (b - start) / 1000] for (kind, layer), times in spans.items() for a, b in united(times)
            if b - a > 500]


def main(poseidon, folder):
    with tempfile.TemporaryDirectory() as scratch, open(folder + "/step.csv", "w", encoding="utf-8") as steps, \
            open(folder + "/layers.csv", "w", encoding="utf-8") as layers:
        head = "# Written by tests/bench/bench_step.py, which has the command: AlexNet, batch 64, four hosts of one machine, links of 1 Gbit/s,\n" \
            "# computation replayed. %s\n"
        steps.write(head % "Milliseconds of rank 0's iteration %d." % ITERATION + "run,kind,layer,begin,end\n")
        layers.write(head % "MB that a rank sends, and ms of a layer's transfer alone and waited for." + "run,layer,scheme,mb_sent,alone,waited\n")
        for at, (name, options) in enumerate(RUNS):
            trace, log = (os.path.join(scratch, "%d.%s" % (at, ending)) for ending in ("json", "jsonl"))
            subprocess.run(["mpirun", "-np", "4", "--bind-to", "none", poseidon, "train", "--solver=models/alexnet/solver.prototxt",
                            "--engine=replay", "--tune=profile=models/profiles/cpu-alexnet.csv", "--fake-data", "--batch=64",
                            "--max-iter=%d" % (ITERATION + 2), "--trace=%s,%d-%d" % (trace, ITERATION - 1, ITERATION), "--tune=log=" + log] +
                           options, check=True)
            for kind, layer, begin, end in sorted(step(trace), key=lambda row: row[2]):
                steps.write('"%s",%s,%s,%.1f,%.1f\n' % (name, kind, layer, begin, end))
            with open(log, encoding="utf-8") as lines:
                for row in map(json.loads, lines):
                    if row["event"] == "layer":
                        layers.write('"%s",%s,%s,%.2f,%.1f,%.1f\n' % (name, row["layer"], row["scheme"], row["bytes_sent"] / 4e6,
                                                                     1e3 * row["alone_seconds"], 1e3 * row["stall_seconds"]))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
