"""Cases of the layers that Caffe began with: Convolution, Pooling, InnerProduct, ReLU, LRN, Softmax, Flatten,
Eltwise, Concat, Split, SoftmaxWithLoss and Accuracy."""
import torch
import torch.nn.functional as F

from operators import accuracy, linear, lrn_across, lrn_within, pool, pool_mask, softmax_loss
from salted_case import Case, Values, layer, simple, weigh


def conv(name, more, x, out, weight, bias=True, **options):
    simple("convolution " + name, "Convolution",
           "convolution_param { num_output: %d %s %s }" % (
               weight[0], more, "" if bias else "bias_term: false"),
           Values("x", x), out, lambda x, w, b=None: F.conv2d(x, w, b, **options),
           [weight] + ([weight[:1]] if bias else []))


def convolutions():
    conv("plain 3x3", "kernel_size: 3", (2, 3, 5, 6), (2, 4, 3, 4), (4, 3, 3, 3))
    conv("without bias", "kernel_size: 2", (2, 2, 4, 4), (2, 3, 3, 3), (3, 2, 2, 2), False)
    conv("1x1", "kernel_size: 1", (2, 5, 3, 3), (2, 4, 3, 3), (4, 5, 1, 1))
    conv("padding and stride", "kernel_size: 3 pad: 1 stride: 2", (2, 3, 6, 7), (2, 4, 3, 4),
         (4, 3, 3, 3), padding=1, stride=2)
    conv("not square", "kernel_h: 3 kernel_w: 2 pad_h: 0 pad_w: 1 stride_h: 1 stride_w: 3",
         (2, 2, 5, 7), (2, 3, 3, 3), (3, 2, 3, 2), padding=(0, 1), stride=(1, 3))
    conv("two values of kernel_size", "kernel_size: [1, 4] pad: [0, 2]", (1, 2, 3, 5),
         (1, 2, 3, 6), (2, 2, 1, 4), padding=(0, 2))
    conv("dilated", "kernel_size: 3 dilation: 2 pad: 2", (1, 2, 6, 5), (1, 3, 6, 5), (3, 2, 3, 3),
         padding=2, dilation=2)
    conv("dilated by axis", "kernel_size: 2 dilation: [1, 3]", (1, 2, 3, 6), (1, 2, 2, 3),
         (2, 2, 2, 2), dilation=(1, 3))
    conv("two groups", "kernel_size: 3 group: 2 pad: 1", (2, 4, 4, 4), (2, 6, 4, 4), (6, 2, 3, 3),
         groups=2, padding=1)
    conv("depthwise", "kernel_size: 3 group: 6 pad: 1 stride: 2", (2, 6, 5, 5), (2, 6, 3, 3),
         (6, 1, 3, 3), groups=6, padding=1, stride=2)
    conv("whole blocks of channels", "kernel_size: 3 pad: 1", (1, 16, 3, 3), (1, 8, 3, 3),
         (8, 16, 3, 3), padding=1)
    conv("kernel as large as the image", "kernel_size: 4", (3, 2, 4, 4), (3, 5, 1, 1), (5, 2, 4, 4))
    conv("leaves over rows", "kernel_size: 2 stride: 3", (1, 1, 7, 6), (1, 2, 2, 2), (2, 1, 2, 2),
         stride=3)

    def two(t):
        y0, y1 = (F.conv2d(t[x], t["p0"], t["p1"]) for x in ("x", "x2"))
        return {"y": y0, "y2": y1}, (y0 * t["r"]).sum() + (y1 * t["r2"]).sum()

    Case("convolution of two bottoms with the same weights",
         layer("Convolution", "x x2", "y y2", "convolution_param { num_output: 3 kernel_size: 2 }") +
         weigh("y") + weigh("y2", "r2"),
         [Values("x", (2, 2, 3, 3)), Values("x2", (2, 2, 3, 3)), Values("r", (2, 3, 2, 2)),
          Values("r2", (2, 3, 2, 2))], [(3, 2, 2, 2), (3,)], two)


