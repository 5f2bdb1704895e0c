#!/usr/bin/env python3
"""Writes the profiles of this folder: a published training rate of a device, spread over a net's layers.

    models/profiles/generate.py --program=build/poseidon [--out=FOLDER] [DEVICE-NET...]

Run it after a change here, or of the nets, and commit its output. The method is in METHOD, which heads
every file; whoever has the device measures it instead: poseidon time --profile=FILE.
"""
import argparse
import json
import os
import subprocess
import sys
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.dirname(HERE)
FLOAT = 4
WIDTH = 100

# flops and memory: nominal operations per second in fp32 and bytes per second of the device's memory;
# link: bytes per second of its bus to the host, assumed.
Device = namedtuple("Device", "title flops memory link about")
DEVICES = {
    "k20": Device("Tesla K20", 3.52e12, 208e9, 6e9, "2496 cores x 2 x 0.706 GHz; PCIe 2.0 x16"),
    "titanx": Device("GeForce GTX Titan X (Maxwell)", 6.605e12, 336.5e9, 12e9,
                     "3072 cores x 2 x 1.075 GHz; PCIe 3.0 x16"),
    "p100": Device("Tesla P100 SXM2", 10.6e12, 732e9, 12e9, "PCIe 3.0 x16 to the host"),
    "v100": Device("Tesla V100 SXM2", 125e12, 900e9, 12e9, "fp16 tensor cores; PCIe 3.0 x16 to the host"),
    "p40": Device("Tesla P40", 11.8e12, 346e9, 12e9, "PCIe 3.0 x16"),
    "a100": Device("A100 80 GB SXM", 156e12, 2039e9, 24e9, "TF32 tensor cores; PCIe 4.0 x16"),
}

# Matrix products of SFB's size reach that share of the device's operations per second.
GEMM_SHARE = 0.9
# SGD with momentum reads gradient, momentum and parameter and writes the latter two.
UPDATE_PASSES = 5

# grade: how sure the rate is. covers: what was timed, 'iterations' (with the update) or 'passes' (without).
# scale_of: the rate is not published; the device is as far from its own limits as that profile's is.
Profile = namedtuple("Profile", "device net batch rate grade covers source notes scale_of",
                     defaults=((), None))

RETRIEVED = "retrieved: the figure was read in the source named"
RECALLED = ("recalled: not found in any text at hand; do not quote it, and replace it when the printed "
            "paper has been read")
COMBINED = "derived from figures that were read in the sources named"
DERIVED = "derived: no rate is published that could be found; see the method below"

ATC17 = "Zhang et al., Poseidon, USENIX ATC 2017, one node, "
ATTRIBUTED = "attributed to "
TENSORFLOW = ("tensorflow/docs_src/performance/benchmarks.md of TensorFlow 1.x: DGX-1, one of its P100, "
              "synthetic data, May 2017")
HOROVOD = ("github.com/horovod/horovod/pull/44: 'Baseline single-GPU (batch size=64)', Pascal GPUs, October "
           "2017; the base of its table for 16 GPUs")
TORCH = "github.com/jcjohnson/cnn-benchmarks: GeForce GTX TITAN X, cuDNN 5.0, Torch, 16 images"
CAFFE_MPI = ("Caffe-MPI publishes speed-ups on 16 P40 with this batch, but no images/s of one")

CAFFE_K20 = "docs/performance_hardware.md of BVLC Caffe: K20 36.0 s, K40 26.5 s for 20 iterations of 256 images"
K40_TIMES = "github.com/BVLC/caffe/issues/1317, one K40c, cuDNN, 128 images forward and backward: "

