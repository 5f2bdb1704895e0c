"""Cases with a loss of their own, and salts by their number."""
import math
import re

from value_record import drawn, hidden, out, record, stride


class Values:
    def __init__(self, name, shape, kind="UNIT", a=0, b=0, scale=1.0):
        a = stride(math.prod(shape)) if kind == "DISTINCT" else a
        self.name, self.shape, self.kind, self.a, self.b, self.scale = name, shape, kind, a, b, scale

    def draw(self, salt, head):
        """The tensor, after its line."""
        values = drawn(self.shape, self.kind, self.a, self.b, self.scale, own_salt=salt)
        record(head, values)
        return values.requires_grad_(self.name != "label")


ncases = 0


def Case(name, text, inputs, params, compute, tolerance=3e-6):
    """Records a case with a loss of its own. params: shapes by layer, None for a parameter that another
    layer owns; a list is of the first layer. `compute(t)` gets the inputs by name and the parameters as
    p0, p1, ... and returns the blobs to compare and the loss."""
    global ncases
    if not isinstance(params, dict):
        params = {re.search("name: '(.*?)'", text).group(1): params}
    owners = [(owner, i) for owner, shapes in params.items() for i, s in enumerate(shapes) if s]
    values = [Values("p%d" % k, params[owner][i], "AWAY", scale=0.5) for k, (owner, i) in enumerate(owners)]
    out.extend(["case " + name, "phase TRAIN", *("layer " + line for line in text.splitlines())])
    salt = ncases * 32
    ncases += 1
    t = {}
    for j, v in enumerate(inputs):
        t[v.name] = v.draw(salt + j, ("plain " if v.name == "label" else "input ") + v.name)
    for j, (v, owner) in enumerate(zip(values, owners), len(inputs)):
        t[v.name] = v.draw(salt + j, "param %s %d" % owner)
    blobs, loss = compute(t)
    if loss.requires_grad:
        loss.backward()
    record("loss net", loss.detach())
    for blob, tensor in blobs.items():
        record("top " + blob, tensor.detach())
    for v in inputs:
        if t[v.name].grad is not None and v.name[0] != "r":  # r's is the blob itself
            record("grad " + v.name, t[v.name].grad)
    for v, owner in zip(values, owners):
        if t[v.name].grad is not None:
            record("pgrad %s %d" % owner, t[v.name].grad)
    if not loss.requires_grad or any(v.kind == "INTEGERS" and v.name != "label" for v in inputs):
        out.append("nodifferences")  # ties have no slope
    out.extend(["tolerance %g" % tolerance, "done"])


def layer(kind, bottoms, tops, more="", name=None):
    return hidden(name or tops.split()[0] or kind, kind, bottoms.split(), tops.split(), more) + "\n"


def weigh(blob, by="r"):
    """A loss with a different weight for each element of the blob."""
    return layer("Eltwise", blob + " " + by, "z_" + blob,
                 "eltwise_param { operation: PROD } loss_weight: 1", "weigh_" + blob)


def simple(name, kind, more, x, top_shape, function, params=(), place=False, tolerance=3e-6):
    """One layer between the input x and a weighted sum of its top."""
    text = layer(kind, "x", "x" if place else "y", more, "the_layer") + weigh("x" if place else "y")

    def compute(t):
        y = function(t["x"], *[t["p%d" % i] for i in range(len(params))])
        assert tuple(y.shape) == tuple(top_shape), (name, y.shape)
        z = y * t["r"]
        return {"z_x": z} if place else {"y": y}, z.sum()

    Case(name, text, [x, Values("r", top_shape)], params, compute, tolerance)
