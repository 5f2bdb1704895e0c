"""PyTorch modules that train on all ranks of an MPI job by libposeidon.

    model = poseidon_torch.DataParallel(model)      # instead of torch.nn.parallel.DistributedDataParallel
    ...
    loss.backward()                                 # afterwards every .grad is the mean over all ranks
    optimizer.step()

Each gradient is sent when autograd has it; where the plan says so, a Linear layer's input and the gradient of its output
travel in the place of its weight's gradient, which then is not computed before all are there. Needs PyTorch and numpy; parameters are
float32 in the host's memory. Start by mpirun. POSEIDON_LIBRARY names a libposeidon.so that the system does not find.
"""
import contextlib
import ctypes.util
import os

import numpy
import torch

MPI_THREAD_MULTIPLE = 3


class Tensor(ctypes.Structure):
    """struct poseidon_tensor"""

    _fields_ = (
        [("name", ctypes.c_char_p), ("elems", ctypes.c_size_t)]
        + [(name, ctypes.c_void_p) for name in ("gradient", "values")]
        + [(name, ctypes.c_int64) for name in ("rows", "outputs", "inputs")]
        + [(name, ctypes.c_double) for name in ("forward_seconds", "backward_seconds")]
    )


class Library:
    """libposeidon and the MPI library it is linked with; a failure is a RuntimeError."""

    def __init__(self):
        name = os.environ.get("POSEIDON_LIBRARY") or ctypes.util.find_library("poseidon") or "libposeidon.so.0"
        self.library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        self.library.poseidon_error.restype = ctypes.c_char_p
        self.library.poseidon_advice.restype = ctypes.c_char_p
        self.library.poseidon_gradient.restype = ctypes.POINTER(ctypes.c_float)
        there, level = ctypes.c_int(), ctypes.c_int()
        self.library.MPI_Initialized(ctypes.byref(there))
        if not there.value:
            self.library.MPI_Init_thread(None, None, MPI_THREAD_MULTIPLE, ctypes.byref(level))
        try:
            self.world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, "ompi_mpi_comm_world")))
        except ValueError:  # not Open MPI: MPICH and its kin have numbers
            self.world = ctypes.c_int(0x44000000)

    def call(self, name, *arguments):
        """Calls poseidon_NAME, which returns a number."""
        status = getattr(self.library, "poseidon_" + name)(*arguments)
        if status < 0:
            raise RuntimeError(self.library.poseidon_error().decode())
        return status

    def place(self, name):
        """This rank and how many there are: MPI_Comm_rank or MPI_Comm_size of all."""
        value = ctypes.c_int()
        getattr(self.library, "MPI_Comm_" + name)(self.world, ctypes.byref(value))
        return value.value


_library = None


def library():
    global _library
    _library = _library or Library()
    return _library


def rank():
    return library().place("rank")


def size():
    return library().place("size")


def finalize():
    """The end of MPI, after every DataParallel is closed."""
    library().library.MPI_Finalize()


