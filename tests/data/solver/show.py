#!/usr/bin/env python3
"""Prints an HDF5 file as h5py sees it: one line for each group, data set and attribute."""
import sys

import h5py
import numpy as np


def text(value):
    if isinstance(value, bytes):
        return value.decode()
    return " ".join(f"{v:g}" for v in np.asarray(value).ravel())


def show(name, item):
    if isinstance(item, h5py.Group):
        print(f"{name}/")
    else:
        shape = "x".join(str(d) for d in item.shape) or "scalar"
        kind = "text" if item.dtype.kind in "SO" else item.dtype
        print(f"{name} {kind} {shape}: {text(item[()])}")


with h5py.File(sys.argv[1]) as f:
    f.visititems(show)
    for key in sorted(f.attrs):
        if key != "poseidon_version":
            print(f"@{key} {f.attrs[key]}")
    print("version" if f.attrs.get("poseidon_version") else "no version")
