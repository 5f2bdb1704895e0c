#!/usr/bin/env python3
"""usage: report.py FOLDER... [--out=FOLDER] [--published=FILE]
       report.py --curves=OUT.svg [--force] [--title=TEXT] LOG...

Compares runs: tables (report.md, report.csv) and plots (SVG and PNG) of all runs of a folder,
whatever their differences.
  NAME.json        what 'train --summary=FILE' or 'plan --json' wrote
  NAME.csv         what 'train --curves=NAME.csv' wrote: losses and scores during training
  NAME.log         the log of train; read instead if there is no NAME.csv
  NAME.trace.json  what 'train --trace' wrote, beside NAME.json: when bytes were on the wire
  about.json       what summaries lack: {"how": "emulated", "title": "...", "link_bytes_per_second": 1.25e9}; for
                   plots also {"name": "...", "names": {"ps": "parameter server"}, "speedup": ["ps"]}: words for
                   the folder and for schemes, and the schemes whose speed-up is drawn; {"devices": ["p100"]}: of
                   'plan --profile=DEVICE', one table over devices, nodes and links

  --out=FOLDER      where to write (default: report)
  --published=FILE  published figures to compare with, such as docs/published.csv
  --curves=OUT.svg  draws training loss and test accuracy of logs, this program's or Caffe's own, over the
                    iterations. Each log is named by its file, or by its folder if it is called training.log
  --force           replaces OUT.svg if it exists
  --title=TEXT      is written above the curves

Needs Python 3.6 or later; plots need matplotlib 3.5 or later (Debian: python3-matplotlib), tables do not.
"""
import getopt
import itertools
import math
import os
import re
import sys

sys.dont_write_bytecode = True  # the folder may be another's
from report_runs import Refused, Table, count, get, get_list, get_number, median, natural, read_log, read_text, write_text  # noqa: E402
try:
    import report_plots as plots
except ImportError as error:
    if error.name != "matplotlib":
        raise
    plots = None

INTRODUCTION = """# Runs

Written by `tools/report.py`. *measured*: processes, messages and computation were real.
*emulated*: real processes and messages, but computation was replayed from a profile, or hosts
and links were made of one machine. *simulated*: played on a virtual clock by `poseidon plan`.
"""
PUBLISHED = "table,system,comm,nodes,gbps,figure,value,grade,source,note"


# ---- figures that others have published ----

class Point:
    """A line of PUBLISHED: table is a folder's name, comm the scheme here that does what `system` did; figure is "speedup"
    (over one worker) or "images_per_second"; a value such as "<1" is one that the source says it is below; the note may hold
    commas."""

    def __init__(self, line, place):
        fields = line.split(",", PUBLISHED.count(","))
        if len(fields) <= PUBLISHED.count(","):
            raise Refused("%s: expected the fields %s, found '%s'" % (place, PUBLISHED, line))
        self.table, self.system, self.comm, nodes, gbps, self.figure, value, self.grade, self.source, self.note = fields
        self.below, value = value.startswith("<"), value.lstrip("<")
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
        cells = [self.table, self.system, "%d" % self.nodes, "%.3g Gb/s" % (self.link * 8e-9), "speed-up" if speedup else "images/s",
                 "below " * self.below + number % self.value, "%s, %s" % (self.grade, self.source)]
        if not run:
            return cells + ["", "not obtained", "", self.note]
        ours = run.speedup if speedup else run.images
        error = "%+.1f %%" % (100 * (ours / self.value - 1))
        return cells + [number % ours, "%s, `%s`" % (run.how, run.comm), "none" if self.below and ours < self.value else error, self.note]


def read_published(path):
    lines = enumerate(re.split("\r?\n", read_text(path)), 1)
    return [Point(line, "%s:%d" % (path, number)) for number, line in lines
            if line and not line.startswith("#") and line != PUBLISHED]


def compare(tables, points):
    """The rows of compare.md and compare.csv."""
    compared = [["table", "system", "nodes", "links", "figure", "theirs", "source", "ours", "obtained", "error", "note"]]
    for point in points:
        runs = [run for table in tables if table.name == point.table for run in table.runs
                if point.nodes == run.nodes and point.comm == run.comm and point.is_on(run)]
        compared += [point.row(run) for run in runs or [None]]
    return compared


# ---- tables ----

def csv_cell(value):
    if isinstance(value, float):
        return "" if math.isnan(value) else "%.9g" % value
    return '"%s"' % value.replace('"', '""') if re.search('[,"\n]', str(value)) else str(value)


