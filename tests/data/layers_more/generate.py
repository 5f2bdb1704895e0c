#!/usr/bin/python3
"""Reference values for tests/layer_values: what layers give and pass back, computed in double precision by
PyTorch and numpy from the layers' definitions. Writes values.txt beside itself.

  /usr/bin/python3 tests/data/layers_more/generate.py

One record per line: a word, its arguments, "naxes dim..." and the values. Inputs are multiples of 1/64,
exact in single precision.
"""
import os
import sys

import torch

torch.set_default_dtype(torch.float64)
SEED = 1701
generator = torch.Generator().manual_seed(SEED)
out = []


def grid(*shape, low=-2.0, high=2.0, away=None):
    """Random multiples of 1/64; `away`: numbers (with a distance) to keep clear of."""
    while True:
        x = torch.randint(round(low * 64), round(high * 64) + 1, shape, generator=generator) / 64.0
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


def number(v):
    v = float(v)
    if v == round(v) and abs(v) < 1e6:
        return str(int(v))
    return '%.8g' % v


def record(head, tensor):
    dims = list(tensor.shape)
    values = ' '.join(number(v) for v in tensor.reshape(-1).tolist())
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


# ---- BatchNorm, Scale, Bias --------------------------------------------------------------------

def channel_shape(x, c):
    return [1, c] + [1] * (x.dim() - 2) if x.dim() > 1 else [1]


def norm(x, mean, var, eps):
    c = mean.numel()
    s = channel_shape(x, c)
    return (x - mean.reshape(s)) / torch.sqrt(var.reshape(s) + eps)


def batch_moments(x):
    if x.dim() == 1:
        m, n = x.mean().reshape(1), x.numel()
        return m, ((x - m) ** 2).mean().reshape(1), n
    axes = [a for a in range(x.dim()) if a != 1]
    m = x.mean(axes)
    v = ((x - m.reshape(channel_shape(x, m.numel()))) ** 2).mean(axes)
    return m, v, x.numel() // m.numel()