PROFILES = [
    Profile("k20", "alexnet", 256, 5120 / 36.0 * 26.5 / 19.2, COMBINED, "iterations",
            CAFFE_K20 + " without cuDNN; the K40 19.2 s with cuDNN. A K20 is taken to gain as much: 26.1 s",
            ("Caffe's reference net, which pools before it normalises, is taken for AlexNet; the system of 2015 ran cuDNN R2.",)),
    Profile("k20", "alexnet_22k", 256, None, DERIVED, "iterations", "AlexNet with 21841 classes", (), "k20-alexnet"),
    Profile("k20", "googlenet", 32, 128 / 1.6888 * 26.5 / 36.0, COMBINED, "passes",
            K40_TIMES + "1688.8 ms; a K20 takes 36.0 / 26.5 of a K40's time (" + CAFFE_K20 + ")",
            ("The rate of 128 images is taken for 32.",
             "The time is spread over the two auxiliary classifiers, too, that the published net trains with.")),
    Profile("k20", "cifar10_quick", 50, None, DERIVED, "iterations",
            "the batch of the script of PMLS-Caffe; no rate of a K20 was found",
            ("Kernels of microseconds, whose start counts, are as far from the limits as AlexNet's here.",), "k20-alexnet"),
    Profile("titanx", "vgg19_22k", 32, 32 * 20 / 18.5, RETRIEVED, "iterations",
            "a public plotting script (its repository is not known) with the raw times behind a figure of " +
            ATC17 + "unmodified Caffe: 18.5 s for 20 iterations of 32"),
    Profile("titanx", "vgg19", 32, 35.5, RECALLED, "iterations", ATTRIBUTED + ATC17 + "Caffe",
            ("Check: %s: 323.40 ms forward and backward, 49.5 images/s." % TORCH,)),
    Profile("titanx", "googlenet", 128, 257, RECALLED, "iterations", ATTRIBUTED + ATC17 + "Caffe",
            ("Check: convnet-benchmarks, Torch with cuDNN R4, 470 ms forward and backward of 128: 272 images/s.",
             "The time is spread over the two auxiliary classifiers, too, that the published net trains with.")),
    Profile("titanx", "inception_v3", 32, 43.2, RECALLED, "iterations", ATTRIBUTED + ATC17 + "TensorFlow r0.10",
            ("The time is spread over the auxiliary classifier, too, that the published net trains with.",)),
    Profile("titanx", "resnet152", 32, 16 / 0.36697, RETRIEVED, "passes", TORCH + ", forward and backward 366.97 ms",
            ("Not the paper's: its own rate was not found. The rate of 16 images is taken for 32.",)),
    Profile("titanx", "alexnet", 256, 1024, RECALLED + "; the least sure of these", "iterations",
            ATTRIBUTED + "Zhang et al., Poseidon, USENIX ATC 2017, arithmetic in its motivation: about 0.25 s for "
            "256 images",
            ("Check: %s: 23.71 ms forward and backward, 675 images/s." % TORCH,
             "Check: convnet-benchmarks' AlexNet (another: no LRN, no groups), 81 ms of 128: 1580 images/s.")),
    Profile("p100", "vgg16", 64, 130.9, RETRIEVED, "iterations", HOROVOD,
            ("'Pascal' is taken for P100. Check: %s: 154 images/s." % TENSORFLOW,)),
    Profile("p100", "inception_v3", 64, 134.4, RETRIEVED, "iterations", HOROVOD,
            ("'Pascal' is taken for P100. Check: %s: 142 images/s." % TENSORFLOW,
             "The time is spread over the auxiliary classifier, too.")),
    Profile("p100", "resnet50", 64, 219, RETRIEVED, "iterations", TENSORFLOW),
    Profile("p100", "resnet152", 64, 91.8, RETRIEVED, "iterations", TENSORFLOW),
    Profile("p100", "alexnet", 512, 2987, RETRIEVED, "iterations", TENSORFLOW,
            ("Its AlexNet need not be the one of this net file in groups and LRN.",)),
    Profile("p40", "alexnet", 1024, None, DERIVED, "iterations", CAFFE_MPI, (), "p100-alexnet"),
    Profile("p40", "googlenet", 128, None, DERIVED, "iterations", CAFFE_MPI,
            ("No P100 rate of GoogLeNet was found either: Inception-v3's stands in.",), "p100-inception_v3"),
    Profile("p40", "resnet50", 32, None, DERIVED, "iterations", CAFFE_MPI,
            ("Its text says 'ResNet' without a depth: 50 is assumed.",), "p100-resnet50"),
    Profile("v100", "resnet50", 256, 872, RETRIEVED, "iterations",
            "github.com/horovod/horovod/issues/779: synthetic data on one of the 8 V100 of a p3.16xlarge, January 2019",
            ("The batch is not in the text: 256 is assumed. The rate is one of half floats, by tensor cores.",)),
    Profile("a100", "resnet50", 256, 938, RETRIEVED, "iterations",
            "github.com/NVIDIA/DeepLearningExamples, PyTorch 21.03, one A100 80 GB, TF32",
            ("Its net is v1.5 (the stride in the 3x3 convolution), this one v1. The source's batch is not known "
             "for sure: 256 is assumed.",)),
]

