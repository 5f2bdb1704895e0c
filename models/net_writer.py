"""How nets and solvers are said in Python, and written as Caffe's prototxt: for generate.py."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


class Message(list):
    """Lines of a message: (field, value); a value may be a Message, a list (repeated) or a bare word."""

    def __init__(self, **fields):
        super().__init__((k, v) for k, v in fields.items() if v is not None)


class Word(str):
    """A value without quotes."""


AVE, MAX, TRAIN, TEST, LMDB = map(Word, ("AVE", "MAX", "TRAIN", "TEST", "LMDB"))


def text(value):
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"%s"' % value
    return repr(value)


def lines(message, indent):
    for key, value in message:
        for one in value if isinstance(value, (list, tuple)) and not isinstance(value, Message) else [value]:
            if isinstance(one, Message):
                inside = list(lines(one, ""))
                if len(inside) < 3 and not any("{" in line for line in inside):
                    yield "%s%s { %s }" % (indent, key, " ".join(inside))
                else:
                    yield "%s%s {" % (indent, key)
                    yield from lines(one, indent + "  ")
                    yield indent + "}"
            else:
                yield "%s%s: %s" % (indent, key, text(one))


def xavier(**more):
    return Message(type="xavier", **more)


def msra(**more):
    return Message(type="msra", **more)


def gaussian(std):
    return Message(type="gaussian", std=std)


def constant(value=None):
    return Message(type="constant", value=value)


def resized_crops(least):
    """Windows of `least` to all of the image's area, with sides of 3/4 to 4/3: each side changes by the root."""
    return Message(min_area_ratio=least, max_area_ratio=1, aspect_ratio_change=0.866)


def colors(delta, factor):
    """Every second image each: brightness by +- delta, contrast and saturation by factor .. 2 - factor."""
    return Message(brightness_prob=0.5, brightness_delta=delta, contrast_prob=0.5, contrast_lower=factor,
                   contrast_upper=2 - factor, saturation_prob=0.5, saturation_lower=factor, saturation_upper=2 - factor)


