"""JAX functions that train on all ranks of an MPI job by libposeidon.

    ranks = poseidon_jax.Ranks(params)            # a pytree of float32 arrays; rank 0's become everybody's
    params = ranks.params
    @jax.jit
    def step(params, batch):
        loss, grads = jax.value_and_grad(lambda p: loss_of(ranks.watch(p), batch))(params)
        return loss, update(params, ranks.mean(grads))

    ranks.close(), poseidon_jax.finalize()        # Python's exit does it, too, but after an exception

ranks.watch hands the parameters on, and sends each one's gradient the moment backpropagation has it; ranks.mean waits for the means
over all ranks. A step calls each once. Start by mpirun. POSEIDON_LIBRARY names a libposeidon.so that the system does not find.
"""
import atexit
import ctypes.util
import functools
import os
import sys
import threading

import jax
import jax.numpy as jnp
import numpy
from jax.experimental import io_callback


class Tensor(ctypes.Structure):  # struct poseidon_tensor
    _fields_ = [("name", ctypes.c_char_p), ("elems", ctypes.c_size_t), ("gradient", ctypes.c_void_p), ("values", ctypes.c_void_p)]
    _fields_ += [(name, ctypes.c_int64) for name in ("rows", "outputs", "inputs")]
    _fields_ += [(name, ctypes.c_double) for name in ("forward_seconds", "backward_seconds")]


@functools.lru_cache(maxsize=None)
def library():
    name = os.environ.get("POSEIDON_LIBRARY") or ctypes.util.find_library("poseidon") or "libposeidon.so.1"
    lib = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    lib.poseidon_error.restype = lib.poseidon_advice.restype = ctypes.c_char_p
    lib.poseidon_gradient.restype, lib.poseidon_state_size.restype = ctypes.POINTER(ctypes.c_float), ctypes.c_size_t
    lib.MPI_Initialized(ctypes.byref(there := ctypes.c_int()))
    if not there.value:  # as poseidon train does: Open MPI 4's default gets half of a link where all ranks send at once
        os.environ.setdefault("OMPI_MCA_btl_tcp_flags", "send,inplace")
        lib.MPI_Init_thread(None, None, 3, ctypes.byref(ctypes.c_int()))  # MPI_THREAD_MULTIPLE
        atexit.register(finalize, os.getpid())
    lib.world = ctypes.c_int(0x44000000)  # MPICH and its kin have numbers, and Open MPI addresses
    if hasattr(lib, name := "ompi_mpi_comm_world"):
        lib.world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(lib, name)))
    return lib


def place(name):  # place("rank"), place("size")
    getattr(library(), "MPI_Comm_" + name)(library().world, ctypes.byref(value := ctypes.c_int()))
    return value.value


def finalize(pid=None):  # the end of MPI, after that of every Ranks. pid: of a process that exits: an exception is to end all ranks at once
    library().MPI_Finalized(ctypes.byref(over := ctypes.c_int()))
    if over.value or pid and (pid != os.getpid() or not Ranks.used or getattr(sys, "last_value", None) is not None):
        return
    failed = [library().poseidon_destroy(Ranks.open.pop(handle).handle) for handle in list(Ranks.open)]
    if not (pid and any(failed)):
        library().MPI_Finalize()


class Ranks:
    open, used = {}, False  # by their handles

    def __init__(self, params, comm="auto", options="", state=None):  # state: what state() returned; rank 0's counts
        self.handle, self.lock = ctypes.c_void_p(), threading.Lock()  # XLA calls back from several threads
        words = ",".join(filter(None, ("comm=" + comm, options)))
        self._call("create", library().world, words.encode(), ctypes.byref(self.handle), own=False)
        Ranks.open[self.handle.value], Ranks.used = self, True
        try:
            self._take(params, state)
        except BaseException as error:  # nobody else could tell the other ranks, and close it
            library().poseidon_fail(self.handle, str(error).encode())
            library().poseidon_destroy(Ranks.open.pop(self.handle.value).handle)
            raise

    def _take(self, params, state):
        leaves, self.tree = jax.tree_util.tree_flatten_with_path(params)
        values = []
        for path, leaf in leaves:
            name = jax.tree_util.keystr(path)
            if leaf.dtype != jnp.float32:
                raise TypeError(f"{name}: expected float32, found {leaf.dtype}")
            values.append(numpy.array(leaf))
            self._call("share", values[-1].ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values[-1].nbytes))
            sides = (leaf.shape[0], leaf.size // leaf.shape[0]) if leaf.ndim > 1 and leaf.size else (0, 0)  # for factors of low rank
            tensor = Tensor(name=name.encode(), elems=max(leaf.size, 1), outputs=sides[0], inputs=sides[1])
            self._call("add", ctypes.byref(tensor), None)
        self._call("share", ctypes.byref(resumes := ctypes.c_int(state is not None)), ctypes.c_size_t(4))
        if resumes.value:
            self._call("state_set", state, ctypes.c_size_t(len(state or b"")))
        self._call("start")
        self.memory = [numpy.ctypeslib.as_array(library().poseidon_gradient(self.handle, i), v.shape) for i, v in enumerate(values)]
        self.params = jax.tree_util.tree_unflatten(self.tree, map(jnp.asarray, values))
        self.watched = [self._watched(i) for i in range(len(values))]

    def _call(self, name, *arguments, own=True):  # of poseidon_NAME
        with self.lock:
            if getattr(library(), "poseidon_" + name)(*((self.handle,) if own else ()), *arguments) < 0:
                raise RuntimeError(library().poseidon_error().decode())

    def _post(self, i, gradient):
        self.memory[i][...] = gradient
        self._call("post", i)
        return numpy.float32(0)  # the wait takes what all posts return, so it comes last

    def _watched(self, i):
        """The i-th parameter as it is, whose gradient is sent, and comes out of grad as it is, too, but behind its post."""
        same = jax.custom_vjp(lambda value: value)
        same.defvjp(lambda value: (value, None),
                    lambda _, gradient: (gradient + io_callback(functools.partial(self._post, i), jnp.float32(0), gradient),))
        return same

    def watch(self, params):
        return jax.tree_util.tree_unflatten(self.tree, [w(p) for w, p in zip(self.watched, jax.tree_util.tree_leaves(params))])

    def mean(self, grads):
        def wait(*_):  # its arguments exist, so that all were posted
            self._call("wait_all")
            return tuple(memory.copy() for memory in self.memory)

        posted = [leaf.ravel()[:1].sum() for leaf in jax.tree_util.tree_leaves(grads)]
        return jax.tree_util.tree_unflatten(self.tree, io_callback(wait, tuple(self.memory), *posted))

    def state(self):  # for a checkpoint: what lossy schemes have yet to send, as bytes; b"" but on rank 0. Collective
        room = ctypes.create_string_buffer(library().poseidon_state_size(self.handle))
        self._call("state_get", room, ctypes.c_size_t(len(room)))
        return room.raw

    def advice(self):
        return library().poseidon_advice(self.handle).decode()

    def close(self):  # collective
        handle, self.handle = self.handle, ctypes.c_void_p()
        Ranks.open.pop(handle.value)
        self._call("destroy", handle, own=False)
