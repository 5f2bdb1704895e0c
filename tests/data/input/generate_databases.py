#!/usr/bin/python3
"""Writes the data bases of Datum messages beside this script with python3-lmdb and python3-plyvel.
The messages are encoded here by hand, after the field numbers of Caffe's Datum.
"""
import os
import shutil
import struct

import lmdb
import numpy as np
import plyvel

HERE = os.path.dirname(os.path.abspath(__file__))


def varint(n):
    n &= 2**64 - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def datum(shape=None, data=b"", label=0, floats=(), encoded=False, packed=False):
    out = b""
    if shape:
        for field, n in zip((1, 2, 3), shape):
            out += varint(field << 3) + varint(n)
    if data:
        out += varint(4 << 3 | 2) + varint(len(data)) + data
    out += varint(5 << 3) + varint(label)
    if packed:
        payload = struct.pack("<%df" % len(floats), *floats)
        out += varint(6 << 3 | 2) + varint(len(payload)) + payload
    else:
        for value in floats:
            out += varint(6 << 3 | 5) + struct.pack("<f", value)
    if encoded:
        out += varint(7 << 3) + b"\1"
    return out


def path(name):
    return os.path.join(HERE, name)


def write_lmdb(name, records):
    shutil.rmtree(path(name), ignore_errors=True)
    with lmdb.open(path(name), map_size=1 << 24) as env:
        for start in range(0, len(records), 100):
            with env.begin(write=True) as txn:
                for key, value in records[start:start + 100]:
                    txn.put(key, value)
    os.unlink(os.path.join(path(name), "lock.mdb"))


def pixels(i, n):
    """Byte e of record i is (7 i + e) mod 256."""
    return ((7 * i + np.arange(n)) % 256).astype(np.uint8).tobytes()


def raw(i, shape):
    return (b"%08d" % i, datum(shape, pixels(i, int(np.prod(shape))), i % 10))


def encoded(names):
    records = []
    for i, name in enumerate(names):
        with open(os.path.join(HERE, "images", name), "rb") as f:
            records.append((b"%08d_" % i + name.encode(), datum(None, f.read(), i, encoded=True)))
    return records


def main():
    # several leaves; values inside them
    write_lmdb("lmdb_raw", [raw(i, (1, 2, 3)) for i in range(600)])
    # values on pages of their own
    write_lmdb("lmdb_big", [raw(i, (3, 40, 50)) for i in range(7)])
    # the conformance case's five of 2 x 3 x 4, as floats; one of them packed
    write_lmdb("lmdb_float", [(b"%d" % i, datum((2, 3, 4), floats=[i + e / 8 for e in range(24)],
                                               label=-i, packed=i == 3)) for i in range(5)])
    write_lmdb("lmdb_encoded", encoded(["color.jpg", "color_444.jpg", "color.png", "progressive.jpg"]))
    write_lmdb("lmdb_mixed", encoded(["color.jpg", "gray.jpg", "gray.png", "palette.png"]))
    write_lmdb("lmdb_sizes", [raw(i, (3, 10 + i, 12 + 2 * i)) for i in range(6)])
    write_lmdb("lmdb_bad", [raw(0, (3, 4, 5)), raw(1, (3, 4, 5)),
                            (b"00000002", datum((3, 4, 5), b"short", 1)), raw(3, (3, 4, 5))])
    write_lmdb("lmdb_empty", [])

    shutil.rmtree(path("leveldb_raw"), ignore_errors=True)
    db = plyvel.DB(path("leveldb_raw"), create_if_missing=True)
    for i in range(60):
        db.put(*raw(i, (1, 2, 3)))
        if i == 39:
            db.compact_range()    # into a table; the rest stays in the log
    db.close()
    for name in ("LOCK", "LOG", "LOG.old"):
        if os.path.exists(os.path.join(path("leveldb_raw"), name)):
            os.unlink(os.path.join(path("leveldb_raw"), name))


main()
