#!/usr/bin/python3
"""Writes images/ and images.h5 beside this script: small pictures, what OpenCV decodes them to, and
what OpenCV and PyTorch resize them to. (apt: python3-opencv python3-pil python3-torch python3-h5py)
"""
import os
import struct
import zlib

import cv2
import h5py
import numpy as np
import torch
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
H, W = 23, 37


def picture():
    """Smooth enough for JPEG to be small, with an edge and some noise."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[0:H, 0:W]
    image = np.stack([x * 255 / W, y * 255 / H, 128 + 100 * np.sin(x / 5.0) * np.cos(y / 4.0)], -1)
    image[5:12, 20:30] = (250, 30, 10)
    return np.clip(image + rng.normal(0, 3, image.shape), 0, 255).astype(np.uint8)


def adam7(gray):
    """An interlaced PNG, which neither PIL nor OpenCV writes."""
    raw = b""
    for y0, x0, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2),
                           (0, 1, 2, 2), (1, 0, 2, 1)):
        for row in gray[y0::dy, x0::dx]:
            raw += b"\0" + row.tobytes()

    def chunk(kind, content):
        return (struct.pack(">I", len(content)) + kind + content +
                struct.pack(">I", zlib.crc32(kind + content)))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", W, H, 8, 0, 0, 0, 1)) +
            chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def path(name):
    return os.path.join(HERE, "images", name)


def files():
    rgb = Image.fromarray(picture())
    gray = rgb.convert("L")
    rgb.save(path("color.jpg"), quality=80)
    rgb.save(path("color_444.jpg"), quality=95, subsampling=0)
    rgb.save(path("progressive.jpg"), quality=80, progressive=True)
    gray.save(path("gray.jpg"), quality=80)
    rgb.convert("CMYK").save(path("cmyk.jpg"), quality=90)
    rgb.save(path("color.png"))
    gray.save(path("gray.png"))
    rgb.quantize(16).save(path("palette.png"))
    rgba = rgb.convert("RGBA")
    rgba.putalpha(gray)
    rgba.save(path("alpha.png"))
    gray.convert("1").save(path("bits.png"))
    cv2.imwrite(path("gray16.png"), np.asarray(gray).astype(np.uint16) * 257)
    with open(path("interlaced.png"), "wb") as f:
        f.write(adam7(np.asarray(gray)))
    rgb.save(path("color.webp"), quality=80)
    rgb.save(path("lossless.webp"), lossless=True)
    rgba.save(path("alpha.webp"), quality=80)
    rgb.save(path("color.bmp"))


def main():
    os.makedirs(os.path.join(HERE, "images"), exist_ok=True)
    files()
    with h5py.File(os.path.join(HERE, "images.h5"), "w", libver="earliest") as f:
        for name in sorted(os.listdir(os.path.join(HERE, "images"))):
            if name.endswith(".bmp"):
                continue
            for kind, flag in (("color", cv2.IMREAD_COLOR), ("gray", cv2.IMREAD_GRAYSCALE)):
                f.create_dataset(name + "/" + kind, track_times=False,
                                 data=cv2.imread(path(name), flag | cv2.IMREAD_IGNORE_ORIENTATION))
        image = cv2.imread(path("color.png"))
        for h, w in ((10, 10), (46, 74), (23, 20), (50, 37), (7, 61), (1, 1), (100, 1), (22, 36)):
            name = "resize/%dx%d" % (h, w)
            x = torch.from_numpy(image.astype(np.float64)).permute(2, 0, 1)[None]
            y = torch.nn.functional.interpolate(x, (h, w), mode="bilinear", align_corners=False,
                                                antialias=False)[0].permute(1, 2, 0).numpy()
            f.create_dataset(name + "/pytorch", data=y.astype(np.float32), track_times=False,
                             compression="gzip", shuffle=True)
            f.create_dataset(name + "/opencv", track_times=False,
                             data=cv2.resize(image, (w, h), interpolation=cv2.INTER_LINEAR))
        half = image[:22, :36]
        f.create_dataset("half/opencv", data=cv2.resize(half, (18, 11)), track_times=False)


main()
