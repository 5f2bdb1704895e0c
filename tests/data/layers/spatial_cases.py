"""Convolution and pooling over one and three spatial axes. Where PyTorch's own
pooling has Caffe's sizes and divisors, the loops of operators.py are held against it."""
import torch
import torch.nn.functional as F

from salted_case import Case, Values, layer, simple, weigh
from operators import pool, pool_mask

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSES = {1: F.conv_transpose1d, 3: F.conv_transpose3d}
MAXIMA = {1: F.max_pool1d, 3: F.max_pool3d}
AVERAGES = {1: F.avg_pool1d, 3: F.avg_pool3d}


def conv(name, more, x, out, weight, **options):
    axes = len(x) - 2
    simple("convolution over %d axes, %s" % (axes, name), "Convolution",
           "convolution_param { num_output: %d %s }" % (out[1], more), Values("x", x), out,
           lambda x, w, b: CONVOLUTIONS[axes](x, w, b, **options), [weight, out[1:2]])


def convolutions():
    conv("plain", "kernel_size: 3", (2, 3, 9), (2, 4, 7), (4, 3, 3))
    conv("padding and stride", "kernel_size: 5 stride: 2 pad: 2", (2, 2, 11), (2, 3, 6), (3, 2, 5),
         stride=2, padding=2)
    conv("dilated", "kernel_size: [3] dilation: [2] pad: [1]", (1, 2, 8), (1, 3, 6), (3, 2, 3),
         dilation=2, padding=1)
    conv("groups", "kernel_size: 2 group: 2", (2, 4, 6), (2, 6, 5), (6, 2, 2), groups=2)
    conv("depthwise", "kernel_size: 3 group: 6 pad: 1", (2, 6, 5), (2, 6, 5), (6, 1, 3), groups=6,
         padding=1)
    conv("whole blocks of channels", "kernel_size: 3 pad: 1", (2, 16, 5), (2, 8, 5), (8, 16, 3),
         padding=1)
    conv("plain", "kernel_size: 3", (1, 2, 4, 5, 3), (1, 3, 2, 3, 1), (3, 2, 3, 3, 3))
    conv("padding and stride", "kernel_size: 3 stride: 2 pad: 1", (2, 2, 4, 5, 3), (2, 3, 2, 3, 2),
         (3, 2, 3, 3, 3), stride=2, padding=1)
    conv("each axis its own", "kernel_size: [1, 2, 3] stride: [2, 1, 1] pad: [0, 1, 2] "
         "dilation: [1, 2, 1]", (1, 2, 5, 3, 4), (1, 2, 3, 3, 6), (2, 2, 1, 2, 3),
         stride=(2, 1, 1), padding=(0, 1, 2), dilation=(1, 2, 1))
    conv("groups", "kernel_size: 2 group: 2", (1, 4, 2, 3, 3), (1, 4, 1, 2, 2), (4, 2, 2, 2, 2),
         groups=2)
    conv("depthwise", "kernel_size: [2, 1, 2] group: 8", (1, 8, 3, 2, 2), (1, 8, 2, 2, 1),
         (8, 1, 2, 1, 2), groups=8)
    conv("whole blocks of channels", "kernel_size: [2, 1, 2] pad: [1, 0, 0]", (1, 16, 2, 2, 3),
         (1, 8, 3, 2, 2), (8, 16, 2, 1, 2), padding=(1, 0, 0))
    conv("one pixel, with a stride", "kernel_size: 1 stride: [1, 2, 2]", (1, 8, 2, 3, 4),
         (1, 5, 2, 2, 2), (5, 8, 1, 1, 1), stride=(1, 2, 2))


def transpose(name, more, x, out, weight, **options):
    axes = len(x) - 2
    simple("deconvolution over %d axes, %s" % (axes, name), "Deconvolution",
           "convolution_param { num_output: %d %s }" % (out[1], more), Values("x", x), out,
           lambda x, w, b: TRANSPOSES[axes](x, w, b, **options), [weight, out[1:2]])


def columns(name, more, x, out, kernel, **options):
    """Im2col: a convolution whose every weight picks one pixel of one channel."""
    taps = torch.Size(kernel).numel()
    pick = torch.eye(taps, dtype=torch.float64).reshape(taps, 1, *kernel).repeat(
        x[1], *[1] * (1 + len(kernel)))
    simple("im2col over %d axes, %s" % (len(kernel), name), "Im2col",
           "convolution_param { %s }" % more, Values("x", x), out,
           lambda x: CONVOLUTIONS[len(kernel)](x, pick, groups=x.shape[1], **options))


