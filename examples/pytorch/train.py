#!/usr/bin/env python3
"""Trains a net of torchvision on all ranks by libposeidon; where there is no
torchvision, a net of its own. mpirun -np 4 python3 train.py --data=FOLDER

FOLDER has train/ and val/ with one folder of pictures a class (that takes
torchvision), the four files of MNIST (train-images-idx3-ubyte.gz, ...) or
Fashion-MNIST, or CIFAR-10's binary form (data_batch_1.bin, ..., test_batch.bin)
"""
import argparse
import ctypes
import glob
import gzip
import math
import os
import sys
import time

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

try:
    import poseidon.torch
except ModuleNotFoundError as error:
    sys.exit(f"train.py: {error}: pip install {os.path.normpath(os.path.join(os.path.abspath(__file__), '../../../python'))}")
try:
    import torchvision
except ImportError:
    torchvision = None


HALVES = {"cuda": torch.float16, "cpu": torch.bfloat16}


class Block(nn.Module):  # two convolutions, and what came in is added
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.path(x) + self.short(x))


def make_net(name, classes):
    if torchvision:
        return torchvision.models.get_model(name, num_classes=classes)
    if name != "resnet18":
        sys.exit(f"--net={name}: expected resnet18, as there is no torchvision (pip install torchvision)")
    blocks = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        *(Block(*block) for block in blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def read_idx(path):
    data = numpy.frombuffer(gzip.open(path).read(), numpy.uint8)
    header = 4 + 4 * data[3]
    return torch.from_numpy(data[header:].reshape(*data[4:header].view(">i4")).copy())


def read_data(folder, train):
    """Pictures with their classes, in bytes (3 x height x width), and how many classes there are."""
    name = os.path.join(folder, "train" if train else "t10k")
    if os.path.exists(name + "-images-idx3-ubyte.gz"):
        images, labels = read_idx(name + "-images-idx3-ubyte.gz"), read_idx(name + "-labels-idx1-ubyte.gz")
        return TensorDataset(images[:, None].expand(-1, 3, -1, -1), labels.long()), 10
    files = sorted(glob.glob(os.path.join(folder, "data_batch_*.bin" if train else "test_batch.bin")))
    if files:
        data = torch.from_numpy(numpy.concatenate([numpy.fromfile(file, numpy.uint8) for file in files]).reshape(-1, 3073))
        return TensorDataset(data[:, 1:].reshape(-1, 3, 32, 32), data[:, 0].long()), 10
    if not torchvision or not os.path.isdir(os.path.join(folder, "train")):
        sys.exit(f"--data={folder}: no files of MNIST or CIFAR-10, and no folder train that torchvision could read")
    t = torchvision.transforms
    steps = [t.RandomResizedCrop(224), t.RandomHorizontalFlip()] if train else [t.Resize(256), t.CenterCrop(224)]
    images = torchvision.datasets.ImageFolder(os.path.join(folder, "train" if train else "val"), t.Compose(steps + [t.PILToTensor()]))
    return images, len(images.classes)


def add_up(sums):
    """An array's sum over all ranks, by a handle that lives for it alone."""
    call, handle = poseidon.torch.library().call, ctypes.c_void_p()
    tensor = poseidon.torch.Tensor(name=b"sums", elems=len(sums), gradient=sums.ctypes.data)
    call("create", poseidon.torch.library().world, b"comm=ps,result=sum", ctypes.byref(handle))
    call("add", handle, ctypes.byref(tensor), None)
    call("start", handle), call("post", handle, 0), call("wait", handle, 0), call("destroy", handle)
    return sums


def run_epoch(model, data, optimizer=None, scaler=None):
    """Trains, or tests where there is no optimizer: the mean loss and the part that is right, over all ranks.

    scaler: with autocast; enabled where float16 is the half."""
    model.train(optimizer is not None)
    sums = torch.zeros(3)
    for images, labels in data:
        device = model.memory.device
        images, labels = images.to(device), labels.to(device)
        with torch.set_grad_enabled(optimizer is not None), torch.autocast(device.type, HALVES[device.type], scaler is not None):
            scores = model(images.float() / 127.5 - 1)
            loss = nn.functional.cross_entropy(scores, labels)
        if optimizer:
            optimizer.zero_grad()
            (scaler.scale(loss) if scaler else loss).backward()
            if scaler and scaler.is_enabled():  # it looks at all gradients before the step
                scaler.step(optimizer), scaler.update()
            else:
                model.step(optimizer)
        sums += torch.tensor([loss.item() * len(labels), (scores.argmax(1) == labels).sum(), len(labels)])
    loss, right, count = add_up(sums.numpy())
    return loss / count, right / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="FOLDER")
    parser.add_argument("--net", default="resnet18", help="a name of torchvision.models")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="pictures a rank")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda: one GPU a rank; or cpu")
    parser.add_argument("--amp", action="store_true", help="autocast; on a GPU with GradScaler (PyTorch 2.3 or newer)")
    parser.add_argument("--comm", default="auto", help="how gradients travel: auto, sfb, lowrank:4, or auto,wire=bf16 ...")
    parser.add_argument("--checkpoint", default="checkpoint.pt", metavar="FILE", help="written after every epoch")
    parser.add_argument("--resume", action="store_true", help="begin with the checkpoint")
    o = parser.parse_args()
    rank, ranks, loaders = poseidon.torch.rank(), poseidon.torch.size(), []
    if rank == 0 and not os.access(os.path.dirname(o.checkpoint) or ".", os.W_OK | os.X_OK):
        sys.exit(f"--checkpoint={o.checkpoint}: cannot be written: expected a folder that exists and may be written to")
    for train in (True, False):
        data, classes = read_data(o.data, train)
        mine = DistributedSampler(data, ranks, rank) if train else range(rank, len(data), ranks)
        loaders.append(DataLoader(data, o.batch, sampler=mine))
    torch.manual_seed(1 + rank)
    if o.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", rank)) % torch.cuda.device_count())
    net, start = make_net(o.net, classes).to(o.device), 0
    scaler = torch.amp.GradScaler("cuda", enabled=o.device == "cuda") if o.amp else None
    optimizer = torch.optim.SGD(net.parameters(), lr=o.rate, momentum=0.9, weight_decay=5e-4)
    parts, state = {"net": net, "optimizer": optimizer}, None
    way = f"{ranks} ranks, {o.comm}, {o.batch} pictures each"
    if scaler and scaler.is_enabled():
        parts["scaler"] = scaler
    if o.resume:
        kept = torch.load(o.checkpoint, map_location="cpu")  # not all ranks to rank 0's GPU
        start = kept["epoch"]
        for name, part in parts.items():
            if name != "scaler" or name in kept:  # a run without --amp has none
                part.load_state_dict(kept[name])
        if kept.get("way") == way:
            state = kept["comm"]
        elif rank == 0:
            of = kept.get("way", "an older train.py")
            print(f"--resume: {way} begin without what gradients of the checkpoint's run ({of}) had yet to send", flush=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(  # of this run's epochs, whatever the checkpoint's run meant to have
        optimizer, lambda epoch: (1 + math.cos(math.pi * epoch / o.epochs)) / 2, last_epoch=start - 1)
    with poseidon.torch.DataParallel(net, o.comm, state=state) as model:
        for epoch in range(start, o.epochs):
            loaders[0].sampler.set_epoch(epoch)
            began = time.monotonic()
            loss, _ = run_epoch(model, loaders[0], optimizer, scaler)
            schedule.step()
            _, accuracy = run_epoch(model, loaders[1])
            values = {"epoch": epoch + 1, "way": way, "comm": model.comm_state()}  # after the last step, too
            if rank == 0:
                torch.save({**values, **{name: part.state_dict() for name, part in parts.items()}}, o.checkpoint + ".new")
                os.replace(o.checkpoint + ".new", o.checkpoint)
                print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy:.4f}, {time.monotonic() - began:.1f} s", flush=True)
        if rank == 0:
            print(model.advice())
    poseidon.torch.finalize()


if __name__ == "__main__":
    main()