class Net:
    """Layers one after another; each method returns its top, so that calls nest as the net does."""

    def __init__(self, name, about, filler=None, bias=0, mult=True):
        self.name, self.about, self.layers = name, about, []
        self.filler, self.bias = filler, bias
        self.params = [Message(lr_mult=1, decay_mult=1), Message(lr_mult=2, decay_mult=0)] if mult else []

    def layer(self, name, kind, bottom=(), top=None, **fields):
        bottoms = [bottom] if isinstance(bottom, str) else list(bottom)
        tops = [name] if top is None else [top] if isinstance(top, str) else list(top)
        self.layers.append(Message(name=name, type=kind, bottom=bottoms, top=tops, **fields))
        return tops[0]

    def data(self, name, crop, train, test, mean=None, mean_file=None, suffix="", folder="data/", train_only=None,
             shuffle=None, **transform):
        """train_only: fields of transform_param for the TRAIN phase; shuffle: its records, in each epoch."""
        for phase, batch, part in ((TRAIN, train, "train"), (TEST, test, "test")):
            self.layer("data", "Data", top=("data", "label"), include=Message(phase=phase),
                       transform_param=Message(mirror=True if phase == TRAIN else None, crop_size=crop,
                                               mean_file=mean_file, mean_value=list(mean or []), **transform,
                                               **(train_only or {} if phase == TRAIN else {})),
                       data_param=Message(source="%s%s-%s%s" % (folder, name, part, suffix), batch_size=batch,
                                          backend=LMDB, shuffle=shuffle if phase == TRAIN else None))
        return "data"

    def weights(self, count, filler, bias_value, bias):
        return self.params[:count if bias else 1], filler or self.filler, (
            constant(self.bias if bias_value is None else bias_value) if bias else None)

    def conv(self, name, bottom, outputs, kernel, stride=None, pad=None, group=None, filler=None,
             bias_value=None, bias=True, top=None):
        params, weight_filler, bias_filler = self.weights(2, filler, bias_value, bias)
        size = dict(kernel_size=kernel, pad=pad)
        if isinstance(kernel, tuple):
            size = dict(kernel_h=kernel[0], kernel_w=kernel[1], pad_h=pad[0], pad_w=pad[1])
        return self.layer(name, "Convolution", bottom, top, param=params, convolution_param=Message(
            num_output=outputs, bias_term=None if bias else False, **size, stride=stride, group=group,
            weight_filler=weight_filler, bias_filler=bias_filler))

    def fc(self, name, bottom, outputs, filler=None, bias_value=None, top=None, params=None):
        own, weight_filler, bias_filler = self.weights(2, filler, bias_value, True)
        return self.layer(name, "InnerProduct", bottom, top, param=params or own, inner_product_param=Message(
            num_output=outputs, weight_filler=weight_filler, bias_filler=bias_filler))

    def deconv(self, name, bottom, outputs, kernel, stride):
        params, weight_filler, bias_filler = self.weights(2, None, None, True)
        return self.layer(name, "Deconvolution", bottom, param=params, convolution_param=Message(
            num_output=outputs, kernel_size=kernel, stride=stride, weight_filler=weight_filler, bias_filler=bias_filler))

    def relu(self, name, blob):
        return self.layer(name, "ReLU", blob, blob)

    def dropout(self, name, blob, ratio=0.5):
        return self.layer(name, "Dropout", blob, blob, dropout_param=Message(dropout_ratio=ratio))

    def pool(self, name, bottom, kind, kernel, stride=None, pad=None):
        return self.layer(name, "Pooling", bottom, pooling_param=Message(
            pool=kind, kernel_size=kernel, stride=stride, pad=pad))

    def global_pool(self, name, bottom):
        return self.layer(name, "Pooling", bottom, pooling_param=Message(pool=AVE, global_pooling=True))

    def lrn(self, name, bottom, **fields):
        fields = fields or dict(local_size=5, alpha=0.0001, beta=0.75)
        return self.layer(name, "LRN", bottom, lrn_param=Message(**fields))

    def norm(self, name, scale, blob, eps=None, fraction=None):
        """BatchNorm with its Scale, in place."""
        self.layer(name, "BatchNorm", blob, blob, **({"batch_norm_param": Message(
            moving_average_fraction=fraction, eps=eps)} if eps or fraction else {}))
        return self.layer(scale, "Scale", blob, blob, scale_param=Message(bias_term=True))

    def concat(self, name, *bottoms):
        return self.layer(name, "Concat", bottoms)

    def add(self, name, *bottoms):
        return self.layer(name, "Eltwise", bottoms)

    def loss(self, scores, name="loss", weight=None, tops=(1, 5), prefix="", top=None, **fields):
        self.layer(name, "SoftmaxWithLoss", (scores, "label"), top, loss_weight=weight, **fields)
        for k in tops:
            accuracy = "accuracy" if tops == (1,) else "%stop-%d" % (prefix, k)
            self.layer(accuracy, "Accuracy", (scores, "label"), include=Message(phase=TEST),
                       **({"accuracy_param": Message(top_k=k)} if k > 1 else {}))

    def write(self, path):
        out = ["# %s" % line if line else "#" for line in self.about.strip().split("\n")]
        out += ["#", "# Written by models/generate.py.", 'name: "%s"' % self.name]
        for layer in self.layers:
            out += ["layer {"] + list(lines(layer, "  ")) + ["}"]
        write(path, out)


def write(path, out):
    full = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="ascii") as f:
        f.write("\n".join(out) + "\n")


def solver(name, about, file="solver.prototxt", net="train_val.prototxt", **fields):
    fields.setdefault("snapshot_prefix", name)
    settings = Message(net="models/%s/%s" % (name, net), **fields, solver_mode=Word("CPU"))
    write("%s/%s" % (name, file), [("# %s" % line).rstrip() for line in about.strip().split("\n")] + list(lines(settings, "")))
