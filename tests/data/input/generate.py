#!/usr/bin/python3
"""Writes the input fixtures beside this script with h5py and numpy (apt: python3-h5py, python3-numpy).

transform.h5 holds reference results of transform_param. Its random numbers come from the Philox
4x32-10 below, written from Salmon et al. (SC'11), not from the program.
"""
import colorsys
import os
import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def create(name):
    return h5py.File(os.path.join(HERE, name), "w", libver="earliest")


def write(name, **sets):
    with create(name) as f:
        for key, value in sets.items():
            options = {}
            if isinstance(value, tuple):
                value, options = value
            f.create_dataset(key, data=value, track_times=False, **options)


# ---- sources: byte of element e of record r is (7 r + e) mod 256, its label r mod 10
def image_bytes(n, c, h, w):
    r = np.arange(n).reshape(n, 1) * 7 + np.arange(c * h * w)
    return (r % 256).astype(np.uint8).reshape(n, c, h, w)


def sources():
    data = image_bytes(12, 3, 5, 6)
    label = np.arange(12) % 10
    write("u8_gzip_int64.h5",
          data=(data, dict(chunks=(5, 3, 5, 6), compression="gzip", shuffle=True)),
          label=label.astype(np.int64))
    write("f64_labels_n1.h5", data=data.astype(np.float64) / 4 - 10,
          label=label.astype(np.float32).reshape(12, 1))
    write("i16_u8.h5", data=data.astype(np.int16) - 200, label=label.astype(np.uint8))
    # 32 x 3 x 128 x 128 bytes in chunks of 16 records by 1 channel: needs more than HDF5's own cache
    write("wide_chunks.h5",
          data=(np.broadcast_to(np.arange(32, dtype=np.uint8).reshape(32, 1, 1, 1), (32, 3, 128, 128)),
                dict(chunks=(16, 1, 128, 128), compression="gzip")), label=np.zeros(32, np.int32))

    write("bad_no_label.h5", data=data, labels=label, other=label)
    write("bad_rank3.h5", data=data[:, 0], label=label)
    write("bad_scalar.h5", data=np.uint8(1), label=label)
    write("bad_counts.h5", data=data, label=label[:11])
    write("bad_no_records.h5", data=data[:0], label=label[:0])
    write("bad_empty_records.h5", data=data[:, :, :0], label=label)
    write("bad_many_labels.h5", data=data, label=np.zeros((12, 4)))
    write("bool.h5", data=data > 3, label=label)
    write("lzf.h5", data=(data, dict(chunks=(5, 3, 5, 6), compression="lzf")), label=label)
    with open(os.path.join(HERE, "lzf.h5"), "rb") as lzf, open(os.path.join(HERE, "bad_filter.h5"), "wb") as other:  # a filter that nobody has
        content = bytearray(lzf.read())
        at = content.index(b"lzf\0")
        content[at - 8:at - 6], content[at:at + 3] = (32015).to_bytes(2, "little"), b"zst"
        other.write(content)
    with create("bad_text.h5") as f:
        f["data"] = data
        f.create_dataset("label", data=np.array([b"cat"] * 12))
    with create("bad_group.h5") as f:
        f.create_group("data")
        f["label"] = label
    # Found by fuzzing: the driver information block lies in the superblock itself and says 4 GB.
    with open(os.path.join(HERE, "bad_driver_block.h5"), "wb") as f:
        f.write(b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0, 0xbe, 0xef]) +
                bytes(30) + b"\n")