def transposes():
    transpose("with groups", "kernel_size: 4 stride: 2 pad: 1 group: 2", (2, 4, 5), (2, 6, 10),
              (4, 3, 4), stride=2, padding=1, groups=2)
    transpose("each axis its own", "kernel_size: [2, 3, 1] stride: [1, 2, 2] pad: [0, 1, 0] "
              "dilation: [2, 1, 1]", (1, 3, 2, 3, 2), (1, 2, 4, 5, 3), (3, 2, 2, 3, 1),
              stride=(1, 2, 2), padding=(0, 1, 0), dilation=(2, 1, 1))
    columns("padded", "kernel_size: 3 pad: 1 stride: 2", (2, 3, 6), (2, 9, 3), (3,), padding=1,
            stride=2)
    columns("each axis its own", "kernel_size: [1, 2, 3] dilation: [1, 2, 1] pad: [0, 1, 0]",
            (1, 2, 2, 3, 4), (1, 12, 2, 3, 2), (1, 2, 3), padding=(0, 1, 0), dilation=(1, 2, 1))


def pooling(name, more, x, out, k, s, p, known=True, floor=False):
    axes = len(x) - 2

    def check(x, method):
        y = pool(x, method, k, s, p, not floor)
        if known and method == "MAX":
            assert torch.equal(y, MAXIMA[axes](x, k, s, p, ceil_mode=not floor))
        elif known:
            torch.testing.assert_close(y, AVERAGES[axes](x, k, s, p, ceil_mode=not floor))
        return y

    for method in ("MAX", "AVE"):
        simple("pooling over %d axes, %s %s" % (axes, method, name), "Pooling",
               "pooling_param { pool: %s %s }" % (method, more), Values("x", x, "DISTINCT"), out,
               lambda x, method=method: check(x, method))


def poolings():
    pooling("rounds up", "kernel_size: 3 stride: 2", (2, 3, 10), (2, 3, 5), (3,), (2,), (0,))
    pooling("with padding", "kernel_size: 3 stride: 2 pad: 1", (2, 8, 9), (2, 8, 5), (3,), (2,), (1,))
    pooling("global", "global_pooling: true", (2, 3, 7), (2, 3, 1), (7,), (1,), (0,))
    pooling("of C3D", "kernel_size: [1, 2, 2] stride: [1, 2, 2]", (1, 3, 2, 4, 6), (1, 3, 2, 2, 3),
            (1, 2, 2), (1, 2, 2), (0, 0, 0))
    pooling("rounds up", "kernel_size: 2 stride: 2", (1, 2, 3, 5, 4), (1, 2, 2, 3, 2), (2, 2, 2),
            (2, 2, 2), (0, 0, 0))
    pooling("round_mode FLOOR", "kernel_size: 2 stride: 2 round_mode: FLOOR", (1, 2, 3, 5, 4),
            (1, 2, 1, 2, 2), (2, 2, 2), (2, 2, 2), (0, 0, 0), floor=True)
    pooling("with padding", "kernel_size: 3 stride: 2 pad: 1", (1, 2, 3, 4, 5), (1, 2, 2, 3, 3),
            (3, 3, 3), (2, 2, 2), (1, 1, 1))
    # padding on one axis makes all drop their last window there: Caffe's rule, not PyTorch's
    pooling("each axis its own", "kernel_size: [3, 2, 1] stride: [1, 2, 3] pad: [2, 1, 0]",
            (1, 2, 3, 3, 4), (1, 2, 5, 2, 2), (3, 2, 1), (1, 2, 3), (2, 1, 0), known=False)
    pooling("global", "global_pooling: true", (2, 3, 2, 3, 2), (2, 3, 1, 1, 1), (2, 3, 2), (1, 1, 1),
            (0, 0, 0))

    def mask(t):
        k, s, p = (2, 3, 2), (1, 2, 2), (0, 1, 0)
        y = pool(t["x"], "MAX", k, s, p)
        return {"y": y, "mask": pool_mask(t["x"], k, s, p)}, (y * t["r"]).sum()

    Case("pooling over 3 axes, MAX with the places of the maxima",
         layer("Pooling", "x", "y mask",
               "pooling_param { kernel_size: [2, 3, 2] stride: [1, 2, 2] pad: [0, 1, 0] }") +
         weigh("y"), [Values("x", (2, 2, 3, 4, 4), "DISTINCT"), Values("r", (2, 2, 2, 3, 2))], [],
         mask)