def csv(tables):
    text = ("table,net,obtained,comm,nodes,workers,images_per_worker,link_gbps,seconds_per_iteration,images_per_second,speedup,"
            "efficiency,stall_share,bytes_sent_by_node,bytes_sent_most,link_full_seconds,link_full_longest_seconds,"
            "queued_bytes_most,run,set,seconds,epochs,train_loss,best_score,best_iteration\n")
    for table in tables:
        for run in table.runs:
            row = [table.name, run.net, run.how, run.comm, run.nodes, run.workers, run.batch, run.link * 8e-9, run.seconds,
                   run.images, run.speedup, run.speedup / run.workers, run.stall, run.sent, run.most, run.full, run.longest,
                   run.queued, run.name, settings(run), get_number(run.fields, "train_seconds")] + list(table.outcome(run))
            text += ",".join(map(csv_cell, row)) + "\n"
    return text


def settings(run):
    return " ".join(get_list(run.fields, "set", str))


def figure(form, value):
    return "" if math.isnan(value) else form % value


def scaled(value, units):
    """Three digits, and no more zeros than that needs; nothing of what is not known."""
    unit, *larger = units.split()
    while value >= 999.5 and larger:
        value, (unit, *larger) = value / 1000, larger
    return figure(("%.0f " if value >= 99.95 or value == 0 else "%.3g ") + unit, value)


def rows(head, columns, lines, left=2):
    """A table; `left` columns hold words."""
    text = "\n%s\n\n|%s\n|%s%s\n" % (head, "".join(" %s |" % column for column in columns), "---|" * left,
                                     "---:|" * (len(columns) - left))
    return text + "".join("|%s\n" % "".join(" %s |" % cell if cell else " |" for cell in cells) for cells in lines)


def trained(table):
    """One row a run, and one a log that has no summary beside it."""
    def best(score, at):
        return "" if math.isnan(score) else "%.4g at %d" % (score, at)

    lines = []
    for run in table.trained:
        epochs, loss, score, at = table.outcome(run)
        lines.append((run.name, [settings(run), run.net, "%g" % run.batch, "%d" % run.workers, "%d" % run.nodes, run.scheme(),
                                 "%.1f" % run.images, figure("%.4g", get_number(run.fields, "train_seconds")),
                                 figure("%.4g", epochs), figure("%.4g", loss), best(score, at)]))
    for curve in (table.curves[name] for name in set(table.curves) - {run.name for run in table.trained}):
        loss, seconds = (curve.losses[-1][k] if curve.losses else math.nan for k in (3, 2))
        lines.append((curve.name, [""] * 7 + [figure("%.4g", seconds), figure("%.4g", curve.epochs), figure("%.4g", loss),
                                              best(*curve.best())]))
    if not lines:
        return ""
    return rows("Runs; the batch is that of one rank, the best score of all tests.",
                ["run", "--set", "net", "batch", "ranks", "nodes", "scheme", "images/s", "seconds", "epochs", "train loss",
                 "best score"], [[name] + cells for name, cells in sorted(lines, key=lambda line: natural(line[0]))], 3)


def base_of(family, link):
    """What the speed-ups are over, and how far runs lie apart that should be equal."""
    if family.first.how == "simulated":
        return "Speed-up over one worker; links: %s." % link.link_name()
    bases = family.bases(family.on(link))
    base, ranks = bases[0], count(bases[0].workers, "rank")
    text = "Speed-up over `%s` (%.1f images/s on %s" % (base.name, base.images, ranks)
    if len(bases) > 1:
        text += ", the fastest of %d such runs, which lie between %.1f and %.1f" % (len(bases), bases[-1].images, base.images)
    return text + ")%s; links: %s." % (", which counts as %d" % base.workers if base.workers > 1 else "", link.link_name())


def speedups(family, link):
    def cell(runs):
        """Of several runs the median, and their range."""
        values = sorted(run.speedup for run in runs)
        text = "%.2f" % median(values) if values else ""
        return text if len(values) < 2 else "%s (%.2f to %.2f)" % (text, values[0], values[-1])

    sizes = family.sizes(link)
    return rows(base_of(family, link), ["scheme", "obtained"] + [count(size, family.unit) for size in sizes],
                [[label, runs[0].how] + [cell([run for run in runs if run.size == size]) for size in sizes]
                 for label, runs in family.by_label(family.on(link)).items()])


def iterations(family, link):
    def cells(run):
        return [run.comm if run.how == "simulated" else run.name, run.how, scaled(run.seconds * 1e6, "us ms s"), "%.1f" % run.images,
                "%.1f %%" % (100 - 100 * run.stall), "%.1f %%" % (100 * run.stall), scaled(run.sent, "B kB MB GB TB PB"),
                *(scaled(size, "B kB MB GB TB PB") for size in (run.most, run.queued)),
                *(scaled(seconds * 1e6, "us ms s") for seconds in (run.full, run.longest))]

    size = family.common_size(link)
    return size and rows("An iteration on %s." % count(size, family.unit),
                         ["scheme" if family.first.how == "simulated" else "run", "obtained", "iteration", "images/s", "busy",
                          "stalled", "a node sends", "busiest rank sends", "queued at worst", "link full", "longest"],
                         map(cells, family.on(link, size))) or ""


