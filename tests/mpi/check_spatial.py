#!/usr/bin/python3
"""Nets over clips and over lines beside a plain reference in double precision.

  check_spatial.py make FOLDER                  data.h5, data.txt, weights.caffemodel.h5 and net.prototxt, of clips
  check_spatial.py make FOLDER lines            the same of lines
  check_spatial.py check FOLDER KIND MODEL N    the model's parameters after N iterations beside numpy's

All 24 samples are one batch. Three classes: noise, each with a pattern of its own.
"""
import itertools
import sys

import h5py
import numpy

SAMPLES, CLASSES, RATE, MOMENTUM, DECAY = 24, 3, 0.3, 0.9, 0.001

# name, outputs, kernel, stride, pad, groups; the pools behind them: method, kernel
NETS = {
    'clips': ((2, 4, 7, 6), [('conv1', 8, (3, 3, 2), (1, 2, 1), (1, 1, 0), 1), ('conv2', 6, (2, 1, 3), (1, 1, 1),
                                                                               (0, 0, 1), 2)],
              [('MAX', (1, 2, 2)), ('AVE', None)]),
    'lines': ((3, 23), [('conv1', 8, (5,), (2,), (2,), 1), ('conv2', 6, (3,), (1,), (0,), 2)],
              [('MAX', (2,)), ('AVE', None)]),
}
folder = sys.argv[2]
kind = (sys.argv[3:4] or ['clips'])[0]
shape, convs, pools = NETS[kind]
random = numpy.random.RandomState(7)
labels = numpy.arange(SAMPLES) % CLASSES
patterns = random.uniform(-1, 1, (CLASSES,) + shape)
x = (patterns[labels] + random.uniform(-1, 1, (SAMPLES,) + shape)).astype('f4').astype('f8')


