#!/usr/bin/env python3
"""Writes the long nets of this folder: models/NAME/train_val.prototxt and what goes with them.

    models/generate.py [NAME...]

Run it after a change here and commit its output, which is what the program reads. Layer names are
those of the published weights, where there are any, so that these weights load.
"""
import sys

from net_writer import AVE, LMDB, MAX, TEST, TRAIN, Message, Net, Word, colors, gaussian, msra, resized_crops, solver, xavier

VGG_MEAN = (103.939, 116.779, 123.68)
ROUND_MEAN = (104, 117, 123)

IMAGENET = """
The sources in data/ are placeholders: LMDBs or HDF5 files of ImageNet, images at least as large as the
crop (256 pixels by custom). batch_size counts per rank."""


IMAGENET_TRAIN = dict(random_aspect_ratio_param=resized_crops(0.08), distort_param=colors(32, 0.6))


def cifar10_full():
    net = Net("CIFAR10_full", "Caffe's full network for CIFAR-10; see cifar10_quick for the data. The batch\n"
              "counts per rank: 50 on two ranks are the 100 that the solver's rates fit.", gaussian(0.01))
    net.params = [Message(lr_mult=1), Message(lr_mult=2)]
    net.layer("cifar", "Data", top=("data", "label"), include=Message(phase=TRAIN),
              transform_param=Message(crop_size=32, mean_file="data/cifar10-mean.h5"),
              data_param=Message(source="data/cifar10-train.h5", batch_size=50, backend=LMDB))
    net.layer("cifar", "Data", top=("data", "label"), include=Message(phase=TEST),
              transform_param=Message(crop_size=32, mean_file="data/cifar10-mean.h5"),
              data_param=Message(source="data/cifar10-test.h5", batch_size=100, backend=LMDB))
    within = dict(local_size=3, alpha=5e-05, beta=0.75, norm_region=Word("WITHIN_CHANNEL"))
    x = net.conv("conv1", "data", 32, 5, 1, 2, filler=gaussian(0.0001))
    x = net.relu("relu1", net.pool("pool1", x, MAX, 3, 2))
    x = net.relu("relu2", net.conv("conv2", net.lrn("norm1", x, **within), 32, 5, 1, 2))
    x = net.lrn("norm2", net.pool("pool2", x, AVE, 3, 2), **within)
    net.params = []
    x = net.pool("pool3", net.relu("relu3", net.conv("conv3", x, 64, 5, 1, 2)), AVE, 3, 2)
    x = net.fc("ip1", x, 10, params=[Message(lr_mult=1, decay_mult=250), Message(lr_mult=2, decay_mult=0)])
    net.loss(x, tops=(1,))
    net.write("cifar10_full/train_val.prototxt")
    solver("cifar10_full", "Caffe's published schedule in one run: 60000 iterations at 0.001, 5000 at 0.0001 and\n"
           "5000 at 0.00001, with 100 images in each.", test_iter=100, test_interval=1000, base_lr=0.001,
           momentum=0.9, weight_decay=0.004, lr_policy="multistep", gamma=0.1, stepvalue=[60000, 65000],
           display=200, max_iter=70000, snapshot=10000)


def alexnet_layers(net, x, outputs, caffenet=False, bias=0.1, full=gaussian(0.005), last="fc8", last_filler=None):
    """bias: of the layers that the paper starts with a positive one; full: filler of fc6 and fc7."""
    def norm_and_pool(n, x):
        if caffenet:
            return net.lrn("norm%d" % n, net.pool("pool%d" % n, x, MAX, 3, 2))
        return net.pool("pool%d" % n, net.lrn("norm%d" % n, x), MAX, 3, 2)
    x = norm_and_pool(1, net.relu("relu1", net.conv("conv1", x, 96, 11, 4)))
    x = norm_and_pool(2, net.relu("relu2", net.conv("conv2", x, 256, 5, pad=2, group=2, bias_value=bias)))
    x = net.relu("relu3", net.conv("conv3", x, 384, 3, pad=1))
    x = net.relu("relu4", net.conv("conv4", x, 384, 3, pad=1, group=2, bias_value=bias))
    x = net.relu("relu5", net.conv("conv5", x, 256, 3, pad=1, group=2, bias_value=bias))
    x = net.pool("pool5", x, MAX, 3, 2)
    for n in (6, 7):
        x = net.relu("relu%d" % n, net.fc("fc%d" % n, x, 4096, full, bias_value=bias))
        x = net.dropout("drop%d" % n, x)
    net.loss(net.fc(last, x, outputs, last_filler), tops=(1,))


def alexnet(caffenet=False):
    name = "caffenet" if caffenet else "alexnet"
    net = Net("CaffeNet" if caffenet else "AlexNet", ("The reference CaffeNet: AlexNet with pooling before "
              "normalisation." if caffenet else "AlexNet (Krizhevsky et al., 2012) as Caffe publishes it.") + IMAGENET,
              gaussian(0.01))
    x = net.data("ilsvrc12", 227, 256, 50, mean_file="data/ilsvrc12-mean.binaryproto")
    alexnet_layers(net, x, 1000, caffenet, 1 if caffenet else 0.1)
    net.write(name + "/train_val.prototxt")
    solver(name, "Caffe's published schedule: 450000 iterations of 256 images, 90 passes over ImageNet.",
           test_iter=1000, test_interval=1000, base_lr=0.01, momentum=0.9, weight_decay=0.0005, lr_policy="step",
           gamma=0.1, stepsize=100000, display=20, max_iter=450000, snapshot=10000)


