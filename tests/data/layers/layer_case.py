"""What a case of generate_layers.py is: a net as prototxt, its inputs and parameters, what it computes."""
import math

import numpy as np


def hashed(salt, n):
    h = (np.arange(n, dtype=np.uint64) * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    h = ((h ^ (h >> 16)) * 2246822519) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 3266489917) & 0xFFFFFFFF
    return h ^ (h >> 16)


def draw(kind, a, b, salt, n):
    """UNIT: (-1, 1). AWAY: the same, but |v| >= 1/8 (no kink near). INTEGERS: a..b. DISTINCT: a
    permutation of multiples of 1/16, stride a."""
    h = hashed(salt, n)
    u = (h >> 12).astype(np.float64) * 2.0**-20
    if kind == "UNIT":
        return 2 * u - 1
    if kind == "AWAY":
        return np.where(h & 1, 1, -1) * (0.125 + 0.875 * u)
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

CASES = []


class Case:
    """`compute(t)` gets the inputs by name and the parameters as p0, p1, ... and returns the blobs
    to compare and the loss."""

    def __init__(self, name, text, inputs, params, compute):
        self.name, self.inputs, self.compute = name, inputs, compute
        self.params = [Values("p%d" % i, s, "AWAY") for i, s in enumerate(params)]
        head = "force_backward: true\n"
        for v in inputs:
            head += "layer { name: '%s' type: 'Input' top: '%s' input_param { shape { %s } } }\n" % (
                v.name, v.name, " ".join("dim: %d" % d for d in v.shape))
        self.text = head + text
        CASES.append(self)


def layer(kind, bottoms, tops, more="", name=None):
    names = lambda field, blobs: " ".join("%s: '%s'" % (field, b) for b in blobs.split())
    return "layer { name: '%s' type: '%s' %s %s %s }\n" % (
        name or tops.split()[0] or kind, kind, names("bottom", bottoms), names("top", tops), more)


def weigh(blob, by="r"):
    """A loss with a different weight for each element of the blob."""
    return layer("Eltwise", blob + " " + by, "z_" + blob,
                 "eltwise_param { operation: PROD } loss_weight: 1", "weigh_" + blob)


def simple(name, kind, more, x, top_shape, function, params=(), place=False):
    """One layer between the input x and a weighted sum of its top."""
    text = layer(kind, "x", "x" if place else "y", more, "the_layer") + weigh("x" if place else "y")

    def compute(t):
        y = function(t["x"], *[t["p%d" % i] for i in range(len(params))])
        assert tuple(y.shape) == tuple(top_shape), (name, y.shape)
        z = y * t["r"]
        return {"z_x": z} if place else {"y": y}, z.sum()

    Case(name, text, [x, Values("r", top_shape)], params, compute)
