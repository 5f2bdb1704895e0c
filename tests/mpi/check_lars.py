#!/usr/bin/python3
"""LARS beside a plain reference in double precision.

  check_lars.py make FOLDER                                   data.h5, data.txt and net.prototxt
  check_lars.py check FOLDER MODEL ITERATIONS CLIP ITER_SIZE  the model's parameters beside numpy's

The net is linear, 24 samples are the whole batch, and the loss is Euclidean: gradients are one line of numpy.
"""
import sys

import h5py
import numpy

SAMPLES, INPUTS, HIDDEN, OUTPUTS = 24, 7, 5, 3
RATE, MOMENTUM, DECAY, RATIO = 0.5, 0.9, 0.01, 0.02

random = numpy.random.RandomState(5)
x = random.uniform(-1, 1, (SAMPLES, INPUTS))
y = random.uniform(-1, 1, (SAMPLES, OUTPUTS))
first = [0.25, None, -0.125, 0.5]  # fillers: constants; the first bias begins at 0
folder = sys.argv[2]


def make():
    with h5py.File(folder + '/data.h5', 'w') as f:
        f['data'], f['label'] = x.astype('f4'), y.astype('f4')
    open(folder + '/data.txt', 'w').write(folder + '/data.h5\n')
    layers = "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: '%s/data.txt' " \
             "batch_size: %d } }\n" % (folder, SAMPLES)
    for name, bottom, outputs, weight, bias in [('ip1', 'data', HIDDEN, first[0], None),
                                                ('ip2', 'ip1', OUTPUTS, first[2], first[3])]:
        layers += "layer { name: '%s' type: 'InnerProduct' bottom: '%s' top: '%s' param { lr_mult: 1 } param { " \
                  "lr_mult: 2 decay_mult: 0 } inner_product_param { num_output: %d weight_filler { type: 'constant' " \
                  "value: %g } bias_filler { value: %g } } }\n" % (name, bottom, name, outputs, weight, bias or 0)
    open(folder + '/net.prototxt', 'w').write(
        layers + "layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip2' bottom: 'label' top: 'l' }\n")


def reference(iterations, clip, iter_size):
    w = [numpy.full((HIDDEN, INPUTS), first[0]), numpy.zeros(HIDDEN), numpy.full((OUTPUTS, HIDDEN), first[2]),
         numpy.full(OUTPUTS, first[3])]
    h = [numpy.zeros_like(p) for p in w]
    for _ in range(iterations):
        a = x @ w[0].T + w[1]
        dz = (a @ w[2].T + w[3] - y) / SAMPLES
        da = dz @ w[2]
        g = [da.T @ x, da.sum(0), dz.T @ a, dz.sum(0)]
        norm = iter_size * numpy.sqrt(sum((p ** 2).sum() for p in g))  # before division by iter_size
        if clip > 0 and norm > clip:
            g = [p * clip / norm for p in g]
        for i, p in enumerate(w):
            wn, gn = numpy.linalg.norm(p), numpy.linalg.norm(g[i])
            local = RATIO * wn / (gn + DECAY * wn) if wn > 0 and gn > 0 else 1
            h[i] = MOMENTUM * h[i] + RATE * local * (g[i] + (0 if i % 2 else DECAY) * p)
            w[i] = p - h[i]
    return w


if sys.argv[1] == 'make':
    make()
    sys.exit()
expected = reference(int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6]))
worst = 0
with h5py.File(sys.argv[3], 'r') as f:
    for i, p in enumerate(expected):
        found = f['data/ip%d/%d' % (i // 2 + 1, i % 2)][()]
        worst = max(worst, abs(found - p).max() / abs(p).max())
if worst > 2e-5:
    sys.exit('parameters differ by %g of the largest' % worst)
print('largest difference %.1e' % worst)
