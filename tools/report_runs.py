"""What report.py knows of runs: read from summaries, curves, logs and traces, and put together with those that they can
be compared with. No library."""
import bisect
import itertools
import json
import math
import os
import re

HOW = ["measured", "emulated", "simulated"]
WROTE = "what train --summary=FILE or plan --json writes"
INTERVALS = 100  # that a trace's iteration is cut into


def count(number, unit):
    return "%d %s%s" % (number, unit, "" if number == 1 else "s")


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


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


# ---- reading: curves, summaries, rows, traces ----

class Curve:
    """Losses and scores as they came: points are (iteration, epoch, seconds, value), unknown ones NaN."""

    def __init__(self, name):
        self.name, self.losses, self.scores, self.epochs = name, [], [], math.nan

    def best(self):
        """(score, iteration) of the most accurate test."""
        return max(((point[3], point[0]) for point in self.scores), key=lambda best: (best[0], -best[1]), default=(math.nan, 0))


def read_log(path, name):
    curve, tested, seconds = Curve(name), None, 0.0
    for line in read_text(path).split("\n"):
        loss = re.search(r".*Iteration (\d+)(?: \((.*)\))?, loss = (\S+)", line)
        took = loss and re.match(r"\S+ iter/s, (\S+)s/\d+ iters$", loss.group(2) or "")
        testing = re.search(r"Iteration (\d+), Testing net \(#0\)", line)
        score = re.search(r"Test net output #\d+: accuracy = .*?(\S+)$", line)
        trained = re.search(r"Trained iterations .* images/s, (\S+) epochs of ", line)
        if loss:
            seconds += float(took.group(1)) if took else 0
            curve.losses.append((int(loss.group(1)), math.nan, seconds if took else math.nan, float(loss.group(3))))
        elif testing:
            tested = int(testing.group(1))
        elif score and tested is not None:
            curve.scores.append((tested, math.nan, math.nan, float(score.group(1))))
        elif trained:
            curve.epochs = float(trained.group(1))
    return curve


def read_csv(path, name):
    """None: this CSV is not train's."""
    head, *lines = read_text(path).split("\n")
    columns = head.split(",")
    if columns[:1] != ["iteration"]:
        return None
    score = next((c for c, column in enumerate(columns) if "accuracy" in column), None)
    curve = Curve(name)
    for number, line in enumerate(lines[:-1], 2):  # a killed run's last line may be half a one
        try:
            cells = [float(cell) if cell else math.nan for cell in line.split(",")]
            loss = cells[columns.index("loss")]
            point = (int(cells[0]), cells[columns.index("epoch")], cells[columns.index("seconds")])
        except (ValueError, IndexError):
            raise Refused("%s:%d: expected the numbers of '%s', found '%s'" % (path, number, head, line))
        if not math.isnan(loss):
            curve.losses.append(point + (loss,))
        if score and score < len(cells) and not math.isnan(cells[score]):
            curve.scores.append(point + (cells[score],))
        curve.epochs = point[1]
    return curve


