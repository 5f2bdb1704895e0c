#!/usr/bin/env python3
"""from_forks.py OLD.prototxt NEW.prototxt

Rewrites layers of Caffe's forks by Caffe's own, and with --weights and --out
a model of Caffe's HDF5 form with them:
  BN (SegNet, PSPNet), and BatchNorm with NVCaffe's scale_bias: BatchNorm, Scale
  Axpy (squeeze-and-excitation nets): Scale and Eltwise
  NdConvolution, NdPooling, Convolution3D, Pooling3D: Convolution and Pooling
  hole, SegAccuracy and softmaxloss_param (DeepLab): dilation, Accuracy and
    loss_param; its MatWrite, which only writes, is left out
  class_weighting (SegNet): InfogainLoss by NEW_weights.binaryproto
In a net of layers { } with these or CROP, INTERP or PRELU, all layers take
today's form. Others stay, also those that 'poseidon summary' then refuses.
"""
import collections
import contextlib
import sys

from fork_segmentation import TRUE, diagonal, leave_out, of_fork, rewrite_accuracy, rewrite_hole, rewrite_loss, rewrite_seg_accuracy
from prototxt import Field, Text, every, lines, make, plain, quote, v1_layer, v1_type
from tool_files import Refused, check_output, make_parser, replace, run
from weights import read_hdf5, write_caffe

SEGNET = {"scale_filler", "shift_filler", "bn_mode"}  # fields of bn_param
PSPNET = {"slope_filler", "bias_filler", "momentum", "eps", "frozen", "engine"}
NVCAFFE = "scale_bias", "scale_filler", "bias_filler"
LEAST_EPS = 1e-5  # cuDNN's
RULES = "include", "exclude", "phase"
REPLACED = "name", "type", "bottom", "top", "param", "loss_weight", "bn_param", "batch_norm_param"
# Types that Caffe's layers { } do not have.
FORK_V1 = "Axpy BN Convolution3D Crop Interp MatWrite NdConvolution NdPooling Pooling3D PReLU SegAccuracy".split()
# Facts that a net's layers share. output: the new file. taken: names that new layers and blobs cannot have.
# ignored: {blob of labels: label that is no class, which its loss with class weights ignores}. matrices: {file: class weights}.
Shared = collections.namedtuple("Shared", "output taken ignored matrices")


