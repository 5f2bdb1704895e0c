"""PyTorch modules that train on all ranks of an MPI job by libposeidon.

    model = poseidon_torch.DataParallel(model)      # instead of torch.nn.parallel.DistributedDataParallel
    loss.backward()                                 # afterwards every .grad is the mean over all ranks
    optimizer.step()                                # or model.step(optimizer): see there

Each gradient is sent when autograd has it; where the plan says so, a Linear layer's input and the gradient of its output travel
in the place of its weight's gradient, which then is not computed before all are there. Needs PyTorch and numpy; parameters are float32
in the host's memory. Start by mpirun. POSEIDON_LIBRARY names a libposeidon.so that the system does not find.
"""
import contextlib
import ctypes.util
import functools
import os

import numpy
import torch


class Tensor(ctypes.Structure):  # struct poseidon_tensor
    _fields_ = [("name", ctypes.c_char_p), ("elems", ctypes.c_size_t), ("gradient", ctypes.c_void_p), ("values", ctypes.c_void_p)]
    _fields_ += [(name, ctypes.c_int64) for name in ("rows", "outputs", "inputs")]
    _fields_ += [(name, ctypes.c_double) for name in ("forward_seconds", "backward_seconds")]


class Library:
    """libposeidon and the MPI library it is linked with."""

    def __init__(self):
        name = os.environ.get("POSEIDON_LIBRARY") or ctypes.util.find_library("poseidon") or "libposeidon.so.0"
        try:
            self.library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise OSError(f"{error}; expected the library's path: export POSEIDON_LIBRARY=/where/libposeidon.so.0") from None
        self.library.poseidon_error.restype = self.library.poseidon_advice.restype = ctypes.c_char_p
        self.library.poseidon_gradient.restype = ctypes.POINTER(ctypes.c_float)
        there, level = ctypes.c_int(), ctypes.c_int()
        self.library.MPI_Initialized(ctypes.byref(there))
        if not there.value:
            self.library.MPI_Init_thread(None, None, 3, ctypes.byref(level))  # MPI_THREAD_MULTIPLE
        try:
            self.world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, "ompi_mpi_comm_world")))
        except ValueError:  # not Open MPI: MPICH and its kin have numbers
            self.world = ctypes.c_int(0x44000000)

    def call(self, name, *arguments):  # of poseidon_NAME
        status = getattr(self.library, "poseidon_" + name)(*arguments)
        if status < 0:
            raise RuntimeError(self.library.poseidon_error().decode())
        return status

    def place(self, name):
        value = ctypes.c_int()
        getattr(self.library, "MPI_Comm_" + name)(self.world, ctypes.byref(value))
        return value.value


library = functools.lru_cache(maxsize=None)(Library)  # one a process


def rank():
    return library().place("rank")


def size():
    return library().place("size")


def finalize():  # the end of MPI, after every DataParallel is closed
    library().library.MPI_Finalize()


