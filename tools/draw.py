#!/usr/bin/env python3
"""usage: draw.py [OPTIONS] NET OUT.svg|OUT.pdf|OUT.png|OUT.dot

Draws a net: layers as boxes, with their parameters and the blobs that they make. An in-place layer is
drawn in the box whose blob it changes, repeated blocks are drawn once, and a long net is laid out in
columns. With a plan, each layer's communication scheme is drawn, too. NET is a prototxt, a .caffemodel,
or NAME.json with what 'poseidon summary --json' printed. OUT.dot is text for Graphviz; the other formats
(.eps, .ps, .jpg, .gif and .webp too) are drawn by Graphviz's program dot.

  --model=NET          the same as the word NET
  --phase=PHASE, --stage=LIST, --level=N, --batch=N, --input-shape=C,H,W
                       as for 'poseidon summary'
  --plan=FILE          draw the schemes of what 'poseidon plan --json' printed, for its last number of nodes
  --nodes=N ...        this and any other option of 'poseidon plan', written --NAME=VALUE: plan, and draw its schemes
  --force              replace the picture if it exists
  --help               show this help and exit

examples:
  tools/draw.py models/googlenet/train_val.prototxt googlenet.svg
  tools/draw.py models/vgg19/train_val.prototxt --nodes=8 --comm=paper vgg19.svg

The program is the one that the variable POSEIDON names, else build/poseidon of this folder's repository,
else the one in PATH. Needs Python 3.6 or later.
"""
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys

FORMATS = ("svg", "pdf", "png", "eps", "ps", "jpg", "gif", "webp")
OF_SUMMARY = ("phase", "stage", "level", "batch", "input-shape")
OF_BOTH = ("stage", "batch", "input-shape")
MOST_BYTES = 64 << 20
FOREIGN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # what another program's JSON leads to
DEEP = 16  # boxes; a deeper net stands in columns

# Tints of the colours of Okabe and Ito, which colour-blind people tell apart; the type stands in every box all the same.
FILLS = (("Data", "#dddddd"), ("Input", "#dddddd"), ("Loss", "#8fc1e3"), ("Accuracy", "#8fc1e3"), ("Convolution", "#f5d48c"),
         ("Deconvolution", "#f5d48c"), ("InnerProduct", "#e3b3cf"), ("Pooling", "#faf6bd"), ("Norm", "#d5ecf9"),
         ("LRN", "#d5ecf9"), ("Scale", "#d5ecf9"), ("Concat", "#9fdcc8"), ("Eltwise", "#9fdcc8"), ("Slice", "#9fdcc8"),
         ("Split", "#9fdcc8"))


class Refused(Exception):
    pass


# ---- what the program says of a net ----

def window(settings, name, axes):
    """What convolution and pooling are told of each spatial axis, by Caffe's rule: once for all, once for each, or of height
    and width by name. A pair: of all axes, and shorter: once, where the net lists no values and all are alike."""
    listed = settings.get("kernel_size" if name == "kernel" else name, [])
    high, wide = settings.get(name + "_h"), settings.get(name + "_w")
    if high is not None or wide is not None:
        values = [high or 0] + [wide or 0] * (axes - 1)
    elif listed:
        values = [listed[i if i < len(listed) else 0] for i in range(axes)]
    else:
        values = ["?" if name == "kernel" else 1] * axes
    shown = axes if len(listed) > 1 or len(set(values)) > 1 else 1
    return " x ".join(map(str, values)), " x ".join(map(str, values[:shown]))


