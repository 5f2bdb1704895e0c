#!/usr/bin/python3
"""Prints a random net on the images of data/, made of the layers that sum: small ones, and of odd sizes.

  random_net.py SEED FOLDER     FOLDER: of the data files
"""
import random
import sys

draw = random.Random(int(sys.argv[1]))
print('name: "random %s"' % sys.argv[1])
for phase in 'TRAIN', 'TEST':
    print('''layer { name: "data" type: "Data" top: "data" top: "label" include { phase: %s }
  transform_param { scale: 0.00390625 }
  data_param { source: "%s/fashion-mnist-%s.h5" batch_size: 8 } }''' %
          (phase, sys.argv[2], phase.lower()))

bottom, channels, height, width, count = 'data', 1, 28, 28, 0


def layer(kind, fields, in_place=False):
    global bottom, count
    count += 1
    name = '%s%d' % (kind.lower(), count)
    top = bottom if in_place else name
    print('layer { name: "%s" type: "%s" bottom: "%s" top: "%s" %s }' % (name, kind, bottom, top, fields))
    bottom = top


FILLERS = 'weight_filler { type: "xavier" }'


def convolve():
    global channels, height, width
    group = draw.choice([g for g in (1, 1, 1, 2, 3, 4, 8) if channels % g == 0])
    stride, pad = draw.choice((1, 1, 2, 3)), draw.randint(0, 2)
    kernel_h, kernel_w = (min(draw.choice((1, 2, 3, 3, 5, 7)), size + 2 * pad) for size in (height, width))
    outputs = group * draw.choice((1, 2, 3, 4, 5, 8, 16))
    layer('Convolution', 'convolution_param { num_output: %d kernel_h: %d kernel_w: %d stride: %d pad_h: %d pad_w: %d '
          'group: %d bias_term: %s %s }' % (outputs, kernel_h, kernel_w, stride, pad, pad, group,
                                            draw.choice(('true', 'false')), FILLERS))
    channels = outputs
    height, width = ((size + 2 * pad - kernel) // stride + 1
                     for size, kernel in ((height, kernel_h), (width, kernel_w)))


def deconvolve():
    global channels, height, width
    kernel, stride = draw.choice((1, 2, 3, 4)), draw.choice((1, 2))
    if height * stride > 40:
        return
    outputs = draw.choice((2, 3, 5, 8))
    layer('Deconvolution', 'convolution_param { num_output: %d kernel_size: %d stride: %d %s }' %
          (outputs, kernel, stride, FILLERS))
    channels, height, width = outputs, (height - 1) * stride + kernel, (width - 1) * stride + kernel


def pool():
    global height, width
    if min(height, width) < 3:
        return
    layer('Pooling', 'pooling_param { pool: %s kernel_size: 2 stride: 2 }' % draw.choice(('MAX', 'AVE')))
    height, width = (height + 1) // 2, (width + 1) // 2


def between():
    kind = draw.randrange(6)
    if kind == 0:
        layer('BatchNorm', '', True)
        layer('Scale', 'scale_param { bias_term: true }', True)
    elif kind == 1:
        layer('PReLU', '')
    elif kind == 2:
        layer('LRN', 'lrn_param { local_size: 3 }')
    elif kind < 5:
        layer('ReLU', '', True)


for _ in range(draw.randint(1, 4)):
    draw.choice((convolve, convolve, convolve, deconvolve, pool))()
    between()
for _ in range(draw.randint(0, 2)):
    layer('InnerProduct', 'inner_product_param { num_output: %d transpose: %s %s }' %
          (draw.choice((1, 7, 33, 100, 500)), draw.choice(('true', 'false', 'false')), FILLERS))
    if draw.randrange(3):
        layer('ReLU', '', True)
layer('InnerProduct', 'inner_product_param { num_output: 10 %s }' % FILLERS)
print('layer { name: "loss" type: "SoftmaxWithLoss" bottom: "%s" bottom: "label" top: "loss" }' % bottom)
