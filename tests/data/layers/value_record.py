"""The lines of values.txt, and how inputs are drawn.

One record per line: a word, its arguments, "naxes dim..." and ": values", or "draw" and how the values are drawn.
draw here and draw_values in tests/layers/value_cases.c make the same numbers, exact in single precision, from a salt. A
drawn tensor remembers how it was drawn; what is computed from one is listed."""
import math

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
out = []
salt = 0


def group(number, make):
    """Cases whose salts do not depend on other groups."""
    global salt
    salt = number * 1000
    make()


def hashed(salt, n):
    h = (np.arange(n, dtype=np.uint64) * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    h = ((h ^ (h >> 16)) * 2246822519) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 3266489917) & 0xFFFFFFFF
    return h ^ (h >> 16)


def draw(kind, a, b, salt, n):
    """UNIT: (-1, 1). AWAY: the same, but |v| >= 1/8 (no kink near). INTEGERS: a..b. DISTINCT: a permutation of
    multiples of 1/16, stride a."""
    h = hashed(salt, n)
    u = (h >> 12).astype(np.float64) * 2.0**-20
    if kind == 'UNIT':
        return 2 * u - 1
    if kind == 'AWAY':
        return np.where(h & 1, 1, -1) * (0.125 + 0.875 * u)
    if kind == 'INTEGERS':
        return a + (h % np.uint64(b - a + 1)).astype(np.float64)
    assert kind == 'DISTINCT'
    return ((np.arange(n) * a + 7) % n - n // 2) / 16.0


def drawn(shape, kind, a=0, b=0, scale=1.0, shift=0.0, own_salt=None):
    """own_salt: of a case that has salts of its own."""
    global salt
    if own_salt is None:
        own_salt = salt
        salt += 1
    values = draw(kind, a, b, own_salt, math.prod(shape)) * scale + shift
    assert np.array_equal(values.astype(np.float32), values)
    tensor = torch.from_numpy(values).reshape(shape)
    tensor.drawn = '%s %d %d %d %.9g %.9g' % (kind, a, b, own_salt, scale, shift)
    return tensor


def grid(*shape, low=-2.0, high=2.0, odd=False, step=1 / 16, shift=0.0):
    """Multiples of 1/16; odd: of 1/32, only odd ones, which keep off all multiples of 1/16."""
    return drawn(shape, 'INTEGERS', round(low / step), round(high / step) - odd, step, shift + odd * step / 2)


def stride(n):
    return next(s for s in range(int(n * 0.618) | 1, 2 * n + 2) if math.gcd(s, n) == 1)


def distinct(*shape, scale=1.0, shift=0.0):
    """Multiples of 1/16, each once."""
    return drawn(shape, 'DISTINCT', stride(math.prod(shape)), 0, scale, shift)


def integers(low, high, *shape):
    return drawn(shape, 'INTEGERS', low, high)


def number(v, digits):
    v = float(v)
    if v == round(v) and abs(v) < 1e6:
        return str(int(v))
    return '%.*g' % (digits, v)


def record(head, tensor):
    head += ' %d%s' % (tensor.dim(), ''.join(' %d' % d for d in tensor.shape))
    if hasattr(tensor, 'drawn'):
        out.append('%s draw %s' % (head, tensor.drawn))
        return
    digits = 9 if head.split()[0] in ('input', 'plain', 'param', 'topgrad') else 8
    values = ' '.join(number(v, digits) for v in tensor.reshape(-1).tolist())
    out.append('%s : %s' % (head, values))


def layer(name, kind, bottoms, tops, rest='', weights=None):
    """One layer; loss_weight lets gradients start at its tops."""
    text = "layer { name: '%s' type: '%s'" % (name, kind)
    text += ''.join(" bottom: '%s'" % b for b in bottoms)
    text += ''.join(" top: '%s'" % t for t in tops)
    for w in weights if weights is not None else [1] * len(tops):
        text += ' loss_weight: %g' % w
    return text + ' ' + rest + ' }'


def hidden(name, kind, bottoms, tops, rest=''):
    """A layer whose tops others read."""
    return layer(name, kind, bottoms, tops, rest, weights=[])


def case(name, layers, inputs, function, params=None, labels=None, train=True, tops=None, stop=(),
         after=None, differences=True, tolerance=None, grads=None, plain_only=False, seeds=None):
    """function(inputs and labels by name, params by layer) -> list of tops. Gradients are autograd's,
    or what grads(inputs, params, top gradients) gives: (by input, by layer). stop: inputs without."""
    params = params or {}
    labels = labels or {}
    x = {k: v.clone().requires_grad_(train and k not in stop) for k, v in inputs.items()}
    w = {k: [p.clone().requires_grad_(train) for p in ps] for k, ps in params.items()}
    y = function({**x, **labels}, w)
    tops = tops or ['y']
    out.append('case %s' % name)
    out.append('phase %s' % ('TRAIN' if train else 'TEST'))
    for text in layers:
        out.append('layer ' + text)
    for k, v in inputs.items():
        record(('plain ' if plain_only else 'input ') + k, v)
    for k, v in labels.items():
        record('plain ' + k, v)
    for k, ps in params.items():
        for i, p in enumerate(ps):
            record('param %s %d' % (k, i), p)
    for t, v in zip(tops, y):
        record('top ' + t, v.detach())
    for k, ps in (after(inputs, params) if after else {}).items():
        for i, p in enumerate(ps):
            record('after %s %d' % (k, i), p)
    if train:
        seed = seeds or [grid(*v.shape, low=-1, high=1) for v in y]
        for t, v, s in zip(tops, y, seed):
            if v.requires_grad or grads:
                record('topgrad ' + t, s)
        if grads:
            gx, gw = grads(inputs, params, seed)
        else:
            sum((v * s).sum() for v, s in zip(y, seed) if v.requires_grad).backward()
            gx = {k: v.grad if v.grad is not None else torch.zeros_like(v)
                  for k, v in x.items() if v.requires_grad}
            gw = {k: [p.grad for p in ps] for k, ps in w.items()}
        for k, v in gx.items():
            record('grad ' + k, v)
        for k, ps in gw.items():
            for i, p in enumerate(ps):
                if p is not None:
                    record('pgrad %s %d' % (k, i), p)
    if not differences or not train:
        out.append('nodifferences')
    if tolerance:
        out.append('tolerance %g' % tolerance)
    out.append('done')