def detail(layer, axes):
    """What a box says of its layer's settings: "96, 11 x 11, stride 4"."""
    if "convolution_param" in layer:
        settings = layer["convolution_param"]
        kernel, stride, group = window(settings, "kernel", axes)[0], window(settings, "stride", axes)[1], settings.get("group", 1)
        return "%d, %s%s%s" % (settings.get("num_output", 0), kernel, "" if stride == "1" else ", stride " + stride,
                               "" if group == 1 else ", group %d" % group)
    if "pooling_param" in layer:
        settings = layer["pooling_param"]
        over = "whole plane"
        if not settings.get("global_pooling"):
            over = "%s, stride %s" % (window(settings, "kernel", axes)[0], window(settings, "stride", axes)[1])
        return "%s, %s" % (settings.get("pool", "MAX"), over)
    if "inner_product_param" in layer:
        return "%d" % layer["inner_product_param"].get("num_output", 0)
    if "dropout_param" in layer:
        return "%g" % layer["dropout_param"].get("dropout_ratio", 0.5)
    if "lrn_param" in layer:
        return "size %d" % layer["lrn_param"].get("local_size", 5)
    return layer.get("data_param", {}).get("source", "")[:80]


class Box:
    """A layer, with those that work in place on what it makes."""

    def __init__(self, layer, number, axes, reads):
        self.name, self.type, self.detail = layer["name"], layer["type"], detail(layer, axes)
        self.number = number
        self.reads = reads  # (number of the box that makes the blob, place among its blobs)
        self.blobs = []  # (name, shape)
        self.inside, self.inside_names = [], []
        self.params, self.schemes = 0, []
        self.shown = number  # the box that stands for this one: itself, or that of a block's first time
        self.first = number  # of the first time of its block; itself where it is in none
        self.length = self.times = 0  # of the block whose first box this is
        self.column, self.depth = 0, 1

    def kind(self):
        """All but names."""
        return (self.type, self.detail, tuple(self.inside), tuple(self.schemes), self.params, len(self.reads),
                tuple(shape for _, shape in self.blobs))


class Graph:
    def __init__(self, summary, plan):
        """Of what 'summary --json' says, without shapes of what 'summary --definition' says; plan: what
        read_plan returns, or None. Raises what Python does where the text is another's."""
        self.title, self.params = text(summary["name"]), summary.get("parameters", 0)
        self.assumed = summary.get("input_assumed", False)
        self.nodes = plan[0] if plan else 0
        self.boxes = []
        self.maker = {}  # of a blob's name: where the latest of this name is made, (number, place); and its axes
        owners = [layer["name"] for layer in summary["layers"] if layer.get("parameters")]
        if plan and [name for name, _ in plan[1]] != owners:
            raise Refused("%s is of another net" % plan[2])
        schemes = iter(plan[1] if plan else ())
        for layer in summary["layers"]:
            box = self.add(layer)
            if layer.get("parameters"):
                box.params += layer["parameters"]
                _, scheme = next(schemes, (None, None))
                if scheme and scheme not in box.schemes:
                    box.schemes.append(scheme)
        kinds = {}
        self.kind = [kinds.setdefault(box.kind(), box.number) for box in self.boxes]  # equal where all but names is
        self.last_reader = [-1] * len(self.boxes)
        for box in self.boxes:
            for source, _ in box.reads:
                self.last_reader[source] = box.number

    def add(self, layer):
        """The box that has the layer."""
        bottoms, tops = [text(name) for name in layer["bottoms"]], layer["tops"]
        text(layer["name"]), text(layer["type"])
        made = [self.maker[name] for name in bottoms]
        if layer["inserted"]:
            self.maker.update((text(top["name"]), made[0]) for top in tops)
            return self.boxes[made[0][0]]
        axes = made[0][2] - 2 if made else 0
        axes = axes if 1 <= axes <= 3 else 2
        if len(tops) == 1 and bottoms == [tops[0]["name"]]:
            box = self.boxes[made[0][0]]
            box.inside.append(("%s %s" % (layer["type"], detail(layer, axes))).strip())
            box.inside_names.append(layer["name"])
            return box
        box = Box(layer, len(self.boxes), axes, [(number, place) for number, place, _ in made])
        self.boxes.append(box)
        for top in tops:
            shape = top.get("shape", [])
            said = " x ".join("%d" % extent for extent in shape) + (" assumed" if self.assumed and shape else "")
            self.maker[text(top["name"])] = (box.number, len(box.blobs), len(shape) or 4)
            box.blobs.append((top["name"], said))
        return box