def cv(n, more):
    return "convolution_param { num_output: %d %s }" % (n, more)


def nets():
    """Layers of all kinds between convolutions, so that the formats of volumes and lines meet."""
    def volumes(t):
        h = F.relu(F.conv3d(t["x"], t["p0"], t["p1"], padding=1))
        a = pool(h, "MAX", (1, 2, 2), (1, 2, 2), (0, 0, 0))
        b = F.conv3d(h, t["p2"], None, stride=(1, 2, 2))
        c = torch.cat([a, b], 1)
        d = F.conv3d(c, t["p3"], t["p4"], padding=(0, 1, 1), groups=2) + b
        e = d * t["p5"].reshape(1, -1, 1, 1, 1)
        f = torch.cat([e[:, :4], torch.tanh(e[:, 4:])], 1)
        g = pool(f, "AVE", (3, 2, 2), (1, 1, 1), (0, 0, 0))
        y = F.linear(g.reshape(g.shape[0], -1), t["p6"], t["p7"])
        return {"d": d, "y": y}, (y * t["r"]).sum()

    Case("a net over volumes, as C3D begins",
         layer("Convolution", "x", "h", cv(8, "kernel_size: 3 pad: 1")) +
         layer("ReLU", "h", "h", "", "rh") +
         layer("Pooling", "h", "a", "pooling_param { kernel_size: [1, 2, 2] stride: [1, 2, 2] }") +
         layer("Convolution", "h", "b",
               cv(8, "kernel_size: 1 stride: [1, 2, 2] bias_term: false")) +
         layer("Concat", "a b", "c") +
         layer("Convolution", "c", "u", cv(8, "kernel_size: [1, 3, 3] pad: [0, 1, 1] group: 2")) +
         layer("Eltwise", "u b", "d") + layer("Scale", "d", "e", "", "scale") +
         layer("Slice", "e", "e1 e2", "", "slice") + layer("TanH", "e2", "e3") +
         layer("Concat", "e1 e3", "f") +
         layer("Pooling", "f", "g", "pooling_param { pool: AVE global_pooling: true }") +
         layer("InnerProduct", "g", "y", "inner_product_param { num_output: 3 }") + weigh("y"),
         [Values("x", (2, 2, 3, 4, 4)), Values("r", (2, 3))],
         {"h": [(8, 2, 3, 3, 3), (8,)], "b": [(8, 8, 1, 1, 1)], "u": [(8, 8, 1, 3, 3), (8,)],
          "scale": [(8,)], "y": [(3, 8), (3,)]},
         volumes)

    def lines(t):
        h = F.relu(F.conv1d(t["x"], t["p0"], t["p1"]))
        a = pool(F.conv1d(h, t["p2"], t["p3"], padding=1), "MAX", (8,), (1,), (0,))
        b = pool(F.conv1d(h, t["p4"], t["p5"], padding=2), "AVE", (8,), (1,), (0,))
        f = torch.cat([a, b], 1).reshape(t["x"].shape[0], -1)
        return {"f": f}, (f * t["r"]).sum()

    Case("a net over lines, as those that read sentences",
         layer("Convolution", "x", "h", cv(8, "kernel_size: 3")) + layer("ReLU", "h", "h", "", "rh") +
         layer("Convolution", "h", "c3", cv(8, "kernel_size: 3 pad: 1")) +
         layer("Convolution", "h", "c5", cv(5, "kernel_size: 5 pad: 2")) +
         layer("Pooling", "c3", "a", "pooling_param { global_pooling: true }") +
         layer("Pooling", "c5", "b", "pooling_param { pool: AVE global_pooling: true }") +
         layer("Concat", "a b", "c") + layer("Flatten", "c", "f") + weigh("f"),
         [Values("x", (2, 4, 10)), Values("r", (2, 13))],
         {"h": [(8, 4, 3), (8,)], "c3": [(8, 8, 3), (8,)], "c5": [(5, 8, 5), (5,)]}, lines)


def spatial():
    convolutions()
    transposes()
    poolings()
    nets()
