"""JAX functions that train on all ranks of an MPI job by libposeidon.

    ranks = poseidon.jax.Ranks(params)            # a pytree of float32 arrays; rank 0's become everybody's
    params = ranks.params
    @jax.jit
    def step(params, batch):
        loss, grads = jax.value_and_grad(lambda p: loss_of(ranks.watch(p), batch))(params)
        return loss, update(params, ranks.mean(grads))

    ranks.close(), poseidon.jax.finalize()        # Python's exit does it, too, but after an exception

ranks.watch hands the parameters on, and sends each one's gradient the moment backpropagation has it; ranks.mean waits for the means
over all ranks. A step calls each once. Start by mpirun.
"""
import ctypes
import functools
import threading

import jax
import jax.numpy as jnp
import numpy
from jax.experimental import io_callback

from ._library import Tensor, finalize, library, rank, size

__all__ = "Ranks", "finalize", "rank", "size"


class Ranks:
    def __init__(self, params, comm="auto", options="", state=None):  # state: what state() returned; rank 0's counts
        self.lock = threading.Lock()  # XLA calls back from several threads
        self.handle = library().create(self, comm, options)
        try:
            self._take(params, state)
        except BaseException as error:  # nobody else could tell the other ranks, and close it
            library().library.poseidon_fail(self.handle, str(error).encode())
            library().open.pop(self.handle.value)
            library().library.poseidon_destroy(self.handle)
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
        self.memory = [numpy.ctypeslib.as_array(library().library.poseidon_gradient(self.handle, i), v.shape) for i, v in enumerate(values)]
        self.params = jax.tree_util.tree_unflatten(self.tree, map(jnp.asarray, values))
        self.watched = [self._watched(i) for i in range(len(values))]

    def _call(self, name, *arguments):  # of poseidon_NAME
        with self.lock:
            library().call(name, self.handle, *arguments)

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
        room = ctypes.create_string_buffer(library().library.poseidon_state_size(self.handle))
        self._call("state_get", room, ctypes.c_size_t(len(room)))
        return room.raw

    def advice(self):
        return library().library.poseidon_advice(self.handle).decode()

    def close(self):  # collective
        handle, self.handle = self.handle, ctypes.c_void_p()
        library().destroy(handle)