class Layer:
    """A layer of the old net."""

    def __init__(self, path, field, shared):
        self.fields, self.shared = field.value, shared
        self.name, self.type = self.word("name"), self.word("type")
        self.bottoms, self.tops = every(self.fields, "bottom"), every(self.fields, "top")
        self.place = f"{path}:{field.line}: layer '{self.name}' ({self.type})"

    def word(self, name):
        values = every(self.fields, name)
        return plain(values[-1]) if values and isinstance(values[-1], str) else ""

    def labels(self):
        """Returns the second bottom's name; "" if there is none."""
        return plain(self.bottoms[1]) if self.bottoms[1:] and isinstance(self.bottoms[1], str) else ""

    def refuse(self, text):
        return Refused(f"{self.place}: {text}")

    def messages(self, name):
        found = every(self.fields, name)
        if not all(isinstance(message, list) for message in found):
            raise self.refuse(f"{name} is a value; expected a message")
        return found

    def settings(self, name):
        """The fields of the layer's message `name`."""
        return sum(self.messages(name), [])

    def number(self, fields, name, default, kind=float):
        value = (every(fields, name) or [default])[-1]
        try:
            return kind(value)
        except (TypeError, ValueError):
            raise self.refuse(f"{name}: expected a number, found {'a message' if isinstance(value, list) else value}") from None

    def counts(self, bottoms):
        for found, expected, what in (self.bottoms, bottoms, "bottom"), (self.tops, 1, "top"):
            if len(found) != expected:
                raise self.refuse(f"has {len(found)} {what}s; expected {expected}")

    def new_name(self, end):
        if self.name + end in self.shared.taken:
            raise self.refuse(f"'{self.name}{end}' is taken by another layer or blob; rename that")
        return quote(self.name + end)

    def make(self, layer_type, name, bottoms, tops, *others):
        """A new layer, under the old one's rules."""
        blobs = [("bottom", bottom) for bottom in bottoms] + [("top", top) for top in tops]
        rules = [field for field in self.fields if field.name in RULES]
        return make(("name", name), ("type", quote(layer_type)), *blobs, *others) + rules

    def changed(self, layer_type, *messages, without=()):
        """The layer as one of another type, with such messages (name, fields)."""
        gone = [name for name, _ in messages] + list(without)
        return [Field("type", quote(layer_type)) if field.name == "type" else field
                for field in self.fields if field.name not in gone] + make(*messages)

    def loss(self):
        return [("loss_weight", value) for value in every(self.fields, "loss_weight")]

    def normalized(self, settings, params, fillers):
        """BatchNorm under the old name, and Scale, which takes what is said of the top."""
        kept = [field for field in self.fields if field.name not in REPLACED + RULES]
        norm = self.make("BatchNorm", quote(self.name), self.bottoms, self.tops, ("batch_norm_param", settings))
        return [norm + kept, self.scale(self.new_name("_scale"), self.tops, params, fillers)]

    def scale(self, name, bottoms, params, fillers):
        fillers = [(new, value) for new, values in zip(("filler", "bias_filler"), fillers) for value in values[-1:]]
        return self.make("Scale", name, bottoms, self.tops, *[("param", param) for param in params], *self.loss(),
                         ("scale_param", make(("bias_term", "true"), *fillers)))

    def misfit(self, text):
        return Refused(f"layer '{self.name}' ({self.type}) {text}")

    def vectors(self, blobs, kinds):
        """The blobs without axes of length 1, all as long as the first."""
        if sorted(blobs) != list(range(len(kinds))):
            raise self.misfit(f"has {len(blobs)} blobs; expected {len(kinds)}: {', '.join(kinds)}")
        size = blobs[0].size
        for number, kind in enumerate(kinds):
            expected = 1 if kind == "factor" else size
            if blobs[number].size != expected or max(blobs[number].shape, default=1) != expected:
                raise self.misfit(f"has a {kind} of shape {shape_text(blobs[number].shape)}; expected {expected} values")
        return [blobs[number].reshape(-1) for number in range(len(kinds))]


def shape_text(shape):
    return "x".join(map(str, shape)) or "()"


def running(mean, variance, momentum):
    """Caffe's three blobs: sums whose next average, with this momentum, is a running average's."""
    import numpy as np
    factor = np.float32(1 / (1 - momentum) if momentum < 1 else 1)
    return {0: mean * factor, 1: variance * factor, 2: np.array([factor])}


def rewrite_bn(layer):
    settings = layer.settings("bn_param")
    names = {field.name for field in settings}
    layer.counts(1)
    if names - SEGNET - PSPNET:
        raise layer.refuse(f"bn_param has {min(names - SEGNET - PSPNET)}; expected fields of SegNet's or PSPNet's fork")
    if bool(names & SEGNET) == bool(names & PSPNET):
        raise layer.refuse("cannot tell the fork; expected bn_param with bn_mode (SegNet), or momentum, eps or frozen (PSPNet)")
    params = layer.messages("param")
    if names & SEGNET:
        return rewrite_segnet(layer, settings, params)
    if any(every(param, "name") for param in params[2:]):
        raise layer.refuse("shares its running mean or variance by name, which is not rewritten")
    momentum = layer.number(settings, "momentum", 0.9)
    frozen = every(settings, "frozen")[-1:] in TRUE
    new = [("use_global_stats", "true")] * frozen + [("moving_average_fraction", (every(settings, "momentum") or ["0.9"])[-1])]
    new += [("eps", value) for value in every(settings, "eps")[-1:]]
    if frozen:
        params = [[*(field for field in param if field.name == "name"), *make(("lr_mult", 0), ("decay_mult", 0))]
                  for param in (params + [[], []])[:2]]

    def weights(blobs):
        slope, bias, mean, variance = layer.vectors(blobs, ("slope", "bias", "mean", "variance"))
        return {layer.name: running(mean, variance, momentum), layer.name + "_scale": {0: slope, 1: bias}}

    fillers = every(settings, "slope_filler"), every(settings, "bias_filler")
    return layer.normalized(make(*new), params[:2], fillers), "BatchNorm and Scale", weights


