"""Cases whose inputs and parameters the file does not list: draw here and draw_values in
tests/layers/value_cases.c make the same numbers, exact in single precision, from a salt."""
import math
import re

import numpy as np
import torch

from value_record import hidden, out, record


def hashed(salt, n):
    h = (np.arange(n, dtype=np.uint64) * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    h = ((h ^ (h >> 16)) * 2246822519) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 3266489917) & 0xFFFFFFFF
    return h ^ (h >> 16)


def draw(kind, a, b, salt, n):
    """UNIT: (-1, 1). AWAY: the same, but |v| >= 1/8 (no kink near). SMALL: its half. INTEGERS: a..b.
    DISTINCT: a permutation of multiples of 1/16, stride a."""
    h = hashed(salt, n)
    u = (h >> 12).astype(np.float64) * 2.0**-20
    if kind == "UNIT":
        return 2 * u - 1
    if kind in ("AWAY", "SMALL"):
        return np.where(h & 1, 1, -1) * (0.125 + 0.875 * u) / (2 if kind == "SMALL" else 1)
    if kind == "INTEGERS":
        return a + (h % np.uint64(b - a + 1)).astype(np.float64)
    assert kind == "DISTINCT"
    return ((np.arange(n) * a + 7) % n - n // 2) / 16.0


class Values:
    def __init__(self, name, shape, kind="UNIT", a=0, b=0):
        n = int(np.prod(shape))
        if kind == "DISTINCT":
            a = next(s for s in range(int(n * 0.618) | 1, 2 * n + 2) if math.gcd(s, n) == 1)
        self.name, self.shape, self.kind, self.a, self.b, self.n = name, shape, kind, a, b, n

    def draw(self, salt, head):
        """The tensor, after its line."""
        values = draw(self.kind, self.a, self.b, salt, self.n)
        assert np.array_equal(values.astype(np.float32), values)
        out.append("%s %d%s draw %s %d %d %d" % (head, len(self.shape), "".join(" %d" % d for d in self.shape),
                                                 self.kind, self.a, self.b, salt))
        return torch.from_numpy(values.astype(np.float64)).reshape(self.shape).requires_grad_(self.name != "label")


ncases = 0


def Case(name, text, inputs, params, compute, tolerance=3e-6):
    """Records a case with a loss of its own. params: shapes by layer, None for a parameter that another
    layer owns; a list is of the first layer. `compute(t)` gets the inputs by name and the parameters as
    p0, p1, ... and returns the blobs to compare and the loss."""
    global ncases
    if not isinstance(params, dict):
        params = {re.search("name: '(.*?)'", text).group(1): params}
    owners = [(owner, i) for owner, shapes in params.items() for i, s in enumerate(shapes) if s]
    values = [Values("p%d" % k, params[owner][i], "SMALL") for k, (owner, i) in enumerate(owners)]
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
