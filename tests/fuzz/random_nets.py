"""Small random nets, data and solvers for random_runs.py: all that is drawn comes from a random.Random of the caller's."""
import os

import h5py
import numpy

CLASSES, TARGETS, RECORDS = 5, 3, (40, 23)
SHAPES = {'image': (2, 9, 8), 'flat': (12,)}


def write_data(folder):
    """FOLDER/SHAPE.txt and the two HDF5 files that it lists, for each of SHAPES."""
    draw = numpy.random.RandomState(3)
    for shape, dims in SHAPES.items():
        with open(f'{folder}/{shape}.txt', 'w') as listing:
            for i, n in enumerate(RECORDS):
                path = os.path.join(folder, f'{shape}{i}.h5')
                with h5py.File(path, 'w') as f:
                    f['data'] = draw.randn(n, *dims).astype('f4')
                    f['label'] = draw.randint(0, CLASSES, n).astype('f4')
                    f['target'] = draw.randn(n, TARGETS).astype('f4')
                    f['binary'] = draw.randint(0, 2, (n, TARGETS)).astype('f4')
                listing.write(path + '\n')


class Net:
    """A chain of random blocks with one or two losses. `text` is its prototxt; `outputs` are the test net's; `smooth`:
    nothing in it turns a difference of rounding into one of a whole gradient, as ReLU, MAX and hinges do, or blows up what is
    rounding alone, as BatchNorm does with the biases before it."""

    def __init__(self, random, data):
        self.random, self.layers, self.count, self.outputs = random, [], 0, []
        self.smooth = random.random() < 0.5
        kind = random.choice(list(SHAPES))
        self.blob, self.shape, self.wanted = 'data', SHAPES[kind], set()
        self.branched = None  # the blob of a loss in the middle: nothing may overwrite it
        for _ in range(random.randint(1, 5)):
            blocks = [self.neuron, self.hidden, self.shared, self.branches]
            if not self.smooth:
                blocks.append(self.normal)
            if len(self.shape) == 3:
                blocks += [self.convolution, self.convolution, self.pooling]
            if random.random() < 0.15:
                self.head()
                self.branched = self.blob
            random.choice(blocks)()
        self.head()
        self.text = "name: 'random'\n" + self.data_layers(kind, data) + ''.join(self.layers)

    def data_layers(self, kind, folder):
        tops, random = ['data'] + sorted(self.wanted), self.random
        batch = random.randint(1, 6)
        if random.random() < 0.8:
            shuffle = random.choice(['', 'shuffle: true'])
            return "layer { name: 'in' type: 'HDF5Data' %s hdf5_data_param { source: '%s/%s.txt' batch_size: %d %s } }\n" % (
                ' '.join(f"top: '{t}'" for t in tops), folder, kind, batch, shuffle)
        dims = {'data': SHAPES[kind], 'label': (), 'target': (TARGETS,), 'binary': (TARGETS,)}
        filler = {'data': "type: 'gaussian' std: 1", 'target': "type: 'uniform' min: -1 max: 1"}
        return ''.join("layer { name: 'in %s' type: 'DummyData' top: '%s' dummy_data_param { shape { %s } data_filler { %s } } }\n" % (
            t, t, ' '.join(f'dim: {d}' for d in (batch,) + dims[t]), filler.get(t, "type: 'constant' value: 1")) for t in tops)

    def layer(self, type, bottoms, parameters='', tops=None):
        """Its one top, unless the names of tops are given."""
        self.count += 1
        name = f'{type.lower()}{self.count}'
        self.layers.append("layer { name: '%s' type: '%s' %s %s %s }\n" % (
            name, type, ' '.join(f"bottom: '{b}'" for b in bottoms), ' '.join(f"top: '{t}'" for t in tops or [name]), parameters))
        return name

    def params(self, names=None):
        """Multipliers of weights and bias, at times 0; with names, they are shared."""
        pairs = self.random.choice([None, None, None, ((1, 1), (2, 0)), ((0, 0), (0, 0)), ((1, 1), (0, 0)), ((0, 0), (1, 1)), ((0.5, 2), (1, 1))])
        if not pairs and not names:
            return ''
        return ' '.join("param { %s lr_mult: %g decay_mult: %g }" % (f"name: '{names}{i}'" if names else '', rate, decay)
                        for i, (rate, decay) in enumerate(pairs or ((1, 1), (1, 1))))

    def full(self, bottom, outputs, params):
        return self.layer('InnerProduct', [bottom], params + " inner_product_param { num_output: %d weight_filler { type: 'xavier' } "
                          "bias_filler { type: 'constant' value: 0.1 } }" % outputs)

    def hidden(self):
        width = self.random.randint(2, 24)
        self.blob, self.shape = self.full(self.blob, width, self.params()), (width,)

    def shared(self):
        """Two layers of the same weights, one behind the other."""
        width, params = self.random.randint(2, 12), self.params(f'w{self.count}')
        first = self.full(self.blob, width, '')
        self.blob, self.shape = self.full(self.full(first, width, params), width, params), (width,)

    def conv(self, bottom, outputs, kernel, stride, pad, group):
        return self.layer('Convolution', [bottom], self.params() + " convolution_param { num_output: %d kernel_size: %d stride: %d pad: %d "
                          "group: %d weight_filler { type: 'xavier' } }" % (outputs, kernel, stride, pad, group))

    def draw_conv(self):
        """Arguments of conv, and the shape that it gives."""
        channels, height, width = self.shape
        kernel = self.random.randint(1, min(3, height, width))
        stride, pad = self.random.randint(1, 2), self.random.randint(0, kernel // 2)
        group = 2 if channels % 2 == 0 and self.random.random() < 0.3 else 1
        outputs = group * self.random.randint(1, 4)
        return (outputs, kernel, stride, pad, group), (outputs, (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1)

    def convolution(self):
        arguments, self.shape = self.draw_conv()
        self.blob = self.conv(self.blob, *arguments)

    def pooling(self):
        channels, height, width = self.shape
        kernel, stride = self.random.randint(1, min(3, height, width)), self.random.randint(1, 2)
        way = 'AVE' if self.smooth else self.random.choice(['MAX', 'AVE'])
        self.blob = self.layer('Pooling', [self.blob], 'pooling_param { pool: %s kernel_size: %d stride: %d }' % (way, kernel, stride))
        self.shape = (channels, -(-(height - kernel) // stride) + 1, -(-(width - kernel) // stride) + 1)

    def neuron(self):
        types = ['TanH', 'Sigmoid', 'Dropout'] + ([] if self.smooth else ['ReLU', 'ReLU', 'ReLU'])
        in_place = self.blob not in ('data', self.branched) and self.random.random() < 0.6
        top = self.layer(self.random.choice(types), [self.blob], tops=[self.blob] if in_place else None)
        self.blob = self.blob if in_place else top

    def normal(self):
        self.blob = self.layer('BatchNorm', [self.blob])
        if self.random.random() < 0.7:
            self.blob = self.layer('Scale', [self.blob], 'scale_param { bias_term: %s }' % self.random.choice(['true', 'false']))

    def branches(self):
        """Two layers on one bottom, joined again."""
        if len(self.shape) == 3:
            arguments, shape = self.draw_conv()
            both = [self.conv(self.blob, *arguments) for _ in range(2)]
        else:
            shape = (self.random.randint(2, 12),)
            both = [self.full(self.blob, shape[0], self.params()) for _ in range(2)]
        if self.random.random() < 0.5:
            self.blob, self.shape = self.layer('Concat', both), (2 * shape[0],) + shape[1:]
        else:
            operation = self.random.choice(['SUM', 'PROD'] + ([] if self.smooth else ['MAX']))
            self.blob, self.shape = self.layer('Eltwise', both, 'eltwise_param { operation: %s }' % operation), shape

    def head(self):
        random = self.random
        types = ['SoftmaxWithLoss', 'SoftmaxWithLoss', 'EuclideanLoss', 'SigmoidCrossEntropyLoss'] + ([] if self.smooth else ['HingeLoss'])
        type = random.choice(types)
        beside = {'EuclideanLoss': 'target', 'SigmoidCrossEntropyLoss': 'binary'}.get(type, 'label')
        self.wanted.add(beside)
        scores = self.full(self.blob, CLASSES if beside == 'label' else TARGETS, self.params())
        more = random.choice(['', '', 'loss_weight: 0.3', 'loss_weight: 2'])
        if type == 'SoftmaxWithLoss' and random.random() < 0.3:
            more += ' loss_param { ignore_label: 1 normalization: %s }' % random.choice(['VALID', 'FULL', 'BATCH_SIZE'])
        if type == 'HingeLoss':
            more += ' hinge_loss_param { norm: %s }' % random.choice(['L1', 'L2'])
        self.outputs.append(self.layer(type, [scores, beside], more))
        if beside == 'label' and random.random() < 0.5:
            self.outputs.append(self.layer('Accuracy', [scores, 'label'], 'include { phase: TEST }'))


def draw_solver(random):
    """The fields of a solver, but for net and snapshot_prefix."""
    type = random.choice(['SGD', 'SGD', 'Nesterov', 'AdaGrad', 'RMSProp', 'AdaDelta', 'Adam', 'AdamW'])
    s = {'type': type, 'base_lr': {'AdaDelta': 1, 'SGD': 0.02, 'Nesterov': 0.01}.get(type, 0.005), 'random_seed': random.randint(1, 999),
         'max_iter': random.randint(4, 12), 'display': random.randint(1, 5)}
    s.update({'SGD': {'momentum': random.choice([0, 0.9])}, 'Nesterov': {'momentum': 0.9}, 'RMSProp': {'rms_decay': 0.9},
              'AdaDelta': {'momentum': 0.95, 'delta': 1e-6}, 'Adam': {'momentum': 0.9, 'momentum2': 0.999}}.get(type, {}))
    s.update(random.choice([{'lr_policy': 'fixed'}, {'lr_policy': 'step', 'gamma': 0.5, 'stepsize': 3}, {'lr_policy': 'exp', 'gamma': 0.95},
                            {'lr_policy': 'inv', 'gamma': 0.1, 'power': 0.75}, {'lr_policy': 'multistep', 'gamma': 0.3, 'stepvalue': 4},
                            {'lr_policy': 'poly', 'power': 1.5}, {'lr_policy': 'sigmoid', 'gamma': -0.5, 'stepsize': 5}]))
    some = [('weight_decay', random.choice([0.01, 0.0005])), ('clip_gradients', random.choice([0.1, 1, 20])),
            ('iter_size', random.choice([2, 3, 10])), ('average_loss', random.randint(2, 4)), ('snapshot', random.randint(2, 5)),
            ('snapshot_format', random.choice(['HDF5', 'HDF5', 'BINARYPROTO'])), ('regularization_type', random.choice(['L1', 'L2']))]
    s.update(dict(pair for pair in some if random.random() < 0.4))
    s.setdefault('snapshot_format', 'HDF5')
    if type == 'AdamW':
        s['regularization_type'] = 'L2'  # the other one is refused
    if random.random() < 0.1:
        s['snapshot_after_train'] = False
    if random.random() < 0.6:
        s.update(test_iter=random.randint(1, 2), test_interval=random.randint(2, 5), test_initialization=random.random() < 0.5)
    return s


def solver_text(fields):
    words = {'HDF5', 'BINARYPROTO'}
    return ''.join('%s: %s\n' % (name, str(value).lower() if isinstance(value, bool) else
                                 value if not isinstance(value, str) or value in words else f"'{value}'") for name, value in fields.items())