def text(value):
    if not isinstance(value, str):
        raise TypeError
    return value


# ---- blocks that repeat ----
# A block is boxes that stand one behind the other in the file, reads one blob from outside, and is left by blobs of its
# last box alone. It repeats where the next boxes are alike in all but their names and read what the block before them ends in.

def entry_of(graph, first, at, length):
    """The blob by which the block at `at` is entered, if it is that at `first` once more, or the first itself; else None."""
    entry = None
    if graph.kind[at:at + length] != graph.kind[first:first + length]:
        return None
    if any(last >= at + length for last in graph.last_reader[at - (at > first):at + length - 1]):
        return None  # what is inside, or behind a block but the last, is read from afar
    for place in range(length):
        for source, twin in zip(graph.boxes[at + place].reads, graph.boxes[first + place].reads):
            shapes = [graph.boxes[number].blobs[blob][1] for number, blob in (source, twin)]
            outside = source[0] < at
            if shapes[0] != shapes[1] or outside != (twin[0] < first):
                return None
            if outside and entry not in (None, source):
                return None
            if not outside and (source[0] - at, source[1]) != (twin[0] - first, twin[1]):
                return None
            entry = source if outside else entry
    return entry


def count_times(graph, first, length):
    """How often the block of `length` boxes at `first` comes."""
    kind, times, leaves = graph.kind, 1, None
    if kind[first] != kind[first + length] or kind[first:first + length] != kind[first + length:first + 2 * length]:
        return 1  # as it mostly is
    if not entry_of(graph, first, first, length):
        return 1
    for at in range(first + length, len(graph.boxes) - length + 1, length):
        entry = entry_of(graph, first, at, length)
        # each time goes on by the same blob of the last box of the one before
        if not entry or entry[0] != at - 1 or leaves not in (None, entry[1]):
            break
        leaves = entry[1]
        times += 1
    return times


