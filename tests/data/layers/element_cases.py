"""Cases of functions of one element."""
import torch

from norm_cases import fit
from value_record import case, grid, hidden, layer


def unary_group(f):
    """(name, layer's type, its fields, function, range of x): by shapes, in place, and in place in TEST."""
    for name, kind, rest, g, low, high in f:
        for shape in [(2, 5, 3, 3), (3, 7)]:
            case('%s_%d' % (name, len(shape)), [layer('l', kind, ['x'], ['y'], rest)],
                 {'x': grid(*shape, low=low, high=high, odd=True)}, lambda x, w: [g(x['x'])])
        if kind == 'AbsVal':
            continue
        # in place, and under another in-place layer that destroys what a careless backward would read
        x = grid(2, 5, 3, 3, low=2 * low, high=2 * high, odd=True, step=1 / 8, shift=-0.5)
        case('%s_in_place' % name,
             [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 0.5 shift: 0.25 }'),
              hidden('l', kind, ['y'], ['y'], rest), hidden('b', 'Power', ['y'], ['y'], 'power_param { scale: -3 shift: 1 }'),
              layer('d', 'TanH', ['y'], ['y'])],
             {'x': x}, lambda x, w: [torch.tanh(1 - 3 * g(0.5 * x['x'] + 0.25))],
             tolerance=1e-4)
        case('%s_test_in_place' % name,
             [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 0.5 shift: 0.25 }'),
              hidden('l', kind, ['y'], ['y'], rest)],
             {'x': x}, lambda x, w: [g(0.5 * x['x'] + 0.25)], train=False)


def gelu_cases():
    """GELU in both forms, also where its tails vanish."""
    gelu = torch.nn.functional.gelu
    forms = [('gelu', '', gelu), ('gelu_tanh', 'gelu_param { approximate: true }', lambda x: gelu(x, approximate='tanh'))]
    unary_group([(name, 'GELU', rest, g, -4, 4) for name, rest, g in forms])
    wide = torch.tensor([-200., -20, -9, -5, -3, -1, -0.25, -1e-4, 0, 1e-4, 0.25, 1, 3, 5, 9, 20, 200])
    for name, rest, g in forms:
        case('%s_wide' % name, [layer('l', 'GELU', ['x'], ['y'], rest)], {'x': wide}, lambda x, w: [g(x['x'])],
             differences=False, tolerance=1e-6)


def unary_cases():
    t = torch
    f = [
        ('absval', 'AbsVal', '', t.abs, -2, 2),
        ('bnll', 'BNLL', '', t.nn.functional.softplus, -8, 8),
        ('clip', 'Clip', 'clip_param { min: -1 max: 0.5 }', lambda x: x.clamp(-1, 0.5), -2, 2),
        ('elu', 'ELU', '', t.nn.functional.elu, -4, 4),
        ('elu_half', 'ELU', 'elu_param { alpha: 0.5 }', lambda x: t.nn.functional.elu(x, 0.5), -4, 4),
        ('elu_negative', 'ELU', 'elu_param { alpha: -0.5 }', lambda x: t.nn.functional.elu(x, -0.5), -4, 4),
        ('exp', 'Exp', '', t.exp, -2, 2),
        ('exp_two', 'Exp', 'exp_param { base: 2 scale: 1.5 shift: -1 }', lambda x: 2 ** (1.5 * x - 1), -2, 2),
        ('log', 'Log', '', t.log, 0.5, 4),
        ('log_two', 'Log', 'log_param { base: 2 scale: 3 shift: 1 }', lambda x: t.log2(3 * x + 1), 0.5, 4),
        ('power_default', 'Power', '', lambda x: x * 1, -2, 2),
        ('power_affine', 'Power', 'power_param { scale: -0.5 shift: 2 }', lambda x: 2 - 0.5 * x, -2, 2),
        ('power_square', 'Power', 'power_param { power: 2 shift: 1 }', lambda x: (x + 1) ** 2, -2, 2),
        ('power_caffe', 'Power', 'power_param { power: 0.37 scale: 0.83 shift: 2.4 }', lambda x: (2.4 + 0.83 * x) ** 0.37, -2, 2),
        ('power_zero', 'Power', 'power_param { power: 0 }', lambda x: x * 0 + 1, -2, 2),
        ('power_root', 'Power', 'power_param { power: 0.5 shift: 3 }', lambda x: t.sqrt(x + 3), -2, 2),
        ('power_inverse', 'Power', 'power_param { power: -1 shift: 3 }', lambda x: 1 / (x + 3), -2, 2),
        ('power_no_scale', 'Power', 'power_param { power: 3 scale: 0 shift: 1.5 }', lambda x: 0 * x + 3.375, -2, 2),
        ('relu6', 'ReLU6', '', lambda x: x.clamp(0, 6), -8, 8),
        ('relu', 'ReLU', '', t.relu, -2, 2),
        ('relu_negative', 'ReLU', 'relu_param { negative_slope: -0.5 }', lambda x: t.where(x > 0, x, -0.5 * x), -2, 2),
        ('sigmoid', 'Sigmoid', '', t.sigmoid, -8, 8),
        ('swish', 'Swish', '', lambda x: x * t.sigmoid(x), -4, 4),
        ('swish_two', 'Swish', 'swish_param { beta: 2 }', lambda x: x * t.sigmoid(2 * x), -4, 4),
        ('tanh', 'TanH', '', t.tanh, -4, 4),
    ]
    unary_group(f)
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
        case('prelu_' + tag, [layer('l', 'PReLU', ['x'], ['y'])], {'x': grid(*shape, odd=True)},
             lambda x, w: [prelu(x['x'], w['l'][0])], params={'l': [grid(shape[1])]})
        case('prelu_shared_' + tag, [layer('l', 'PReLU', ['x'], ['y'], 'prelu_param { channel_shared: true }')],
             {'x': grid(*shape, odd=True)}, lambda x, w: [prelu(x['x'], w['l'][0])],
             params={'l': [torch.tensor(0.375)]})
    case('prelu_in_place', [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 0.5 }'),
                            layer('l', 'PReLU', ['y'], ['y'])],
         {'x': grid(2, 3, 2, 2, odd=True)}, lambda x, w: [prelu(0.5 * x['x'], w['l'][0])],
         params={'l': [grid(3, low=-1, high=0)]})