def batch_norm_cases():
    def train(eps):
        def f(x, w):
            m, v, _ = batch_moments(x['x'])
            return [norm(x['x'], m, v, eps)]
        return f

    def stored(eps):
        def f(x, w):
            mean, var, s = w['l']
            k = 0.0 if float(s) == 0 else 1 / float(s)
            return [norm(x['x'], mean.detach() * k, var.detach() * k, eps)]
        return f

    def running(fraction):
        def f(x, w):
            m, v, n = batch_moments(x['x'])
            mean, var, s = w['l']
            return {'l': [fraction * mean + m, fraction * var + v * (n / (n - 1) if n > 1 else 1),
                          fraction * s + 1]}
        return f

    def stats(c, s=2.5):
        return {'l': [grid(c), grid(c, low=0.5, high=4), torch.tensor([s])]}

    for shape in [(3, 5, 4, 3), (2, 8, 3, 3), (2, 19, 2, 3), (6, 5), (7,), (2, 3, 4), (1, 4, 1, 1),
                  (2, 3, 2, 2, 3)]:
        c = shape[1] if len(shape) > 1 else 1
        flat = shape == (1, 4, 1, 1)
        case('batch_norm_train_%s' % 'x'.join(map(str, shape)), [layer('l', 'BatchNorm', ['x'], ['y'])],
             {'x': grid(*shape)}, train(1e-5), params=stats(c), after=running(0.999),
             differences=not flat)
    case('batch_norm_in_place', [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 2 shift: 1 }'),
                                 layer('l', 'BatchNorm', ['y'], ['y'],
                                       'batch_norm_param { moving_average_fraction: 0.5 eps: 0.01 }')],
         {'x': grid(3, 4, 3, 3)}, lambda x, w: train(0.01)({'x': 2 * x['x'] + 1}, w),
         params=stats(4), after=lambda x, w: running(0.5)({'x': 2 * x['x'] + 1}, w))
    for s in [2.5, 0.0]:
        case('batch_norm_test_%g' % s, [layer('l', 'BatchNorm', ['x'], ['y'], weights=[])],
             {'x': grid(2, 5, 3, 3)}, stored(1e-5), params=stats(5, s), train=False)
    case('batch_norm_frozen', [layer('l', 'BatchNorm', ['x'], ['y'],
                                     'batch_norm_param { use_global_stats: true }')],
         {'x': grid(2, 5, 3, 3)}, stored(1e-5), params=stats(5),
         after=lambda x, w: w)
    case('batch_norm_own_stats_in_test', [layer('l', 'BatchNorm', ['x'], ['y'],
                                                'batch_norm_param { use_global_stats: false }', [])],
         {'x': grid(2, 5, 3, 3)}, train(1e-5), params=stats(5), after=running(0.999), train=False)
    far = grid(4, 3, 4, 4) / 16 + 1000
    case('batch_norm_far_from_zero', [layer('l', 'BatchNorm', ['x'], ['y'])], {'x': far},
         train(1e-5), params=stats(3), after=running(0.999), differences=False, tolerance=2e-3)

    def with_scale(norm_of, bias):
        def f(x, w):
            y = norm_of(x, w)[0]
            s = channel_shape(y, w['s'][0].numel())
            y = y * w['s'][0].reshape(s)
            return [y + w['s'][1].reshape(s)] if bias else [y]
        return f

    bn = 'BatchNorm'
    for bias in [True, False]:
        rest = 'scale_param { bias_term: true }' if bias else ''
        for shape in [(3, 5, 3, 3), (2, 16, 2, 3), (5, 6)]:
            p = stats(shape[1])
            p['s'] = [grid(shape[1]), grid(shape[1])][:2 if bias else 1]
            case('norm_and_scale_%d_%s' % (bias, 'x'.join(map(str, shape))),
                 [hidden('l', bn, ['x'], ['y']), layer('s', 'Scale', ['y'], ['y'], rest)],
                 {'x': grid(*shape)}, with_scale(train(1e-5), bias), params=p,
                 after=running(0.999))
            case('norm_and_scale_apart_%d_%s' % (bias, 'x'.join(map(str, shape))),
                 [hidden('l', bn, ['x'], ['n']), layer('s', 'Scale', ['n'], ['y'], rest)],
                 {'x': grid(*shape)}, with_scale(train(1e-5), bias), params=p)
    p = stats(5)
    p['s'] = [grid(5), grid(5)]
    rest = 'scale_param { bias_term: true }'
    case('norm_and_scale_frozen', [hidden('l', bn, ['x'], ['y'], 'batch_norm_param { use_global_stats: true }'),
                                   layer('s', 'Scale', ['y'], ['y'], rest)],
         {'x': grid(2, 5, 3, 3)}, with_scale(stored(1e-5), True), params=p)
    case('norm_scale_relu_all_in_place',
         [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 2 }'), hidden('l', bn, ['y'], ['y']),
          hidden('s', 'Scale', ['y'], ['y'], rest), layer('r', 'ReLU', ['y'], ['y'])],
         {'x': grid(2, 5, 3, 3)},
         lambda x, w: [torch.relu(with_scale(train(1e-5), True)({'x': 2 * x['x']}, w)[0])], params=p,
         differences=False)
    case('norm_scale_test_all_in_place',
         [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 2 }'), hidden('l', bn, ['y'], ['y']),
          hidden('s', 'Scale', ['y'], ['y'], rest), hidden('r', 'ReLU', ['y'], ['y'])],
         {'x': grid(2, 5, 3, 3)},
         lambda x, w: [torch.relu(with_scale(stored(1e-5), True)({'x': 2 * x['x']}, w)[0])], params=p,
         train=False)


def fit(factor, x, axis):
    return factor.reshape([1] * axis + list(factor.shape) + [1] * (x.dim() - axis - factor.dim()))