def rewrite_segnet(layer, settings, params):
    fillers = every(settings, "scale_filler"), every(settings, "shift_filler")
    alone = every(settings, "bn_mode")[-1:] in (["INFERENCE"], ["1"])
    name = layer.name + ("" if alone else "_scale")

    def weights(blobs):
        scale, shift = layer.vectors(blobs, ("scale", "shift"))
        return {name: {0: scale, 1: shift}}

    if alone:  # the statistics are in its scale and shift
        return [layer.scale(quote(name), layer.bottoms, params[:2], fillers)], "Scale", weights
    norm = make(("use_global_stats", "false"), ("eps", "1e-9"))  # the fork keeps no running statistics for tests
    return layer.normalized(norm, params[:2], fillers), "BatchNorm and Scale, which test by each batch's statistics", weights


def rewrite_scale_bias(layer):
    """NVCaffe's, whose mean and variance are averages beside a factor of 1; sums with another factor stay sums."""
    settings = layer.settings("batch_norm_param")
    if all(every(settings, name)[-1:] in ([], ["false"]) for name in NVCAFFE):
        return None
    layer.counts(1)
    if any(every(param, "name") for param in layer.messages("param")):
        raise layer.refuse("shares parameters by name, which is not rewritten")
    kept = [field for field in settings if field.name not in (*NVCAFFE, "eps", "engine")]
    if every(settings, "eps"):
        kept += make(("eps", f"{max(layer.number(settings, 'eps', LEAST_EPS), LEAST_EPS):g}"))
    fraction = layer.number(settings, "moving_average_fraction", 0.999)

    def weights(blobs):
        if len(blobs) == 5 and blobs[2].size > 1 and blobs[4].size == 1:  # of NVCaffe in DIGITS
            scale, bias, mean, variance, _ = layer.vectors(blobs, ("scale", "bias", "mean", "variance", "factor"))
            norm = running(mean, variance, fraction)
        else:
            mean, variance, factor, scale, bias = layer.vectors(blobs, ("mean", "variance", "factor", "scale", "bias"))
            norm = running(mean, variance, fraction) if factor[0] in (0, 1) else {0: mean, 1: variance, 2: factor}
        return {layer.name: norm, layer.name + "_scale": {0: scale, 1: bias}}

    return layer.normalized(kept, [], [every(settings, name) for name in NVCAFFE[1:]]), "BatchNorm and Scale", weights


def rewrite_axpy(layer):
    layer.counts(3)
    factors, x, y = layer.bottoms
    if layer.tops[0] in layer.bottoms:
        raise layer.refuse("its top is one of its bottoms; expected a top of its own")
    if every(layer.fields, "propagate_down"):
        raise layer.refuse("propagate_down is not rewritten: remove it")
    flat, scaled = layer.new_name("_flatten"), layer.new_name("_scale")
    return [layer.make("Flatten", flat, [factors], [flat]),
            layer.make("Scale", scaled, [x, flat], [scaled], ("scale_param", make(("axis", 0)))),
            layer.make("Eltwise", quote(layer.name), [scaled, y], layer.tops, *layer.loss())], "Scale and Eltwise", None