class DataParallel(torch.nn.Module, contextlib.AbstractContextManager):
    """Averages the gradients of `module` over all ranks while backward runs. Rank 0's parameters and buffers become everybody's.

    comm, options: words of poseidon_create. accumulate: passes whose gradients one step adds up (see no_sync).
    `with DataParallel(...) as model:` closes it in the end, or tells the other ranks of an exception."""

    def __init__(self, module, comm="auto", options="", accumulate=1):
        super().__init__()
        self.module, self.accumulate, self.library, self.handle = module, accumulate, library(), ctypes.c_void_p()
        self.values = self.lazy = "result=values" in options  # the library updates; nothing is waited for in backward
        self.syncs, self.queued, self.steps, self.posted, self.waiting, self.met = True, False, {}, set(), set(), set()
        self.views, self.nodes, self.rows, self.factors, self.kept = {}, [], {}, {}, {}
        words = ",".join(filter(None, ("comm=" + comm, options))).encode()
        self.library.call("create", self.library.world, words, ctypes.byref(self.handle))
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
            if last + 1 != tensor.numel() or tensor.device.type != "cpu":
                raise RuntimeError(f"{name}: expected a tensor without gaps in the host's memory")
            if tensor.requires_grad and tensor.dtype != torch.float32:
                raise RuntimeError(f"{name}: expected float32, found {tensor.dtype}")
            bytes_ = ctypes.c_size_t(tensor.numel() * tensor.element_size())
            self.library.call("share", self.handle, ctypes.c_void_p(tensor.data_ptr()), bytes_)
        self.names = {p: name for name, p in module.named_parameters() if p.requires_grad}
        self.numbers = {p: i for i, p in enumerate(self.names)}  # as poseidon_add gives them
        users = {}
        for m in module.modules():
            for p in m.parameters(recurse=False):
                users.setdefault(p, []).append(m)
            m.register_forward_pre_hook(self._before)
        for p, (m, *more) in users.items():
            if not more and type(m) is torch.nn.Linear and p is m.weight and p.is_contiguous():
                m.register_forward_hook(self._after_linear)

    # ---- forward; the first pass says how many rows Linear layers have ----
    def forward(self, *inputs, **named):
        self._settle(p for p in self.numbers if p not in self.met)  # of modules whose forward nobody calls
        out = self.module(*inputs, **named)
        self.wait()  # for what this pass did not use
        if not self.views and torch.is_grad_enabled():
            self._start()
        return out

    def _before(self, module, _):
        own = set(module.parameters(recurse=False))
        self.met |= own
        self._settle(own)

    def _after_linear(self, linear, inputs, output):
        if output.requires_grad:
            x, p = inputs[0].detach().reshape(-1, linear.in_features), linear.weight
            if not self.views:
                self.rows[p] = self.rows.get(p, 0) + len(x)
            output.register_hook(lambda gradient: self._after_output(linear, x, gradient))

    def _start(self):
        for p, name in self.names.items():
            tensor = Tensor(name=name.encode(), elems=p.numel(), values=p.data_ptr() if self.values else None)
            if p.dim() > 1 and p.shape[0] * p.stride(0) == p.numel():  # what an output weighs lies together: a matrix
                tensor.rows, tensor.outputs, tensor.inputs = self.rows.get(p, 0) * self.accumulate, p.shape[0], p.stride(0)
            self.library.call("add", self.handle, ctypes.byref(tensor), None)
        self.library.call("start", self.handle)
        for p, number in self.numbers.items():
            memory = numpy.ctypeslib.as_array(self.library.library.poseidon_gradient(self.handle, number), (p.numel(),))
            self.views[p] = torch.from_numpy(memory).as_strided(p.shape, p.stride())
            if self.library.call("takes_factors", self.handle, number):
                self.factors[p], self.kept[p] = self.rows[p] * self.accumulate, []
            elif hasattr(p, "register_post_accumulate_grad_hook"):
                p.register_post_accumulate_grad_hook(self._after_gradient)
            else:  # before PyTorch 2.1: behind the node that accumulates it, which lives as long as it is kept
                self.nodes.append(p.view_as(p).grad_fn.next_functions[0][0])
                self.nodes[-1].register_hook(lambda *_, p=p: self._after_gradient(p))

    # ---- backward ----
    def _after_output(self, linear, x, gradient):
        """The gradient of a Linear layer's output is there, of one of its calls in this pass."""
        p = linear.weight
        if p in self.factors:
            self._queue()
            self.kept[p].append((gradient.detach().reshape(-1, gradient.shape[-1]), x))
            if self.syncs and sum(len(kept) for _, kept in self.kept[p]) == self.factors[p]:
                self._post_factors(p)
            # from now on autograd computes no gradient of the weight; the bias sees to it that it does the output's
            p.requires_grad_(linear.bias is None or not linear.bias.requires_grad)

    def _after_gradient(self, p):
        self._queue()
        if self.syncs:
            if p.grad.data_ptr() != self.views[p].data_ptr():
                self.views[p].copy_(p.grad)
            self._post("post", p)

    def _queue(self):
        if not self.queued and self.syncs:
            self.queued = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _post(self, how, p, *arguments):
        p.grad = None  # the memory is not to be touched until the result is there
        self.library.call(how, self.handle, self.numbers[p], *arguments)
        self.posted.add(p)

    def _post_factors(self, p):
        missing = max(0, self.factors[p] - sum(len(left) for left, _ in self.kept[p]))  # zeros, of a smaller batch
        sides = [torch.cat([*side, side[0].new_zeros(missing, side[0].shape[1])]) for side in zip(*self.kept[p])]
        self.kept[p].clear()
        self._post("post_factors", p, ctypes.c_int64(len(sides[0])), *(ctypes.c_void_p(side.data_ptr()) for side in sides))

    def _finish(self):  # backward is over
        self.queued = False
        for p in self.numbers:
            if p not in self.posted:
                self._post_factors(p) if self.kept.get(p) else self._post("skip", p)
        self.posted.clear(), self.steps.clear(), self.waiting.update(self.numbers)
        if not self.lazy:
            self.wait()

    @contextlib.contextmanager
    def no_sync(self):
        """Passes in here add to the gradients of this rank alone; the next one outside averages all."""
        self.syncs = False
        try:
            yield
        finally:
            self.syncs = True

    # ---- results ----
    def step(self, optimizer):
        """Instead of optimizer.step(): from the second time on, each module waits for its own gradients, and has its step,
        right before its next forward pass. What comes first there is sent first, so less is waited for. In between
        .grad is None (nothing can clip it), and values are those before the step, or model.wait() catches up."""
        if self.waiting:
            self.steps[optimizer] = [dict(group) for group in optimizer.param_groups]  # a scheduler may change them at once
        else:
            optimizer.step()
        self.lazy = True

    def wait(self):
        """Until all results are there."""
        self._settle(self.numbers)

    def _settle(self, parameters):
        late = self.waiting.intersection(parameters) if self.waiting else ()
        for p in late:
            self.waiting.remove(p)
            self.library.call("wait", self.handle, self.numbers[p])
            p.grad = None if self.values else self.views[p]
        for optimizer, groups in self.steps.items() if late else ():
            kept, optimizer.param_groups = optimizer.param_groups, [
                dict(group, params=[p for p in group["params"] if p in late]) for group in groups]
            optimizer.step()
            optimizer.param_groups = kept
        for p in late if self.lazy else ():
            p.grad = None

    # ---- the rest of a module ----
    def state_dict(self, *arguments, **named):
        self.wait()
        return self.module.state_dict(*arguments, **named)

    def load_state_dict(self, *arguments, **named):
        self.wait()
        return self.module.load_state_dict(*arguments, **named)

    def advice(self):
        return self.library.library.poseidon_advice(self.handle).decode()

    def close(self):
        """Collective; the gradients go with it."""
        self.wait()
        for p in self.numbers:
            p.grad = None
        handle, self.handle = self.handle, ctypes.c_void_p()
        self.library.call("destroy", handle)

    def __exit__(self, kind, what, _):
        if not kind:
            return self.close()
        self.library.library.poseidon_fail(self.handle, f"{kind.__name__}: {what}".encode())