def scale_cases():
    for shape, axis, num in [((2, 5, 3, 4), 1, 1), ((2, 9, 2, 3), 0, 2), ((2, 3, 4, 5), 1, -1),
                             ((2, 3, 4, 5), 0, 1), ((2, 3, 4, 5), -2, 2), ((2, 3, 4, 5), 0, -1),
                             ((2, 3, 4, 5), 1, 0), ((4, 5), 1, 1), ((4,), 0, 1), ((2, 16, 3, 3), 1, 1)]:
        a = axis if axis >= 0 else axis + len(shape)
        n = len(shape) - a if num == -1 else num
        a = 0 if n == 0 else a
        fs = shape[a:a + n]
        tag = '%s_%d_%d' % ('x'.join(map(str, shape)), axis, num)
        p = 'axis: %d num_axes: %d' % (axis, num)
        case('scale_' + tag, [layer('l', 'Scale', ['x'], ['y'], 'scale_param { %s }' % p)],
             {'x': grid(*shape)}, lambda x, w: [x['x'] * fit(w['l'][0], x['x'], a)],
             params={'l': [grid(*fs)]})
        case('scale_bias_' + tag,
             [layer('l', 'Scale', ['x'], ['y'], 'scale_param { %s bias_term: true }' % p)],
             {'x': grid(*shape)},
             lambda x, w: [x['x'] * fit(w['l'][0], x['x'], a) + fit(w['l'][1], x['x'], a)],
             params={'l': [grid(*fs), grid(*fs)]})
        case('bias_' + tag, [layer('l', 'Bias', ['x'], ['y'], 'bias_param { %s }' % p)],
             {'x': grid(*shape)}, lambda x, w: [x['x'] + fit(w['l'][0], x['x'], a)],
             params={'l': [grid(*fs)]})
        if num < 0:
            continue
        case('scale_two_bottoms_' + tag,
             [layer('l', 'Scale', ['x', 'f'], ['y'], 'scale_param { axis: %d }' % axis)],
             {'x': grid(*shape), 'f': grid(*fs)}, lambda x, w: [x['x'] * fit(x['f'], x['x'], a)])
        case('scale_two_bottoms_bias_' + tag,
             [layer('l', 'Scale', ['x', 'f'], ['y'], 'scale_param { axis: %d bias_term: true }' % axis)],
             {'x': grid(*shape), 'f': grid(*fs)},
             lambda x, w: [x['x'] * fit(x['f'], x['x'], a) + fit(w['l'][0], x['x'], a)],
             params={'l': [grid(*fs)]})
        case('bias_two_bottoms_' + tag,
             [layer('l', 'Bias', ['x', 'f'], ['y'], 'bias_param { axis: %d }' % axis)],
             {'x': grid(*shape), 'f': grid(*fs)}, lambda x, w: [x['x'] + fit(x['f'], x['x'], a)])
    case('scale_in_place', [hidden('a', 'Power', ['x'], ['y'], 'power_param { shift: 1 }'),
                            layer('l', 'Scale', ['y'], ['y'])],
         {'x': grid(2, 3, 2, 2)}, lambda x, w: [(x['x'] + 1) * fit(w['l'][0], x['x'], 1)],
         params={'l': [grid(3)]})
    case('scale_in_place_test_across', [hidden('a', 'Power', ['x'], ['y'], 'power_param { shift: 1 }'),
                                        hidden('l', 'Scale', ['y'], ['y'], 'scale_param { axis: 2 }')],
         {'x': grid(2, 9, 2, 2)}, lambda x, w: [(x['x'] + 1) * fit(w['l'][0], x['x'], 2)],
         params={'l': [grid(2)]}, train=False)


# ---- Functions of one element --------------------------------------------------------------------

