#!/usr/bin/env python3
"""One rank of PyTorch DistributedDataParallel over gloo, for bench_ddp.py and bench_library.py; started by mpirun.

    mpirun -np N bench_torch_ddp.py NET BATCH ITERATIONS ADDRESS INTERFACE HOOK

Trains the net (bench_ddp.NETS) on random images, BATCH a rank, SGD with momentum, one thread, in
channels_last, which is the faster format here. Rank 0 prints images/s of all ranks, and the processor time of an
iteration of its own in ms, all threads: means over ITERATIONS after WARM_UP that do not count. ADDRESS:29500
is where rank 0 is met, INTERFACE what gloo uses. HOOK: ddp (none), bf16, or powersgd:R, which begins in the third iteration, the first that PyTorch allows; or options of
poseidon.torch.DataParallel in DDP's place, comm=... first, ",later" among them for model.step(optimizer).
"""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from bench_ddp import NETS, WARM_UP  # noqa: E402


class Model(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.parts = net, net.modules

    def forward(self, x):
        return self.net.forward(x).flatten(1)


def wrapped(model, hook):
    if hook.startswith("comm="):
        sys.path.append(os.path.join(HERE, os.pardir, os.pardir, "python"))
        import poseidon.torch
        comm, *options = (word for word in hook[5:].split(",") if word != "later")
        return poseidon.torch.DataParallel(model, comm, ",".join(options))
    # gloo mixes up PowerSGD's sums of several buckets, which ranks begin in different orders, and aborts: it gets one
    buckets = {"bucket_cap_mb": 4000} if hook.startswith("powersgd:") else {}
    model = nn.parallel.DistributedDataParallel(model, **buckets)
    if hook == "bf16":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
        model.register_comm_hook(None, bf16_compress_hook)
    elif hook.startswith("powersgd:"):
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
        model.register_comm_hook(power.PowerSGDState(None, int(hook[9:]), start_powerSGD_iter=2), power.powerSGD_hook)
    elif hook != "ddp":
        sys.exit("unknown hook %s (ddp, bf16, powersgd:R, comm=...)" % hook)
    return model


def main():
    name, batch, iterations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.environ["GLOO_SOCKET_IFNAME"] = sys.argv[5]
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="tcp://%s:29500" % sys.argv[4], rank=rank, world_size=size)
    torch.manual_seed(1)
    net = NETS[name]()
    hook = sys.argv[6]
    model = wrapped(Model(net).to(memory_format=torch.channels_last), hook)
    ours, later = hook.startswith("comm="), "later" in hook.split(",")
    rule = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)
    images = torch.rand(batch, *net.shape).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(net.classes, (batch,))
    for i in range(WARM_UP + iterations):
        if i == WARM_UP:
            dist.barrier()
            start, used = time.perf_counter(), time.process_time()
        rule.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        model.step(rule) if later else rule.step()
    if ours:
        model.wait()
    used = time.process_time() - used
    dist.barrier()
    seconds = time.perf_counter() - start
    if rank == 0:
        print("images/s %.6g, processor ms %.6g" % (size * batch * iterations / seconds, 1e3 * used / iterations), flush=True)
    dist.destroy_process_group()
    if ours:
        model.close()
        sys.modules["poseidon.torch"].finalize()


if __name__ == "__main__":
    main()