class DataParallel(torch.nn.Module):
    """Averages the gradients of `module` over all ranks while backward runs.

    comm, options: words of poseidon_create. accumulate: passes whose gradients one step adds up (see no_sync).
    Rank 0's parameters and buffers become everybody's here."""

    def __init__(self, module, comm="auto", options="", accumulate=1):
        super().__init__()
        self.module, self.accumulate, self.library = module, accumulate, library()
        self.handle = ctypes.c_void_p()
        self.started, self.syncs, self.queued = False, True, False
        self.numbers, self.views, self.nodes, self.posted = {}, [], [], set()
        self.rows, self.factors, self.kept = {}, {}, {}
        words = ",".join(word for word in ("comm=" + comm, options) if word)
        self.library.call("create", self.library.world, words.encode(), ctypes.byref(self.handle))
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if not tensor.is_contiguous() or tensor.device.type != "cpu":
                raise RuntimeError(f"{name}: expected a contiguous tensor in the host's memory")
            bytes_ = ctypes.c_size_t(tensor.numel() * tensor.element_size())
            self.library.call("share", self.handle, ctypes.c_void_p(tensor.data_ptr()), bytes_)
        self.parameters_ = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        for name, p in self.parameters_:
            if p.dtype != torch.float32:
                raise RuntimeError(f"{name}: expected float32, found {p.dtype}")
        self.linears = self._find_linears()
        for linear in self.linears.values():
            linear.register_forward_hook(self._after_linear)

    def _find_linears(self):
        """Linear layers by their weight, where that is no other module's too."""
        users = {}
        for m in self.module.modules():
            for p in m.parameters(recurse=False):
                users.setdefault(p, []).append(m)
        return {p: m[0] for p, m in users.items() if len(m) == 1 and type(m[0]) is torch.nn.Linear and p is m[0].weight}

    # ---- the first pass says how many rows Linear layers have ----

    def forward(self, *inputs, **named):
        out = self.module(*inputs, **named)
        if not self.started and torch.is_grad_enabled():
            self._start()
        return out

    def _start(self):
        for name, p in self.parameters_:
            tensor = Tensor(name=name.encode(), elems=p.numel())
            if p in self.rows:
                tensor.rows = self.rows[p] * self.accumulate
                tensor.outputs, tensor.inputs = p.shape
            number = ctypes.c_int()
            self.library.call("add", self.handle, ctypes.byref(tensor), ctypes.byref(number))
            self.numbers[p] = number.value
        self.library.call("start", self.handle)
        for name, p in self.parameters_:
            memory = self.library.library.poseidon_gradient(self.handle, self.numbers[p])
            self.views.append(torch.from_numpy(numpy.ctypeslib.as_array(memory, (p.numel(),))).view(p.shape))
            self._hook(p)
            if self.library.call("takes_factors", self.handle, self.numbers[p]):
                self.factors[p] = self.rows[p] * self.accumulate
                self.kept[p] = []
                if self.linears[p].bias is not None and self.linears[p].bias.requires_grad:
                    p.requires_grad_(False)  # the bias sees to it that the output's gradient is computed
        self.started = True

    def _hook(self, p):
        """_after_gradient is called when p's gradient of a pass is there."""
        if hasattr(p, "register_post_accumulate_grad_hook"):
            p.register_post_accumulate_grad_hook(self._after_gradient)
        else:  # before PyTorch 2.1: behind the node that accumulates it, which lives as long as it is kept
            self.nodes.append(p.view_as(p).grad_fn.next_functions[0][0])
            self.nodes[-1].register_hook(lambda *_: self._after_gradient(p))

    def _after_linear(self, linear, inputs, output):
        if not output.requires_grad:
            return
        x = inputs[0].detach().reshape(-1, linear.in_features)
        p = linear.weight
        if not self.started:
            self.rows[p] = self.rows.get(p, 0) + x.shape[0]
        output.register_hook(lambda gradient: self._after_output(p, x, gradient))

    # ---- backward ----

    def _after_output(self, p, x, gradient):
        """The gradient of a Linear layer's output is there, of one of its calls in this pass."""
        if p not in self.factors:
            return
        self._queue()
        self.kept[p].append((gradient.detach().reshape(-1, gradient.shape[-1]), x))
        if self.syncs and sum(len(kept) for _, kept in self.kept[p]) == self.factors[p]:
            self._post_factors(p)

    def _after_gradient(self, p):
        self._queue()
        if self.syncs and p not in self.factors:
            self._post(p)

    def _queue(self):
        if not self.queued and self.syncs:
            self.queued = True
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _post(self, p):
        view = self.views[self.numbers[p]]
        if p.grad.data_ptr() != view.data_ptr():
            view.copy_(p.grad)
            p.grad = view
        self.library.call("post", self.handle, self.numbers[p])
        self.posted.add(p)

    def _post_factors(self, p):
        """All rows of this step, zeros behind them."""
        rows = self.factors[p]
        left, right = (torch.cat([pair[i] for pair in self.kept[p]]) for i in (0, 1))
        self.kept[p].clear()
        if left.shape[0] < rows:
            left = torch.nn.functional.pad(left, (0, 0, 0, rows - left.shape[0]))
            right = torch.nn.functional.pad(right, (0, 0, 0, rows - right.shape[0]))
        left, right = left.contiguous(), right.contiguous()
        self.library.call("post_factors", self.handle, self.numbers[p], ctypes.c_int64(left.shape[0]),
                          ctypes.c_void_p(left.data_ptr()), ctypes.c_void_p(right.data_ptr()))
        self.posted.add(p)

    def _finish(self):
        """Backward is over."""
        self.queued = False
        for p in self.factors:
            if self.kept[p] and p not in self.posted:
                self._post_factors(p)
        for _, p in self.parameters_:
            if p not in self.posted:
                self.library.call("skip", self.handle, self.numbers[p])
        self.posted.clear()
        self.library.call("wait_all", self.handle)
        for _, p in self.parameters_:
            p.grad = self.views[self.numbers[p]]

    @contextlib.contextmanager
    def no_sync(self):
        """Passes in here add to the gradients of this rank alone; the next one outside averages all."""
        self.syncs = False
        try:
            yield
        finally:
            self.syncs = True

    # ---- the rest of a module ----

    def state_dict(self, *arguments, **named):
        return self.module.state_dict(*arguments, **named)

    def load_state_dict(self, *arguments, **named):
        return self.module.load_state_dict(*arguments, **named)

    def advice(self):
        return self.library.library.poseidon_advice(self.handle).decode()

    def close(self):
        """Collective; the gradients go with it."""
        for _, p in self.parameters_:
            p.grad = None
        handle, self.handle = self.handle, ctypes.c_void_p()
        self.library.call("destroy", handle)
