"""The plots of report.py, by matplotlib."""
import math
import os

import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot, ticker  # noqa: E402 (after the choice of what draws)

from report_runs import count, get_list, median, natural

# Colours are Okabe and Ito's, which people tell apart whatever they see of colours. A scheme looks the same in all plots.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
LOOKS = {"auto": 0, "auto --lossy=bf16,lowrank:4": 1, "poseidon": 1, "paper": 1, "ps": 2, "wfbp": 2, "allreduce": 3, "caffe-ps": 3, "ring": 4, "sfb": 4,
         "mg-wfbp": 4, "adam": 5, "p3": 5, "onebit": 6, "tf-ps": 6, "none": 7}
DASHED = {"poseidon", "caffe-ps", "tf-ps", "mg-wfbp", "p3"}
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "report.py", "font.size": 11, "axes.spines.top": False,
         "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True, "legend.frameon": False}


def look(comm):
    return {"color": COLORS[LOOKS.get(comm, sum(os.fsencode(comm)) % len(COLORS))], "linestyle": "--" if comm in DASHED else "-"}


def only(panel):
    """Of a plot with one panel."""
    return lambda axes: panel(axes[0][0])


class Plot:
    """A picture that draw(axes) draws when it is written; `shape` is its panels, (rows, columns), as axes[row][column]."""

    def __init__(self, name, title, draw, shape=(1, 1), inches=(8, 5.4)):
        self.name, self.title, self.draw, self.shape, self.inches = name, title, draw, shape, inches

    def write(self, paths):
        with pyplot.rc_context(STYLE):
            picture, axes = pyplot.subplots(*self.shape, figsize=self.inches, squeeze=False)
            picture.subplots_adjust(hspace=0.3, wspace=0.2, top=1 - 0.4 / self.inches[1])
            picture.suptitle(self.title.replace("$", r"\$"), fontsize=12)
            self.draw(axes)
            for path in paths:
                picture.savefig(path + ".tmp", format=path.rpartition(".")[2], bbox_inches="tight",
                                metadata={"Date": None} if path.endswith(".svg") else None)
                os.replace(path + ".tmp", path)
            pyplot.close(picture)


def plain(axis, values):
    """Ticks at these values and nowhere else, as plain numbers."""
    axis.set_major_locator(ticker.FixedLocator(values))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_locator(ticker.NullLocator())


def label_ends(axes, ends):
    """Words at the lines' right ends, (y, words, color) each; what would lie on another is moved down."""
    above = math.inf
    for y, words, color in sorted(ends, key=lambda end: -end[0]):
        above = min(axes.transAxes.inverted().transform(axes.transData.transform((1, y)))[1], above - 0.05)
        axes.annotate(words, (1.015, above), xycoords="axes fraction", color=color, va="center", annotation_clip=False)


def plot_speedup(table, family, link, points, name):
    shown = get_list(table.about, "speedup", str)
    series = {label: runs for label, runs in family.by_label(family.on(link)).items() if not shown or runs[0].comm in shown}
    theirs = [point for point in points
              if point.table == table.name and point.figure == "speedup" and not point.below and point.is_on(link)]

    def draw(axes):
        sizes = family.sizes(link)
        ratio = max(run.workers / run.size for run in family.on(link))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.plot(sizes, [size * ratio for size in sizes], color="#555555", linestyle=":", linewidth=1)
        ends = [(sizes[-1] * ratio, "ideal", "#555555")]
        for label, runs in series.items():
            means = [(size, median(run.speedup for run in runs if run.size == size)) for size in sorted({run.size for run in runs})]
            axes.plot(*zip(*means), linewidth=2, marker="o" if len(means) < 3 else None, markersize=4, **look(runs[0].comm))
            ends.append((means[-1][1], table.names.get(runs[0].comm, label), look(runs[0].comm)["color"]))
        colors = {runs[0].comm: look(runs[0].comm)["color"] for runs in series.values()}
        colors.setdefault("poseidon", colors.get("auto", "#555555"))  # what this program does by the paper's rule
        dots = [point for point in theirs if point.comm in colors and point.nodes in sizes]
        for point in dots:
            color = colors[point.comm]
            axes.plot(point.nodes, point.value, "o", markersize=4, clip_on=False, zorder=3, markeredgecolor=color,
                      markerfacecolor=color if point.grade == "published" else "white")
        if dots:
            hollow = any(point.grade != "published" for point in dots)
            axes.annotate("dots: published%s" % (" (hollow: recalled)" if hollow else ""), (0.99, 0.02),
                          xycoords="axes fraction", ha="right", color="#555555")
        axes.set_xlim(sizes[0], sizes[-1])
        plain(axes.xaxis, sizes)
        least, most = axes.get_ylim()
        plain(axes.yaxis, [2 ** k for k in range(math.floor(math.log2(least)), math.ceil(math.log2(most)) + 1)
                           if least <= 2 ** k <= most])
        axes.set_xlabel(family.unit + "s")
        axes.set_ylabel("times as fast as one %s" % family.unit)
        label_ends(axes, ends)

    return Plot(name, "%s: speed-up, links of %s, %s" % (table.shown, link.link_name("unknown speed"), family.first.how), only(draw))