FLOWERS = """
Images of 256 x 256 pixels, crops of 227. The solver has the commands. batch_size counts per rank."""
WEIGHTS = """
It starts from `weights`, which SqueezeNet's authors publish at https://github.com/forresti/SqueezeNet; train --weights=FILE
takes another file."""
FLOWERS_COMMANDS = """

From the folder that holds data/flowers17-256, with its photographs and the lists train.txt and test.txt
(data/prepare_flowers17.sh makes it of the published photographs):

    poseidon convert images data/flowers17-256/train.txt data/flowers17-train.h5 --resize=256x256 --shuffle
    poseidon convert images data/flowers17-256/test.txt data/flowers17-test.h5 --resize=256x256 --shuffle
    mpirun -np 2 poseidon train --solver=models/%s/solver.prototxt%s"""


def flowers_data(net, **transform):
    """8 test batches of 34 are the 272 images of the test set."""
    return net.data("flowers17", 227, 16, 34, ROUND_MEAN, suffix=".h5", **transform)


def alexnet_flowers():
    name = "alexnet_flowers"
    net = Net("AlexNet_flowers", "AlexNet for the 17 classes of Oxford Flowers-17, to be trained from scratch: with\n"
              "pixels and fillers that keep to values near one and so learn faster than the published ones." + FLOWERS, xavier())
    alexnet_layers(net, flowers_data(net, scale=0.015625), 17, bias=0, full=xavier(), last="fc8_flowers",
                   last_filler=gaussian(0.001))
    net.write(name + "/train_val.prototxt")
    solver(name, "From scratch on two ranks: 1020 iterations of 32 images, 30 passes over 1088 photographs."
           + FLOWERS_COMMANDS % (name, ""), test_iter=8, test_interval=102, base_lr=0.005, momentum=0.9,
           weight_decay=0.0005, lr_policy="poly", power=1.0, display=34, average_loss=34,
           max_iter=1020, snapshot=1020, random_seed=1)


def squeezenet_flowers():
    name = "squeezenet_flowers"
    net = Net("SqueezeNet_flowers", "SqueezeNet v1.0 for the 17 classes of Oxford Flowers-17, to be fine-tuned: the layers have\n"
              "the names of its first release's weights, except the last, which learns ten times as fast and has no\n"
              "ReLU: a class whose scores it has cut off everywhere is never learnt again." + FLOWERS,
              xavier(), mult=False)
    squeezenet_layers(net, flowers_data(net), "1.0", FIRST_RELEASE[:3] + ("conv_flowers", "pool_final"), 17,
                      [Message(lr_mult=10), Message(lr_mult=20, decay_mult=0)], gaussian(0.001), last_relu=False)
    net.loss("pool_final", tops=(1,))
    net.write(name + "/train_val.prototxt")
    solver(name, "Fine-tuning on two ranks: 680 iterations of 32 images, 20 passes over 1088 photographs."
           + WEIGHTS + FLOWERS_COMMANDS % (name, ""), weights="squeezenet_v1.0.caffemodel", test_iter=8,
           test_interval=68, base_lr=0.0001, momentum=0.9, weight_decay=0.0002, lr_policy="poly", power=1.0,
           display=34, average_loss=34, max_iter=680, snapshot=680, random_seed=1)


PHOTOGRAPHS = """
For your own photographs: the only number to change is num_output of layer '%s', one for each class.
README.md beside this file has the commands. batch_size counts per rank."""


def photographs_squeezenet():
    net = Net("SqueezeNet_photographs", "SqueezeNet v1.0, to be fine-tuned: the layers have the names of its first release's weights, except\n"
              "the last, which learns ten times as fast." + PHOTOGRAPHS % "conv_photographs", xavier(), mult=False)
    data = net.data("photographs", 227, 16, 16, ROUND_MEAN, suffix=".h5", folder="", shuffle=True)
    squeezenet_layers(net, data, "1.0", FIRST_RELEASE[:3] + ("conv_photographs", "pool_final"), 17,
                      [Message(lr_mult=10), Message(lr_mult=20, decay_mult=0)], gaussian(0.001), last_relu=False)
    net.loss("pool_final", tops=(1,))
    net.write("photographs/squeezenet.prototxt")
    solver("photographs", "Fine-tuning on two ranks of 16 photographs each. --epochs=N of train takes the place of max_iter." + WEIGHTS,
           "squeezenet_solver.prototxt", "squeezenet.prototxt", weights="squeezenet_v1.0.caffemodel", test_iter=17, test_interval=68, base_lr=0.0001,
           momentum=0.9, weight_decay=0.0002, lr_policy="poly", power=1.0, display=34, average_loss=34,
           max_iter=340, snapshot=340, random_seed=1)


