"""Cases of BatchNorm, Scale and Bias."""
import torch

from value_record import case, grid, hidden, layer


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
             differences=not flat, tolerance=0.05 if flat else None)  # 0 but for rounding
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
    far = grid(4, 3, 4, 4, low=-0.5, high=0.5, step=1 / 64, shift=1000)
    case('batch_norm_far_from_zero', [layer('l', 'BatchNorm', ['x'], ['y'])], {'x': far},
         train(1e-5), params=stats(3), after=running(0.999), differences=False, tolerance=5e-5)

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