def first_weights():
    random = numpy.random.RandomState(8)
    weights, channels = [], shape[0]
    for _, outputs, kernel, _, _, groups in convs:
        taps = int(numpy.prod(kernel))
        weights += [random.uniform(-1, 1, (outputs, channels // groups) + kernel) / numpy.sqrt(channels * taps),
                    random.uniform(-0.1, 0.1, outputs)]
        channels = outputs
    weights += [random.uniform(-1, 1, (CLASSES, channels)), random.uniform(-0.1, 0.1, CLASSES)]
    return [w.astype('f4').astype('f8') for w in weights]


def each(field, values):
    return ' '.join('%s: %d' % (field, v) for v in values)


def make():
    with h5py.File(folder + '/data.h5', 'w') as f:
        f['data'], f['label'] = x.astype('f4'), labels.astype('f4')
    open(folder + '/data.txt', 'w').write(folder + '/data.h5\n')
    with h5py.File(folder + '/weights.caffemodel.h5', 'w') as f:
        for i, w in enumerate(first_weights()):
            f['data/%s/%d' % (('conv1', 'conv2', 'ip')[i // 2], i % 2)] = w.astype('f4')
    text = "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: '%s/data.txt' " \
           "batch_size: %d } }\n" % (folder, SAMPLES)
    bottom = 'data'
    for (name, outputs, kernel, stride, pad, groups), (method, window) in zip(convs, pools):
        text += "layer { name: '%s' type: 'Convolution' bottom: '%s' top: '%s' convolution_param { num_output: %d " \
                "%s %s %s group: %d } }\n" % (name, bottom, name, outputs, each('kernel_size', kernel),
                                              each('stride', stride), each('pad', pad), groups)
        text += "layer { name: 'tanh_%s' type: 'TanH' bottom: '%s' top: '%s' }\n" % (name, name, name)
        more = each('kernel_size', window) + ' ' + each('stride', window) if window else 'global_pooling: true'
        bottom = 'pool_' + name
        text += "layer { name: '%s' type: 'Pooling' bottom: '%s' top: '%s' pooling_param { pool: %s %s } }\n" % (
            bottom, name, bottom, method, more)
    open(folder + '/net.prototxt', 'w').write(
        "name: '%s'\n" % kind + text + "layer { name: 'ip' type: 'InnerProduct' bottom: '%s' top: 'ip' "
        "inner_product_param { num_output: %d } }\nlayer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' "
        "bottom: 'label' top: 'loss' }\n" % (bottom, CLASSES))


def taps(kernel, stride, size):
    """For each place in the kernel: the pixels it meets, as slices of the padded image."""
    places = [(s - k) // t + 1 for s, k, t in zip(size, kernel, stride)]
    for tap in itertools.product(*[range(k) for k in kernel]):
        yield tap, tuple(slice(a, a + t * (n - 1) + 1, t) for a, t, n in zip(tap, stride, places))


class Conv:
    def __init__(self, kernel, stride, pad, groups):
        self.kernel, self.stride, self.pad, self.groups = kernel, stride, pad, groups

    def parts(self, array):
        return numpy.split(array, self.groups, 1)

    def forward(self, image, w, b):
        self.padded = numpy.pad(image, [(0, 0), (0, 0)] + [(p, p) for p in self.pad])
        self.w, tops = w, []
        for part, v in zip(self.parts(self.padded), numpy.split(w, self.groups, 0)):
            tops.append(sum(numpy.einsum('nc...,oc->no...', part[(slice(None),) * 2 + at], v[(slice(None),) * 2 + tap])
                            for tap, at in taps(self.kernel, self.stride, part.shape[2:])))
        y = numpy.concatenate(tops, 1)
        return y + b.reshape((1, -1) + (1,) * (y.ndim - 2))

    def backward(self, dy):
        dx, dw = numpy.zeros_like(self.padded), numpy.zeros_like(self.w)
        others = [i for i in range(dy.ndim) if i != 1]
        for part, back, dv, v, d in zip(self.parts(self.padded), self.parts(dx), numpy.split(dw, self.groups, 0),
                                        numpy.split(self.w, self.groups, 0), self.parts(dy)):
            for tap, at in taps(self.kernel, self.stride, part.shape[2:]):
                dv[(slice(None),) * 2 + tap] = numpy.tensordot(d, part[(slice(None),) * 2 + at], (others, others))
                back[(slice(None),) * 2 + at] += numpy.einsum('no...,oc->nc...', d, v[(slice(None),) * 2 + tap])
        inside = tuple(slice(p, s - p) for p, s in zip(self.pad, dx.shape[2:]))
        return dx[(slice(None),) * 2 + inside], dw, dy.sum(tuple(others))


class Max:
    """Windows that do not overlap; sizes round up, so the last ones may be cut."""

    def __init__(self, kernel):
        self.kernel = kernel

    def forward(self, image):
        self.shape = image.shape
        fill = [(0, 0), (0, 0)] + [(0, -s % k) for s, k in zip(image.shape[2:], self.kernel)]
        padded = numpy.pad(image, fill, constant_values=-numpy.inf)
        cells = numpy.stack([padded[(slice(None),) * 2 + at]
                             for _, at in taps(self.kernel, self.kernel, padded.shape[2:])])
        self.padded, self.best = padded.shape, cells.argmax(0)
        return cells.max(0)

    def backward(self, dy):
        dx = numpy.zeros(self.padded)
        for i, (_, at) in enumerate(taps(self.kernel, self.kernel, self.padded[2:])):
            dx[(slice(None),) * 2 + at] = numpy.where(self.best == i, dy, 0)
        return dx[tuple(slice(0, s) for s in self.shape)]


def reference(iterations):
    w = first_weights()
    h = [numpy.zeros_like(p) for p in w]
    losses = []
    for _ in range(iterations):
        one, two = (Conv(c[2], c[3], c[4], c[5]) for c in convs)
        pool = Max(pools[0][1])
        a = numpy.tanh(one.forward(x, w[0], w[1]))
        b = numpy.tanh(two.forward(pool.forward(a), w[2], w[3]))
        mean = b.reshape(b.shape[:2] + (-1,)).mean(2)
        scores = mean @ w[4].T + w[5]
        p = numpy.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(-numpy.log(p[numpy.arange(SAMPLES), labels]).mean())
        d = (p - numpy.eye(CLASSES)[labels]) / SAMPLES
        g = [None] * 4 + [d.T @ mean, d.sum(0)]
        db = (d @ w[4]).reshape(mean.shape + (1,) * (b.ndim - 2)) / (b[0, 0].size) * numpy.ones_like(b)
        dpool, g[2], g[3] = two.backward(db * (1 - b * b))
        _, g[0], g[1] = one.backward(pool.backward(dpool) * (1 - a * a))
        for i, v in enumerate(w):
            h[i] = MOMENTUM * h[i] + RATE * (g[i] + DECAY * v)
            w[i] = v - h[i]
    return w, losses


if sys.argv[1] == 'make':
    make()
    sys.exit()
expected, losses = reference(int(sys.argv[5]))
worst = 0
with h5py.File(sys.argv[4], 'r') as f:
    for i, p in enumerate(expected):
        found = f['data/%s/%d' % (('conv1', 'conv2', 'ip')[i // 2], i % 2)][()]
        assert found.shape == p.shape, (found.shape, p.shape)
        worst = max(worst, abs(found - p).max() / abs(p).max())
if worst > 2e-5:
    sys.exit('parameters differ by %g of the largest' % worst)
if losses[-1] > losses[0] / 2:
    sys.exit('nothing was learnt: losses %s' % losses)
print('largest difference %.1e; the loss went from %.3f to %.3f' % (worst, losses[0], losses[-1]))
