#!/usr/bin/env python3
"""Writes HDF5 files as Caffe lays them out, with h5py, and variants that other writers make.

Run in this folder: python3 generate_snapshots.py
"""
import h5py
import numpy as np


def ramp(shape, start):
    return (np.arange(np.prod(shape), dtype=np.float32) + start).reshape(shape)


def save(name, fill):
    with h5py.File(name, "w", libver="earliest", track_order=False) as f:
        fill(f)


def caffe_model(f):
    data = f.create_group("data")
    data.create_group("mnist")                       # no parameters: an empty group
    data["conv1/0"] = ramp((2, 1, 3, 3), 0)
    data["conv1/1"] = ramp((2,), 100)
    data["inception_3a/1x1/0"] = ramp((4, 2, 1, 1), 200)   # a slash in a name: nested groups
    data["inception_3a/1x1/1"] = ramp((4,), 300)
    data["ip/0"] = ramp((3, 4), 400).astype(np.float64)    # Caffe built for double
    data["ip/1"] = ramp((3,), 500)
    data["old_fc/0"] = ramp((5, 5), 600)
    data.create_group("relu1")


def escaped_model(f):
    data = f.create_group("data")
    data["a_b/0"] = ramp((2,), 1)       # a layer of its own right
    data["a%2Fb/0"] = ramp((2,), 10)
    data["c:d/0"] = ramp((2,), 20)


def numbers(f, iteration, step):
    f["iter"] = np.array([iteration], dtype=np.int32)
    f["current_step"] = np.array([step], dtype=np.int32)


def history(f):
    f["history/0"] = ramp((2, 1, 3, 3), 0)
    f["history/1"] = ramp((2,), 50)


def caffe_state(f):
    numbers(f, 500, 2)
    name = b"lenet_iter_500.caffemodel.h5"
    # A fixed-length, NUL-terminated text, as HDF5's C interface writes it.
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(len(name) + 1)
    kind.set_strpad(h5py.h5t.STR_NULLTERM)
    space = h5py.h5s.create(h5py.h5s.SCALAR)
    dataset = h5py.h5d.create(f.id, b"learned_net", kind, space)
    dataset.write(space, space, np.array(name, dtype=f"S{len(name) + 1}"))
    history(f)


def h5py_state(f):
    numbers(f, 7, 0)
    f["learned_net"] = "models/grün.caffemodel.h5"   # variable length, UTF-8
    f["data_cursor"] = np.array([448], dtype=np.uint64)
    f.attrs["random_seed"] = np.int64(-3)
    history(f)


def bad_state(f):
    numbers(f, -5, 0)
    f["learned_net"] = "x"
    history(f)


def other_numbers(f):
    f["iter"] = np.arange(3, dtype=np.int32)
    history(f)


save("caffe.caffemodel.h5", caffe_model)
save("escaped.caffemodel.h5", escaped_model)
save("caffe.solverstate.h5", caffe_state)
save("h5py.solverstate.h5", h5py_state)
save("negative_iter.solverstate.h5", bad_state)
save("three_iters.solverstate.h5", other_numbers)
save("neither.h5", lambda f: f.create_dataset("label", data=np.zeros(3)))