def pooling(name, more, x, out, method, k, s=(1, 1), p=(0, 0), ceil=True, kind="DISTINCT", b=0):
    simple("pooling " + name, "Pooling", "pooling_param { pool: %s %s }" % (method, more),
           Values("x", x, kind, -b, b), out, lambda x: pool(x, method, k, s, p, ceil))


def poolings():
    for method in ("MAX", "AVE"):
        low = method + " "
        pooling(low + "2x2 stride 2", "kernel_size: 2 stride: 2", (2, 3, 4, 6), (2, 3, 2, 3),
                method, (2, 2), (2, 2))
        pooling(low + "rounds up", "kernel_size: 3 stride: 2", (1, 2, 6, 7), (1, 2, 3, 3), method,
                (3, 3), (2, 2))
        pooling(low + "rounds up, last window of one row", "kernel_size: 2 stride: 2", (1, 2, 5, 3),
                (1, 2, 3, 2), method, (2, 2), (2, 2))
        pooling(low + "round_mode FLOOR", "kernel_size: 3 stride: 2 round_mode: FLOOR",
                (1, 2, 6, 8), (1, 2, 2, 3), method, (3, 3), (2, 2), ceil=False)
        pooling(low + "with padding", "kernel_size: 3 stride: 2 pad: 1", (1, 2, 5, 6),
                (1, 2, 3, 4), method, (3, 3), (2, 2), (1, 1))
        pooling(low + "drops the window in the padding", "kernel_size: 2 stride: 2 pad: 1",
                (1, 2, 3, 5), (1, 2, 2, 3), method, (2, 2), (2, 2), (1, 1))
        pooling(low + "not square", "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 2 pad_w: 1",
                (1, 2, 6, 7), (1, 2, 4, 3), method, (3, 2), (2, 3), (2, 1))
        pooling(low + "stride beyond the kernel", "kernel_size: 1 stride: 3", (1, 2, 7, 4),
                (1, 2, 3, 2), method, (1, 1), (3, 3))
        pooling(low + "global", "global_pooling: true", (2, 3, 4, 5), (2, 3, 1, 1), method, (4, 5))
    pooling("MAX the first of equal maxima wins", "kernel_size: 3 stride: 2", (2, 3, 7, 7),
            (2, 3, 3, 3), "MAX", (3, 3), (2, 2), kind="INTEGERS", b=1)

    def mask(t):
        y = pool(t["x"], "MAX", (3, 3), (2, 2), (1, 1))
        return {"y": y, "mask": pool_mask(t["x"], (3, 3), (2, 2), (1, 1))}, (y * t["r"]).sum()

    Case("pooling MAX with the places of the maxima",
         layer("Pooling", "x", "y mask", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }") +
         weigh("y"), [Values("x", (2, 2, 5, 5), "DISTINCT"), Values("r", (2, 2, 3, 3))], [], mask)


def inner(name, more, x, out, weight, axis=1, bias=True, transpose=False):
    simple("inner product " + name, "InnerProduct",
           "inner_product_param { num_output: %d %s %s }" % (
               out[-1], more, "" if bias else "bias_term: false"), Values("x", x), out,
           lambda x, w, b=None: linear(x, w.t() if transpose else w, b, axis),
           [weight] + ([out[-1:]] if bias else []))


