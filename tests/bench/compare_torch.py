#!/usr/bin/env python3
"""Times forward and backward of the same nets in poseidon and in PyTorch, one thread each, in turns.

    compare_torch.py --bench=build/tests/bench/bench_net [--passes=N] [--threads=N] [NET[:BATCH]...]

Both sides are written from one list of layers: a prototxt for bench_net, modules for PyTorch (random
input, training mode, no weight update). PyTorch runs in both memory formats, contiguous and
channels_last; the faster counts. Passes alternate between the three, the median of each is shown: of
processor time with one thread, since others may be at work, else of time on the wall. For
PyTorch's fully connected layers to be fast, let libblas.so.3 be OpenBLAS (LD_LIBRARY_PATH does).
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


class Torch:
    def __init__(self, net, memory_format, threads):
        self.net = net
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.format = memory_format
        self.x = torch.rand(net.batch, *net.shape).contiguous(memory_format=memory_format)
        self.label = torch.zeros(net.batch, dtype=torch.long)

    def ready(self):
        self.net.modules.to(memory_format=self.format)

    def __call__(self):
        start = self.clock()
        for p in self.net.modules.parameters():
            p.grad = None
        F.cross_entropy(self.net.forward(self.x).flatten(1), self.label).backward()
        return (self.clock() - start) * 1e3


class Poseidon:
    def __init__(self, bench, path, threads):
        self.process = subprocess.Popen([bench, "--model=" + path, "--threads=%d" % threads,
                                         "--passes=0"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if line != "ready\n":
            sys.exit("bench_net did not get ready: %r" % line)

    def __call__(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(net, options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.prototxt")
        with open(path, "w") as f:
            f.write(net.prototxt())
        ours = Poseidon(options.bench, path, options.threads)
        times = {"poseidon": [], "contiguous": [], "channels_last": []}
        theirs = {"contiguous": Torch(net, torch.contiguous_format, options.threads),
                  "channels_last": Torch(net, torch.channels_last, options.threads)}
        for i in range(options.passes + 1):
            values = {"poseidon": ours()}
            for name, run in theirs.items():
                run.ready()
                values[name] = run()
            for name, value in values.items():
                if i > 0:
                    times[name].append(value)
        ours.close()
    medians = {name: statistics.median(v) for name, v in times.items()}
    best = min(medians["contiguous"], medians["channels_last"])
    print("%-45s %9.2f %11.2f %14.2f %7.2f" % (net.name, medians["poseidon"], medians["contiguous"],
                                              medians["channels_last"], best / medians["poseidon"]),
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", metavar="FOLDER", help="only write the prototxts there")
    parser.add_argument("nets", nargs="*", metavar="NET[:BATCH]", help=", ".join(NETS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.write:
        print("PyTorch %s, %d thread(s) each; milliseconds of forward and backward, medians of %d" % (
            torch.__version__, options.threads, options.passes))
        print("%-45s %9s %11s %14s %7s" % ("", "poseidon", "contiguous", "channels_last", "ratio"))
    for name in options.nets or NETS:
        name, _, batch = name.partition(":")
        net = NETS[name](int(batch)) if batch else NETS[name]()
        if options.write:
            with open(os.path.join(options.write, name + ".prototxt"), "w") as f:
                f.write(net.prototxt())
        else:
            compare(net, options)


if __name__ == "__main__":
    main()
