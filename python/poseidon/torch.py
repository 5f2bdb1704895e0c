"""PyTorch modules that train on all ranks of an MPI job by libposeidon.

    model = poseidon.torch.DataParallel(model)      # instead of torch.nn.parallel.DistributedDataParallel
    loss.backward()                                 # afterwards every .grad is the mean over all ranks
    optimizer.step()                                # or model.step(optimizer): see there

Each gradient is sent when autograd has it; where the plan says so, a Linear layer's input and the gradient of its output travel
in its weight's place (_factors.py). What would be averaged wrong is an error. Parameters are float32, float16 or bfloat16, in the host's
memory or on one GPU a rank (torch.cuda.set_device before all else); libposeidon_cuda.so.1, for GPUs, lies beside libposeidon.so.1.
Start by mpirun.
"""
import contextlib
import copy
import ctypes
import gc
import time

import numpy
import torch
from torch.utils._pytree import tree_map

from . import _factors
from ._library import Place, Tensor, finalize, library, rank, size

__all__ = "DataParallel", "Tensor", "finalize", "library", "rank", "size"
TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}  # enum poseidon_type


class Memory:
    """Where parameters and gradients lie: on a GPU the library's work is ordered by the stream that PyTorch works in."""

    def __init__(self, device):
        self.device, self.cuda = device, device.type == "cuda"

    def place(self, p):
        return Place(ctypes.sizeof(Place), int(self.cuda), TYPES[p.dtype])

    def array(self, p):  # for the gradient of p; None: the library's, which saves a copy
        return torch.zeros_like(p, requires_grad=False) if self.cuda or p.dtype != torch.float32 else None

    def stream(self):
        return torch.cuda.current_stream(self.device).cuda_stream

    def call(self, library, how, *arguments):  # poseidon_HOW of a tensor
        if self.cuda and how != "skip":
            how, arguments = how + "_on", arguments + (ctypes.c_void_p(self.stream()),)
        library.call(how, *arguments)


