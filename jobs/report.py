#!/usr/bin/env python3
"""usage: report.py FOLDER... [--out=FOLDER] [--published=FILE]
       report.py --curves=OUT.svg [--force] [--title=TEXT] LOG...

Makes tables (report.md, report.csv) and plots (SVG and PNG, by gnuplot) of runs. The runs of a folder
make one table: of one net with one batch, by several schemes, on several numbers of nodes or speeds of
links.
  *.json           what 'train --summary=FILE' or 'simulate --json' wrote
  NAME.trace.json  what 'train --trace' wrote, beside NAME.json: when bytes were on the wire
  *.log            what train says while it trains, for losses
  about.json       what summaries lack: {"how": "emulated", "title": "...", "link_bytes_per_second": 1.25e9}

  --out=FOLDER      where to write (default: report)
  --published=FILE  published figures to compare with, such as docs/published.csv
  --curves=OUT.svg  draws the training loss (lines) and the test accuracy (points) of logs, this program's
                    or Caffe's own, over the iterations. Each log is named by its file, or by its folder
                    where it is called training.log
  --force           replaces OUT.svg where it exists
  --title=TEXT      is written above the curves

GNUPLOT names gnuplot where it is not in PATH. Needs Python 3.6 or later, and no library.
"""
import bisect
import getopt
import itertools
import json
import math
import os
import re
import subprocess
import sys
import tempfile

INTRODUCTION = """# Runs

Written by `jobs/report.py`. *measured*: processes, messages and computation were real.
*emulated*: real processes and messages, but computation was replayed from a profile, or hosts
and links were made of one machine. *simulated*: played on a virtual clock by `poseidon simulate`.
"""
HOW = ["measured", "emulated", "simulated"]
PUBLISHED = "table,system,comm,nodes,gbps,figure,value,grade,source,note"
WROTE = "what train --summary=FILE or simulate --json writes"
INTERVALS = 100  # that a trace's iteration is cut into


class Refused(Exception):
    """What the user gave cannot be used; says why."""