def inner_products():
    inner("of two axes", "", (4, 7), (4, 5), (5, 7))
    inner("flattens the image", "", (3, 2, 3, 4), (3, 5), (5, 24))
    inner("without bias", "", (3, 6), (3, 4), (4, 6), bias=False)
    inner("axis 2", "axis: 2", (2, 3, 4, 2), (2, 3, 5), (5, 8), axis=2)
    inner("axis -1", "axis: -1", (2, 3, 4), (2, 3, 2), (2, 4), axis=2)
    inner("axis 0", "axis: 0", (3, 4), (5,), (5, 12), axis=0)
    inner("transposed", "transpose: true", (4, 3, 2), (4, 5), (6, 5), transpose=True)
    inner("transposed without bias", "transpose: true", (3, 4), (3, 2), (4, 2), bias=False,
          transpose=True)
    inner("of one sample", "", (1, 9), (1, 3), (3, 9))


def elements():
    x = lambda shape=(2, 3, 4, 3): Values("x", shape, "AWAY")
    shape = (2, 3, 4, 3)
    simple("relu", "ReLU", "", x(), shape, F.relu)
    simple("relu with negative_slope", "ReLU", "relu_param { negative_slope: 0.25 }", x(), shape,
           lambda x: F.leaky_relu(x, 0.25))
    simple("relu with a slope below zero", "ReLU", "relu_param { negative_slope: -0.5 }", x(),
           shape, lambda x: F.leaky_relu(x, -0.5))
    simple("relu in place", "ReLU", "", x(), shape, F.relu, place=True)
    simple("relu in place with negative_slope", "ReLU", "relu_param { negative_slope: 0.25 }", x(),
           shape, lambda x: F.leaky_relu(x, 0.25), place=True)
    simple("relu of two axes", "ReLU", "", x((5, 7)), (5, 7), F.relu)
    for n, alpha, beta, k in ((3, 1, 0.75, 1), (5, 0.5, 0.75, 2), (5, 1, 0.5, 1), (15, 2, 1.3, 1)):
        simple("lrn across %d channels, beta %g, k %g" % (n, beta, k), "LRN",
               "lrn_param { local_size: %d alpha: %g beta: %g k: %g }" % (n, alpha, beta, k),
               Values("x", (2, 7, 3, 3)), (2, 7, 3, 3),
               lambda x, a=(n, alpha, beta, k): lrn_across(x, *a))
    simple("lrn across fewer channels than the window", "LRN", "lrn_param { local_size: 9 }",
           Values("x", (2, 2, 2, 3)), (2, 2, 2, 3), lambda x: lrn_across(x, 9, 1, 0.75, 1))
    for n, beta in ((3, 0.75), (5, 0.5), (1, 0.75)):
        simple("lrn within the channel, %dx%d, beta %g, ignores k" % (n, n, beta), "LRN",
               "lrn_param { local_size: %d alpha: 2 beta: %g k: 3 norm_region: WITHIN_CHANNEL }" %
               (n, beta), Values("x", (2, 2, 4, 5)), (2, 2, 4, 5),
               lambda x, a=(n, 2, beta): lrn_within(x, *a))
    for axis in (0, 1, 2, -1):
        simple("softmax of axis %d" % axis, "Softmax", "softmax_param { axis: %d }" % axis,
               Values("x", (3, 4, 2, 3)), (3, 4, 2, 3), lambda x, a=axis: x.softmax(a))
    simple("softmax of large scores", "Softmax", "", Values("x", (3, 5), "INTEGERS", -200, 200),
           (3, 5), lambda x: x.softmax(1), tolerance=1e-5)  # gradients that are 0 but for rounding
    for end in (-1, 2):
        out = (2, 24) if end == -1 else (2, 6, 4)
        simple("flatten to axis %d" % end, "Flatten", "flatten_param { axis: 1 end_axis: %d }" % end,
               Values("x", (2, 2, 3, 4)), out, lambda x, o=out: x.reshape(o))


def eltwise(name, more, function, n, kind="UNIT", b=0):
    shape = (2, 3, 2, 3)
    bottoms = " ".join("x%d" % i for i in range(n))

    def compute(t):
        y = function(*[t["x%d" % i] for i in range(n)])
        return {"y": y}, (y * t["r"]).sum()

    Case("eltwise " + name, layer("Eltwise", bottoms, "y", "eltwise_param { %s }" % more) +
         weigh("y"), [Values("x%d" % i, shape, kind, -b, b) for i in range(n)] +
         [Values("r", shape)], [], compute)


