#!/usr/bin/env python3
"""Training steps per second of the same nets in poseidon and in PyTorch, on one GPU, in turns.

    bench.py --bench=build/tests/gpu/bench_step [--seconds=S] [--compile=NET,...] [NET...]

A step is forward, backward and SGD with momentum and weight decay; the input stays on the GPU. PyTorch at its
best: channels_last, cudnn.benchmark, TF32 or autocast to bfloat16, the fused optimiser, and for the nets of
--compile torch.compile beside it, where that has the C compiler and headers it needs. The nets' layers come from one list (tests/bench/compare_torch.py). Turns alternate;
the median of each counts. S seconds at most are spent on all of it: what is left over is said.
"""
import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import compare_torch  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

BATCH = {"alexnet": 256, "googlenet": 128, "vgg16": 64, "vgg19": 64, "resnet50": 128,
         "cifar10_quick": 100}
PLAIN_NET = compare_torch.Net


def vgg19():
    n = compare_torch.Net("vgg19", 64, 3, 224, 1000)
    for width, depth in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(depth):
            n.conv(width, 3, pad=1).relu()
        n.pool("MAX", 2, 2)
    return n.fc(4096).relu().dropout().fc(4096).relu().dropout().fc(1000)


def resnet50():
    n = compare_torch.Net("resnet50", 128, 3, 224, 1000)

    def conv(width, kernel, stride=1, pad=0):
        module = nn.Conv2d(n.channels, width, kernel, stride, pad, bias=False)
        n.channels = width
        n.module("Convolution", "convolution_param { num_output: %d kernel_size: %d stride: %d pad: %d "
                 "bias_term: false weight_filler { type: 'msra' } }" % (width, kernel, stride, pad), module)
        n.module("BatchNorm", "", nn.BatchNorm2d(width))
        return n.layer("Scale", "scale_param { bias_term: true }", lambda x: x, place=True)

    def block(width, stride, project):
        bottom, channels = n.top, n.channels
        conv(width, 1, stride).relu()
        conv(width, 3, pad=1).relu()
        conv(4 * width, 1)
        top = n.top
        if project:
            n.top, n.channels = bottom, channels
            conv(4 * width, 1, stride)
            bottom = n.top
        n.layer("Eltwise", "", lambda a, b: a + b, bottoms=[bottom, top])
        n.relu()

    conv(64, 7, 2, 3).relu().pool("MAX", 3, 2)
    for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(depth):
            block(width, stride if i == 0 else 1, i == 0)
    return n.average().fc(1000)


NETS = dict(compare_torch.NETS, vgg19=vgg19, resnet50=resnet50)


def make(name):
    """The net at the batch of BATCH."""
    class Sized(PLAIN_NET):
        def __init__(self, text, batch, channels, size, classes):
            super().__init__(text, BATCH.get(name, batch), channels, size, classes)

    compare_torch.Net = Sized
    net = NETS[name]()
    compare_torch.Net = PLAIN_NET
    return net


class Torch:
    def __init__(self, net, math, compiled):
        self.net, self.autocast = net, math == "bf16"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = math != "fp32"
        net.modules.cuda().to(memory_format=torch.channels_last)
        self.forward = torch.compile(net.forward) if compiled else net.forward
        self.optimiser = torch.optim.SGD(net.modules.parameters(), 1e-4, 0.9, weight_decay=5e-4, fused=True)
        self.x = torch.rand(net.batch, *net.shape, device="cuda").contiguous(
            memory_format=torch.channels_last)
        self.label = torch.zeros(net.batch, dtype=torch.long, device="cuda")

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
            scores = self.forward(self.x).flatten(1)
        F.cross_entropy(scores.float(), self.label).backward()
        self.optimiser.step()

    def run(self, steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3 / steps


class Poseidon:
    def __init__(self, options, net, math):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".prototxt")
        self.file.write(net.prototxt())
        self.file.flush()
        self.process = subprocess.Popen([options.bench, "--engine=" + options.engine, "--math=" + math,
                                         "--steps=%d" % options.steps, "--model=" + self.file.name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("bench_step did not get ready")

    def run(self, _steps):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(name, math, options):
    net = make(name)
    sides = {"poseidon": Poseidon(options, net, math), "eager": Torch(net, math, False)}
    for side in sides.values():
        for _ in range(3):
            side.run(2)
    if name in options.compile.split(","):
        try:
            compiled = Torch(net, math, True)
            for _ in range(3):
                compiled.run(2)
            sides["compiled"] = compiled
        except Exception as error:  # it must not cost the others
            print("%-14s %-5s torch.compile fails: %s" % (name, math, str(error).strip().splitlines()[-1:]),
                  flush=True)
    times = {side: [] for side in sides}
    for _ in range(options.turns):
        for side, runner in sides.items():
            times[side].append(runner.run(options.steps))
    sides["poseidon"].close()
    median = {side: statistics.median(values) for side, values in times.items()}
    line = "%-14s %-5s" % (name, math)
    for side, ms in median.items():
        line += "  %s %8.2f ms %9.1f img/s" % (side, ms, net.batch / ms * 1e3)
    for side in median:
        if side != "poseidon":
            line += "  x%.2f of %s" % (median[side] / median["poseidon"], side)
    print(line, flush=True)
    del sides, net
    torch.cuda.empty_cache()
    return median["eager"] / median["poseidon"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--engine", default="cuda")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--compile", default="", help="nets, separated by commas")
    parser.add_argument("--only-write", action="store_true", help="print the nets' prototxt and end")
    parser.add_argument("nets", nargs="*", default=list(BATCH))
    options = parser.parse_args()
    if options.only_write:
        for name in options.nets:
            print(make(name).prototxt())
        return
    # torch.compile warns once for each shape that its symbolic mathematics cannot bound
    logging.getLogger("torch.utils._sympy.interp").setLevel(logging.ERROR)
    torch.backends.cudnn.benchmark = True
    print("%s, torch %s, cuDNN %s" % (torch.cuda.get_device_name(), torch.__version__,
                                     torch.backends.cudnn.version()))
    start, ratios, skipped = time.time(), [], []
    for name in options.nets:
        for math in ("tf32", "bf16"):
            if time.time() - start > options.seconds:
                skipped.append("%s %s" % (name, math))
                continue
            try:
                ratios.append(compare(name, math, options))
            except Exception as error:  # one net's failure must not cost the others
                print("%-14s %-5s FAILED: %s" % (name, math, error), flush=True)
    if ratios:
        print("geometric mean against eager PyTorch: x%.3f" % statistics.geometric_mean(ratios))
    if skipped:
        print("no time left for: %s" % ", ".join(skipped))


if __name__ == "__main__":
    main()