def rewrite_axes(layer):
    """Convolution or Pooling with a number for each axis. C3D's layers read no group."""
    new_type = "Pooling" if "Pooling" in layer.type else "Convolution"
    message = new_type.lower() + "_param"
    theirs = message.replace("_", "3d_")  # of C3D 1.1
    settings = layer.settings(message) + layer.settings(theirs)
    if layer.type.startswith("Nd"):
        old = [f"{what}_shape" for what in ("kernel", "stride", "pad")]
        axes = [[dim for shape in every(settings, name) for dim in (every(shape, "dim") if isinstance(shape, list) else [""])]
                for name in old]
    else:
        old = ["kernel_size", "kernel_depth", "stride", "temporal_stride", "pad", "temporal_pad"]
        axes = [[(every(settings, name) or [default])[-1] for name in (depth, plane, plane)]
                for plane, depth, default in zip(old[::2], old[1::2], ("", "1", "0"))]
    kernel = axes[0]
    whole = every(settings, "global_pooling")[-1:] == ["true"]
    if not all(isinstance(size, str) and size.isdecimal() for size in sum(axes, [])) or not (kernel or whole):
        raise layer.refuse(f"{message}: expected numbers, and at least {' and '.join(old[:1 if 'kernel_shape' in old else 2])}")
    for name, sizes in zip(old, axes):
        if kernel and len(sizes) not in (0, len(kernel)):
            raise layer.refuse(f"{name} has {len(sizes)} numbers; expected {len(kernel)}, as kernel_shape has")
    sizes = zip(("kernel_size", "stride", "pad"), [[] if whole else kernel, *axes[1:]])
    new = [(name, size) for name, axis in sizes for size in axis]
    old += [] if layer.type.startswith("Nd") else ["group", "filter_group"]
    settings = [field for field in settings if field.name not in old] + make(*new)
    outputs = layer.number(settings, "num_output", 0, int)

    def weights(blobs):
        found = blobs[0].shape if 0 in blobs else ()
        if found != (outputs, *found[1:2], *map(int, kernel)):
            expected = shape_text((outputs, "CHANNELS", *kernel))
            raise layer.misfit(f"has weights of shape {shape_text(found)}; expected {expected}")
        return {layer.name: {number: values.reshape(-1) if number else values for number, values in blobs.items()}}

    new = layer.changed(new_type, (message, settings), without=[theirs])
    return [new], new_type, weights if new_type == "Convolution" else None


REWRITES = {"BN": rewrite_bn, "Axpy": rewrite_axpy, "NdConvolution": rewrite_axes, "NdPooling": rewrite_axes,
            "Convolution3D": rewrite_axes, "Pooling3D": rewrite_axes, "SegAccuracy": rewrite_seg_accuracy, "MatWrite": leave_out}
BY_FIELDS = {"BatchNorm": rewrite_scale_bias, "Convolution": rewrite_hole, "SoftmaxWithLoss": rewrite_loss,
             "Accuracy": rewrite_accuracy}  # Caffe's types, if they have what a fork adds


# ---- nets ----

def rewrite_net(path, output):
    """The net's new fields, how many layers became what, {name: function of the blobs}, and {file: class weights}."""
    net = Text(path).message()
    if not all(isinstance(field.value, list) for field in net if field.name in ("layer", "layers")):
        raise Refused(f"{path}: a layer is a value; expected a message")
    done, weights, new = collections.Counter(), {}, []
    theirs = [field for field in net if field.name == "layers" and (v1_type(field) in FORK_V1 or of_fork(field.value))]
    for field in theirs:
        if v1_type(field) in FORK_V1 and v1_type(field) not in REWRITES:
            done[f"of type {every(field.value, 'type')[-1]} became {v1_type(field)}"] += 1
    if theirs:
        net = [v1_layer(field) for field in net]
    taken = {plain(value) for field in net if field.name == "layer" for name, value, _ in field.value
             if name in ("name", "top") and isinstance(value, str)}
    shared = Shared(output, taken, {}, {})
    for layer in [Layer(path, field, shared) for field in net if field.name == "layer"]:
        loss = layer.settings("loss_param") if layer.type == "SoftmaxWithLoss" else []
        if every(loss, "weight_by_label_freqs")[-1:] in TRUE:
            label = layer.number(loss, "ignore_label", 0, int)
            shared.ignored.update({} if 0 <= label < len(every(loss, "class_weighting")) else {layer.labels(): label})
    for field in net:
        if field.name == "layer" and every(field.value, "strict_dim"):
            field = field._replace(value=[other for other in field.value if other.name != "strict_dim"])
            done["strict_dim were left out: models need weights of the same shapes"] += 1
        layer = Layer(path, field, shared) if field.name == "layer" else None
        if theirs and layer and layer.type == "Crop" and not every(layer.settings("crop_param"), "offset"):
            raise layer.refuse("the fork finds its offset by the layers between the bottoms; expected crop_param { offset: N }")
        made = (REWRITES | BY_FIELDS).get(layer.type, lambda _: None)(layer) if layer else None
        new.extend([Field("layer", one) for one in made[0]] if made else [field])
        if made:
            done[f"of type {layer.type} became {made[1]}"] += 1
            weights.update({layer.name: made[2]} if made[2] else {})
    if not done:
        raise Refused(f"{path}: nothing to rewrite; expected layers of type {', '.join(REWRITES)}, or scale_bias, hole "
                      "or class_weighting")
    return new, done, weights, shared.matrices


