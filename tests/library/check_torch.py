#!/usr/bin/env python3
"""check_torch.py NET CASE...: poseidon.torch.DataParallel against DistributedDataParallel over gloo, on every
rank of mpirun. NET: small, or one of tests/cluster/bench_ddp.py. CASE: options of DataParallel, and words behind them:

    against=OPTIONS  ours with other options is the judge, not DDP
    accumulate       three passes a step, by no_sync
    later            by model.step(optimizer); with result=values the library updates
    plain            no momentum: as rates change, Caffe's is another than PyTorch's
    channels_last    the parameters' order in memory
    left-out         one parameter is skipped, and the parameters must not be the same
    exits, raises    the last rank ends, or has an exception, in the fourth iteration

or "rounding": DDP against itself, from parameters that are one rounding away. NET "uses": what else a program may do, right or refused;
"emulated": some of that with gradients on an emulated GPU, that of the module POSEIDON_CALLS_MODULE.

Both sides train by themselves for ITERATIONS. Then ours takes over the judge's parameters, and the gradients of the next
iteration are held against each other: the norm of a tensor's difference over its norm is rounding, at most 1e-6.
Of runs by themselves that cannot be asked: a rounding flips what ReLU or max pooling decide (docs/library.md).
"""
import contextlib
import copy
import ctypes
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, os.pardir, os.pardir, "python"), os.path.join(HERE, os.pardir, "cluster")]
import poseidon.torch  # noqa: E402
import torch  # noqa: E402
import torch.distributed  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

ITERATIONS, ROUNDING = 10, 1e-6
BATCHES = {"small": 6, "alexnet": 2, "vgg16_64": 4, "resnet50": 2}


class Small(torch.nn.Module):
    shape, classes = (3, 16, 16), 10

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
        self.first = torch.nn.Linear(8 * 8 * 8, 300)
        self.second = torch.nn.Linear(300, 200)
        self.sometimes = torch.nn.Linear(200, 200, bias=False)
        self.twice = torch.nn.Linear(200, 200)
        self.uncalled = torch.nn.Linear(200, 200)
        self.last = torch.nn.Linear(200, 10)

    def forward(self, x, more=True):
        x = torch.relu(self.first(self.features(x).flatten(1)))
        x = torch.relu(self.second(x))
        if more:
            x = x + self.sometimes(x)
        x = self.twice(torch.relu(self.twice(x)))
        return self.last(torch.relu(functional.linear(x, self.uncalled.weight, self.uncalled.bias)))


def make(name):
    if name == "small":
        return Small()
    from bench_torch_ddp import NETS, Model
    net = Model(NETS[name]())
    net.shape, net.classes = net.net.shape, net.net.classes
    return net


class Side:
    """One way to train the net."""

    def __init__(self, name, options, words, passes):
        torch.manual_seed(poseidon.torch.rank())  # rank 0's are to become everybody's
        self.net, self.words, self.passes, self.small = make(name), words, passes, name == "small"
        for buffer in self.net.buffers():
            buffer.add_(poseidon.torch.rank())
        if "channels_last" in words:
            self.net.to(memory_format=torch.channels_last)
        names = list(self.net.state_dict())
        self.ours = options not in ("ddp", "rounding")
        if options == "rounding":
            with torch.no_grad():
                for p in self.net.parameters():
                    p.mul_(1 + 2**-24 * torch.randn(p.shape))
        if self.ours:
            comm, *more = options.partition("=")[2].split(",") + ["stall-timeout=none"]  # DDP takes its time, too
            self.model = poseidon.torch.DataParallel(self.net, comm, ",".join(more))
            if "left-out" in words:
                send, first = self.model._send, next(self.net.parameters())
                self.model._send = lambda p: (p is first and setattr(p, "grad", None), send(p))
        else:
            self.model = DistributedDataParallel(self.net, find_unused_parameters=self.small)
        assert list((self.model if self.ours else self.net).state_dict()) == names
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.0 if "plain" in words else 0.9)
        self.later, self.values = self.ours and "later" in words, "result=values" in options
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.9)

    def gradients(self, iteration, batch):
        rank, ranks = poseidon.torch.rank(), poseidon.torch.size()
        generator = torch.Generator().manual_seed(7 + iteration)
        torch.manual_seed(1000 * iteration + rank)  # of dropout
        self.optimizer.zero_grad(set_to_none=iteration % 2 == 0)
        for i in range(self.passes):
            x = torch.randn(ranks, batch, *self.net.shape, generator=generator)[rank]
            y = torch.randint(self.net.classes, (ranks, batch), generator=generator)[rank]
            more = (iteration == 0 or (iteration + rank) % 3 > 0,) if self.small else ()
            with self.model.no_sync() if i + 1 < self.passes else contextlib.nullcontext():
                functional.cross_entropy(self.model(x, *more).flatten(1), y).backward()
        return None if self.later else [p.grad.clone() for p in self.net.parameters()]

    def step(self):
        if not self.values:
            self.model.step(self.optimizer) if self.later else self.optimizer.step()
        self.scheduler.step()
        if self.values:
            self.model.library.call("set_rate", self.model.handle, ctypes.c_float(self.scheduler.get_last_lr()[0]))

    def parameters(self):
        state = self.model.state_dict()  # which waits for all
        assert all(torch.equal(a, b) for a, b in zip(state.values(), self.net.state_dict().values()))
        return list(self.net.parameters())


