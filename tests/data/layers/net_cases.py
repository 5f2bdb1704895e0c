"""Cases of nets: what only shows where layers meet."""
import torch
import torch.nn.functional as F

from operators import linear, lrn_across, lrn_within, pool, softmax_loss
from salted_case import Case, Values, layer, weigh


def param(*names, **fields):
    more = " ".join("%s: %s" % item for item in fields.items())
    return " ".join("param { name: '%s' %s }" % (n, more) if n else "param { %s }" % more
                    for n in names)


def nets():
    """What only shows in nets: sharing, splits, work in place, several losses, formats."""
    def shared(t):
        a = linear(t["x"], t["p0"], t["p1"])
        b = linear(F.relu(a), t["p0"], t["p1"])
        c = linear(b, t["p0"], t["p1"])
        return {"c": c}, (c * t["r"]).sum()

    ip = "inner_product_param { num_output: 5 } "
    Case("three layers share weight and bias by name",
         layer("InnerProduct", "x", "a", ip + param("w", "b")) + layer("ReLU", "a", "a", name="ra") +
         layer("InnerProduct", "a", "b", ip + param("w", "b")) +
         layer("InnerProduct", "b", "c", ip + param("w", "b")) + weigh("c"),
         [Values("x", (3, 5)), Values("r", (3, 5))], [(5, 5), (5,)], shared)

    def shared_conv(t):
        a, b = F.conv2d(t["x"], t["p0"], t["p1"], padding=1), F.conv2d(t["x"], t["p0"], t["p2"],
                                                                       padding=1)
        return {"a": a, "b": b}, (a * t["r"]).sum() + (b * t["r2"]).sum()

    cv = "convolution_param { num_output: 8 kernel_size: 3 pad: 1 } "
    Case("two convolutions of one blob share the weight, not the bias",
         layer("Convolution", "x", "a", cv + param("w", "")) +
         layer("Convolution", "x", "b", cv + param("w", "")) + weigh("a") + weigh("b", "r2"),
         [Values("x", (1, 2, 4, 4)), Values("r", (1, 8, 4, 4)), Values("r2", (1, 8, 4, 4))],
         {"a": [(8, 2, 3, 3), (8,)], "b": [None, (8,)]}, shared_conv)

    def used_often(t):
        y = F.conv2d(t["x"], t["p0"], t["p1"])
        a, b = y.softmax(1), lrn_across(y, 3, 1, 0.75, 1)
        c = pool(y, "AVE", (2, 2), (1, 1), (0, 0))
        return {"a": a, "b": b, "c": c}, ((a * t["r"]).sum() + (b * t["r2"]).sum() +
                                          (c * t["r3"]).sum() + 0.5 * y.sum())

    Case("a blob used by three layers and as a loss",
         layer("Convolution", "x", "y",
               "convolution_param { num_output: 8 kernel_size: 2 } loss_weight: 0.5") +
         layer("Softmax", "y", "a") + layer("LRN", "y", "b", "lrn_param { local_size: 3 }") +
         layer("Pooling", "y", "c", "pooling_param { pool: AVE kernel_size: 2 }") +
         weigh("a") + weigh("b", "r2") + weigh("c", "r3"),
         [Values("x", (2, 3, 4, 3)), Values("r", (2, 8, 3, 2)), Values("r2", (2, 8, 3, 2)),
          Values("r3", (2, 8, 2, 1))], [(8, 3, 2, 2), (8,)], used_often)

    def in_place(t):
        y = F.leaky_relu(F.conv2d(t["x"], t["p0"], t["p1"]), 0.125)
        y = F.relu(linear(F.leaky_relu(y, 0.5), t["p2"], t["p3"]))
        loss = softmax_loss(y, t["label"])
        return {"y": y}, loss

    Case("relus in place, two in a row",
         layer("Convolution", "x", "c", "convolution_param { num_output: 8 kernel_size: 2 }") +
         layer("ReLU", "c", "c", "relu_param { negative_slope: 0.125 }", "r1") +
         layer("ReLU", "c", "c", "relu_param { negative_slope: 0.5 }", "r2") +
         layer("InnerProduct", "c", "y", "inner_product_param { num_output: 4 }") +
         layer("ReLU", "y", "y", "", "r3") + layer("SoftmaxWithLoss", "y label", "loss"),
         [Values("x", (3, 2, 3, 3)), Values("label", (3,), "INTEGERS", 0, 3)],
         {"c": [(8, 2, 2, 2), (8,)], "y": [(4, 32), (4,)]}, in_place)

    def several(t):
        h = linear(t["x"], t["p0"], t["p1"])
        a, b = linear(h, t["p2"], t["p3"]), linear(h, t["p4"], t["p5"])
        la, lb = softmax_loss(a, t["label"]), softmax_loss(b, t["label"], "NONE")
        s = (h * t["r"])
        return {"la": la, "lb": lb}, la + 0.3 * lb - 2 * s.sum()

    fc = "inner_product_param { num_output: %d }"
    Case("three losses with weights 1, 0.3, -2",
         layer("InnerProduct", "x", "h", fc % 6) + layer("InnerProduct", "h", "a", fc % 3) +
         layer("InnerProduct", "h", "b", fc % 3) + layer("SoftmaxWithLoss", "a label", "la") +
         layer("SoftmaxWithLoss", "b label", "lb", "loss_weight: 0.3 "
               "loss_param { normalization: NONE }") +
         layer("Eltwise", "h r", "s", "eltwise_param { operation: PROD } loss_weight: -2"),
         [Values("x", (4, 5)), Values("label", (4,), "INTEGERS", 0, 2), Values("r", (4, 6))],
         {"h": [(6, 5), (6,)], "a": [(3, 6), (3,)], "b": [(3, 6), (3,)]}, several)

    def inception(t):
        x = F.conv2d(t["x"], t["p0"], t["p1"])
        a = F.relu(F.conv2d(x, t["p2"], t["p3"]))
        b = F.relu(F.conv2d(x, t["p4"], t["p5"], padding=1))
        c = pool(x, "MAX", (3, 3), (1, 1), (1, 1))
        y = torch.cat([a, b, c], 1)
        z = lrn_across(y, 5, 1, 0.75, 1)
        g = pool(z, "AVE", (4, 4), (1, 1), (0, 0))
        s = linear(g, t["p6"], t["p7"])
        return {"y": y, "z": z, "s": s}, softmax_loss(s, t["label"])

    def cv(n, more):
        return "convolution_param { num_output: %d %s }" % (n, more)

    Case("branches of 8, 16 and 8 channels joined, normalised and pooled globally",
         layer("Convolution", "x", "h", cv(8, "kernel_size: 3")) +
         layer("Convolution", "h", "a", cv(8, "kernel_size: 1")) + layer("ReLU", "a", "a", "", "ra") +
         layer("Convolution", "h", "b", cv(16, "kernel_size: 3 pad: 1")) +
         layer("ReLU", "b", "b", "", "rb") +
         layer("Pooling", "h", "c", "pooling_param { kernel_size: 3 pad: 1 }") +
         layer("Concat", "a b c", "y") + layer("LRN", "y", "z", "lrn_param { local_size: 5 }") +
         layer("Pooling", "z", "g", "pooling_param { pool: AVE global_pooling: true }") +
         layer("InnerProduct", "g", "s", fc % 3) + layer("SoftmaxWithLoss", "s label", "loss"),
         [Values("x", (2, 3, 6, 6)), Values("label", (2,), "INTEGERS", 0, 2)],
         {"h": [(8, 3, 3, 3), (8,)], "a": [(8, 8, 1, 1), (8,)], "b": [(16, 8, 3, 3), (16,)],
          "s": [(3, 32), (3,)]}, inception)

    def odd(t):
        x = F.conv2d(t["x"], t["p0"], t["p1"])
        a, b = F.conv2d(x, t["p2"], t["p3"]), F.conv2d(x, t["p4"], None, stride=2)
        d = F.conv2d(lrn_within(x, 3, 1, 0.75), t["p5"], None)
        y = torch.cat([a, d], 1)
        e = torch.where(b > pool(x, "MAX", (2, 2), (2, 2), (0, 0)), b,
                        pool(x, "MAX", (2, 2), (2, 2), (0, 0)))
        f = torch.cat([y.reshape(2, -1), e.reshape(2, -1)], 1)
        return {"y": y, "e": e, "f": f}, (f * t["r"]).sum()

    Case("channels that are no multiple of a block, formats that meet",
         layer("Convolution", "x", "h", cv(5, "kernel_size: 2")) +
         layer("Convolution", "h", "a", cv(9, "kernel_size: 1")) +
         layer("Convolution", "h", "b", cv(5, "kernel_size: 1 stride: 2 bias_term: false")) +
         layer("LRN", "h", "n", "lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL }") +
         layer("Convolution", "n", "d", cv(3, "kernel_size: 1 bias_term: false")) +
         layer("Concat", "a d", "y") +
         layer("Pooling", "h", "q", "pooling_param { kernel_size: 2 stride: 2 }") +
         layer("Eltwise", "q b", "e", "eltwise_param { operation: MAX }") +
         layer("Flatten", "y", "fy") + layer("Flatten", "e", "fe") +
         layer("Concat", "fy fe", "f") + weigh("f"),
         [Values("x", (2, 3, 5, 5)), Values("r", (2, 212))],
         {"h": [(5, 3, 2, 2), (5,)], "a": [(9, 5, 1, 1), (9,)], "b": [(5, 5, 1, 1)], "d": [(3, 5, 1, 1)]}, odd)

    def residual(t):
        x = F.conv2d(t["x"], t["p0"], None, padding=1)
        a = F.conv2d(F.relu(F.conv2d(x, t["p1"], None, padding=1)), t["p2"], None, padding=1)
        y = F.relu(x + a)
        z = F.conv2d(y, t["p3"], None, stride=2) + F.conv2d(y, t["p4"], t["p5"], stride=2, padding=1)
        return {"y": y, "z": z}, (z * t["r"]).sum()

    three = "kernel_size: 3 pad: 1 bias_term: false"
    Case("residual block with shortcut",
         layer("Convolution", "x", "h", cv(8, three)) + layer("Convolution", "h", "a", cv(8, three)) +
         layer("ReLU", "a", "a", "", "ra") + layer("Convolution", "a", "b", cv(8, three)) +
         layer("Eltwise", "h b", "y") + layer("ReLU", "y", "y", "", "ry") +
         layer("Convolution", "y", "s", cv(16, "kernel_size: 1 stride: 2 bias_term: false")) +
         layer("Convolution", "y", "u", cv(16, "kernel_size: 3 stride: 2 pad: 1")) +
         layer("Eltwise", "s u", "z") + weigh("z"),
         [Values("x", (1, 3, 4, 4)), Values("r", (1, 16, 2, 2))],
         {"h": [(8, 3, 3, 3)], "a": [(8, 8, 3, 3)], "b": [(8, 8, 3, 3)], "s": [(16, 8, 1, 1)],
          "u": [(16, 8, 3, 3), (16,)]}, residual)

    def cropped(t):
        x = F.conv2d(t["x"], t["p0"], t["p1"], padding=1)
        down = F.conv2d(x, t["p2"], t["p3"], stride=2)
        up = F.conv_transpose2d(down, t["p4"], t["p5"], stride=2)
        y = up[:, :, 1:7, 1:7] + x
        return {"y": y}, (y * t["r"]).sum()

    Case("crop to the size of what learns and has other readers",
         layer("Convolution", "x", "h", cv(8, "kernel_size: 3 pad: 1")) +
         layer("Convolution", "h", "d", cv(3, "kernel_size: 2 stride: 2")) +
         layer("Deconvolution", "d", "u", cv(8, "kernel_size: 4 stride: 2")) +
         layer("Crop", "u h", "c", "crop_param { offset: 1 }") + layer("Eltwise", "c h", "y") +
         weigh("y"),
         [Values("x", (1, 2, 6, 6)), Values("r", (1, 8, 6, 6))],
         {"h": [(8, 2, 3, 3), (8,)], "d": [(3, 8, 2, 2), (3,)], "u": [(3, 8, 4, 4), (8,)]}, cropped)