class Kept(torch.Tensor):
    """A gradient that the library has: whatever is done with it waits for all of them, and is done with the result."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, model, p):
        kept = torch.Tensor._make_wrapper_subclass(cls, p.shape, strides=p.stride(), dtype=p.dtype, device=p.device)
        kept.there = lambda: model._hand_over(p)
        kept.done = lambda: model.values or model.steps  # nobody will ask for it
        return kept

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        if "zero_" in str(function):  # zero_grad(set_to_none=False)
            kept = arguments[0] if isinstance(arguments[0], (list, tuple)) else arguments[:1]
            if all(isinstance(t, cls) and t.done() for t in kept):
                return arguments[0]
        arguments, named = tree_map(lambda t: t.there() if isinstance(t, cls) else t, (arguments, named or {}))
        return function(*arguments, **named)


for name in "numpy", "tolist", "data_ptr", "__repr__", "__deepcopy__", "__reduce_ex__":  # what does not pass there
    setattr(Kept, name, lambda self, *more, name=name, **named: getattr(self.there(), name)(*more, **named))


class DataParallel(torch.nn.Module, contextlib.AbstractContextManager):
    """Averages the gradients of `module` over all ranks while backward runs. Rank 0's parameters and buffers become everybody's.

    comm, options: words of poseidon_create. factors=False: Linear layers, too, send whole gradients. state: of comm_state().
    `with DataParallel(...) as model:` closes it in the end, or tells the other ranks of an exception."""

    def __init__(self, module, comm="auto", options="", factors=True, state=None):
        super().__init__()
        self.module, self.library, self.undo = module, library(), contextlib.ExitStack()
        self.kept = state
        self.values = self.lazy = "result=values" in options  # the library updates; nothing is waited for in backward
        self.syncs, self.queued, self.seen, self.scaler, self.steps = True, False, False, None, {}
        self.views, self.nodes, self.stamps, self.posted, self.waiting, self.met = {}, [], {}, set(), set(), set()
        self.away, self.shown = {}, set()  # what .grad is while the library has it; who had their step, and have it yet
        self.clock, self.running, self.seconds = time.perf_counter(), (), {}  # of the first step: see _time
        self.handle = self.library.create(self, comm, options)
        try:
            self._take(module, factors, state)
        except BaseException as error:  # nobody else could
            self.__exit__(type(error), error, None)
            self.undo.close()
            self.library.open.pop(self.handle.value)
            self.library.library.poseidon_destroy(self.handle)
            raise

    def _take(self, module, factors, state):
        tensors = list(module.named_parameters()) + list(module.named_buffers())
        self.memory, types = Memory(tensors[0][1].device), list(TYPES)[:1 if self.values else 3]
        for name, tensor in tensors:
            last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
            there = last + 1 == tensor.numel() or not tensor.numel()
            there &= tensor.device == self.memory.device and tensor.device.type in ("cpu", "cuda")
            self._refuse(not there, f"{name}: expected a tensor without gaps in the host's memory, or all on one GPU")
            self._refuse(tensor.requires_grad and tensor.dtype not in types, f"{name}: expected {types}, found {tensor.dtype}")
            host = tensor.detach().cpu()  # itself, if it lies there
            at, count = ctypes.c_void_p(host.data_ptr()), ctypes.c_size_t(tensor.numel() * tensor.element_size())
            self.library.call("share", self.handle, at, count)
            if self.memory.cuda:
                tensor.detach().copy_(host)
        self.library.call("share", self.handle, ctypes.byref(resumes := ctypes.c_int(state is not None)), ctypes.c_size_t(4))
        if resumes.value:  # rank 0's counts, whatever the others have
            there = torch.empty(0) if state is None else state.cpu()
            self.library.call("state_set", self.handle, ctypes.c_void_p(there.data_ptr()), ctypes.c_size_t(there.nbytes))
        self.names = {p: name for name, p in module.named_parameters() if p.requires_grad and p.numel()}
        self.numbers = {p: i for i, p in enumerate(self.names)}  # as poseidon_add gives them
        for p in self.numbers:  # behind the node that accumulates the gradient, which lives as long as it is kept
            with torch.enable_grad():
                self.nodes.append(p.view_as(p).grad_fn.next_functions[0][0])
            self.undo.callback(self.nodes[-1].register_hook(lambda *_, p=p: self._after_gradient(p)).remove)
        self.own = {m: {p for p in m.parameters(recurse=False) if p in self.numbers} for m in module.modules()}
        before = _factors.eager(lambda m, _: self._before(m))
        for m in self.own:
            self.undo.callback(m.register_forward_pre_hook(before).remove)
        self.factors = _factors.Factors(self, module.modules() if factors else ())

    def _refuse(self, what, text):
        if what:
            self.library.library.poseidon_fail(self.handle, text.encode())  # tells the other ranks
            raise RuntimeError(text)

    def forward(self, *inputs, **named):
        self._refuse(self.queued, "the last backward pass ended by an exception, when some gradients were sent, and some were not")
        for name, p in self.module.named_parameters():
            late = p.requires_grad and p.numel() and p not in self.numbers
            self._refuse(late, f"{name}: unfrozen, or made, after DataParallel(...) took the net")
            changed = self.values and p in self.stamps and self.stamps[p] != (p.data_ptr(), p._version)
            self._refuse(changed, f"{name}: changed after the start, but with result=values the library has its own")
        for p in self.waiting:  # from here on each module waits for its own
            p.grad = None
        self._settle(p for p in self.numbers if p not in self.met)  # of modules whose forward nobody calls
        self.clock, self.running = time.perf_counter(), ()
        out = self.module(*inputs, **named)
        self.wait()  # for what this pass did not use
        for p in self.shown if torch.is_grad_enabled() else ():
            p.grad = None
        return out

    def _before(self, module):
        own = self.own.get(module)  # None: of a copy
        if own:
            self.met |= own
            self._time(self.running, own)
            self._settle(own)

    def _time(self, done, begun=()):
        """What has passed in the first step since the last call was the work of `done`: forward where another layer has begun."""
        if not self.views and torch.is_grad_enabled() | (not begun):
            now = time.perf_counter()
            for p in done:
                self.seconds.setdefault(p, [0.0, 0.0])[not begun] += (now - self.clock) / len(done)
            self.clock, self.running = now, begun

    # ---- backward; the first one says how many rows Linear layers have in a step, on rank 0 ----
    def _start(self):
        arrays, rows = [], (ctypes.c_int64 * len(self.names))(*map(self.factors.count, self.names))
        self.library.call("share", self.handle, rows, ctypes.c_size_t(ctypes.sizeof(rows)))
        for (p, name), n in zip(self.names.items(), rows):
            tensor = Tensor(name=name.encode(), elems=p.numel(), values=p.data_ptr() if self.values else None)
            tensor.forward_seconds, tensor.backward_seconds = self.seconds.get(p, (0, 0))
            if p.dim() > 1 and p.shape[0] * p.stride(0) == p.numel():  # what an output weighs lies together: a matrix
                tensor.rows, tensor.outputs, tensor.inputs = n, p.shape[0], p.stride(0)
            arrays.append(self.memory.array(p))
            tensor.gradient = None if arrays[-1] is None else arrays[-1].data_ptr()
            self.library.call("add_at", self.handle, ctypes.byref(tensor), ctypes.byref(self.memory.place(p)), None)
        self.library.call("start", self.handle)
        self.kept = None
        for (p, number), n, array in zip(self.numbers.items(), rows, arrays):
            if array is None:
                memory = numpy.ctypeslib.as_array(self.library.library.poseidon_gradient(self.handle, number), (p.numel(),))
                array = torch.from_numpy(memory).as_strided(p.shape, p.stride())
            self.views[p] = array
            if self.library.call("takes_factors", self.handle, number):
                self.factors.rows[p] = n
            self.stamps[p] = p.data_ptr(), p._version  # that are the same after the library wrote
            self.away[p] = Kept(self, p)

    def _queue(self):
        if not self.queued:
            self.queued = True
            self.factors.begin()
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _after_gradient(self, p):
        self._refuse(self.waiting, "backward before the results of the last one are there: model.wait() between them")
        self._queue()
        self._time((p,))
        self.factors.confirm(p)
        self.seen |= self.syncs
        if self.syncs and self.views:
            self._send(p)

    def _send(self, p):  # all that this rank has of the gradient in this step
        sides = self.factors.take(p)
        how = "post_factors" if sides else "skip" if p.grad is None or p in self.factors.rows else "post"
        more = [ctypes.c_int64(len(sides[0])), *(ctypes.c_void_p(side.data_ptr()) for side in sides)] if sides else ()
        if how == "post" and p.grad.data_ptr() != self.views[p].data_ptr():
            self.views[p].copy_(p.grad)
        p.grad = None  # the memory is not to be touched until the result is there
        self.memory.call(self.library, how, self.handle, self.numbers[p], *more)
        self.posted.add(p)

    def _finish(self):  # backward is over
        self.queued = False
        self.factors.end()
        seen, self.seen = self.seen, False
        if not seen:  # no_sync, or torch.autograd.grad
            return
        if not self.views:
            self._start()
        for p in [p for p in self.numbers if p not in self.posted]:
            self._send(p)
        self.posted.clear(), self.steps.clear(), self.shown.clear(), self.waiting.update(self.numbers)
        if not self.lazy:
            return self.wait()
        if self.scaler is None:
            self.scaler = any(type(o).__name__ == "GradScaler" and o.is_enabled() for o in gc.get_objects())
        self._refuse(self.scaler, "GradScaler: scaler.step(optimizer); neither model.step() nor result=values can unscale")
        for p in self.numbers:
            p.grad = self.away[p] if p.requires_grad else None

    @contextlib.contextmanager
    def no_sync(self):
        """Passes in here add to the gradients of this rank alone; the next one outside averages all."""
        self.syncs = False
        try:
            yield
        finally:
            self.syncs = True

    def step(self, optimizer):
        """Instead of optimizer.step(): from the second time on, each module waits for its own gradients, and has its step,
        right before its next forward pass. What comes first there is sent first, so less is waited for. In between
        values are those before the step, or model.wait() catches up. Whoever looks at a .grad there, as clip_grad_norm_
        does, waits for all, and nothing is gained. GradScaler is refused."""
        if self.waiting:
            groups = [dict(group) for group in optimizer.param_groups]  # a scheduler may change them at once
            self.steps[optimizer] = {p: group for group in groups for p in group["params"]}
        else:
            optimizer.step()
        self.lazy = True

    def wait(self):
        """Until all results are there."""
        self._settle(self.numbers, True)

    def _settle(self, parameters, asked=False):
        late = self.waiting.intersection(parameters) if self.waiting else ()
        lost = late and self.lazy and not (asked or self.values or self.steps)
        self._refuse(lost, "no model.step() since the last backward pass: use no_sync() for all but one of a step, or call model.wait()")
        for p in late:
            self.waiting.remove(p)
            self.memory.call(self.library, "wait", self.handle, self.numbers[p])
            p.grad = self.views[p] if p.requires_grad and not self.values else None
        for optimizer, group_of in self.steps.items() if late else ():
            groups = {id(group_of[p]): dict(group_of[p], params=[]) for p in late if p in group_of}
            for p in late.intersection(group_of):
                groups[id(group_of[p])]["params"].append(p)
            kept, optimizer.param_groups = optimizer.param_groups, list(groups.values())
            optimizer.step()
            optimizer.param_groups = kept
        self.shown.update(late if self.steps else ())  # .grad stays for whoever looks

    def _hand_over(self, p):  # the gradient, to a program that looks at it
        self._refuse(self.values, "a gradient, where result=values leaves it to the library, which has made the step, too: leave out "
                     "optimizer.step(), clipping and the like, or use result=mean")
        self.wait()
        return self.views[p]

    def comm_state(self):
        """What a checkpoint needs beside net and optimizer: gradients' parts that lossy schemes have yet to send, the rule's history,
        the plan. Collective; a tensor of bytes on rank 0, None on the others. DataParallel(..., state=...) on as many ranks goes on."""
        self.wait()
        if not self.views:  # no step since the start
            return self.kept
        count = self.library.library.poseidon_state_size(self.handle)
        state = torch.empty(count, dtype=torch.uint8)
        self.library.call("state_get", self.handle, ctypes.c_void_p(state.data_ptr()), ctypes.c_size_t(count))
        return state if count else None

    def state_dict(self, *arguments, **named):
        self.wait()
        return self.module.state_dict(*arguments, **named)

    def load_state_dict(self, *arguments, **named):
        self.wait()
        return self.module.load_state_dict(*arguments, **named)

    def __deepcopy__(self, memo):  # the net by itself: what averages its values wants no more
        self.wait()
        return copy.deepcopy(self.module, memo)

    def advice(self):
        return self.library.library.poseidon_advice(self.handle).decode()

    def close(self):
        """Collective; the gradients go with it."""
        self.wait()
        for p in self.numbers:
            p.grad = None
        self.undo.close()
        handle, self.handle = self.handle, ctypes.c_void_p()
        self.library.destroy(handle)

    def __exit__(self, kind, what, _):
        if not kind:
            return self.close()
        self.library.library.poseidon_fail(self.handle, f"{kind.__name__}: {what}".encode())