def apart(mine, its, names):
    """The largest norm of a difference over the norm, and whose it is."""
    return max((float((a.detach() - b.detach()).norm() / b.detach().norm().clamp(min=1e-30)), name)
               for a, b, name in zip(mine, its, names))


def same_everywhere(tensors):
    """Whether the ranks' bits are the same."""
    sums = torch.stack([t.detach().double().sum() for t in tensors])
    least, most = sums.clone(), sums.clone()
    torch.distributed.all_reduce(least, torch.distributed.ReduceOp.MIN)
    torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
    return torch.equal(least, most)


def run(name, case):
    options, *words = case.split()
    judge = next((word[8:] for word in words if word.startswith("against=")), "ddp")
    rank, ranks, passes = poseidon.torch.rank(), poseidon.torch.size(), 3 if "accumulate" in words else 1
    with contextlib.ExitStack() as stack:
        a = Side(name, options, words, passes)
        if a.ours:
            stack.push(a.model)
        b = Side(name, judge, [word for word in words if word in ("channels_last", "plain")], passes)
        if b.ours:
            stack.push(b.model)
        assert not a.ours or all(torch.equal(x, y) for x, y in zip(a.net.state_dict().values(), b.net.state_dict().values()))
        names, free = [n for n, _ in a.net.named_parameters()], 0
        for iteration in range(ITERATIONS):
            mine, its = a.gradients(iteration, BATCHES[name]), b.gradients(iteration, BATCHES[name])
            free = apart(mine, its, names) if mine else "-"
            if iteration == 3 and rank == ranks - 1:
                if "exits" in words:
                    os._exit(3)
                if "raises" in words:
                    raise ValueError("no more data")
            a.step(), b.step()
        end, bits = apart(a.parameters(), b.parameters(), names), same_everywhere(a.parameters())
        fixed = "-"
        if not a.later:
            with torch.no_grad():
                for x, y in zip(list(a.net.parameters()) + list(a.net.buffers()), list(b.net.parameters()) + list(b.net.buffers())):
                    x.copy_(y)
            fixed = apart(a.gradients(ITERATIONS, BATCHES[name]), b.gradients(ITERATIONS, BATCHES[name]), names)
        factors = [n for n, p in a.net.named_parameters() if a.ours and p in a.model.factors.rows]
    if rank == 0:
        print("%s, %d ranks, %s: gradients %s apart; by themselves gradients %s, parameters %s; as factors: %s" % (
            name, ranks, case, *("%.1e (%s)" % far if far != "-" else far for far in (fixed, free, end)),
            " ".join(factors) or "none"), flush=True)
    if "left-out" in words:
        return end[0] > 1e-3
    exact = judge != "ddp" and "later" in words and not a.values
    return bits and (fixed == "-" or fixed[0] < ROUNDING) and (end[0] == 0 if exact else end[0] < 1e-5 or name != "small")


