"""Operators as Caffe means them, in PyTorch. Where PyTorch has none (the sizes and
divisors of pooling, LRN within a channel, the first of equal maxima, accuracy), Caffe's rule is written
out as loops over windows or rows."""
import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

FLT_MIN = float(np.finfo(np.float32).tiny)


def windows(size, k, s, p, ceil=True):
    room = size + 2 * p - k
    n = (room + s - 1 if ceil else room) // s + 1
    if p and (n - 1) * s >= size + p:
        n -= 1
    for i in range(n):
        begin = i * s - p
        end = min(begin + k, size + p)
        yield max(begin, 0), min(end, size), end - begin


def volume_windows(x, k, s, p, ceil=True):
    """Each window of all spatial axes: its part of x, its size with the padding, where it begins and
    how long it is by axis."""
    axes = [list(windows(x.shape[2 + i], k[i], s[i], p[i], ceil)) for i in range(x.dim() - 2)]
    for window in itertools.product(*axes):
        part = x[(slice(None), slice(None)) + tuple(slice(a, b) for a, b, _ in window)]
        yield (part.reshape(x.shape[0], x.shape[1], -1), math.prod(n for _, _, n in window),
               [a for a, _, _ in window], [b - a for a, b, _ in window])


def places(x, k, s, p, ceil=True):
    return [len(list(windows(x.shape[2 + i], k[i], s[i], p[i], ceil))) for i in range(x.dim() - 2)]


def pool(x, method, k, s, p, ceil=True):
    tops = []
    for part, size, _, _ in volume_windows(x, k, s, p, ceil):
        if method == "AVE":
            tops.append(part.sum(2) / size)
        else:  # np.argmax takes the first of equals
            at = torch.from_numpy(np.argmax(part.detach().numpy(), axis=2))
            tops.append(part.gather(2, at[..., None])[..., 0])
    return torch.stack(tops, 2).reshape(*x.shape[:2], *places(x, k, s, p, ceil))


def pool_mask(x, k, s, p):
    """The place of each maximum in its plane."""
    tops = []
    for part, _, begin, length in volume_windows(x.detach(), k, s, p):
        inside = np.unravel_index(np.argmax(part.numpy(), axis=2), length)
        tops.append(np.ravel_multi_index([i + b for i, b in zip(inside, begin)], x.shape[2:]))
    return torch.from_numpy(np.stack(tops, 2).astype(np.float64)).reshape(
        *x.shape[:2], *places(x, k, s, p))


def lrn_across(x, n, alpha, beta, k):
    return F.local_response_norm(x, n, alpha, beta, k)


def lrn_within(x, n, alpha, beta):
    square = F.pad(x * x, (n // 2,) * 4)
    total = sum(square[:, :, i:i + x.shape[2], j:j + x.shape[3]] for i in range(n) for j in range(n))
    return x * (1 + alpha / (n * n) * total) ** -beta


def softmax_loss(x, labels, mode="VALID", ignore=None, axis=1):
    flat = x.movedim(axis, -1).reshape(-1, x.shape[axis])
    labels = labels.reshape(-1).long()
    valid = torch.ones_like(labels, dtype=torch.bool) if ignore is None else labels != ignore
    p = flat.softmax(1)[torch.arange(len(labels)), labels.clamp(min=0)]
    outer = int(np.prod(x.shape[:axis]))
    divisor = {"FULL": len(labels), "VALID": int(valid.sum()), "BATCH_SIZE": outer, "NONE": 1}[mode]
    return -(p.clamp(min=FLT_MIN).log() * valid).sum() / max(divisor, 1)


def accuracy(x, labels, top_k=1, ignore=None, axis=1):
    """The true class counts as found when fewer than top_k others score at least as much."""
    flat = x.detach().movedim(axis, -1).reshape(-1, x.shape[axis]).numpy()
    hits, counts = np.zeros(x.shape[axis]), np.zeros(x.shape[axis])
    for row, label in zip(flat, labels.reshape(-1).numpy().astype(int)):
        if label == ignore:
            continue
        counts[label] += 1
        hits[label] += np.sum(row >= row[label]) - 1 < top_k
    per_class = np.where(counts > 0, hits / np.maximum(counts, 1), 0)
    return torch.tensor(hits.sum() / max(counts.sum(), 1)), torch.from_numpy(per_class)


def linear(x, weight, bias=None, axis=1):
    head = x.shape[:axis]
    y = x.reshape(int(np.prod(head)), -1) @ weight.t()
    return (y if bias is None else y + bias).reshape(*head, -1)
