"""Cases of Deconvolution, Im2col, Interp, SPP and of pooling that draws."""
import torch

from value_record import case, distinct, grid, layer


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
                 {'x': distinct(2, 3, h, w)}, lambda x, w: [spp(x['x'], levels, mean)],
                 differences=levels < 3)


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