class Uses(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(40, 30, bias=False), torch.nn.Linear(30, 30)
        self.sometimes, self.last = torch.nn.Linear(30, 30), torch.nn.Linear(30, 10)

    def forward(self, x, more=True):
        x = torch.relu(self.second(torch.relu(self.first(x.to(self.first.weight.dtype)))))
        return self.last(x + self.sometimes(x) if more else x).float()


class Emulated(poseidon.torch.Memory):
    """PyTorch has no emulated GPU: its tensors lie in the host's memory, as the emulated GPU's does, where gradients are. Whatever is
    asked for in a stream comes as late as can be, so PyTorch, which knows no such stream, waits for it after each call."""

    def __init__(self, device):
        self.device, self.cuda, self.at = device, True, ctypes.c_void_p()
        self.run_time = ctypes.CDLL(os.environ["POSEIDON_CALLS_MODULE"])
        assert self.run_time.cudaStreamCreateWithFlags(ctypes.byref(self.at), 1) == 0

    def stream(self):
        return self.at.value

    def array(self, p):
        memory, bytes_ = ctypes.c_void_p(), p.numel() * p.element_size()
        assert self.run_time.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(bytes_)) == 0
        there = (ctypes.c_uint8 * bytes_).from_address(memory.value)
        return torch.frombuffer(there, dtype=p.dtype).as_strided(p.shape, p.stride())

    def call(self, library, how, *arguments):
        super().call(library, how, *arguments)
        self.run_time.cudaStreamSynchronize(self.at)


def end(model):  # one that has failed
    try:
        model.library.destroy(model.handle)
    except RuntimeError:
        pass


def use(options, passes, refused=None, near=1e-4, step=None, frozen=False, compiled=False, half=None, clip=None, empty=False, **how):
    """Three steps of passes(MODEL, ITERATION, RANK), which is called with plain nets in the place of all ranks, too: True where the
    parameters are the same in the end, or where the error has the text `refused`; else what was found. step: not optimizer.step().
    clip: the largest norm, by PyTorch's function, which has to tell the same norm on both sides."""
    torch.manual_seed(1)
    net, plain, rank, ranks = Uses().to(half), Uses().to(half), poseidon.torch.rank(), poseidon.torch.size()
    plain.load_state_dict(net.state_dict())
    net.second.weight.requires_grad_(not frozen)
    if empty:
        for n in net, plain:
            n.first.none, n.none = torch.nn.Parameter(torch.zeros(5, 0)), torch.nn.Parameter(torch.zeros(0))
    start = [p.detach().clone() for p in net.parameters()]
    comm, _, more = options.partition(",")
    more = "stall-timeout=60s," + (more or "hierarchy=off")
    model = poseidon.torch.DataParallel(torch.compile(net, backend="aot_eager") if compiled else net, comm, more, **how)
    optimizers = [torch.optim.SGD(n.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1) for n in (net, plain)]
    try:
        for iteration in range(3):
            for p in plain.parameters():
                p.grad = None
            for r in range(ranks):
                mine = copy.deepcopy(plain)
                passes(mine, iteration, r)
                for p, q in zip(plain.parameters(), mine.parameters()):
                    p.requires_grad_(q.requires_grad)
                    if q.grad is not None:
                        p.grad = q.grad / ranks + (0 if p.grad is None else p.grad)
            optimizers[0].zero_grad(set_to_none=iteration == 1)
            passes(model, iteration, rank)
            norms = [torch.nn.utils.clip_grad_norm_(n.parameters(), clip) for n in (net, plain)] if clip else [1, 1]
            if abs(norms[0] / norms[1] - 1) > 1e-5:
                return f"norms {norms}"
            step(model, optimizers[0]) if step else optimizers[0].step()
            optimizers[1].step()
        model.close()
    except RuntimeError as e:
        end(model)
        return refused is not None and refused in str(e) or str(e)
    far = max(float((p - q).detach().norm() / (q - at).detach().norm().clamp(min=1e-9))
              for p, q, at in zip(net.parameters(), plain.parameters(), start))
    return refused is None and far < near or f"{far:.1e} apart"