def plot_bandwidth(table, family):
    def draw(axes):
        links = [run.link * 8e-9 for run in family.links(family.swept)]
        ends = []
        for label, runs in family.sweep().items():
            axes.plot([run.link * 8e-9 for run in runs], [run.images for run in runs], linewidth=2, **look(runs[0].comm))
            ends.append((runs[-1].images, table.names.get(runs[0].comm, label), look(runs[0].comm)["color"]))
        axes.set_xscale("log", base=2)
        axes.set_xlim(links[0], links[-1])
        axes.set_ylim(bottom=0)
        plain(axes.xaxis, links)
        axes.set_xlabel("speed of a node's link, Gb/s")
        axes.set_ylabel("images/s")
        label_ends(axes, ends)

    return Plot(family.name + "-bandwidth", "%s: images/s over bandwidth, %s, %s" %
                (table.shown, count(family.swept, family.unit), family.first.how), only(draw))


def plot_devices(table):
    """A row of panels for each number of nodes, a column for each device: how much of so many devices is left."""
    family = table.families[0]
    sizes, devices = family.sizes(), table.devices()

    def draw(axes):
        for row, size in enumerate(sizes):
            for column, device in enumerate(devices):
                panel, ends = axes[row][column], []
                for comm, runs in table.of_device(device, size).items():
                    links, shares = [run.link * 8e-9 for run in runs], [100 * run.speedup / run.workers for run in runs]
                    panel.plot(links, shares, linewidth=2, **look(comm))
                    ends.append((shares[-1], table.names.get(comm, comm), look(comm)["color"]))
                panel.set_xscale("log")
                panel.set_ylim(0, 105)
                plain(panel.xaxis, links)
                panel.annotate("%s, %s" % (device, count(size, family.unit)), (0.98, 0.04), xycoords="axes fraction", ha="right")
                panel.set_ylabel("" if column else "speed-up, % of the nodes")
                panel.set_xlabel("link, Gb/s" if row == len(sizes) - 1 else "")
        label_ends(axes[-1][-1], ends)

    return Plot(table.name, "%s: exact and rounded gradients, %s" % (table.shown, family.first.how), draw,
                (len(sizes), len(devices)), (2 + 3 * len(devices), 1 + 2.7 * len(sizes)))


