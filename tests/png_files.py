"""PNG files that tests write by themselves, and what OpenCV's INTER_NEAREST makes of labels."""
import struct
import zlib

import numpy as np

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(pixels, kind=GRAY, depth=8, palette=None, more=b""):
    """A PNG of H x W (x channels) numbers. palette: bytes of its colours, any if none; more: chunks before the pixels."""
    pixels = np.asarray(pixels)
    if depth == 16:
        rows = [row.astype(">u2").tobytes() for row in pixels]
    elif depth == 8:
        rows = [row.astype(np.uint8).tobytes() for row in pixels]
    else:
        rows = [np.packbits(np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - depth:].reshape(-1)).tobytes() for row in pixels]
    if kind == PALETTE and palette is None:
        palette = bytes((7 * i) % 256 for i in range(3 << depth))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], depth, kind, 0, 0, 0)) +
            (chunk(b"PLTE", palette) if palette else b"") + more + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) +
            chunk(b"IEND", b""))


def nearest(labels, height, width):
    rows, columns = (np.arange(n) * old // n for n, old in zip((height, width), labels.shape))
    return labels[rows][:, columns]