def uses(names=None):
    def loss(model, iteration, rank, part=0, rows=4, at=None, **named):
        generator = torch.Generator().manual_seed(100 * iteration + 10 * rank + part)
        x = torch.randn(rows, 40, generator=generator)
        x = x if at is None else at[:rows].copy_(x)  # the same memory for every batch
        return functional.cross_entropy(model(x, **named), torch.randint(10, (rows,), generator=generator))

    def net_of(model):
        net = getattr(model, "module", model)
        return getattr(net, "_orig_mod", net)

    def alone(model):
        return getattr(model, "no_sync", contextlib.nullcontext)()

    def autocast(*at):
        with torch.autocast("cpu", torch.bfloat16):
            x = loss(*at)
        x.backward()

    def penalty(model, *at):
        (loss(model, *at) + 0.01 * net_of(model).second.weight.abs().sum()).backward()

    def elsewhere(model, *at):
        (loss(model, *at) + functional.linear(torch.ones(30), net_of(model).second.weight).pow(2).mean()).backward()

    def slope(model, *at):  # a penalty on the gradient of the input
        x = torch.ones(4, 40, requires_grad=True)
        there, = torch.autograd.grad(model(x).logsumexp(1).sum(), x, create_graph=True)
        (loss(model, *at) + there.norm()).backward()

    def asks(model, *at):  # for the gradient of an input, and forgets it
        x = torch.ones(4, 40, requires_grad=True)
        torch.autograd.grad(model(x).sum(), x)
        loss(model, *at).backward()

    def asks_weight(model, *at):
        torch.autograd.grad(loss(model, *at), net_of(model).second.weight, allow_unused=True)
        loss(model, *at).backward()

    def twice(model, *at):
        for part in range(2):
            loss(model, *at, part).backward()

    def waits(model, *at):
        for part in range(2):
            loss(model, *at, part).backward()
            getattr(model, "wait", list)()

    def again(*at):
        x = loss(*at)
        x.backward(retain_graph=True)
        x.backward()

    def together(*at):
        (loss(*at) + loss(*at, 1)).backward()

    def unused(model, *at):  # in the pass that is sent
        with alone(model):
            loss(model, *at).backward()
        loss(model, *at, 1, more=at[0] == 0).backward()

    def zeroed(model, *at):  # what no_sync added up is given up; and x is changed afterwards
        x = torch.zeros(4, 40)
        for part in range(3):
            with alone(model) if part < 2 else contextlib.nullcontext():
                loss(model, *at, part, at=x).backward()
            if part == 0:
                for p in net_of(model).parameters():
                    p.grad = None

    def unlike(*at):  # rank 0 has most, in the first step
        loss(*at, rows=6 - at[2] - at[1]).backward()

    def more(*at):
        loss(*at, rows=4 + at[2]).backward()

    def tests_first(model, iteration, rank):
        if iteration == 0:
            loss(model, iteration, rank, 1, rows=2)
        loss(model, iteration, rank).backward()

    def freezes(model, *at):
        if at[0] == 1:
            for p in net_of(model).second.parameters():
                p.requires_grad_(False)
                p.grad = None
        loss(model, *at).backward()

    def unfreezes(model, *at):
        if at[0] == 1:
            net_of(model).second.weight.requires_grad_(True)
        loss(model, *at).backward()

    def loads(model, *at):
        if at[0] == 1:
            model.load_state_dict(net_of(model).state_dict())
        loss(model, *at).backward()

    def copies(model, *at):
        if at[0] == 1 and isinstance(model, poseidon.torch.DataParallel):
            for other in copy.deepcopy(model), copy.deepcopy(model.module):
                with torch.no_grad():
                    other.second.weight.zero_()
                loss(other, *at).backward()
                assert not torch.equal(other(torch.ones(1, 40)), model(torch.ones(1, 40))) and other.second.weight.grad.any()
        loss(model, *at).backward()

    def plain(*at):
        loss(*at).backward()

    def later(model, optimizer):
        model.step(optimizer)

    def looks(model, optimizer):  # at the gradients, behind the step, as a log does
        model.step(optimizer)
        assert all(p.grad.any() for p in net_of(model).parameters())

    def double(p):
        p.grad.mul_(2)

    def hooked(how, first=0):
        def passes(model, *at):
            p = net_of(model).second.weight
            undo = getattr(p, how)((lambda g: 2 * g) if how == "register_hook" else double) if at[0] >= first else None
            loss(model, *at).backward()
            if undo:
                undo.remove()
        return passes

    def scaled(model, *at):
        mine = isinstance(model, poseidon.torch.DataParallel)
        (scaler[0].scale(loss(model, *at)) if mine else loss(model, *at)).backward()

    def unscaled(model, optimizer):
        scaler[0].unscale_(optimizer)
        model.step(optimizer)
        scaler[0].update()

    def way_of_last(seconds):
        """By auto with lossy=, over a link that slow.cluster says to be slow, where the layers before it compute for so long."""
        net, said = Uses(), ctypes.create_string_buffer(256)  # struct poseidon_traffic begins with the scheme
        net.second.register_forward_hook(lambda *_: time.sleep(seconds))
        with poseidon.torch.DataParallel(net, options="lossy=bf16+lowrank:1,hierarchy=off,merge=0,cluster-file=slow.cluster") as model:
            loss(model, 0, poseidon.torch.rank()).backward()
            model.library.call("report", model.handle, list(model.names.values()).index("last.weight"), said)
        return said.value.decode()

    def continues(comm, options, later=False):
        """Four steps; after two a new DataParallel goes on, to the same bits with comm_state(), and to others without."""
        ends, rank, options = [], poseidon.torch.rank(), options + ",hierarchy=off,stall-timeout=60s"
        for how in "in one piece", "with the state", "without":
            torch.manual_seed(1)
            net = Uses()
            model, optimizer = poseidon.torch.DataParallel(net, comm, options), torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
            for iteration in range(4):
                if iteration == 2 and how != "in one piece":
                    state = model.comm_state()
                    assert (state is None) == (rank > 0)
                    model.close()
                    model = poseidon.torch.DataParallel(net, comm, options, state=state if how == "with the state" else None)
                    assert model.comm_state() is (state if how == "with the state" else None)
                optimizer.zero_grad()
                loss(model, iteration, rank).backward()
                model.step(optimizer) if later else model.values or optimizer.step()
            model.close()
            ends.append([p.detach().clone() for p in net.parameters()])
        same = [all(map(torch.equal, end, ends[0])) for end in ends[1:]]
        return same == [True, False] or f"with the state the same: {same[0]}, without: {same[1]}"

    def other_states():
        """One with a damaged byte, and one of other options."""
        said, net, rank = [], Uses(), poseidon.torch.rank()
        with poseidon.torch.DataParallel(net, "ps", "wire=bf16,stall-timeout=60s") as model:
            loss(model, 0, rank).backward()
            state = model.comm_state()
        model = poseidon.torch.DataParallel(net, "ps", "stall-timeout=60s", state=state)
        try:
            loss(model, 0, rank).backward()
        except RuntimeError as e:
            end(model)
            said.append("is from another job with options" in str(e) or str(e))
        if rank == 0:
            state[len(state) // 2] ^= 1
        try:
            poseidon.torch.DataParallel(net, "ps", state=state)
        except RuntimeError as e:
            said.append("is damaged" in str(e) or str(e))
        return said == [True, True] or str(said)

    def at_once(_, optimizer):
        scaler[0].step(optimizer)
        scaler[0].update()

    whole, scaler = "factors=False", []
    tries = {
        "autocast": lambda: use("sfb", autocast, near=0.03), "a penalty": lambda: use("sfb", penalty, whole),
        "a penalty, by servers": lambda: use("ps", penalty), "a penalty, whole": lambda: use("sfb", penalty, factors=False),
        "another use": lambda: use("sfb", elsewhere, whole), "a gradient penalty": lambda: use("sfb", slope, whole),
        "a gradient penalty, by servers": lambda: use("ps", slope), "an input's gradient": lambda: use("sfb", asks),
        "a weight's gradient": lambda: use("sfb", asks_weight, whole), "two passes": lambda: use("sfb", twice, whole),
        "two passes, by servers": lambda: use("ps", twice), "a graph twice": lambda: use("sfb", again, whole),
        "two losses": lambda: use("sfb", together), "torch.compile": lambda: use("sfb", plain, compiled=True),
        "a last pass without a layer": lambda: use("sfb", unused), "the same, by servers": lambda: use("ps", unused),
        "no_sync and zero_grad": lambda: use("sfb", zeroed), "two passes, later": lambda: use("ps", twice, "no model.step()", step=later),
        "two passes, later, and model.wait()": lambda: use("ps", waits, step=later),
        "unlike batches": lambda: use("sfb", unlike), "a batch larger than rank 0's": lambda: use("sfb", more, whole),
        "the same where none sends factors": lambda: use("auto,hierarchy=auto", more), "a test first": lambda: use("sfb", tests_first),
        "freezing": lambda: use("sfb", freezes), "unfreezing": lambda: use("sfb", unfreezes, "unfrozen", frozen=True),
        "copies": lambda: use("sfb", copies),
        "lossy, where the link is waited for": lambda: any(word in way_of_last(0) for word in ("bf16", "low rank")) or way_of_last(0),
        "lossy, where computation hides it": lambda: way_of_last(1) in ("PS", "SFB", "allreduce") or way_of_last(1),
        "low rank, broken off": lambda: continues("lowrank:1", "lowrank-warmup=0"),
        "one bit, broken off, later": lambda: continues("onebit", "merge=0", later=True),
        "momentum, broken off": lambda: continues("ps", "result=values,base_lr=0.1,momentum=0.9"), "other states": other_states,
        "clipping": lambda: use("sfb", plain, clip=0.5), "clipping, later": lambda: use("sfb", plain, step=later, clip=0.5),
        "clipping, later, by servers": lambda: use("ps", plain, step=later, clip=0.5), "a look, later": lambda: use("ps", plain, step=looks),
        "clipping, by the library": lambda: use("ps,hierarchy=off,result=values", plain, "result=values leaves it to the library", clip=1),
        "a hook": lambda: use("sfb", hooked("register_hook")), "a hook from the second step on": lambda: use("sfb", hooked("register_hook", 1), whole),
        "a hook behind": lambda: use("sfb", hooked("register_post_accumulate_grad_hook")),
        "no elements": lambda: use("sfb", plain, empty=True), "no elements, later": lambda: use("sfb", plain, step=later, empty=True),
        "float16": lambda: use("ps", plain, near=0.02, half=torch.float16),
        "bfloat16": lambda: use("sfb", plain, near=0.1, half=torch.bfloat16), "later": lambda: use("ps", plain, step=later),
        "TCP": lambda: os.environ["OMPI_MCA_btl_tcp_flags"] == "send,inplace",
        "loaded values": lambda: use("ps,hierarchy=off,result=values", loads, "result=values"),
    }
    if hasattr(torch.amp, "GradScaler"):
        tries["GradScaler, all at once"] = lambda: scaler.append(torch.amp.GradScaler("cpu")) or use("sfb", scaled, step=at_once)
        tries["GradScaler"] = lambda: use("ps", scaled, "GradScaler", step=unscaled)  # stays: the last ones
    found = {name: attempt() for name, attempt in tries.items() if not names or name in names}
    return [f"{name}: {what}" for name, what in found.items() if what is not True]


def main():
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(poseidon.torch.rank()), WORLD_SIZE=str(poseidon.torch.size()))
    torch.distributed.init_process_group("gloo")
    if sys.argv[1] == "emulated":
        poseidon.torch.Memory = Emulated
    bad = uses(sys.argv[2:]) if sys.argv[1] in ("uses", "emulated") else [case for case in sys.argv[2:] if not run(sys.argv[1], case)]
    torch.distributed.destroy_process_group()
    poseidon.torch.finalize()
    return "failed: " + "; ".join(bad) if bad else 0


sys.exit(main())