METHOD = """\
Method: a layer's pass takes max(operations / device's FLOP/s, bytes / device's memory rate), and all passes are
multiplied by one scale so that they and the update make up the published seconds. Operations forward: as poseidon
summary has them; backward: convolutions and inner products twice, without a gradient of their input once, others
once. Bytes forward: tops, bottoms and parameters; backward: the same per product, and without products the bottoms
once more where the rule needs the layer's input. Data layers take no time, Split, Flatten and Reshape none forward.
A scale above 1 is what the software loses; one below 1 is left by algorithms that take fewer operations than are
counted, such as Winograd's."""

# Layers that only rename, or hand on what the input thread has made.
NO_TIME = {"Data", "ImageData", "HDF5Data", "DummyData", "Input"}
NO_FORWARD = {"Split", "Flatten", "Reshape"}
PRODUCTS = {"Convolution", "Deconvolution", "InnerProduct"}
# Their gradient needs no value that the forward pass has seen.
LINEAR = {"Concat", "Eltwise", "Split", "Flatten", "Reshape", "Dropout", "SoftmaxWithLoss"}


def elems(shape):
    count = 1
    for axis in shape:
        count *= axis
    return count


def summary(program, net, batch):
    """The net's layers in order, as `poseidon summary --json` has them, at that batch."""
    model = os.path.join(MODELS, net, "train_val.prototxt")
    done = subprocess.run([program, "summary", "--model=" + model, "--batch=%d" % batch, "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode:
        sys.exit("%s summary of %s: %s" % (program, model, done.stderr.strip()))
    return json.loads(done.stdout)


def raw_times(layers, device):
    """[(layer, forward, backward)] at the device's limits, in seconds."""
    blobs = {}  # name: (bytes, whether a gradient of it is wanted)
    times = []
    for layer in layers:
        kind, flops = layer["type"], layer["flops"]
        bottoms = [blobs[name] for name in layer["bottoms"]]
        read = sum(size for size, _ in bottoms)
        into = any(wanted for _, wanted in bottoms)
        wanted = into or layer["parameters"] > 0
        tops = [(top["name"], FLOAT * elems(top["shape"])) for top in layer["tops"]]
        moved = read + sum(size for _, size in tops) + FLOAT * layer["parameters"]
        for name, size in tops:
            blobs[name] = (size, wanted)

        def limit(operations, moves):
            return max(operations / device.flops, moves / device.memory)

        if kind in NO_TIME:
            forward = backward = 0.0
        else:
            forward = 0.0 if kind in NO_FORWARD else limit(flops, moved)
            if not wanted or kind in {"Flatten", "Reshape"}:
                backward = 0.0
            elif kind in PRODUCTS:
                backward = (1 + into) * limit(flops, moved)
            else:
                backward = limit(flops, moved + (0 if kind in LINEAR else read))
        times.append((layer, forward, backward))
    return times


def update_seconds(device, parameters):
    return parameters * FLOAT * UPDATE_PASSES / device.memory


class Spread:
    """A profile's layer times, and the scale that made them."""

    def __init__(self, program, profile):
        device = DEVICES[profile.device]
        net = summary(program, profile.net, profile.batch)
        self.raw = raw_times(net["layers"], device)
        self.limit = sum(forward + backward for _, forward, backward in self.raw)
        self.update = 0 if profile.covers == "passes" else update_seconds(device, net["parameters"])
        self.shape = net["layers"][0]["tops"][0]["shape"]
        if profile.scale_of:
            self.scale = Spread(program, find(profile.scale_of)).scale
            self.seconds = self.limit * self.scale + self.update
        else:
            self.seconds = profile.batch / profile.rate
            self.scale = (self.seconds - self.update) / self.limit


def name_of(profile):
    return "%s-%s" % (profile.device, profile.net)


def find(name):
    for profile in PROFILES:
        if name_of(profile) == name:
            return profile
    sys.exit("there is no profile '%s'; there are: %s" % (name, " ".join(map(name_of, PROFILES))))


def comment(text):
    """The text as comment lines of at most WIDTH characters."""
    line, lines = "#", []
    for word in text.split():
        if len(line) + 1 + len(word) > WIDTH and line != "#":
            lines.append(line)
            line = "#  "
        line += " " + word
    return lines + [line]


def head(profile, spread):
    device = DEVICES[profile.device]
    rate = "%.6g images/s, %d images in %.6g s" % (profile.batch / spread.seconds, profile.batch, spread.seconds)
    timed = "iterations, the update among them" if profile.covers == "iterations" else \
        "forward and backward alone; the update comes on top"
    lines = ["# %s on one %s. Written by models/profiles/generate.py." % (profile.net, device.title)]
    lines += comment(("Computed rate: " if profile.scale_of else "Rate: ") + rate + ".")
    lines += comment("Grade: " + profile.grade + ".")
    lines += comment("Source: " + profile.source + ".")
    lines += comment("Timed: " + timed + ".")
    for note in profile.notes:
        lines += comment(note)
    lines += comment(METHOD)
    if profile.scale_of:
        lines += comment("No rate of this one is published; its scale is that of %s.csv: as far from "
                         "this device's limits as that one from its own." % profile.scale_of)
    lines += comment("Constants: %.4g TFLOP/s, %.4g GB/s (nominal; %s); scale %.4g." %
                     (device.flops * 1e-12, device.memory * 1e-9, device.about, spread.scale))
    lines += comment("Assumed: products (the line '*') at %g of those FLOP/s; an update ('*update') that moves "
                     "%d x 4 bytes per parameter." % (GEMM_SHARE, UPDATE_PASSES))
    lines += comment("Copies between host and device ('*copy') are not in the times: %.4g GB/s either way, assumed."
                     % (device.link * 1e-9))
    lines.append("# input " + " ".join(map(str, spread.shape)))
    return lines


def text(program, profile):
    device, spread = DEVICES[profile.device], Spread(program, profile)
    lines = head(profile, spread)
    lines.append("layer,type,forward_s,backward_s")
    for layer, forward, backward in spread.raw:
        lines.append("%s,%s,%.9g,%.9g" % (layer["name"], layer["type"], forward * spread.scale,
                                          backward * spread.scale))
    lines.append("*,GEMM,%.9g,0" % (1e9 / (GEMM_SHARE * device.flops)))
    lines.append("*update,SGD,%.9g,0" % update_seconds(device, 1e9))
    lines.append("*copy,Host,%.9g,%.9g" % (1e9 / device.link, 1e9 / device.link))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Writes models/profiles/DEVICE-NET.csv.")
    parser.add_argument("--program", required=True, help="the built poseidon")
    parser.add_argument("--out", default=HERE, help="folder to write to (default: this script's)")
    parser.add_argument("--list", action="store_true",
                        help="only print name, net, batch, images/s (- where derived), and what they cover")
    parser.add_argument("names", nargs="*", metavar="DEVICE-NET", help="default: all")
    o = parser.parse_args()
    chosen = [find(name) for name in o.names] or PROFILES
    for profile in chosen:
        if o.list:
            rate = "-" if profile.rate is None else "%.9g" % profile.rate
            print(name_of(profile), profile.net, profile.batch, rate, profile.covers)
            continue
        with open(os.path.join(o.out, name_of(profile) + ".csv"), "w") as file:
            file.write(text(o.program, profile))


if __name__ == "__main__":
    main()