def read_text(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write_text(path, text):
    """Whole or not at all."""
    with open(path + ".tmp", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(path + ".tmp", path)


def draw(folder, scripts):
    """Whether gnuplot is there, which draws the scripts then."""
    program = os.environ.get("GNUPLOT") or "gnuplot"
    try:
        status = subprocess.call([program] + ["./" + name for name in scripts], cwd=folder) if scripts else 0
    except OSError:
        return False
    if status:
        raise Refused("%s failed with status %d in %s" % (program, status, folder))
    return True


# ---- reading: logs, summaries, rows, traces ----

def read_log(path):
    """Losses as (iteration, seconds of training or None, loss's text); scores as (iteration, accuracy's text)."""
    losses, scores, tested, seconds = [], [], None, 0.0
    for line in read_text(path).split("\n"):
        loss = re.search(r".*Iteration (\d+)(?: \((.*)\))?, loss = (\S+)", line)
        took = loss and re.match(r"\S+ iter/s, (\S+)s/\d+ iters$", loss.group(2) or "")
        testing = re.search(r"Iteration (\d+), Testing net \(#0\)", line)
        score = re.search(r"Test net output #\d+: accuracy = .*?(\S+)$", line)
        if loss:
            seconds += float(took.group(1)) if took else 0
            losses.append((int(loss.group(1)), seconds if took else None, loss.group(3)))
        elif testing:
            tested = testing.group(1)
        elif score and tested:
            scores.append((tested, score.group(1)))
    return losses, scores


def read_json(path):
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise Refused("%s:%d: this is no JSON, or it is damaged from here on" % (path, error.lineno))


def get(document, key):
    return document.get(key) if isinstance(document, dict) else None


def get_number(document, key):
    value = get(document, key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def get_list(document, key, kind):
    value = get(document, key)
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


class Run:
    """One run. What is not known is NaN. Bytes and seconds are those of one iteration.

    size      what tables and plots go over: nodes, or workers (Table.by_workers)
    batch     images of one worker
    link      bytes per second
    sent      bytes by a node, mean; most: by the rank that sends most
    wire      bytes that a node sends in each part of an iteration; empty: not known"""

    def __init__(self, path, document, about):
        self.path, self.size, self.wire = path, 0, []
        self.fields = dict(about, **document) if isinstance(document, dict) else about

    def text(self, key):
        value = get(self.fields, key)
        if not isinstance(value, str):
            raise Refused('%s: the run has no "%s"; expected %s' % (self.path, key, WROTE))
        return value

    def number(self, key, least=0, most=math.inf):
        value = get_number(self.fields, key)
        if math.isnan(value):
            raise Refused('%s: the run has no number "%s"; expected %s' % (self.path, key, WROTE))
        if not least <= value <= most:
            limit = "at least %g" % least if value < least else "at most %d" % most
            raise Refused('%s: "%s" is %g; expected %s' % (self.path, key, value, limit))
        return value

    def read_common(self, net):
        self.net, self.comm = self.text(net), self.text("comm")
        self.nodes, self.workers = (int(self.number(key, 1, 1 << 24)) for key in ("nodes", "workers"))
        self.parameters, self.images = self.number("parameters", 1), self.number("images_per_second")

    def read_summary(self, how):
        self.read_common("net")
        self.how = "emulated" if how == "emulated" or get(self.fields, "engine") == "replay" else "measured"
        images = self.number("global_batch", 1)
        stall, sent = self.number("stall_seconds_per_iteration"), self.number("bytes_sent_per_iteration")
        if self.images <= 0:
            raise Refused("%s: no images per second: the run trained no iteration" % self.path)
        self.link = get_number(self.fields, "link_bytes_per_second")
        self.batch, self.seconds, self.sent = images / self.workers, images / self.images, sent / self.nodes
        self.stall = stall / self.seconds
        self.most = max(get_list(self.fields, "bytes_sent_per_iteration_by_rank", (int, float)), default=math.nan)
        self.speedup = math.nan
        return self

    def read_row(self):
        self.read_common("model")
        self.how = "simulated"
        self.batch, self.link, self.seconds = self.number("batch", 1), self.number("bandwidth", 1), self.number("seconds")
        self.speedup, self.stall, self.sent = (self.number(key) for key in ("speedup", "stall_share", "bytes_sent"))
        self.most = get_number(self.fields, "bytes_sent_most")
        self.wire = get_list(self.fields, "bytes_sent_by_interval", (int, float))
        return self

    def same_link(self, other):
        if math.isnan(self.link) or math.isnan(other.link):
            return math.isnan(self.link) and math.isnan(other.link)
        return abs(self.link - other.link) <= 1e-6 * other.link

    def same_series(self, other):
        return self.how == other.how and self.comm == other.comm and self.same_link(other)

    def peak(self):
        """The busiest part of an iteration over the mean one."""
        total = sum(self.wire)
        return max(self.wire) * len(self.wire) / total if total > 0 else math.nan

    def link_name(self, unknown="unknown"):
        return unknown if math.isnan(self.link) else "%.3g Gb/s" % (self.link * 8e-9)


def read_trace(trace, path, run):
    """A node's bytes over an iteration: every message between two nodes is spread over the time from its departure to its
    completion, and the iterations of the rank that sent it are laid over one another."""
    ranks = get_number(get(trace, "otherData"), "ranks")
    if not 1 <= ranks <= 1 << 20:
        raise Refused("%s: the trace does not say how many ranks it has" % path)
    hosts, spans, sends = {}, {}, []
    for event in get_list(trace, "traceEvents", dict):
        rank, start, length = (get_number(event, key) for key in ("pid", "ts", "dur"))
        if not 0 <= rank < ranks:
            continue
        if get(event, "ph") == "M":  # "rank 3 (worker and server, host)"
            if get(event, "name") == "process_name":
                hosts[rank] = (get(get(event, "args"), "name") or "").rpartition(",")[2]
        elif get(event, "cat") == "iteration" and length > 0:
            spans.setdefault(rank, []).append((start, start + length))
        elif get(event, "cat") == "send" and length > 0:
            sends.append((rank, start, start + length, get(event, "args")))
    wire = [0.0] * INTERVALS
    for rank, start, end, args in sends:
        peer, size, own = get_number(args, "peer"), get_number(args, "bytes"), spans.get(rank, [])
        if not size > 0 or (0 <= peer < ranks and hosts.get(peer) == hosts.get(rank)):
            continue
        for begin, stop in own[max(bisect.bisect(own, (start, 0)) - 1, 0):]:
            if begin >= end:
                break
            each, at, to = (stop - begin) / INTERVALS, max(start, begin), min(end, stop)
            i = int((at - begin) / each)
            while at < to and i < INTERVALS:
                edge = min(to, begin + (i + 1) * each)
                if edge > at:
                    wire[i] += size * (edge - at) / (end - start)
                at, i = max(at, edge), i + 1
    iterations = max(map(len, spans.values()), default=0)
    if not iterations:
        raise Refused("%s: the trace has no iteration" % path)
    run.wire = [size / (iterations * run.nodes) for size in wire]


# ---- a folder: runs of one net, in the order of speed of links, how, scheme, size ----

def by_scheme(runs):
    """A list for each scheme, and how it was obtained."""
    schemes = {}
    for run in runs:
        schemes.setdefault((run.how, run.comm), []).append(run)
    return list(schemes.values())


class Table:
    def __init__(self, folder):
        self.folder = folder.rstrip("/") or "/"
        self.name = os.path.basename(self.folder) or self.folder
        self.runs, self.curves = [], []
        names = sorted(os.listdir(self.folder), key=os.fsencode)
        about = read_json(os.path.join(self.folder, "about.json")) if "about.json" in names else {}
        self.about = about if isinstance(about, dict) else {}
        for traces in (False, True):  # last: each looks for its run
            for name in names:
                if not name.startswith(".") and name != "about.json" and name.endswith(".trace.json") == traces:
                    self.read(name)
        self.set_sizes()
        self.runs.sort(key=lambda run: (math.isnan(run.link), 0 if math.isnan(run.link) else run.link, HOW.index(run.how),
                                        os.fsencode(run.comm), run.size))
        self.set_speedups()
        self.set_sweeps()
        self.how = "mixed" if len({run.how for run in self.runs}) > 1 else self.runs[0].how if self.runs else ""
        self.check()

    def read(self, name):
        path = self.folder + "/" + name
        if name.endswith(".log"):
            timed = [(at, seconds, float(loss)) for at, seconds, loss in read_log(path)[0] if seconds is not None]
            self.curves += [(name[:-len(".log")], timed)] if timed else []
        elif name.endswith(".json"):
            document = read_json(path)
            if name.endswith(".trace.json"):
                summary = path[:-len(".trace.json")] + ".json"
                run = next((run for run in self.runs if run.path == summary and not run.wire), None)
                if not run:
                    raise Refused("%s: there is no summary %s of the run that it shows" % (path, summary))
                read_trace(document, path, run)
            elif document and isinstance(document, list):
                self.runs += [Run(path, row, self.about).read_row() for row in document]
            elif isinstance(document, dict):
                self.runs.append(Run(path, document, self.about).read_summary(self.how_of_about()))
            else:
                raise Refused("%s: expected an object of train --summary=FILE or the rows of simulate --json" % path)

    def how_of_about(self):
        how = get(self.about, "how")
        if isinstance(how, str) and how not in ("measured", "emulated"):
            raise Refused('%s/about.json: "how" is "%s"; expected "measured" or "emulated"' % (self.folder, how))
        return how

    def set_sizes(self):
        """Ranks of one machine scale, too."""
        self.by_workers = any(a.nodes == b.nodes and a.workers != b.workers and a.same_link(b)
                              for runs in by_scheme(self.runs) for a in runs for b in runs)
        self.unit = "rank" if self.by_workers else "node"
        for run in self.runs:
            run.size = run.workers if self.by_workers else run.nodes

    def set_speedups(self):
        """Simulated rows bring theirs. Of the others it is images/s over those of the same scheme's run on the fewest
        workers, times that number; `none` on one worker serves a scheme that has no run on one."""
        for run in self.runs:
            base = min((other for other in self.runs if other.same_series(run)), key=lambda other: other.workers)
            if base.workers > 1:
                base = next((other for other in reversed(self.runs)
                             if other.workers == 1 and other.how == run.how and other.comm == "none"), base)
            if math.isnan(run.speedup) and base.images > 0:
                run.speedup = run.images / base.images * base.workers

    def check(self):
        if not self.runs and not self.curves:
            raise Refused("%s: there is no run here; expected files that train --summary=FILE.json or simulate --json wrote, "
                          "or logs of train (*.log)" % self.folder)
        for a, b in zip(self.runs, self.runs[1:]):
            first = self.runs[0]
            if first.net != b.net or abs(first.parameters - b.parameters) >= 1:
                raise Refused("%s is a run of net '%s' (%.0f parameters), %s of '%s' (%.0f); put each net's runs into a "
                              "folder of their own" % (first.path, first.net, first.parameters, b.path, b.net, b.parameters))
            if abs(first.batch - b.batch) > 1e-6:
                raise Refused("%s is a run with %g images a worker, %s with %g; put them into folders of their own" %
                              (first.path, first.batch, b.path, b.batch))
            if a.same_series(b) and a.size == b.size:
                raise Refused("%s and %s are both runs of %s on %s; keep one of them" %
                              (a.path, b.path, b.comm, count(b.size, self.unit)))

    # what there is to show

    def links(self, size=None):
        """The first run on each speed of links; of that size alone, where it is given."""
        firsts = []
        for run in self.runs:
            if size in (None, run.size) and not (firsts and run.same_link(firsts[-1])):
                firsts.append(run)
        return firsts

    def on(self, link, size=None):
        return [run for run in self.runs if run.same_link(link) and size in (None, run.size)]

    def sizes(self, link=None):
        """In the order in which they appear; on one link, where it is given."""
        return list(dict.fromkeys(run.size for run in (self.on(link) if link else self.runs)))

    def scales(self, link):
        return len(self.sizes(link)) > 1

    def common_size(self, link):
        """The largest that every scheme but `none` has on that link; 0: there is none."""
        common = set(self.sizes(link))
        for runs in by_scheme(self.on(link)):
            common &= common if runs[0].comm == "none" else {run.size for run in runs}
        return max(common, default=0)

    def set_sweeps(self):
        """Sizes of which the table shows a sweep: the one that has most speeds of links, at least two. Where more speeds have
        several sizes than there are sizes the table shows sweeps alone, of all sizes that have two."""
        counts = {size: sum(not math.isnan(run.link) for run in self.links(size)) for size in self.sizes()}
        most = max(counts, key=lambda size: (counts[size], size), default=0)
        self.all_sweeps = sum(self.scales(link) for link in self.links()) > len(counts)
        self.sweeps = [size for size, links in counts.items() if links > 1 and (self.all_sweeps or size == most)]

    def sweep(self, size):
        """A list of runs for each scheme that has at least two of that size."""
        return [runs for runs in by_scheme(run for run in self.runs if run.size == size) if len(runs) > 1]

    def main_link(self):
        """The link whose runs bars show: of most runs, with a common size; None: there is none."""
        return max((link for link in self.links() if self.common_size(link)), key=lambda link: len(self.on(link)), default=None)

    def name_of(self, run):
        return "%s (%s)" % (run.comm, run.how) if self.how == "mixed" else run.comm


# ---- figures that others have published ----

class Point:
    """A line of PUBLISHED: table is a folder's name, comm the scheme here that does what `system` did; figure is "speedup"
    (over one worker) or "images_per_second"; the note may hold commas."""

    def __init__(self, line, place):
        fields = line.split(",", PUBLISHED.count(","))
        if len(fields) <= PUBLISHED.count(","):
            raise Refused("%s: expected the fields %s, found '%s'" % (place, PUBLISHED, line))
        self.table, self.system, self.comm, nodes, gbps, self.figure, value, self.grade, self.source, self.note = fields
        if self.figure not in ("speedup", "images_per_second"):
            raise Refused("%s: figure '%s' is not known (speedup or images_per_second)" % (place, self.figure))
        try:
            numbers = [float(text) for text in (nodes, gbps, value)]
        except ValueError:
            numbers = [0]
        if not all(0 < number < math.inf for number in numbers):
            raise Refused("%s: nodes, gbps and value are numbers above 0; found '%s', '%s', '%s'" % (place, nodes, gbps, value))
        self.nodes, self.link, self.value = int(numbers[0]), numbers[1] * 1e9 / 8, numbers[2]

    def is_on(self, run):
        return abs(self.link - run.link) <= 1e-3 * self.link

    def row(self, run):
        speedup = self.figure == "speedup"
        number = "%.2f" if speedup else "%.1f"
        text = "| %s | %s | %d | %.3g Gb/s | %s | %s | %s, %s |" % (
            self.table, self.system, self.nodes, self.link * 8e-9, "speed-up" if speedup else "images/s", number % self.value,
            self.grade, self.source)
        if not run:
            return text + " | not obtained | | %s |\n" % self.note
        ours = run.speedup if speedup else run.images
        return text + " %s | %s, `%s` | %+.1f %% | %s |\n" % (
            number % ours, run.how, run.comm, 100 * (ours / self.value - 1), self.note)


def read_published(path):
    lines = enumerate(re.split("\r?\n", read_text(path)), 1)
    return [Point(line, "%s:%d" % (path, number)) for number, line in lines
            if line and not line.startswith("#") and line != PUBLISHED]


def compare(tables, points):
    text = ("\n| table | system | nodes | links | figure | theirs | source | ours | obtained | error | note |\n"
            "|---|---|---:|---:|---|---:|---|---:|---|---:|---|\n")
    for point in points:
        runs = [run for table in tables if table.name == point.table for run in table.runs
                if point.nodes == run.nodes and point.comm == run.comm and point.is_on(run)]
        text += "".join(point.row(run) for run in runs or [None])
    return text


# ---- tables ----

def csv(tables):
    def cell(value):
        if isinstance(value, float):
            return "" if math.isnan(value) else "%.9g" % value
        return '"%s"' % value.replace('"', '""') if re.search('[,"\n]', str(value)) else str(value)

    text = ("table,net,obtained,comm,nodes,workers,images_per_worker,link_gbps,seconds_per_iteration,images_per_second,speedup,"
            "efficiency,stall_share,bytes_sent_by_node,bytes_sent_most,peak_over_mean\n")
    for table in tables:
        for run in table.runs:
            row = [table.name, run.net, run.how, run.comm, run.nodes, run.workers, run.batch, run.link * 8e-9, run.seconds,
                   run.images, run.speedup, run.speedup / run.workers, run.stall, run.sent, run.most, run.peak()]
            text += ",".join(map(cell, row)) + "\n"
    return text


def scaled(value, units):
    """Three digits, and no more zeros than that needs; nothing of what is not known."""
    unit, *larger = units.split()
    while value >= 999.5 and larger:
        value, (unit, *larger) = value / 1000, larger
    return "" if math.isnan(value) else ("%.0f %s" if value >= 99.95 or value == 0 else "%.3g %s") % (value, unit)


def rows(head, columns, lines):
    """A table: scheme, how obtained, and `columns`, whose cells of `lines` are as (run, cells)."""
    text = "\n%s\n\n| scheme | obtained |%s\n|---|---|%s\n" % (
        head, "".join(" %s |" % column for column in columns), "---:|" * len(columns))
    for run, cells in lines:
        text += "| %s | %s |%s\n" % (run.comm, run.how, "".join(" %s |" % cell if cell else " |" for cell in cells))
    return text


def count(number, unit):
    return "%d %s%s" % (number, unit, "" if number == 1 else "s")


def speedups(table, link):
    sizes = sorted(table.sizes(link))

    def cells(runs):
        found = {run.size: "%.2f" % run.speedup for run in runs}
        return [found.get(size, "") for size in sizes]

    return rows("Speed-up over one worker; links: %s." % link.link_name(), [count(size, table.unit) for size in sizes],
                [(runs[0], cells(runs)) for runs in by_scheme(table.on(link))])


def iterations(table, link):
    size = table.common_size(link)
    if not size:
        return ""

    def cells(run):
        return [scaled(run.seconds * 1e6, "us ms s"), "%.1f" % run.images, "%.1f %%" % (100 - 100 * run.stall),
                "%.1f %%" % (100 * run.stall), scaled(run.sent, "B kB MB GB TB PB"), scaled(run.most, "B kB MB GB TB PB"),
                "" if math.isnan(run.peak()) else "%.2f" % run.peak()]

    return rows("An iteration on %s." % count(size, table.unit),
                ["iteration", "images/s", "busy", "stalled", "a node sends", "busiest rank sends", "peak / mean"],
                [(run, cells(run)) for run in table.on(link, size)])


def sweep(table, size):
    links = table.links(size)

    def cells(runs):
        found = [next((run for run in runs if run.same_link(link)), None) for link in links]
        return ["%.1f" % run.images if run else "" for run in found]

    return rows("Images/s on %s over the speed of links." % count(size, table.unit), [link.link_name() for link in links],
                [(runs[0], cells(runs)) for runs in table.sweep(size)])


def markdown(table, plots):
    text = "\n## %s\n" % table.name
    if isinstance(get(table.about, "title"), str):
        text += "\n%s\n" % table.about["title"]
    if table.runs:
        first, sweeps = table.runs[0], sorted(table.sweeps)
        text += "\nNet %s: %.0f parameters, %g images a worker and iteration.\n" % (first.net, first.parameters, first.batch)
        for link in [] if table.all_sweeps else table.links():
            if not sweeps or table.scales(link):
                text += speedups(table, link) + iterations(table, link)
        text += "".join(sweep(table, size) for size in sweeps)
    return text + "".join("\n![%s](%s.svg)\n" % (plot.title, plot.name) for plot in plots)


# ---- plots: gnuplot's scripts and data ----

# Colours are Okabe and Ito's, which people tell apart whatever they see of colours; points and dashes differ too. A scheme
# looks the same in all plots: colour, points, dashes, size.
LOOKS = {"poseidon": ("#D55E00", 5, 2, 1.4), "auto": ("#0072B2", 7, 1, 1.8), "paper": ("#D55E00", 5, 1, 1.4),
         "ps": ("#009E73", 9, 1, 1.1), "wfbp": ("#009E73", 8, 2, 1.1), "allreduce": ("#CC79A7", 11, 1, 1.1),
         "sfb": ("#E69F00", 13, 1, 1.1), "adam": ("#56B4E9", 15, 1, 1.1), "onebit": ("#000000", 4, 1, 1.1),
         "caffe-ps": ("#CC79A7", 10, 2, 1.1), "tf-ps": ("#000000", 6, 2, 1.1), "ring": ("#56B4E9", 12, 2, 1.1),
         "mg-wfbp": ("#E69F00", 14, 2, 1.1), "p3": ("#999999", 2, 1, 1.1), "none": ("#999999", 1, 3, 1.1)}
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
BARS = """set style data histograms
set style histogram %s
set boxwidth 0.8
set style fill solid border rgb '#333333'
set datafile missing '-'
set yrange [0:*]
unset grid
set grid y linecolor rgb '#dddddd'
set xtics noenhanced
"""
SCRIPT = """# gnuplot {name}.gp draws {name}.svg and {name}.png from {name}.dat
reset session
set encoding utf8
data = '{name}.dat'
set grid linecolor rgb '#dddddd'
set border 3
set tics nomirror
set key outside bottom center horizontal
set bmargin 7
set title {title}
{settings}set terminal svg size 760,540 font 'sans-serif,14' background 'white' noenhanced
set output '{name}.svg'
plot {elements}
set terminal pngcairo size 900,640 font 'sans,12' background 'white' noenhanced
set output '{name}.png'
replot
set output
"""


def look_of(scheme):
    looks = list(LOOKS.values())
    return LOOKS.get(scheme, looks[sum(os.fsencode(scheme)) % len(looks)])


def quoted(text):
    """gnuplot's strings in double quotes know escapes."""
    return '"%s"' % re.sub(r'["\\\n]', "'", text)


class Plot:
    """NAME.gp and NAME.dat, in blocks of data that are elements of one plot."""

    def __init__(self, table, what, title, settings):
        self.table, self.name, self.title = table, "%s-%s" % (table.name, what), "%s: %s" % (table.name, title)
        self.settings, self.blocks, self.elements = settings, [], []

    def block(self, using, title, style, lines):
        self.elements.append("data index %d using %s title %s %s" % (len(self.blocks), using, quoted(title), style))
        self.blocks.append("# %s\n" % title + "".join(line + "\n" for line in lines))

    def series(self, run, lines):
        look = "with linespoints linewidth 2 linecolor rgb '%s' pointtype %d dashtype %d pointsize %g" % look_of(run.comm)
        self.block("1:2", self.table.name_of(run), look, lines)

    def bars(self, runs, first, second, values):
        """Two a run."""
        def line(run):
            one, other = values(run)
            return "%s %.6g %s" % (quoted(self.table.name_of(run)), one, "-" if math.isnan(other) else "%.6g" % other)

        self.block("2:xtic(1)", first, "linecolor rgb '#0072B2'", map(line, runs))
        self.elements.append("data index 0 using 3 title '%s' linecolor rgb '#E69F00'" % second)

    def write(self, folder):
        script = SCRIPT.format(name=self.name, title=quoted(self.title), settings=self.settings,
                               elements=", \\\n    ".join(self.elements))
        write_text("%s/%s.dat" % (folder, self.name), "\n\n".join(self.blocks) + "\n")
        write_text("%s/%s.gp" % (folder, self.name), script)


def plot_speedup(table, link, points, what):
    runs = table.on(link)
    most, slope = max([1] + [run.size for run in runs]), max([1.0] + [run.workers / run.size for run in runs])
    ranges = "set logscale xy 2\n" if most > 64 else "set xrange [0:%g]\nset yrange [0:%g]\n" % (most * 1.03, most * slope * 1.05)
    plot = Plot(table, what, "speed-up, links of %s, %s" % (link.link_name("unknown speed"), table.how),
                "set xlabel '%ss'\nset xtics (%s)\n"
                "set ylabel 'speed-up over one worker'\nset key outside bottom center horizontal maxcols 3 Left "
                "reverse samplen 2 font ',12'\nset bmargin 9\n%s" %
                (table.unit, ", ".join(map(str, sorted(table.sizes(link)))), ranges))
    for series in by_scheme(runs):
        plot.series(series[0], ["%d %.6g" % (run.size, run.speedup) for run in series])
    theirs = [point for point in points if point.table == table.name and point.figure == "speedup" and point.is_on(link)]
    for system, same in itertools.groupby(theirs, lambda point: point.system):
        same = list(same)
        plot.block("1:2", "%s, %s" % (system, same[0].grade),
                   "with points pointsize 1.8 linewidth 2 pointtype 6 linecolor rgb '%s'" % look_of(same[0].comm)[0],
                   ["%d %g" % (point.nodes, point.value) for point in same])
    plot.elements.append("[1:%d] %g*x with lines linecolor rgb '#555555' dashtype 4 title 'ideal'" % (most, slope))
    return plot


def plot_bandwidth(table, size):
    plot = Plot(table, "bandwidth-%d" % size if table.all_sweeps else "bandwidth",
                "images/s over bandwidth, %s, %s" % (count(size, table.unit), table.how),
                "set logscale x 2\nset xlabel 'speed of a node''s link, Gb/s'\nset ylabel 'images/s'\nset yrange [0:*]\n")
    for runs in table.sweep(size):
        plot.series(runs[0], ["%.6g %.6g" % (run.link * 8e-9, run.images) for run in runs if not math.isnan(run.link)])
    return plot


def plots_at(table, link, size):
    """Bars of time and of bytes, and bytes over time, of the schemes on one link."""
    runs, sizes = table.on(link, size), count(size, table.unit)
    how = "%s, links of %s, %s" % (sizes, link.link_name("unknown speed"), table.how)
    busy = Plot(table, "busy", "where time goes, " + how,
                BARS % "rowstacked" + "set yrange [0:100]\nset ylabel 'share of an iteration, %'\n")
    busy.bars(runs, "busy", "waiting for the network", lambda run: (100 - 100 * run.stall, 100 * run.stall))
    sent = Plot(table, "bytes", "bytes sent, %s, %s" % (sizes, table.how),
                BARS % "clustered gap 1" + "set ylabel 'MB sent in an iteration'\n")
    sent.bars([run for run in runs if run.comm != "none"], "a node, mean", "the rank that sends most",
              lambda run: (run.sent * 1e-6, run.most * 1e-6))
    wire = Plot(table, "wire", "bytes on the wire, " + how,
                "set xlabel 'time since the iteration began, % of it'\nset ylabel 'sent by a node, Gb/s'\nset xrange [0:100]\n"
                "set yrange [0:*]\nset bmargin 8\nset key maxcols 2 Left reverse samplen 3 font ',12'\n")
    shown = [run for run in runs if not math.isnan(run.peak()) and run.seconds > 0]
    for i, run in enumerate(shown):  # schemes that send alike lie on one another: those below are wider, each second dashed
        parts = len(run.wire)
        wire.block("1:2", "%s, peak %.1f times the mean" % (table.name_of(run), run.peak()),
                   "with steps linewidth %g linecolor rgb '%s' dashtype %d" % (max(4 - i, 1.5), look_of(run.comm)[0], 1 + i % 2),
                   ["%.6g %.6g" % (100.0 * k / parts, run.wire[min(k, parts - 1)] * 8e-9 * parts / run.seconds)
                    for k in range(parts + 1)])
    return [busy, sent, wire]


def plot_loss(table, what, title, label, value):
    plot = Plot(table, what, title, "set xlabel '%s'\nset ylabel 'training loss'\nset yrange [0:*]\n" % label)
    drawn = [curve for curve in table.curves if len(curve[1]) > 1]  # one point makes no line
    for c, (name, points) in enumerate(drawn):
        plot.block("1:2", name, "with lines linewidth 2 linecolor rgb '%s' dashtype %d" %
                   (COLORS[c % len(COLORS)], c // len(COLORS) + 1), ["%.9g %.9g" % (point[value], point[2]) for point in points])
    return plot


def plots_of(table, points):
    scaling = [link for link in table.links() if table.scales(link) and not table.all_sweeps]
    plots = [plot_speedup(table, link, points, "speedup" if len(scaling) == 1 else "speedup-%.3gg" % (link.link * 8e-9))
             for link in scaling]
    plots += [plot_bandwidth(table, size) for size in table.sweeps]
    link = None if table.all_sweeps else table.main_link()
    plots += plots_at(table, link, table.common_size(link)) if link else []
    plots += [plot_loss(table, "loss-iterations", "loss over iterations", "iteration", 0),
              plot_loss(table, "loss-seconds", "loss over time", "seconds of training", 1)]
    return [plot for plot in plots if plot.blocks]


# ---- curves of logs ----

CURVES = """set terminal svg size 760,480 font "sans-serif,13" background "white"
set output "curves.svg"
set label "{title}" at screen 0.5, screen 0.96 center noenhanced
set key at screen 0.5, screen {top} center top horizontal maxcols 3
set tmargin at screen {top} - 0.06 * {rows}
set xlabel "iteration"
set autoscale xfix
set offsets graph 0.015, graph 0.015, 0, 0
set ylabel "training loss (lines)"
set ytics nomirror
set yrange [0:*]
set y2label "test accuracy (points)"
set y2range [0:1]
set y2tics 0.1
set grid x y2 lc rgb "#dddddd"
plot {elements}
"""
# Curves that lie on one another are all seen: each is thinner than the one below it, and dashed in its own way; the
# symbols are hollow.
CURVE_COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9", "#999933"]
DASHES = ["1", "(12,6)", "(6,6)", "(12,4,3,4)", "1", "(18,6)", "(3,4)", "(9,4,3,4,3,4)"]
SYMBOLS = [6, 4, 8, 10, 12, 1, 2, 3]


def name_of_log(log):
    name = os.path.basename(log)
    name = name[:-len(".log")] if name.endswith(".log") else name
    name = os.path.basename(os.path.dirname(os.path.abspath(log))) if name == "training" else name
    return name.translate(str.maketrans("_\"'\n", "-   "))


def curves(out, logs, title, force):
    if not out.endswith(".svg"):
        raise Refused("expected a picture to write first, OUT.svg, found '%s'" % out)
    if not logs:
        raise Refused("which logs? report.py --curves=OUT.svg LOG...")
    if os.path.exists(out) and os.path.getsize(out) and not force:
        raise Refused("%s exists already; --force replaces it" % out)
    losses, scores = [], []
    with tempfile.TemporaryDirectory() as folder:
        for n, log in enumerate(logs):
            if not os.path.isfile(log):
                raise Refused("no such log: %s" % log)
            if os.path.exists(out) and os.path.samefile(log, out):
                raise Refused("%s is one of the logs; expected another file to write" % out)
            loss, score = read_log(log)
            if not loss:
                raise Refused("%s shows no 'Iteration N, loss = X'" % log)
            write_text("%s/loss%d" % (folder, n), "".join("%d %s\n" % (at, value) for at, _, value in loss))
            write_text("%s/accuracy%d" % (folder, n), "".join("%s %s\n" % point for point in score))
            color, symbol = "lc rgb '%s'" % CURVE_COLORS[n % 8], "pt %d ps 0.7" % SYMBOLS[n % 8]
            line = "%s lw %.6g dt %s" % (color, 1.5 + 2 * (len(logs) - n - 1) / len(logs), DASHES[n % 8])
            losses += ["'loss%d' with lines %s notitle" % (n, line), "keyentry with linespoints %s %s title '%s'" %
                       (line, symbol if score else "pt 0", name_of_log(log))]
            if score:
                scores.append("'accuracy%d' axes x1y2 with points %s lw 1.5 dt 1 %s notitle" % (n, color, symbol))
        title = title.translate(str.maketrans("\"\\`\n", "' ' "))
        write_text(folder + "/curves.gp", CURVES.format(title=title, top=0.92 if title else 0.98, rows=(len(logs) + 2) // 3,
                                                        elements=", ".join(losses + scores)))
        if not draw(folder, ["curves.gp"]):
            raise Refused("gnuplot is missing (Debian: gnuplot-nox)")
        write_text(out, read_text(folder + "/curves.svg"))


# ---- the program ----

def report(folders, out, published):
    if not folders:
        raise Refused("which runs? report.py FOLDER...")
    points = read_published(published) if published else []
    tables = [Table(folder) for folder in folders]
    for a, b in itertools.combinations(tables, 2):
        if a.name == b.name:
            raise Refused("%s and %s would both be table '%s'; rename one folder" % (a.folder, b.folder, a.name))
    os.makedirs(out, exist_ok=True)
    plots = [plots_of(table, points) for table in tables]
    every = [plot for own in plots for plot in own]
    for plot in every:
        plot.write(out)
    made = {"report.md": INTRODUCTION + "".join(map(markdown, tables, plots)), "report.csv": csv(tables)}
    if published:
        made["compare.md"] = compare(tables, points)
    for name, text in made.items():
        write_text("%s/%s" % (out, name), text)
    drawn = draw(out, [plot.name + ".gp" for plot in every])
    print(", ".join("%s/%s" % (out, name) for name in made))
    if not drawn:
        print("Plots were not drawn: gnuplot is not there (Debian: gnuplot-nox). Their scripts are: gnuplot NAME.gp")


def main(arguments):
    options, words = getopt.gnu_getopt(arguments, "h", ["help", "out=", "published=", "curves=", "force", "title="])
    given = dict(options)
    if "-h" in given or "--help" in given:
        print(__doc__, end="")
    elif "--curves" in given:
        curves(given["--curves"], words, given.get("--title", ""), "--force" in given)
    else:
        report(words, given.get("--out", "report"), given.get("--published"))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit("report.py: %s: %s" % (error.filename or "a file", error.strerror))
    except (getopt.GetoptError, Refused) as error:
        sys.exit("report.py: %s" % error)