def read_json(path):
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise Refused("%s:%d: this is no JSON, or it is damaged from here on: was it cut short? Leave it out, or write it "
                      "again" % (path, error.lineno))


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

    name      of its file
    size      what tables and plots go over: nodes, or workers (Family.by_workers)
    batch     images of one worker
    link      bytes per second
    sent      bytes by a node, mean; most: by the rank that sends most
    wire      bytes that a node sends in each part of an iteration; empty: not known
    full      seconds of an iteration in which a link is at least 90 % full; longest: of a stretch; queued: bytes at worst"""

    def __init__(self, path, document, about):
        self.path, self.size, self.wire = path, 0, []
        self.name = os.path.basename(path)[:-len(".json")]
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
        self.engine = get(self.fields, "engine")
        self.how = "emulated" if how == "emulated" or self.engine == "replay" else "measured"
        images = self.number("global_batch", 1)
        stall, sent = self.number("stall_seconds_per_iteration"), self.number("bytes_sent_per_iteration")
        if self.images <= 0:
            raise Refused("%s: no images per second: the run trained no iteration" % self.path)
        self.link = get_number(self.fields, "link_bytes_per_second")
        self.batch, self.seconds, self.sent = images / self.workers, images / self.images, sent / self.nodes
        self.stall = stall / self.seconds
        self.most = max(get_list(self.fields, "bytes_sent_per_iteration_by_rank", (int, float)), default=math.nan)
        self.speedup = math.nan
        return self.read_bursts(get_list(self.fields, "by_rank", dict))

    def read_row(self):
        self.read_common("model")
        self.how, self.engine = "simulated", None
        self.batch, self.link, self.seconds = self.number("batch", 1), self.number("bandwidth", 1), self.number("seconds")
        self.speedup, self.stall, self.sent = (self.number(key) for key in ("speedup", "stall_share", "bytes_sent"))
        self.most = get_number(self.fields, "bytes_sent_most")
        return self.read_bursts([self.fields])

    def read_bursts(self, ranks):
        self.full, self.longest, self.queued = (
            max((value for value in (get_number(rank, key) for rank in ranks) if not math.isnan(value)), default=math.nan)
            for key in ("link_full_seconds", "link_full_longest_seconds", "queued_bytes_most"))
        return self

    def scheme(self):
        """With what else --comm's neighbours changed."""
        others = [(get(self.fields, "wire"), "fp32"), (get(self.fields, "overlap"), "wfbp")]
        return ", ".join([self.comm] + [str(value) for value, usual in others if self.how != "simulated" and value not in (None, usual)])

    def same_link(self, other):
        if math.isnan(self.link) or math.isnan(other.link):
            return math.isnan(self.link) and math.isnan(other.link)
        return abs(self.link - other.link) <= 1e-6 * other.link

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


# ---- runs of one net that were obtained in one way: what can be compared ----

class Family:
    """In the order of speed of links, scheme, size."""

    def __init__(self, name, runs):
        self.name, self.runs, self.first = name, runs, runs[0]
        self.by_workers = any(a.nodes == b.nodes and a.workers != b.workers and a.same_link(b)
                              for a, b in itertools.combinations(runs, 2))
        self.unit = "rank" if self.by_workers else "node"  # ranks of one machine scale, too
        for run in runs:
            run.size = run.workers if self.by_workers else run.nodes
        runs.sort(key=lambda run: (math.isnan(run.link), 0 if math.isnan(run.link) else run.link, os.fsencode(run.comm),
                                   run.size, natural(run.name)))
        self.batches = sorted({run.batch for run in runs})
        self.mixed_batches = len(self.batches) > 1 and len({run.batch * run.workers for run in runs}) > 1
        counts = {size: len(self.links(size)) for size in self.sizes() if not math.isnan(self.links(size)[0].link)}
        most = max(counts, key=lambda size: (counts[size], size), default=0)
        self.swept = most if counts.get(most, 0) > 1 else 0  # the size whose images/s go over the speed of links
        for link in self.links():
            self.set_speedups(self.on(link))

    @staticmethod
    def bases(runs):
        """Of the fewest workers, the fastest first."""
        least = min(run.workers for run in runs)
        return sorted((run for run in runs if run.workers == least), key=lambda run: -run.images)

    def set_speedups(self, runs):
        """Simulated rows bring theirs. Of the others it is images/s over those of one base for all schemes."""
        base = self.bases(runs)[0]
        for run in runs:
            if math.isnan(run.speedup):
                run.speedup = run.images / base.images * base.workers

    def label(self, run):
        return run.scheme() + (", %g images a worker" % run.batch if self.mixed_batches else "")

    def by_label(self, runs):
        labels = {}
        for run in runs:
            labels.setdefault(self.label(run), []).append(run)
        return labels

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
        return sorted({run.size for run in (self.on(link) if link else self.runs)})

    def scales(self, link):
        return len({run.workers for run in self.on(link)}) > 1

    def sweep(self):
        """Of the size that is swept the runs of each scheme that has at least two."""
        return {label: runs for label, runs in self.by_label(run for run in self.runs if run.size == self.swept).items()
                if len(runs) > 1}

    def common_size(self, link):
        """The largest that every scheme but `none` has on that link; 0: there is none."""
        common = set(self.sizes(link))
        for runs in self.by_label(self.on(link)).values():
            common &= common if runs[0].comm == "none" else {run.size for run in runs}
        return max(common, default=0)

    def main_link(self):
        """The link whose runs bars show: of most runs, with a common size; None: there is none."""
        return max((link for link in self.links() if self.common_size(link)), key=lambda link: len(self.on(link)), default=None)