# ---- HDF5Data as in the conformance case: 0..2399 as 10x8x6x5, a second gzip file with 2400 more
def lists():
    for part in (0, 1):
        options = dict(compression="gzip", compression_opts=1) if part else {}
        write("part%d.h5" % part,
              data=(np.arange(2400, dtype=np.float64).reshape(10, 8, 6, 5) + 2400 * part, options),
              label=(1 + np.arange(10, dtype=np.float32) + 10 * part).reshape(10, 1),
              label2=(2 + np.arange(10, dtype=np.int64) + 10 * part).reshape(10, 1),
              flat=np.arange(10, dtype=np.int8))
    write("part_other_shape.h5", data=np.zeros((4, 8, 6, 4), np.float32), label=np.zeros((4, 1)))
    write("part_counts.h5", data=np.zeros((4, 8, 6, 5), np.float32), label=np.zeros((5, 1)))
    for name, text in {"list.txt": "part0.h5\npart1.h5\n", "list_same_line.txt": "part0.h5 \tpart1.h5",
                       "list_one.txt": "part0.h5\n", "list_empty.txt": " \n\n",
                       "list_missing.txt": "part0.h5\n\nnowhere.h5\n",
                       "list_other_shape.txt": "part0.h5\npart_other_shape.h5\n",
                       "list_counts.txt": "part_counts.h5\n"}.items():
        with open(os.path.join(HERE, name), "w") as f:
            f.write(text)


# ---- transform
def philox(seed, stream, a, b, index):
    c = [index >> 2, a, b & 0xFFFFFFFF, (b >> 32) ^ (stream << 24)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[index & 3]


def below(seed, layer, sample, index, n):
    return philox(seed, 3, layer, sample, index) * n >> 32


def transformed(x, mean, scale, crop, mirror, train, seed, layer, sample):
    """x and mean C,H,W; mean may broadcast."""
    y = (x.astype(np.float32) - np.broadcast_to(mean.astype(np.float32), x.shape)) * np.float32(scale)
    if crop:
        _, h, w = x.shape
        top, left = (h - crop) // 2, (w - crop) // 2
        if train:
            top = below(seed, layer, sample, 1, h - crop + 1)
            left = below(seed, layer, sample, 2, w - crop + 1)
        y = y[:, top:top + crop, left:left + crop]
    if mirror and below(seed, layer, sample, 0, 2):
        y = y[:, :, ::-1]
    return y


# ---- random resized crops and colours, in double precision
def uniform(seed, layer, sample, index):
    return (philox(seed, 3, layer, sample, index) >> 8) / 2.0**24


def window(seed, layer, sample, h, w, area, change, attempts):
    for k in range(attempts):
        u = [uniform(seed, layer, sample, 16 + 5 * k + i) for i in range(2)]
        side = np.sqrt((area[0] + (area[1] - area[0]) * u[0]) * h * w)
        factor = change + (1 / change - change) * u[1]
        size = [int(side * factor), int(side / factor)]
        if below(seed, layer, sample, 18 + 5 * k, 2):
            size = [int(side / factor), int(side * factor)]
        if 1 <= size[0] <= h and 1 <= size[1] <= w:
            break
    else:
        k, size = 0, [min(h, w)] * 2
    return (below(seed, layer, sample, 19 + 5 * k, h - size[0] + 1),
            below(seed, layer, sample, 20 + 5 * k, w - size[1] + 1), *size)


def bilinear(x, size):
    """C,H,W to C,size,size: half-pixel centres, edges repeated."""
    for axis in (1, 2):
        n = x.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * n / size - 0.5, 0, n - 1)
        low = np.floor(at).astype(int)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(3)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, np.minimum(low + 1, n - 1), axis) * part
    return x


def colored(x, seed, layer, sample, brightness, contrast, saturation):
    """Each (probability, least, most). Saturation by way of HSV, as colorsys has it."""
    def draw(index, how, neutral):
        if uniform(seed, layer, sample, index) >= float(np.float32(how[0])):
            return neutral
        return how[1] + (how[2] - how[1]) * uniform(seed, layer, sample, index + 1)
    add, times, factor = draw(3, brightness, 0), draw(5, contrast, 1), draw(7, saturation, 1)
    x = np.clip(x + add, 0, 255)
    early = below(seed, layer, sample, 9, 2)
    if early:
        x = np.clip(x * times, 0, 255)
    blue, green, red = x.reshape(3, -1)
    back = []
    for b, g, r in zip(blue, green, red):
        hue, s, v = colorsys.rgb_to_hsv(r / 255, g / 255, b / 255)
        back.append([c * 255 for c in colorsys.hsv_to_rgb(hue, min(1, s * factor), v)][::-1])
    x = np.array(back).T.reshape(x.shape)
    return x if early else np.clip(x * times, 0, 255)


