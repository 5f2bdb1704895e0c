"""Cases of layers that take blobs apart, put them together or sum them up, and of layers in place."""
import torch

from value_record import case, distinct, grid, hidden, integers, layer


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
            index = integers(0, 4, *shape)
            p = [grid(5, 3)] + ([grid(3)] if bias else [])
            case('embed_%d_%s' % (bias, 'x'.join(map(str, shape))),
                 [layer('l', 'Embed', ['i'], ['y'], 'embed_param { input_dim: 5 num_output: 3 bias_term: %s }'
                        % ('true' if bias else 'false'))], {},
                 lambda x, w: [w['l'][0][index.long()] + (w['l'][1] if bias else 0)], params={'l': p},
                 labels={'i': index})
    case('parameter', [hidden('l', 'Parameter', [], ['w'], 'parameter_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } }'),
                       layer('e', 'Eltwise', ['x', 'w'], ['y'], 'eltwise_param { operation: PROD }')],
         {'x': grid(2, 3, 2, 2)}, lambda x, w: [x['x'] * w['l'][0]], params={'l': [grid(2, 3, 2, 2)]})


def reduction_cases():
    for op, f in [('SUM', lambda x: x.sum(-1)), ('ASUM', lambda x: x.abs().sum(-1)),
                  ('SUMSQ', lambda x: (x * x).sum(-1)), ('MEAN', lambda x: x.mean(-1))]:
        for axis in [0, 1, -1, 2]:
            shape = (2, 3, 2, 4)
            a = axis % 4
            case('reduction_%s_%d' % (op, axis),
                 [layer('l', 'Reduction', ['x'], ['y'],
                        'reduction_param { operation: %s axis: %d coeff: -1.5 }' % (op, axis))],
                 {'x': grid(*shape, odd=True)}, lambda x, w: [-1.5 * f(x['x'].reshape(shape[:a] + (-1,)))])

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
                x = integers(-2, 2, 2, 5, 3, 4)  # with ties
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
         {'x': grid(3, 5, odd=True)}, lambda x, w: [torch.tanh(-1 - torch.relu(2 * x['x']))])
    case('split_both_in_place', [hidden('s', 'Split', ['x'], ['a', 'b']), hidden('r', 'ReLU', ['a'], ['a']),
                                 hidden('t', 'TanH', ['b'], ['b']), layer('e', 'Eltwise', ['a', 'b'], ['y'])],
         {'x': grid(3, 5, odd=True)}, lambda x, w: [torch.relu(x['x']) + torch.tanh(x['x'])])
    for op, f in [('SUM', lambda a, b: a + b), ('PROD', lambda a, b: a * b), ('MAX', torch.maximum)]:
        case('eltwise_in_place_' + op, [hidden('a', 'Power', ['x'], ['y'], 'power_param { scale: 2 }'),
                                        layer('e', 'Eltwise', ['y', 'z'], ['y'], 'eltwise_param { operation: %s }' % op)],
             {'x': distinct(2, 9, 2, 2, scale=0.5), 'z': distinct(2, 9, 2, 2, scale=0.5, shift=1 / 64)},
             lambda x, w: [f(2 * x['x'], x['z'])], differences=op != 'MAX')
    case('split_both_in_place_test', [hidden('s', 'Split', ['x'], ['a', 'b']), hidden('d', 'Dropout', ['a'], ['c']),
                                      hidden('r', 'ReLU', ['c'], ['c']),
                                      hidden('t', 'TanH', ['b'], ['b']), hidden('e', 'Eltwise', ['c', 'b'], ['y'])],
         {'x': grid(3, 5)}, lambda x, w: [torch.relu(x['x']) + torch.tanh(x['x'])], train=False)