def unary_cases():
    t = torch
    zero = [(0, 0.05)]
    f = [
        ('absval', 'AbsVal', '', t.abs, zero, -2, 2),
        ('bnll', 'BNLL', '', t.nn.functional.softplus, None, -8, 8),
        ('clip', 'Clip', 'clip_param { min: -1 max: 0.5 }', lambda x: x.clamp(-1, 0.5),
         [(-1, 0.05), (0.5, 0.05)], -2, 2),
        ('elu', 'ELU', '', t.nn.functional.elu, zero, -4, 4),
        ('elu_half', 'ELU', 'elu_param { alpha: 0.5 }', lambda x: t.nn.functional.elu(x, 0.5), zero, -4, 4),
        ('elu_negative', 'ELU', 'elu_param { alpha: -0.5 }', lambda x: t.nn.functional.elu(x, -0.5), zero, -4, 4),
        ('exp', 'Exp', '', t.exp, None, -2, 2),
        ('exp_two', 'Exp', 'exp_param { base: 2 scale: 1.5 shift: -1 }',
         lambda x: 2 ** (1.5 * x - 1), None, -2, 2),
        ('log', 'Log', '', t.log, None, 0.5, 4),
        ('log_two', 'Log', 'log_param { base: 2 scale: 3 shift: 1 }',
         lambda x: t.log2(3 * x + 1), None, 0.5, 4),
        ('power_default', 'Power', '', lambda x: x * 1, None, -2, 2),
        ('power_affine', 'Power', 'power_param { scale: -0.5 shift: 2 }', lambda x: 2 - 0.5 * x, None, -2, 2),
        ('power_square', 'Power', 'power_param { power: 2 shift: 1 }', lambda x: (x + 1) ** 2, None, -2, 2),
        ('power_caffe', 'Power', 'power_param { power: 0.37 scale: 0.83 shift: 2.4 }',
         lambda x: (2.4 + 0.83 * x) ** 0.37, None, -2, 2),
        ('power_zero', 'Power', 'power_param { power: 0 }', lambda x: x * 0 + 1, None, -2, 2),
        ('power_root', 'Power', 'power_param { power: 0.5 shift: 3 }', lambda x: t.sqrt(x + 3), None, -2, 2),
        ('power_inverse', 'Power', 'power_param { power: -1 shift: 3 }', lambda x: 1 / (x + 3), None, -2, 2),
        ('power_no_scale', 'Power', 'power_param { power: 3 scale: 0 shift: 3 }', lambda x: 0 * x + 27, None, -2, 2),
        ('relu6', 'ReLU6', '', lambda x: x.clamp(0, 6), [(0, 0.05), (6, 0.05)], -8, 8),
        ('relu', 'ReLU', '', t.relu, zero, -2, 2),
        ('relu_negative', 'ReLU', 'relu_param { negative_slope: -0.5 }',
         lambda x: t.where(x > 0, x, -0.5 * x), zero, -2, 2),
        ('sigmoid', 'Sigmoid', '', t.sigmoid, None, -8, 8),
        ('swish', 'Swish', '', lambda x: x * t.sigmoid(x), None, -4, 4),
        ('swish_two', 'Swish', 'swish_param { beta: 2 }', lambda x: x * t.sigmoid(2 * x), None, -4, 4),
        ('tanh', 'TanH', '', t.tanh, None, -4, 4),
    ]
    for name, kind, rest, g, away, low, high in f:
        for shape in [(2, 5, 3, 3), (3, 7)]:
            case('%s_%d' % (name, len(shape)), [layer('l', kind, ['x'], ['y'], rest)],
                 {'x': grid(*shape, low=low, high=high, away=away)}, lambda x, w: [g(x['x'])])
        if kind == 'AbsVal':
            continue
        # in place, and under another in-place layer that destroys what a careless backward would read
        x = grid(2, 5, 3, 3, low=low, high=high, away=away)
        case('%s_in_place' % name,
             [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 0.5 shift: 0.25 }'),
              hidden('l', kind, ['y'], ['y'], rest), hidden('b', 'Power', ['y'], ['y'], 'power_param { scale: -3 shift: 1 }'),
              layer('d', 'TanH', ['y'], ['y'])],
             {'x': 2 * (x - 0.25)}, lambda x, w: [t.tanh(1 - 3 * g(0.5 * x['x'] + 0.25))],
             tolerance=1e-4)
        case('%s_test_in_place' % name,
             [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 0.5 shift: 0.25 }'),
              hidden('l', kind, ['y'], ['y'], rest)],
             {'x': 2 * (x - 0.25)}, lambda x, w: [g(0.5 * x['x'] + 0.25)], train=False)
    wide = torch.tensor([-200., -100, -90, -50, -20, -10, -1, -0.25, -0.01, -1e-4, 0, 1e-4, 0.01, 0.25, 1, 10, 20,
                         50, 80, 87, 88])
    for name, kind, g in [('sigmoid', 'Sigmoid', t.sigmoid), ('tanh', 'TanH', t.tanh), ('elu', 'ELU', t.nn.functional.elu),
                          ('bnll', 'BNLL', lambda x: t.nn.functional.softplus(x, threshold=80))]:
        case('%s_wide' % name, [layer('l', kind, ['x'], ['y'])], {'x': wide}, lambda x, w: [g(x['x'])],
             differences=False, tolerance=3e-7)
    case('exp_wide', [layer('l', 'Exp', ['x'], ['y'])], {'x': wide[wide < 0]}, lambda x, w: [t.exp(x['x'])],
         differences=False, tolerance=3e-7)
    case('threshold', [hidden('l', 'Threshold', ['x'], ['y'], 'threshold_param { threshold: 0.5 }')],
         {'x': grid(2, 3, 4)}, lambda x, w: [(x['x'] > 0.5).double()], train=False)

    def prelu(x, a):
        return t.where(x > 0, x, x * (fit(a, x, 1) if a.dim() else a))

    for shape in [(2, 5, 3, 3), (2, 16, 2, 2), (3, 7), (2, 3, 4)]:
        tag = 'x'.join(map(str, shape))
        case('prelu_' + tag, [layer('l', 'PReLU', ['x'], ['y'])], {'x': grid(*shape, away=zero)},
             lambda x, w: [prelu(x['x'], w['l'][0])], params={'l': [grid(shape[1])]})
        case('prelu_shared_' + tag, [layer('l', 'PReLU', ['x'], ['y'], 'prelu_param { channel_shared: true }')],
             {'x': grid(*shape, away=zero)}, lambda x, w: [prelu(x['x'], w['l'][0])],
             params={'l': [torch.tensor(0.375)]})
    case('prelu_in_place', [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 0.5 }'),
                            layer('l', 'PReLU', ['y'], ['y'])],
         {'x': grid(2, 3, 2, 2, away=zero)}, lambda x, w: [prelu(0.5 * x['x'], w['l'][0])],
         params={'l': [-grid(3, low=0, high=1)]})


batch_norm_cases()
scale_cases()
unary_cases()

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'values.txt')
with open(path, 'w') as f:
    f.write('# made by generate.py with PyTorch, seed %d\n' % SEED)
    f.write('\n'.join(out) + '\n')
print('%d cases, %d bytes' % (sum(l.startswith('case ') for l in out), os.path.getsize(path)), file=sys.stderr)
