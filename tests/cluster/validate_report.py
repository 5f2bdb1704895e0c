"""Writes VALIDATION.md: validate.py's cells and the published points, each beside what poseidon plan says."""
import itertools
import json
import multiprocessing.pool
import os
import statistics
import subprocess
import sys

import validate
import validate_points as points

REPORT = os.path.join(validate.HERE, "VALIDATION.md")
STALLED = 0.1  # of the time: where passes wait for longer, links set the pace and not computation
BOX_WORDS = (
    "What is simulated was mended after errors of all cells, of both halves, had been seen: windows were not divided, "
    "headers were nothing. Cells at 400 Mbit/s were measured with chunks of 64 kB at first; on eight hosts they kept both "
    "cores busy, up to 36.6 % were missing and 3 orders were wrong, so all cells of that rate have larger chunks now. Plain "
    "streams of eight hosts reach 0.8 to 0.9 of such links on two cores; the limit below which nothing is measured was "
    "lowered to 0.75 for them. The two halves therefore say how the constants carry over, and no longer that nobody had "
    "looked.")


def simulate(o, words):
    """The rows of a simulation."""
    done = subprocess.run([o.poseidon, "plan", "--json"] + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode:
        sys.exit("failed: poseidon plan %s\n%s" % (" ".join(words), done.stderr))
    return json.loads(done.stdout)


def percent(error):
    return "%+.1f %%" % (100 * error)


def table(head, rows):
    return ["| %s |" % " | ".join(head), "|" + "---|" * len(head)] + ["| %s |" % " | ".join(row) for row in rows] + [""]


# ---- the box ----

def simulate_cell(o, cell, goodput, constants):
    net, hosts, rate, scheme = cell
    return simulate_box(o, net, hosts, goodput, ["--comm=" + scheme] + validate.sizes_of(validate.CHUNK[rate]) + constants)


def simulate_box(o, net, hosts, goodput, options):
    return simulate(o, ["--model=" + validate.model_of(net), "--profile=" + dict(validate.NETS)[net], "--nodes=%d" % hosts,
                        "--bandwidth=%.0fB" % goodput] + points.device("1000GB") + options)[0]


def goodputs(cells):
    """Of each rate, what plain streams reached in the boxes, median."""
    return {rate: statistics.median(float(row["goodput_Bps"]) for cell, row in cells.items() if cell[2] == rate)
            for rate in {cell[2] for cell in cells}}


def errors(o, cells, constants):
    links = goodputs(cells)
    with multiprocessing.pool.ThreadPool(os.cpu_count()) as pool:
        rows = pool.map(lambda cell: simulate_cell(o, cell, links[cell[2]], constants), cells)
    simulated = dict(zip(cells, rows))
    return simulated, {cell: simulated[cell]["seconds"] / float(cells[cell]["seconds"]) - 1 for cell in cells}


def fit(o, cells):
    """Latency, a message's time and its headers with the least mean square error on the cells for fitting."""
    half = {cell: row for cell, row in cells.items() if validate.fitted(cell)}
    best = None
    for latency, message, headers in itertools.product(("20us", "50us", "100us"), ("2us", "10us"), (0, 128, 192, 256)):
        constants = ["--figure=latency_seconds=" + latency, "--figure=message_seconds=" + message,
                     "--figure=header_bytes=%d" % headers]
        _, off = errors(o, half, constants)
        score = sum(e * e for e in off.values())
        if best is None or score < best[0]:
            best = (score, constants)
    return best[1]


def wrong_orders(cells, simulated):
    """How many pairs of schemes of one net, size and rate differ by 5 % or more, and which are simulated in the
    other order."""
    pairs, wrong = 0, []
    for a, b in itertools.combinations(cells, 2):
        if a[:3] != b[:3]:
            continue
        ratio = float(cells[a]["seconds"]) / float(cells[b]["seconds"])
        if 1 / 1.05 < ratio < 1.05:
            continue
        pairs += 1
        if (ratio > 1) != (simulated[a]["seconds"] > simulated[b]["seconds"]):
            wrong.append("%s on %d hosts at %d Mbit/s: %s and %s" % (a[:3] + (a[3], b[3])))
    return pairs, wrong


def say_wrong(wrong):
    if not wrong:
        return "all are simulated in the right order"
    return "%d are simulated in the wrong order: %s" % (len(wrong), "; ".join(wrong))


def size_of(off):
    values = sorted(abs(e) for e in off)
    return ["%d" % len(values), "%.1f %%" % (100 * statistics.median(values)), "%.1f %%" % (100 * values[-1])]


def report_box(o, cells, constants):
    lines = ["## Against hosts in a box", ""]
    missing = [cell for cell in validate.all_cells() if cell not in cells]
    if not cells:
        return lines + ["Nothing is measured yet.", ""]
    simulated, off = errors(o, cells, constants)
    held_out = {cell: e for cell, e in off.items() if not validate.fitted(cell)}
    half = {cell: e for cell, e in off.items() if validate.fitted(cell)}
    steady = {cell: e for cell, e in off.items()
              if float(cells[cell]["high"]) < 1.25 * float(cells[cell]["low"])}
    bound = {cell: e for cell, e in off.items() if simulated[cell]["stall_share"] > STALLED}
    free = {cell: row for cell, row in cells.items() if row["busy"] and float(row["busy"]) < validate.BUSY}
    pairs, wrong = wrong_orders(cells, simulated)
    free_pairs, free_wrong = wrong_orders(free, simulated)
    lines += [
        "%d of %d cells: nets with the layer times of a device (`models/profiles`), computation slept, real buffers "
        "and messages of a %dth of their bytes, so that links of 50, 100 and 400 Mbit/s stand for 5, 10 and 40 "
        "Gbit/s. `plan` is given what plain TCP streams reached on these links (%s) and three constants, fitted on "
        "one half of the cells, which was fixed before anything was measured (`fitted` of `validate.py`): `%s`. A chunk "
        "is a message of %s bytes here, and beside it the headers of Ethernet, IP, TCP and MPI, of the message and of "
        "the reply to it, count: beside a chunk of its true size they are nothing." % (
            len(cells), len(validate.all_cells()), validate.DILATE,
            ", ".join("%.1f MB/s of %g" % (link / 1e6, rate / 8) for rate, link in sorted(goodputs(cells).items())),
            " ".join(constants), " or ".join("%d" % size for size in sorted({chunk // validate.DILATE for chunk in validate.CHUNK.values()}))), ""]
    lines += table(["cells", "number", "median error", "worst error"],
                   [[name] + size_of(part.values()) for name, part in
                    (("used for the constants", half), ("not used for the constants", held_out),
                     ("the machine's cores were busy for less than %g %% of the time" % (100 * validate.BUSY),
                      {cell: off[cell] for cell in free}),
                     ("of these, not used for the constants", {cell: e for cell, e in held_out.items() if cell in free}),
                     ("communication-bound: simulated to be stalled for more than %g %% of the time" % (100 * STALLED), bound),
                     ("of these, not used for the constants", {cell: e for cell, e in held_out.items() if cell in bound}),
                     ("steady: their slowest iteration is within a quarter of the fastest", steady),
                     ("all", off)) if part])
    lines += [BOX_WORDS, ""]
    lines += ["Two cores move what all hosts of the box send and receive. Where they are busy nearly all the time, what "
              "is measured is theirs: real hosts have cores of their own, and `plan` knows nothing of a box.", ""]
    lines += ["Of %d pairs of schemes that differ by 5 %% or more, %s." % (pairs, say_wrong(wrong))]
    lines += ["Of the %d among them whose cores were free, %s." % (free_pairs, say_wrong(free_wrong))] if free else []
    lines += [""]
    for hosts, rate in itertools.product(validate.HOSTS, validate.RATES):
        names = ["%s by %s" % (cell[0], cell[3]) for cell in missing if cell[1:3] == (hosts, rate)]
        if names:
            lines += ["Not measured on %d hosts at %d Mbit/s: %s." % (
                hosts, rate, "all" if len(names) == len(validate.NETS) * len(validate.SCHEMES) else ", ".join(names)), ""]
    rows = []
    for cell in sorted(cells):
        row = cells[cell]
        rows.append([cell[0], "%d" % cell[1], "%d" % cell[2], cell[3], "%.1f" % (1e3 * float(row["seconds"])),
                     "%.1f-%.1f" % (1e3 * float(row["low"]), 1e3 * float(row["high"])),
                     "%.0f %%" % (100 * float(row["busy"])) if row["busy"] else "-",
                     "%.1f" % (1e3 * simulated[cell]["seconds"]), percent(off[cell]), "yes" if validate.fitted(cell) else "no"])
    return lines + table(["net", "hosts", "Mbit/s", "scheme", "measured ms", "from-to", "cores busy", "simulated ms", "error",
                          "for constants"], rows)


def report_bursts(o, constants):
    lines = ["## How bursty traffic is", "",
             "Hosts of the same box, with chunks of 2 MB: milliseconds of an iteration in which the link of some host is at least 90 % "
             "full, millisecond by millisecond, the longest such stretch, and the most bytes that wait or are on their way: "
             "`train --tune=log` (what the wire was given, played through a link of the measured rate) beside `plan`. Of all "
             "hosts the greatest. A link that no gap of a millisecond leaves (AlexNet by `ps`) has one stretch over all "
             "iterations; `plan` looks at one.", ""]
    rows = []
    for (net, hosts, rate, how), row in sorted(validate.read_table(validate.BURSTS).items()):
        played = simulate_box(o, net, hosts, float(row["goodput_Bps"]), how.split() +
                              validate.sizes_of(validate.BURST_CHUNK) + constants)
        pairs = [(float(row[field]) * scale, played[key] * scale) for field, key, scale in (
            ("full", "link_full_seconds", 1e3), ("longest", "link_full_longest_seconds", 1e3), ("queued", "queued_bytes_most", 1e-3))]
        rows.append([net, "%d" % hosts, "%d" % rate, "`%s`" % how] + ["%.0f" % value for pair in pairs for value in pair])
    return lines + table(["net", "hosts", "Mbit/s", "by", "full ms, measured", "simulated", "longest ms, measured", "simulated",
                          "queued kB, measured", "simulated"], rows)


# ---- published points ----

def report_paper(o):
    lines = ["## Against the paper's 18 points", "",
             "VGG19-22K under Caffe, one Titan X a node, 40 GbE: seconds an iteration as a plotting script of the "
             "authors holds them (Zhang et al., USENIX ATC 2017). One set of constants for all three systems:", ""]
    lines += ["- `%s`: %s" % pair for pair in points.PAPER_CONSTANTS] + [""]
    rows, off = [], []
    for comm, seconds in points.PAPER:
        simulated = simulate(o, points.vgg19_22k(comm, "1,2,4,8,16,32"))
        for published, row in zip(seconds, simulated):
            off.append(row["seconds"] / published - 1)
            rows.append([comm, "%d" % row["nodes"], "%.3f" % published, "%.3f" % row["seconds"], percent(off[-1])])
    lines += ["Median error %.1f %%, worst %.1f %%; the bound aimed at is 10 %%." % (
        100 * statistics.median(map(abs, off)), 100 * max(map(abs, off))), ""]
    return lines + table(["system", "nodes", "published s", "simulated s", "error"], rows) + [points.PAPER_WORDS, ""]


def report_others(o):
    rows = []
    for point in points.OTHERS:
        speedup = simulate(o, point.words)[0]["speedup"]
        if point.alone:
            speedup *= point.alone
        rows.append([point.what, point.grade, "%gx" % point.published, "%.1fx" % speedup,
                     percent(speedup / point.published - 1), point.cause])
    return (["## Against other published points", "", points.OTHERS_WORDS, ""] +
            table(["what", "grade", "published", "simulated", "error", "likely cause, and what is assumed"], rows))


# ---- another simulator ----

def report_referee():
    path = os.path.join(validate.ROOT, "tests", "smpi", "referee.md")
    lines = ["## Against SimGrid's SMPI", "",
             "One layer by the parameter server, as a skeleton of its messages under SMPI (`tests/smpi/referee.sh`, "
             "which needs SimGrid and fails above 10 %): window, chunks and homes as in training.", ""]
    with open(path) as file:
        return lines + file.read().split("\n")


def report(o):
    text = ["# What `poseidon plan` is worth", "",
            "Written by `tests/cluster/validate.py report --poseidon=build/poseidon` from `validation.csv`, which "
            "`validate.py measure` fills; no figure here is written by hand.", ""]
    cells = validate.read_table()
    constants = fit(o, cells)
    text += report_box(o, cells, constants) + report_bursts(o, constants) + report_paper(o) + report_others(o) + report_referee()
    with open(REPORT, "w") as file:
        file.write("\n".join(text).rstrip("\n") + "\n")