def natural(name):
    """lr0.003 before lr0.01, ps-4 before ps-16."""
    return [(0, float(part), "") if re.match(r"\d", part) else (1, 0.0, part) for part in re.split(r"(\d+(?:\.\d+)?)", name) if part]


class Table:
    """A folder."""

    def __init__(self, folder):
        self.folder = folder.rstrip("/") or "/"
        self.name = os.path.basename(os.path.abspath(self.folder)) or self.folder
        self.runs, self.curves = [], {}
        names = sorted(os.listdir(self.folder), key=os.fsencode)
        about = read_json(os.path.join(self.folder, "about.json")) if "about.json" in names else {}
        self.about = about if isinstance(about, dict) else {}
        self.names = get(self.about, "names") or {}
        self.shown = get(self.about, "name") or self.name
        for traces in (False, True):  # last: each looks for its run
            for name in names:
                if not name.startswith(".") and name != "about.json" and name.endswith(".trace.json") == traces:
                    self.read(name)
        if not self.runs and not self.curves:
            raise Refused("%s: there is no run here; expected files that train --summary=FILE.json or plan --json wrote, "
                          "or logs of train (*.log)" % self.folder)
        families = {}
        for run in self.runs:
            families.setdefault((HOW.index(run.how), run.net, run.parameters, str(run.engine)), []).append(run)
        several = ["%s-%d" % (self.name, number) for number in range(1, len(families) + 1)]
        self.families = [Family(name, families[key])
                         for name, key in zip(several if len(families) > 1 else [self.name], sorted(families))]
        self.runs = [run for family in self.families for run in family.runs]
        self.trained = sorted((run for run in self.runs if run.how != "simulated"), key=lambda run: natural(run.name))

    def read(self, name):
        path = self.folder + "/" + name
        stem, _, kind = name.rpartition(".")
        if kind in ("csv", "log") and stem:
            curve = read_csv(path, stem) if kind == "csv" else read_log(path, stem)
            if curve and (curve.losses or curve.scores) and stem not in self.curves:  # .csv comes before .log
                self.curves[stem] = curve
            elif curve and stem in self.curves and math.isnan(self.curves[stem].epochs):
                self.curves[stem].epochs = curve.epochs
        elif kind == "json":
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
                raise Refused("%s: expected an object of train --summary=FILE or the rows of plan --json" % path)

    def devices(self):
        """Whose profiles the runs played, where about.json says that the table goes over them."""
        return get_list(self.about, "devices", str)

    def of_device(self, device, size):
        """By scheme, in the order of speed of links."""
        schemes = {}
        for run in sorted(self.runs, key=lambda run: os.fsencode(run.comm)):
            if get(run.fields, "profile") == device and run.size == size:
                schemes.setdefault(run.comm, []).append(run)
        return schemes

    def how_of_about(self):
        how = get(self.about, "how")
        if isinstance(how, str) and how not in ("measured", "emulated"):
            raise Refused('%s/about.json: "how" is "%s"; expected "measured" or "emulated"' % (self.folder, how))
        return how

    def outcome(self, run):
        """Epochs, loss of the last iterations, best score, iteration: by the summary, else by its curve."""
        curve = self.curves.get(run.name, Curve(run.name))
        epochs, loss, best, at = (get_number(run.fields, key) for key in ("epochs", "train_loss", "best_score", "best_iteration"))
        if math.isnan(loss):
            loss = get_number(run.fields, "final_loss")  # its name in older summaries
        if math.isnan(best):
            best, at = curve.best()
        if math.isnan(best):
            best, at = get_number(get(run.fields, "test"), "accuracy"), get_number(run.fields, "test_iteration")
        return curve.epochs if math.isnan(epochs) else epochs, loss, best, at
