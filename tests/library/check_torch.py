#!/usr/bin/env python3
"""check_torch.py CASE [OPTIONS]: gradients by examples/pytorch/poseidon_torch.py against those of DistributedDataParallel
over gloo, on every rank of mpirun. CASE: same; left-out (one parameter's hook is taken away: must not be the same);
accumulate (three passes a step, by no_sync); dies (the last rank fails)."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "examples", "pytorch"))
import poseidon_torch  # noqa: E402
import torch  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

CASE, OPTIONS = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
ITERATIONS, BATCH = 10, 6


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
        self.first = torch.nn.Linear(8 * 8 * 8, 300)
        self.second = torch.nn.Linear(300, 200)
        self.sometimes = torch.nn.Linear(200, 200, bias=False)
        self.last = torch.nn.Linear(200, 10)

    def forward(self, x, more):
        x = torch.relu(self.first(self.features(x).flatten(1)))
        x = torch.relu(self.second(x))
        if more:
            x = x + self.sometimes(x)
        return self.last(x)


def train(model, passes, rank, ranks):
    """Gradients of every iteration, and the parameters at the end."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(7)
    gradients = []
    for iteration in range(ITERATIONS):
        optimizer.zero_grad(set_to_none=iteration % 2 == 0)
        for i in range(passes):
            x = torch.randn(ranks, BATCH, 3, 16, 16, generator=generator)[rank]
            y = torch.randint(10, (ranks, BATCH), generator=generator)[rank]

            def backward():
                torch.nn.functional.cross_entropy(model(x, iteration == 0 or (iteration + rank) % 3 > 0), y).backward()

            if i + 1 < passes:
                with model.no_sync():
                    backward()
            else:
                backward()
        if CASE == "dies" and iteration == 3 and rank == ranks - 1:
            raise SystemExit(3)
        gradients.append([p.grad.clone() for p in model.module.parameters()])
        optimizer.step()
    return gradients, [p.detach().clone() for p in model.module.parameters()]


def main():
    torch.set_num_threads(1)
    rank, ranks = poseidon_torch.rank(), poseidon_torch.size()
    passes = 3 if CASE == "accumulate" else 1
    torch.manual_seed(rank)  # rank 0's parameters are to become everybody's
    net = Net()
    model = poseidon_torch.DataParallel(net, options=OPTIONS, accumulate=passes)
    torch.manual_seed(0)
    other = Net()
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values()))
    assert list(model.state_dict()) == list(other.state_dict())
    if CASE == "left-out":
        model._after_gradient_of = model._after_gradient
        model._after_gradient = lambda p: None if p is net.features[0].weight else model._after_gradient_of(p)
    ours, ours_end = train(model, passes, rank, ranks)
    if rank == 0:
        print(model.advice())
    moved = [name for name, p in net.named_parameters() if p in model.factors]
    model.close()
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group("gloo")
    theirs, theirs_end = train(DistributedDataParallel(other, find_unused_parameters=True), passes, rank, ranks)
    torch.distributed.destroy_process_group()
    far = [max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in zip(mine, its))
           for mine, its in zip(ours + [ours_end], theirs + [theirs_end])]
    print(f"rank {rank}: {CASE} {OPTIONS}: at most {far[0]:.1e} apart at first, then {max(far):.1e}, parameters {far[-1]:.1e}; "
          f"as factors: {' '.join(moved) or 'none'}", flush=True)
    poseidon_torch.finalize()
    return 0 if far[0] < 3e-6 and max(far) < 1e-4 and far[-1] < 1e-5 else 1


sys.exit(main())
