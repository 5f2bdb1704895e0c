"""Which published points validate.py simulates, and how. Figures are those of docs/published.csv; points of clusters that
its tables do not have stand here. Grades: printed: the figure was read in the source
named. recalled: attributed to it, but the printed text was not at hand. Assumptions stand with each point."""
from collections import namedtuple
import csv
import os

import validate


def read_published():
    """Speed-ups of docs/published.csv: {(net, comm, nodes, Gbit/s): {system: value}}."""
    found = {}
    with open(os.path.join(validate.ROOT, "docs", "published.csv"), newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["figure"] == "speedup":
                key = (row["table"], row["comm"], int(row["nodes"]), float(row["gbps"]))
                found.setdefault(key, {})[row["system"]] = float(row["value"].lstrip("<"))
    return found


PUBLISHED = read_published()


def published(net, comm, nodes, gbps, system):
    return PUBLISHED[net, comm, nodes, gbps][system]

# ---- Zhang et al. 2017: one figure's raw times, Caffe on 40 GbE ----

ALONE = .925  # seconds of an iteration of unmodified Caffe, which speed-ups are over
PAPER = [(comm, [nodes * ALONE / published("vgg19_22k", comm, nodes, 40, system) for nodes in (1, 2, 4, 8, 16, 32)])
         for comm, system in [("poseidon", "Poseidon"), ("wfbp", "Caffe+WFBP"), ("caffe-ps", "Caffe+PS")]]

# Three of them are fitted to the 18 points: what a thread sends, copies to the device, sums.
PAPER_CONSTANTS = [
    ("--profile=titanx", "unmodified Caffe's 0.925 s on one node, which is published; SFB's products at 0.9 of the "
     "device's operations (at 32 nodes 415 GFLOP, 70 ms: most of what the published system loses there)"),
    ("--bandwidth=40Gb", "the link, each way"),
    ("latency_seconds=30us, message_seconds=5us", "defaults; no point depends on them by 1 %"),
    ("--figure thread_bytes_per_second=3.5GB", "fitted. What one thread of 2016 sends while it receives as much; a server that only "
     "receives or only sends reaches twice that. It decides WFBP's curve"),
    ("--figure device_bytes_per_second=3.2GB", "fitted. Copies between pageable memory and device, each way; unhidden, they are most of what "
     "Caffe+PS loses on one node: 916 MB there and back"),
    ("--figure sum_bytes_per_second=8GB --figure copy_bytes_per_second=8GB",
     "fitted. Gradients that a server adds up per second: several cores"),
]


def thread(rate):
    return ["--figure=thread_bytes_per_second=" + rate]


def device(rate):
    return ["--figure=device_bytes_per_second=" + rate]


def memory(rate):
    return ["--figure=sum_bytes_per_second=" + rate, "--figure=copy_bytes_per_second=" + rate]


HOSTS_OF_2017 = thread("3.5GB") + device("3.2GB") + memory("8GB")
PAPER_SETTING = ["--bandwidth=40Gb"] + HOSTS_OF_2017

PAPER_WORDS = (
    "What Caffe+PS is, its paper does not say in detail. Its published times grow by about 0.2 s with every node up to "
    "16. Shards of equal size cannot do that: each node's bytes grow by (P-1)/P alone. A server that holds a whole "
    "fully connected layer (411 MB of 916) and serves all others does, so `caffe-ps` places whole tensors. That is a "
    "conclusion from the times, not from the text.")


def model(net):
    return "--model=" + os.path.join(validate.ROOT, "models", net, "train_val.prototxt")


def vgg19_22k(comm, nodes):
    return [model("vgg19_22k"), "--profile=titanx", "--comm=" + comm, "--nodes=" + nodes] + PAPER_SETTING


# ---- others ----

Point = namedtuple("Point", "what grade published words cause alone", defaults=(0,))


def titanx(net, comm, nodes, bandwidth="40Gb", more=()):
    return [model(net), "--profile=titanx", "--comm=" + comm, "--nodes=%d" % nodes,
            "--bandwidth=" + bandwidth] + HOSTS_OF_2017 + list(more)


def slower(net, share, batch, comm, more):
    """Another device: the Titan X's layers, at a share of its rate."""
    return [model(net), "--profile=titanx", "--images-per-second=%g" % (share * RATES[net]), "--batch=%d" % batch,
            "--comm=" + comm] + more


# images/s of one Titan X (models/profiles)
RATES = {"alexnet": 1024, "googlenet": 257, "vgg19": 35.5}
K80 = 2.8 / 6.6  # nominal operations of one of its GPUs, over a Titan X's


def pascal(net, more):
    """16 GPUs, four to a node, 25 GbE, 64 images each."""
    return [model(net), "--profile=p100", "--comm=ring", "--nodes=4", "--ranks-per-node=4", "--hierarchy=off",
            "--bandwidth=25Gb"] + more


TCP = thread("1.5GB")
ON_HOST = TCP + device("12GB") + memory("3GB")
RDMA = memory("400GB")


def k20(net):
    return [model(net), "--profile=k20", "--comm=poseidon", "--nodes=8", "--bandwidth=40Gb"] + HOSTS_OF_2017


def stock(net, nodes, bandwidth):
    """TensorFlow 1.3, four GPUs to a node."""
    return [model(net), "--profile=p100", "--comm=tf-ps", "--nodes=%d" % nodes, "--ranks-per-node=4", "--hierarchy=off",
            "--bandwidth=" + bandwidth] + memory("8GB")


def p40(net, batch):
    return [model(net), "--profile=p40", "--comm=ring", "--nodes=4", "--ranks-per-node=4", "--hierarchy=off",
            "--bandwidth=56Gb", "--batch=%d" % batch] + memory("200GB")


OTHERS_WORDS = (
    "The same constants as above wherever the paper's cluster is meant. Nothing was fitted to these points. *Printed*: "
    "the figure was read in the source; *recalled*: attributed to it, the text was not at hand. Where a device has no "
    "profile, the Titan X's layers are taken at the share of its nominal operations. Speed-ups slightly above the "
    "number of nodes come from the update, which one machine makes alone and servers share.")

ATC = "Zhang et al. 2017"
OTHERS = [
    Point("VGG19-22K, 16 nodes, 10 GbE, Poseidon (%s)" % ATC, "printed",
          published("vgg19_22k", "poseidon", 16, 10, "Poseidon"),
          titanx("vgg19_22k", "poseidon", 16, "10Gb"),
          "the same system at 40 GbE is published with 15.03x, so 3 % is what the sources agree to"),
    Point("VGG19-22K, 32 nodes, Poseidon on TensorFlow", "printed",
          published("vgg19_22k", "poseidon", 32, 40, "Poseidon on TensorFlow"), vgg19_22k("poseidon", "32"),
          "TensorFlow's device rate differs from Caffe's by 1 %"),
    Point("VGG19-22K, 32 nodes, TensorFlow with WFBP", "recalled",
          published("vgg19_22k", "wfbp", 32, 40, "TensorFlow+WFBP"), vgg19_22k("wfbp", "32"), "as above"),
    Point("VGG19-22K, 32 nodes, stock TensorFlow", "printed as below 1x", 1, vgg19_22k("tf-ps", "32"),
          "a server receives 31 gradients of 411 MB, 1.4 s each"),
    Point("Inception-V3, 32 nodes, Poseidon", "printed",
          published("inception_v3", "poseidon", 32, 40, "Poseidon on TensorFlow"), titanx("inception_v3", "poseidon", 32), "-"),
    Point("Inception-V3, 32 nodes, stock TensorFlow", "printed",
          published("inception_v3", "tf-ps", 32, 40, "TensorFlow"), titanx("inception_v3", "tf-ps", 32),
          "0.947 GB/s of a receiver are the best that was published, others of that time found less than half of it"),
    Point("ResNet-152, 32 nodes, Poseidon", "recalled",
          published("resnet152", "poseidon", 32, 40, "Poseidon on TensorFlow"), titanx("resnet152", "poseidon", 32), "-"),
    Point("VGG19, 16 nodes, 10 GbE, PS with WFBP", "recalled", published("vgg19", "wfbp", 16, 10, "PS with WFBP"),
          titanx("vgg19", "wfbp", 16, "10Gb"), "-"),
    Point("VGG19, 8 nodes, Adam's strategy", "recalled", published("vgg19", "adam", 8, 40, "Adam in Poseidon"),
          titanx("vgg19", "adam", 8, more=["--tune=overlap=backward"]),
          "the owner's product of all factors is made on its device here"),
    Point("VGG19, 8 nodes, CNTK 1-bit", "recalled", published("vgg19", "onebit", 8, 40, "CNTK 1-bit"),
          titanx("vgg19", "onebit", 8, more=["--tune=overlap=none"]),
          "CNTK quantises convolutions, too, in an allreduce of its own, on another software's device rate"),
    Point("VGG19, 16 nodes, CNTK 1-bit", "recalled", published("vgg19", "onebit", 16, 40, "CNTK 1-bit"),
          titanx("vgg19", "onebit", 16, more=["--tune=overlap=none"]),
          "as above"),
    Point("VGG19, 32 nodes, CNTK 1-bit", "recalled", published("vgg19", "onebit", 32, 40, "CNTK 1-bit"),
          titanx("vgg19", "onebit", 32, more=["--tune=overlap=none"]),
          "as above"),
    Point("GoogLeNet, 4 nodes of 8 K80 GPUs", "recalled", 32,
          slower("googlenet", K80, 128, "paper", ["--nodes=4", "--ranks-per-node=8", "--bandwidth=10Gb"]),
          "K80's rate is taken by operations; the instances' 10 Gbit/s"),
    Point("VGG19, 4 nodes of 8 K80 GPUs", "recalled", 28,
          slower("vgg19", K80, 32, "paper", ["--nodes=4", "--ranks-per-node=8", "--bandwidth=10Gb"]),
          "as above; all eight share one host's bus, which is not played"),
    Point("AlexNet, 8 nodes of one K20, 40 GbE (Zhang et al. 2015)", "printed",
          published("2015_alexnet", "poseidon", 8, 40, "Poseidon 2015"), k20("alexnet"),
          "the released program sent nothing before the pass was over; its rows, copies and locks are not played"),
    Point("GoogLeNet, 8 nodes of one K20 (2015)", "printed",
          published("2015_googlenet", "poseidon", 8, 40, "Poseidon 2015"), k20("googlenet"), "as above"),
    Point("CIFAR-10 quick, 8 nodes of one K20 (2015)", "printed",
          published("2015_cifar10_quick", "poseidon", 8, 40, "Poseidon 2015"), k20("cifar10_quick"),
          "an iteration takes 5 ms; the device's rate is derived, and a thread that looks for work every 10 ms is not played"),
    Point("VGG-16, 16 Pascal, 25 GbE, Horovod, RDMA and NCCL", "printed", 13.7, pascal("vgg16", RDMA),
          "rings between nodes only"),
    Point("VGG-16, 16 Pascal, Horovod, TCP and NCCL", "printed", 10, pascal("vgg16", TCP),
          "1.5 GB/s of TCP is a guess"),
    Point("VGG-16, 16 Pascal, Horovod, TCP, sums on the host", "printed", 4.7, pascal("vgg16", ON_HOST),
          "four ranks' copies and sums share one host, which is not played"),
    Point("Inception-V3, 16 Pascal, Horovod, RDMA and NCCL", "printed", 15.0, pascal("inception_v3", RDMA), "-"),
    Point("Inception-V3, 16 Pascal, Horovod, TCP and NCCL", "printed", 14.8, pascal("inception_v3", TCP), "-"),
    Point("VGG-16, 16 Pascal, stock TensorFlow", "printed", 0.6, stock("vgg16", 4, "25Gb"),
          "each GPU calls for itself; by one worker a node, which adds up first, it would be 1.2x"),
    Point("VGG-16, 64 Pascal, 40 GbE, stock TensorFlow", "printed", 0.6, stock("vgg16", 16, "40Gb"), "as above, 1.3x"),
    Point("Inception-V3, 16 Pascal, stock TensorFlow, variables on CPU", "printed", 11.7, stock("inception_v3", 4, "25Gb"),
          "as above, 12.6x"),
    Point("Inception-V3, 64 Pascal, 40 GbE, stock TensorFlow, variables on CPU", "printed", 35.6,
          stock("inception_v3", 16, "40Gb"), "as above, 50.6x"),
    Point("AlexNet, 16 P40, Caffe-MPI", "printed", 14.65, p40("alexnet", 1024),
          "the network is not named: FDR InfiniBand is assumed; the device's rate is derived"),
    Point("GoogLeNet, 16 P40, Caffe-MPI", "printed", 14.25, p40("googlenet", 128),
          "as above; reading photos is not played"),
    Point("ResNet-50, 16 P40, Caffe-MPI", "printed", 15.34, p40("resnet50", 32), "as above"),
    Point("AlexNet, 512 V100, 56 Gbit/s, GradientFlow", "printed", 410.2,
          [model("alexnet"), "--profile=p100", "--comm=allreduce", "--tune=wire=bf16", "--nodes=64", "--ranks-per-node=8",
           "--bandwidth=56Gb"] + RDMA,
          "a P100 stands in for a V100, 512 images for 128; it sends sparse chunks, this all of them in 16 bits"),
]