def later_max(*xs):
    """Of equal values the second beats the first; a third must be greater than both."""
    y = torch.where(xs[0] > xs[1], xs[0], xs[1])
    for x in xs[2:]:
        y = torch.where(x > y, x, y)
    return y


def joins():
    eltwise("SUM of three", "operation: SUM", lambda a, b, c: a + b + c, 3)
    eltwise("SUM is the default", "", lambda a, b: a + b, 2)
    eltwise("SUM with coeff", "operation: SUM coeff: 1 coeff: -0.5 coeff: 2",
            lambda a, b, c: a - 0.5 * b + 2 * c, 3)
    eltwise("PROD of two", "operation: PROD", lambda a, b: a * b, 2)
    eltwise("PROD of three with zeros", "operation: PROD", lambda a, b, c: a * b * c, 3, "INTEGERS",
            2)
    eltwise("MAX of two", "operation: MAX", later_max, 2)
    eltwise("MAX of three with equal values", "operation: MAX", later_max, 3, "INTEGERS", 1)
    for axis, sizes in ((0, (1, 2)), (1, (3, 2, 1)), (2, (2, 2)), (3, (1, 3)), (-3, (2, 4))):
        shapes = []
        for size in sizes:
            shape = [2, 3, 2, 3]
            shape[axis] = size
            shapes.append(tuple(shape))
        top = list(shapes[0])
        top[axis] = sum(sizes)

        def compute(t, axis=axis, n=len(sizes)):
            y = torch.cat([t["x%d" % i] for i in range(n)], axis)
            return {"y": y}, (y * t["r"]).sum()

        bottoms = " ".join("x%d" % i for i in range(len(sizes)))
        Case("concat on axis %d" % axis,
             layer("Concat", bottoms, "y", "concat_param { axis: %d }" % axis) + weigh("y"),
             [Values("x%d" % i, s) for i, s in enumerate(shapes)] + [Values("r", tuple(top))], [],
             compute)

    def split(t):
        a, b = t["x"] * t["r"], t["x"] * t["r2"]
        return {"a": t["x"], "z_a": a, "z_b": b}, a.sum() + b.sum()

    shape = (2, 2, 3, 2)
    Case("split adds the gradients of its tops",
         layer("Split", "x", "a b", name="two") + weigh("a") + weigh("b", "r2"),
         [Values("x", shape), Values("r", shape), Values("r2", shape)], [], split)


def loss_case(name, x, labels, loss="", more="", weight=1, mode="VALID", ignore=None, axis=1,
              low=0):
    classes = x[axis]
    param = "loss_param { %s }" % loss if loss else ""

    def compute(t):
        value = softmax_loss(t["x"], t["label"], mode, ignore, axis)
        return {"loss": value}, weight * value

    Case("softmax loss " + name,
         layer("SoftmaxWithLoss", "x label", "loss", "%s %s loss_weight: %g" % (param, more, weight)),
         [Values("x", x), Values("label", labels, "INTEGERS", low, classes - 1)], [], compute)


