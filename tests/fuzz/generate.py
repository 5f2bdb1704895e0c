#!/usr/bin/python3
"""Writes the seeds of the fuzz targets below corpus/; further seeds are fixtures of the tests."""
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def write(name, content):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content)


def datum():
    raw = b"\x08\x02\x10\x03\x18\x04\x22\x18" + bytes(range(24)) + b"\x28\x05"
    floats = b"\x08\x01\x10\x01\x18\x02" + b"\x35\x00\x00\x80\x3f" * 2
    packed = b"\x08\x01\x10\x01\x18\x02\x32\x08" + b"\x00\x00\x80\x3f" * 2
    write("datum/raw", raw)
    write("datum/floats", floats)
    write("datum/packed", packed)
    for name in ("gray.jpg", "gray.png"):
        with open(os.path.join(HERE, "../../data/input/images", name), "rb") as f:
            image = f.read()
        length = bytes([len(image) & 127 | 128, len(image) >> 7])
        write("datum/" + name, b"\x22" + length + image + b"\x28\x03\x38\x01")


def lists():
    write("list/some", b"a b/c.jpg 3\n\nplain.png\t-7 \r\nx 2147483647\n")
    write("list/several", b"a b/c.jpg .3 -1e4\n\"c.jpg 2\"\t1 0\n")


datum()
lists()