def rewrite_weights(path, functions):
    """The model's layers and texts after rewriting, and how many layers took part."""
    layers, texts = read_hdf5(path)
    fits = [name for name in functions if name in layers]
    if not functions:
        raise Refused(f"{path}: the layers that are rewritten have no weights: the new net takes this file as it is")
    if not fits:
        raise Refused(f"{path}: none of its layers ({', '.join(list(layers)[:3])}, ...) is rewritten; "
                      f"expected {', '.join(list(functions)[:3])}, ...")
    new = {}
    for name, blobs in layers.items():
        try:
            made = functions[name](blobs) if name in functions else {name: blobs}
        except Refused as error:
            raise Refused(f"{path}: {error}") from None
        if any(other in new or (other != name and other in layers) for other in made):
            raise Refused(f"{path}: has a layer '{list(made)[-1]}' already, which '{name}' would become")
        new.update(made)
    return new, texts, fits


def main():
    parser = make_parser("OLD.prototxt NEW.prototxt [--weights=OLD.h5 --out=NEW.h5] [--force]", __doc__, ("input", "output"),
                         "'poseidon convert weights' makes a .caffemodel.h5 of a .caffemodel")
    parser.add_argument("--weights", metavar="FILE", help="a model of the old net")
    parser.add_argument("--out", metavar="FILE", help="the model of the new net")
    parser.add_argument("--force", action="store_true", help="replace NEW if it exists")
    arguments = parser.parse_args()
    if bool(arguments.weights) != bool(arguments.out):
        raise Refused("expected --weights and --out together")
    check_output(arguments.output, (".prototxt",), [arguments.input], arguments.force)
    net, done, functions, matrices = rewrite_net(arguments.input, arguments.output)
    for path in matrices:
        check_output(path, (".binaryproto",), [arguments.input], arguments.force)
    if arguments.out:
        check_output(arguments.out, (".h5",), [arguments.weights], arguments.force)
        layers, texts, fits = rewrite_weights(arguments.weights, functions)
    new_files = {path: diagonal(weights) for path, weights in matrices.items()}
    with contextlib.ExitStack() as stack:
        for path, content in {**new_files, arguments.output: "".join(lines(net)).encode("latin-1")}.items():
            output = stack.enter_context(replace(path))
            output.write(content)
            output.check()
        if arguments.out:
            write_caffe(arguments.out, layers, texts)
    for what, count in done.items():
        print(f"{arguments.output}: {count} {what}", file=sys.stderr)
    for path, weights in matrices.items():
        print(f"{path}: the weights of {len(weights)} classes", file=sys.stderr)
    if arguments.out:
        without = [name for name in functions if name not in fits]
        end = f"; {arguments.weights} has none for {', '.join(without[:10])}" if without else ""
        print(f"{arguments.out}: weights of {len(fits)} layers were rewritten{end}", file=sys.stderr)


if __name__ == "__main__":
    run(main)
