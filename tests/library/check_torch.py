#!/usr/bin/env python3
"""check_torch.py NET CASE...: examples/pytorch/poseidon_torch.py against DistributedDataParallel over gloo, on every
rank of mpirun. NET: small, or one of tests/cluster/bench_ddp.py. CASE: options of DataParallel, and words behind them:

    against=OPTIONS  ours with other options is the judge, not DDP
    accumulate       three passes a step, by no_sync
    later            by model.step(optimizer); with result=values the library updates
    plain            no momentum: as rates change, Caffe's is another than PyTorch's
    channels_last    the parameters' order in memory
    left-out         one parameter's hook is taken away, and the parameters must not be the same
    exits, raises    the last rank ends, or has an exception, in the fourth iteration

or "rounding": DDP against itself, from parameters that are one rounding away.

Both sides train by themselves for ITERATIONS. Then ours takes over the judge's parameters, and the gradients of the next
iteration are held against each other: the norm of a tensor's difference over its norm is rounding, at most 1e-6.
Of runs by themselves that cannot be asked: a rounding flips what ReLU or max pooling decide (docs/library.md).
"""
import contextlib
import ctypes
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, os.pardir, os.pardir, "examples", "pytorch"), os.path.join(HERE, os.pardir, "cluster")]
import poseidon_torch  # noqa: E402
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
        torch.manual_seed(poseidon_torch.rank())  # rank 0's are to become everybody's
        self.net, self.words, self.passes, self.small = make(name), words, passes, name == "small"
        for buffer in self.net.buffers():
            buffer.add_(poseidon_torch.rank())
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
            self.model = poseidon_torch.DataParallel(self.net, comm, ",".join(more), passes)
            if "left-out" in words:
                keep, first = self.model._after_gradient, next(self.net.parameters())
                self.model._after_gradient = lambda p: None if p is first else keep(p)
        else:
            self.model = DistributedDataParallel(self.net, find_unused_parameters=self.small)
        assert list((self.model if self.ours else self.net).state_dict()) == names
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.0 if "plain" in words else 0.9)
        self.later, self.values = self.ours and "later" in words, "result=values" in options
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.9)

    def gradients(self, iteration, batch):
        rank, ranks = poseidon_torch.rank(), poseidon_torch.size()
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
        self.model.step(self.optimizer) if self.later and not self.values else self.optimizer.step()
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
    rank, ranks, passes = poseidon_torch.rank(), poseidon_torch.size(), 3 if "accumulate" in words else 1
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
        factors = [n for n, p in a.net.named_parameters() if a.ours and p in a.model.factors]
    if rank == 0:
        print("%s, %d ranks, %s: gradients %s apart; by themselves gradients %s, parameters %s; as factors: %s" % (
            name, ranks, case, *("%.1e (%s)" % far if far != "-" else far for far in (fixed, free, end)),
            " ".join(factors) or "none"), flush=True)
    if "left-out" in words:
        return end[0] > 1e-3
    exact = judge != "ddp" and "later" in words and not a.values
    return bits and (fixed == "-" or fixed[0] < ROUNDING) and (end[0] == 0 if exact else end[0] < 1e-5 or name != "small")


def main():
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(poseidon_torch.rank()), WORLD_SIZE=str(poseidon_torch.size()))
    torch.distributed.init_process_group("gloo")
    bad = [case for case in sys.argv[2:] if not run(sys.argv[1], case)]
    torch.distributed.destroy_process_group()
    poseidon_torch.finalize()
    return "failed: " + "; ".join(bad) if bad else 0


sys.exit(main())