def devices(table):
    family = table.families[0]
    links, lines = family.links(), []
    for device in table.devices():
        for size in family.sizes():
            for comm, runs in table.of_device(device, size).items():
                found = [next((run for run in runs if run.same_link(link)), None) for link in links]
                lines.append(["%s, %g images" % (device, runs[0].batch), count(size, family.unit), "`%s`" % comm] + [
                    run and "%.0f (%.0f %%)" % (run.images, 100 * run.speedup / run.workers) for run in found])
    return rows("Images/s over the speed of links, and how much of so many times one node's that is.",
                ["device", "nodes", "scheme"] + [link.link_name() for link in links], lines, 3)


def sweep(family):
    links = family.links(family.swept)
    lines = []
    for label, runs in family.sweep().items():
        found = [next((run for run in runs if run.same_link(link)), None) for link in links]
        lines.append([label, runs[0].how] + ["%.1f" % run.images if run else "" for run in found])
    return rows("Images/s on %s over the speed of links." % count(family.swept, family.unit),
                ["scheme", "obtained"] + [link.link_name() for link in links], lines)


def markdown(table, pictures):
    text = "\n## %s\n" % table.name
    if isinstance(get(table.about, "title"), str):
        text += "\n%s\n" % table.about["title"]
    text += devices(table) if table.devices() else trained(table)
    for family in [] if table.devices() else table.families:
        batches = family.batches
        text += "\nNet %s: %.0f parameters, %s images a worker and iteration.\n" % (
            family.first.net, family.first.parameters,
            "%g" % batches[0] if len(batches) == 1 else "%g to %g" % (batches[0], batches[-1]))
        for link in family.links():
            if family.scales(link):
                text += speedups(family, link)
            if family.scales(link) or not family.swept:
                text += iterations(family, link)
        text += sweep(family) if family.swept else ""
    return text + "".join("\n![%s](%s.svg)\n" % (plot.title, plot.name) for plot in pictures)


# ---- the program ----

def name_of_log(log):
    name = os.path.basename(log)
    name = name[:-len(".log")] if name.endswith(".log") else name
    name = os.path.basename(os.path.dirname(os.path.abspath(log))) if name == "training" else name
    return name.translate(str.maketrans("_\"'\n$", "-   -"))


def curves(out, logs, title, force):
    if not out.endswith(".svg"):
        raise Refused("expected a picture to write first, OUT.svg, found '%s'" % out)
    if not logs:
        raise Refused("which logs? report.py --curves=OUT.svg LOG...")
    if os.path.exists(out) and os.path.getsize(out) and not force:
        raise Refused("%s exists already; --force replaces it" % out)
    read = []
    for log in logs:
        if not os.path.isfile(log):
            raise Refused("no such log: %s" % log)
        if os.path.exists(out) and os.path.samefile(log, out):
            raise Refused("%s is one of the logs; expected another file to write" % out)
        read.append(read_log(log, name_of_log(log)))
        if len(read[-1].losses) < 2:
            raise Refused("%s shows no two lines 'Iteration N, loss = X', which a curve needs" % log)
    if not plots:
        raise Refused("matplotlib is missing (Debian: python3-matplotlib)")
    plots.plot_curves("", title or (read[0].name if len(read) == 1 else ""), read, ("iteration",)).write([out])


def report(folders, out, published):
    if not folders:
        raise Refused("which runs? report.py FOLDER...")
    points = read_published(published) if published else []
    tables = [Table(folder) for folder in folders]
    for a, b in itertools.combinations(tables, 2):
        if a.name == b.name:
            raise Refused("%s and %s would both be table '%s'; rename one folder" % (a.folder, b.folder, a.name))
    os.makedirs(out, exist_ok=True)
    pictures = [plots.plots_of(table, points) if plots else [] for table in tables]
    for plot in itertools.chain(*pictures):
        plot.write(["%s/%s.%s" % (out, plot.name, kind) for kind in ("svg", "png")])
    made = {"report.md": INTRODUCTION + "".join(map(markdown, tables, pictures)), "report.csv": csv(tables)}
    if published:
        head, *compared = compare(tables, points)
        made["compare.md"] = "\n| %s |\n|---|---|---:|---:|---|---:|---|---:|---|---:|---|\n" % " | ".join(head) + "".join(
            "|%s\n" % "".join(" %s |" % cell if cell else " |" for cell in cells) for cells in compared)
        made["compare.csv"] = "".join(",".join(map(csv_cell, cells)) + "\n" for cells in [head] + compared)
    for name, text in made.items():
        write_text("%s/%s" % (out, name), text)
    print(", ".join("%s/%s" % (out, name) for name in made))
    if not plots:
        print("There are no plots: matplotlib is missing (Debian: python3-matplotlib)")


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
