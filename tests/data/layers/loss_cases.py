"""Cases of losses."""
import torch

from value_record import case, grid, integers, layer


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
                t = integers(0 if ignore is None else -1, 1, *shape)
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
        t = integers(0, 4, 4)

        def hinge(x):
            sign = 1 - 2 * F.one_hot(t.long(), 5).double()
            m = torch.clamp(1 + sign * x['x'], min=0)
            return (m * m if 'L2' in norm else m).sum() / 4
        loss('hinge_' + (norm[-4:-2] or 'default'), 'HingeLoss', ['x', 't'], norm,
             {'x': grid(4, 5, odd=True)}, hinge, {'t': t})

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
    t = integers(0, 3, 3)
    p = torch.tensor([[0.5, 0.125, 0.25, 0.125], [0.25, 0.25, 0.375, 0.125], [0.125, 0.5, 0.125, 0.25]])
    loss('multinomial', 'MultinomialLogisticLoss', ['x', 't'], '', {'x': p},
         lambda x: -torch.log(x['x'][range(3), t.long()]).sum() / 3, {'t': t}, tolerance=1e-5)

    for shape, axis in [((4, 3), 1), ((2, 3, 2, 2), 1), ((2, 2, 3), -1)]:
        classes = shape[axis]
        places = [s for i, s in enumerate(shape) if i != axis % len(shape)]
        h = grid(classes, classes, low=0, high=2)
        for ignore in [False, True]:
            t = integers(0, classes - 1, *places)

            def infogain(x):
                keep = torch.where(t == 1, 0.0, 1.0) if ignore else torch.ones(places)
                logp = torch.log_softmax(x['x'], axis).movedim(axis, -1)
                return -((h[t.long()] * logp).sum(-1) * keep).sum() / max(1, float(keep.sum()))
            rest = 'infogain_loss_param { axis: %d }' % axis + (' loss_param { ignore_label: 1 }' if ignore else '')
            loss('infogain_%s_%d' % ('x'.join(map(str, shape)), ignore), 'InfogainLoss', ['x', 't', 'h'], rest,
                 {'x': grid(*shape)}, infogain, {'t': t, 'h': h})