def plots_at(table, family, link, size):
    """Bars of time and of bytes, and bytes over time, of the schemes (or runs) on one link."""
    runs = family.on(link, size)
    where = "%s, links of %s, %s" % (count(size, family.unit), link.link_name("unknown speed"), family.first.how)

    def name_of(run):
        return table.names.get(run.comm, run.comm) if run.how == "simulated" else run.name

    def busy(axes):
        names = range(len(runs))
        axes.barh(names, [100 - 100 * run.stall for run in runs], color="#0072B2", label="busy")
        axes.barh(names, [100 * run.stall for run in runs], left=[100 - 100 * run.stall for run in runs], color="#E69F00",
                  label="waiting for others")
        axes.set_yticks(names)
        axes.set_yticklabels(map(name_of, runs))
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("share of an iteration, %")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))

    def sent(axes):
        axes.barh([i - 0.2 for i in range(len(senders))], [run.sent * 1e-6 for run in senders], 0.4, color="#0072B2",
                  label="a node, mean")
        axes.barh([i + 0.2 for i in range(len(senders))], [run.most * 1e-6 for run in senders], 0.4, color="#E69F00",
                  label="the rank that sends most")
        axes.set_yticks(range(len(senders)))
        axes.set_yticklabels(map(name_of, senders))
        axes.invert_yaxis()
        axes.set_xlabel("MB sent in an iteration")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))

    def wire(axes):
        for i, run in enumerate(timed):  # schemes that send alike lie on one another: those below are wider
            parts = len(run.wire)
            axes.step([100.0 * k / parts for k in range(parts + 1)],
                      [run.wire[min(k, parts - 1)] * 8e-9 * parts / run.seconds for k in range(parts + 1)], where="post",
                      linewidth=max(4 - i, 1.5), **look(run.comm),
                      label=name_of(run) + ("" if math.isnan(run.full) else ": full for %.0f ms" % (1e3 * run.full)))
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("time since the iteration began, % of it")
        axes.set_ylabel("sent by a node, mean, Gb/s")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=2, fontsize=9)

    senders = [run for run in runs if run.sent > 0]
    timed = [run for run in runs if sum(run.wire) > 0 and run.seconds > 0]
    bars = (8, 1.6 + 0.4 * len(runs))
    return ([Plot(family.name + "-busy", "%s: where time goes, %s" % (table.shown, where), only(busy), inches=bars)] +
            [Plot(family.name + "-bytes", "%s: bytes sent, %s" % (table.shown, where), only(sent), inches=bars)] * bool(senders) +
            [Plot(family.name + "-wire", "%s: bytes on the wire, %s" % (table.shown, where), only(wire))] * bool(timed))


def plot_curves(name, title, curves, wanted=("iteration", "epoch", "seconds")):
    """Loss above and accuracy below, over iterations, epochs and seconds; None: no curve has two points."""
    curves = sorted((curve for curve in curves if len(curve.losses) > 1), key=lambda curve: natural(curve.name))
    units = [(unit, at) for at, unit in enumerate(("iteration", "epoch", "seconds"))
             if unit in wanted and any(not math.isnan(point[at]) for curve in curves for point in curve.losses)]
    panels = [("training loss", "losses")] + [("test accuracy", "scores")] * any(len(curve.scores) > 1 for curve in curves)

    def draw(axes):
        for row, (what, points) in enumerate(panels):
            for column, (unit, at) in enumerate(units):
                panel = axes[row][column]
                for c, curve in enumerate(curves):
                    known = [point for point in getattr(curve, points) if not math.isnan(point[at])]
                    panel.plot([point[at] for point in known], [point[3] for point in known], color=COLORS[c % len(COLORS)],
                               linestyle=["-", "--", ":"][c // len(COLORS) % 3], linewidth=1.5,
                               marker="o" if points == "scores" else None, markersize=3, label=curve.name)
                panel.set_ylim(bottom=0)
                panel.set_xlabel({"iteration": "iterations", "epoch": "epochs"}.get(unit, unit))
                panel.set_ylabel(what if column == 0 else "")
            if len(curves) > 1:
                axes[row][-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)

    if not units:
        return None
    return Plot(name, title, draw, (len(panels), len(units)), (4.4 + 3 * len(units), 0.6 + 2.7 * len(panels)))


def plots_of(table, points):
    plots = [plot_devices(table)] if table.devices() else []
    for family in table.families if not plots else []:
        scaling = [link for link in family.links() if family.scales(link)]
        plots += [plot_speedup(table, family, link, points, family.name + (
            "-speedup" if len(scaling) == 1 else "-speedup-%.3gg" % (link.link * 8e-9))) for link in scaling]
        plots += [plot_bandwidth(table, family)] if family.swept else []
        link = family.main_link()
        plots += plots_at(table, family, link, family.common_size(link)) if link else []
    curves = plot_curves(table.name + "-curves", "%s: training" % table.shown, table.curves.values())
    return plots + ([curves] if curves else [])