def fold(graph):
    boxes, first = graph.boxes, 0
    while first < len(boxes):
        best, most, room = 1, 1, len(boxes) - first
        for length in range(1, room // 2 + 1):
            if room - length <= best * (most - 1):
                break  # no longer block saves more
            times = count_times(graph, first, length)
            if length * (times - 1) > best * (most - 1):
                best, most = length, times
        if best * (most - 1) < 2:  # a frame is no less to look at than one box
            first += 1
            continue
        boxes[first].length, boxes[first].times = best, most
        for n in range(best * most):
            boxes[first + n].first, boxes[first + n].shown = first, first + n % best
        first += best * most


# ---- columns ----

def find_necks(graph):
    """Of each box, whether all that goes on there comes from one layer, but for labels and other data."""
    boxes, change = graph.boxes, [0] * (len(graph.boxes) + 1)
    last = {boxes[source].shown: box.number for box in boxes if box.shown == box.number for source, _ in box.reads}
    for source, reader in last.items():
        if boxes[source].reads:  # its blobs are wanted from the next box to its last reader
            change[source + 1] += 1
            change[reader + 1] -= 1
    return [wanted == 1 and box.first == box.number for wanted, box in zip(itertools.accumulate(change), boxes)]


def cut(graph, necks, most):
    """Cuts before what would stand deeper than `most`, where there is a neck; returns the greatest depth."""
    column = deepest = 0
    for box in graph.boxes:
        if box.shown != box.number:
            continue
        above = [graph.boxes[graph.boxes[source].shown] for source, _ in box.reads]
        box.column = column
        box.depth = 1 + max((source.depth for source in above if source.column == column), default=0)
        if box.depth > most and necks[box.number]:
            column += 1
            box.column, box.depth = column, 1
        deepest = max(deepest, box.depth)
    return deepest


def make_columns(graph):
    necks = find_necks(graph)
    depth = cut(graph, necks, len(graph.boxes))
    columns = (depth + DEEP - 1) // DEEP
    if columns > 1:
        cut(graph, necks, (depth + columns - 1) // columns)


# ---- Graphviz's language ----
# Each layer is a table (an "HTML-like label") whose last row has its blobs, from which the edges leave. Each row is of one
# font: programs that show SVG measure fonts differently, and would push what follows into it, or the row's end out of the
# box: its last blanks are for that.

def quoted(words):
    """As it stands inside HTML and inside double quotes; in both, backslashes begin Graphviz's own escapes."""
    for letter, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\\", "\\\\")):
        words = words.replace(letter, name)
    return "".join("?" if letter < " " or letter in "\x7f\ufffd" or "\ud800" <= letter <= "\udfff" else letter
                   for letter in words)


def put_box(box):
    def row(opened, words, closed):
        span = ' COLSPAN="%d"' % len(box.blobs) if len(box.blobs) > 1 else ""
        return "<TR><TD%s>&#160;%s%s%s&#160;&#160;</TD></TR>" % (span, opened, quoted(words), closed)

    fill = next((fill for part, fill in FILLS if part in box.type), "#f4f4f4")
    out = ('  n%d [tooltip="%s", label=<<TABLE BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2" STYLE="rounded" '
           'COLOR="#666666" BGCOLOR="%s">' % (box.number, quoted(", ".join([box.name] + box.inside_names)), fill))
    out += '<TR><TD HEIGHT="1" CELLPADDING="0"></TD></TR>'  # below the round corners
    out += row("<B>", box.name or " ", "</B>")
    out += row("", (box.type or " ") + ("  " + box.detail if box.detail else ""), "")
    if box.inside:
        out += row("+ ", ", ".join(box.inside), "")
    if box.params:
        schemes = " by " + ", ".join(box.schemes) if box.schemes else ""
        out += row("", "{:,} parameters{}".format(box.params, schemes), "")
    blobs = "".join('<TD PORT="b%d"><FONT POINT-SIZE="9">&#160;%s%s&#160;&#160;</FONT></TD>' % (
        t, quoted(name), ":  " + shape if shape else "") for t, (name, shape) in enumerate(box.blobs))
    return out + ("<TR>%s</TR>" % blobs if blobs else "") + "</TABLE>>];\n"


def put_block(graph, block):
    """The label stands at the left, where edges seldom enter."""
    boxes = graph.boxes[block.number:block.number + block.length]
    last = graph.boxes[block.number + block.length * block.times - 1]
    return ('  subgraph cluster_%d {\n    labeljust=l;\n    label=<<B>x %d</B><BR ALIGN="LEFT"/>to %s<BR ALIGN="LEFT"/>>;\n'
            "%s  }\n" % (block.number, block.times, quoted(last.name), "".join(map(put_box, boxes))))


def put_edges(graph):
    """From the foot of the blob to the head of the layer; to the top of another column from side to side, without a word on
    how high that stands."""
    out = ""
    for box in graph.boxes:
        for source, blob in box.reads if box.shown == box.number else ():
            maker = graph.boxes[graph.boxes[source].shown]
            stays = maker.column == box.column
            out += "  n%d:b%d:%s -> n%d%s;\n" % (maker.number, blob, "s" if stays else "e", box.number,
                                                 "" if stays else ':w [constraint=false, color="#1f77b4"]')
    return out


def put_columns(graph):
    """Columns begin at the same height, from left to right."""
    out, last = "", graph.boxes[0] if graph.boxes else None
    for box in graph.boxes:
        if box.shown == box.number and box.column > last.column:
            out += "  { rank=same; n%d -> n%d [style=invis]; }\n" % (last.number, box.number)
            last = box
    return out


def put_head(graph):
    out = ('digraph "%s" {\n  graph [fontname="Helvetica,Arial,sans-serif", fontsize=11, labelloc=t, newrank=true,\n'
           '    ranksep=0.25, nodesep=0.2, style="rounded,dashed", color="#444444", bgcolor=white];\n'
           '  node [fontname="Helvetica,Arial,sans-serif", fontsize=10, shape=plain];\n'
           '  edge [color="#555555", arrowsize=0.6];\n  label=<<B>%s</B>' % (quoted(graph.title), quoted(graph.title or "net")))
    out += "<BR/>{:,} parameters".format(graph.params) if graph.params else ""
    out += "<BR/>the input's size is assumed" if graph.assumed else ""
    out += "<BR/>schemes for %d node%s" % (graph.nodes, "" if graph.nodes == 1 else "s") if graph.nodes else ""
    return out + ">;\n"


def put_graph(graph):
    fold(graph)
    make_columns(graph)
    out = put_head(graph)
    for box in graph.boxes:
        if box.times:
            out += put_block(graph, box)
        elif box.first == box.number:
            out += put_box(box)
    return out + put_edges(graph) + put_columns(graph) + "}\n"


# ---- other programs ----

def poseidon(command, options):
    """(what the command prints, what it says), the former None if it failed."""
    built = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "poseidon")
    program = os.environ.get("POSEIDON") or (built if os.access(built, os.X_OK) else "poseidon")
    try:
        run = subprocess.run([program, command] + options, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Refused("%s cannot be run: %s; expected poseidon in PATH, or its place in the variable POSEIDON" % (
            program, error.strerror))
    said = run.stderr.decode(errors="replace")
    if run.returncode:
        return None, said.strip() or "%s %s ended with status %d" % (program, command, run.returncode)
    return run.stdout, said


def dot(source, kind, out):
    """The picture as bytes."""
    try:
        run = subprocess.run(["dot", "-T" + kind], input=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Refused("%s cannot be drawn: dot cannot be run: %s" % (out, error.strerror))
    if run.returncode or not run.stdout:
        said = run.stderr.decode(errors="replace").strip().split("\n")[0] or "it ended with status %d" % run.returncode
        raise Refused("%s cannot be drawn: dot: %s" % (out, said[len("Error: "):] if said.startswith("Error: ") else said))
    return run.stdout


# ---- files ----

def read_file(path):
    with open(path, "rb") as file:
        found = file.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise Refused("%s is larger than %d MB" % (path, MOST_BYTES >> 20))
    return found


def read_json(found, path, **how):
    try:
        return json.loads(found.decode(), **how)
    except (ValueError, RecursionError) as error:
        raise Refused("%s is not JSON%s" % (path, ": it is empty" if not found.strip() else ": %s" % error))


def read_plan(found, path):
    """(nodes, [(layer, scheme)], path) of the last row. A net may have several layers of one name."""
    try:
        row = dict(read_json(found, path, object_pairs_hook=list)[-1])
        schemes = [(text(layer), text(scheme)) for layer, scheme in row["scheme_by_layer"]]
        return row["nodes"] + 0, schemes, path
    except FOREIGN:
        raise Refused("%s: expected what 'poseidon plan --json' prints" % path)


def check_output(out, force, inputs):
    ending = out.rpartition(".")[2].lower()
    if os.path.isdir(out):
        raise Refused("%s is a folder; expected the name of a file to write" % out)
    if "." not in os.path.basename(out) or ending not in FORMATS + ("dot", "gv"):
        raise Refused("expected a file name that ends with .dot, .svg, .pdf, .png, .eps, .ps, .jpg, .gif or .webp, found '%s'" % out)
    if ending in FORMATS and not shutil.which("dot"):
        raise Refused("%s cannot be drawn: Graphviz's program dot is not in PATH (Debian, Spack: graphviz); or write a name that "
                      "ends with .dot, and draw it where dot is: dot -Tsvg -O NAME.dot" % out)
    folder = os.path.dirname(out) or "."
    if not os.path.isdir(folder):
        raise Refused("%s cannot be written: there is no folder %s" % (out, folder))
    if not os.path.exists(out):
        return
    if not stat.S_ISREG(os.stat(out).st_mode):
        raise Refused("%s is a device or pipe; expected the name of a file to write" % out)
    if any(os.path.exists(path) and os.path.samefile(path, out) for path in inputs):
        raise Refused("%s is one of the inputs; expected another file to write" % out)
    if os.path.getsize(out) and not force:
        raise Refused("%s exists already; --force replaces it" % out)


def write_file(out, content):
    """Whole, or not at all."""
    place = os.path.realpath(out)
    scratch = "%s.%d.tmp" % (place, os.getpid())
    try:
        try:
            with open(scratch, "wb") as file:
                file.write(content)
            os.replace(scratch, place)
        finally:
            if os.path.exists(scratch):
                os.remove(scratch)
    except OSError as error:
        raise Refused("%s cannot be written: %s" % (out, error.strerror))


# ---- the command line ----

def summarize(net, options, plans):
    """What is drawn: of a net that cannot be built its layers, without shapes."""
    if net.lower().endswith(".json"):
        return read_json(read_file(net), net)
    options = ["--model=" + net] + options
    found, said = poseidon("summary", options + ["--json"])
    if found is None and not plans:
        found, _ = poseidon("summary", options + ["--definition"])
        said = "drawn without shapes: %s\n" % said[len("poseidon summary: "):] if found else said
    if found is None:
        raise Refused(said)
    sys.stderr.write(said)
    return read_json(found, "poseidon summary --json")


def parse(words):
    """The words, options of poseidon's commands, and options of this script by their names."""
    own, names, passed = {}, [], []
    words = iter(words)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if not word.startswith("-"):
            names.append(word)
        elif name in ("help", "h"):
            own["help"] = True
        elif name == "force":
            own["force"] = True
        elif name in ("model", "plan") + OF_SUMMARY:
            value = value if equals else next(words, None)
            if value is None:
                raise Refused("--%s needs a value" % name)
            own[name] = value
        else:
            passed.append(word)
    if "model" in own:
        names.insert(0, own["model"])
    return names, passed, own


def draw(words):
    names, passed, own = parse(words)
    if "help" in own:
        print(__doc__, end="", flush=True)
        return
    if len(names) != 2:
        raise Refused("expected a net and a file to write, such as OUT.svg or OUT.dot, found %d words (%s)%s" % (
            len(names), " ".join(names), "; options are written --NAME=VALUE" if len(names) > 2 else ""))
    net, out = names
    options = ["--%s=%s" % (name, own[name]) for name in OF_SUMMARY if name in own]
    if net.lower().endswith(".json") and (options or passed):
        raise Refused("%s has no effect on %s: it is for a net, not for what was printed of it" % ((options + passed)[0], net))
    if passed and "plan" in own:
        raise Refused("%s has no effect on %s, which is planned already" % (passed[0], own["plan"]))
    check_output(out, "force" in own, [net] + ([own["plan"]] if "plan" in own else []))
    summary, plan = summarize(net, options, passed), None
    if "plan" in own:
        plan = read_plan(read_file(own["plan"]), own["plan"])
    elif passed:
        options = ["--%s=%s" % (name, own[name]) for name in OF_BOTH if name in own]
        found, said = poseidon("plan", ["--model=" + net, "--json"] + options + passed)
        if found is None:
            raise Refused(said)
        plan = read_plan(found, "poseidon plan --json")
    try:
        source = put_graph(Graph(summary, plan)).encode()
    except FOREIGN:
        raise Refused("%s: expected what 'poseidon summary --json' prints" % net)
    kind = out.rpartition(".")[2].lower()
    write_file(out, dot(source, kind, out) if kind in FORMATS else source)


if __name__ == "__main__":
    try:
        draw(sys.argv[1:])
    except OSError as error:
        sys.exit("draw.py: %s: %s" % (error.filename or "standard output", error.strerror))
    except Refused as error:
        sys.exit("draw.py: %s" % error)
    except KeyboardInterrupt:
        sys.exit(130)
