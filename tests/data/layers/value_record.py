"""The lines of values.txt, and cases whose inputs are drawn from one stream.

One record per line: a word, its arguments, "naxes dim..." and the values, or how they are drawn (salted_case.py).
Drawn from the stream, inputs are multiples of 1/16, exact in single precision."""
import torch

torch.set_default_dtype(torch.float64)
SEED = 1701
generator = torch.Generator().manual_seed(SEED)
out = []


def grid(*shape, low=-2.0, high=2.0, away=None):
    """Random multiples of 1/16; `away`: numbers (with a distance) to keep clear of."""
    while True:
        x = torch.randint(round(low * 16), round(high * 16) + 1, shape, generator=generator) / 16.0
        for kink, distance in away or []:
            x = torch.where((x - kink).abs() < distance, x + 2 * distance, x)
        return x


def distinct(*shape, step=0.125):
    """All values differ by at least `step`."""
    n = 1
    for s in shape:
        n *= s
    return ((torch.randperm(n, generator=generator) - n // 2) * step).reshape(shape)


def integers(n, *shape):
    return torch.randint(0, n, shape, generator=generator).double()


def number(v, digits):
    v = float(v)
    if v == round(v) and abs(v) < 1e6:
        return str(int(v))
    return '%.*g' % (digits, v)


def record(head, tensor):
    dims = list(tensor.shape)
    digits = 9 if head.split()[0] in ('input', 'plain', 'param', 'topgrad') else 8
    values = ' '.join(number(v, digits) for v in tensor.reshape(-1).tolist())
    out.append('%s %d%s : %s' % (head, len(dims), ''.join(' %d' % d for d in dims), values))


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