def losses():
    image, places = (3, 4, 2, 3), (3, 2, 3)
    for mode in ("FULL", "VALID", "BATCH_SIZE", "NONE"):
        loss_case(mode, image, places, "normalization: " + mode, mode=mode)
        loss_case(mode + " with ignore_label", image, places,
                  "normalization: %s ignore_label: 1" % mode, mode=mode, ignore=1)
    loss_case("by default VALID", (4, 5), (4,))
    loss_case("normalize: false means BATCH_SIZE", image, places, "normalize: false",
              mode="BATCH_SIZE")
    loss_case("normalize: true means VALID", image, places, "normalize: true ignore_label: 2",
              ignore=2)
    loss_case("normalization beats normalize", image, places, "normalize: false normalization: FULL",
              mode="FULL")
    loss_case("negative ignore_label", (6, 3), (6,), "ignore_label: -1", ignore=-1, low=-1)
    loss_case("all labels ignored", (3, 1), (3,), "ignore_label: 0", ignore=0)
    loss_case("loss_weight", (4, 5), (4,), weight=2.5)
    loss_case("negative loss_weight", (4, 5), (4,), weight=-1)
    loss_case("labels N x 1 x H x W", image, (3, 1, 2, 3))
    loss_case("axis 2", (2, 3, 4), (2, 3), "normalization: BATCH_SIZE", "softmax_param { axis: 2 }",
              mode="BATCH_SIZE", axis=2)
    loss_case("axis 0", (4, 3), (3,), "", "softmax_param { axis: 0 }", axis=0)

    def with_probabilities(t):
        loss = softmax_loss(t["x"], t["label"])
        return {"loss": loss, "p": t["x"].softmax(1)}, loss

    Case("softmax loss with its probabilities",
         layer("SoftmaxWithLoss", "x label", "loss p"),
         [Values("x", (4, 5)), Values("label", (4,), "INTEGERS", 0, 4)], [], with_probabilities)

    def accuracy_case(name, param, x, labels, low=0, spread=3, **options):
        def compute(t):
            total, classes = accuracy(t["x"], t["label"], **options)
            return {"accuracy": total, "classes": classes}, torch.zeros((), dtype=torch.float64)

        axis = options.get("axis", 1)
        Case("accuracy " + name, layer("Accuracy", "x label", "accuracy classes", param),
             [Values("x", x, "INTEGERS", -spread, spread),
              Values("label", labels, "INTEGERS", low, x[axis] - 1)], [], compute)

    accuracy_case("of few ties", "", (20, 5), (20,), spread=1000)
    accuracy_case("counts ties as wrong", "", (40, 4), (40,), spread=1)
    accuracy_case("top_k", "accuracy_param { top_k: 3 }", (30, 6), (30,), top_k=3)
    accuracy_case("ignore_label", "accuracy_param { ignore_label: 1 }", (30, 4), (30,), ignore=1)
    accuracy_case("ignore_label -1 top_k 2", "accuracy_param { ignore_label: -1 top_k: 2 }", (30, 4),
                  (30,), -1, ignore=-1, top_k=2)
    accuracy_case("by place", "", (2, 3, 3, 4), (2, 3, 4))
    accuracy_case("axis 2", "accuracy_param { axis: 2 }", (3, 4, 3), (3, 4), axis=2)
    accuracy_case("nothing but ignored labels", "accuracy_param { ignore_label: 0 }", (3, 1), (3,),
                  ignore=0)


def smoothing():
    """label_smoothing, which SoftmaxWithLoss has from PyTorch."""
    for smooth in (0.1, 0.5):
        for ignore in (None, 1, -1):
            for shape, labels in (((6, 4), (6,)), ((3, 4, 2, 3), (3, 2, 3))):
                def compute(t):
                    loss = torch.nn.CrossEntropyLoss(
                        label_smoothing=smooth, ignore_index=-100 if ignore is None else ignore)
                    value = loss(t["x"], t["label"].long())
                    return {"loss": value}, value

                Case("softmax loss with label_smoothing %g, ignore_label %s, %d axes" % (smooth, ignore, len(shape)),
                     layer("SoftmaxWithLoss", "x label", "loss", "loss_param { label_smoothing: %g %s }" % (
                         smooth, "" if ignore is None else "ignore_label: %d" % ignore)),
                     [Values("x", shape), Values("label", labels, "INTEGERS", -1 if ignore == -1 else 0, 3)], [],
                     compute)


def core():
    for make in (convolutions, poolings, inner_products, elements, joins, losses):
        make()
