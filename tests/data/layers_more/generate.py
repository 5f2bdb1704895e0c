#!/usr/bin/python3
"""Reference values for tests/layers/layer_values: what layers give and pass back, computed in double precision by
PyTorch and numpy from the layers' definitions. Writes values.txt beside itself.

  /usr/bin/python3 tests/data/layers_more/generate.py

One record per line: a word, its arguments, "naxes dim..." and the values. Inputs are multiples of 1/16,
exact in single precision.
"""
import os
import sys

import torch

from norm_cases import batch_norm_cases, fit, scale_cases
from value_record import SEED, case, distinct, generator, grid, hidden, integers, layer, out

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


# ---- Pieces of blobs -----------------------------------------------------------------------------

def piece_cases():
    for shape, axis, points in [((2, 6, 3, 2), 1, [2, 5]), ((2, 24, 2, 2), 1, [8, 16]), ((5, 3, 2, 2), 0, [1, 4]),
                                ((2, 3, 4, 5), -1, [1, 2]), ((4, 6), 1, [1, 2])]:
        p = 'slice_param { axis: %d %s }' % (axis, ' '.join('slice_point: %d' % k for k in points))
        case('slice_%s_%d' % ('x'.join(map(str, shape)), axis),
             [layer('l', 'Slice', ['x'], ['y', 'z', 'u'], p)], {'x': grid(*shape)},
             lambda x, w: torch.tensor_split(x['x'], points, axis), tops=['y', 'z', 'u'])
    case('slice_even', [layer('l', 'Slice', ['x'], ['y', 'z'])], {'x': grid(2, 16, 3, 2)},
         lambda x, w: x['x'].chunk(2, 1), tops=['y', 'z'])
    case('slice_dim', [layer('l', 'Slice', ['x'], ['y', 'z'], 'slice_param { slice_dim: 2 }')],
         {'x': grid(2, 3, 4, 2)}, lambda x, w: x['x'].chunk(2, 2), tops=['y', 'z'])
    case('slice_one_top', [layer('l', 'Slice', ['x'], ['y'])], {'x': grid(2, 5, 3, 2)}, lambda x, w: [x['x'] * 1])
    case('slice_silence', [hidden('l', 'Slice', ['x'], ['y', 'z']), hidden('s', 'Silence', ['z'], []),
                           layer('p', 'Power', ['y'], ['v'], 'power_param { scale: 2 }')],
         {'x': grid(2, 6, 3, 2)}, lambda x, w: [2 * x['x'][:, :3]], tops=['v'])

    case('crop_window', [layer('l', 'Crop', ['x', 's'], ['y'], 'crop_param { offset: 1 offset: 2 }')],
         {'x': grid(2, 3, 5, 6)}, lambda x, w: [x['x'][:, :, 1:4, 2:6]], labels={'s': grid(1, 1, 3, 4)})
    case('crop_all_axes', [layer('l', 'Crop', ['x', 's'], ['y'], 'crop_param { axis: 0 offset: 1 }')],
         {'x': grid(3, 4, 5, 6)}, lambda x, w: [x['x'][1:3, 1:3, 1:4, 1:5]], labels={'s': grid(2, 2, 3, 4)})
    case('crop_default', [layer('l', 'Crop', ['x', 's'], ['y'])],
         {'x': grid(2, 9, 5, 6)}, lambda x, w: [x['x'][:, :, :4, :2]], labels={'s': grid(2, 7, 4, 2)})
    case('crop_channels', [layer('l', 'Crop', ['x', 's'], ['y'], 'crop_param { axis: 1 offset: 2 offset: 0 offset: 1 }')],
         {'x': grid(2, 9, 3, 3)}, lambda x, w: [x['x'][:, 2:6, 0:3, 1:3]], labels={'s': grid(9, 4, 3, 2)})

    for shape, axis, n in [((2, 3, 2, 2), 1, 3), ((2, 3, 2, 2), 0, 2), ((2, 3, 2, 2), -1, 4), ((3, 5), 1, 2)]:
        reps = [1] * len(shape)
        reps[axis] = n
        case('tile_%s_%d' % ('x'.join(map(str, shape)), axis),
             [layer('l', 'Tile', ['x'], ['y'], 'tile_param { axis: %d tiles: %d }' % (axis, n))],
             {'x': grid(*shape)}, lambda x, w: [x['x'].repeat(reps)])

    for tag, p, out in [('infer', 'shape { dim: 0 dim: -1 dim: 4 }', (2, 9, 4)), ('flat', 'shape { dim: -1 }', (72,)),
                        ('middle', 'axis: 1 num_axes: 2 shape { dim: 2 dim: 2 dim: 3 }', (2, 2, 2, 3, 3)),
                        ('insert', 'axis: 1 num_axes: 0 shape { dim: 1 }', (2, 1, 4, 3, 3)),
                        ('behind', 'axis: -1 num_axes: 0 shape { dim: 1 dim: 1 }', (2, 4, 3, 3, 1, 1)),
                        ('squeeze', 'axis: -2 shape { dim: -1 }', (2, 4, 3, 3)),
                        ('copy', 'axis: 1 shape { dim: 0 dim: 9 }', (2, 4, 9))]:
        case('reshape_' + tag, [layer('l', 'Reshape', ['x'], ['y'], 'reshape_param { %s }' % p)],
             {'x': grid(2, 4, 3, 3)}, lambda x, w: [x['x'].reshape(out)])
    case('reshape_then_in_place', [hidden('l', 'Reshape', ['x'], ['r'], 'reshape_param { shape { dim: 0 dim: -1 } }'),
                                   layer('t', 'TanH', ['r'], ['r'])],
         {'x': grid(2, 4, 3, 3)}, lambda x, w: [torch.tanh(x['x'].reshape(2, 36))], tops=['r'])

    index = torch.tensor([2., 0, 2, 1, 2])
    case('batch_reindex', [layer('l', 'BatchReindex', ['x', 'i'], ['y'])], {'x': grid(4, 3, 2, 2)},
         lambda x, w: [x['x'][index.long()]], labels={'i': index})

    def shuffle(x, g):
        s = list(x.shape)
        return x.reshape([s[0], g, s[1] // g] + s[2:]).transpose(1, 2).reshape(s)

    for shape, g in [((2, 6, 3, 2), 3), ((2, 24, 2, 2), 4), ((2, 12, 2, 2), 2), ((3, 10), 5), ((2, 20, 1, 2), 4)]:
        case('shuffle_%s_%d' % ('x'.join(map(str, shape)), g),
             [layer('l', 'ShuffleChannel', ['x'], ['y'], 'shuffle_channel_param { group: %d }' % g)],
             {'x': grid(*shape)}, lambda x, w: [shuffle(x['x'], g)])

    for bias in [True, False]:
        for shape in [(4,), (2, 3), (3, 1, 1, 1)]:
            index = integers(5, *shape)
            p = [grid(5, 3)] + ([grid(3)] if bias else [])
            case('embed_%d_%s' % (bias, 'x'.join(map(str, shape))),
                 [layer('l', 'Embed', ['i'], ['y'], 'embed_param { input_dim: 5 num_output: 3 bias_term: %s }'
                        % ('true' if bias else 'false'))], {},
                 lambda x, w: [w['l'][0][index.long()] + (w['l'][1] if bias else 0)], params={'l': p},
                 labels={'i': index})
    case('parameter', [hidden('l', 'Parameter', [], ['w'], 'parameter_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } }'),
                       layer('e', 'Eltwise', ['x', 'w'], ['y'], 'eltwise_param { operation: PROD }')],
         {'x': grid(2, 3, 2, 2)}, lambda x, w: [x['x'] * w['l'][0]], params={'l': [grid(2, 3, 2, 2)]})


# ---- Reductions ------------------------------------------------------------------------------------

def reduction_cases():
    zero = [(0, 0.05)]
    for op, f in [('SUM', lambda x: x.sum(-1)), ('ASUM', lambda x: x.abs().sum(-1)),
                  ('SUMSQ', lambda x: (x * x).sum(-1)), ('MEAN', lambda x: x.mean(-1))]:
        for axis in [0, 1, -1, 2]:
            shape = (2, 3, 2, 4)
            a = axis % 4
            case('reduction_%s_%d' % (op, axis),
                 [layer('l', 'Reduction', ['x'], ['y'],
                        'reduction_param { operation: %s axis: %d coeff: -1.5 }' % (op, axis))],
                 {'x': grid(*shape, away=zero)}, lambda x, w: [-1.5 * f(x['x'].reshape(shape[:a] + (-1,)))])

    def argmax(x, k, axis, values):
        n = x.shape[0]
        rows = x.reshape(n, -1) if axis is None else x.movedim(axis, -1).reshape(-1, x.shape[axis])
        order = [sorted(range(rows.shape[1]), key=lambda i: (-float(r[i]), -i))[:k] for r in rows]
        at = torch.tensor(order).double()
        best = torch.stack([r[o] for r, o in zip(rows, order)])
        if axis is None:
            tail = [1] * max(0, x.dim() - 3)
            return torch.stack([at, best], 1).reshape([n, 2, k] + tail) if values else at.reshape([n, 1, k] + tail)
        s = list(x.movedim(axis, -1).shape)[:-1] + [k]
        return (best if values else at).reshape(s).movedim(-1, axis)

    for k in [1, 3]:
        for values in [False, True]:
            for axis in [None, 1, -1]:
                p = 'top_k: %d out_max_val: %s' % (k, 'true' if values else 'false')
                if axis is not None:
                    p += ' axis: %d' % axis
                x = torch.round(grid(2, 5, 3, 4))  # with ties
                case('argmax_%d_%d_%s' % (k, values, axis), [hidden('l', 'ArgMax', ['x'], ['y'], 'argmax_param { %s }' % p)],
                     {'x': x}, lambda x, w: [argmax(x['x'], k, axis, values)], train=False)
    case('argmax_rows', [hidden('l', 'ArgMax', ['x'], ['y'])], {'x': grid(4, 7)},
         lambda x, w: [argmax(x['x'], 1, None, False)], train=False)

    def mvn(x, variance, across, eps):
        rows = x.reshape(x.shape[0] if across else x.shape[0] * x.shape[1], -1)
        m = rows.mean(1, keepdim=True)
        q = torch.sqrt(((rows - m) ** 2).mean(1, keepdim=True)) + eps
        y = (rows - m) / q if variance else rows - m
        return rows, m, q, y

    for variance in [True, False]:
        for across in [True, False]:
            for eps in [1e-9, 0.5]:
                def grads(inputs, params, seeds):
                    rows, m, q, y = mvn(inputs['x'], variance, across, eps)
                    dy = seeds[0].reshape(rows.shape)
                    dx = dy - dy.mean(1, keepdim=True)
                    if variance:
                        dx = (dx - y * (dy * y).mean(1, keepdim=True)) / q
                    return {'x': dx.reshape(inputs['x'].shape)}, {}
                case('mvn_%d_%d_%g' % (variance, across, eps),
                     [layer('l', 'MVN', ['x'], ['y'], 'mvn_param { normalize_variance: %s across_channels: %s eps: %g }'
                            % (str(variance).lower(), str(across).lower(), eps))],
                     {'x': grid(2, 3, 4, 3)}, lambda x, w: [mvn(x['x'], variance, across, eps)[3].reshape(x['x'].shape)],
                     grads=grads, differences=eps < 0.1)


# ---- Windows -----------------------------------------------------------------------------------------

def window_cases():
    F = torch.nn.functional
    for tag, c, o, k, s, p, d, g, bias in [
            ('plain', 3, 4, 3, 2, 0, 1, 1, True), ('pad', 4, 6, 3, 2, 1, 1, 2, True), ('dilated', 2, 3, 3, 1, 1, 2, 1, False),
            ('depthwise', 8, 8, 4, 2, 1, 1, 8, False), ('wide', 16, 8, 2, 2, 0, 1, 1, True)]:
        case('deconvolution_' + tag,
             [layer('l', 'Deconvolution', ['x'], ['y'],
                    'convolution_param { num_output: %d kernel_size: %d stride: %d pad: %d dilation: %d group: %d '
                    'bias_term: %s }' % (o, k, s, p, d, g, str(bias).lower()))],
             {'x': grid(2, c, 3, 4)},
             lambda x, w: [F.conv_transpose2d(x['x'], w['l'][0], w['l'][1] if bias else None, s, p, 0, g, d)],
             params={'l': [grid(c, o // g, k, k)] + ([grid(o)] if bias else [])})
    case('deconvolution_two', [layer('l', 'Deconvolution', ['x', 'z'], ['y', 'v'],
                                     'convolution_param { num_output: 2 kernel_h: 2 kernel_w: 3 }')],
         {'x': grid(1, 2, 2, 2), 'z': grid(1, 2, 2, 2)},
         lambda x, w: [F.conv_transpose2d(x[i], w['l'][0], w['l'][1]) for i in 'xz'],
         params={'l': [grid(2, 2, 2, 3), grid(2)]}, tops=['y', 'v'], differences=False, grads=None)
    # Caffe's TestSimpleDeconvolution: 3.1 plain, 6.1 where two overlap, 12.1 where four do
    case('deconvolution_caffe', [layer('l', 'Deconvolution', ['x'], ['y'], 'convolution_param { num_output: 4 kernel_size: 3 stride: 2 }')],
         {'x': torch.ones(2, 3, 6, 4)}, lambda x, w: [F.conv_transpose2d(x['x'], w['l'][0], w['l'][1], 2)],
         params={'l': [torch.ones(3, 4, 3, 3), torch.full((4,), 0.1)]}, differences=False)
    for kind, p in [('DepthwiseConvolution', 'num_output: 8'), ('DepthwiseConvolution', 'num_output: 8 group: 8'),
                    ('DepthwiseConvolution', 'num_output: 16'), ('ConvolutionDepthwise', ''),
                    ('ConvolutionDepthwise', 'num_output: 8')]:
        o = 16 if '16' in p else 8
        case('%s_%s' % (kind, p.replace(' ', '').replace(':', '')),
             [layer('l', kind, ['x'], ['y'], 'convolution_param { %s kernel_size: 3 pad: 1 stride: 2 }' % p)],
             {'x': grid(2, 8, 5, 5)}, lambda x, w: [F.conv2d(x['x'], w['l'][0], w['l'][1], 2, 1, 1, 8)],
             params={'l': [grid(o, 1, 3, 3), grid(o)]}, differences=False)
    for k, s, p, d in [(3, 1, 1, 1), (2, 2, 0, 1), (2, 1, 1, 2)]:
        oh = (4 + 2 * p - d * (k - 1) - 1) // s + 1
        ow = (5 + 2 * p - d * (k - 1) - 1) // s + 1
        case('im2col_%d%d%d%d' % (k, s, p, d),
             [layer('l', 'Im2col', ['x'], ['y'], 'convolution_param { kernel_size: %d stride: %d pad: %d dilation: %d }'
                    % (k, s, p, d))], {'x': grid(2, 3, 4, 5)},
             lambda x, w: [F.unfold(x['x'], k, d, p, s).reshape(2, 3 * k * k, oh, ow)])
    for tag, p, size, cut in [('size', 'height: 7 width: 5', (7, 5), 0), ('zoom', 'zoom_factor: 2', (7, 9), 0),
                              ('shrink', 'shrink_factor: 2', (2, 3), 0), ('both', 'shrink_factor: 2 zoom_factor: 3', (4, 7), 0),
                              ('one', 'height: 1 width: 1', (1, 1), 0), ('cut', 'height: 6 width: 6 pad_beg: -1 pad_end: -1', (6, 6), 1)]:
        for c in [3, 16]:
            def interp(x):
                if cut:
                    x = x[:, :, 1:-1, 1:-1]
                if size == (1, 1):
                    return x[:, :, :1, :1] * 1
                return F.interpolate(x, size, mode='bilinear', align_corners=True)
            case('interp_%s_%d' % (tag, c), [layer('l', 'Interp', ['x'], ['y'], 'interp_param { %s }' % p)],
                 {'x': grid(2, c, 4, 5)}, lambda x, w: [interp(x['x'])], differences=c == 3)

    def spp(x, levels, mean):
        parts = []
        n, c, h, w = x.shape
        for l in range(levels):
            b = 2 ** l
            k = [-(-h // b), -(-w // b)]
            p = [(k[0] * b - h + 1) // 2, (k[1] * b - w + 1) // 2]
            for ch in range(c):
                for i in range(b):
                    for j in range(b):
                        i0, j0 = i * k[0] - p[0], j * k[1] - p[1]
                        i1, j1 = min(i0 + k[0], h + p[0]), min(j0 + k[1], w + p[1])
                        part = x[:, ch, max(i0, 0):min(i1, h), max(j0, 0):min(j1, w)].reshape(n, -1)
                        parts.append(part.sum(1) / ((i1 - i0) * (j1 - j0)) if mean else part.max(1)[0])
        return torch.stack(parts, 1)

    for levels, h, w in [(1, 3, 4), (2, 4, 4), (3, 7, 9)]:
        for mean in [False, True]:
            case('spp_%d_%d' % (levels, mean),
                 [layer('l', 'SPP', ['x'], ['y'], 'spp_param { pyramid_height: %d pool: %s }' % (levels, 'AVE' if mean else 'MAX'))],
                 {'x': distinct(2, 3, h, w, step=0.0625)}, lambda x, w: [spp(x['x'], levels, mean)],
                 differences=levels < 3)


# ---- Losses --------------------------------------------------------------------------------------------

def loss_cases():
    F = torch.nn.functional

    def loss(name, kind, bottoms, rest, inputs, f, labels=None, **more):
        case(name, [layer('l', kind, bottoms, ['y'], rest, weights=[1])], inputs, lambda x, w: [f(x)], labels=labels,
             seeds=[torch.tensor(2.5)], **more)

    for tag, rest, of in [('default', '', 'batch'), ('normalize', 'loss_param { normalize: true }', 'valid'),
                          ('not', 'loss_param { normalize: false }', 'batch'),
                          ('full', 'loss_param { normalization: FULL }', 'full'),
                          ('valid', 'loss_param { normalization: VALID }', 'valid'),
                          ('none', 'loss_param { normalization: NONE }', 'none')]:
        for ignore in [None, -1]:
            for shape in [(4, 3), (2, 5, 2, 3)]:
                t = torch.randint(-1 if ignore is not None else 0, 2, shape, generator=generator).double()
                r = rest
                if ignore is not None:
                    r = rest[:-1] + ' ignore_label: -1 }' if rest else 'loss_param { ignore_label: -1 }'

                def f(x):
                    keep = (t != -1).double() if ignore is not None else torch.ones(shape)
                    each = F.binary_cross_entropy_with_logits(x['x'], t.clamp(min=0), reduction='none')
                    d = {'batch': shape[0], 'full': t.numel(), 'valid': max(1, float(keep.sum())), 'none': 1}[of]
                    return (each * keep).sum() / d
                loss('sigmoid_loss_%s_%s_%d' % (tag, ignore, len(shape)), 'SigmoidCrossEntropyLoss', ['x', 't'], r,
                     {'x': grid(*shape, low=-4, high=4)}, f, {'t': t}, differences=len(shape) == 2)
    t = torch.tensor([[1., 0, 0.5, 1, 0]])
    loss('sigmoid_loss_wide', 'SigmoidCrossEntropyLoss', ['x', 't'], '', {'x': torch.tensor([[-100., 100, 0, 100, -100]])},
         lambda x: F.binary_cross_entropy_with_logits(x['x'], t, reduction='sum'), {'t': t}, differences=False)

    for shape in [(3, 4), (2, 9, 2, 2), (5,)]:
        loss('euclidean_%d' % len(shape), 'EuclideanLoss', ['x', 'z'], '', {'x': grid(*shape), 'z': grid(*shape)},
             lambda x: ((x['x'] - x['z']) ** 2).sum() / (2 * shape[0]))
    z = grid(3, 4)
    loss('euclidean_target', 'EuclideanLoss', ['x', 'z'], '', {'x': grid(3, 4)},
         lambda x: ((x['x'] - z) ** 2).sum() / 6, {'z': z}, )

    for norm in ['', 'hinge_loss_param { norm: L1 }', 'hinge_loss_param { norm: L2 }']:
        t = integers(5, 4)
        sign = 1 - 2 * F.one_hot(t.long(), 5).double()

        def hinge(x):
            m = torch.clamp(1 + sign * x['x'], min=0)
            return (m * m if 'L2' in norm else m).sum() / 4
        loss('hinge_' + (norm[-4:-2] or 'default'), 'HingeLoss', ['x', 't'], norm,
             {'x': grid(4, 5, away=[(1, 0.05), (-1, 0.05)])}, hinge, {'t': t})

    for legacy in [False, True]:
        similar = torch.tensor([1., 0, 0, 1, 0, 0])
        a = grid(6, 3)
        b = a + torch.tensor([[0.5, -0.25, 1], [0.25, 0.25, -0.25], [3, 1, 1], [0, 0, 0.5], [0.125, 0, 0.25], [-0.5, 0.25, 0]])

        def contrastive(x):
            d2 = ((x['x'] - x['z']) ** 2).sum(1)
            away = torch.clamp(1 - d2, min=0) if legacy else torch.clamp(1 - torch.sqrt(d2), min=0) ** 2
            return (similar * d2 + (1 - similar) * away).sum() / 12

        def grads(inputs, params, seeds):
            d = inputs['x'] - inputs['z']
            d2 = (d * d).sum(1, keepdim=True)
            s = similar.reshape(-1, 1)
            if legacy:
                k = torch.where(1 - d2 > 0, -1.0, 0.0)
            else:
                r = torch.sqrt(d2)
                k = torch.where(1 - r > 0, -(1 - r) / (r + 1e-4), torch.zeros_like(r))
            g = seeds[0] * (s + (1 - s) * k) * d / 6
            return {'x': g, 'z': -g}, {}
        rest = 'contrastive_loss_param { margin: 1 legacy_version: %s }' % str(legacy).lower()
        loss('contrastive_%d' % legacy, 'ContrastiveLoss', ['x', 'z', 's'], rest, {'x': a, 'z': b}, contrastive,
             {'s': similar}, grads=grads)
    t = integers(4, 3)
    p = torch.tensor([[0.5, 0.125, 0.25, 0.125], [0.25, 0.25, 0.375, 0.125], [0.125, 0.5, 0.125, 0.25]])
    loss('multinomial', 'MultinomialLogisticLoss', ['x', 't'], '', {'x': p},
         lambda x: -torch.log(x['x'][range(3), t.long()]).sum() / 3, {'t': t}, tolerance=1e-5)

    for shape, axis in [((4, 3), 1), ((2, 3, 2, 2), 1), ((2, 2, 3), -1)]:
        classes = shape[axis]
        places = [s for i, s in enumerate(shape) if i != axis % len(shape)]
        h = grid(classes, classes, low=0, high=2)
        for ignore in [False, True]:
            t = integers(classes, *places)
            keep = torch.where(t == 1, 0.0, 1.0) if ignore else torch.ones(places)

            def infogain(x):
                logp = torch.log_softmax(x['x'], axis).movedim(axis, -1)
                return -((h[t.long()] * logp).sum(-1) * keep).sum() / max(1, float(keep.sum()))
            rest = 'infogain_loss_param { axis: %d }' % axis + (' loss_param { ignore_label: 1 }' if ignore else '')
            loss('infogain_%s_%d' % ('x'.join(map(str, shape)), ignore), 'InfogainLoss', ['x', 't', 'h'], rest,
                 {'x': grid(*shape)}, infogain, {'t': t, 'h': h})


# ---- STOCHASTIC pooling --------------------------------------------------------------------------

def philox(key, counter):
    """Philox 4x32-10 as in Salmon et al. 2011, figure 2; key of 2, counter of 4 words."""
    word = 0xffffffff
    k, c = list(key), list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & word, (a >> 32) ^ c[3] ^ k[1], a & word]
        k = [(k[0] + 0x9E3779B9) & word, (k[1] + 0xBB67AE85) & word]
    return c


def pool_draw(layer_index, sample, element, seed=7, purpose=7):
    """In [0, 1), 24 bits. The seed is layer_values', the purpose RNG_POOL."""
    words = philox([seed & 0xffffffff, seed >> 32],
                   [element // 4, layer_index, sample & 0xffffffff, (sample >> 32) ^ (purpose << 24)])
    return (words[element % 4] >> 8) / 2.0 ** 24


def stochastic_cases():
    def pool(x, kernel, stride, train):
        """Zeiler and Fergus 2013, equations 5 to 8, with Caffe's windows. Sums of sixteenths are exact."""
        n, c, h, w = x.shape
        out = [-(-(size - kernel) // stride) + 1 for size in (h, w)]
        tops = []
        for s in range(n):
            for e in range(c * out[0] * out[1]):
                ch, i, j = e // (out[0] * out[1]), e // out[1] % out[0] * stride, e % out[1] * stride
                window = x[s, ch, i:i + kernel, j:j + kernel].reshape(-1)
                total = window.sum()
                if not train:
                    tops.append((window * window).sum() / total if total > 0 else total * 0)
                    continue
                reached = torch.cumsum(window.detach(), 0) >= pool_draw(1, s, e) * total.detach()
                tops.append(window[reached.long().argmax()])
        return torch.stack(tops).reshape(n, c, *out)

    for train in [True, False]:
        for c, h, w, kernel, stride in [(3, 6, 5, 3, 2), (8, 4, 4, 2, 2), (2, 5, 7, 3, 1), (19, 5, 5, 2, 3)]:
            x = torch.relu(grid(2, c, h, w))
            case('stochastic_%s_%dx%dx%d_%d_%d' % ('train' if train else 'test', c, h, w, kernel, stride),
                 [layer('l', 'Pooling', ['x'], ['y'],
                        'pooling_param { pool: STOCHASTIC kernel_size: %d stride: %d }' % (kernel, stride))],
                 {'x': x}, lambda x, w: [pool(x['x'], kernel, stride, train)], train=train, differences=False,
                 plain_only=train)


def in_place_cases():
    # layers that need their bottom may still be named like it
    case('softmax_in_place', [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 2 }'),
                              layer('l', 'Softmax', ['y'], ['y'])],
         {'x': grid(2, 5, 2, 2)}, lambda x, w: [torch.softmax(2 * x['x'], 1)])
    case('softmax_then_in_place', [hidden('l', 'Softmax', ['x'], ['y']), layer('t', 'TanH', ['y'], ['y'])],
         {'x': grid(2, 5)}, lambda x, w: [torch.tanh(torch.softmax(x['x'], 1))])
    case('relu_dropped_then_tanh', [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 2 }'),
                                    hidden('r', 'ReLU', ['y'], ['y']),
                                    hidden('d', 'Dropout', ['y'], ['y'], 'dropout_param { dropout_ratio: 0 }'),
                                    hidden('p', 'Power', ['y'], ['y'], 'power_param { scale: -1 shift: -1 }'),
                                    layer('t', 'TanH', ['y'], ['y'])],
         {'x': grid(3, 5, away=[(0, 0.05)])}, lambda x, w: [torch.tanh(-1 - torch.relu(2 * x['x']))])
    case('split_both_in_place', [hidden('s', 'Split', ['x'], ['a', 'b']), hidden('r', 'ReLU', ['a'], ['a']),
                                 hidden('t', 'TanH', ['b'], ['b']), layer('e', 'Eltwise', ['a', 'b'], ['y'])],
         {'x': grid(3, 5, away=[(0, 0.05)])}, lambda x, w: [torch.relu(x['x']) + torch.tanh(x['x'])])
    for op, f in [('SUM', lambda a, b: a + b), ('PROD', lambda a, b: a * b), ('MAX', torch.maximum)]:
        case('eltwise_in_place_' + op, [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 2 }'),
                                        layer('e', 'Eltwise', ['y', 'z'], ['y'], 'eltwise_param { operation: %s }' % op)],
             {'x': distinct(2, 9, 2, 2) / 4, 'z': distinct(2, 9, 2, 2) / 4 + 0.03125},
             lambda x, w: [f(2 * x['x'], x['z'])], differences=op != 'MAX')
    case('split_both_in_place_test', [hidden('s', 'Split', ['x'], ['a', 'b']), hidden('d', 'Dropout', ['a'], ['c']),
                                      hidden('r', 'ReLU', ['c'], ['c']),
                                      hidden('t', 'TanH', ['b'], ['b']), hidden('e', 'Eltwise', ['c', 'b'], ['y'])],
         {'x': grid(3, 5)}, lambda x, w: [torch.relu(x['x']) + torch.tanh(x['x'])], train=False)


batch_norm_cases()
scale_cases()
unary_cases()
piece_cases()
reduction_cases()
window_cases()
loss_cases()
in_place_cases()
stochastic_cases()

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'values.txt')
with open(path, 'w') as f:
    f.write('# made by generate.py with PyTorch, seed %d\n' % SEED)
    f.write('\n'.join(out) + '\n')
print('%d cases, %d bytes' % (sum(l.startswith('case ') for l in out), os.path.getsize(path)), file=sys.stderr)