def augmented():
    rng = np.random.default_rng(2)
    seed, layer, first = 0x123456789ABCDEF0, 7, 2**33 - 10
    n, crop = 12, 20
    x = np.clip(rng.normal(128, 20, (n, 3, 8, 10)).repeat(4, 2).repeat(3, 3) + rng.normal(0, 40, (n, 3, 32, 30)),
                0, 255).astype(np.uint8)
    jitter = ((0.7, -40, 40), (0.7, 0.5, 1.5), (0.7, 0.25, 1.75))
    sets = dict(x=x, places=np.zeros((n, 4), np.int32), tight=np.zeros((n, 4), np.int32),
                resized=np.zeros((n, 3, crop, crop)), colored=np.zeros(x.shape), both=np.zeros((n, 3, crop, crop)))
    for i in range(n):
        key = (seed, layer, first + i)
        sets["places"][i] = top, left, h, w = window(*key, 32, 30, (float(np.float32(0.08)), 1), 0.75, 10)
        sets["tight"][i] = window(*key, 32, 30, (1, 1), 0.75, 3)
        sets["resized"][i] = bilinear(x[i, :, top:top + h, left:left + w].astype(float), crop)
        sets["colored"][i] = colored(x[i].astype(float), *key, *jitter)
        sets["both"][i] = colored(np.rint(sets["resized"][i]), *key, *jitter)
        for name in ("resized", "both"):  # mirrored last
            if below(*key, 0, 2):
                sets[name][i] = sets[name][i, :, :, ::-1]
    write("augment.h5", **{k: v.astype(np.float32) if v.dtype == float else v for k, v in sets.items()})


def transforms():
    rng = np.random.default_rng(1)
    n, c, h, w = 20, 3, 9, 12
    x = rng.integers(0, 256, (n, c, h, w), dtype=np.uint8)
    xf = rng.normal(size=(n, c, h, w)).astype(np.float32)
    mean = (rng.random((c, h, w)) * 255).astype(np.float32)
    values = np.array([104, 117, 123], np.float32)
    seed, layer, first = 0x123456789ABCDEF0, 7, 2**33 - 10
    none = np.zeros(1)

    def run(images, *args):
        return np.stack([transformed(images[i], *args, seed, layer, first + i) for i in range(n)])

    chw = values.reshape(3, 1, 1)
    write("transform.h5", x=x, xf=xf,
          train_all=run(x, mean, 0.0078125, 6, True, True),
          test_all=run(x, mean, 0.0078125, 6, True, False),
          test_odd_crop=run(x, chw, 1, 8, False, False),
          train_values=run(x, chw, 1, 5, True, True),
          train_float=run(xf, np.full((1, 1, 1), 0.5), 3, 0, True, True),
          train_rectangle=run(x, none, 1, 9, False, True))
    write("mean.h5", mean=mean)
    write("mean_data_1chw.h5", data=mean[np.newaxis].astype(np.float64))
    write("mean_other_size.h5", mean=mean[:, :8])
    write("mean_named_otherwise.h5", average=mean)
    # BlobProto: num 1, channels 2, height 3, width 4 (varints), data 5 (packed floats)
    payload = mean.tobytes()
    length = b""
    rest = len(payload)
    while rest > 127:
        length += bytes([rest & 127 | 128])
        rest >>= 7
    length += bytes([rest])
    proto = bytes([8, 1, 16, c, 24, h, 32, w, 42]) + length + payload
    for name, content in {"mean.binaryproto": proto, "mean_short.binaryproto": proto[:-1],
                          "mean_garbage.binaryproto": b"not a mean at all\n"}.items():
        with open(os.path.join(HERE, name), "wb") as f:
            f.write(content)


sources()
lists()
transforms()
augmented()
