"""Layers of DeepLab's and SegNet's forks, and what these add to Caffe's own.

A rewrite gives new layers, what they are called, and a function from the old blobs to the new or None.
"""
import os
import struct

from prototxt import every, make, quote

HOLES = "hole", "hole_h", "hole_w"
WEIGHTING = "weight_by_label_freqs", "class_weighting"
FORK_FIELDS = {*HOLES, "softmaxloss_param", "strict_dim"}
MOST_CLASSES = 1024  # with weights; SegNet's first version counted as many
TRUE = ["true"], ["True"], ["t"], ["1"]


def of_fork(fields):
    return any(name in FORK_FIELDS or (isinstance(value, list) and not FORK_FIELDS.isdisjoint(field.name for field in value))
               for name, value, _ in fields)


def rewrite_hole(layer):
    """Writes DeepLab's hole as dilation: both are the step between the values that a kernel meets. Padding is the same."""
    settings = layer.settings("convolution_param")
    found = sorted(field.name for field in settings if field.name in HOLES)
    if not found:
        return None
    if found not in (["hole"], ["hole_h", "hole_w"]) or every(settings, "dilation"):
        raise layer.refuse(f"has {', '.join(found)}; expected hole, or hole_h and hole_w, and no dilation")
    new = make(*[("dilation", layer.number(settings, name, 1, int)) for name in found])
    kept = [field for field in settings if field.name not in HOLES]
    return [layer.changed("Convolution", ("convolution_param", kept + new))], "Convolution with dilation", None


def only_label(layer, settings):
    labels = every(settings, "ignore_label")
    if len(labels) > 1:
        raise layer.refuse(f"has {len(labels)} ignore_label; expected one, as Caffe's layer has")
    return make(*[("ignore_label", label) for label in labels])


def rewrite_loss(layer):
    """Writes DeepLab's ignore_label into loss_param, and SegNet's class weights as the diagonal of InfogainLoss's matrix.

    InfogainLoss takes a probability below 1e-20 as 1e-20, SegNet's loss below 1.2e-38. Gradients are the same.
    """
    theirs, loss = layer.messages("softmaxloss_param"), layer.settings("loss_param")
    if not theirs and not any(field.name in WEIGHTING for field in loss):
        return None
    if any(every(message, "weight_source") for message in theirs):
        raise layer.refuse("weight_source: the fork divides by the sum of the weights, which is not rewritten")
    kept = [field for field in loss if field.name not in (*WEIGHTING, "ignore_label")] + only_label(layer, sum(theirs, loss))
    if every(loss, "weight_by_label_freqs")[-1:] not in TRUE:
        return [layer.changed(layer.type, ("loss_param", kept), without=["softmaxloss_param"])], "Caffe's SoftmaxWithLoss", None
    weights = [layer.number([field], field.name, 0) for field in loss if field.name == "class_weighting"]
    if not 0 < len(weights) <= MOST_CLASSES or not all(abs(weight) < 1e38 for weight in weights):
        raise layer.refuse(f"has {len(weights)} class_weighting; expected 1 to {MOST_CLASSES} numbers, one for each class")
    files = layer.shared.matrices
    new = f"{layer.shared.output[:-len('.prototxt')]}_weights{len(files) + 1 if files else ''}.binaryproto"
    path = next((path for path in files if files[path] == weights), new)
    files[path] = weights
    source = os.fsencode(path).decode("latin-1").replace("\\", "\\\\")
    axis = [("axis", value) for value in every(layer.settings("softmax_param"), "axis")[-1:]]
    infogain = "infogain_loss_param", make(("source", quote(source)), *axis)
    return [layer.changed("InfogainLoss", ("loss_param", kept), infogain)], "InfogainLoss", None


def rewrite_seg_accuracy(layer):
    kept = layer.settings("accuracy_param") + only_label(layer, layer.settings("seg_accuracy_param"))
    new = layer.changed("Accuracy", ("accuracy_param", kept), without=["seg_accuracy_param"])
    return [new], "Accuracy: of its three numbers the first, the right pixels, of each batch by itself", None


def rewrite_accuracy(layer):
    """Adds the loss's ignore_label to SegNet's Accuracy, if it is no class: the fork counts such labels as wrong."""
    settings = layer.settings("accuracy_param")
    label = layer.shared.ignored.get(layer.labels())
    if every(settings, "ignore_label") or label is None:
        return None
    new = layer.changed("Accuracy", ("accuracy_param", settings + make(("ignore_label", label))))
    return [new], "Accuracy that skips the loss's ignore_label, which the fork counts as wrong", None


def leave_out(layer):
    return [], "nothing: it only writes files, as 'poseidon extract' does", None


def varint(number):
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number >> 7)


def diagonal(weights):
    """A BlobProto of 1 x 1 x N x N: its fields shape, which has dim, and data."""
    size = len(weights)
    dims = b"\1\1" + 2 * varint(size)
    shape = b"\x0a" + varint(len(dims)) + dims
    data = b"".join(struct.pack("<f", weight) + bytes(4 * size) for weight in weights)[:4 * size * size]
    return b"\x3a" + varint(len(shape)) + shape + b"\x2a" + varint(len(data)) + data
