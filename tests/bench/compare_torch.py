#!/usr/bin/env python3
"""Times training steps of the same nets in poseidon and in PyTorch: forward, backward, update.

    compare_torch.py --bench=build/tests/bench/bench_net [--python=PYTHON]... [--forms=LIST] [--passes=N]
                     [--threads=N] [--seconds=S] [--math=bf16] [NET[:BATCH]...]

Both sides are written from one list of layers: a prototxt for bench_net, modules for PyTorch (random
input, training mode, SGD with momentum and weight decay). --python: an interpreter whose PyTorch is
measured, as often as there are; this one's otherwise. Each takes the forms of --forms: contiguous,
channels_last, and both by torch.compile (compiled, compiled_last) where its PyTorch has that. --math=bf16: poseidon's option of that name, with fp32
as a side more, and torch.autocast("cpu", torch.bfloat16) around forward and loss. Every side
is a process of its own and, when it is its turn, trains for 0.2 seconds, at least one step, as threads
that slept and caches that others filled slow a single step down. Of each the median of N turns is shown,
or of as many as S seconds allow, and the most memory it had (VmHWM): of processor time with one thread,
since others may be at work, else of time on the wall. For Debian's PyTorch to have fast fully connected
layers, let libblas.so.3 be OpenBLAS (LD_LIBRARY_PATH does). All sides inherit the environment:
ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 OPENBLAS_CORETYPE=Haswell
keep them to AVX2, with a bench_net that was built for that (configure CFLAGS="-g -O2 -march=x86-64-v3
-DKERNEL= -DCPU_KERNEL=").
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn


class Net:
    """Layers in sequence, with branches where asked; keeps both forms."""

    def __init__(self, name, batch, channels, size, classes):
        self.name, self.batch, self.shape, self.classes = name, batch, (channels, size, size), classes
        self.top, self.channels = "data", channels
        self.text = "".join(
            "layer { name: '%s' type: 'Input' top: '%s' input_param { shape { %s } } }\n" % (
                top, top, " ".join("dim: %d" % d for d in dims))
            for top, dims in (("data", (batch, channels, size, size)), ("label", (batch,))))
        self.modules, self.steps, self.count = nn.ModuleDict(), [], 0

    def layer(self, kind, param, function, tops=None, place=False, bottoms=None):
        bottoms = bottoms or [self.top]
        top = bottoms[0] if place else "%s%d" % (kind.lower(), self.count)
        self.count += 1
        name = "%s_%d" % (kind.lower(), self.count)
        self.text += "layer { name: '%s' type: '%s' %s top: '%s' %s }\n" % (
            name, kind, " ".join("bottom: '%s'" % b for b in bottoms), top, param)
        self.steps.append((function, bottoms, top))
        self.top = top
        return self

    def module(self, kind, param, module, **more):
        key = "m%d" % len(self.modules)
        self.modules[key] = module
        return self.layer(kind, param, module, **more)

    def conv(self, n, k, stride=1, pad=0, group=1, bias=True):
        m = nn.Conv2d(self.channels, n, k, stride, pad, groups=group, bias=bias)
        self.channels = n
        return self.module("Convolution", "convolution_param { num_output: %d kernel_size: %d stride: "
                           "%d pad: %d group: %d weight_filler { type: 'msra' }%s }" % (
                               n, k, stride, pad, group, "" if bias else " bias_term: false"), m)

    def norm(self):
        self.module("BatchNorm", "", nn.BatchNorm2d(self.channels))
        return self.layer("Scale", "scale_param { bias_term: true }", lambda x: x, place=True)

    def relu(self):
        return self.layer("ReLU", "", lambda x: F.relu(x, inplace=True), place=True)

    def pool(self, method, k, stride, pad=0):
        # PyTorch clips the last window as Caffe does; it only counts padding otherwise at the edges
        f = (lambda x: F.max_pool2d(x, k, stride, pad, ceil_mode=True)) if method == "MAX" else (
            lambda x: F.avg_pool2d(x, k, stride, pad, ceil_mode=True))
        return self.layer("Pooling", "pooling_param { pool: %s kernel_size: %d stride: %d pad: %d }" %
                          (method, k, stride, pad), f)

    def average(self):
        return self.layer("Pooling", "pooling_param { pool: AVE global_pooling: true }",
                          lambda x: F.adaptive_avg_pool2d(x, 1))

    def lrn(self, n=5, alpha=1e-4):
        return self.layer("LRN", "lrn_param { local_size: %d alpha: %g beta: 0.75 }" % (n, alpha),
                          lambda x: F.local_response_norm(x, n, alpha, 0.75, 1.0))

    def lrn_within(self, n=3, alpha=5e-5):
        def function(x):
            total = F.avg_pool2d(x * x, n, 1, n // 2)
            return x * (1 + alpha * total) ** -0.75

        return self.layer("LRN", "lrn_param { local_size: %d alpha: %g beta: 0.75 "
                          "norm_region: WITHIN_CHANNEL }" % (n, alpha), function)

    def dropout(self):
        return self.layer("Dropout", "", lambda x: F.dropout(x, 0.5, True), place=True)

    def fc(self, n):
        self.run_shape()
        m = nn.Sequential(nn.Flatten(), nn.Linear(self.features, n))
        self.channels = n
        return self.module("InnerProduct", "inner_product_param { num_output: %d weight_filler { "
                           "type: 'xavier' } }" % n, m)

    def branches(self, *makers):
        bottom, channels, tops, total = self.top, self.channels, [], 0
        for make in makers:
            self.top, self.channels = bottom, channels
            make(self)
            tops.append(self.top)
            total += self.channels
        self.channels = total
        return self.layer("Concat", "", lambda *x: torch.cat(x, 1), bottoms=tops)

    def sum(self, first, second):
        """Of two branches; second None: the bottom itself."""
        bottom, channels, tops = self.top, self.channels, []
        for make in (first, second):
            self.top, self.channels = bottom, channels
            if make:
                make(self)
            tops.append(self.top)
        return self.layer("Eltwise", "", lambda a, b: a + b, bottoms=tops)

    def run_shape(self):
        with torch.no_grad():
            self.features = self.forward(torch.zeros(1, *self.shape)).flatten(1).shape[1]

    def forward(self, x):
        values = {"data": x}
        for function, bottoms, top in self.steps:
            values[top] = function(*[values[b] for b in bottoms])
        return values[self.top]

    def prototxt(self):
        return self.text + ("layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: '%s' bottom: "
                            "'label' top: 'loss' }\n" % self.top)


def lenet(batch=64):
    n = Net("lenet, batch %d" % batch, batch, 1, 28, 10)
    return n.conv(20, 5).pool("MAX", 2, 2).conv(50, 5).pool("MAX", 2, 2).fc(500).relu().fc(10)


def cifar10_quick(batch=100):
    n = Net("cifar10_quick, batch %d" % batch, batch, 3, 32, 10)
    n.conv(32, 5, pad=2).pool("MAX", 3, 2).relu().conv(32, 5, pad=2).relu().pool("AVE", 3, 2)
    return n.conv(64, 5, pad=2).relu().pool("AVE", 3, 2).fc(64).fc(10)


def cifar10_full(batch=100):
    n = Net("cifar10_full, batch %d" % batch, batch, 3, 32, 10)
    n.conv(32, 5, pad=2).pool("MAX", 3, 2).relu().lrn_within()
    n.conv(32, 5, pad=2).relu().pool("AVE", 3, 2).lrn_within()
    return n.conv(64, 5, pad=2).relu().pool("AVE", 3, 2).fc(10)


def alexnet(batch=16):
    n = Net("alexnet, batch %d" % batch, batch, 3, 227, 1000)
    n.conv(96, 11, 4).relu().lrn().pool("MAX", 3, 2).conv(256, 5, pad=2, group=2).relu().lrn()
    n.pool("MAX", 3, 2).conv(384, 3, pad=1).relu().conv(384, 3, pad=1, group=2).relu()
    n.conv(256, 3, pad=1, group=2).relu().pool("MAX", 3, 2)
    return n.fc(4096).relu().dropout().fc(4096).relu().dropout().fc(1000)


def squeezenet(batch=16):
    n = Net("squeezenet 1.0, batch %d" % batch, batch, 3, 227, 1000)

    def fire(squeeze, expand):
        n.conv(squeeze, 1).relu()
        n.branches(lambda m: m.conv(expand, 1).relu(), lambda m: m.conv(expand, 3, pad=1).relu())

    n.conv(96, 7, 2).relu().pool("MAX", 3, 2)
    fire(16, 64), fire(16, 64), fire(32, 128)
    n.pool("MAX", 3, 2)
    fire(32, 128), fire(48, 192), fire(48, 192), fire(64, 256)
    n.pool("MAX", 3, 2)
    fire(64, 256)
    return n.dropout().conv(1000, 1).relu().average()


def googlenet(batch=8):
    n = Net("googlenet without its side losses, batch %d" % batch, batch, 3, 224, 1000)

    def inception(a, b0, b, c0, c, d):
        n.branches(lambda m: m.conv(a, 1).relu(), lambda m: m.conv(b0, 1).relu().conv(b, 3, pad=1).relu(),
                   lambda m: m.conv(c0, 1).relu().conv(c, 5, pad=2).relu(),
                   lambda m: m.pool("MAX", 3, 1, 1).conv(d, 1).relu())

    n.conv(64, 7, 2, 3).relu().pool("MAX", 3, 2).lrn().conv(64, 1).relu().conv(192, 3, pad=1).relu()
    n.lrn().pool("MAX", 3, 2)
    inception(64, 96, 128, 16, 32, 32), inception(128, 128, 192, 32, 96, 64)
    n.pool("MAX", 3, 2)
    inception(192, 96, 208, 16, 48, 64), inception(160, 112, 224, 24, 64, 64)
    inception(128, 128, 256, 24, 64, 64), inception(112, 144, 288, 32, 64, 64)
    inception(256, 160, 320, 32, 128, 128)
    n.pool("MAX", 3, 2)
    inception(256, 160, 320, 32, 128, 128), inception(384, 192, 384, 48, 128, 128)
    return n.average().dropout().fc(1000)


def vgg16(batch=4):
    n = Net("vgg16, batch %d" % batch, batch, 3, 224, 1000)
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            n.conv(width, 3, pad=1).relu()
        n.pool("MAX", 2, 2)
    return n.fc(4096).relu().dropout().fc(4096).relu().dropout().fc(1000)


def resnet50(batch=16):
    n = Net("resnet50, batch %d" % batch, batch, 3, 224, 1000)
    n.conv(64, 7, 2, 3, bias=False).norm().relu().pool("MAX", 3, 2)
    for width, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(depth):
            stride = 2 if block == 0 and width > 64 else 1

            def straight(m, width=width, stride=stride):
                m.conv(width, 1, stride, bias=False).norm().relu().conv(width, 3, pad=1, bias=False).norm().relu()
                m.conv(4 * width, 1, bias=False).norm()

            n.sum(straight, (lambda m, width=width, stride=stride:
                             m.conv(4 * width, 1, stride, bias=False).norm()) if block == 0 else None).relu()
    return n.average().fc(1000)


NETS = {f.__name__: f for f in (lenet, cifar10_quick, cifar10_full, alexnet, squeezenet, googlenet,
                                resnet50, vgg16)}


TURN = 0.2  # seconds
FORMS = ("contiguous", "channels_last", "compiled", "compiled_last")


class Torch:
    """One PyTorch in one form, in a process of its own."""

    def __init__(self, net, form, threads, math):
        torch.set_num_threads(threads)
        self.halves = math == "bf16"
        memory_format = torch.channels_last if form.endswith("last") else torch.contiguous_format
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.x = torch.rand(net.batch, *net.shape).contiguous(memory_format=memory_format)
        self.label = torch.zeros(net.batch, dtype=torch.long)
        net.modules.to(memory_format=memory_format)
        self.forward = torch.compile(net.forward) if form.startswith("compiled") else net.forward
        settings = {"lr": 1e-6, "momentum": 0.9, "weight_decay": 5e-4}
        try:
            self.solver = torch.optim.SGD(net.modules.parameters(), fused=True, **settings)
        except (TypeError, RuntimeError):  # before 2.4
            self.solver = torch.optim.SGD(net.modules.parameters(), **settings)

    def __call__(self):
        start = self.clock()
        self.solver.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.halves):
            loss = F.cross_entropy(self.forward(self.x).flatten(1), self.label)
        loss.backward()
        self.solver.step()
        return (self.clock() - start) * 1e3


def serve(net, options):
    """Says "ready", and then makes a step for every line that comes, as bench_net does."""
    if options.serve.startswith("compiled") and not hasattr(torch, "compile"):
        print("without", flush=True)
        return
    side = Torch(net, options.serve, options.threads, options.math)
    side(), side()
    print("ready", torch.__version__, flush=True)
    for _ in sys.stdin:
        print("%.4f" % side(), flush=True)


class Side:
    def __init__(self, name, command):
        self.name, self.times = name, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.able = words != ["without"]
        if self.able and words[:1] != ["ready"]:
            sys.exit("%s did not get ready: %r" % (name, words))
        if len(words) > 1:
            self.name = "%s %s" % (words[1], name)

    def turn(self):
        """Steps for TURN seconds, at least one; the first finds the other sides' data in the caches and counts only alone."""
        steps, start = [], time.monotonic()
        while not steps or time.monotonic() - start < TURN:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            steps.append(float(self.process.stdout.readline()))
        self.times.append(statistics.median(steps[1:] or steps))

    def close(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            self.peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024
        self.process.stdin.close()
        self.process.wait()


def compare(net, spec, options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.prototxt")
        with open(path, "w") as f:
            f.write(net.prototxt())
        bench = [options.bench, "--model=" + path, "--threads=%d" % options.threads, "--passes=0", "--update"]
        sides = [Side("poseidon", bench + (["--math=bf16"] if options.math == "bf16" else []))]
        if options.math == "bf16":
            sides.append(Side("poseidon fp32", bench))
        for python in options.python or [sys.executable]:
            sides += [Side(form, [python, os.path.abspath(__file__), "--serve=" + form, "--threads=%d" %
                                  options.threads, "--math=" + options.math, spec]) for form in options.forms.split(",")]
        sides = [side for side in sides if side.able]
        start, count = time.monotonic(), 0
        while count < options.passes and (count < 1 or time.monotonic() - start < options.seconds):
            for side in sides if count % 2 == 0 else sides[::-1]:
                side.turn()
            count += 1
        for side in sides:
            side.close()
    ours = sides[0]
    for side in sides:
        ratios = [theirs / mine for mine, theirs in zip(ours.times, side.times)]
        print("| %s | %s | %.2f | %.2f | %.0f |" % (net.name, side.name, statistics.median(side.times),
                                                  statistics.median(ratios), side.peak), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", metavar="PROGRAM")
    parser.add_argument("--python", action="append", metavar="PROGRAM")
    parser.add_argument("--forms", default="contiguous,channels_last", help=", ".join(FORMS))
    parser.add_argument("--passes", type=int, default=10, metavar="TURNS")
    parser.add_argument("--seconds", type=float, default=1e9, help="of a net, after which no pass begins")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--math", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--serve", choices=FORMS, help="be the PyTorch of that form")
    parser.add_argument("--write", metavar="FOLDER", help="only write the prototxts there")
    parser.add_argument("nets", nargs="*", metavar="NET[:BATCH]", help=", ".join(NETS))
    options = parser.parse_args()
    if not options.write and not options.serve:
        if not options.bench:
            parser.error("--bench=PROGRAM is missing")
        print("%d thread(s) each; milliseconds of a step, medians; over poseidon's, medians; MiB at most\n\n"
              "| net | | ms | ratio | MiB |\n|---|---|---:|---:|---:|" % options.threads, flush=True)
    for spec in options.nets or NETS:
        name, _, batch = spec.partition(":")
        net = NETS[name](int(batch)) if batch else NETS[name]()
        if options.write:
            with open(os.path.join(options.write, name + ".prototxt"), "w") as f:
                f.write(net.prototxt())
        elif options.serve:
            serve(net, options)
        else:
            compare(net, spec, options)


if __name__ == "__main__":
    main()