def photographs_small():
    net = Net("small_photographs", "A small net, to be trained from scratch: convolutions with BatchNorm, random resized crops and\n"
              "random colours." + PHOTOGRAPHS % "classes", msra(), mult=False)
    x = net.data("photographs", 224, 16, 16, ROUND_MEAN, suffix=".h5", folder="", scale=0.015625, shuffle=True,
                 train_only=dict(random_aspect_ratio_param=resized_crops(0.35), distort_param=colors(32, 0.6)))
    for n, (outputs, kernel, stride) in enumerate(((32, 7, 4), (64, 3, 1), (128, 3, 1), (256, 3, 1), (256, 3, 1)), 1):
        x = net.conv("conv%d" % n, x, outputs, kernel, stride, kernel // 2, bias=False)
        x = net.relu("relu%d" % n, net.norm("bn%d" % n, "scale%d" % n, x, fraction=0.95))
        if n < 4:
            x = net.pool("pool%d" % n, x, MAX, 2, 2)
    x = net.dropout("drop", net.global_pool("pool", x), 0.2)
    net.loss(net.fc("classes", x, 17, gaussian(0.01)), tops=(1,))
    net.write("photographs/small.prototxt")
    solver("photographs", "From scratch on two ranks of 16 photographs each. --epochs=N of train takes the place of max_iter.",
           "small_solver.prototxt", "small.prototxt", test_iter=17, test_interval=136, base_lr=0.05,
           momentum=0.9, weight_decay=0.0005, lr_policy="poly", power=1.0, display=34, average_loss=34,
           max_iter=1360, snapshot=1360, random_seed=1, snapshot_prefix="photographs_small")


def segmentation():
    net = Net("scenes", "A small net that finds, for each pixel, the item of Fashion-MNIST that it belongs to: 10 classes and the\n"
              "background. Four steps down, four up; each step up also sees what the step down of its size saw.\n"
              "README.md beside this file has the commands. batch_size counts per rank.", msra(), mult=False)
    for phase, batch, part in ((TRAIN, 8, "train"), (TEST, 20, "test")):
        net.layer("data", "ImageSegData", top=("data", "label"), include=Message(phase=phase),
                  transform_param=Message(mirror=True if phase == TRAIN else None, mean_value=list(ROUND_MEAN), scale=0.015625),
                  image_data_param=Message(source="scenes/%s.txt" % part, root_folder="scenes/", batch_size=batch,
                                           shuffle=True if phase == TRAIN else None, label_type=Word("PIXEL")))

    def conv(name, x, outputs):
        x = net.conv("conv_" + name, x, outputs, 3, pad=1, bias=False)
        return net.relu("relu_" + name, net.norm("bn_" + name, "scale_" + name, x, fraction=0.95))
    x, seen = "data", []
    for n, outputs in enumerate((16, 32, 64, 96), 1):
        seen.append((n, outputs, conv("down%d" % n, x, outputs)))
        x = net.pool("pool%d" % n, seen[-1][2], MAX, 2, 2)
    x = conv("deep2", conv("deep1", x, 128), 128)
    for n, outputs, blob in reversed(seen):
        x = conv("up%d" % n, net.concat("join%d" % n, net.deconv("enlarge%d" % n, x, outputs, 2, 2), blob), outputs)
    net.loss(net.conv("score", x, 11, 1), tops=(1,))
    net.write("segmentation/train_val.prototxt")
    solver("segmentation", "2000 iterations of 8 scenes, four passes over 4000.", test_iter=25, test_interval=2000, type="Adam", base_lr=0.002,
           momentum=0.9, momentum2=0.99, lr_policy="poly", power=1.0, display=100, average_loss=100, max_iter=2000,
           snapshot=2000, random_seed=1)


def alexnet_22k():
    """For plans: which net was trained on ImageNet-22K in 2015 was never released."""
    net = Net("AlexNet_22K", "AlexNet with a classifier of 21841 classes, ImageNet-22K." + IMAGENET, gaussian(0.01))
    x = net.data("imagenet22k", 227, 256, 50, mean_file="data/ilsvrc12-mean.binaryproto")
    alexnet_layers(net, x, 21841, last="fc8_22k")
    net.write("alexnet_22k/train_val.prototxt")


def nin():
    net = Net("NIN", "Network in Network (Lin et al., 2013) for ImageNet, as its authors published it for Caffe."
              + IMAGENET)
    x = net.data("ilsvrc12", 224, 64, 89, mean_file="data/ilsvrc12-mean.binaryproto")
    blocks = ((("conv1", 96, 11, 4, None, 0.01), ("cccp1", 96, 1, 1, None, 0.05), ("cccp2", 96, 1, 1, None, 0.05)),
              (("conv2", 256, 5, 1, 2, 0.05), ("cccp3", 256, 1, 1, None, 0.05), ("cccp4", 256, 1, 1, None, 0.05)),
              (("conv3", 384, 3, 1, 1, 0.01), ("cccp5", 384, 1, 1, None, 0.05), ("cccp6", 384, 1, 1, None, 0.05)),
              (("conv4-1024", 1024, 3, 1, 1, 0.05), ("cccp7-1024", 1024, 1, 1, None, 0.05),
               ("cccp8-1000", 1000, 1, 1, None, 0.01)))
    for b, block in enumerate(blocks):
        for layer, outputs, kernel, stride, pad, std in block:
            x = net.relu("relu_" + layer, net.conv(layer, x, outputs, kernel, stride, pad, filler=gaussian(std)))
        if b < 3:
            x = net.pool("pool%d" % (b + 1), x, MAX, 3, 2)
        if b == 2:
            x = net.dropout("drop", x)
    net.loss(net.global_pool("pool4", x), tops=(1,))
    net.write("nin/train_val.prototxt")
    solver("nin", "The authors' schedule; batches of 64 images.", test_iter=1000, test_interval=1000, base_lr=0.01,
           momentum=0.9, weight_decay=0.0005, lr_policy="step", gamma=0.1, stepsize=200000, display=20,
           max_iter=450000, snapshot=10000)


def googlenet():
    net = Net("GoogleNet", "GoogLeNet (Szegedy et al., 2014) as Caffe publishes it, with its three losses." + IMAGENET,
              xavier(), bias=0.2)

    def conv(name, bottom, *args, **more):
        top = net.conv(name, bottom, *args, **more)
        return net.relu(name.rsplit("/", 1)[0] + "/relu_" + name.rsplit("/", 1)[1], top)

    def inception(name, x, c1, c3r, c3, c5r, c5, proj):
        n = "inception_%s/" % name
        a = conv(n + "1x1", x, c1, 1)
        b = conv(n + "3x3", conv(n + "3x3_reduce", x, c3r, 1), c3, 3, pad=1)
        c = conv(n + "5x5", conv(n + "5x5_reduce", x, c5r, 1), c5, 5, pad=2)
        d = conv(n + "pool_proj", net.pool(n + "pool", x, MAX, 3, 1, 1), proj, 1)
        return net.concat(n + "output", a, b, c, d)

    def side(name, x):
        x = conv(name + "/conv", net.pool(name + "/ave_pool", x, AVE, 5, 3), 128, 1)
        x = net.relu(name + "/relu_fc", net.fc(name + "/fc", x, 1024))
        x = net.fc(name + "/classifier", net.dropout(name + "/drop_fc", x, 0.7), 1000, bias_value=0)
        net.loss(x, name + "/loss", 0.3, prefix=name + "/", top=name + "/loss1")
    x = net.data("ilsvrc12", 224, 32, 50, ROUND_MEAN)
    x = net.pool("pool1/3x3_s2", conv("conv1/7x7_s2", x, 64, 7, 2, 3), MAX, 3, 2)
    x = conv("conv2/3x3", conv("conv2/3x3_reduce", net.lrn("pool1/norm1", x), 64, 1), 192, 3, pad=1)
    x = net.pool("pool2/3x3_s2", net.lrn("conv2/norm2", x), MAX, 3, 2)
    x = inception("3a", x, 64, 96, 128, 16, 32, 32)
    x = inception("3b", x, 128, 128, 192, 32, 96, 64)
    x = inception("4a", net.pool("pool3/3x3_s2", x, MAX, 3, 2), 192, 96, 208, 16, 48, 64)
    side("loss1", x)
    x = inception("4b", x, 160, 112, 224, 24, 64, 64)
    x = inception("4c", x, 128, 128, 256, 24, 64, 64)
    x = inception("4d", x, 112, 144, 288, 32, 64, 64)
    side("loss2", x)
    x = inception("4e", x, 256, 160, 320, 32, 128, 128)
    x = inception("5a", net.pool("pool4/3x3_s2", x, MAX, 3, 2), 256, 160, 320, 32, 128, 128)
    x = inception("5b", x, 384, 192, 384, 48, 128, 128)
    x = net.dropout("pool5/drop_7x7_s1", net.pool("pool5/7x7_s1", x, AVE, 7, 1), 0.4)
    net.loss(net.fc("loss3/classifier", x, 1000, bias_value=0), "loss3/loss3", 1, prefix="loss3/", top="loss3/loss3")
    net.write("googlenet/train_val.prototxt")
    common = dict(test_iter=1000, test_interval=4000, test_initialization=False, display=40, average_loss=40,
                  base_lr=0.01, momentum=0.9, weight_decay=0.0002, snapshot=40000)
    solver("googlenet", "The schedule of the published solver, near the paper's: 4 % less every 320000 iterations\n"
           "of 32 images. quick_solver.prototxt takes a quarter of the time.", lr_policy="step", gamma=0.96,
           stepsize=320000, max_iter=10000000, **common)
    solver("googlenet", "The published quick schedule: 2400000 iterations of 32 images, 60 passes over ImageNet.",
           "quick_solver.prototxt", lr_policy="poly", power=0.5, max_iter=2400000, **common)


def vgg(depth, classes=1000, name=None):
    name = name or "vgg%d" % depth
    about = "VGG-%d (Simonyan and Zisserman, 2014)" % depth
    if classes != 1000:
        about += " with a classifier of %d classes, ImageNet-22K" % classes
    net = Net(name.upper(), about + "." + IMAGENET, xavier())
    x = net.data("ilsvrc12" if classes == 1000 else "imagenet22k", 224, 32, 25, VGG_MEAN)
    for block, (count, outputs) in enumerate(zip((2, 2, 3, 3, 3) if depth == 16 else (2, 2, 4, 4, 4),
                                                 (64, 128, 256, 512, 512)), 1):
        for i in range(1, count + 1):
            x = net.relu("relu%d_%d" % (block, i), net.conv("conv%d_%d" % (block, i), x, outputs, 3, pad=1))
        x = net.pool("pool%d" % block, x, MAX, 2, 2)
    for n in (6, 7):
        x = net.dropout("drop%d" % n, net.relu("relu%d" % n, net.fc("fc%d" % n, x, 4096)))
    net.loss(net.fc("fc8" if classes == 1000 else "fc8_22k", x, classes))
    net.write(name + "/train_val.prototxt")
    solver(name, "The paper's settings: batches of 256 images (8 ranks of 32), 370000 iterations, the rate cut to\n"
           "a tenth three times. When it was cut is not published; even steps are assumed.", test_iter=2000,
           test_interval=5000, test_initialization=False, display=20, average_loss=20, base_lr=0.01, momentum=0.9,
           weight_decay=0.0005, lr_policy="step", gamma=0.1, stepsize=100000, max_iter=370000, snapshot=10000)


def resnet(depth):
    name = "resnet%d" % depth
    net = Net("ResNet-%d" % depth, "ResNet-%d (He et al., 2015), with the layer names of its authors' weights."
              % depth + IMAGENET, msra(), mult=False)

    def branch(unit, number, x, outputs, kernel, stride, pad, relu=True):
        # "res2a_branch2a", "bn2a_branch2a", "scale2a_branch2a"
        tail = "%s_branch%s" % (unit, number)
        top = net.conv("res" + tail, x, outputs, kernel, stride, pad, bias=False)
        net.norm("bn" + tail, "scale" + tail, top)
        return net.relu("res%s_relu" % tail, top) if relu else top

    def unit(label, x, width, stride, project):
        short = branch(label, "1", x, 4 * width, 1, stride, 0, False) if project else x
        y = branch(label, "2a", x, width, 1, stride, 0)
        y = branch(label, "2c", branch(label, "2b", y, width, 3, 1, 1), 4 * width, 1, 1, 0, False)
        return net.relu("res%s_relu" % label, net.add("res" + label, short, y))

    x = net.data("ilsvrc12", 224, 32, 25, ROUND_MEAN, train_only=IMAGENET_TRAIN)
    # the authors' file for 50 layers has a bias in its first convolution, the others have none
    x = net.conv("conv1", x, 64, 7, 2, 3, bias=depth == 50)
    net.norm("bn_conv1", "scale_conv1", x)
    x = net.pool("pool1", net.relu("conv1_relu", x), MAX, 3, 2)
    for stage, (count, width) in enumerate(zip((3, 4, 6, 3) if depth == 50 else (3, 8, 36, 3),
                                               (64, 128, 256, 512)), 2):
        for i in range(count):
            letters = count <= 6  # "res3d", but "res3b7" in the deeper nets' long stages
            label = "%d%s" % (stage, chr(97 + i) if letters else "a" if i == 0 else "b%d" % i)
            x = unit(label, x, width, 2 if stage > 2 and i == 0 else 1, i == 0)
    net.loss(net.fc("fc1000", net.pool("pool5", x, AVE, 7, 1), 1000))
    net.write(name + "/train_val.prototxt")
    solver(name, "The paper's settings: batches of 256 images (8 ranks of 32), up to 600000 iterations, the rate\n"
           "cut to a tenth where the error stopped falling; even steps are assumed.", test_iter=2000,
           test_interval=5000, test_initialization=False, display=20, average_loss=20, base_lr=0.1, momentum=0.9,
           weight_decay=0.0001, lr_policy="multistep", gamma=0.1, stepvalue=[150000, 300000, 450000],
           max_iter=600000, snapshot=10000)


def resnet20_cifar10():
    net = Net("resnet20_cifar10", "ResNet-20 for CIFAR-10 (He et al., 2015, section 4.2), with projections where the\n"
              "size changes. Trained as in the paper: images padded by 4 zeros on every side, random crops of 32\n"
              "pixels and mirror images; tested on the whole image. \"poseidon help convert\" says how the files\n"
              "in data/ are made. The batch counts per rank: 64 on two ranks are the paper's 128. A solver with the stage\n"
              "\"recipe\", such as solver_recipe.prototxt, smooths the labels.", msra())
    mean = [125.307, 122.95, 113.865]
    net.layer("Data1", "Data", top=("data", "label"), include=Message(phase=TRAIN),
              transform_param=Message(mirror=True, crop_size=32, mean_value=mean),
              data_param=Message(source="data/cifar10-train-pad4.h5", batch_size=64, backend=LMDB))
    net.layer("Data1", "Data", top=("data", "label"), include=Message(phase=TEST),
              transform_param=Message(crop_size=32, mean_value=mean),
              data_param=Message(source="data/cifar10-test.h5", batch_size=100, backend=LMDB))
    count = {}

    def number(kind):
        count[kind] = count.get(kind, 0) + 1
        return "%s%d" % (kind, count[kind])

    def conv(x, outputs, kernel, stride, relu=True):
        x = net.conv(number("Convolution"), x, outputs, kernel, stride, kernel // 2)
        net.norm(number("BatchNorm"), number("Scale"), x, fraction=0.99)
        return net.relu(number("ReLU"), x) if relu else x
    x = conv("data", 16, 3, 1)
    for stage, width in enumerate((16, 32, 64)):
        for block in range(3):
            grow = stage > 0 and block == 0
            short = conv(x, width, 1, 2, False) if grow else x
            y = conv(conv(x, width, 3, 2 if grow else 1), width, 3, 1, False)
            x = net.relu(number("ReLU"), net.add(number("Eltwise"), short, y))
    x = net.fc("InnerProduct1", net.global_pool("Pooling1", x), 10)
    net.layer("loss", "SoftmaxWithLoss", (x, "label"), include=Message(stage="recipe"),
              loss_param=Message(label_smoothing=0.1))
    net.loss(x, tops=(1,), include=Message(not_stage="recipe"))
    net.write("resnet20_cifar10/train_val.prototxt")
    solver("resnet20_cifar10", "The paper's schedule: 64000 iterations of 128 images, the rate cut at 32000 and 48000.",
           test_iter=100, test_interval=1000, base_lr=0.1, momentum=0.9, weight_decay=0.0001, lr_policy="multistep",
           gamma=0.1, stepvalue=[32000, 48000], display=100, max_iter=64000, snapshot=8000, random_seed=1)


FAST = """
A net for CIFAR-10 in sixteen epochs, after airbench94 (Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", 2024):
convolutions that begin as identities, behind a first one that whitens patches of 2 x 2 pixels and is never trained; BatchNorm
whose factors stay 1 and whose offsets learn 64 times as fast; pooling that overlaps, since ours rounds up; smoothed labels;
crops that shift by up to 2 pixels; tests that average the scores of an image at three places, and of its mirror images. The
solver has the commands. batch_size counts per rank: 512 on one rank."""
FAST_SOLVER = """
Sixteen epochs of 512 images an iteration:

    python3 tools/make_sets.py cifar10 cifar-10-batches-bin data/cifar10-train-pad2.h5 --pad=2 --reflect
    python3 tools/make_sets.py cifar10 cifar-10-batches-bin data/cifar10-test-pad1.h5 --split=test --pad=1 --reflect
    python3 tools/first_weights.py models/cifar10_fast/train_val.prototxt data/cifar10-train-pad2.h5 cifar10_fast_first.caffemodel.h5
    poseidon train --solver=models/cifar10_fast/solver.prototxt

Seeds 1 to 3 ended at 94.21, 94.27 and 94.40 % (docs/curves/cifar10_fast), by one view at 93.31, 93.55 and 93.58 %; seed 2 on two
ranks, by --global-batch=512 --sync-bn. Two idle cores train 560 images/s with AVX-512, 420 with AVX2. With borders in the mean
colour, mirrors drawn anew for each sample and tests of two views, seed 1 ended at 93.88 %, 93.24 % by one view; after ten epochs
(977 iterations, warmup_iter 225) at 93.55 and 92.80 %. A moving average of the weights (average_decay 0.97) had 90.16 % after five
epochs, where the weights had 85.61 %, and no more at the end. Trainings of one epoch, tested on 5,000 images: 78.9 %; 70.0 % with
the fillers' weights; 78.2 % with offsets that learn like weights; 77.9 % at twice the rate."""


def cifar10_fast():
    net = Net("cifar10_fast", FAST, mult=False)
    mean = [125.307, 122.95, 113.865]
    net.layer("data", "Data", top=("data", "label"), include=Message(phase=TRAIN),
              transform_param=Message(mirror=True, crop_size=32, mean_value=mean, scale=0.016),
              data_param=Message(source="data/cifar10-train-pad2.h5", batch_size=512, shuffle=True))
    # tests score each image at three places, and its mirror images, columns in reverse
    test, tanh, columns = Message(phase=TEST), Message(approximate=True), ["column%d" % n for n in range(32)]
    views = [("middle", 1), ("upper_left", 0), ("lower_right", 2)]
    net.layer("images", "Data", top=("images", "label"), include=test, transform_param=Message(mean_value=mean, scale=0.016),
              data_param=Message(source="data/cifar10-test-pad1.h5", batch_size=100))
    # five axes: no image, whose size --input-shape would set
    net.layer("size", "DummyData", top="size", include=test, dummy_data_param=Message(shape=Message(dim=[1, 1, 32, 32, 1])))
    for view, offset in views:
        net.layer(view, "Crop", ("images", "size"), view, include=test, crop_param=Message(axis=2, offset=offset))
    net.layer("views", "Concat", [view for view, _ in views], "views", include=test, concat_param=Message(axis=0))
    net.layer("columns", "Slice", "views", columns, include=test, slice_param=Message(axis=3))
    net.layer("mirrored", "Concat", columns[::-1], include=test, concat_param=Message(axis=3))
    net.layer("data", "Concat", ("views", "mirrored"), include=test, concat_param=Message(axis=0))
    net.params = [Message(lr_mult=0, decay_mult=0)]
    x = net.layer("gelu0", "GELU", net.conv("whiten", "data", 24, 2, bias=False, filler=msra()), gelu_param=tanh)
    net.params = []
    for n, (outputs, pool) in enumerate(((64, True), (64, False), (256, True), (256, False), (256, True), (256, False)), 1):
        x = net.conv("conv%d" % n, x, outputs, 3, pad=1, bias=False, filler=msra())
        if pool:
            x = net.pool("pool%d" % n, x, MAX, 3, 2)
        net.layer("bn%d" % n, "BatchNorm", x, x, batch_norm_param=Message(moving_average_fraction=0.8, eps=1e-05))
        net.layer("scale%d" % n, "Scale", x, x, param=[Message(lr_mult=0, decay_mult=0), Message(lr_mult=64, decay_mult=0.015625)],
                  scale_param=Message(bias_term=True))
        x = net.layer("gelu%d" % n, "GELU", x, gelu_param=tanh)
    x = net.pool("pool", x, MAX, 3)
    x = net.layer("head", "InnerProduct", x, inner_product_param=Message(
        num_output=10, bias_term=False, weight_filler=Message(type="uniform", min=-0.0625, max=0.0625)))
    x = net.layer("scores", "Power", x, power_param=Message(scale=0.1111))
    net.layer("loss", "SoftmaxWithLoss", (x, "label"), include=Message(phase=TRAIN), loss_param=Message(label_smoothing=0.2))
    scores = [view + "_scores" for view, _ in views]
    scores += ["mirrored_" + view for view in scores]
    net.layer("apart", "Slice", x, scores, include=test, slice_param=Message(axis=0))
    net.layer("all", "Eltwise", scores, include=test, eltwise_param=Message(coeff=[0.25, 0.125, 0.125] * 2))
    net.layer("loss", "SoftmaxWithLoss", ("all", "label"), include=test)
    net.layer("accuracy", "Accuracy", ("all", "label"), include=test)
    net.layer("accuracy_one_view", "Accuracy", (scores[0], "label"), include=test)
    net.write("cifar10_fast/train_val.prototxt")
    solver("cifar10_fast", FAST_SOLVER, weights="cifar10_fast_first.caffemodel.h5", type="Nesterov", test_iter=100, test_interval=391,
           test_initialization=False, base_lr=0.9, momentum=0.85, weight_decay=0.00133, lr_policy="poly", power=1.0, warmup_iter=360,
           warmup_start_lr=0.18, display=98, average_loss=98, max_iter=1563, snapshot=1563, snapshot_format=Word("HDF5"), random_seed=1)


FIRST_RELEASE = ("conv1x1_1", "conv1x1_2", "conv3x3_2", "conv_final", "pool_final")


def squeezenet_layers(net, x, version, names, outputs=1000, last_params=(),
                      last_filler=gaussian(0.01), last_relu=True):
    """names: of a fire module's three convolutions, of the last one and of the last pooling."""
    squeeze, expand1, expand3, last_conv, last_pool = names

    def conv(name, *args, **more):
        top = net.conv(name, *args, **more)
        head, tail = name.rpartition("/")[::2]
        return net.relu("%s%srelu_%s" % (head, "/" if head else "", tail), top)

    def fire(n, x, few, many):
        f = "fire%d/" % n
        x = conv(f + squeeze, x, few, 1)
        return net.concat(f + "concat", conv(f + expand1, x, many, 1), conv(f + expand3, x, many, 3, pad=1))
    x = conv("conv1", x, 96 if version == "1.0" else 64, 7 if version == "1.0" else 3, 2)
    x = net.pool("pool1", x, MAX, 3, 2)
    pools = (4, 8) if version == "1.0" else (3, 5)
    for n, (few, many) in enumerate(zip((16, 16, 32, 32, 48, 48, 64, 64), (64, 64, 128, 128, 192, 192, 256, 256)), 2):
        x = fire(n, x, few, many)
        if n in pools:
            x = net.pool("pool%d" % n, x, MAX, 3, 2)
    x = net.dropout("drop9", x)
    net.params = list(last_params)
    x = (conv if last_relu else net.conv)(last_conv, x, outputs, 1, filler=last_filler)
    return net.global_pool(last_pool, x)


OFFICIAL = ("squeeze1x1", "expand1x1", "expand3x3", "conv10", "pool10")


def squeezenet(version):
    name = "squeezenet_v" + version
    net = Net("SqueezeNet_v" + version, "SqueezeNet v%s (Iandola et al., 2016) as its authors published it." % version
              + IMAGENET, xavier(), mult=False)
    x = squeezenet_layers(net, net.data("ilsvrc12", 227, 32, 25, ROUND_MEAN), version, OFFICIAL)
    net.loss(x)
    net.write(name + "/train_val.prototxt")
    solver(name, "The authors' schedule: 170000 iterations of 512 images (16 micro-batches of 32).", test_iter=2000,
           test_interval=1000, test_initialization=False, display=40, average_loss=40, base_lr=0.04, momentum=0.9,
           weight_decay=0.0002, lr_policy="poly", power=1.0, iter_size=16, max_iter=170000, snapshot=1000,
           random_seed=42)
    if version == "1.0":
        net = Net("FireNet", "SqueezeNet v1.0 for classifying, with the layer names of its first release's weights.\n"
                  "Pixels less 104, 117, 123 (BGR), crops of 227.", mult=False)
        net.layer("data", "Input", top="data",
                  input_param=Message(shape=Message(dim=[1, 3, 227, 227])))
        x = squeezenet_layers(net, "data", version, FIRST_RELEASE)
        net.layer("prob", "Softmax", x)
        net.write(name + "/firenet.prototxt")


def mobilenet():
    net = Net("MobileNet_v1", "MobileNet v1 (Howard et al., 2017), with the layer names of the widely used Caffe\n"
              "weights." + IMAGENET, msra(), mult=False)

    def conv(name, x, outputs, kernel, stride, pad, group=None):
        x = net.conv(name, x, outputs, kernel, stride, pad, group, bias=False)
        net.norm(name + "/bn", name + "/scale", x)
        return net.relu("relu" + name[4:], x)
    x = net.data("ilsvrc12", 224, 32, 25, VGG_MEAN, scale=0.017)
    x = conv("conv1", x, 32, 3, 2, 1)
    channels = 32
    steps = (("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2), ("4_1", 256, 1), ("4_2", 512, 2),
             ("5_1", 512, 1), ("5_2", 512, 1), ("5_3", 512, 1), ("5_4", 512, 1), ("5_5", 512, 1), ("5_6", 1024, 2),
             ("6", 1024, 1))
    for label, outputs, stride in steps:
        x = conv("conv%s/dw" % label, x, channels, 3, stride, 1, channels)
        x = conv("conv%s/sep" % label, x, outputs, 1, 1, 0)
        channels = outputs
    net.loss(net.conv("fc7", net.global_pool("pool6", x), 1000, 1))
    net.write("mobilenet_v1/train_val.prototxt")
    solver("mobilenet_v1", "The paper trains with RMSProp without saying its numbers; these are the usual ones for this\n"
           "net: batches of 256 images (8 ranks of 32), 120 passes over ImageNet, momentum, a falling rate.",
           test_iter=2000, test_interval=5000, test_initialization=False, display=20, average_loss=20, base_lr=0.1,
           momentum=0.9, weight_decay=4e-05, lr_policy="poly", power=1.0, max_iter=600000, snapshot=10000)


def inception_v3():
    net = Net("Inception_v3", "Inception-v3 (Szegedy et al., 2015) with its auxiliary classifier. The paper smooths the\n"
              "labels as well, for which Caffe has no layer." + IMAGENET, xavier(), mult=False)

    def conv(name, x, outputs, kernel, stride=1, pad=0):
        x = net.conv(name, x, outputs, kernel, stride, pad, bias=False)
        net.norm(name + "/bn", name + "/scale", x, eps=0.001)
        return net.relu(name + "/relu", x)

    def pool3(name, x):
        return net.pool(name, x, AVE, 3, 1, 1)

    def block_a(n, x, features):
        n += "/"
        a = conv(n + "1x1", x, 64, 1)
        b = conv(n + "5x5", conv(n + "5x5_reduce", x, 48, 1), 64, 5, pad=2)
        c = conv(n + "3x3_1", conv(n + "3x3_reduce", x, 64, 1), 96, 3, pad=1)
        c = conv(n + "3x3_2", c, 96, 3, pad=1)
        return net.concat(n + "output", a, b, c, conv(n + "pool_proj", pool3(n + "pool", x), features, 1))

    def block_b(n, x):
        n += "/"
        a = conv(n + "3x3", x, 384, 3, 2)
        b = conv(n + "3x3dbl_1", conv(n + "3x3dbl_reduce", x, 64, 1), 96, 3, pad=1)
        return net.concat(n + "output", a, conv(n + "3x3dbl_2", b, 96, 3, 2), net.pool(n + "pool", x, MAX, 3, 2))

    def chain(n, x, steps):
        for label, outputs, kernel in steps:
            pad = (kernel[0] // 2, kernel[1] // 2) if isinstance(kernel, tuple) else kernel // 2
            x = conv(n + label, x, outputs, kernel, 1, pad)
        return x

    def block_c(n, x, c7):
        n += "/"
        a = conv(n + "1x1", x, 192, 1)
        b = chain(n, x, (("7x7_reduce", c7, 1), ("1x7", c7, (1, 7)), ("7x1", 192, (7, 1))))
        c = chain(n, x, (("7x7dbl_reduce", c7, 1), ("7x1_1", c7, (7, 1)), ("1x7_1", c7, (1, 7)),
                         ("7x1_2", c7, (7, 1)), ("1x7_2", 192, (1, 7))))
        return net.concat(n + "output", a, b, c, conv(n + "pool_proj", pool3(n + "pool", x), 192, 1))

    def block_d(n, x):
        n += "/"
        a = conv(n + "3x3", conv(n + "3x3_reduce", x, 192, 1), 320, 3, 2)
        b = chain(n, x, (("7x7_reduce", 192, 1), ("1x7", 192, (1, 7)), ("7x1", 192, (7, 1))))
        return net.concat(n + "output", a, conv(n + "7x7_3x3", b, 192, 3, 2), net.pool(n + "pool", x, MAX, 3, 2))

    def block_e(n, x):
        n += "/"
        a = conv(n + "1x1", x, 320, 1)
        b = conv(n + "3x3_reduce", x, 384, 1)
        c = chain(n, x, (("3x3dbl_reduce", 448, 1), ("3x3dbl", 384, 3)))
        split = [conv(n + label, bottom, 384, kernel, 1, (kernel[0] // 2, kernel[1] // 2))
                 for label, bottom, kernel in (("1x3", b, (1, 3)), ("3x1", b, (3, 1)),
                                               ("1x3dbl", c, (1, 3)), ("3x1dbl", c, (3, 1)))]
        return net.concat(n + "output", a, *split, conv(n + "pool_proj", pool3(n + "pool", x), 192, 1))

    x = net.data("ilsvrc12", 299, 32, 25, (128,), scale=0.0078125, train_only=IMAGENET_TRAIN)
    x = conv("conv2_3x3", conv("conv1_3x3", conv("conv1_3x3_s2", x, 32, 3, 2), 32, 3), 64, 3, pad=1)
    x = conv("conv4_3x3", conv("conv3_1x1", net.pool("pool1_3x3_s2", x, MAX, 3, 2), 80, 1), 192, 3)
    x = net.pool("pool2_3x3_s2", x, MAX, 3, 2)
    for label, features in (("a1", 32), ("a2", 64), ("a3", 64)):
        x = block_a("inception_" + label, x, features)
    x = block_b("reduction_a", x)
    for label, c7 in (("b1", 128), ("b2", 160), ("b3", 160), ("b4", 192)):
        x = block_c("inception_" + label, x, c7)
    y = conv("auxiliary/1x1", net.pool("auxiliary/pool", x, AVE, 5, 3), 128, 1)
    y = net.fc("auxiliary/classifier", conv("auxiliary/5x5", y, 768, 5), 1000, gaussian(0.001))
    net.loss(y, "auxiliary/loss", 0.4, tops=())
    x = block_d("reduction_b", x)
    for label in ("c1", "c2"):
        x = block_e("inception_" + label, x)
    x = net.dropout("drop", net.pool("pool3_8x8_s1", x, AVE, 8, 1), 0.5)
    net.loss(net.fc("classifier", x, 1000))
    net.write("inception_v3/train_val.prototxt")
    solver("inception_v3", "The paper's settings for 50 replicas of 32 images: RMSProp with decay 0.9 and epsilon 1, a\n"
           "rate of 0.045 that falls by 6 % every two passes over ImageNet (1602 iterations of 1600 images),\n"
           "gradients clipped at 2.", test_iter=2000, test_interval=5000, test_initialization=False, display=20,
           average_loss=20, type="RMSProp", rms_decay=0.9, delta=1.0, base_lr=0.045, weight_decay=4e-05,
           lr_policy="step", gamma=0.94, stepsize=1602, clip_gradients=2.0, max_iter=80100, snapshot=5000)


MODELS = {
    "cifar10_full": cifar10_full,
    "alexnet": alexnet,
    "caffenet": lambda: alexnet(True),
    "alexnet_22k": alexnet_22k,
    "nin": nin,
    "googlenet": googlenet,
    "vgg16": lambda: vgg(16),
    "vgg19": lambda: vgg(19),
    "vgg19_22k": lambda: vgg(19, 21841, "vgg19_22k"),
    "inception_v3": inception_v3,
    "resnet50": lambda: resnet(50),
    "resnet152": lambda: resnet(152),
    "cifar10_fast": cifar10_fast,
    "resnet20_cifar10": resnet20_cifar10,
    "squeezenet_v1.0": lambda: squeezenet("1.0"),
    "squeezenet_v1.1": lambda: squeezenet("1.1"),
    "alexnet_flowers": alexnet_flowers,
    "squeezenet_flowers": squeezenet_flowers,
    "mobilenet_v1": mobilenet,
    "photographs_small": photographs_small,
    "photographs_squeezenet": photographs_squeezenet,
    "segmentation": segmentation,
}

for chosen in sys.argv[1:] or MODELS:
    MODELS[chosen]()
